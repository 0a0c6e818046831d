"""The recorded exchanges in fixtures/: read, sent again, and compared.

Recorded from an unmodified SGLang 0.5.23 on the CPU. recorded_errors.json has whole answers; recorded_answers.json
the shape of successes, since tokens depend on the weights. `server` says which server a case was recorded on:
"plain" (with --enable-metrics) or "strict" (--skip-tokenizer-init, an API key, a bounded queue). A prompt of one
repeated token is written {"$repeat": [token, count]}.
"""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest
import requests

from tests.sglang.server import SglangServer

_FIXTURES = Path(__file__).resolve().parent / "fixtures"

# Where SGLang is installed, and on which line of it, is not part of the contract.
_SOURCE_PLACE = re.compile(r'File "[^"]*?(sglang/srt/[^"]+)", line \d+')

Case = dict[str, Any]


def error_cases(server: str) -> list[Any]:
    """pytest parameters: the recorded errors of one kind of server."""
    return _parameters(json.loads((_FIXTURES / "recorded_errors.json").read_text()), server)


def answer_cases(server: str) -> list[Any]:
    """pytest parameters: the recorded successes of one kind of server."""
    return _parameters(json.loads((_FIXTURES / "recorded_answers.json").read_text())["cases"], server)


def meta_keys(server: str) -> set[str]:
    """Keys of `meta_info` in every finished answer of one kind of server."""
    return set(json.loads((_FIXTURES / "recorded_answers.json").read_text())["meta_keys"][server])


def send(server: SglangServer, case: Case) -> requests.Response:
    """Send the recorded request; without an API key where it was recorded without."""
    headers = {}
    if "content_type" in case:
        headers["Content-Type"] = case["content_type"]
    if case.get("authorization"):
        headers["Authorization"] = case["authorization"]
    body = json.dumps(_expand(case["json"])) if "json" in case else case.get("body")
    return server.request(
        case["method"],
        case["path"],
        data=None if body is None else body.encode(),
        headers=headers,
        authorized="authorization" not in case,
    )


def comparable(text: str) -> Any:
    """An answer's body as it is compared: parsed where it is JSON, and without places in SGLang's source."""
    try:
        body = json.loads(text)
    except ValueError:
        body = text
    return _without_places(body)


def assert_same_error(server: SglangServer, case: Case) -> None:
    """Send a recorded error case; status and body must be the recorded ones."""
    response = send(server, case)
    assert response.status_code == case["status"], f"{case['name']}: {response.text}\n{server.log_tail()}"
    assert comparable(response.text) == _without_places(case["answer"])


def assert_same_shape(server: SglangServer, case: Case) -> None:
    """Send a recorded success; keys, counts and finish reasons must be the recorded ones."""
    response = send(server, case)
    assert response.status_code == case["status"], f"{case['name']}: {response.text}\n{server.log_tail()}"
    answer, expected = response.json(), case["answer"]
    assert isinstance(answer, list) == isinstance(expected, list)
    if not isinstance(expected, list):
        answer, expected = [answer], [expected]
    assert len(answer) == len(expected)
    for got, want in zip(answer, expected, strict=True):
        meta = got["meta_info"]
        assert sorted(got) == want["keys"]
        # decode_throughput is there only when more than one token was made, and only with metrics.
        assert set(meta) - {"decode_throughput"} == meta_keys(case["server"])
        for key in ("finish_reason", "prompt_tokens", "completion_tokens"):
            assert meta[key] == want[key], key
        assert meta["id"] == want["id"] if "id" in want else re.fullmatch("[0-9a-f]{32}", meta["id"])
        assert len(got["output_ids"]) == meta["completion_tokens"]


def _parameters(cases: list[Case], server: str) -> list[Any]:
    return [pytest.param(case, id=case["name"]) for case in cases if case["server"] == server]


def _expand(value: Any) -> Any:
    if isinstance(value, dict):
        if set(value) == {"$repeat"}:
            token, count = value["$repeat"]
            return [token] * count
        return {key: _expand(item) for key, item in value.items()}
    return value


def _without_places(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _without_places(item) for key, item in value.items()}
    return _SOURCE_PLACE.sub(r'File "\1", line 0', value) if isinstance(value, str) else value
