"""The commands that ask the daemon: what they send, what they say, and that nothing is claimed without its reply."""

from __future__ import annotations

import fcntl
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from contracts.run_dir import RunDir
from eagle3_tui.commands import control
from tests.eagle3_tui.commands.conftest import FakeDaemon, Result, response

Eagle3 = Callable[..., Result]


@pytest.mark.parametrize(
    ("arguments", "sent"),
    [
        (["pause"], {"command": "pause", "reason": None}),
        (["pause", "--reason", "lunch"], {"command": "pause", "reason": "lunch"}),
        (["resume"], {"command": "resume"}),
        (["drain", "--no-wait"], {"command": "drain"}),
        (["stop", "--no-wait"], {"command": "stop"}),
        (["set", "--concurrency", "8"], {"command": "set", "concurrency": 8, "targets": {}}),
        (
            ["set", "--target", "B1=1_000", "--target", "B=2=5"],
            {"command": "set", "concurrency": None, "targets": {"B1": 1000, "B=2": 5}},
        ),
        (
            ["set", "--concurrency", "default", "--target", "B1=default"],
            {"command": "set", "concurrency": "default", "targets": {"B1": "default"}},
        ),
        (["retry"], {"command": "retry", "dataset": None, "error": None, "sample_id": None}),
        (
            ["retry", "--dataset", "B1", "--error", "poison", "--sample", "7"],
            {"command": "retry", "dataset": "B1", "error": "poison", "sample_id": "7"},
        ),
    ],
)
def test_what_is_sent_and_what_is_said(
    eagle3: Eagle3, daemon: FakeDaemon, arguments: list[str], sent: dict[str, Any]
) -> None:
    name, *options = arguments
    result = eagle3(name, daemon.run.path, *options)
    assert (result.code, result.out, result.err) == (0, f"{name}: done\n", "")
    assert daemon.got == [sent]


@pytest.mark.parametrize("name", ["drain", "stop"])
def test_ending_what_has_ended_is_no_error(eagle3: Eagle3, run_path: Path, name: str) -> None:
    result = eagle3(name, run_path)
    assert (result.code, result.err) == (0, "")
    assert result.out == f"no daemon of {run_path} is running: nothing to {name}\n"


@pytest.mark.parametrize("name", ["pause", "resume"])
def test_without_a_daemon_it_says_so_and_exits_3(eagle3: Eagle3, run_path: Path, name: str) -> None:
    result = eagle3(name, run_path)
    assert (result.code, result.out) == (3, "")
    assert result.err == f"eagle3: no daemon is running for {run_path}; start it with: eagle3 start {run_path}\n"


def test_without_a_daemon_set_and_retry_are_recorded(eagle3: Eagle3, run_path: Path) -> None:
    result = eagle3("set", run_path, "--concurrency", "7")
    assert (result.code, result.err) == (0, "")
    assert result.out == "concurrency: 7: recorded; it takes effect at the next eagle3 start\n"
    result = eagle3("retry", run_path)
    assert (result.code, result.err) == (0, "")
    assert result.out.startswith("nothing to retry: no sample is given up")
    assert '"kind":"control.set"' in RunDir(run_path).events.read_text()
    failures = RunDir(run_path).dataset("B1").failures
    assert not failures.exists()
    result = eagle3("retry", run_path, "--sample", "nobody")
    assert (result.code, result.out) == (1, "")
    assert "no sample 'nobody' of this run has failed" in result.err
    assert not failures.exists()


def test_a_daemon_that_is_starting_is_not_written_past(eagle3: Eagle3, run_path: Path) -> None:
    with RunDir(run_path).lock.open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        result = eagle3("retry", run_path)
    assert (result.code, result.out) == (1, "")
    assert "runs here already" in result.err and "try again" in result.err


