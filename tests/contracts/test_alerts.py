"""One test for each alert: there above its threshold, not below, and gone when its cause is."""

from __future__ import annotations

import re
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec
import pytest

from contracts.exit_codes import ExitCode
from contracts.fold.run import RunFold
from contracts.liveness import Liveness
from contracts.records import (
    DiskReading,
    FailureClass,
    GpuReading,
    GpuSample,
    HostSample,
    NextStep,
    Requeue,
    ServerReading,
    ServerSample,
)
from contracts.report import build_status
from contracts.run_dir import RunDir
from contracts.status import AlertStatus, RunStatus, exit_code
from tests.support.records import NOW, PID, event, failure, heartbeat, make_run, response, write

ALIVE = Liveness(True, PID, NOW - 10_000)
DEAD = Liveness(False)

Line = msgspec.Struct | bytes


class Scene:
    """A run directory, seen again after each change."""

    def __init__(self, folder: Path, extra: str = "") -> None:
        self.run: RunDir = make_run(folder, extra=extra, prompts=2000)
        self.fold = RunFold(self.run.path)
        self.now = NOW
        self.number = 0

    def responses(self, count: int, **over: Any) -> None:
        """Append responses of new samples."""
        lines = [response(f"d-{self.number + each}", 3, **over) for each in range(count)]
        self.number += count
        write(self.run.dataset("d").responses, lines)

    def failures(self, *records: Line) -> None:
        write(self.run.dataset("d").failures, records)

    def events(self, *records: Line) -> None:
        write(self.run.events, records)

    def telemetry(self, kind: str, record: msgspec.Struct) -> None:
        write(self.run.telemetry_file(kind), [record])

    def beat(self, **over: Any) -> None:
        self.telemetry("daemon", heartbeat(**({"at": self.now} | over)))

    def status(self, liveness: Liveness = ALIVE) -> RunStatus:
        self.fold.poll()
        return build_status(self.fold, liveness, self.now, self.now)

    def alerts(self, code: str, liveness: Liveness = ALIVE) -> list[AlertStatus]:
        return [alert for alert in self.status(liveness).alerts if alert.code == code]


@pytest.fixture
def scene(tmp_path: Path) -> Scene:
    return Scene(tmp_path / "run")


def severities(alerts: list[AlertStatus]) -> list[str]:
    return [str(alert.severity) for alert in alerts]


def test_a_healthy_run_has_none(scene: Scene) -> None:
    scene.events(event("daemon.started", NOW - 100))
    scene.responses(100)
    scene.telemetry("host", HostSample(at=NOW, disk_free_bytes=10**12))
    scene.telemetry("server", ServerSample(at=NOW, servers=[ServerReading(url="http://a", state="ok")]))
    scene.telemetry("gpu", GpuSample(at=NOW, state="none", gpus=[]))
    scene.beat(in_flight={"d": 5}, since_progress_s=1.0)
    assert scene.status().alerts == []
    scene.events(event("daemon.stopped", NOW))
    assert scene.status(DEAD).alerts == []


@pytest.mark.parametrize("liveness", [ALIVE, DEAD])
def test_tokens_zero(scene: Scene, liveness: Liveness) -> None:
    write(scene.run.dataset("d").responses, [b'{"sample_id":"x","text":"words"}\n'] * 2)
    (alert,) = scene.alerts("tokens_zero", liveness)
    assert (alert.severity, alert.dataset) == ("critical", "d")
    assert "1 response is there, but none of them states a token count" in alert.message
    scene.responses(1)
    assert scene.alerts("tokens_zero", liveness) == []


def test_tokens_zero_when_all_state_zero(scene: Scene) -> None:
    none = msgspec.Raw(b"[]")
    write(scene.run.dataset("d").responses, [response("a", 0, output_ids=none), response("b", 0, output_ids=none)])
    (alert,) = scene.alerts("tokens_zero")
    assert "add up to 0" in alert.message


