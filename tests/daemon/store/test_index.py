"""Reading the index of a store: what holds, what does not, where it is damaged."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from contracts.records import DroppedSample, StoredSample, encode_line
from daemon.store.index import read_index


def stored(sample_id: str | int, row: int = 0, **over: Any) -> StoredSample:
    values: dict[str, Any] = {
        "sample_id": sample_id,
        "file": f"{row}.safetensors",
        "row": row,
        "bytes": 10,
        "checksum": "xxh3_128:0",
        "tokens": 3,
        "loss_tokens": 2,
        "layers": [1, 2, 3],
        "hidden_size": 8,
        "dtype": "bfloat16",
        "norm": "post",
        "layout": "safetensors",
        "capture": "generating",
        "at": 1.0,
    }
    return StoredSample(**(values | over))


def dropped(sample_id: str | int) -> DroppedSample:
    return DroppedSample(sample_id=sample_id, why="checksum", at=2.0)


def write(path: Path, *lines: StoredSample | DroppedSample | bytes) -> None:
    path.write_bytes(b"".join(one if isinstance(one, bytes) else encode_line(one) for one in lines))


def test_what_is_stored(tmp_path: Path) -> None:
    path = tmp_path / "hidden_states.jsonl"
    write(path, stored("a", 0), stored(7, 1), b"\n", stored("c", 2), dropped("a"), dropped("never"))
    index = read_index(path)
    assert {key: record.row for key, record in index.records.items()} == {b"7": 1, b"c": 2}
    assert list(index.dropped) == [b"a"]
    assert (index.lines, index.duplicates, index.unreadable.count, index.torn) == (6, 0, 0, None)


def test_stored_again_after_it_was_dropped(tmp_path: Path) -> None:
    path = tmp_path / "hidden_states.jsonl"
    write(path, stored("a", 0), dropped("a"), stored("a", 5))
    index = read_index(path)
    assert index.records[b"a"].row == 5
    assert not index.dropped
    assert index.duplicates == 0


def test_the_first_of_two_records_holds(tmp_path: Path) -> None:
    path = tmp_path / "hidden_states.jsonl"
    write(path, stored(7, 0), stored("7", 1))
    index = read_index(path)
    assert index.records[b"7"].row == 0
    assert index.duplicates == 1


def test_damaged_lines_are_placed(tmp_path: Path) -> None:
    path = tmp_path / "hidden_states.jsonl"
    good = encode_line(stored("a"))
    write(path, good, b'{"type":"stored","sample_id":"b"}\n', b"\0\0\0\n", b'{"type":"other"}\n', stored("c"))
    index = read_index(path)
    assert list(index.records) == [b"a", b"c"]
    assert [place.line for place in index.unreadable.first] == [2, 3, 4]
    assert index.unreadable.first[0].offset == len(good)
    assert "file" in index.unreadable.first[0].why


def test_a_torn_last_line_counts_for_nothing_and_is_said(tmp_path: Path) -> None:
    path = tmp_path / "hidden_states.jsonl"
    line = encode_line(stored("b"))
    write(path, stored("a"), line[:40])
    index = read_index(path)
    assert list(index.records) == [b"a"]
    assert index.torn is not None
    assert "40 bytes" in index.torn
    assert index.unreadable.count == 0


def test_a_whole_last_line_without_its_newline(tmp_path: Path) -> None:
    path = tmp_path / "hidden_states.jsonl"
    write(path, stored("a"), encode_line(stored("b"))[:-1])
    index = read_index(path)
    assert list(index.records) == [b"a", b"b"]
    assert index.torn is None


def test_unknown_keys_are_read_over(tmp_path: Path) -> None:
    path = tmp_path / "hidden_states.jsonl"
    write(path, encode_line(stored("a")).replace(b'"row":0', b'"row":0,"later":[1,{"x":2}]'))
    assert list(read_index(path).records) == [b"a"]


def test_no_index_is_an_empty_one(tmp_path: Path) -> None:
    index = read_index(tmp_path / "hidden_states.jsonl")
    assert (index.records, index.lines, index.torn) == ({}, 0, None)
