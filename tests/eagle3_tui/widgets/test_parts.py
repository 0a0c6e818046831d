"""What the smaller parts say about figures that are missing, wrong or worrying."""

from __future__ import annotations

from typing import Any

import pytest
from textual.strip import Strip

from contracts.records import Event, Severity
from contracts.status import DatasetStage, RunState, RunStatus
from eagle3_tui.feed.state import View
from eagle3_tui.keys import usable_keys
from eagle3_tui.terminal import Capabilities
from eagle3_tui.widgets.alerts import alert_lines, alerts_height, brief_height, key_of, urgent_height
from eagle3_tui.widgets.events import event_line, occurrences
from eagle3_tui.widgets.footer import key_line
from eagle3_tui.widgets.header import header_height, header_lines
from eagle3_tui.widgets.look import look_for
from eagle3_tui.widgets.times import moment, short_moment, stamp
from tests.eagle3_tui.samples import (
    LENGTH_ALERT,
    NO_PROGRESS,
    NOW,
    alert,
    dataset,
    extracting,
    finished,
    running,
    server,
    stopped,
    storing,
    totals,
)
from tests.eagle3_tui.scenes import daemon_gone

LOOK = look_for(Capabilities())
DAY = 86_400.0


def texts(lines: list[Strip]) -> list[str]:
    return [line.text for line in lines]


def header(view: View, width: int = 120) -> list[str]:
    return texts(header_lines(view, width, header_height(view, width, 30, LOOK), LOOK))


def lines_of(view: View, width: int = 120, screen: int = 30) -> int:
    return header_height(view, width, screen, LOOK)


def test_eta_is_a_time_of_day_and_a_span() -> None:
    assert "ETA 11:18 tomorrow  (in 13h 05m)" in header(View(running()))[0]


@pytest.mark.parametrize(("width", "line"), [(80, 2), (120, 0)])
def test_elapsed_is_where_there_is_room(width: int, line: int) -> None:
    assert [("elapsed 4h 12m" in text) for text in header(View(running()), width)] == [
        place == line for place in range(3)
    ]


def test_the_state_names_what_is_missing() -> None:
    assert "■ stopped: no daemon" in header(View(stopped()))[0]
    gone = header(View(daemon_gone()), 40)
    assert "■ stopped: daemon gone" in gone[0]
    assert "no word since 21:06:40" in gone[3]
    down = running(state=RunState.STALLED, servers=[server(state="down")])
    assert "▲ stalled: server down" in header(View(down))[0]
    down.servers.append(server(30001, state="refused"))
    assert "▲ stalled: all servers down" in header(View(down))[0]
    down.servers.append(server(30002))
    assert "▲ stalled " in header(View(down))[0]


@pytest.mark.parametrize("state", [RunState.STALLED, RunState.PAUSED])
def test_eta_is_unknown_while_nothing_moves(state: RunState) -> None:
    assert f"ETA unknown  ({state.value})" in header(View(running(state=state)))[0]


def test_eta_says_how_sure_it_is_and_why_there_is_none() -> None:
    status = running()
    status.totals.eta_low_s, status.totals.eta_high_s = 43_800.0, 51_600.0
    assert "ETA 11:18 tomorrow  (in 13h 05m, 12h 10m - 14h 20m)" in header(View(status))[0]
    assert "ETA 11:18 tomorrow  (12h 10m - 14h 20m)" in header(View(status), 80)[0]
    status.totals.eta_s, status.totals.eta_why = None, "no answer yet"
    assert "ETA unknown  (no answer yet)" in header(View(status))[0]


def test_no_alert_is_said_and_no_check_mark_where_nothing_runs() -> None:
    assert "✓ no alerts" in header(View(running()))[0]
    line = header(View(stopped()))[0]
    assert "no alerts" in line
    assert "✓" not in line


def test_old_figures_are_called_old() -> None:
    view = View(running(), age_s=12.0, problem="can't read /data/run: Stale file handle")
    assert lines_of(view) == 4
    assert header(view)[3].strip() == "what you see is 12s old; can't read /data/run: Stale file handle"


def test_a_run_without_reason_takes_three_lines() -> None:
    assert lines_of(View(running())) == len(header(View(running()))) == 3
    assert len(header(View())) == lines_of(View()) == 3


def test_a_reason_is_said_whole_where_there_is_room() -> None:
    reason = "http://127.0.0.1:30000 refused: layers are [2, 30, 57], run.toml asks for [2, 30, 58]; see eagle3 check"
    view = View(running(state=RunState.STALLED, reason=reason))
    assert header(view, 200)[3].strip() == f"stalled: {reason}"
    assert lines_of(view, 80) == 5
    assert " ".join(row.strip() for row in header(view, 80)[3:]) == f"stalled: {reason}"
    assert lines_of(view, 80, screen=20) == 4
    (row,) = texts(header_lines(view, 80, 4, LOOK))[3:]
    assert row.strip().endswith("…")
    endless = View(running(reason="word " * 200))
    assert lines_of(endless, 80) == len(header(endless, 80)) == 6


