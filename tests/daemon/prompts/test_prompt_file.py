"""Case 57: ESTALE of a network disk, once on open, stat and read; three times in a row is a named failure."""

from __future__ import annotations

import errno
import logging
import os
from collections.abc import Callable
from pathlib import Path

import pytest

from daemon.prompts.index import PromptIndex, PromptLimits
from daemon.prompts.prompt_file import OsCalls, PromptFileError, ReopeningFile

Write = Callable[..., Path]
LIMITS = PromptLimits(vocab_size=None, max_input_len=None, context_length=None, max_new_tokens=8)
ROWS = '{"sample_id":"a","input_ids":[1]}\n{"sample_id":"b","input_ids":[2,3]}\n'


class Flaky(OsCalls):
    """Raises ESTALE in the named call, the given number of times; counts what is open."""

    def __init__(self, call: str = "", times: int = 0) -> None:
        self.call, self.times = call, times
        self.opened = 0

    def fail(self, call: str, times: int) -> None:
        self.call, self.times = call, times

    def _maybe(self, call: str) -> None:
        if self.call == call and self.times > 0:
            self.times -= 1
            raise OSError(errno.ESTALE, "Stale file handle")

    def open(self, path: Path) -> int:
        self._maybe("open")
        self.opened += 1
        return super().open(path)

    def fstat(self, handle: int) -> os.stat_result:
        self._maybe("fstat")
        return super().fstat(handle)

    def pread(self, handle: int, length: int, offset: int) -> bytes:
        self._maybe("pread")
        return super().pread(handle, length, offset)


@pytest.mark.parametrize("call", ["open", "fstat", "pread"])
@pytest.mark.parametrize("times", [1, 2])
def test_stale_while_indexing(write: Write, caplog: pytest.LogCaptureFixture, call: str, times: int) -> None:
    with caplog.at_level(logging.WARNING):
        index = PromptIndex.build(write(ROWS), LIMITS, Flaky(call, times))
    assert [index.read_ids(entry) for entry in index.entries] == [b"[1]", b"[2,3]"]
    assert len(caplog.records) == times
    assert "source.jsonl: stale file handle" in caplog.text


def test_stale_while_sending(write: Write, caplog: pytest.LogCaptureFixture) -> None:
    calls = Flaky()
    index = PromptIndex.build(write(ROWS), LIMITS, calls)
    for _ in range(3):  # each time once: not in a row
        calls.fail("pread", 1)
        assert index.read_ids(index.entries[1]) == b"[2,3]"
    assert calls.opened == 4
    assert len(caplog.records) == 3


@pytest.mark.parametrize("call", ["open", "fstat", "pread"])
def test_three_times_in_a_row_is_a_failure_with_a_name(write: Write, call: str) -> None:
    path = write(ROWS)
    with pytest.raises(PromptFileError, match=r"source\.jsonl: cannot be read: Stale file handle, 3 times in a row"):
        PromptIndex.build(path, LIMITS, Flaky(call, 3))


def test_replaced_by_another_file(write: Write) -> None:
    calls = Flaky()
    index = PromptIndex.build(write(ROWS), LIMITS, calls)
    write(ROWS.replace("[2,3]", "[4,5,6]"))
    calls.fail("pread", 1)
    with pytest.raises(PromptFileError, match="changed while it was in use"):
        index.read_ids(index.entries[0])


def test_gone_when_opened_again(write: Write) -> None:
    calls = Flaky()
    path = write(ROWS)
    index = PromptIndex.build(path, LIMITS, calls)
    path.unlink()
    assert index.read_ids(index.entries[0]) == b"[1]"
    calls.fail("pread", 1)
    with pytest.raises(PromptFileError, match="No such file"):
        index.read_ids(index.entries[0])


def test_as_a_stream(write: Write) -> None:
    file = ReopeningFile(write(b"0123456789"))
    assert (file.readable(), file.seekable(), file.size) == (True, True, 10)
    assert (file.read(3), file.seek(-2, os.SEEK_END), file.read(9), file.read(1)) == (b"012", 8, b"89", b"")
    assert file.pread(2, 4) == b"45"
    file.close()
    file.close()
    assert file.closed


def test_handles_are_given_back(write: Write) -> None:
    path = write(ROWS)
    before = len(list(Path("/proc/self/fd").iterdir()))
    for _ in range(3):
        with PromptIndex.build(path, LIMITS):
            pass
    assert len(list(Path("/proc/self/fd").iterdir())) == before
