"""Which response of a sample counts, and when its ids can be used: the same for extraction, verify and import."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from contracts.fold.responses import ResponseFold
from contracts.journal.tail import Tail
from contracts.shapes.output_ids import AcceptedResponses, answers_of, ids_in, output_ids_of

OURS = {
    "sample_id": "a",
    "prompt_tokens": 3,
    "completion_tokens": 2,
    "finish_reason": "stop",
    "output_ids": [4, 5],
    "finished_at": 2.0,
    "started_at": 1.0,
    "rid": "e3.x",
    "server": "http://h:1",
    "attempt": 1,
}


def text(value: Any) -> bytes:
    return value if isinstance(value, bytes) else json.dumps(value).encode()


@pytest.mark.parametrize(
    "line",
    [
        OURS,
        OURS | {"score": 1},
        {"sample_id": "", "id": "a", "completion_tokens": 2, "output_ids": [4, 5]},
        {"custom_id": "a", "output_ids": [4, 5], "meta_info": {"finish_reason": "stop", "completion_tokens": 2}},
        {"sample_id": "a", "response": {"body": {"output_ids": [4, 5], "completion_tokens": 2}}},
        {"sample_id": "a", "raw": {"output_ids": [4, 5], "usage": {"completion_tokens": 2}}},
        [{"id": "z", "output_ids": [1], "text": "x"}, {"id": "a", "output_ids": [4, 5], "text": "y"}],
        {"id": "a", "output_ids": [4, 5], "text": "no count at all"},
        b'\xef\xbb\xbf{"id":"a","output_ids":[4,5],"completion_tokens":2}\r',
        b'{"id":"a","text":"half \\ud83d","output_ids":[4, 5],"completion_tokens":2}',
        b'{"id":"a","logprob":NaN,"output_ids":[4,5],"completion_tokens":2}',
    ],
)  # fmt: skip
def test_ids_of_every_shape_that_holds_them(line: object) -> None:
    ids = ids_in(text(line), b"a")
    assert ids is not None and json.loads(ids) == [4, 5]


@pytest.mark.parametrize(
    "line",
    [
        OURS | {"completion_tokens": 3},
        OURS | {"output_ids": [4, "5"]},
        OURS | {"output_ids": [[4, 5]]},
        OURS | {"output_ids": 4},
        {"id": "a", "completion_tokens": 3, "output_ids": [4, 5]},
        {"id": "a", "completion_tokens": 2, "text": "no ids"},
        {"id": "a", "completion_tokens": 2, "text": "x", "tokens": [4, 5]},
        {"id": "a", "completion_tokens": 2, "choices": [{"text": "x", "finish_reason": "stop"}], "usage": {}},
    ],
)
def test_an_answer_whose_ids_cannot_be_used_is_an_answer_all_the_same(line: object) -> None:
    (answer,) = answers_of(text(line))
    assert answer.key == b"a" and answer.output_ids is None


@pytest.mark.parametrize(
    "line",
    [
        OURS | {"finish_reason": "abort"},
        OURS | {"error": "no"},
        OURS | {"completion_tokens": 2**40},
        {"id": "a", "status": "skipped"},
        {"id": "a"},
        {"output_ids": [1], "text": "nobody's"},
        b"",
        b"{}",
        b"not json",
        b"\xff\xfe",
        b"[1, 2]",
        b"\0\0\0\0",
    ],
)
def test_no_answer(line: object) -> None:
    assert answers_of(text(line)) == []


def test_an_answer_of_no_token() -> None:
    (answer,) = answers_of(text(OURS | {"completion_tokens": 0, "output_ids": []}))
    assert (answer.output_ids, answer.n_output_ids) == (b"[]", 0)


def test_facts_beside_the_ids() -> None:
    (answer,) = answers_of(text(OURS | {"think_end": False}))
    assert answer[3:8] == (2, 3, "stop", 2.0, False)
    (answer,) = answers_of(text(OURS | {"finished_at": -1.0}))
    assert answer.finished_at is None


def test_the_first_accepted_one_counts() -> None:
    accepted = AcceptedResponses()
    lines = [
        OURS | {"finish_reason": "error"},
        OURS | {"output_ids": [7, 8, 9]},
        OURS,
        {"id": "b", "completion_tokens": 1, "output_ids": [6]},
    ]
    found = [(answer.key, answer.output_ids) for line in lines for answer in accepted.of_line(text(line))]
    assert found == [(b"a", None), (b"b", b"[6]")]
    accepted.reset()
    assert [answer.output_ids for answer in accepted.of_line(text(OURS))] == [b"[4, 5]"]


def chunk(**more: Any) -> dict[str, Any]:
    return {"id": "a", "object": "chat.completion.chunk", "choices": [], **more}


def test_pieces_of_a_stream_count_once_they_are_whole_and_hold_no_ids() -> None:
    accepted = AcceptedResponses()
    first = chunk(choices=[{"delta": {"content": "x"}, "finish_reason": "stop"}])
    assert accepted.of_line(text(first)) == []
    (answer,) = accepted.of_line(text(chunk(usage={"completion_tokens": 2, "prompt_tokens": 1})))
    assert (answer.key, answer.output_ids, answer.unfinished) == (b"a", None, None)
    assert accepted.of_line(text(OURS)) == [], "the stream was first"


def test_a_piece_without_an_end_does_not_stand_in_the_way_of_the_answer() -> None:
    accepted = AcceptedResponses()
    assert accepted.of_line(text(chunk(choices=[{"delta": {"content": "x"}}]))) == []
    assert accepted.of_line(text({"id": "a", "completion_tokens": 1, "finish_reason": None, "output_ids": [4]})) == []
    assert [answer.output_ids for answer in accepted.of_line(text(OURS))] == [b"[4, 5]"]


def test_it_agrees_with_the_fold(tmp_path: Path) -> None:
    lines = [
        OURS | {"finish_reason": "abort"},
        chunk(choices=[{"delta": {"content": "x"}}]),
        OURS,
        OURS | {"sample_id": 7},
        {"sample_id": "7", "completion_tokens": 1, "output_ids": [1]},
        [{"id": "c", "output_ids": [1], "text": "x"}, {"id": "c", "output_ids": [2], "text": "y"}],
        b"damaged",
        {"id": "d", "completion_tokens": 1, "finish_reason": None},
        chunk(id="e", choices=[{"delta": {}, "finish_reason": "stop"}], usage={"completion_tokens": 1}),
        {"sample_id": "f", "response": {"error": {"message": "no"}}},
    ]
    path = tmp_path / "raw_responses.jsonl"
    path.write_bytes(b"".join(text(line) + b"\n" for line in lines))
    fold, accepted = ResponseFold(), AcceptedResponses()
    Tail(path).poll(fold)
    keys = [answer.key for line in lines for answer in accepted.of_line(text(line))]
    assert sorted(keys) == sorted(fold.done) == [b"7", b"a", b"c", b"c#1", b"e"]


@pytest.mark.parametrize("line", [b"", b"[1]", b'"x"', b"{", b'{"response":"text"}', b'{"response":{}}', b"{" * 9000])
def test_no_ids_in_what_is_no_object_with_ids(line: bytes) -> None:
    assert output_ids_of(line) is None