def test_what_is_given_up_stands_beside_what_is_done() -> None:
    status = finished()
    status.datasets = [dataset("a", DatasetStage.FINISHED, target_tokens=None, prompts=98, done=97, quarantined=1)]
    status.datasets[0].refused, status.totals = 2, totals(status.datasets)
    line = header(View(status))[1]
    assert "97 %  + 3 % given up" in line
    assert line.split()[0] == "█" * (len(line.split()[0]) - 1) + "╳"
    short = finished()
    short.datasets = [dataset("a", DatasetStage.FINISHED, target_tokens=100, completion_tokens=60)]
    short.totals = totals(short.datasets)
    assert "60 %  + 40 % short of the target" in header(View(short))[1]
    assert "given up" not in header(View(finished()))[1]


def test_speeds_of_a_large_cluster_fit() -> None:
    status = running()
    status.totals.tokens_per_s, status.totals.tokens_per_s_run = 123_456.0, 1_234_567.0
    assert "123 k tok/s now   1.2 M run" in header(View(status))[1]


def test_unknown_counts_and_waiting_are_shown_when_there_are_any() -> None:
    status = running()
    assert "without count" not in header(View(status))[2]
    status.totals.unknown_counts = 3
    status.totals.waiting_retry = 7
    assert "failed 12  retrying 7  quarantined 1  unreadable 0  without count 3" in header(View(status))[2]


def test_finished_is_all_of_it() -> None:
    assert "100 %" in header(View(finished()))[1]
    assert "ETA" not in header(View(finished()))[0]


def test_finished_with_prompts_given_up_is_no_plain_success() -> None:
    status = finished()
    assert "✓ finished " in header(View(status))[0]
    status.totals.quarantined = 10
    line = header(View(status))[0]
    assert "▲ finished, 10 given up" in line
    assert "✓" not in line


def test_the_store_has_a_line_of_its_own() -> None:
    lines = header(View(storing()), 120)
    assert len(lines) == lines_of(View(storing())) == 4
    assert lines[3].split("  ")[0].strip().startswith("stored 33,")
    for part in ("2.3 TB", "57 MB/s", "dumps 3.1/16.0 GB", "passes 16", "checks failed 3  (ids 2, zero_row 1)"):
        assert part in lines[3]
    assert lines_of(View(storing(reason="by command"))) == 5
    calm = storing()
    assert calm.totals.hidden is not None
    calm.totals.hidden.checks = {}
    assert "checks failed 0" in header(View(calm), 120)[3]


def test_samples_that_are_not_stored_stay_on_a_narrow_line() -> None:
    line = header(View(extracting()), 50)[3]
    assert "not stored 4" in line
    assert "stored 33," in line


def test_a_run_that_only_extracts_has_passes_in_flight() -> None:
    line = header(View(extracting()))[2]
    assert "passes 16" in line
    assert "in flight" not in line
    assert "passes" not in header(View(extracting()), 200)[3]


def test_the_age_of_the_oldest_request_is_shown_once_it_is_a_minute() -> None:
    assert "oldest" not in header(View(running(oldest_request_s=59.9)))[2]
    assert "in flight 248/256  oldest 5m  done" in header(View(running(oldest_request_s=359.0)))[2]
    assert "oldest 1h 01m" in header(View(running(oldest_request_s=3_700.0)), 80)[2]


def test_alerts_worst_first_and_advice_as_far_as_there_is_room() -> None:
    status = running(alerts=[LENGTH_ALERT, NO_PROGRESS])
    one = texts(alert_lines(status, 80, 1, LOOK))
    assert len(one) == 1
    assert "critical" in one[0]
    assert "(+1 more)" in one[0]
    everything = " ".join(" ".join(texts(alert_lines(status, 80, 9, LOOK))).split())
    for one_alert in status.alerts:
        assert one_alert.advice is not None
        assert one_alert.advice in everything
    assert len(alert_lines(status, 80, 99, LOOK)) == alerts_height(status, 80, LOOK)


@pytest.mark.parametrize("height", range(1, 9))
def test_every_alert_has_its_line_before_any_has_two(height: int) -> None:
    status = running(alerts=[LENGTH_ALERT, NO_PROGRESS])
    lines = texts(alert_lines(status, 60, height, LOOK))
    assert len(lines) <= height
    assert sum("critical" in line or "warning " in line for line in lines) == min(height, 2)


