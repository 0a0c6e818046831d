from __future__ import annotations

import json
from pathlib import Path

import pytest

from contracts.details.dataset import dataset_detail
from contracts.details.servers import ServersDetail, servers_detail
from contracts.fold.run import RunFold
from contracts.records import Failure, FailureClass, ServerReading, ServerSample, Severity
from contracts.replay.past import Past
from contracts.status import DaemonStatus
from tests.support.records import NOW, event, failure, folded, make_run, response, write

URL = "http://127.0.0.1:30000"
ALIVE = DaemonStatus(alive=True, pid=1, since=NOW - 1000)


def about(folder: Path, name: str, **over: object) -> None:
    folder.mkdir(exist_ok=True)
    values = {"instance": name, "port": 30000, "dp_rank": 0, "layers": [1, 2], "started_at": NOW, "new_key": 1} | over
    (folder / f"about.{name}.json").write_text(json.dumps(values))


def test_what_is_known_of_a_server(tmp_path: Path) -> None:
    dumps = tmp_path / "dumps"
    about(dumps, "old", started_at=NOW - 100, layers=[9])
    about(dumps, "new")
    about(dumps, "rank1", dp_rank=1)
    about(dumps, "other", port=30001)
    (dumps / "about.half.json").write_text('{"instance": ')
    extra = f'stages = ["generate", "extract"]\n[extract]\nlayers = [1, 2]\ndump_dir = "{dumps}"\n'
    run = make_run(tmp_path / "r", extra=extra)
    mine = {"server": URL}
    write(
        run.events,
        [
            event("server.note", NOW - 50, message="of an earlier life", data=mine, severity=Severity.WARNING),
            event("server.up", NOW - 40, data=mine | {"arguments": {"tp_size": 8}}),
            event("server.note", NOW - 40, message="no vocabulary", data=mine, severity=Severity.WARNING),
            event("server.down", NOW - 5, message="it is down", data=mine, severity=Severity.CRITICAL),
            event("server.up", NOW - 5, message="of another", data={"server": "http://x:1"}),
            *(event("control.set", NOW - 4) for _ in range(600)),
            event("server.down", NOW + 60, message="not yet", data=mine, severity=Severity.CRITICAL),
        ],
    )
    run.telemetry.mkdir()
    write(
        run.telemetry_file("server"),
        [
            ServerSample(at=NOW - 700 + n, servers=[ServerReading(url=URL, state="ok", tokens_per_s=float(n))])
            for n in range(0, 701, 100)
        ],
    )
    detail = servers_detail(folded(run), NOW, ALIVE)
    (server,) = detail.servers
    assert server.reading is server.last is not None
    assert server.configured
    assert server.arguments == {"tp_size": 8}
    assert [found.message for found in server.findings] == ["it is down", "no vocabulary"]
    assert [found.kind for found in server.events] == ["server.down", "server.note", "server.up", "server.note"]
    assert [(each.instance, each.layers) for each in server.abouts] == [("new", (1, 2)), ("rank1", (1, 2))]
    assert [rate for _, rate in server.rates] == [100.0, 200.0, 300.0, 400.0, 500.0, 600.0, 700.0]
    assert detail.wanted_layers == (1, 2)
    assert detail.dump_trouble is None


def test_a_dump_folder_that_is_not_there_is_said_to_tell_nothing(tmp_path: Path) -> None:
    extra = f'stages = ["generate", "extract"]\n[extract]\nlayers = [1]\ndump_dir = "{tmp_path / "none"}"\n'
    detail = servers_detail(folded(make_run(tmp_path / "r", extra=extra)), NOW, ALIVE)
    assert detail.dump_trouble is not None
    assert str(tmp_path / "none") in detail.dump_trouble
    assert detail.servers[0].reading is None


def test_at_a_moment_of_the_past_later_starts_of_the_plugin_are_not_there(tmp_path: Path) -> None:
    dumps = tmp_path / "dumps"
    about(dumps, "old", started_at=NOW - 100, layers=[9])
    about(dumps, "new", started_at=NOW - 10)
    extra = f'stages = ["generate", "extract"]\n[extract]\nlayers = [1, 2]\ndump_dir = "{dumps}"\n'
    run = make_run(tmp_path / "r", extra=extra)

    def at(moment: float) -> ServersDetail:
        fold = RunFold(run.path, Past(moment))
        fold.poll()
        return servers_detail(fold, moment, ALIVE)

    assert [each.instance for each in at(NOW - 50).servers[0].abouts] == ["old"]
    assert at(NOW - 200).servers[0].abouts == ()
    assert at(NOW - 5).servers[0].abouts[0].instance == "new"
    assert at(NOW - 50).dump_trouble is None
    about(dumps, "untimed", started_at=None, dp_rank=1)
    then = at(NOW - 200)
    assert [each.instance for each in then.servers[0].abouts] == ["untimed"]
    assert then.dump_trouble == "1 of the plugin's files say no time: shown as they are now"


@pytest.mark.parametrize(
    ("daemon", "later_s", "is_current"),
    [
        (ALIVE, 0.0, True),
        (ALIVE, 29.0, True),
        (ALIVE, 31.0, False),  # [alerts] telemetry_stale_s is 30
        (DaemonStatus(alive=False), 0.0, False),
        (DaemonStatus(alive=None), 0.0, False),
        (DaemonStatus(alive=True, since=NOW + 5), 10.0, False),  # read by the daemon before it
        (None, 0.0, False),
    ],
)
def test_old_readings_are_not_the_present(
    tmp_path: Path, daemon: DaemonStatus | None, later_s: float, is_current: bool
) -> None:
    run = make_run(tmp_path / "r")
    run.telemetry.mkdir()
    reading = ServerReading(url=URL, state="ok", running=1, last_answer_s=0.0)
    write(run.telemetry_file("server"), [ServerSample(at=NOW, servers=[reading])])
    detail = servers_detail(folded(run), NOW + later_s, daemon)
    (server,) = detail.servers
    assert server.reading == (reading if is_current else None)
    assert (server.last, detail.read_at) == (reading, NOW)


def test_a_run_that_captures_nothing_looks_into_no_folder(tmp_path: Path) -> None:
    detail = servers_detail(folded(make_run(tmp_path / "r")), NOW, ALIVE)
    assert (detail.dump_dir, detail.dump_trouble, detail.wanted_layers) == (None, None, ())


def test_a_data_set(tmp_path: Path) -> None:
    run = make_run(tmp_path / "r")
    write(run.dataset("d").responses, [response(f"s{n}", 10 + n, finished_at=NOW - 30 + n) for n in range(20)])
    bad: list[Failure] = [failure("a"), failure("s1"), failure("b", error=FailureClass.REJECTED)]
    write(run.dataset("d").failures, bad)
    detail = dataset_detail(folded(run), NOW, "d")
    assert detail is not None
    assert detail.lengths is not None
    assert detail.lengths.total == 20
    assert [record.key for record in detail.latest[:2]] == ["s19", "s18"]
    assert {(each.error, each.open, each.attempts) for each in detail.failed} == {
        ("transient", 1, 2), ("rejected", 1, 1),
    }  # fmt: skip
    assert sum(rate or 0.0 for rate in detail.rates[0]) * 10 == sum(10 + n for n in range(20))
    assert dataset_detail(folded(run), NOW, "none") is None
