"""The lock says whether a daemon is there."""

from __future__ import annotations

import errno
import fcntl
import os
from pathlib import Path

import msgspec
import pytest

from contracts.daemon_info import DaemonInfo
from contracts.liveness import UNKNOWN, Liveness, look
from contracts.run_dir import RunDir
from tests.support.records import NOW, make_run


def held(run: RunDir) -> int:
    descriptor = os.open(run.lock, os.O_RDWR | os.O_CREAT)
    fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    return descriptor


def info(run: RunDir, pid: int) -> None:
    run.daemon_info.write_bytes(msgspec.json.encode(DaemonInfo(pid=pid, since=NOW)))


def test_of_a_foreign_folder_nobody_can_say(tmp_path: Path) -> None:
    assert look(RunDir(tmp_path)) is UNKNOWN


def test_no_lock_is_no_daemon_whatever_daemon_json_says(tmp_path: Path) -> None:
    run = make_run(tmp_path)
    assert look(run) == Liveness(False)
    info(run, os.getpid())
    assert look(run) == Liveness(False)
    run.lock.write_bytes(b"")
    assert look(run) == Liveness(False)


def test_a_held_lock_is_a_daemon_whatever_daemon_json_says(tmp_path: Path) -> None:
    run = make_run(tmp_path)
    descriptor = held(run)
    assert look(run) == Liveness(True)
    run.daemon_info.write_bytes(b"")
    assert look(run) == Liveness(True)
    info(run, 77)
    assert look(run) == Liveness(True, 77, NOW)
    os.close(descriptor)
    assert look(run) == Liveness(False)


@pytest.mark.parametrize("code", [errno.EACCES, errno.EPERM])
def test_of_a_lock_that_may_not_be_opened_nobody_can_say(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, code: int
) -> None:
    run = make_run(tmp_path)
    descriptor = held(run)

    def refuse(*_arguments: object) -> int:
        raise OSError(code, os.strerror(code))

    monkeypatch.setattr("contracts.liveness.os.open", refuse)
    assert look(run) is UNKNOWN
    monkeypatch.undo()
    os.close(descriptor)


def test_looking_does_not_hold_the_lock(tmp_path: Path) -> None:
    run = make_run(tmp_path)
    run.lock.write_bytes(b"")
    look(run)
    os.close(held(run))
