"""A server with an API key, a bounded queue and no tokenizer; at the end, one bad request ends it under a daemon."""

from __future__ import annotations

import concurrent.futures
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
import requests

from daemon.servers.probe import OK, REFUSED
from tests.sglang import recorded
from tests.sglang.conftest import StartSglang
from tests.sglang.probing import probe
from tests.sglang.server import SglangServer
from tests.whole_run import WholeRun

PROMPTS = 60
STRICT: dict[str, Any] = {
    "api_key": "sekret",
    "max_running_requests": 1,
    "max_queued_requests": 2,
    "skip_tokenizer_init": True,
}


@pytest.fixture(scope="module")
def strict_server(start_sglang_for_module: StartSglang) -> SglangServer:
    return start_sglang_for_module(**STRICT)


@pytest.mark.parametrize("case", recorded.error_cases("strict"))
def test_error_is_as_recorded(strict_server: SglangServer, case: recorded.Case) -> None:
    recorded.assert_same_error(strict_server, case)


@pytest.mark.parametrize("case", recorded.answer_cases("strict"))
def test_answer_without_tokenizer_has_no_text(strict_server: SglangServer, case: recorded.Case) -> None:
    recorded.assert_same_shape(strict_server, case)


def test_health_needs_no_key(strict_server: SglangServer) -> None:
    assert strict_server.get("/health", authorized=False).status_code == 200


def test_full_queue_answers_503_without_retry_after(strict_server: SglangServer) -> None:
    def ask(_: int) -> requests.Response:
        return strict_server.post("/generate", _long_request())

    with concurrent.futures.ThreadPoolExecutor(8) as pool:
        responses = list(pool.map(ask, range(8)))
    assert Counter(response.status_code for response in responses).keys() == {200, 503}
    for response in responses:
        if response.status_code == 503:
            assert "Retry-After" not in response.headers
            assert response.json()["object"] == "error"
            assert response.json()["message"] == "The request queue is full."


def test_full_queue_answers_200_with_an_abort_when_streaming(strict_server: SglangServer) -> None:
    def ask(_: int) -> dict[str, object]:
        with strict_server.stream("/generate", {**_long_request(), "stream": True}) as events:
            reason: dict[str, object] = list(events)[-1]["meta_info"]["finish_reason"]
            return reason

    with concurrent.futures.ThreadPoolExecutor(8) as pool:
        reasons = list(pool.map(ask, range(8)))
    refused = [reason for reason in reasons if reason["type"] == "abort"]
    assert 0 < len(refused) < len(reasons)
    assert all(reason["status_code"] == 503 for reason in refused)


async def test_probe_needs_the_key(strict_server: SglangServer) -> None:
    found = await probe(strict_server.url, {"max_new_tokens": 8}, "sekret")
    assert (found.state, found.refusal, found.notes) == (OK, None, [])
    assert (found.vocab_size, found.max_input_len, found.context_length) == (1024, 2042, 2048)


@pytest.mark.parametrize("key", [None, "wrong"])
async def test_probe_without_the_key_is_refused(strict_server: SglangServer, key: str | None) -> None:
    found = await probe(strict_server.url, {"max_new_tokens": 8}, key)
    assert found.state == REFUSED
    assert found.refusal == "sent POST /generate with rid, input_ids, sampling_params; got HTTP 401: Unauthorized"
    assert (found.vocab_size, found.max_input_len) == (None, None)
    assert any("give the server's api_key in [[servers]]" in note for note in found.notes)


# The last test of this file: there is no such server after it.
@pytest.mark.timeout(400)
def test_daemon_outlives_a_server_that_one_bad_request_ends(
    strict_server: SglangServer, start_sglang: StartSglang, tmp_path: Path
) -> None:
    prompts = tmp_path / "prompts.jsonl"
    prompts.write_text("".join(f'{{"id": {number}, "prompt": "Count to {number}."}}\n' for number in range(PROMPTS)))
    run = WholeRun(
        tmp_path / "run",
        strict_server.url,
        {"B1": prompts},
        concurrency=8,  # more than it runs and queues: some are told that the queue is full
        max_new_tokens=8,
        sampling={"ignore_eos": True},
        api_key="sekret",
    )
    with run.daemon() as process:
        run.wait_responses(process, 8, seconds=100)
        with pytest.raises(requests.ConnectionError):
            for _ in range(1000):  # most of the time its queue is full: 503, and it lives on
                strict_server.post("/generate", {"input_ids": [71, -5, 72], "sampling_params": {"max_new_tokens": 1}})
        run.wait(process, "the server's processes end", lambda: not strict_server.running(), seconds=30)
        run.wait(process, "the daemon says so", lambda: run.said("server.down"), seconds=30)
        assert run.answered() < PROMPTS
        # With its own warm-up, which would end it if the waiting daemon filled its queue first.
        start_sglang(port=strict_server.port, **STRICT)
        run.wait_end(process, 0, seconds=150)
    run.assert_all_done_once()
    failures = run.failures("B1")
    assert {each["next"] for each in failures} == {"retry"}
    assert any(each["error"] == "server_down" for each in failures)
    full = {each["error"] for each in failures if each["message"] == "HTTP 503: The request queue is full."}
    assert full == {"transient"}


def _long_request() -> dict[str, object]:
    return {
        "input_ids": [71, 72, 73, 74],
        "sampling_params": {"temperature": 0, "max_new_tokens": 60, "ignore_eos": True},
    }
