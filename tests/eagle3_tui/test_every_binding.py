"""Every key of every screen is pressed, and what its line in the help promises is seen to change: none is dead."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any, Final

import pytest
from textual.pilot import Pilot

from contracts.details.failures import failure_overview
from contracts.details.sample import SampleRef
from contracts.fold.run import RunFold
from contracts.replay.source import ReplaySource
from eagle3_tui.app import Eagle3App
from eagle3_tui.keys import APP_KEYS, HISTORY_KEYS, MAIN_KEYS, Key
from eagle3_tui.mouse import mouse_is_taken
from eagle3_tui.replay_keys import REPLAY_KEYS
from eagle3_tui.screens import attempts, dataset, failures, journal, sample, servers
from eagle3_tui.screens.detail import DetailScreen
from eagle3_tui.terminal import Capabilities
from tests.eagle3_tui.conftest import standing_clock
from tests.eagle3_tui.samples import LENGTH_ALERT, NOW, FakeSender, running, ten_datasets
from tests.eagle3_tui.screens.details import NAME, FoldSource, rich_run
from tests.eagle3_tui.screens.support import part_text, text_of, until
from tests.support.records import heartbeat, write

WORKING: Final = ("control", "detail", "body", "moving", "replay", "history", "default")
"""Groups of workers that end by themselves; a dialog's waits for the person."""


class Seat:
    """The app, and what a person sees and hears of it."""

    def __init__(self, app: Eagle3App, pilot: Pilot[int], sender: FakeSender, here: Path) -> None:
        self.app, self.pilot, self.sender, self.here = app, pilot, sender, here
        self.written: list[str] = []
        self.left: list[int] = []
        self.base: Any = None
        """The screen whose keys are pressed."""

    async def settle(self) -> None:
        await self.pilot.pause()
        if any(worker.group in WORKING for worker in self.app.workers):
            await until(self.pilot, lambda: not any(worker.group in WORKING for worker in self.app.workers))
            await self.pilot.pause()
        screen = self.app.screen
        if isinstance(screen, DetailScreen):
            await until(self.pilot, lambda: screen.has_read)

    async def press(self, *keys: str) -> None:
        for key in keys:
            await self.pilot.press(key)
            await self.settle()

    @property
    def entry_is_open(self) -> bool:
        return bool(getattr(getattr(self.app.screen, "entry", None), "active", False))

    def seen(self, what: str) -> object:
        """Return one thing that a key may promise to change."""
        app, screen = self.app, self.app.screen
        moved, table, player = getattr(screen, "movable", None), app._run_screen.table, app.replaying._player
        looks: dict[str, Callable[[], object]] = {
            "screen": lambda: [type(each).__name__ for each in app.screen_stack],
            "place": lambda: (table.selected, getattr(moved, "selected", None), getattr(moved, "shown", None)),
            "drawn": lambda: text_of(app)[:-1],
            "plot": lambda: part_text(app, "history")[0],
            "typing": lambda: (app._run_screen.filtering, self.entry_is_open),
            "filter": lambda: table.wanted,
            "order": lambda: table.sort,
            "sent": lambda: list(self.sender.sent),
            "replay": lambda: None if player is None else (player.at(0.0), player.speed, player.paused),
            "files": lambda: len(list(self.here.glob("eagle3-*"))),
            "copied": lambda: len(self.written),
            "mouse": lambda: mouse_is_taken(app),
            "theme": lambda: app.theme,
            "left": lambda: len(self.left),
        }
        return looks[what]()


EVERYWHERE: Final = {
    "help": "screen", "leave": "left", "commands": "screen", "past": "replay", "copy": "copied", "export": "files",
    "mouse": "mouse", "theme": "theme", "move": "place", "page": "place", "ends": "place", "open": "screen",
    "back": "screen", "go": "typing", "app.go": "screen", "retry": "screen",
}  # fmt: skip
MAIN: Final = {
    **{f"app.{name}": "sent" for name in ("pause", "resume", "concurrency")},
    **{f"app.{name}": "screen" for name in ("concurrency_dialog", "target_dialog", "retry_dialog", "drain", "stop")},
    **{f"app.{name}": "screen" for name in ("failures", "journal", "servers")},
    "sort": "order", "reverse": "order", "filter": "typing", "clear": "filter", "span": "plot", "quantity": "plot",
}  # fmt: skip
BEFORE: Final[dict[str, tuple[str, ...]]] = {
    **dict.fromkeys(("move(-1)", "page(-1)", "ends(-1)"), ("end",)),
    **dict.fromkeys(("move(1)", "page(1)", "ends(1)"), ("home",)),
    **dict.fromkeys(("again(True)", "again(False)"), ("slash", "ctrl+u", *"event", "enter", "up")),
    "follow": ("up",),
    "scroll(-1)": ("home", "right_square_bracket"),
    "clear": ("slash", "m", "enter"),
}
"""What is pressed first, so that there is something to be done."""
SIZES: Final = {"main": (120, 36), "sample": (50, 18), "servers": (80, 13)}
"""The history has its place on the main screen, and elsewhere there is something to scroll."""
Maker = Callable[[Eagle3App], Any]
SCREENS: Final[dict[str, tuple[tuple[Key, ...], dict[str, str], Maker | None]]] = {
    "main": ((*MAIN_KEYS, *HISTORY_KEYS, *APP_KEYS), MAIN, None),
    "replay": (REPLAY_KEYS, {"app.replay": "replay"}, None),
    "dataset": (
        (*dataset.KEYS, *APP_KEYS), {"failures": "screen", "span": "drawn", "other": "drawn"},
        lambda app: dataset.DatasetScreen(app.look, app.feed, NAME, app._ask),
    ),
    "failures": (failures.KEYS, {}, lambda app: failures.FailuresScreen(app.look, app.feed, None, app._ask)),
    "attempts": (
        attempts.KEYS, {},
        lambda app: attempts.AttemptsScreen(app.look, app.feed, app.feed._source.ask(_busiest), None, app._ask),
    ),
    "sample": (
        sample.KEYS, {"other_view": "drawn"},
        lambda app: sample.SampleScreen(app.look, app.feed, SampleRef(NAME, "q-50"), app._ask),
    ),
    "journal": (
        journal.KEYS,
        {"follow": "drawn", "search": "typing", "again": "place", "severity": "drawn", "other": "drawn"},
        lambda app: journal.JournalScreen(app.look, app.feed),
    ),
    "servers": (servers.KEYS, {"scroll": "drawn"}, lambda app: servers.ServersScreen(app.look, app.feed)),
}  # fmt: skip
"""Keys, what those promise that are the screen's own, and how it is opened."""


