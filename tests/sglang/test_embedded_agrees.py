"""The same requests to the real server and to the embedded one: same status, same words, same shape, both ways.

The recordings are replayed on each of them elsewhere; these are requests that were never recorded.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from typing import Any

import pytest
import requests

from tests.sglang import recorded
from tests.sglang.server import SglangServer
from tests.whole_run import embedded_server

PROMPT = [71, 72, 73, 74, 75, 76, 77, 78, 79, 80]
# In meta_info, their types depend on the cache (null before anything was cached) and their presence on the timing.
NOT_COMPARED = {"cached_tokens_details", "decode_throughput"}
# Of /model_info: figures of embedding models, which the embedded server leaves out.
LEFT_OUT = {"embedding"}
COUNTED = ("finish_reason", "prompt_tokens", "completion_tokens", "weight_versions")


def sampled(**sampling: Any) -> dict[str, Any]:
    """A request whose answer has a length that is known, unless `sampling` changes that."""
    return {"input_ids": PROMPT, "sampling_params": {"max_new_tokens": 4, "ignore_eos": True, **sampling}}


def long(prompt: int, new: int) -> dict[str, Any]:
    return {"input_ids": [5] * prompt, "sampling_params": {"max_new_tokens": new, "ignore_eos": True}}


ANSWERED = {
    "all sampling fields of a run": sampled(temperature=0.6, top_p=0.95, top_k=20, min_p=0.01, stop=["zz"]),
    "penalties": sampled(frequency_penalty=0.5, presence_penalty=0.5, repetition_penalty=1.1),
    "min_new_tokens": sampled(min_new_tokens=4),
    "no stop": sampled(stop=[], stop_token_ids=[]),
    "greedy takes no notice of top_k": sampled(temperature=0, top_k=0),
    "whole vocabulary": sampled(top_k=-1),
    "seed": sampled(sampling_seed=7),
    "n": sampled(n=2),
    "our rid": {**sampled(), "rid": "e3.0123456789abcdef.19a3f"},
    "text": {"text": "hello", "sampling_params": {"max_new_tokens": 2, "ignore_eos": True}},
    "prompt ids back": {**sampled(), "return_prompt_token_ids": True},
    "unknown fields": {**sampled(), "prompt_token_ids": [1, 2], "sample_id": "a"},
    "longest prompt": long(2041, 1),
    "last that has room": long(2034, 12),
    "one token short, unsaid": long(2035, 12),
    "two tokens short, unsaid": long(2036, 12),
}
REFUSED = {
    "one token over the context": long(2037, 12),
    "prompt too long for any answer": long(2042, 1),
    "top_p above": sampled(top_p=1.5),
    "top_p below": sampled(top_p=0),
    "top_k": sampled(top_k=-2),
    "min_p": sampled(min_p=1.5),
    "temperature as text": sampled(temperature="warm"),
    "frequency_penalty": sampled(frequency_penalty=3),
    "presence_penalty": sampled(presence_penalty=-2.5),
    "repetition_penalty": sampled(repetition_penalty=0),
    "min_new_tokens below": sampled(min_new_tokens=-1),
    "min_new_tokens above": sampled(min_new_tokens=5),
    "max_new_tokens as text": sampled(max_new_tokens="4"),
    "another server's field": sampled(max_tokens=4),
    "stop_token_ids": sampled(stop_token_ids=["x"]),
    "null id": {"input_ids": [71, None]},
    "id beyond 64 bits": {"input_ids": [71, 2**70]},
    "ids as object": {"input_ids": {"0": 71}},
    "no prompt": {"sampling_params": {"max_new_tokens": 1}},
    "list as body": [1],
    "null as body": None,
}
READ = ["/model_info", "/get_model_info", "/v1/models", "/v1/loads", "/nothing", "/generate", "/abort_request"]


@pytest.fixture(scope="module")
def embedded() -> Iterator[str]:
    """URL of an embedded server that is started as the real one is."""
    with embedded_server("--max-running-requests", "16", "--enable-metrics") as url:
        yield url


@pytest.mark.parametrize("name", ANSWERED)
def test_answers_have_one_shape(sglang_server: SglangServer, embedded: str, name: str) -> None:
    real, ours = ask_both(sglang_server, embedded, "POST", "/generate", ANSWERED[name])
    assert (real.status_code, ours.status_code) == (200, 200), f"{real.text}\n{ours.text}"
    theirs, mine = as_list(real.json()), as_list(ours.json())
    assert isinstance(real.json(), list) == isinstance(ours.json(), list)
    assert len(theirs) == len(mine)
    for one, other in zip(theirs, mine, strict=True):
        assert keys_and_types(one) == keys_and_types(other)
        assert len(one["output_ids"]) == len(other["output_ids"])
        assert {key: one["meta_info"][key] for key in COUNTED} == {key: other["meta_info"][key] for key in COUNTED}
        assert one.get("prompt_token_ids") == other.get("prompt_token_ids")
        if "rid" in ANSWERED[name]:
            assert one["meta_info"]["id"] == other["meta_info"]["id"] == ANSWERED[name]["rid"]
        else:
            assert re.fullmatch("[0-9a-f]{32}", one["meta_info"]["id"])
            assert re.fullmatch("[0-9a-f]{32}", other["meta_info"]["id"])


@pytest.mark.parametrize("name", REFUSED)
def test_refusals_have_the_same_words(sglang_server: SglangServer, embedded: str, name: str) -> None:
    real, ours = ask_both(sglang_server, embedded, "POST", "/generate", REFUSED[name])
    assert (ours.status_code, comparable(ours)) == (real.status_code, comparable(real))
    assert real.status_code == 400


@pytest.mark.parametrize("path", READ)
def test_what_is_read_has_one_shape(sglang_server: SglangServer, embedded: str, path: str) -> None:
    real, ours = ask_both(sglang_server, embedded, "GET", path, None)
    assert ours.status_code == real.status_code
    theirs, mine = real.json(), ours.json()
    assert keys_and_types({key: value for key, value in theirs.items() if key not in LEFT_OUT}) == keys_and_types(mine)
    if real.status_code != 200:
        assert mine == theirs


def test_embedded_server_info_says_nothing_that_the_real_one_does_not(
    sglang_server: SglangServer, embedded: str
) -> None:
    real, ours = ask_both(sglang_server, embedded, "GET", "/server_info", None)
    theirs, mine = real.json(), ours.json()
    assert mine.keys() <= theirs.keys()
    for key in ("version", "status", "max_req_input_len", "context_length", "max_running_requests"):
        assert mine[key] == theirs[key], key


def test_streams_have_one_shape(sglang_server: SglangServer, embedded: str) -> None:
    body = {**sampled(), "stream": True}
    real, ours = (events(answer) for answer in ask_both(sglang_server, embedded, "POST", "/generate", body))
    assert keys_and_types(ours[0]) == keys_and_types(real[0])
    assert keys_and_types(ours[-1]) == keys_and_types(real[-1])
    assert ours[-1]["meta_info"]["finish_reason"] == real[-1]["meta_info"]["finish_reason"]


def ask_both(
    real: SglangServer, embedded: str, method: str, path: str, body: object
) -> tuple[requests.Response, requests.Response]:
    """Send one request to both."""
    data = None if method == "GET" else json.dumps(body).encode()
    headers = {"Content-Type": "application/json", "Connection": "close"}
    theirs = real.request(method, path, data=data, headers=headers)
    with requests.Session() as session:
        session.trust_env = False
        return theirs, session.request(method, embedded + path, data=data, headers=headers, timeout=60)


def comparable(response: requests.Response) -> tuple[str, object]:
    """Content type and body, as they are compared."""
    return response.headers["Content-Type"], recorded.comparable(response.text)


def as_list(answer: Any) -> list[dict[str, Any]]:
    return answer if isinstance(answer, list) else [answer]


def events(response: requests.Response) -> list[dict[str, Any]]:
    """The events of a stream that has ended."""
    lines = [line.removeprefix("data: ") for line in response.text.splitlines() if line]
    assert lines[-1] == "[DONE]"
    return [json.loads(line) for line in lines[:-1]]


def keys_and_types(value: Any) -> Any:
    """All keys at every depth, with the type of each value instead of it; null where it is null."""
    if isinstance(value, dict):
        return {key: keys_and_types(item) for key, item in value.items() if key not in NOT_COMPARED}
    if isinstance(value, list):
        return [keys_and_types(value[0])] if value else []
    return "number" if isinstance(value, int | float) and not isinstance(value, bool) else type(value).__name__