def test_unreadable_lines(scene: Scene) -> None:
    scene.responses(1)
    assert scene.alerts("unreadable_lines") == []
    write(scene.run.dataset("d").responses, [b"garbage\n"])
    (alert,) = scene.alerts("unreadable_lines")
    assert alert.severity == "warning"
    assert "1 of 2 lines of raw_responses.jsonl" in alert.message
    assert "line 2" in alert.message
    write(scene.run.dataset("d").responses, [b"garbage\n"] * 10)
    assert severities(scene.alerts("unreadable_lines")) == ["critical"]
    write(scene.run.dataset("d").failures, [b"garbage\n"])
    assert len(scene.alerts("unreadable_lines")) == 2
    scene.run.dataset("d").responses.write_bytes(b"")
    scene.run.dataset("d").failures.unlink()
    assert scene.alerts("unreadable_lines") == []


def test_unreadable_events(scene: Scene) -> None:
    scene.events(b"garbage\n")
    (alert,) = scene.alerts("unreadable_lines", DEAD)
    assert "events.jsonl" in alert.message
    assert scene.status().totals.unreadable == 1
    assert scene.status().unreadable[0].file.endswith("events.jsonl")


def test_unreadable_telemetry(scene: Scene) -> None:
    scene.events(event("daemon.started", NOW - 100))
    scene.telemetry("server", ServerSample(at=NOW, servers=[]))
    scene.telemetry("gpu", GpuSample(at=NOW, state="ok", gpus=[]))
    scene.telemetry("host", HostSample(at=NOW - 40, cpu_pct=12.0))
    scene.beat()
    write(scene.run.telemetry_file("host"), [b'{"at":"now"}\n'] * 3)
    first, second = scene.status().alerts
    assert (first.code, second.code) == ("telemetry_stale", "unreadable_lines")
    assert "the last 3 lines of telemetry/host.jsonl" in second.message
    assert "Expected `float`, got `str`" in second.message
    status = scene.status(DEAD)
    assert [alert.code for alert in status.alerts] == ["daemon_gone", "unreadable_lines"]
    assert (status.totals.unreadable, status.unreadable[0].line) == (3, None)
    assert status.unreadable[0].file.endswith("host.jsonl")
    scene.telemetry("host", HostSample(at=NOW))
    assert scene.status().alerts == []
    assert scene.status().totals.unreadable == 0


def test_events_and_telemetry_are_one_alert(scene: Scene) -> None:
    scene.events(b"garbage\n")
    write(scene.run.telemetry_file("gpu"), [b"garbage\n"])
    (alert,) = scene.alerts("unreadable_lines")
    assert "1 line of events.jsonl, the first is line 1; the last line of telemetry/gpu.jsonl" in alert.message


def test_count_mismatch(scene: Scene) -> None:
    scene.responses(3)
    assert scene.alerts("count_mismatch") == []
    scene.responses(1, completion_tokens=4)
    (alert,) = scene.alerts("count_mismatch")
    assert alert.severity == "critical"
    assert "completion_tokens is 4, but there are 3 output_ids" in alert.message


def test_dataset_halted(scene: Scene) -> None:
    drift = {"error": FailureClass.CONTRACT_DRIFT, "next": NextStep.STOPPED, "message": "rid differs"}
    scene.failures(failure("d-1", **drift))
    (alert,) = scene.alerts("dataset_halted", DEAD)
    assert (alert.severity, alert.dataset) == ("critical", "d")
    assert "rid differs" in alert.message
    scene.failures(Requeue(at=NOW, error=FailureClass.CONTRACT_DRIFT))
    assert scene.alerts("dataset_halted", DEAD) == []


