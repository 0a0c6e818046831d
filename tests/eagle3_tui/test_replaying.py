"""The past on the screens: a replay from the start, one of a run that goes on, its keys, its line."""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path

import pytest
from textual.pilot import Pilot

from contracts.clock import Clock
from contracts.commands import Retry
from contracts.fold.marks import Mark, MarkKind
from contracts.fold.run import RunFold
from contracts.monitor import Answer, Monitor
from contracts.records import NextStep
from contracts.replay.source import ReplaySource
from eagle3_tui.app import Eagle3App
from eagle3_tui.dialogs.dialog import Dialog
from eagle3_tui.dialogs.retryable import retryable
from eagle3_tui.replay_keys import REPLAY_KEYS
from eagle3_tui.terminal import Capabilities
from eagle3_tui.text import cell_width
from eagle3_tui.widgets.look import look_for
from eagle3_tui.widgets.scrubber import Playing, Scrubber, scrubber_line
from tests.eagle3_tui.samples import FakeSender
from tests.eagle3_tui.screens.support import text_of, until
from tests.support.records import NOW, PID, event, failure, heartbeat, make_run, response, write

BEGIN = NOW - 7200.0
QUIET = "[telemetry]\ngpus = false\n[alerts]\ntelemetry_stale_s = 1e9"
"""No alert on telemetry that the tests leave out."""


class Wall:
    """A clock that a test turns."""

    def __init__(self) -> None:
        self.seconds = 0.0

    def clock(self) -> Clock:
        return Clock(wall=lambda: NOW + self.seconds, monotonic=lambda: self.seconds)


@pytest.fixture
def run(tmp_path: Path) -> Path:
    """Two hours, a response each minute; a pause after 40 minutes, an alert after 60, stopped at the end."""
    run = make_run(
        tmp_path / "run",
        datasets=["B1"],
        prompts=200,
        extra="[telemetry]\ngpus = false\n[alerts]\ntelemetry_stale_s = 1e9",
    )
    write(
        run.events,
        [
            event("daemon.started", BEGIN, data={"pid": PID}),
            event("run.paused", BEGIN + 2400, message="paused: to look"),
            event("run.resumed", BEGIN + 2460),
            event("alert.raised", BEGIN + 3600, message="slow", data={"code": "slow"}),
            event("daemon.stopped", NOW),
        ],
    )
    made = [response(f"B1-{n}", finished_at=BEGIN + 60.0 * n, started_at=BEGIN + 60.0 * n - 9) for n in range(1, 121)]
    write(run.dataset("B1").responses, made)
    write(run.telemetry_file("daemon"), [heartbeat(BEGIN + 10.0 * n, in_flight={"B1": 4}) for n in range(1, 720)])
    return run.path


def app_of(run: Path, wall: Wall, *, speed: float | None = None, sender: FakeSender | None = None) -> Eagle3App:
    return Eagle3App(
        Monitor(run),
        sender or FakeSender(),
        capabilities=Capabilities(),
        clock=wall.clock(),
        recording=partial(ReplaySource, run),
        replay_speed=speed,
    )


def shown(app: Eagle3App) -> str:
    return "\n".join(text_of(app))


async def reaches(pilot: Pilot[int], app: Eagle3App, *texts: str) -> None:
    def there() -> bool:
        lines = shown(app)
        return all(text in lines for text in texts)

    await until(pilot, there)


async def test_a_replay_goes_through_the_run(run: Path) -> None:
    wall = Wall()
    sender = FakeSender()
    app = app_of(run, wall, speed=60.0, sender=sender)
    async with app.run_test(size=(120, 30)) as pilot:
        await reaches(pilot, app, "REPLAY 06:00:00", "60x", "0/200")
        wall.seconds = 10.0
        await reaches(pilot, app, "REPLAY 06:10:00", "10/200", "running")
        await pilot.press("space", "right")
        await reaches(pilot, app, "REPLAY 06:11:00", "11/200", "paused")
        wall.seconds = 100.0
        await pilot.press("right_square_bracket")
        await reaches(pilot, app, "REPLAY 06:40:00")
        await pilot.press("less_than_sign", "left")
        await reaches(pilot, app, "REPLAY 06:29:00", "29/200")
        # Nothing of the past can be changed.
        await pilot.press("p", "S")
        assert "the past can't be changed" in shown(app)
        assert sender.sent == []
        await pilot.press("end")
        await reaches(pilot, app, "stopped", "120/200", "no daemon")
        await pilot.press("R")
        await until(pilot, lambda: "REPLAY" not in shown(app))
        assert not app.screen.query(Scrubber)


