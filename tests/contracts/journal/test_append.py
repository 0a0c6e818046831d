"""Appending: one write for each batch, nothing half in the file, whatever the disk does."""

from __future__ import annotations

import errno
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from contracts.journal.append import Journal, NoRoomError, repair_torn_tail

BATCH = b'{"a":1}\n{"a":2}\n'


class Disk:
    """Stands in for os.write: passes bytes on until it is told otherwise."""

    def __init__(self) -> None:
        self.room: int | None = None
        self.error = errno.ENOSPC
        self.calls: list[bytes] = []

    def write(self, descriptor: int, data: bytes) -> int:
        self.calls.append(data)
        if self.room is None:
            return os.write(descriptor, data)
        if self.room == 0:
            raise OSError(self.error, os.strerror(self.error))
        count = os.write(descriptor, data[: self.room])
        self.room -= count
        return count


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "prepared" / "d" / "raw_responses.jsonl"


def test_a_batch_is_one_write_and_makes_file_and_folder(path: Path) -> None:
    disk = Disk()
    journal = Journal(path, disk.write)
    journal.append(BATCH)
    journal.append(BATCH)
    journal.sync()
    journal.close()
    assert disk.calls == [BATCH, BATCH]
    assert path.read_bytes() == BATCH + BATCH
    assert journal.repair is None


def test_a_short_write_is_carried_on(path: Path) -> None:
    calls: list[bytes] = []

    def short(descriptor: int, data: bytes) -> int:
        calls.append(data)
        return os.write(descriptor, data[:5])

    Journal(path, short).append(BATCH)
    assert path.read_bytes() == BATCH
    assert len(calls) == 4


