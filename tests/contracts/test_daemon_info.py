"""Who a process is: pid, start after boot, boot."""

from __future__ import annotations

import os
import time
from pathlib import Path

import msgspec
import pytest

from contracts.clock import boot_id
from contracts.daemon_info import DaemonInfo, is_alive, process_start, read_daemon_info


def test_process_start_is_in_seconds_after_boot() -> None:
    start = process_start(os.getpid())
    assert start is not None
    assert 0 < time.clock_gettime(time.CLOCK_BOOTTIME) - start < 24 * 3600


def test_process_start_of_nobody_is_none() -> None:
    assert process_start(2**22 + 1) is None


@pytest.mark.parametrize(
    ("change", "alive"),
    [({}, True), ({"start_time": None}, False), ({"boot_id": "another"}, False), ({"start_time": 0.01}, False)],
)
def test_only_the_same_pid_start_and_boot_are_the_same_process(change: dict[str, object], alive: bool) -> None:
    own = DaemonInfo(pid=os.getpid(), start_time=process_start(os.getpid()), boot_id=boot_id())
    assert is_alive(msgspec.structs.replace(own, **change)) is alive


def test_a_missing_file_is_none(tmp_path: Path) -> None:
    assert read_daemon_info(tmp_path / "daemon.json") is None


def test_further_keys_are_skipped(tmp_path: Path) -> None:
    (tmp_path / "daemon.json").write_text('{"pid": 5, "from_a_later_version": 1}')
    info = read_daemon_info(tmp_path / "daemon.json")
    assert info is not None
    assert info.pid == 5