def test_quarantined(scene: Scene) -> None:
    scene.failures(failure("d-1"))
    assert scene.alerts("quarantined") == []
    scene.failures(failure("d-1", next=NextStep.QUARANTINED, message="HTTP 500"), failure("d-2", next="quarantined"))
    (alert,) = scene.alerts("quarantined")
    assert alert.severity == "warning"
    assert "2 samples are given up" in alert.message
    scene.failures(Requeue(at=NOW, sample_id="d-1"))
    assert "1 sample is given up" in scene.alerts("quarantined")[0].message
    write(scene.run.dataset("d").responses, [response("d-2")])
    assert scene.alerts("quarantined") == []


def test_prompts_failed(scene: Scene) -> None:
    scene.events(event("daemon.started"), event("prompts.failed", dataset="d", message="p.jsonl: no such file"))
    (alert,) = scene.alerts("prompts_failed")
    assert "p.jsonl: no such file" in alert.message
    scene.events(event("daemon.started"))
    assert scene.alerts("prompts_failed") == []


def test_prompts_refused(scene: Scene) -> None:
    refusal = {"error": FailureClass.INVALID_INPUT, "next": NextStep.REFUSED, "message": "d: line 1: too long"}
    scene.failures(*(failure(None, line=line, **refusal) for line in range(1, 200)))
    assert scene.alerts("prompts_refused") == []
    scene.failures(failure(None, line=200, **refusal))
    (alert,) = scene.alerts("prompts_refused")
    assert (alert.severity, alert.message) == (
        "warning", "d: 200 of 2,000 prompts cannot be used; the first: line 1: too long",
    )  # fmt: skip
    scene.failures(*(failure(None, line=line, **refusal) for line in range(201, 2001)))
    (alert,) = scene.alerts("prompts_refused", Liveness(False))
    assert alert.severity == "critical" and "nothing of it is sent" in alert.message
    assert exit_code(scene.status(Liveness(False))) is ExitCode.CRITICAL  # "finished" alone would be a lie
    scene.failures(Requeue(at=NOW, error=FailureClass.INVALID_INPUT))
    assert scene.alerts("prompts_refused") == []


def test_target_short(tmp_path: Path) -> None:
    scene = Scene(tmp_path / "run", "[generate]\ntarget_tokens = 9000")
    scene.responses(1999)
    assert scene.alerts("target_short") == []
    scene.failures(failure("d-1999", next=NextStep.QUARANTINED))
    (alert,) = scene.alerts("target_short")
    assert "5,997 of 9,000" in alert.message
    scene.events(event("control.set", data={"targets": {"d": 5997}}))
    assert scene.alerts("target_short") == []


def lengths(scene: Scene) -> None:
    scene.responses(1, finish_reason="length")


def failed(scene: Scene) -> None:
    scene.failures(failure("d-1999"))


def aborted(scene: Scene) -> None:
    scene.failures(failure("d-1999", completion_tokens=7))


def unclosed(scene: Scene) -> None:
    scene.responses(1, think_end=False)


SHARES = [
    ("length_share", "length_share_pct", lengths),
    ("failure_share", "failure_share_pct", failed),
    ("abort_share", "abort_share_pct", aborted),
    ("think_end_missing", "think_end_missing_pct", unclosed),
]


@pytest.mark.parametrize(("code", "limit", "bad"), SHARES)
def test_shares(tmp_path: Path, code: str, limit: str, bad: Callable[[Scene], None]) -> None:
    scene = Scene(tmp_path / "run", f"[alerts]\n{limit} = 10\nmin_samples = 50")
    for _ in range(5):
        bad(scene)
    assert scene.alerts(code) == []  # too few to judge
    scene.responses(45, think_end=True)
    assert scene.alerts(code) == []  # 10 % is not above 10 %
    bad(scene)
    (alert,) = scene.alerts(code)
    assert (alert.severity, alert.dataset) == ("warning", "d")
    assert "6 of 51" in alert.message
    assert "limit 10 %" in alert.message
    scene.responses(20, think_end=True)
    assert scene.alerts(code) == []


