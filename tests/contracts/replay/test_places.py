"""Where in a journal a moment is; each answer against a look at every line."""

from __future__ import annotations

import json
import math
import random
import time
from pathlib import Path

import pytest

from contracts.replay.past import Past
from contracts.replay.places import BLOCK, DISORDER_S, Place, first_stamp, last_stamp, place_at
from contracts.replay.stamps import stamp_of


def line_by_line(path: Path, at: float) -> Place:
    offset = 0
    for line in path.read_bytes().split(b"\n"):
        stamp = stamp_of(line)
        if stamp is not None and stamp > at:
            return Place(offset, stamp)
        offset += len(line) + 1
    return Place(path.stat().st_size, math.inf)


def journal(path: Path, stamps: list[float], pad: int = 200) -> Path:
    path.write_text("".join(json.dumps({"sample_id": "s", "pad": "x" * pad, "at": at}) + "\n" for at in stamps))
    return path


@pytest.mark.parametrize("seed", range(4))
def test_it_is_where_the_first_later_line_begins(tmp_path: Path, seed: int) -> None:
    draw = random.Random(seed)
    stamps = [1000.0 + n + draw.uniform(0, DISORDER_S - 1) for n in range(2000)]
    path = journal(tmp_path / "a.jsonl", stamps)
    assert path.stat().st_size > 4 * BLOCK
    size = path.stat().st_size
    for at in [999.0, 1000.0, 2e9, *(draw.uniform(990, 3010) for _ in range(60)), *draw.sample(stamps, 20)]:
        assert place_at(path, size, at) == line_by_line(path, at)


def test_long_lines_garbage_and_a_torn_end(tmp_path: Path) -> None:
    path = tmp_path / "a.jsonl"
    lines = []
    for n in range(60):
        lines.append(json.dumps({"finished_at": 100.0 + n, "pad": "x" * (3 * BLOCK if n % 7 == 0 else 10)}).encode())
        lines += [b"", b"not json", b'{"at": "yesterday"}', b'{"at": true}']
    path.write_bytes(b"\n".join(lines) + b'\n{"finished_at": 1')
    size = path.stat().st_size
    for at in (99.0, 100.0, 107.0, 107.5, 128.2, 159.0, 160.0):
        assert place_at(path, size, at) == line_by_line(path, at)
    assert (first_stamp(path, size), last_stamp(path, size)) == (100.0, 159.0)


@pytest.mark.parametrize("lines", [0, 3, 5000])
def test_lines_without_times_count_always(tmp_path: Path, lines: int) -> None:
    path = tmp_path / "a.jsonl"
    path.write_bytes(b'{"id": 1, "text": "of another tool"}\n' * lines)
    size = path.stat().st_size
    assert place_at(path, size, 5.0) == (size, math.inf)
    assert first_stamp(path, size) is last_stamp(path, size) is None


def test_a_missing_file_holds_nothing(tmp_path: Path) -> None:
    assert place_at(tmp_path / "none", 10, 5.0) == (0, math.inf)
    assert last_stamp(tmp_path / "none", 10) is None


def test_going_on_in_time_sees_what_is_appended(tmp_path: Path) -> None:
    path = journal(tmp_path / "a.jsonl", [10.0, 20.0], pad=0)
    past = Past(15.0)
    assert past(path, path.stat().st_size) == line_by_line(path, 15.0).offset
    assert past.next_in(path) == 20.0
    past.at = 25.0
    whole = path.stat().st_size
    assert past(path, whole) == whole
    assert past.next_in(path) == math.inf
    with path.open("a") as file:
        file.write('{"at": 24.0}\n{"at": 26.0}\n')
    assert past(path, path.stat().st_size) == whole + len('{"at": 24.0}\n')
    past.at = 5.0
    assert past(path, path.stat().st_size) == 0


def test_the_next_record_may_be_in_a_rotated_file(tmp_path: Path) -> None:
    path = journal(tmp_path / "a.jsonl", [30.0, 40.0], pad=0)
    journal(tmp_path / "a.jsonl.1", [10.0, 20.0], pad=0)
    assert [Past(at).next_in(path) for at in (5.0, 15.0, 25.0, 35.0, 45.0)] == [10.0, 20.0, 30.0, 40.0, math.inf]


@pytest.mark.parametrize(
    ("line", "stamp"),
    [
        (b'{"finished_at": 5.5, "at": 9}', 5.5),
        (b'{"at": 9}', 9.0),
        (b'{"at": -1}', None),
        (b'{"at": 1e300}', None),
        (b'{"at": null, "finished_at": "x"}', None),
        (b"[1, 2]", None),
        (b"1970-01-02 00:00:01,250 INFO eagle3: said", 86_401.25 + time.timezone),
        (b"1970-01-02 00:00:01 INFO eagle3: said", 86_401.0 + time.timezone),
        (b"1970-13-02 00:00:01,250 INFO eagle3: said", None),
        (b"12", None),
        (b"\xff\xfe", None),
        (b"", None),
    ],
)
def test_stamps(line: bytes, stamp: float | None) -> None:
    assert stamp_of(line) == stamp
