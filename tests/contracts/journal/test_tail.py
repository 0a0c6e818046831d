"""Tailing: every whole line once, through half lines, truncation, replacement and deletion."""

from __future__ import annotations

import errno
import os
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import contracts.journal.tail as tail_module
from contracts.fold.prompts import PromptFold
from contracts.fold.responses import ResponseFold
from contracts.journal.stale import StaleFileError
from contracts.journal.tail import Position, Tail, is_whole_record
from contracts.records import encode_line
from tests.support.records import response


class Lines:
    """A sink that keeps what it is given."""

    def __init__(self) -> None:
        self.lines: list[bytes] = []
        self.offsets: list[int] = []
        self.why: list[str] = []
        self.bulk: list[bool] = []

    def reset(self, why: str) -> None:
        self.lines.clear()
        self.offsets.clear()
        self.why.append(why)

    def feed(self, block: bytearray, end: int, offset: int, bulk: bool) -> None:
        assert block[end - 1 : end] == b"\n"
        self.bulk.append(bulk)
        for line in bytes(block[:end]).splitlines(keepends=True):
            self.lines.append(line[:-1])
            self.offsets.append(offset)
            offset += len(line)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "j.jsonl"


def append(path: Path, data: bytes) -> None:
    with path.open("ab") as file:
        file.write(data)


def test_a_missing_file_is_waited_for(path: Path) -> None:
    tail, sink = Tail(path), Lines()
    assert tail.poll(sink) is False
    append(path, b"one\n")
    assert tail.poll(sink) is True
    assert tail.poll(sink) is False
    assert (sink.lines, sink.why) == ([b"one"], [])


def test_half_a_line_is_waited_for(path: Path) -> None:
    """Case 42: the unfinished line is neither reported nor lost."""
    tail, fold = Tail(path), ResponseFold()
    append(path, b'{"sample_id": "w1", "text": "spl')
    for _ in range(3):
        tail.poll(fold)
    assert (len(fold.done), fold.unreadable.count) == (0, 0)
    append(path, b'it"}\n')
    tail.poll(fold)
    assert fold.done == {b"w1"}
    append(path, b'{"sample_id": "w2", "text": "a"}\n{"sample_id": "w3", "text": "b"}\n{"sample_id": "w4", "te')
    tail.poll(fold)
    assert fold.done == {b"w1", b"w2", b"w3"}
    assert (fold.duplicates, fold.unreadable.count, fold.lines) == (0, 0, 3)


def test_a_file_cut_replaced_and_made_again(path: Path) -> None:
    """Case 43: what happened is said, and what is counted is what is there."""
    tail, sink = Tail(path), Lines()
    append(path, b"".join(b"line %d\n" % number for number in range(1000)))
    tail.poll(sink)
    assert len(sink.lines) == 1000

    path.write_bytes(b"".join(b"new %d\n" % number for number in range(5)))
    assert tail.poll(sink) is True
    assert len(sink.lines) == 5
    assert "was cut from 8890 to 30 bytes" in sink.why[-1]

    other = path.with_name("other")
    other.write_bytes(b"a\nb\nc\n")
    other.rename(path)
    assert tail.poll(sink) is True
    assert sink.lines == [b"a", b"b", b"c"]
    assert "was replaced" in sink.why[-1]

    path.unlink()
    assert tail.poll(sink) is True
    assert sink.lines == []
    assert "was deleted" in sink.why[-1]
    assert tail.poll(sink) is False
    append(path, b"x\ny\n")
    assert tail.poll(sink) is True
    assert sink.lines == [b"x", b"y"]
    assert len(sink.why) == 3


@pytest.mark.parametrize("content", [b"other\nlines\n", b"others\n", b"other\nlines\nand\nmore\nthan\nbefore\n"])
def test_a_file_written_anew_within_a_moment(path: Path, content: bytes) -> None:
    """As long as before, or longer, under the same inode: only what stands in it tells."""
    tail, sink = Tail(path), Lines()
    append(path, b"three\nlines\n")
    tail.poll(sink)
    path.write_bytes(content)  # truncates in place
    assert tail.poll(sink) is True
    assert sink.lines == content.splitlines()
    assert len(sink.why) == 1
    assert tail.poll(sink) is False


def test_deleted_and_made_again_between_two_looks(path: Path) -> None:
    tail, sink = Tail(path), Lines()
    append(path, b"three\nlines\n")
    tail.poll(sink)
    path.unlink()
    append(path, b"many\nmore\nlines\nthan\nbefore\n")
    tail.poll(sink)
    assert sink.lines == [b"many", b"more", b"lines", b"than", b"before"]


