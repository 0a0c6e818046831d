"""Telemetry files: rotation, and every way in which a disk may fail without stopping anything."""

from __future__ import annotations

import errno
import os
import resource
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest

from daemon.telemetry.rotation import RotatingAppender


def names(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


def test_lines_are_appended_and_the_folder_is_made(tmp_path: Path) -> None:
    appender = RotatingAppender(tmp_path / "telemetry" / "gpu.jsonl", max_bytes=1000)
    assert appender.append(b"1\n")
    assert appender.append(b"2\n")
    assert appender.path.read_bytes() == b"1\n2\n"
    assert (appender.dropped, appender.problem) == (0, None)


def test_rotation_keeps_two_old_files_and_every_line_whole(tmp_path: Path) -> None:
    appender = RotatingAppender(tmp_path / "gpu.jsonl", max_bytes=40, keep=2)
    lines = [b"line %04d\n" % number for number in range(40)]  # 10 bytes each: four to a file
    for line in lines:
        assert appender.append(line)
    assert names(tmp_path) == ["gpu.jsonl", "gpu.jsonl.1", "gpu.jsonl.2"]
    kept = b"".join((tmp_path / name).read_bytes() for name in ("gpu.jsonl.2", "gpu.jsonl.1", "gpu.jsonl"))
    assert kept == b"".join(lines[-12:])


def test_a_line_larger_than_the_limit_has_a_file_of_its_own(tmp_path: Path) -> None:
    appender = RotatingAppender(tmp_path / "a", max_bytes=5)
    for line in (b"0123456789\n", b"x\n"):
        assert appender.append(line)
    assert (tmp_path / "a.1").read_bytes() == b"0123456789\n"
    assert (tmp_path / "a").read_bytes() == b"x\n"


def test_keeping_no_old_file_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="keep=0"):
        RotatingAppender(tmp_path / "a", max_bytes=4, keep=0)


def test_a_new_appender_goes_on_and_a_torn_line_does_not_swallow_the_next(tmp_path: Path) -> None:
    path = tmp_path / "a"
    path.write_bytes(b'{"at":1}\n{"at":')
    assert RotatingAppender(path, max_bytes=1000).append(b'{"at":3}\n')
    assert path.read_bytes() == b'{"at":1}\n{"at":\n{"at":3}\n'


def test_a_file_that_was_moved_or_deleted_is_made_again(tmp_path: Path) -> None:
    path = tmp_path / "a"
    appender = RotatingAppender(path, max_bytes=1000)
    appender.append(b"1\n")
    path.unlink()
    assert appender.append(b"2\n")
    assert path.read_bytes() == b"2\n"


def test_disk_full_drops_lines_counts_them_and_goes_on_afterwards(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(fd: int, data: bytes) -> int:
        raise OSError(errno.ENOSPC, "No space left on device")

    path = tmp_path / "a"
    appender = RotatingAppender(path, max_bytes=1000)
    appender.append(b"1\n")
    with monkeypatch.context() as patched:
        patched.setattr(os, "write", full)
        for dropped in (1, 2):
            assert appender.append(b"2\n") is False
            assert appender.dropped == dropped
        assert appender.problem is not None
        assert str(path) in appender.problem
        assert "2 so far" in appender.problem
        assert "No space left" in appender.problem
    assert appender.append(b"3\n")
    assert path.read_bytes() == b"1\n3\n"
    assert appender.dropped == 2
    assert appender.problem is None


@pytest.fixture
def file_size_limit() -> Iterator[int]:
    """A limit on the size of files: writes stop short there, as on a disk that fills up."""
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    handler = signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_FSIZE, (1000, before[1]))
    yield 1000
    resource.setrlimit(resource.RLIMIT_FSIZE, before)
    signal.signal(signal.SIGXFSZ, handler)


def test_a_short_write_is_undone(tmp_path: Path, file_size_limit: int) -> None:
    path = tmp_path / "a"
    appender = RotatingAppender(path, max_bytes=100_000)
    assert appender.append(b"x" * 899 + b"\n")
    assert appender.append(b"y" * 200 + b"\n") is False
    assert path.stat().st_size == 900
    assert appender.problem is not None
    assert "100 of 201 bytes" in appender.problem
    assert appender.append(b"z\n")
    assert path.read_bytes().endswith(b"x\nz\n")


def test_a_folder_that_is_gone_or_a_file_costs_lines_only(tmp_path: Path) -> None:
    assert RotatingAppender(tmp_path / "no" / "telemetry" / "a", max_bytes=9).append(b"1\n") is False
    (tmp_path / "telemetry").write_text("")
    assert RotatingAppender(tmp_path / "telemetry" / "a", max_bytes=9).append(b"1\n") is False
    (tmp_path / "a").mkdir()
    assert RotatingAppender(tmp_path / "a", max_bytes=1 << 20).append(b"1\n") is False


def test_where_no_folder_may_be_made_lines_are_dropped_under_the_name_that_people_know(tmp_path: Path) -> None:
    path, named = tmp_path / "telemetry" / "gpu.jsonl", Path("run/telemetry/gpu.jsonl")
    appender = RotatingAppender(path, max_bytes=1000, may_make=lambda: False, named=named)
    assert appender.append(b"1\n") is False
    assert str(appender.problem).startswith(f"{named}: ")
    assert not path.parent.exists()
    path.parent.mkdir()
    assert appender.append(b"2\n") and path.read_bytes() == b"2\n"