@pytest.mark.parametrize(("code", "limit", "bad"), SHARES)
def test_shares_are_of_the_last_quarter_of_an_hour(
    tmp_path: Path, code: str, limit: str, bad: Callable[[Scene], None]
) -> None:
    scene = Scene(tmp_path / "run", f"[alerts]\n{limit} = 10\nmin_samples = 2")
    for _ in range(5):
        bad(scene)
    assert len(scene.alerts(code)) == 1
    scene.now = NOW + 900
    assert scene.alerts(code) == []


def test_aborts_that_explain_the_failures_are_said_once(tmp_path: Path) -> None:
    scene = Scene(tmp_path / "run", "[alerts]\nmin_samples = 50\nfailure_share_pct = 10\nabort_share_pct = 10")

    def codes() -> set[str]:
        return {alert.code for alert in scene.status().alerts}

    scene.responses(84)
    for _ in range(11):
        aborted(scene)
    for _ in range(5):
        failed(scene)
    assert codes() == {"abort_share"}  # 16 of 100 failed, 5 of them otherwise
    for _ in range(7):
        failed(scene)
    assert codes() == {"abort_share", "failure_share"}
    assert "23 of 107" in scene.alerts("failure_share")[0].message


def test_failures_of_both_kinds_are_failures_when_neither_explains_them(tmp_path: Path) -> None:
    scene = Scene(tmp_path / "run", "[alerts]\nmin_samples = 50\nfailure_share_pct = 10\nabort_share_pct = 10")
    scene.responses(88)
    for _ in range(6):
        aborted(scene)
        failed(scene)
    assert [alert.code for alert in scene.status().alerts] == ["failure_share"]


class TestManyDatasetsWithTheSame:
    def shares(self, folder: Path, *cut: int, code: str = "length_share") -> list[AlertStatus]:
        """Alerts of data sets with so many cut answers of 50 each."""
        names = [f"B{number}" for number in range(1, len(cut) + 1)]
        run = make_run(folder, datasets=names, prompts=60)
        for name, count in zip(names, cut, strict=True):
            lines = [
                response(f"{name}-{each}", finish_reason="length" if each < count else "stop") for each in range(50)
            ]
            write(run.dataset(name).responses, lines)
        fold = RunFold(run.path)
        fold.poll()
        return [alert for alert in build_status(fold, DEAD, NOW, NOW).alerts if alert.code == code]

    def test_two_are_two(self, tmp_path: Path) -> None:
        assert [alert.dataset for alert in self.shares(tmp_path, 10, 20, 5)] == ["B1", "B2"]

    def test_three_are_one_that_names_them(self, tmp_path: Path) -> None:
        (alert,) = self.shares(tmp_path, 10, 12, 5, 50)
        assert (alert.dataset, alert.severity) == (None, "warning")
        assert alert.message == (
            "3 data sets: B1 20 %, B2 24 %, B4 100 % of recent answers ended by length, limit 10 %"
        )

    def test_a_hundred_are_not_all_named(self, tmp_path: Path) -> None:
        (alert,) = self.shares(tmp_path, *[10] * 14)
        assert alert.message.startswith("14 data sets: B1 20 %, ")
        assert "B12 20 % and 2 more of recent answers" in alert.message


def test_a_server_death_is_no_failure_of_samples(tmp_path: Path) -> None:
    scene = Scene(tmp_path / "run", "[alerts]\nmin_samples = 2")
    down = {"error": FailureClass.SERVER_DOWN, "attempt": 0}
    scene.failures(*(failure(f"d-{number}", **down) for number in range(20)))
    assert scene.alerts("failure_share") == []


