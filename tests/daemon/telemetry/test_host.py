"""Host samples: real values on this machine, None where something can't be had."""

from __future__ import annotations

import os
import threading
from collections import namedtuple
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import psutil
import pytest

from contracts.records import HostSample
from daemon.telemetry.host import HostCollector

CpuTimes = namedtuple("CpuTimes", "user nice system idle iowait guest guest_nice")


def test_this_machine(tmp_path: Path) -> None:
    sample = HostCollector({"run": tmp_path, "dumps": tmp_path / "dumps"}).sample(5.0)
    assert sample.at == 5.0
    assert sample.memory_used_bytes is not None
    assert sample.memory_total_bytes is not None
    assert 0 < sample.memory_used_bytes < sample.memory_total_bytes
    assert sample.disk_free_bytes is not None
    assert sample.disk_total_bytes is not None
    assert 0 < sample.disk_free_bytes <= sample.disk_total_bytes
    assert sample.shm_total_bytes == sample.disk_total_bytes
    assert sample.daemon_rss_bytes is not None
    assert sample.daemon_rss_bytes > 1 << 20


def test_cpu_is_unknown_before_there_is_anything_to_compare(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    times = [CpuTimes(10, 0, 10, 80, 0, 5, 0), CpuTimes(40, 0, 20, 110, 30, 30, 0), CpuTimes(40, 0, 20, 110, 30, 30, 0)]
    monkeypatch.setattr(psutil, "cpu_times", lambda: times.pop(0))
    host = HostCollector({"run": tmp_path})
    assert host.sample(0.0).cpu_pct is None
    assert host.sample(1.0).cpu_pct == pytest.approx(40.0)  # 40 of 100 s; guests are part of user
    assert host.sample(2.0).cpu_pct is None  # the counters did not move: nothing is known


def test_cpu_shares_do_not_depend_on_the_thread(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    times = [CpuTimes(10, 0, 10, 80, 0, 0, 0), CpuTimes(60, 0, 10, 130, 0, 0, 0)]
    monkeypatch.setattr(psutil, "cpu_times", lambda: times.pop(0))
    host = HostCollector({"run": tmp_path})
    samples: list[HostSample] = []
    for at in (0.0, 1.0):
        thread = threading.Thread(target=lambda at=at: samples.append(host.sample(at)))
        thread.start()
        thread.join()
    assert [sample.cpu_pct for sample in samples] == [None, 50.0]


def test_own_cpu_is_a_share_of_one_core(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    host = HostCollector({"run": tmp_path})
    used = [SimpleNamespace(user=1.0, system=1.0), SimpleNamespace(user=1.4, system=1.1)]
    monkeypatch.setattr(psutil.Process, "cpu_times", lambda self: used.pop(0))
    assert host.sample(10.0).daemon_cpu_pct is None
    assert host.sample(12.0).daemon_cpu_pct == pytest.approx(25.0)


def test_each_value_is_lost_by_itself(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def denied(*args: Any, **kwargs: Any) -> Any:
        raise PermissionError(13, "denied")

    def gone(*args: Any, **kwargs: Any) -> Any:
        raise psutil.NoSuchProcess(1)

    broken = tmp_path / "hidden_states"
    broken.symlink_to(tmp_path / "unplugged")
    host = HostCollector({"run": tmp_path / "deleted", "store": broken})
    monkeypatch.setattr(psutil, "cpu_times", denied)
    monkeypatch.setattr(psutil, "virtual_memory", denied)
    monkeypatch.setattr(psutil.Process, "memory_info", gone)
    monkeypatch.setattr(os, "getloadavg", denied)
    assert host.sample(1.0) == HostSample(at=1.0)


def test_each_file_system_is_measured_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    measured: list[str] = []

    def usage(path: str) -> Any:
        measured.append(path)
        return SimpleNamespace(free=len(measured), total=100)

    monkeypatch.setattr(psutil, "disk_usage", usage)
    folders = {"run": tmp_path, "store": tmp_path / "hidden_states", "dumps": tmp_path / "not" / "made yet"}
    (disk,) = HostCollector(folders).sample(1.0).disks
    assert (disk.path, disk.uses, disk.free_bytes) == (str(tmp_path), ["run", "store", "dumps"], 1)
    assert measured == [str(tmp_path)]


def test_a_store_that_is_a_link_is_measured_where_it_lies(tmp_path: Path) -> None:
    memory = Path("/dev/shm")
    if not memory.is_dir() or memory.stat().st_dev == tmp_path.stat().st_dev:
        pytest.skip("needs two mounts")
    (tmp_path / "hidden_states").symlink_to(memory)
    folders = {"run": tmp_path, "store": tmp_path / "hidden_states", "dumps": tmp_path / "dumps"}
    sample = HostCollector(folders).sample(1.0)
    assert [(disk.path, disk.uses) for disk in sample.disks] == [
        (str(tmp_path), ["run", "dumps"]),
        ("/dev/shm", ["store"]),
    ]
    assert sample.shm_total_bytes == sample.disk_total_bytes