def _busiest(fold: RunFold, now: float) -> Any:
    return failure_overview(fold, now, None).groups[0]


async def arrange(seat: Seat, name: str, make: Maker | None) -> None:
    """Come back to the screen, from wherever the last key led."""
    app = seat.app
    app._run_screen.clear_filter()
    if app.screen is not seat.base or seat.entry_is_open:
        while len(app.screen_stack) > 2:
            app.pop_screen()
        if make is not None:
            await app.push_screen(make(app))
        seat.base = app.screen
    if name == "replay":
        await app.replaying.begin()
        player = app.replaying._player
        assert player is not None
        app.replaying.jump(player.begin + 0.6 * (player.end - player.begin))
    else:
        app.replaying.leave()
    await seat.settle()


def is_bound(seat: Seat, name: str, key: Key) -> bool:
    """Whether a key is bound to the action of its table, on the screen or everywhere."""
    found = [node._bindings.key_to_bindings.get(name, ()) for node in (seat.app.screen, seat.app)]
    return key.action.removeprefix("app.") in {each.action.removeprefix("app.") for own in found for each in own}


async def dead_keys(seat: Seat, name: str) -> list[str]:
    """Press every key of a screen; return those after which nothing of what they promise has changed."""
    keys, promises, make = SCREENS[name]
    await seat.pilot.resize_terminal(*SIZES.get(name, (100, 30)))
    seat.base = None
    found = []
    for key in keys:
        what = (EVERYWHERE | promises)[key.action.partition("(")[0]]
        await arrange(seat, name, make)
        found += [f"{name}: {also} is not bound as {key.shown}" for also in key.keys if not is_bound(seat, also, key)]
        await seat.press(*BEFORE.get(key.action, ()))
        before = seat.seen(what)
        await seat.press(key.keys[0])
        if seat.seen(what) == before:
            found.append(f"{name}: {key.shown} ({key.help}): {what} is still {before}")
    return found


@pytest.mark.parametrize("names", [("main", "replay"), tuple(SCREENS)[2:]], ids=["main", "others"])
async def test_no_key_is_dead(names: tuple[str, ...], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("TMUX", raising=False)
    run = rich_run(tmp_path / "run")
    write(run.telemetry_file("daemon"), [heartbeat(NOW - 2 * n, in_flight={NAME: 4}) for n in range(60, 0, -1)])
    source, sender = FoldSource(Path("run")), FakeSender()
    (own,) = source.status.datasets
    source.status = running(datasets=[own, *ten_datasets()[4:]], alerts=[LENGTH_ALERT])
    app = Eagle3App(
        source, sender, capabilities=Capabilities(), history=True, clock=standing_clock(),
        recording=partial(ReplaySource, Path("run"), present=lambda: NOW),
    )  # fmt: skip
    dead = []
    async with app.run_test(size=SIZES["main"]) as pilot:
        seat = Seat(app, pilot, sender, tmp_path)
        await until(pilot, lambda: app.feed.view().status is not None)
        assert app._driver is not None
        monkeypatch.setattr(app._driver, "write", lambda text: seat.written.append(text) if "]52;" in text else None)
        monkeypatch.setattr(app, "leave", seat.left.append)
        for switch in ("_enable_mouse_support", "_disable_mouse_support"):
            monkeypatch.setattr(app._driver, switch, lambda: None, raising=False)
        for name in names:
            dead += await dead_keys(seat, name)
    assert dead == []


def test_every_table_of_keys_is_pressed() -> None:
    tables = [module.KEYS for module in (attempts, dataset, failures, journal, sample, servers)]
    pressed = {key for keys, *_ in SCREENS.values() for key in keys}
    assert pressed.issuperset(
        (*MAIN_KEYS, *HISTORY_KEYS, *APP_KEYS, *REPLAY_KEYS, *(key for one in tables for key in one))
    )