def test_shares_of_files_without_times_are_of_all_there_is(tmp_path: Path) -> None:
    line = b'{"sample_id":"%d","completion_tokens":2,"output_ids":[1,2],"finish_reason":"%s"}\n'
    lines = [line % (number, b"length" if number < 7 else b"stop") for number in range(60)]
    write(tmp_path / "B1" / "raw_responses.jsonl", lines)
    fold = RunFold(tmp_path)
    fold.poll()
    alerts = build_status(fold, Liveness(None), NOW).alerts
    assert [alert.code for alert in alerts] == ["length_share"]
    assert "7 of 60" in alerts[0].message


def test_no_progress(scene: Scene) -> None:
    scene.beat(in_flight={"d": 5}, since_progress_s=299.0)
    assert scene.alerts("no_progress") == []
    scene.beat(in_flight={"d": 5}, since_progress_s=300.0)
    (alert,) = scene.alerts("no_progress")
    assert alert.severity == "critical"
    assert "nothing has come back for 300 s while 5 requests are open" in alert.message
    assert scene.status().state == "stalled"
    assert scene.alerts("no_progress", DEAD) == []
    scene.beat(in_flight={"d": 0}, since_progress_s=400.0)
    assert scene.alerts("no_progress") == []
    scene.beat(in_flight={"d": 5}, since_progress_s=1.0)
    assert scene.alerts("no_progress") == []


def test_slow_requests(scene: Scene) -> None:
    scene.beat(in_flight={"d": 5}, since_progress_s=1.0, oldest_request_s=599.0)
    assert scene.alerts("slow_requests") == []
    scene.beat(in_flight={"d": 5}, since_progress_s=1.0, oldest_request_s=600.0)
    (alert,) = scene.alerts("slow_requests")
    assert alert.severity == "warning"
    assert "the oldest of 5 open requests has waited for 600 s, limit 600 s" in alert.message
    assert alert.advice is not None
    assert scene.status().state == "running"
    assert scene.alerts("slow_requests", DEAD) == []
    scene.beat(in_flight={"d": 5}, since_progress_s=600.0, oldest_request_s=600.0)
    assert {alert.code for alert in scene.status().alerts} == {"no_progress"}  # said once
    scene.beat(in_flight={}, oldest_request_s=None)
    assert scene.alerts("slow_requests") == []


def test_when_a_request_is_old_stands_in_run_toml(tmp_path: Path) -> None:
    scene = Scene(tmp_path / "run", "[alerts]\nold_request_s = 2000")
    scene.beat(in_flight={"d": 5}, since_progress_s=1.0, oldest_request_s=1999.0)
    assert scene.alerts("slow_requests") == []
    scene.beat(in_flight={"d": 5}, since_progress_s=1.0, oldest_request_s=2000.0)
    assert len(scene.alerts("slow_requests")) == 1


class TestSlow:
    def running(self, scene: Scene, minutes: int = 20) -> None:
        """3 tokens every 2 seconds, up to two minutes ago."""
        scene.events(event("daemon.started", NOW - 60 * minutes))
        count = 30 * (minutes - 2)
        write(
            scene.run.dataset("d").responses,
            [response(f"d-{each}", 3, finished_at=NOW - 60 * minutes + 2 * each) for each in range(count)],
        )
        scene.number = count
        scene.beat(in_flight={"d": 5})

    def late(self, scene: Scene, count: int) -> None:
        for each in range(count):
            scene.responses(1, finished_at=NOW - 119 + each)

    def test_below_a_third_of_the_median(self, scene: Scene) -> None:
        self.running(scene)
        self.late(scene, 19)
        (alert,) = scene.alerts("slow")
        assert alert.severity == "warning"
        self.late(scene, 3)
        assert scene.alerts("slow") == []

    def test_not_without_requests_or_while_paused_or_dead(self, scene: Scene) -> None:
        self.running(scene)
        assert len(scene.alerts("slow")) == 1
        scene.beat(in_flight={"d": 0})
        assert scene.alerts("slow") == []
        scene.beat(in_flight={"d": 5}, state="paused")
        assert scene.alerts("slow") == []
        scene.beat(in_flight={"d": 5})
        assert scene.alerts("slow", DEAD) == []

    def test_not_right_after_a_pause(self, scene: Scene) -> None:
        self.running(scene)
        scene.events(event("run.paused", NOW - 400), event("run.resumed", NOW - 299))
        assert scene.alerts("slow") == []
        scene.now = NOW + 2
        assert len(scene.alerts("slow")) == 1

    def test_not_without_a_median(self, scene: Scene) -> None:
        self.running(scene, minutes=6)
        assert scene.alerts("slow") == []


