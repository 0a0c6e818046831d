"""The lock decides, daemon.json informs; known failures 57 (lock), 59 and 52 (daemon.json)."""

from __future__ import annotations

import errno
import fcntl
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import msgspec
import pytest

from contracts.clock import boot_id
from contracts.daemon_info import DaemonInfo, is_alive, process_start, read_daemon_info
from contracts.run_dir import RunDir
from daemon import single
from daemon.single import AlreadyRunning, LockTrouble, SingleInstance


@pytest.fixture
def run_dir(tmp_path: Path) -> RunDir:
    return RunDir(tmp_path)


@pytest.fixture
def sleeper() -> Iterator[subprocess.Popen[bytes]]:
    process = subprocess.Popen(["sleep", "60"])
    yield process
    process.kill()
    process.wait()


@pytest.fixture(autouse=True)
def no_pause(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(single, "_PAUSE_S", 0.0)


@pytest.fixture
def holder(run_dir: RunDir) -> Iterator[subprocess.Popen[str]]:
    """Another process that holds the lock."""
    code = (
        "import sys; from pathlib import Path; from contracts.run_dir import RunDir; "
        "from daemon.single import SingleInstance; "
        "s = SingleInstance(RunDir(Path(sys.argv[1]))); s.acquire(); print('held', flush=True); sys.stdin.read()"
    )
    command = [sys.executable, "-c", code, str(run_dir.path)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "held\n"
        yield process
        process.kill()


def test_a_first_start_says_nothing_and_writes_who_it_is(run_dir: RunDir) -> None:
    instance = SingleInstance(run_dir)
    assert instance.acquire() == []
    info = read_daemon_info(run_dir.daemon_info)
    assert info is not None
    assert info.pid == os.getpid()
    assert info.start_time == process_start(os.getpid())
    assert info.boot_id == boot_id()
    assert info.socket == str(run_dir.socket)
    assert info.ended_at is None
    assert is_alive(info)
    instance.release()


def test_release_notes_the_end_keeps_the_lock_file_and_frees_the_lock(run_dir: RunDir) -> None:
    instance = SingleInstance(run_dir)
    instance.acquire()
    instance.release()
    info = read_daemon_info(run_dir.daemon_info)
    assert info is not None
    assert info.ended_at is not None
    assert run_dir.lock.exists()
    assert SingleInstance(run_dir).acquire() == []


def test_other_users_may_ask_whether_the_lock_is_held(run_dir: RunDir) -> None:
    before = os.umask(0o022)
    try:
        instance = SingleInstance(run_dir)
        instance.acquire()
    finally:
        os.umask(before)
    assert run_dir.lock.stat().st_mode & 0o777 == 0o644
    instance.release()


def test_release_without_acquire_does_nothing(run_dir: RunDir) -> None:
    assert SingleInstance(run_dir).release() == []
    assert not run_dir.daemon_info.exists()


def test_a_second_daemon_is_refused_with_pid_and_since(run_dir: RunDir, holder: subprocess.Popen[str]) -> None:
    with pytest.raises(AlreadyRunning, match=f"pid {holder.pid}") as caught:
        SingleInstance(run_dir).acquire()
    assert caught.value.pid == holder.pid
    assert caught.value.since is not None
    assert holder.poll() is None


@pytest.mark.parametrize("content", [b"", b"{}", b"\x00\xff"])
def test_the_lock_holds_without_a_readable_daemon_json(
    run_dir: RunDir, holder: subprocess.Popen[str], content: bytes
) -> None:
    run_dir.daemon_info.write_bytes(content)
    with pytest.raises(AlreadyRunning) as caught:
        SingleInstance(run_dir).acquire()
    assert caught.value.pid is None
    assert run_dir.daemon_info.read_bytes() == content


def test_after_kill_9_the_next_one_takes_over_and_says_so(run_dir: RunDir, holder: subprocess.Popen[str]) -> None:
    holder.kill()
    holder.wait()
    notes = SingleInstance(run_dir).acquire()
    assert len(notes) == 1
    assert "took over" in notes[0]
    assert str(holder.pid) in notes[0]


def test_a_reader_that_probes_the_lock_for_a_moment_turns_nobody_away(
    run_dir: RunDir, monkeypatch: pytest.MonkeyPatch
) -> None:
    descriptor = os.open(run_dir.lock, os.O_RDWR | os.O_CREAT)
    fcntl.flock(descriptor, fcntl.LOCK_SH)
    monkeypatch.setattr("daemon.single.time.sleep", lambda _s: fcntl.flock(descriptor, fcntl.LOCK_UN))
    SingleInstance(run_dir).acquire()
    os.close(descriptor)


# 59: the recorded pid belongs to another program, to nobody, or is garbage.


def test_case_59_a_foreign_pid_is_named_and_never_signalled(run_dir: RunDir, sleeper: subprocess.Popen[bytes]) -> None:
    old = DaemonInfo(pid=sleeper.pid, start_time=(process_start(sleeper.pid) or 0) - 100, boot_id=boot_id())
    run_dir.daemon_info.write_bytes(msgspec.json.encode(old))
    (note,) = SingleInstance(run_dir).acquire()
    assert "took over" in note
    assert f"pid {sleeper.pid}" in note
    assert "another program" in note
    assert sleeper.poll() is None


def test_case_59_a_pid_without_start_time_proves_nothing(run_dir: RunDir, sleeper: subprocess.Popen[bytes]) -> None:
    run_dir.daemon_info.write_text(f'{{"pid": {sleeper.pid}}}')
    (note,) = SingleInstance(run_dir).acquire()
    assert "took over" in note
    assert sleeper.poll() is None


def test_case_59_a_dead_pid(run_dir: RunDir) -> None:
    process = subprocess.Popen(["true"])
    process.wait()
    run_dir.daemon_info.write_bytes(msgspec.json.encode(DaemonInfo(pid=process.pid, start_time=1.0, boot_id=boot_id())))
    (note,) = SingleInstance(run_dir).acquire()
    assert "is gone" in note


@pytest.mark.parametrize("content", ["", "abc", "0", "null", "[]", '{"pid": "x"}', '{"pid": 1', "\x00" * 200])
def test_case_59_and_52_garbage_never_matters(run_dir: RunDir, content: str) -> None:
    run_dir.daemon_info.write_text(content)
    (note,) = SingleInstance(run_dir).acquire()
    assert "took over" in note
    info = read_daemon_info(run_dir.daemon_info)
    assert info is not None
    assert info.pid == os.getpid()


@pytest.mark.parametrize("pid", [0, -1, -9, 2**40, 2**70])
def test_case_59_impossible_pids(run_dir: RunDir, pid: int) -> None:
    run_dir.daemon_info.write_text(f'{{"pid": {pid}, "start_time": 1.0, "boot_id": "{boot_id()}"}}')
    (note,) = SingleInstance(run_dir).acquire()
    assert "took over" in note


# 57: a stale handle on the lock file.


class Stale:
    """Fails with ESTALE the first ``times`` calls."""

    def __init__(self, times: int) -> None:
        self.left = times

    def __call__(self) -> None:
        if self.left:
            self.left -= 1
            raise OSError(errno.ESTALE, os.strerror(errno.ESTALE))


@pytest.mark.parametrize("place", ["open", "stat"])
@pytest.mark.parametrize("times", [1, 2])
def test_case_57_a_stale_lock_file_is_opened_again(
    run_dir: RunDir, place: str, times: int, caplog: pytest.LogCaptureFixture
) -> None:
    stale = Stale(times)
    SingleInstance(run_dir, **_seam(place, stale)).acquire()  # type: ignore[arg-type]
    assert stale.left == 0
    assert sum("stale" in record.message for record in caplog.records) == times
    with pytest.raises(AlreadyRunning):
        SingleInstance(run_dir).acquire()


@pytest.mark.parametrize("place", ["open", "stat"])
def test_case_57_three_times_in_a_row_is_a_named_failure(run_dir: RunDir, place: str) -> None:
    with pytest.raises(LockTrouble, match=r"daemon\.lock: stale file handle on (open|stat), 3 times"):
        SingleInstance(run_dir, **_seam(place, Stale(3))).acquire()  # type: ignore[arg-type]
    SingleInstance(run_dir).acquire()


def _seam(place: str, stale: Stale) -> dict[str, object]:
    def open_file(path: Path, flags: int, mode: int) -> int:
        stale()
        return os.open(path, flags, mode)

    def stat(path: Path) -> os.stat_result:
        stale()
        return path.stat()

    return {"open_file": open_file} if place == "open" else {"stat": stat}


def test_a_lock_on_a_file_that_was_replaced_meanwhile_does_not_count(run_dir: RunDir) -> None:
    replaced: list[Path] = []

    def stat(path: Path) -> os.stat_result:
        if not replaced:
            path.rename(path.with_name("moved"))
            path.touch()
            replaced.append(path)
        return path.stat()

    SingleInstance(run_dir, stat=stat).acquire()
    with pytest.raises(AlreadyRunning):
        SingleInstance(run_dir).acquire()


def test_an_unusable_lock_is_one_sentence(run_dir: RunDir) -> None:
    run_dir.lock.mkdir()
    with pytest.raises(LockTrouble, match=r"daemon\.lock: cannot be locked: Is a directory"):
        SingleInstance(run_dir).acquire()


def test_a_file_system_without_locks_is_named(run_dir: RunDir, monkeypatch: pytest.MonkeyPatch) -> None:
    def no_locks(_descriptor: int, _how: int) -> None:
        raise OSError(errno.ENOLCK, os.strerror(errno.ENOLCK))

    monkeypatch.setattr("daemon.single.fcntl.flock", no_locks)
    with pytest.raises(LockTrouble, match="has no locks"):
        SingleInstance(run_dir).acquire()


def test_daemon_json_that_cannot_be_written_does_not_keep_the_daemon_down(run_dir: RunDir) -> None:
    run_dir.daemon_info.with_name(".daemon.json.tmp").mkdir()
    (note,) = SingleInstance(run_dir).acquire()
    assert "cannot be written" in note
    with pytest.raises(AlreadyRunning):
        SingleInstance(run_dir).acquire()


def test_the_end_is_noted_in_the_run_that_was_moved_and_not_in_another_at_its_path(run_dir: RunDir) -> None:
    instance, moved = SingleInstance(run_dir), RunDir(run_dir.path.with_name("moved"))
    instance.acquire()
    run_dir.path.rename(moved.path)
    run_dir.path.mkdir()
    run_dir.daemon_info.write_text("another's")
    assert instance.release() == []
    info = read_daemon_info(moved.daemon_info)
    assert info is not None and info.ended_at is not None
    assert run_dir.daemon_info.read_text() == "another's"
