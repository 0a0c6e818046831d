"""What is in the store, by its index alone."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from contracts.fold.counts import ExtractTally
from contracts.fold.dataset import DatasetFold
from contracts.fold.hidden import HiddenFold
from contracts.records import CaptureCheck, DroppedSample, FailureClass, NextStep, encode_line
from contracts.run_dir import DatasetDir
from tests.support.records import NOW, prompt_line, response, write
from tests.support.stored import failed_capture, stored


def fold_of(*records: msgspec.Struct | bytes) -> HiddenFold:
    fold = HiddenFold()
    content = b"".join(record if isinstance(record, bytes) else encode_line(record) for record in records)
    fold.feed(bytearray(content), len(content), 0, False)
    return fold


def drop(sample_id: str | int) -> DroppedSample:
    return DroppedSample(sample_id=sample_id, why="damaged", at=NOW)


def sums(fold: HiddenFold) -> tuple[int, int, int, int]:
    return len(fold.stored), fold.tokens, fold.loss_tokens, fold.stored_bytes


def test_what_is_stored_is_added_up() -> None:
    fold = fold_of(
        stored("a", 0), stored(7, 1, tokens=5, bytes=500, loss_tokens=1, capture="afterwards", truncated_from=9)
    )
    assert fold.stored == {b"a": 0, b"7": 1}
    assert sums(fold) == (2, 15, 5, 1500)
    assert (fold.captures, fold.truncated) == ({"generating": 1, "afterwards": 1}, 1)
    bucket = fold.history.since(0)
    assert (bucket.responses, bucket.tokens, bucket.bytes) == (2, 15, 1500)


def test_a_second_record_of_a_sample_counts_for_nothing() -> None:
    fold = fold_of(stored(7, 0), stored("7", 1, tokens=99))
    assert (fold.stored, sums(fold), fold.duplicates) == ({b"7": 0}, (1, 10, 4, 1000), 1)
    assert fold.history.since(0).bytes == 1000
    assert fold.odd == {}


def test_a_dropped_sample_is_out_and_may_come_again() -> None:
    fold = fold_of(stored("a", 0, truncated_from=20), stored("b", 1), drop("a"), drop("never"))
    assert (fold.stored, sums(fold), fold.truncated, fold.dropped) == ({b"b": 1}, (1, 10, 4, 1000), 0, 1)
    fold = fold_of(stored("a", 0), stored("b", 1), drop("a"), stored("a", 0, tokens=6))
    assert (fold.stored, fold.tokens, fold.duplicates, fold.odd) == ({b"b": 1, b"a": 0}, 16, 0, {})


@given(st.lists(st.tuples(st.integers(0, 5), st.booleans()), max_size=30))
def test_records_in_any_order_leave_what_a_plain_account_leaves(steps: list[tuple[int, bool]]) -> None:
    """The account: one dict, rows allotted as a writer allots them."""
    fold, account = HiddenFold(), {}
    for line, (number, is_drop) in enumerate(steps, start=1):
        if is_drop:
            fold.apply(drop(f"s{number}"), line, line)
            account.pop(f"s{number}".encode(), None)
            continue
        taken = {row for row, _ in account.values()}
        row = next(row for row in range(7) if row not in taken)
        fold.apply(stored(f"s{number}", row, tokens=number), line, line)
        account.setdefault(f"s{number}".encode(), (row, number))
    assert fold.stored == {key: row for key, (row, _) in account.items()}
    assert fold.tokens == sum(tokens for _, tokens in account.values())
    assert fold.rows == {row: key for key, row in fold.stored.items()}
    assert (fold.odd, len(fold.sizes), len(fold.rows)) == ({}, len(account), len(account))


@pytest.mark.parametrize(
    ("over", "why"),
    [
        ({"layout": "specforge"}, "layout is 'specforge', that of the first stored sample 'safetensors'"),
        ({"layers": [2, 30]}, "layers is [2, 30], that of the first stored sample [2, 30, 58]"),
        ({"dtype": "float32"}, "dtype is 'float32'"),
        ({"norm": "over_weight"}, "norm is 'over_weight'"),
        ({"hidden_size": 9}, "hidden_size is 9"),
        ({"model": "other"}, "model is 'other'"),
        ({"row": 0}, "row 0 is that of sample 'a' too"),
    ],
)
def test_a_sample_unlike_the_others_is_located(over: dict[str, Any], why: str) -> None:
    first = stored("a", 0)
    fold = fold_of(first, stored("b", **({"row": 1} | over)))
    (place,) = fold.odd.values()
    assert (list(fold.odd), place.line, place.offset) == ([b"b"], 2, len(encode_line(first)))
    assert why in place.why
    fold.apply(drop("b"), 0, 3)
    assert fold.odd == {}


def test_a_model_that_is_not_told_contradicts_nothing() -> None:
    assert fold_of(stored("a", 0, model=None), stored("b", 1), stored("c", 2)).odd == {}


def test_an_emptied_store_may_take_another_form() -> None:
    fold = fold_of(stored("a", 0), drop("a"), stored("a", 0, layout="modelopt"), stored("b", 1, layout="modelopt"))
    assert fold.odd == {}
    assert fold.form is not None
    assert fold.form.layout == "modelopt"


def test_a_row_that_two_had_stays_with_the_one_that_is_left() -> None:
    fold = fold_of(stored("a", 0), stored("b", 0), drop("a"))
    assert (fold.rows, list(fold.odd)) == ({0: b"b"}, [b"b"])
    fold.apply(drop("b"), 0, 4)
    assert (fold.rows, fold.odd) == ({}, {})


def test_lines_that_are_no_records_are_located() -> None:
    fold = fold_of(stored("a", 0), b"garbage\n", b'{"type":"stored","sample_id":"b"}\n', b"\n", stored("c", 1))
    assert (len(fold.stored), fold.lines, fold.unreadable.count) == (2, 5, 2)
    assert [place.line for place in fold.unreadable.first] == [2, 3]


class TestDataset:
    def dataset(self, folder: Path) -> DatasetFold:
        return DatasetFold(DatasetDir(folder / "d"))

    def test_what_is_to_be_stored(self, tmp_path: Path) -> None:
        dataset = self.dataset(tmp_path)
        assert dataset.to_store is None
        write(dataset.folder.prompts, [prompt_line(f"d-{number}") for number in range(5)])
        write(dataset.folder.prompts, [prompt_line(f"m-{number}", masked=True) for number in range(3)])
        write(dataset.folder.responses, [response("d-0"), response("d-1"), response("d-1")])
        write(dataset.folder.responses, [b'{"text":"of nobody","completion_tokens":3}\n'])
        dataset.poll()
        assert (dataset.to_store, dataset.responses.nameless) == (5, 1)
        write(dataset.folder.hidden_states, [stored("d-0", 0), stored("m-1", 1)])
        assert dataset.poll() is True
        assert (dataset.stored, dataset.extract_settled) == (2, 2)

    def test_who_is_given_up(self, tmp_path: Path) -> None:
        dataset = self.dataset(tmp_path)
        refused = {"error": FailureClass.INVALID_INPUT, "next": NextStep.REFUSED}
        write(
            dataset.folder.failures,
            [
                failed_capture("again"),
                failed_capture("poor", next=NextStep.QUARANTINED),
                failed_capture("long", CaptureCheck.TOO_LONG, **refused),
                failed_capture("stored", next=NextStep.QUARANTINED),
            ],
        )
        write(dataset.folder.hidden_states, [stored("stored", 0)])
        dataset.poll()
        assert {key for key, _ in dataset.open_extract_failures()} == {b"again", b"poor", b"long"}
        assert {key for key, _ in dataset.extract_given_up_samples()} == {b"poor", b"long"}
        assert (dataset.extract_given_up, dataset.extract_settled) == (2, 3)
        assert (dataset.failed, dataset.quarantined) == (0, 0)
        assert dataset.extract_tally == ExtractTally(failed=2, given_up=1, skipped=1)
        write(dataset.folder.hidden_states, [stored("poor", 1)])
        dataset.poll()
        assert dataset.extract_tally == ExtractTally(failed=1, given_up=0, skipped=1)

    def test_a_file_that_cannot_be_read_leaves_no_count_of_before(self, tmp_path: Path) -> None:
        dataset = self.dataset(tmp_path)
        write(dataset.folder.failures, [failed_capture("a")])
        dataset.poll()
        assert dataset.extract_tally.failed == 1
        write(dataset.folder.failures, [failed_capture("b")])
        dataset.folder.hidden_states.mkdir()
        with pytest.raises(IsADirectoryError):
            dataset.poll()
        assert dataset.extract_tally.failed == 2

    def test_a_cut_index_is_counted_again(self, tmp_path: Path) -> None:
        dataset = self.dataset(tmp_path)
        write(dataset.folder.hidden_states, [stored("a", 0), stored("b", 1), b"garbage\n"])
        dataset.poll()
        assert (dataset.stored, dataset.unreadable) == (2, 1)
        dataset.folder.hidden_states.write_bytes(encode_line(stored("c", 0)))
        dataset.poll()
        assert (dataset.hidden.stored, dataset.unreadable) == ({b"c": 0}, 0)
        assert "hidden_states.jsonl" in dataset.take_notes()[0]
        dataset.folder.hidden_states.unlink()
        dataset.poll()
        assert (dataset.stored, dataset.hidden.rows, dataset.hidden.history.is_empty) == (0, {}, True)