def test_heartbeat_stale(scene: Scene) -> None:
    scene.beat()
    scene.now = NOW + 14.9
    assert scene.alerts("heartbeat_stale") == []
    scene.now = NOW + 15
    (alert,) = scene.alerts("heartbeat_stale")
    assert alert.severity == "critical"
    assert scene.status().state == "stalled"
    assert scene.alerts("heartbeat_stale", DEAD) == []
    scene.beat()
    assert scene.alerts("heartbeat_stale") == []


def test_the_last_heartbeat_of_the_daemon_before_is_not_stale(scene: Scene) -> None:
    scene.beat()
    scene.now = NOW + 3600
    assert scene.status(Liveness(True, PID + 1, NOW + 3599)).alerts == []
    assert scene.status(Liveness(True, PID + 1, NOW + 3599)).state == "running"


@pytest.mark.parametrize("kind", ["host", "server", "gpu"])
def test_telemetry_stale(scene: Scene, kind: str) -> None:
    scene.events(event("daemon.started", NOW - 100))

    def sample(at: float, of: str) -> msgspec.Struct:
        if of == "host":
            return HostSample(at=at)
        return ServerSample(at=at, servers=[]) if of == "server" else GpuSample(at=at, state="ok", gpus=[])

    for each in {"host", "server", "gpu"} - {kind}:
        scene.telemetry(each, sample(NOW, each))
    scene.beat()
    (alert,) = scene.alerts("telemetry_stale")
    name = {"host": "host", "server": "servers", "gpu": "GPUs"}[kind]
    assert alert.message == f"no readings of {name} since the start"
    scene.telemetry(kind, sample(NOW - 30, kind))
    (alert,) = scene.alerts("telemetry_stale")
    assert alert.severity == "warning"
    assert alert.message == f"the readings of {name} (30 s) are old: what is shown of them is not the present"
    scene.telemetry(kind, sample(NOW - 29, kind))
    assert scene.alerts("telemetry_stale") == []


@pytest.mark.parametrize("beats", [True, False])
def test_daemon_gone(scene: Scene, beats: bool) -> None:
    """It was killed: no event says so, and nobody was there to raise the alert."""
    assert scene.alerts("daemon_gone", DEAD) == []
    scene.events(event("daemon.started", NOW - 100))
    if beats:
        scene.beat(at=NOW - 60)
    heard = NOW - 60 if beats else NOW - 100
    assert (scene.alerts("daemon_gone"), scene.status().daemon.gone_since) == ([], None)
    (alert,) = scene.alerts("daemon_gone", DEAD)
    assert (alert.severity, alert.since) == ("critical", heard)
    assert time.strftime("last heard of %H:%M:%S", time.localtime(heard)) in alert.message
    assert f"eagle3 start {scene.run.path}" in str(alert.advice)
    assert scene.status(DEAD).daemon.gone_since == heard
    assert exit_code(scene.status(DEAD)) is ExitCode.CRITICAL
    scene.events(event("daemon.stopped", NOW - 59))
    assert scene.alerts("daemon_gone", DEAD) == []
    assert exit_code(scene.status(DEAD)) is ExitCode.STOPPED
    scene.events(event("daemon.started", NOW - 9))
    scene.responses(2000)
    assert (scene.status(DEAD).state, scene.alerts("daemon_gone", DEAD)) == ("finished", [])