def test_many_alerts_take_a_line_each_and_the_last_line_says_how_many_are_missing() -> None:
    calm = [alert(f"warned_{n}", Severity.WARNING, f"B{n} is slow", advice="wait") for n in range(5)]
    status = running(alerts=[*calm, NO_PROGRESS])
    lines = texts(alert_lines(status, 80, 4, LOOK))
    assert "critical" in lines[0]
    assert [line[:11] for line in lines[1:3]] == [" ▲ warning "] * 2
    assert lines[3].strip() == "… and 3 more (eagle3 status)"
    assert (
        brief_height(status, 80, LOOK) == urgent_height(status, 80, LOOK) == len(alert_lines(status, 80, 6, LOOK)) == 6
    )
    assert "wait" not in " ".join(texts(alert_lines(status, 80, 6, LOOK)))
    assert urgent_height(running(alerts=calm), 80, LOOK) == 0
    few = running(alerts=[LENGTH_ALERT])
    assert brief_height(few, 80, LOOK) == alerts_height(few, 80, LOOK) > 1


def test_an_event_names_its_data_set_once() -> None:
    def text(**over: Any) -> str:
        event = Event(at=NOW - 5, severity=Severity.WARNING, kind="x", **over)
        return event_line(event, NOW, 80, LOOK).text

    assert "22:13:15  ▲ warning  B2: slow" in text(message="slow", dataset="B2")
    assert "warning  B2 is slow" in text(message="B2 is slow", dataset="B2")


def test_what_happened_and_its_alert_are_one_line() -> None:
    def event(kind: str, message: str, at: float = NOW, dataset: str | None = "B1") -> Event:
        return Event(at=at, severity=Severity.CRITICAL, kind=kind, message=message, dataset=dataset)

    halted = event("dataset.halted", "B1 is stopped: ids without a count")
    raised = event("alert.raised", "stopped, the answers do not hold what was agreed: ids without a count", NOW + 0.6)
    assert list(occurrences([halted, raised])) == [raised]
    late = event("alert.raised", raised.message, NOW + 1.5)
    assert list(occurrences([halted, late])) == [late, halted]
    same = event("server.down", "down", NOW, None), event("alert.raised", "down", NOW + 1, None)
    assert list(occurrences(same)) == [same[1]]
    servers = (
        event("server.down", "a is down: refused", NOW, None),
        event("server.down", "b is down: refused", NOW, None),
    )
    assert list(occurrences(servers)) == [servers[1], servers[0]]


@pytest.mark.parametrize("farewell", [True, False])
def test_the_keys_say_that_the_daemon_goes_on_only_where_it_does(farewell: bool) -> None:
    keys = usable_keys(read_only=False)
    line = key_line(keys, 100, LOOK, read_only=False, daemon=True, farewell=farewell, state=RunState.RUNNING)
    assert ("(the daemon goes on)" in line.text) is farewell


def test_moments() -> None:
    assert moment(NOW + 600, NOW) == "22:23"
    assert moment(NOW + 3 * DAY, NOW) == "22:13 on Fri"
    assert moment(NOW + 30 * DAY, NOW) == "on 14 Dec 2023"
    assert moment(NOW + 1e12, NOW) == "in over a year"
    assert [short_moment(NOW + span, NOW) for span in (600, DAY, 30 * DAY, 1e12)] == [
        "22:23", "Wed 22:13", "14 Dec", ">1 year",
    ]  # fmt: skip
    assert [stamp(NOW - span, NOW) for span in (0, DAY, 30 * DAY)] == ["22:13:20", "Mon22:13", "  15 Oct"]


class TestCursor:
    STATUS = running(
        alerts=[*(alert(f"warned_{n}", Severity.WARNING, f"B{n} is slow", advice="wait") for n in range(5))]
    )

    @pytest.mark.parametrize("height", range(1, 8))
    @pytest.mark.parametrize("chosen", range(5))
    def test_the_selected_alert_is_always_in_sight(self, height: int, chosen: int) -> None:
        lines = texts(alert_lines(self.STATUS, 80, height, LOOK, key_of(self.STATUS.alerts[chosen])))
        assert len(lines) <= height
        assert any(f"B{chosen} is slow" in line for line in lines)

    def test_its_advice_comes_before_that_of_others(self) -> None:
        lines = texts(alert_lines(self.STATUS, 80, 6, LOOK, key_of(self.STATUS.alerts[3])))
        assert lines[4].strip() == "wait"
        assert brief_height(self.STATUS, 80, LOOK, key_of(self.STATUS.alerts[3])) == 6

    def test_it_is_turned_round(self) -> None:
        lines = alert_lines(self.STATUS, 80, 5, LOOK, key_of(self.STATUS.alerts[1]))
        turned = [all(segment.style is not None and segment.style.reverse for segment in line) for line in lines]
        assert turned == [False, True, False, False, False]


def test_status_without_anything_is_drawn() -> None:
    empty: RunStatus = running(datasets=[], gpus=None, servers=[], host=None, concurrency=None, elapsed_s=None)
    assert len(header(View(empty), 40)) == 3
