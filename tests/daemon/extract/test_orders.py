"""What is wanted of a request, read from the files: checked before anything is sent."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest

from contracts.records import CaptureCheck, encode_line
from contracts.run_config import AFTERWARDS, GENERATING
from daemon.capture.fault import CaptureFault
from daemon.extract.entry import ExtractEntry
from daemon.extract.orders import Orders, SampleMovedError
from daemon.prompts.index import PromptIndex
from daemon.prompts.refusals import PromptError
from tests.daemon.extract.support import LIMITS, prompt, response
from tests.support.runs import write_prompts

PROMPTS = [
    prompt("a"),
    prompt("m", loss_mask=[0, 1, 1]),
    prompt("zero", loss_mask=[0, 0, 0]),
    prompt("end", loss_mask=[0, 0, 1]),
]


class Files:
    def __init__(self, folder: Path, content: bytes, vocab_size: int | None = None) -> None:
        write_prompts(folder / "prompts.jsonl", PROMPTS)
        self.responses = folder / "raw_responses.jsonl"
        self.responses.write_bytes(content)
        self.index = PromptIndex.build(folder / "prompts.jsonl", LIMITS)
        self.prompts = {entry.sample_id: entry for entry in self.index.entries}
        self.orders = Orders("B1", self.index, self.responses, vocab_size)

    def entry(self, tokens: int = 5, whole: int = 5, offset: int = 0) -> ExtractEntry:
        length = len(self.responses.read_bytes()) - offset
        return ExtractEntry(self.prompts["a"], tokens, whole, offset, length)

    def masked(self, sample_id: str, tokens: int = 3) -> ExtractEntry:
        return ExtractEntry(self.prompts[sample_id], tokens, 3, 0, 0)


def test_prompt_and_answer(tmp_path: Path) -> None:
    files = Files(tmp_path, encode_line(response("a", [4, 5, 6])))
    order = files.orders.of_entry(files.entry(), "e3.x")
    assert (order.ids.tolist(), order.mask.tolist(), order.limit) == ([1, 2, 3, 4, 5], [0, 0, 0, 1, 1], None)
    cut = files.orders.of_entry(files.entry(tokens=4), "e3.x")
    assert (cut.ids.tolist(), cut.mask.tolist(), cut.rows) == ([1, 2, 3, 4], [0, 0, 0, 1], 4)
    assert order.capture == cut.capture == AFTERWARDS, "a pass, however much like the answer"


def test_rows_that_came_with_the_answer_are_told_by_its_request(tmp_path: Path) -> None:
    files = Files(tmp_path, encode_line(response("a", [4, 5, 6], "e3.x")))
    order = files.orders.of_entry(files.entry(tokens=4), "e3.x")
    assert (order.capture, order.ids.size, order.rows) == (GENERATING, 4, 5), "all its rows came"
    order = files.orders.of_entry(files.entry(tokens=4), "e3.y")
    assert (order.capture, order.rows) == (AFTERWARDS, 4)


def test_a_line_of_another_tool_names_no_request_of_ours(tmp_path: Path) -> None:
    line = {"id": "a", "rid": 7, "response": {"output_ids": [4, 5, 6], "completion_tokens": 3, "finish_reason": "stop"}}
    files = Files(tmp_path, json.dumps(line).encode() + b"\n")
    assert files.orders.of_entry(files.entry(), "e3.x").capture == AFTERWARDS


def test_a_pretokenized_sample(tmp_path: Path) -> None:
    files = Files(tmp_path, b"")
    order = files.orders.of_entry(files.masked("m"), "e3.x")
    assert (order.ids.tolist(), order.mask.tolist()) == ([1, 2, 3], [0, 1, 1])


@pytest.mark.parametrize(("sample", "tokens"), [("zero", 3), ("end", 2)])
def test_a_mask_without_a_one_teaches_nothing(sample: str, tokens: int, tmp_path: Path) -> None:
    files = Files(tmp_path, b"")
    with pytest.raises(CaptureFault, match=f"0 on all of its {tokens} tokens") as caught:
        files.orders.of_entry(files.masked(sample, tokens), "e3.x")
    assert caught.value.check is CaptureCheck.NOTHING_TO_LEARN


@pytest.mark.parametrize("ids", ["[4,-5,6]", "[4,5000000000,6]", "[4,5.5,6]", "[4,null,6]", "[4,true,6]"])
def test_ids_that_are_none_are_never_sent(ids: str, tmp_path: Path) -> None:
    line = encode_line(response("a", [4, 5, 6])).replace(b"[4,5,6]", ids.encode())
    files = Files(tmp_path, line)
    with pytest.raises(CaptureFault) as caught:
        files.orders.of_entry(files.entry(), "e3.x")
    assert caught.value.check is CaptureCheck.NO_IDS


def test_an_id_beyond_the_vocabulary_is_never_sent(tmp_path: Path) -> None:
    """One of them kills a server; those of a foreign response were never checked by anyone."""
    line = encode_line(response("a", [4, 900, 6]))
    files = Files(tmp_path, line, vocab_size=900)
    with pytest.raises(CaptureFault, match="token id 900, the model's vocabulary ends at 900"):
        files.orders.of_entry(files.entry(), "e3.x")
    with pytest.raises(CaptureFault, match="token id 900"):
        files.orders.of_answer(files.prompts["a"], response("a", [900, 1]), None)
    fine = Files(tmp_path, line, vocab_size=901)
    assert fine.orders.of_entry(fine.entry(), "e3.x").rows == 5


@pytest.mark.parametrize(
    "content",
    [
        encode_line(response("b", [4, 5, 6])),
        encode_line(response("a", [4, 5, 6, 7])),
        encode_line(response("a", [4, 5, 6], completion_tokens=2)),
        b"x" * 80,
        b"",
        None,
    ],
)
def test_a_response_that_is_not_where_it_was(content: bytes | None, tmp_path: Path) -> None:
    files = Files(tmp_path, encode_line(response("a", [4, 5, 6])))
    entry = files.entry()
    if content is None:
        files.responses.unlink()
    else:
        files.responses.write_bytes(content)
    with pytest.raises(SampleMovedError, match=re.escape(str(files.responses))):
        files.orders.of_entry(entry, "e3.x")


def test_a_file_that_grew_is_the_same_file(tmp_path: Path) -> None:
    files = Files(tmp_path, encode_line(response("a", [4, 5, 6])))
    entry = files.entry()
    with files.responses.open("ab") as file:
        file.write(encode_line(response("b", [7])))
    assert files.orders.of_entry(entry, "e3.x").rows == 5


def test_prompts_that_changed(tmp_path: Path) -> None:
    files = Files(tmp_path, encode_line(response("a", [4, 5, 6])))
    (tmp_path / "prompts.jsonl").write_text("")
    with pytest.raises(PromptError, match="changed while in use"):
        files.orders.of_entry(files.entry(), "e3.x")


def test_an_answer_that_has_just_come(tmp_path: Path) -> None:
    files = Files(tmp_path, b"")
    given: Any = response("a", [4, 5, 6], "e3.y", cached_tokens=2)
    order = files.orders.of_answer(files.prompts["a"], given, 4)
    assert (order.capture, order.rid, order.cached_tokens, order.rows) == (GENERATING, "e3.y", 2, 5)
    assert order.ids.tolist() == [1, 2, 3, 4]