def test_stale_telemetry_of_all_kinds_is_one_alert(scene: Scene) -> None:
    scene.events(event("daemon.started", NOW - 3601))
    scene.beat()
    (alert,) = scene.alerts("telemetry_stale")
    assert alert.message == "no readings of host, servers and GPUs since the start"
    scene.telemetry("host", HostSample(at=NOW - 31))
    scene.telemetry("gpu", GpuSample(at=NOW - 45, state="ok", gpus=[]))
    (alert,) = scene.alerts("telemetry_stale")
    assert alert.message == (
        "no readings of servers since the start; "
        "the readings of host (31 s) and GPUs (45 s) are old: what is shown of them is not the present"
    )


def test_readings_of_a_daemon_before_are_not_the_present(scene: Scene) -> None:
    """With ``[telemetry] gpus = false`` they would be shown as such for as long as this daemon lives."""
    down, full = ServerReading(url="http://a", state="down"), DiskReading(path="/", uses=["run"], free_bytes=5)
    scene.events(event("daemon.started", NOW - 8))
    scene.telemetry("gpu", GpuSample(at=NOW - 90_000, state="ok", gpus=[GpuReading(index=0)]))
    scene.telemetry("server", ServerSample(at=NOW - 20, servers=[down]))
    scene.telemetry("host", HostSample(at=NOW - 20, cpu_pct=1.0, disks=[full]))
    scene.beat()
    for liveness in (Liveness(True, PID, NOW - 10), Liveness(True), DEAD):
        status = scene.status(liveness)
        assert (status.gpus, status.gpu_state, status.servers, status.host) == (None, None, [], None)
        assert [alert.code for alert in status.alerts if alert.code in ("server_down", "disk_short")] == []
    scene.telemetry("server", ServerSample(at=NOW - 8, servers=[down]))
    scene.telemetry("host", HostSample(at=NOW - 8, cpu_pct=1.0, disks=[full]))
    status = scene.status()
    assert status.gpus is None
    assert (status.servers, status.host is None) == ([down], False)
    assert {"server_down", "disk_short"} <= {alert.code for alert in status.alerts}


def test_telemetry_of_the_session_before_is_not_stale_at_once(scene: Scene) -> None:
    scene.events(event("daemon.started", NOW - 2))
    scene.telemetry("host", HostSample(at=NOW - 9999))
    scene.telemetry("server", ServerSample(at=NOW - 9999, servers=[]))
    scene.telemetry("gpu", GpuSample(at=NOW - 9999, state="ok", gpus=[]))
    scene.beat()
    assert scene.alerts("telemetry_stale") == []


def test_gpus_that_are_switched_off_are_not_missed(tmp_path: Path) -> None:
    scene = Scene(tmp_path / "run", "[telemetry]\ngpus = false")
    scene.events(event("daemon.started", NOW - 100))
    scene.telemetry("host", HostSample(at=NOW))
    scene.telemetry("server", ServerSample(at=NOW, servers=[]))
    scene.beat()
    assert scene.alerts("telemetry_stale") == []


@pytest.mark.parametrize(("state", "code"), [("down", "server_down"), ("refused", "server_refused")])
def test_servers(scene: Scene, state: str, code: str) -> None:
    def servers(*states: str) -> ServerSample:
        readings = [ServerReading(url=f"http://s{each}", state=word, reason="why") for each, word in enumerate(states)]
        return ServerSample(at=NOW, servers=readings)

    scene.beat()
    scene.telemetry("server", servers("ok", state))
    (alert,) = scene.alerts(code)
    assert alert.severity == "warning"
    assert alert.message.startswith("1 of 2 servers ") and "s1 (why)" in alert.message
    assert "answers, but" in alert.message or "does not answer" in alert.message
    scene.telemetry("server", servers(state, state))
    assert severities(scene.alerts(code)) == ["critical"]
    assert scene.alerts(code, DEAD) == []
    scene.telemetry("server", servers(state))
    assert scene.alerts(code)[0].message.startswith(("the server answers, but not", "the server does not answer"))
    scene.telemetry("server", servers("ok", "ok"))
    assert scene.alerts(code) == []


