"""The newest sample of a growing, rotating file."""

from __future__ import annotations

import errno
from pathlib import Path

import pytest

from contracts.fold.telemetry import Newest, TelemetryFold
from contracts.records import GpuSample, Heartbeat, HostSample, ServerSample, encode_line
from contracts.run_dir import RunDir
from tests.support.records import heartbeat, write


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "telemetry" / "host.jsonl"


def host(at: float) -> HostSample:
    return HostSample(at=at, cpu_pct=50.0)


def at(newest: Newest[HostSample]) -> float | None:
    return None if newest.sample is None else newest.sample.at


def test_follows_a_growing_file(path: Path) -> None:
    newest = Newest(path, HostSample)
    assert newest.poll() is False
    write(path, [host(1), host(2)])
    assert newest.poll() is True
    assert at(newest) == 2
    assert newest.poll() is False
    write(path, [host(3)])
    assert newest.poll() is True
    assert at(newest) == 3


def test_a_torn_or_strange_last_line_leaves_the_one_before(path: Path) -> None:
    newest = Newest(path, HostSample)
    write(path, [host(1), b"\0\0\xff\n", b'{"at":"later"}\n', encode_line(host(2))[:-4]])
    assert newest.poll() is True
    assert at(newest) == 1
    write(path, [encode_line(host(2))[-4:]])
    assert newest.poll() is True
    assert at(newest) == 2


def test_only_strange_lines(path: Path) -> None:
    newest = Newest(path, HostSample)
    write(path, [b"what\n", b"ever\n"])
    assert newest.poll() is False
    assert at(newest) is None


def test_says_when_the_newest_lines_are_garbled(path: Path) -> None:
    newest = Newest(path, HostSample)
    write(path, [host(1)])
    newest.poll()
    size = path.stat().st_size
    write(path, [b"what\n", b"\n", b"ever\n"])
    assert newest.poll() is False  # nothing newer
    assert at(newest) == 1
    assert newest.garbled is not None
    assert (newest.garbled.path, newest.garbled.count, newest.garbled.offset) == (path, 2, size + 6)
    afresh = Newest(path, HostSample)
    afresh.poll()
    assert (afresh.garbled, afresh.sample) == (newest.garbled, newest.sample)
    write(path, [host(2)])
    assert newest.poll() is True
    assert at(newest) == 2
    assert newest.garbled is None


def test_what_was_garbled_is_over_when_the_file_is_gone(path: Path) -> None:
    newest = Newest(path, HostSample)
    write(path, [b"what\n"])
    newest.poll()
    assert newest.garbled is not None
    path.unlink()
    newest.poll()
    assert newest.garbled is None


def test_the_rest_of_a_line_that_began_before_what_is_read_is_not_garbled(path: Path) -> None:
    write(path, [b'{"at":1,"new_key":"' + b"x" * 200_000 + b'"}\n'])
    newest = Newest(path, HostSample)
    assert newest.poll() is False
    assert newest.garbled is None


def test_goes_through_a_rotation(path: Path) -> None:
    newest = Newest(path, HostSample)
    write(path, [host(1), host(2)])
    newest.poll()
    path.rename(path.with_name("host.1.jsonl"))
    assert newest.poll() is False
    write(path, [b""])
    assert newest.poll() is False
    assert at(newest) == 2
    write(path, [host(3)])
    assert newest.poll() is True
    assert at(newest) == 3


def test_reads_only_the_end_of_a_long_file(path: Path) -> None:
    write(path, [host(number) for number in range(5000)])
    newest = Newest(path, HostSample)
    newest.poll()
    assert path.stat().st_size > 200_000
    assert at(newest) == 4999


def test_a_stale_handle_is_tried_again(
    path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    write(path, [host(1)])
    real, left = Path.open, [1]

    def stale(self: Path, *arguments: object, **named: object) -> object:
        if left[0]:
            left[0] -= 1
            raise OSError(errno.ESTALE, "stale")
        return real(self, *arguments, **named)  # type: ignore[call-overload]

    monkeypatch.setattr(Path, "open", stale)
    newest = Newest(path, HostSample)
    assert newest.poll() is True
    assert len(caplog.records) == 1


def test_all_four_kinds(tmp_path: Path) -> None:
    run = RunDir(tmp_path)
    fold = TelemetryFold(run)
    assert fold.poll() is False
    assert (fold.gpu, fold.host, fold.server, fold.heartbeat) == (None, None, None, None)
    write(run.telemetry_file("gpu"), [GpuSample(at=1, state="none", gpus=[])])
    write(run.telemetry_file("host"), [host(2)])
    write(run.telemetry_file("server"), [ServerSample(at=3, servers=[])])
    write(run.telemetry_file("daemon"), [heartbeat(4)])
    assert fold.poll() is True
    found = [fold.gpu, fold.host, fold.server, fold.heartbeat]
    assert [sample.at for sample in found if sample is not None] == [1, 2, 3, 4]
    assert isinstance(fold.heartbeat, Heartbeat)
    assert fold.poll() is False