def test_damage_in_the_middle_is_reported_and_the_torn_end_is_not(path: Path) -> None:
    """Case 45."""
    good = [encode_line(response(f"s{number}", 2)) for number in range(3)]
    append(path, good[0] + good[1] + b'{"sample_id":"s3","prompt_tok\n' + b"\x00\x00\xff garbage\n" + good[2][:-20])
    fold = ResponseFold()
    Tail(path).poll(fold)
    assert (len(fold.done), fold.completion_tokens) == (2, 4)
    assert fold.unreadable.count == 2
    assert [place.line for place in fold.unreadable.first] == [3, 4]
    assert fold.unreadable.first[0].offset == len(good[0] + good[1])


def test_lines_longer_than_a_block(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tail_module, "BLOCK_BYTES", 16)
    lines = [b"x" * length for length in (0, 1, 14, 15, 16, 17, 31, 32, 33, 500, 3)]
    append(path, b"".join(line + b"\n" for line in lines))
    sink = Lines()
    Tail(path).poll(sink)
    assert sink.lines == lines
    content = path.read_bytes()
    assert all(content.startswith(line, offset) for line, offset in zip(lines, sink.offsets, strict=True))


def test_an_absurdly_long_line_is_named(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tail_module, "BLOCK_BYTES", 32)
    monkeypatch.setattr(tail_module, "_LONGEST_LINE", 64)
    append(path, b"ok\n" + b"x" * 200)
    with pytest.raises(OSError, match=r"j\.jsonl: the line at byte 3 is longer than 64 bytes"):
        Tail(path).poll(Lines())


@pytest.mark.parametrize("ending", [b"\n", b"\r\n", b" \n"])
def test_a_last_record_without_its_newline_counts_and_its_newline_is_no_line(path: Path, ending: bytes) -> None:
    tail, sink = Tail(path), Lines()
    append(path, b'{"a":1}\n{"a":2}')
    tail.poll(sink)
    assert sink.lines == [b'{"a":1}', b'{"a":2}']
    append(path, ending[:1])
    assert tail.poll(sink) is (ending[:1] == b"\n")
    append(path, ending[1:] + b"next\n")
    tail.poll(sink)
    assert sink.lines == [b'{"a":1}', b'{"a":2}', b"next"]
    assert sink.offsets[-1] == path.stat().st_size - 5
    assert sink.why == []


def test_what_seemed_a_whole_last_record_and_goes_on_is_read_anew(path: Path) -> None:
    tail, sink = Tail(path), Lines()
    append(path, b'{"a":1}')
    tail.poll(sink)
    append(path, b"garbage\nnext\n")
    tail.poll(sink)
    assert sink.lines == [b'{"a":1}garbage', b"next"]
    assert len(sink.why) == 1


def test_a_byte_order_mark_before_a_single_record_without_newline(path: Path) -> None:
    append(path, b'\xef\xbb\xbf{"sample_id":"p","input_ids":[1]}')
    fold = PromptFold()
    Tail(path).poll(fold)
    assert (fold.prompts, fold.unreadable.count) == (1, 0)


@pytest.mark.parametrize(
    ("line", "whole"),
    [
        (b'{"a":1}', True),
        (b'{"a":[1,{"b":"}"}]} \r', True),
        (b"[]", True),
        (b'[{"a":1}]', True),
        (b"", False),
        (b'{"a":1', False),
        (b'{"a":1}}', False),
        (b'{"a":[1,2}', False),
        (b"12", False),
        (b'"text"', False),
        (b"null", False),
        (b"\0\0", False),
    ],
)
def test_what_is_a_whole_record(line: bytes, whole: bool) -> None:
    assert is_whole_record(line) is whole


def test_most_bytes_stops_and_goes_on(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tail_module, "BLOCK_BYTES", 64)
    append(path, b"".join(b"%03d\n" % number for number in range(100)))
    tail, sink = Tail(path), Lines()
    assert tail.poll(sink, 100) is True
    assert 25 <= len(sink.lines) <= 50
    polls = 1
    while tail.poll(sink, 100):
        polls += 1
    assert sink.lines == [b"%03d" % number for number in range(100)]
    assert polls == 4


def test_bulk_is_for_a_poll_as_a_whole(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tail_module, "BLOCK_BYTES", 64)
    monkeypatch.setattr(tail_module, "BULK_BYTES", 300)
    tail, sink = Tail(path), Lines()
    append(path, b"x" * 19 + b"\n")
    tail.poll(sink)
    assert sink.bulk == [False]
    append(path, (b"x" * 19 + b"\n") * 16)
    tail.poll(sink)
    assert len(sink.bulk) > 2
    assert all(sink.bulk[1:])


def test_goes_on_from_a_position(path: Path) -> None:
    append(path, b"one\ntwo\n")
    first = Tail(path)
    first.poll(Lines())
    append(path, b"three\n")
    sink = Lines()
    Tail(path, first.position).poll(sink)
    assert sink.lines == [b"three"]


