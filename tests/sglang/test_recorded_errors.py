"""The real server answers the recorded requests as it did when they were recorded: its error bodies."""

from __future__ import annotations

import pytest

from tests.sglang import recorded
from tests.sglang.server import SglangServer


@pytest.mark.parametrize("case", recorded.error_cases("plain"))
def test_error_is_as_recorded(sglang_server: SglangServer, case: recorded.Case) -> None:
    recorded.assert_same_error(sglang_server, case)


def test_duplicate_rid_is_refused_while_in_flight_and_free_afterwards(sglang_server: SglangServer) -> None:
    first = {
        "input_ids": [71, 72, 73],
        "rid": "dup",
        "sampling_params": _sampling(100, ignore_eos=True),
        "stream": True,
    }
    second = {"input_ids": [71, 72, 73], "rid": "dup", "sampling_params": _sampling(2)}
    with sglang_server.stream("/generate", first) as events:
        next(events)
        refused = sglang_server.post("/generate", second)
        assert refused.status_code == 400
        assert refused.json() == {"error": {"message": "Duplicate request ID detected: dup"}}
        for _ in events:
            pass
    assert sglang_server.post("/generate", second).status_code == 200


def test_aborted_request_answers_200_with_finish_reason_abort(sglang_server: SglangServer) -> None:
    body = {
        "input_ids": [71, 72, 73],
        "rid": "abort-me",
        "sampling_params": _sampling(1500, ignore_eos=True),
        "stream": True,
    }
    with sglang_server.stream("/generate", body) as events:
        next(events)
        assert sglang_server.post("/abort_request", {"rid": "abort"}).status_code == 200  # a prefix: no match
        for _ in range(5):
            assert next(events)["meta_info"]["finish_reason"] is None
        assert sglang_server.post("/abort_request", {"rid": "abort-me"}).status_code == 200
        last = list(events)[-1]
    assert last["meta_info"]["finish_reason"]["type"] == "abort"
    assert 0 < last["meta_info"]["completion_tokens"] < 1500


def test_abort_of_an_unknown_rid_is_200(sglang_server: SglangServer) -> None:
    assert sglang_server.post("/abort_request", {"rid": "nope"}).status_code == 200


def _sampling(max_new_tokens: int, **more: object) -> dict[str, object]:
    return {"temperature": 0, "max_new_tokens": max_new_tokens, **more}
