"""Which ids and mask a sample must have: from the files alone, whatever shape their lines have."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from contracts.run_dir import RunDir
from daemon.prompts.refusals import PromptError
from daemon.store.sequences import Expected, expected_sequences, sequence_of_response


def make(path: Path, prompts: list[Any], responses: list[Any]) -> RunDir:
    """A run's two files of a data set, from values or lines as they are."""
    run = RunDir(path)
    folder = run.dataset("B1")
    folder.path.mkdir(parents=True)
    for file, values in ((folder.prompts, prompts), (folder.responses, responses)):
        file.write_text("".join((one if isinstance(one, str) else json.dumps(one)) + "\n" for one in values))
    return run


def response(sample_id: str | int, ids: list[int], **over: Any) -> dict[str, Any]:
    values: dict[str, Any] = {
        "sample_id": sample_id,
        "prompt_tokens": 3,
        "completion_tokens": len(ids),
        "finish_reason": "stop",
        "output_ids": ids,
        "finished_at": 2.0,
        "started_at": 1.0,
        "rid": "e3.x",
        "server": "http://127.0.0.1:1",
        "attempt": 1,
    }
    return values | over


def prompt(sample_id: str | int, ids: list[int], **more: Any) -> dict[str, Any]:
    return {"sample_id": sample_id, "input_ids": ids, **more}


def plain(found: Expected) -> tuple[bytes, Any, list[int], list[int]]:
    assert (found.ids.dtype, found.mask.dtype) == (np.int64, np.uint8)
    return found.key, found.sample_id, found.ids.tolist(), found.mask.tolist()


def read(run: RunDir, *keys: bytes) -> list[tuple[bytes, Any, list[int], list[int]]]:
    return [plain(one) for one in expected_sequences(run, "B1", set(keys))]


def test_prompt_and_answer_without_its_last_token(tmp_path: Path) -> None:
    run = make(
        tmp_path,
        [prompt("a", [1, 2, 3]), prompt(7, [4]), prompt("c", [5])],
        [response("7", [8, 9]), response("a", [10]), response("c", [11])],
    )
    assert read(run, b"a", b"7") == [(b"7", 7, [4, 8], [0, 1]), (b"a", "a", [1, 2, 3], [0, 0, 0])]
    assert read(run) == []


def test_the_join_itself() -> None:
    ids, mask = sequence_of_response(np.array([1, 2], np.int64), np.array([3, 4, 5], np.int64))
    assert (ids.tolist(), mask.tolist()) == ([1, 2, 3, 4], [0, 0, 1, 1])


def test_pretokenized_samples_are_taken_whole(tmp_path: Path) -> None:
    odd = '{"loss_mask": [1, 0], "x": NaN, "input_ids": [8, 9], "sample_id": "odd"}'
    run = make(
        tmp_path,
        ["", prompt("m", [1, 2, 3], loss_mask=[0, 1, 1]), prompt("g", [5]), odd],
        [response("m", [99]), response("g", [6, 7])],
    )
    assert read(run, b"m", b"g", b"odd") == [
        (b"m", "m", [1, 2, 3], [0, 1, 1]),
        (b"odd", "odd", [8, 9], [1, 0]),
        (b"g", "g", [5, 6], [0, 1]),
    ]


def test_the_first_accepted_response_counts(tmp_path: Path) -> None:
    run = make(
        tmp_path,
        [prompt("a", [1])],
        [
            response("a", [2, 3], finish_reason="abort"),
            response("a", [2, 3], error={"message": "no"}),
            "not json",
            response("a", [4, 5]),
            response("a", [6, 7]),
        ],
    )
    assert read(run, b"a") == [(b"a", "a", [1, 4], [0, 1])]


@pytest.mark.parametrize(
    "line",
    [
        {
            "custom_id": "a",
            "output_ids": [4, 5],
            "meta_info": {"finish_reason": {"type": "stop"}, "completion_tokens": 2},
        },
        {"sample_id": "a", "response": {"output_ids": [4, 5], "meta_info": {"finish_reason": "stop"}}},
        {"sample_id": "a", "response": {"body": {"output_ids": [4, 5], "completion_tokens": 2}}},
        [{"id": "z", "output_ids": [1], "text": "x"}, {"id": "a", "output_ids": [4, 5], "text": "y"}],
        {"sample_id": "a", "raw": {"output_ids": [4, 5], "usage": {"completion_tokens": 2}}, "score": 1},
    ],
)
def test_foreign_shapes(tmp_path: Path, line: object) -> None:
    assert read(make(tmp_path, [prompt("a", [1])], [line]), b"a") == [(b"a", "a", [1, 4], [0, 1])]


@pytest.mark.parametrize(
    "line",
    [
        response("a", [4, 5], completion_tokens=3),
        response("a", [4, 5], output_ids=[4, "5"]),
        response("a", [4, 5], output_ids=[4, 2**70]),
        {"sample_id": "a", "completion_tokens": 2, "finish_reason": "stop", "text": "no ids"},
    ],
)
def test_a_response_without_usable_ids_gives_nothing(tmp_path: Path, line: object) -> None:
    run = make(tmp_path, [prompt("a", [1])], [line, response("a", [7, 8])])
    assert read(run, b"a") == []


def test_what_has_no_prompt_or_no_response(tmp_path: Path) -> None:
    run = make(tmp_path, [prompt("a", [1]), prompt("bad", [-1])], [response("b", [2, 3]), response("bad", [4, 5])])
    assert read(run, b"a", b"b", b"bad", b"c") == []
    run.dataset("B1").responses.unlink()
    assert read(run, b"a") == []


def test_a_torn_last_line_is_no_response(tmp_path: Path) -> None:
    run = make(tmp_path, [prompt("a", [1])], [])
    run.dataset("B1").responses.write_text(json.dumps(response("a", [2, 3]))[:-20])
    assert read(run, b"a") == []


def test_no_prompts_at_all(tmp_path: Path) -> None:
    run = make(tmp_path, [], [response("a", [1, 2])])
    run.dataset("B1").prompts.unlink()
    with pytest.raises(PromptError, match=r"prompts\.jsonl: no such file"):
        read(run, b"a")