async def test_the_line_is_never_ahead_of_the_screens(run: Path) -> None:
    """What plays is read twice a second: at 60x the line would be half a minute ahead of what is below it."""
    wall = Wall()
    app = app_of(run, wall, speed=60.0)
    async with app.run_test(size=(120, 30)) as pilot:
        await reaches(pilot, app, "● REPLAY 06:00:00", "0/200")

        def on_the_line() -> str:
            """What it says now, before anything can have been read."""
            return app.screen.query_one(Scrubber).lines(app.feed.view(), 120, 1)[0].text

        wall.seconds = 10.0
        app.replaying.tick()
        assert "REPLAY 06:00:00" in on_the_line()
        app.replaying.act("move", 60.0)  # where one goes is said at once
        assert "REPLAY 06:11:00" in on_the_line()
        await reaches(pilot, app, "REPLAY 06:11:00", "11/200")


async def test_a_tick_while_the_screen_is_being_left_is_no_fault(run: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    app = app_of(run, Wall(), speed=60.0)
    async with app.run_test(size=(120, 30)) as pilot:
        await reaches(pilot, app, "REPLAY 06:00:00", "0/200")
        with monkeypatch.context() as patched:
            patched.setattr(type(app), "_screen_stack", [])
            patched.setattr(type(app), "screen_stack", [])
            app.replaying.tick()


async def test_a_replay_that_has_ended_does_not_play(run: Path) -> None:
    wall = Wall()
    app = app_of(run, wall, speed=60.0)
    async with app.run_test(size=(120, 30)) as pilot:
        await reaches(pilot, app, "● REPLAY 06:00:00", "0/200")  # it begins at the time of the clock
        wall.seconds = 1000.0
        await reaches(pilot, app, "■ REPLAY 08:00:0", "at end", "120/200")
        assert "60x" not in shown(app)
        await pilot.press("space")
        await reaches(pilot, app, "● REPLAY 06:00:00", "60x", "0/200")


async def test_every_screen_shows_that_moment(run: Path) -> None:
    wall = Wall()
    app = app_of(run, wall, speed=60.0)
    async with app.run_test(size=(120, 30)) as pilot:
        await reaches(pilot, app, "REPLAY 06:00:00", "0/200")
        wall.seconds = 10.0
        await reaches(pilot, app, "10/200")
        await pilot.press("e")
        await reaches(pilot, app, "REPLAY 06:10:00", "daemon.started")
        assert "run.paused" not in shown(app)
        await pilot.press("space", "right_square_bracket")
        await reaches(pilot, app, "REPLAY 06:40:00", "paused: to look")
        await pilot.press("escape", "enter")
        await reaches(pilot, app, "REPLAY 06:40:00", "B1-40")
        assert "B1-41" not in shown(app)
        await pilot.press("question_mark")
        await reaches(pilot, app, "ten minutes back")


async def test_the_present_goes_back_in_time_and_returns(run: Path) -> None:
    wall = Wall()
    app = app_of(run, wall)
    async with app.run_test(size=(80, 24)) as pilot:
        await reaches(pilot, app, "120/200")
        await pilot.press("R")
        await until(pilot, lambda: bool(app.screen.query(Scrubber)))
        await pilot.press("less_than_sign")
        await reaches(pilot, app, "REPLAY 07:50:", "110/200")
        await pilot.press("end")
        await until(pilot, lambda: "REPLAY" not in shown(app))


@pytest.mark.parametrize("confirmed", [False, True], ids=["dialog", "question"])
async def test_a_dialog_of_the_present_sends_nothing_once_the_past_is_shown(run: Path, confirmed: bool) -> None:
    """What can be tried again is being counted yet when the person goes into the past."""
    write(run / "prepared/B1/failures.jsonl", [failure("B1-199", at=NOW - 60, next=NextStep.QUARANTINED)])
    wall, sender = Wall(), FakeSender()
    app = app_of(run, wall, sender=sender)
    async with app.run_test(size=(120, 30)) as pilot:
        await reaches(pilot, app, "120/200")
        ask, counted = app.feed.ask, asyncio.Event()

        async def slow(question: Callable[[RunFold, float], Answer]) -> Answer:
            answer = await ask(question)
            if question is retryable:
                await counted.wait()
            return answer

        app.feed.ask = slow  # type: ignore[method-assign]
        if confirmed:
            app.control.ask("retry", Retry(), confirm="Put all back?")
        else:
            await pilot.press("a")
        await pilot.press("R")
        await reaches(pilot, app, "REPLAY 08:00:00")
        counted.set()
        await until(pilot, lambda: isinstance(app.screen, Dialog))
        await pilot.press("y" if confirmed else "enter")
        await until(pilot, lambda: not isinstance(app.screen, Dialog))
        assert "the past can't be changed" in shown(app)
        assert sender.sent == []


async def test_keys_that_are_typed_are_not_the_replays(run: Path) -> None:
    app = app_of(run, Wall(), speed=60.0)
    async with app.run_test(size=(120, 30)) as pilot:
        await reaches(pilot, app, "REPLAY 06:00:00")
        await pilot.press("slash", "plus")
        await reaches(pilot, app, "/+")
        assert "60x" in shown(app)


async def test_a_click_on_the_bar_goes_there_and_one_beside_it_nowhere(run: Path) -> None:
    app = app_of(run, Wall(), speed=60.0)
    async with app.run_test(size=(120, 30)) as pilot:
        await reaches(pilot, app, "REPLAY 06:00:00")
        line = text_of(app)[0]
        first, last = line.index("┃"), line.rindex("░")
        await pilot.click("#scrubber", offset=((first + last) // 2, 0))
        await reaches(pilot, app, "REPLAY 07:00:00")
        await pilot.click("#scrubber", offset=(last, 0))
        await reaches(pilot, app, "REPLAY 08:00:0")
        await pilot.click("#scrubber", offset=(2, 0))
        await pilot.pause()
        assert "REPLAY 08:00:0" in shown(app)


async def test_what_is_written_is_of_the_moment(run: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    app = app_of(run, Wall(), speed=60.0)
    async with app.run_test(size=(120, 30)) as pilot:
        await reaches(pilot, app, "REPLAY 06:00:00")
        await pilot.press("space", "greater_than_sign")
        await reaches(pilot, app, "REPLAY 06:10:00", "10/200")
        await pilot.press("x")
        await until(pilot, lambda: len(list(tmp_path.glob("eagle3-*"))) == 3)
    day = time.strftime("%Y-%m-%d", time.localtime(BEGIN))
    written = {path.suffix: path for path in tmp_path.glob(f"eagle3-test-main-replay-{day.replace('-', '')}-061000*")}
    assert written[".txt"].read_text().startswith(f"replay of {day} 06:10:00 +0000\n")
    assert f"replay of {day} 06:10:00" in written[".svg"].read_text().replace("&#160;", " ")
    status = json.loads(written[".json"].read_bytes())
    assert (status["at"], status["totals"]["done"]) == (BEGIN + 600, 10)


async def test_the_log_is_that_of_the_moment(run: Path) -> None:
    lines = [(BEGIN + 60, "early"), (BEGIN + 5000, "late")]
    (run / "daemon.log").write_text(
        "".join(
            f"{time.strftime('%Y-%m-%d %H:%M:%S', time.gmtime(at))},000 INFO eagle3: {text}\n" for at, text in lines
        )
    )
    app = app_of(run, Wall(), speed=60.0)
    async with app.run_test(size=(120, 30)) as pilot:
        await reaches(pilot, app, "REPLAY 06:00:00")
        await pilot.press("space", "e", "l", "greater_than_sign")
        await reaches(pilot, app, "REPLAY 06:10:00", "daemon.log", "eagle3: early")
        assert "eagle3: late" not in shown(app)
        (run / "daemon.log").write_text("one that says no time\n")
        await pilot.press("f", "right")
        await reaches(pilot, app, "says no times: as it is now", "one that says no time")


PLAYING = Playing(
    at=BEGIN + 3600, begin=BEGIN, end=NOW, speed=60.0, paused=False,
    marks=(
        Mark(BEGIN + 60, MarkKind.RESTART, ""), Mark(NOW - 60, MarkKind.ALERT, ""), Mark(NOW + 9, MarkKind.ALERT, ""),
    ),
)  # fmt: skip


@pytest.mark.parametrize("unicode", [True, False])
@pytest.mark.parametrize("width", [40, 80, 120, 200])
def test_the_line_fits(width: int, unicode: bool) -> None:
    text = scrubber_line(PLAYING, width, look_for(Capabilities(unicode=unicode))).text
    assert cell_width(text) == width
    assert "REPLAY 07:00:00" in text
    assert "60x" in text
    assert unicode or text.isascii()
    assert text.count("!") == 1


def test_keys_are_named_once() -> None:
    names = [name for key in REPLAY_KEYS for name in key.keys]
    assert len(names) == len(set(names))
