"""The real server's successes have the recorded shapes, and the meanings that the daemon relies on."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import pytest

from tests.sglang import recorded
from tests.sglang.server import SglangServer

PROMPT = [71, 72, 73, 74, 75, 76, 77, 78, 79, 80]


@pytest.mark.parametrize("case", recorded.answer_cases("plain"))
def test_answer_has_the_recorded_shape(sglang_server: SglangServer, case: recorded.Case) -> None:
    recorded.assert_same_shape(sglang_server, case)


def test_stop_token_is_in_output_ids_but_not_in_text(sglang_server: SglangServer) -> None:
    first = _generate(sglang_server)["output_ids"][0]
    stopped = _generate(sglang_server, stop_token_ids=[first])
    assert stopped["output_ids"] == [first]
    assert stopped["text"] == ""
    assert stopped["meta_info"]["finish_reason"] == {"type": "stop", "matched": first}


def test_ignore_eos_disables_stop_token_ids_too(sglang_server: SglangServer) -> None:
    first = _generate(sglang_server)["output_ids"][0]
    answer = _generate(sglang_server, stop_token_ids=[first], ignore_eos=True)
    assert answer["meta_info"]["finish_reason"] == {"type": "length", "length": 8}


def test_stop_string_is_matched_as_a_string(sglang_server: SglangServer) -> None:
    answer = _generate(sglang_server, max_new_tokens=60, stop=["f"])  # every second token is written <f...>
    assert answer["meta_info"]["finish_reason"] == {"type": "stop", "matched": "f"}


def test_max_new_tokens_is_128_when_absent_and_open_when_null(sglang_server: SglangServer) -> None:
    absent = sglang_server.post("/generate", {"input_ids": PROMPT, "sampling_params": {"ignore_eos": True}}).json()
    assert absent["meta_info"]["finish_reason"] == {"type": "length", "length": 128}
    first = _generate(sglang_server)["output_ids"][0]
    null = _generate(sglang_server, max_new_tokens=None, stop_token_ids=[first])
    assert null["meta_info"]["finish_reason"]["type"] == "stop"


def test_stream_is_cumulative_and_ends_with_done(sglang_server: SglangServer) -> None:
    whole = _generate(sglang_server)
    body = {"input_ids": PROMPT, "sampling_params": {"temperature": 0, "max_new_tokens": 8}, "stream": True}
    with sglang_server.stream("/generate", body) as events:
        chunks = list(events)  # ends at [DONE], or fails
    for chunk, following in pairwise(chunks):
        assert following["output_ids"][: len(chunk["output_ids"])] == chunk["output_ids"]
        assert chunk["meta_info"]["finish_reason"] is None
    assert chunks[-1]["output_ids"] == whole["output_ids"]
    assert chunks[-1]["text"] == whole["text"]
    assert chunks[-1]["meta_info"]["finish_reason"] == {"type": "length", "length": 8}


def test_radix_cache_hides_prefix_rows_unless_the_key_is_fresh(sglang_server: SglangServer) -> None:
    body: dict[str, Any] = {
        "input_ids": [301, 302, 303, 304, 305, 306, 307, 308, 309, 310],
        "sampling_params": {"temperature": 0, "max_new_tokens": 1},
    }
    cached = [sglang_server.post("/generate", body).json()["meta_info"]["cached_tokens"] for _ in range(2)]
    assert cached == [0, 9]
    fresh = sglang_server.post("/generate", {**body, "extra_key": "fresh"}).json()
    assert fresh["meta_info"]["cached_tokens"] == 0


@pytest.mark.parametrize("rid", ["a/../b c\n☃", "x" * 500], ids=["characters", "length"])
def test_any_rid_comes_back_as_sent(sglang_server: SglangServer, rid: str) -> None:
    body = {"input_ids": PROMPT, "rid": rid, "sampling_params": {"max_new_tokens": 1}}
    assert sglang_server.post("/generate", body).json()["meta_info"]["id"] == rid


def _generate(server: SglangServer, **sampling: Any) -> dict[str, Any]:
    body = {"input_ids": PROMPT, "sampling_params": {"temperature": 0, "max_new_tokens": 8, **sampling}}
    response = server.post("/generate", body)
    assert response.status_code == 200, response.text
    answer: dict[str, Any] = response.json()
    return answer
