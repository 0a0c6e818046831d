"""A server with an API key, a bounded queue and no tokenizer; at the end, one bad request ends it."""

from __future__ import annotations

import concurrent.futures
import time
from collections import Counter

import pytest
import requests

from tests.sglang import recorded
from tests.sglang.conftest import StartSglang
from tests.sglang.server import SglangServer


@pytest.fixture(scope="module")
def strict_server(start_sglang_for_module: StartSglang) -> SglangServer:
    return start_sglang_for_module(
        api_key="sekret", max_running_requests=1, max_queued_requests=2, skip_tokenizer_init=True
    )


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


# The last test of this file: there is no server after it.
def test_negative_token_id_ends_the_whole_server(strict_server: SglangServer) -> None:
    with pytest.raises(requests.ConnectionError):
        strict_server.post("/generate", {"input_ids": [71, -5, 72], "sampling_params": {"max_new_tokens": 1}})
    deadline = time.monotonic() + 30
    while strict_server.running():
        assert time.monotonic() < deadline, strict_server.log_tail()
        time.sleep(0.2)


def _long_request() -> dict[str, object]:
    return {
        "input_ids": [71, 72, 73, 74],
        "sampling_params": {"temperature": 0, "max_new_tokens": 60, "ignore_eos": True},
    }