def test_a_drain_says_how_far_it_is(eagle3: Eagle3, daemon: FakeDaemon, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(control, "TELL_EVERY_S", 0.0)
    monkeypatch.setattr("eagle3_tui.commands.control.time.sleep", lambda _: daemon.release_lock())
    daemon.answer = lambda _: [{"ok": True, "message": "draining", "result": {"totals": {"in_flight": 12}}}]
    result = eagle3("drain", daemon.run.path)
    path = daemon.run.path
    assert result.out.splitlines() == [
        "draining",
        f"12 requests are still open; to end at once: eagle3 stop {path}",
        f"the daemon of {path} has ended",
    ]


def test_a_stale_socket_is_no_daemon(eagle3: Eagle3, run_path: Path, daemon: FakeDaemon) -> None:
    other = run_path.parent / "other"
    other.mkdir()
    (other / "run.toml").write_text((run_path / "run.toml").read_text())
    fake = FakeDaemon(RunDir(other), lambda _: [])
    fake.close()
    assert RunDir(other).socket.is_socket()
    assert eagle3("pause", other).code == 3


def test_a_folder_that_is_no_run_exits_5(eagle3: Eagle3, tmp_path: Path) -> None:
    for name in ("pause", "start", "check", "retry"):
        result = eagle3(name, tmp_path / "nothing")
        assert result.code == 5
        assert "no such folder" in result.err


def test_a_refusal_is_told_in_the_daemons_words(eagle3: Eagle3, daemon: FakeDaemon) -> None:
    daemon.answer = lambda _: [{"ok": False, "message": "no such data set: \x1b[2J"}]
    result = eagle3("retry", daemon.run.path)
    assert (result.code, result.out) == (1, "")
    assert result.err == "eagle3: no such data set: ^[[2J\n"


def test_a_daemon_that_hangs_up_is_a_failure(eagle3: Eagle3, daemon: FakeDaemon) -> None:
    daemon.answer = lambda _: []
    result = eagle3("pause", daemon.run.path)
    assert (result.code, result.out) == (1, "")
    assert "gave no reply" in result.err


@pytest.mark.parametrize("name", ["drain", "stop"])
def test_ending_waits_until_the_lock_is_free(
    eagle3: Eagle3, daemon: FakeDaemon, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    naps: list[float] = []

    def nap(length: float) -> None:
        naps.append(length)
        if len(naps) == 3:
            daemon.release_lock()

    monkeypatch.setattr("eagle3_tui.commands.control.time.sleep", nap)
    result = eagle3(name, daemon.run.path)
    assert result.code == 0
    assert result.out.endswith(f"the daemon of {daemon.run.path} has ended\n")
    assert len(naps) == 3


def test_a_stop_that_takes_too_long_is_told(
    eagle3: Eagle3, daemon: FakeDaemon, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(control, "STOP_S", 0.0)
    result = eagle3("stop", daemon.run.path)
    assert result.code == 1
    assert "is still there after 0 s" in result.err


@pytest.mark.parametrize(
    "arguments",
    [
        [],
        ["--concurrency", "0"],
        ["--concurrency", "65537"],
        ["--concurrency", "many"],
        ["--target", "B1"],
        ["--target", "=5"],
        ["--target", "B1=-5"],
    ],
)
def test_set_refuses_nonsense_before_it_asks(eagle3: Eagle3, daemon: FakeDaemon, arguments: list[str]) -> None:
    assert eagle3("set", daemon.run.path, *arguments).code == 2
    assert daemon.got == []


def test_the_last_events_need_no_daemon(eagle3: Eagle3, run_path: Path) -> None:
    result = eagle3("events", run_path)
    assert result.code == 0
    assert [line[16:] for line in result.out.splitlines()] == ["info      first", "warning   second ^[[2J"]
    assert len(eagle3("events", run_path, "--last", "1").out.splitlines()) == 1
    assert eagle3("events", run_path, "--last", "0").out == ""


def test_events_as_json_are_the_records(eagle3: Eagle3, run_path: Path) -> None:
    result = eagle3("events", run_path, "--json", "--last", "1")
    assert result.json["message"] == "second \x1b[2J"


def test_following_prints_until_the_daemon_ends(eagle3: Eagle3, daemon: FakeDaemon) -> None:
    event = {"at": 1.0, "severity": "info", "kind": "k", "message": "live"}
    daemon.answer = lambda _: [{"ok": True}, event, event]
    result = eagle3("events", daemon.run.path, "--follow", "--last", "5")
    assert result.code == 0
    assert result.out.count("live") == 2
    assert daemon.got == [{"command": "events", "last": 5, "follow": True}]


def test_without_a_daemon_following_prints_the_last_events_and_says_why_no_more_come(
    eagle3: Eagle3, run_path: Path
) -> None:
    result = eagle3("events", run_path, "--follow", "--last", "1")
    assert (result.code, result.out[16:]) == (3, "warning   second ^[[2J\n")
    assert result.err == f"eagle3: no daemon is running for {run_path}; start it with: eagle3 start {run_path}\n"
    RunDir(run_path).dataset("B1").responses.write_text("".join(map(response, "abc")))
    result = eagle3("events", run_path, "--follow", "--last", "2")
    assert (result.code, len(result.out.splitlines())) == (0, 2)
    assert result.err == f"{run_path} is finished: no daemon is running, and nothing more comes\n"