class TestStaleHandles:
    """Case 57."""

    def fails(self, monkeypatch: pytest.MonkeyPatch, owner: object, call: str, times: int, name: str) -> list[int]:
        real, left = getattr(owner, call), [times]

        def stale(*arguments: object, **named: object) -> object:
            ours = call == "preadv" or str(arguments[0]).endswith(name)
            if left[0] and ours:
                left[0] -= 1
                raise OSError(errno.ESTALE, "stale")
            return real(*arguments, **named)

        monkeypatch.setattr(owner, call, stale)
        return left

    @pytest.mark.parametrize(("owner", "call"), [(Path, "stat"), (os, "open"), (os, "preadv")])
    def test_once_is_a_log_line(
        self,
        path: Path,
        owner: object,
        call: str,
        monkeypatch: pytest.MonkeyPatch,
        caplog: pytest.LogCaptureFixture,
    ) -> None:
        append(path, b"one\n")
        tail, sink = Tail(path), Lines()
        tail.poll(sink)
        append(path, b"two\n")
        left = self.fails(monkeypatch, owner, call, 1, "j.jsonl")
        tail.poll(sink)
        assert (sink.lines, sink.why, left) == ([b"one", b"two"], [], [0])
        assert len(caplog.records) == 1
        assert str(path) in caplog.text

    @pytest.mark.parametrize(("owner", "call"), [(Path, "stat"), (os, "open"), (os, "preadv")])
    def test_three_times_is_a_named_failure(
        self, path: Path, owner: object, call: str, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        append(path, b"one\n")
        self.fails(monkeypatch, owner, call, 3, "j.jsonl")
        with pytest.raises(StaleFileError, match="3 times in a row") as caught:
            Tail(path).poll(Lines())
        assert caught.value.filename == str(path)

    def test_in_the_middle_of_a_file_nothing_is_fed_twice(self, path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(tail_module, "BLOCK_BYTES", 32)
        append(path, b"".join(b"%03d\n" % number for number in range(50)))
        real, calls = os.preadv, [0]

        def stale(*arguments: object) -> object:
            calls[0] += 1
            if calls[0] in (2, 5):
                raise OSError(errno.ESTALE, "stale")
            return real(*arguments)  # type: ignore[arg-type]

        monkeypatch.setattr(os, "preadv", stale)
        sink = Lines()
        Tail(path).poll(sink)
        assert sink.lines == [b"%03d" % number for number in range(50)]

    def test_another_error_comes_as_it_is(self, path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        append(path, b"one\n")

        def refused(*_arguments: object) -> int:
            raise PermissionError(errno.EACCES, "no", str(path))

        monkeypatch.setattr(os, "open", refused)
        with pytest.raises(PermissionError):
            Tail(path).poll(Lines())


PIECES = st.lists(
    st.sampled_from([b"a", b"bc", b"{", b"}", b'{"x":1}', b"\n", b"\n\n", b"long " * 9, b" "]), max_size=8
)
STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("append"), PIECES),
        st.tuples(st.just("cut"), st.integers(0, 60)),
        st.tuples(st.just("replace"), PIECES),
        st.tuples(st.just("rewrite"), PIECES),
        st.tuples(st.just("delete"), st.just([])),
        st.tuples(st.just("poll"), st.just([])),
    ),
    max_size=14,
)


@settings(max_examples=150, deadline=None)
@given(steps=STEPS)
def test_after_anything_the_lines_are_those_of_the_file(tmp_path_factory: pytest.TempPathFactory, steps: list) -> None:  # type: ignore[type-arg]
    """Appends, truncations, replacements and polls in any order end where a single look at the file does."""
    path = tmp_path_factory.mktemp("tail") / "j.jsonl"
    tail, sink = Tail(path), Lines()
    # Rewritten content is never the old one: that nobody could tell, and nobody needs to.
    for number, (kind, what) in enumerate([*steps, ("poll", [])]):
        if kind == "append":
            append(path, b"".join(what))
        elif kind == "cut" and path.exists():
            os.truncate(path, min(path.stat().st_size, what))
        elif kind == "rewrite":
            path.write_bytes(b"".join(what) + b"#%d\n" % number)
        elif kind == "replace":
            other = path.with_name("other")
            other.write_bytes(b"".join(what) + b"#%d\n" % number)
            other.replace(path)
        elif kind == "delete":
            path.unlink(missing_ok=True)
        elif kind == "poll":
            tail.poll(sink)
    fresh = Lines()
    Tail(path).poll(fresh)
    assert (sink.lines, sink.offsets) == (fresh.lines, fresh.offsets)


def test_a_position_is_what_a_checkpoint_keeps() -> None:
    assert Position(1, 2, 3) == Position(1, 2, 3, 0, b"", False)