@pytest.mark.parametrize("code", [errno.ENOSPC, errno.EDQUOT])
@pytest.mark.parametrize("room", [0, 3, len(BATCH) // 2, len(BATCH) - 1])
def test_a_full_disk_leaves_the_file_as_it_was(path: Path, code: int, room: int) -> None:
    disk = Disk()
    journal = Journal(path, disk.write)
    journal.append(b'{"before":1}\n')
    disk.room, disk.error = room, code
    with pytest.raises(NoRoomError) as caught:
        journal.append(BATCH)
    assert caught.value.filename == str(path)
    assert path.read_bytes() == b'{"before":1}\n'
    disk.room = None
    journal.append(BATCH)
    assert path.read_bytes() == b'{"before":1}\n' + BATCH


def test_another_error_is_taken_back_too(path: Path) -> None:
    disk = Disk()
    journal = Journal(path, disk.write)
    disk.room, disk.error = 3, errno.EIO
    with pytest.raises(OSError, match=os.strerror(errno.EIO)) as caught:
        journal.append(BATCH)
    assert not isinstance(caught.value, NoRoomError)
    assert path.read_bytes() == b""


def test_what_cannot_be_taken_back_at_once_is_taken_back_before_the_next_batch(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    disk = Disk()
    journal = Journal(path, disk.write)
    journal.append(b'{"before":1}\n')

    def broken(_descriptor: int, _length: int) -> None:
        raise OSError(errno.EIO, "no")

    disk.room = len(BATCH) - 3
    with monkeypatch.context() as patch:
        patch.setattr(os, "ftruncate", broken)
        with pytest.raises(NoRoomError):
            journal.append(BATCH)
        disk.room = None
        with pytest.raises(OSError, match="no"):  # better nothing than a record twice
            journal.append(BATCH)
    journal.append(BATCH)
    assert path.read_bytes() == b'{"before":1}\n' + BATCH


FILL = """
import resource, sys
from pathlib import Path
from contracts.journal.append import Journal, NoRoomError
journal = Journal(Path(sys.argv[1]))
line = b'{"a":"' + b"x" * 90 + b'"}\\n'
whole = 0
try:
    for _ in range(1000):
        journal.append(line * 7)
        whole += 7
except (NoRoomError, OSError) as error:
    print(type(error).__name__, whole, len(line))
"""


def run_fill(path: Path, limit: str) -> tuple[str, int, int]:
    shell = f"{limit} exec {sys.executable} -c '$CODE' {path}".replace("'$CODE'", '"$CODE"')
    done = subprocess.run(
        ["bash", "-c", shell], env={**os.environ, "CODE": FILL}, capture_output=True, text=True, check=True, timeout=20
    )
    name, whole, length = done.stdout.split()
    return name, int(whole), int(length)


def test_a_real_limit_on_the_file_size(tmp_path: Path) -> None:
    assert signal.getsignal(signal.SIGXFSZ) is not None
    path = tmp_path / "j.jsonl"
    name, whole, length = run_fill(path, "ulimit -f 10;")  # blocks of 1,024 bytes
    assert name == "OSError"
    assert path.stat().st_size == whole * length
    assert whole > 0


def test_a_real_full_disk(tmp_path: Path) -> None:
    disk = tmp_path / "disk"
    disk.mkdir()
    mounted = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", "size=64k", "tmpfs", str(disk)], capture_output=True, check=False
    )
    if mounted.returncode != 0:
        pytest.skip("cannot mount a tmpfs here")
    try:
        name, whole, length = run_fill(disk / "j.jsonl", "")
        assert name == "NoRoomError"
        assert (disk / "j.jsonl").stat().st_size == whole * length
        assert whole > 0
    finally:
        subprocess.run(["umount", str(disk)], check=True)


@pytest.mark.parametrize("torn", [b'{"sample_id":"x","out', b"{", b"\0\0\0\0", b'{"a":1}}', b"12", b'"text"', b"\xff"])
def test_a_torn_tail_is_cut_off_and_kept(path: Path, torn: bytes) -> None:
    path.parent.mkdir(parents=True)
    path.write_bytes(BATCH + torn)
    journal = Journal(path)
    assert path.read_bytes() == BATCH
    assert journal.repair is not None
    assert journal.repair.removed_bytes == len(torn)
    side_file = journal.repair.side_file
    assert side_file is not None
    assert side_file.name == f"raw_responses.jsonl.torn-{len(BATCH)}"
    assert side_file.read_bytes() == torn
    assert str(path) in str(journal.repair)
    assert side_file.name in str(journal.repair)


def test_the_same_place_torn_twice_keeps_both(path: Path) -> None:
    path.parent.mkdir(parents=True)
    for torn in (b'{"first', b'{"second'):
        path.write_bytes(BATCH + torn)
        repair_torn_tail(path)
    kept = sorted(file.read_bytes() for file in path.parent.glob("*.torn-*"))
    assert kept == [b'{"first', b'{"second']


@pytest.mark.parametrize("tail", [b'{"a":3}', b'{"a":3}\r', b'[{"a":3}]'])
def test_a_whole_last_record_gets_its_newline(path: Path, tail: bytes) -> None:
    path.parent.mkdir(parents=True)
    path.write_bytes(BATCH + tail)
    journal = Journal(path)
    assert path.read_bytes() == BATCH + tail + b"\n"
    assert journal.repair is not None
    assert (journal.repair.removed_bytes, journal.repair.side_file) == (0, None)
    assert "newline" in str(journal.repair)


@pytest.mark.parametrize("content", [b"", BATCH, b"\n"])
def test_a_whole_file_is_left_alone(path: Path, content: bytes) -> None:
    path.parent.mkdir(parents=True)
    path.write_bytes(content)
    assert Journal(path).repair is None
    assert path.read_bytes() == content
    assert [file.name for file in path.parent.iterdir()] == [path.name]


def test_a_torn_tail_longer_than_a_step_of_the_search(path: Path) -> None:
    path.parent.mkdir(parents=True)
    torn = b'{"output_ids":[' + b"1," * 100_000
    path.write_bytes(BATCH + torn)
    repair = repair_torn_tail(path)
    assert repair is not None
    assert repair.removed_bytes == len(torn)
    assert path.read_bytes() == BATCH


def test_a_file_without_any_newline(path: Path) -> None:
    path.parent.mkdir(parents=True)
    path.write_bytes(b'{"a":')
    Journal(path).append(BATCH)
    assert path.read_bytes() == BATCH


def test_a_missing_file_needs_no_repair(path: Path) -> None:
    assert repair_torn_tail(path) is None
    assert not path.exists()


def test_a_side_file_that_cannot_be_written_leaves_the_file_alone(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path.parent.mkdir(parents=True)
    path.write_bytes(BATCH + b'{"torn')

    def full(_descriptor: int) -> None:
        raise OSError(errno.ENOSPC, "full")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(OSError, match="full"):
        repair_torn_tail(path)
    assert path.read_bytes() == BATCH + b'{"torn'


def test_a_sync_goes_on_with_its_file_while_the_path_is_followed(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    journal = Journal(path)
    journal.append(b"1\n")
    synced: list[bytes] = []

    def slow_sync(descriptor: int) -> None:
        path.unlink()
        journal.append(b"2\n")  # as the writing thread may, in the middle of it: closes the old descriptor
        synced.append(os.pread(descriptor, 10, 0))

    monkeypatch.setattr(os, "fdatasync", slow_sync)
    journal.sync()
    assert (synced, path.read_bytes()) == ([b"1\n"], b"2\n")
    journal.close()


@pytest.mark.parametrize("how", ["moved", "deleted", "folder deleted"])
def test_the_path_is_followed(path: Path, how: str, caplog: pytest.LogCaptureFixture) -> None:
    journal = Journal(path)
    journal.append(b'{"before":1}\n')
    if how == "moved":
        path.rename(path.with_name("old"))
    elif how == "deleted":
        path.unlink()
    else:
        path.unlink()
        path.parent.rmdir()
    open_files = len(list(Path("/proc/self/fd").iterdir()))
    journal.append(BATCH)
    journal.sync()
    assert path.read_bytes() == BATCH
    assert str(path) in caplog.text
    assert len(list(Path("/proc/self/fd").iterdir())) == open_files


def test_a_replacement_is_repaired_before_it_is_appended_to(path: Path, caplog: pytest.LogCaptureFixture) -> None:
    journal = Journal(path)
    journal.append(BATCH)
    other = path.with_name("other")
    other.write_bytes(b'{"theirs":1}\n{"torn')
    other.rename(path)
    journal.append(BATCH)
    assert path.read_bytes() == b'{"theirs":1}\n' + BATCH
    assert journal.repair is not None
    assert "torn last line" in caplog.text


def test_a_file_cut_in_the_middle_of_a_line_is_repaired_before_the_next_batch(path: Path) -> None:
    journal = Journal(path)
    journal.append(BATCH)
    os.truncate(path, len(BATCH) - 3)
    journal.append(b'{"after":1}\n')
    assert path.read_bytes() == b'{"a":1}\n{"after":1}\n'


class TestStaleHandles:
    """Case 57: ESTALE once on anything, and the journal goes on with one log line; three times, and it is named."""

    @pytest.mark.parametrize("call", ["fstat", "open"])
    def test_once(
        self, path: Path, call: str, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
    ) -> None:
        real = getattr(os, call)
        left = [1]

        def stale(*arguments: object, **named: object) -> object:
            if left[0] and (call == "fstat" or str(arguments[0]).endswith(".jsonl")):
                left[0] -= 1
                raise OSError(errno.ESTALE, "stale")
            return real(*arguments, **named)

        if call == "fstat":
            journal = Journal(path)
            journal.append(BATCH)
            monkeypatch.setattr(os, call, stale)
        else:
            path.parent.mkdir(parents=True)
            path.write_bytes(BATCH)
            monkeypatch.setattr(os, call, stale)
            journal = Journal(path)
        journal.append(b'{"after":1}\n')
        assert path.read_bytes() == BATCH + b'{"after":1}\n'
        assert left == [0]
        if call == "open":
            assert len(caplog.records) == 1
            assert str(path) in caplog.text

    def test_while_writing(self, path: Path, caplog: pytest.LogCaptureFixture) -> None:
        disk = Disk()
        journal = Journal(path, disk.write)
        disk.room, disk.error = 3, errno.ESTALE

        def write(descriptor: int, data: bytes) -> int:
            try:
                return disk.write(descriptor, data)
            except OSError:
                disk.room = None
                raise

        journal._write = write
        journal.append(BATCH)
        assert path.read_bytes() == BATCH
        assert len(caplog.records) == 1

    def test_three_times(self, path: Path) -> None:
        disk = Disk()
        journal = Journal(path, disk.write)
        disk.room, disk.error = 0, errno.ESTALE
        with pytest.raises(OSError, match="3 times in a row") as caught:
            journal.append(BATCH)
        assert caught.value.filename == str(path)
        assert path.read_bytes() == b""