def test_every_command_in_an_advice_names_the_run(scene: Scene) -> None:
    """From another folder ``eagle3 retry --dataset d`` says that there is no run.toml."""
    drift = {"error": FailureClass.CONTRACT_DRIFT, "next": NextStep.STOPPED, "message": "rid differs"}
    scene.failures(failure("d-1", **drift), failure("d-2", next=NextStep.QUARANTINED))
    scene.failures(*(failure(f"x-{each}") for each in range(200)))
    refused = {"error": FailureClass.INVALID_INPUT, "next": NextStep.REFUSED}
    scene.failures(*(failure(None, line=each, **refused) for each in range(400)))
    scene.events(b"no event\n")
    scene.beat(at=NOW - 60)
    scene.telemetry(
        "server", ServerSample(at=NOW, servers=[ServerReading(url="http://s", state="refused", reason="why")])
    )
    found = {alert.code: alert.advice or "" for alert in scene.status().alerts}
    codes = {"dataset_halted", "quarantined", "failure_share", "prompts_refused", "unreadable_lines", "heartbeat_stale"}
    assert codes | {"server_refused"} <= found.keys()
    commands = [command for advice in found.values() for command in re.findall(r"eagle3 [a-z-]+ (\S+)", advice)]
    assert commands and all(word.rstrip(").,:;") == str(scene.run.path) for word in commands)


def test_disk_short(scene: Scene) -> None:
    scene.beat()
    scene.telemetry("host", HostSample(at=NOW, disk_free_bytes=5_000_000_000))
    assert scene.alerts("disk_short") == []
    scene.telemetry("host", HostSample(at=NOW, disk_free_bytes=4_999_999_999))
    assert severities(scene.alerts("disk_short")) == ["critical"]
    scene.telemetry("host", HostSample(at=NOW))
    assert scene.alerts("disk_short") == []


def test_disk_short_names_the_disk_what_is_free_and_where_to_look(scene: Scene) -> None:
    scene.beat()
    run = DiskReading(path="/data/run", uses=["run"], free_bytes=10**12, total_bytes=2 * 10**12)
    store = DiskReading(path="/big/hs 1", uses=["store"], free_bytes=3 * 10**6, total_bytes=7 * 10**12)
    dumps = DiskReading(path="/dev/shm", uses=["dumps"], free_bytes=0, total_bytes=10**9)
    scene.telemetry("host", HostSample(at=NOW, disk_free_bytes=10**12, disks=[run, store, dumps]))
    (alert,) = scene.alerts("disk_short")
    assert alert.message == "3.0 MB of 7.0 TB free on the disk of store, /big/hs 1; limit 5.0 GB"
    assert alert.advice is not None and "df -h '/big/hs 1'; du -xhd2 '/big/hs 1' |" in alert.advice
    run.free_bytes = 10**9
    scene.telemetry("host", HostSample(at=NOW, disks=[run, store]))
    (alert,) = scene.alerts("disk_short")
    assert "1.0 GB of 2.0 TB free on the disk of run directory, /data/run; 3.0 MB of" in alert.message


def test_since_is_when_the_daemon_raised_it_and_the_worst_comes_first(scene: Scene) -> None:
    write(scene.run.dataset("d").responses, [b'{"sample_id":"x","text":"words"}\n', b"garbage\n"])
    scene.events(event("alert.raised", NOW - 60, dataset="d", data={"code": "unreadable_lines"}))
    alerts = scene.status().alerts
    assert [(alert.code, alert.since) for alert in alerts] == [("tokens_zero", None), ("unreadable_lines", NOW - 60)]
    assert all(alert.advice for alert in alerts)
    assert all(alert.message.startswith("d: ") for alert in alerts)
