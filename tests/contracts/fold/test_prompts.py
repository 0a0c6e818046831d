"""Counting prompt files."""

from __future__ import annotations

import json
import random
from pathlib import Path

import pytest

from contracts.fold.dataset import DatasetFold
from contracts.fold.prompts import PromptFold
from contracts.records import FailureClass, NextStep
from contracts.run_dir import DatasetDir
from tests.support.records import failure, prompt_line, write

FIXTURES = Path(__file__).parents[2] / "fixtures"


def fold_of(content: bytes) -> PromptFold:
    fold = PromptFold()
    fold.feed(bytearray(content), len(content), 0, False)
    return fold


def test_prompts_and_masks_are_counted_as_json_says() -> None:
    chance = random.Random(4)
    lines, masked = [], 0
    for number in range(300):
        ids = [chance.randrange(150_000) for _ in range(chance.randrange(30))]
        record: dict[str, object] = {"sample_id": chance.choice([number, f"p{number}", f'"é{number}'])}
        extras: list[tuple[str, object]] = [("input_ids", ids)]
        if chance.random() < 0.5:
            extras.append(("loss_mask", [0] * len(ids)))
            masked += 1
        if chance.random() < 0.5:
            extras.append(("source_line", number + 1))
        if chance.random() < 0.3:
            extras.append(("text", 'a "loss_mask":[ in a text'))
        if chance.random() < 0.3:
            chance.shuffle(extras)
        record |= dict(extras)
        lines.append(json.dumps(record, separators=chance.choice([(",", ":"), (", ", ": ")])).encode())
    fold = fold_of(b"".join(line + b"\n" for line in lines))
    assert (fold.prompts, fold.pretokenized, fold.unreadable.count, fold.lines) == (300, masked, 0, 300)


GOOD = prompt_line("a")[:-1]
MASKED = prompt_line("a", masked=True)[:-1]


@pytest.mark.parametrize(
    "line",
    [
        GOOD[:-1],
        GOOD[:-2],
        GOOD[:10] + GOOD,
        GOOD[:-3] + GOOD,
        GOOD + GOOD,
        MASKED[:-1],
        MASKED[:-4] + MASKED,
        MASKED[: MASKED.index(b"]") + 1] + b"}}",
        GOOD[:-1] + b',"source_line":}',
        GOOD[:-1] + b',"source_line":01}',
        GOOD[:-1] + b'"text":"x"}',
        GOOD.replace(b"1,2", b"1\0,2"),
        GOOD.replace(b'"a"', b'"\xff"'),
        b"[1,2]",
        b"what",
    ],
)
def test_what_is_no_object_is_unreadable(line: bytes) -> None:
    fold = fold_of(GOOD + b"\n" + line + b"\n" + MASKED + b"\n")
    if line.count(b"\xff"):
        assert fold.prompts + fold.unreadable.count == 3  # whether its id is text is for the daemon to say
        return
    assert (fold.prompts, fold.pretokenized) == (2, 1)
    assert [(place.line, place.offset) for place in fold.unreadable.first] == [(2, len(GOOD) + 1)]


def test_byte_order_mark_blank_lines_and_windows_ends() -> None:
    fold = fold_of(b"\xef\xbb\xbf" + GOOD + b"\r\n\r\n  \n" + MASKED + b"\r\n")
    assert (fold.prompts, fold.pretokenized, fold.unreadable.count, fold.lines) == (2, 1, 0, 4)


@pytest.mark.parametrize("name", ["cases/01-bom.jsonl", "shapes/p27_bom_crlf.jsonl"])
def test_byte_order_marks_of_the_known_cases(name: str) -> None:
    content = (FIXTURES / name).read_bytes()
    fold = fold_of(content if content.endswith(b"\n") else content + b"\n")
    assert (fold.prompts, fold.unreadable.count) == (3, 0)


def test_reset_forgets() -> None:
    fold = fold_of(MASKED + b"\nbad\n")
    fold.reset("prompts.jsonl was replaced")
    assert fold == PromptFold(notes=["prompts.jsonl was replaced"])


class TestUsablePrompts:
    """Refused lines are recorded by the daemon, whether they were objects or not."""

    def dataset(self, folder: Path, prompts: bytes, *refused: int) -> DatasetFold:
        (folder / "prompts.jsonl").write_bytes(prompts)
        records = [
            failure(None, error=FailureClass.INVALID_INPUT, next=NextStep.REFUSED, line=line, message="no")
            for line in refused
        ]
        write(folder / "failures.jsonl", records)
        fold = DatasetFold(DatasetDir(folder))
        fold.poll()
        return fold

    def test_all_good(self, tmp_path: Path) -> None:
        assert self.dataset(tmp_path, prompt_line("a") * 3).usable_prompts == 3

    def test_a_refused_object_is_not_usable(self, tmp_path: Path) -> None:
        assert self.dataset(tmp_path, prompt_line("a") * 3, 2).usable_prompts == 2

    def test_a_refused_line_that_is_no_object_is_not_taken_off_twice(self, tmp_path: Path) -> None:
        content = prompt_line("a") + b"broken\n" + prompt_line("b") + prompt_line("b")
        assert self.dataset(tmp_path, content, 2, 4).usable_prompts == 2

    def test_of_a_mixed_file_only_the_rest_is_to_be_answered(self, tmp_path: Path) -> None:
        masked = prompt_line("m", masked=True)
        content = masked * 2 + prompt_line("a") * 3 + masked + b"broken\n" + masked * 2
        dataset = self.dataset(tmp_path, content, 2, 4, 7, 9)
        assert dataset.prompts.masked == [(1, 2), (6, 6), (8, 9)]
        assert (dataset.usable_prompts, dataset.usable_pretokenized, dataset.prompts_to_answer) == (5, 3, 2)
        assert not dataset.pretokenized

    def test_refused_lines_do_not_hide_that_all_the_rest_is_pretokenized(self, tmp_path: Path) -> None:
        dataset = self.dataset(tmp_path, prompt_line("m", masked=True) * 2 + prompt_line("a"), 3)
        assert (dataset.usable_prompts, dataset.prompts_to_answer, dataset.pretokenized) == (2, 0, True)

    def test_before_the_daemon_looked(self, tmp_path: Path) -> None:
        assert self.dataset(tmp_path, prompt_line("a") + b"broken\n").usable_prompts == 1

    def test_an_empty_file_says_nothing(self, tmp_path: Path) -> None:
        assert self.dataset(tmp_path, b"").usable_prompts is None

    def test_no_file_says_nothing(self, tmp_path: Path) -> None:
        assert DatasetFold(DatasetDir(tmp_path)).usable_prompts is None
