"""Telemetry files read from their newest line backwards, while they grow, rotate, are cut and vanish."""

from __future__ import annotations

import os
import tempfile
from pathlib import Path

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from contracts.fold import rotated
from contracts.fold.rotated import RotatedLines


class Tick(msgspec.Struct):
    at: float
    pad: str = ""


def line(at: float, pad: int = 0) -> bytes:
    return msgspec.json.encode(Tick(float(at), "x" * pad)) + b"\n"


def append(path: Path, *lines: bytes) -> None:
    with path.open("ab") as file:
        file.write(b"".join(lines))


def rotate(path: Path, keep: int = 2) -> None:
    for number in range(keep if path.exists() else 0, 0, -1):
        source = path.with_name(f"{path.name}.{number - 1}") if number > 1 else path
        if source.exists():
            source.replace(path.with_name(f"{path.name}.{number}"))


Made = tuple[RotatedLines[Tick], list[float]]


def made(path: Path) -> Made:
    seen: list[float] = []
    return RotatedLines(path, Tick, lambda tick: seen.append(tick.at)), seen


def all_of(lines: RotatedLines[Tick], most_bytes: int = 1 << 20) -> None:
    while not lines.read(0.0, most_bytes):
        pass


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "gpu.jsonl"


@pytest.fixture
def small_blocks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rotated, "BLOCK_BYTES", 64)


def test_nothing_is_there_yet(path: Path) -> None:
    lines, seen = made(path)
    assert lines.read(0.0, 100) is True
    append(path, b"")
    assert lines.read(0.0, 100) is True
    append(path, line(1))
    assert lines.read(0.0, 100) is True
    assert seen == [1]


@pytest.mark.usefixtures("small_blocks")
def test_the_newest_come_first_and_no_more_is_read_than_wanted(path: Path) -> None:
    append(path, *(line(number) for number in range(1000)))
    lines, seen = made(path)
    assert lines.read(990.0, 1 << 20) is True
    assert 990 in seen
    assert min(seen) > 980
    assert lines.read(990.0, 1 << 20) is True
    assert min(seen) > 980  # it was read already
    assert lines.read(500.0, 640) is False
    assert min(seen) > 900
    all_of(lines)
    assert sorted(seen) == list(range(1000))


@pytest.mark.usefixtures("small_blocks")
def test_goes_back_into_rotated_files_and_on_with_new_lines(path: Path) -> None:
    for first in (0, 100, 200):
        append(path, *(line(number) for number in range(first, first + 100)))
        rotate(path)
    append(path, line(300))
    lines, seen = made(path)
    assert lines.read(299.0, 1 << 20) is True
    append(path, line(301))
    assert lines.read(299.0, 1 << 20) is True
    rotate(path)
    append(path, line(302), line(303))
    assert lines.read(299.0, 1 << 20) is True
    assert {300, 301, 302, 303} <= set(seen)
    all_of(lines)
    assert len(seen) == len(set(seen))  # each of those that are still there once
    assert set(seen) >= set(range(200, 304))


def test_a_torn_line_is_read_when_it_is_whole(path: Path) -> None:
    append(path, line(1), line(2)[:5])
    lines, seen = made(path)
    all_of(lines)
    assert seen == [1]
    append(path, line(2)[5:])
    all_of(lines)
    assert (seen, lines.unreadable) == ([1, 2], 0)


def test_garbled_lines_are_counted_once(path: Path) -> None:
    append(path, line(1), b"what\n", b"\n", b'{"at":"later"}\n', b"\xff\xfe\n", line(2))
    lines, seen = made(path)
    all_of(lines)
    append(path, b"ever\n", line(3))
    all_of(lines)
    assert (sorted(seen), lines.unreadable) == ([1, 2, 3], 4)


@pytest.mark.usefixtures("small_blocks")
def test_only_garbled_lines_do_not_end_the_way_back(path: Path) -> None:
    append(path, line(1), *[b"garbled garbled garbled\n"] * 20)
    lines, seen = made(path)
    assert lines.read(0.5, 1 << 20) is True
    assert (seen, lines.unreadable) == ([1], 20)


@pytest.mark.usefixtures("small_blocks")
def test_lines_longer_than_a_block(path: Path) -> None:
    append(path, line(1), line(2, 500), line(3, 3000), line(4))
    lines, seen = made(path)
    all_of(lines, 10)
    append(path, line(5, 5000))
    all_of(lines, 10)
    assert sorted(seen) == [1, 2, 3, 4, 5]


@pytest.mark.usefixtures("small_blocks")
def test_what_is_no_line_at_all_is_passed_over(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rotated, "_LONGEST_LINE", 1024)
    append(path, line(1), b"\0" * 5000 + b"\n", line(2))
    lines, seen = made(path)
    all_of(lines)
    assert sorted(seen) == [1, 2]
    assert lines.unreadable > 0
    append(path, b"\0" * 5000)
    all_of(lines)
    append(path, b"\n", line(3))
    all_of(lines)
    assert sorted(seen) == [1, 2, 3]


def test_a_file_that_was_cut_or_is_gone_starts_again(path: Path) -> None:
    append(path, line(1), line(2), line(3))
    lines, seen = made(path)
    all_of(lines)
    os.truncate(path, 0)
    append(path, line(4))
    all_of(lines)
    path.unlink()
    all_of(lines)
    append(path, line(5))
    all_of(lines)
    assert seen == [1, 2, 3, 4, 5]


def test_a_file_that_cannot_be_read_is_an_error(path: Path) -> None:
    path.mkdir()
    with pytest.raises(IsADirectoryError):
        made(path)[0].read(0.0, 100)


@settings(max_examples=150, deadline=None)
@given(
    st.lists(
        st.one_of(
            st.tuples(st.just("write"), st.integers(1, 30)),
            st.tuples(st.just("rotate"), st.just(0)),
            st.tuples(st.just("read"), st.integers(0, 400)),
        ),
        max_size=30,
    ),
    st.integers(40, 300),
    st.integers(1, 500),
)
def test_every_line_once_through_any_order_of_events(steps: list[tuple[str, int]], block: int, most_bytes: int) -> None:
    with tempfile.TemporaryDirectory() as folder, pytest.MonkeyPatch.context() as patch:
        patch.setattr(rotated, "BLOCK_BYTES", block)
        path = Path(folder) / "gpu.jsonl"
        lines, seen = made(path)
        written = 0
        for what, number in steps:
            if what == "write":
                append(path, *(line(at, at % 7 * 9) for at in range(written, written + number)))
                written += number
            elif what == "rotate":
                rotate(path, keep=40)
            else:
                lines.read(float(number), most_bytes)
        all_of(lines, most_bytes)
        assert sorted(seen) == list(range(written))
