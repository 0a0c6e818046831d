"""Every key of the main screen, pressed in a real tmux over a live run: it does what the help says."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from eagle3_tui.keys import APP_KEYS, HISTORY_KEYS, MAIN_KEYS
from tests.support.polling import wait_for
from tests.support.tmux import Pane, Tmux, tui
from tests.terminal.live import LiveRun, live_run

DATASETS = 12
FOOTER = "q leave"
ON_MAIN = "servers, host, GPUs"
"""A title that only the main screen has."""
TMUX_NAMES = {
    "question_mark": "?", "colon": ":", "slash": "/", "plus": "+", "equals_sign": "=", "minus": "-", "enter": "Enter",
    "escape": "Escape", "up": "Up", "down": "Down", "pageup": "PageUp", "pagedown": "PageDown", "space": "Space",
    "home": "Home", "end": "End", "f1": "F1", "ctrl+p": "C-p", "ctrl+q": "C-q", "ctrl+c": "C-c",
}  # fmt: skip


class Screen:
    """The main screen of a live run, and what the keys' checks look at."""

    def __init__(self, pane: Pane, run: LiveRun, written: Path) -> None:
        self.pane, self.run, self.written = pane, run, written

    def press(self, key: str) -> None:
        self.pane.press(TMUX_NAMES.get(key, key))

    def back(self) -> None:
        """Close what is open, to the main screen with its keys."""
        self.pane.press("Escape")
        self.pane.until(ON_MAIN)

    def opens(self, key: str, *texts: str) -> None:
        self.press(key)
        self.pane.until(*texts, without=[ON_MAIN])
        self.back()

    def asks(self, key: str, *texts: str) -> None:
        """A dialog: the main screen may be seen around it."""
        self.press(key)
        self.pane.until(*texts)
        self.pane.press("Escape")
        self.pane.until(ON_MAIN, without=texts)

    def selected(self) -> str:
        """The data set under the cursor, by what `y` copies into tmux's buffer."""
        self.pane.tmux.call("set-buffer", "-b", "before", "")
        before = self.pane.tmux.call("list-buffers")
        self.press("y")
        wait_for(lambda: self.pane.tmux.call("list-buffers") != before, self.pane.text)
        return str(json.loads(self.pane.tmux.call("show-buffer"))["name"])

    def rows(self) -> list[str]:
        """Names of the data sets, as they stand below each other."""
        return re.findall(r"^ . (d\d\d) ", self.pane.text(), re.MULTILINE)

    def moves(self, keys: tuple[str, ...], to: list[str]) -> None:
        for key, name in zip(keys, to, strict=True):
            self.press(key)
            wait_for(lambda name=name: self.selected() == name, self.pane.text)


def pause(screen: Screen, keys: tuple[str, ...]) -> None:
    screen.press("p")
    screen.pane.until("‖ paused", without=["● running"])


def resume(screen: Screen, keys: tuple[str, ...]) -> None:
    screen.press("r")
    screen.pane.until("● running", without=["‖ paused"])


def concurrency_up(screen: Screen, keys: tuple[str, ...]) -> None:
    for key, at_once in zip(keys, ("11", "12"), strict=True):
        screen.press(key)
        screen.pane.until(f"/{at_once} ")


def concurrency_down(screen: Screen, keys: tuple[str, ...]) -> None:
    screen.press("minus")
    screen.pane.until("/11 ")


def concurrency_dialog(screen: Screen, keys: tuple[str, ...]) -> None:
    screen.press("c")
    screen.pane.until("Requests open at once")
    screen.pane.type("7")
    screen.pane.press("Enter")
    screen.pane.until("/7 ", ON_MAIN, without=["Requests open at once"])


def target_dialog(screen: Screen, keys: tuple[str, ...]) -> None:
    screen.asks("t", "Completion tokens to reach")


def retry_dialog(screen: Screen, keys: tuple[str, ...]) -> None:
    screen.asks("a", "Try failed samples again")


def drain(screen: Screen, keys: tuple[str, ...]) -> None:
    screen.asks("D", "Drain the run and end its daemon?")
    assert screen.run.alive


def stop(screen: Screen, keys: tuple[str, ...]) -> None:
    screen.asks("S", "Stop the daemon now?")
    assert screen.run.alive


def details(screen: Screen, keys: tuple[str, ...]) -> None:
    screen.press("home")
    screen.opens("enter", "d00", "esc back")


def sort(screen: Screen, keys: tuple[str, ...]) -> None:
    screen.press("s")
    screen.pane.until("─ data sets", "by data set")


def reverse(screen: Screen, keys: tuple[str, ...]) -> None:
    before = screen.rows()
    screen.press("o")
    wait_for(lambda: screen.rows()[:2] == ["d11", "d10"], screen.pane.text)
    screen.press("o")
    wait_for(lambda: screen.rows() == before, screen.pane.text)


def filter_and_clear(screen: Screen, keys: tuple[str, ...]) -> None:
    screen.press("slash")
    screen.pane.until("filter:")
    screen.pane.type("d03")
    wait_for(lambda: screen.rows() == ["d03"], screen.pane.text)
    screen.pane.press("Enter")
    screen.pane.until("1 of 12", FOOTER)


def clear(screen: Screen, keys: tuple[str, ...]) -> None:
    screen.press("escape")
    wait_for(lambda: len(screen.rows()) > 1, screen.pane.text)


def commands(screen: Screen, keys: tuple[str, ...]) -> None:
    for key in keys:
        screen.asks(key, "words of a command")


def copy(screen: Screen, keys: tuple[str, ...]) -> None:
    assert screen.selected() in screen.rows()
    screen.pane.until("copied")


def export(screen: Screen, keys: tuple[str, ...]) -> None:
    screen.press("x")
    screen.pane.until("written:")
    assert {file.suffix for file in screen.written.iterdir()} == {".svg", ".txt", ".json"}


def mouse(screen: Screen, keys: tuple[str, ...]) -> None:
    for on in ("0", "1"):
        screen.press("m")
        wait_for(lambda on=on: screen.pane.modes()["mouse_any_flag"] == on, screen.pane.text)


def theme(screen: Screen, keys: tuple[str, ...]) -> None:
    for background in ("light", "dark"):
        screen.press("T")
        screen.pane.until(f"for a {background} background")


def help_(screen: Screen, keys: tuple[str, ...]) -> None:
    for key in keys:
        screen.asks(key, "keys of this screen", "any key closes this")


def past(screen: Screen, keys: tuple[str, ...]) -> None:
    screen.press("R")
    screen.pane.until("REPLAY")
    screen.press("R")
    screen.pane.until("● running", ON_MAIN, without=["REPLAY"])


def span(screen: Screen, keys: tuple[str, ...]) -> None:
    """Its title says over which time, whatever else of the living run moves."""
    for name in ("1 h", "all", "10 min"):
        screen.press("w")
        screen.pane.until(f"[{name}]")


def quantity(screen: Screen, keys: tuple[str, ...]) -> None:
    """Its title says what is drawn; after the last one the first again."""
    screen.press("i")
    screen.pane.until("─ in flight ", without=["─ tokens/s "])
    for _ in range(6):
        if "─ tokens/s " in screen.pane.text():
            break
        before = screen.pane.text()
        screen.press("i")
        wait_for(lambda before=before: _plot_title(screen) not in before, screen.pane.text)
    assert "─ tokens/s " in screen.pane.text()


def _plot_title(screen: Screen) -> str:
    found = re.search(r"─ (\S.*?)  ", next(line for line in screen.pane.text().splitlines() if "[10 min]" in line))
    assert found is not None
    return f"─ {found[1]} "


CHECKS: dict[str, Callable[[Screen, tuple[str, ...]], None]] = {
    "help": help_,
    "commands": commands,
    "copy": copy,
    "export": export,
    "mouse": mouse,
    "theme": theme,
    "past": past,
    "app.pause": pause,
    "app.resume": resume,
    "app.concurrency(1)": concurrency_up,
    "app.concurrency(-1)": concurrency_down,
    "app.concurrency_dialog": concurrency_dialog,
    "app.target_dialog": target_dialog,
    "app.retry_dialog": retry_dialog,
    "app.drain": drain,
    "app.stop": stop,
    "open": details,
    "app.failures": lambda screen, keys: screen.opens("f", "failures", "esc back"),
    "app.journal": lambda screen, keys: screen.opens("e", "events", "following", "daemon.started"),
    "app.servers": lambda screen, keys: screen.opens("v", "findings", "0.5.23"),
    "app.go": lambda screen, keys: screen.asks("g", "Go to a sample"),
    "sort": sort,
    "reverse": reverse,
    "filter": filter_and_clear,
    "clear": clear,
    "ends(1)": lambda screen, keys: screen.moves(keys, ["d11", "d11"]),
    "ends(-1)": lambda screen, keys: screen.moves(keys, ["d00"]),
    "move(1)": lambda screen, keys: screen.moves(keys, ["d01", "d02"]),
    "move(-1)": lambda screen, keys: screen.moves(keys, ["d01", "d00"]),
    "page(1)": lambda screen, keys: screen.moves(keys, ["d11", "d11"]),
    "page(-1)": lambda screen, keys: screen.moves(keys, ["d00"]),
    "span": span,
    "quantity": quantity,
}
"""In this order: a sort is turned round, a filter is taken back, the cursor goes down and up again."""
LEAVING = ("leave",)
KEYS = {key.action: key.keys for key in (*APP_KEYS, *MAIN_KEYS, *HISTORY_KEYS)}


@pytest.fixture(scope="module")
def screen(tmux: Tmux, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Screen]:
    written = tmp_path_factory.mktemp("written")
    with live_run(tmp_path_factory.mktemp("run"), DATASETS) as run:
        pane = tmux.open(tui(run.path), cwd=written)
        pane.until("● running", FOOTER, "d11")
        yield Screen(pane, run, written)


def test_every_key_has_a_check() -> None:
    assert set(KEYS) == {*CHECKS, *LEAVING}


@pytest.fixture
def on_main(screen: Screen) -> Iterator[Screen]:
    """The main screen, whatever a failed check has left open."""
    yield screen
    if ON_MAIN not in screen.pane.text():
        screen.back()


@pytest.mark.parametrize("action", CHECKS)
def test_a_key_does_what_the_help_says(on_main: Screen, action: str) -> None:
    CHECKS[action](on_main, KEYS[action])


def test_q_leaves_and_the_daemon_goes_on(screen: Screen) -> None:
    screen.press("q")
    assert screen.pane.ended() == 0
    assert "the daemon goes on" in screen.pane.text()
    assert screen.run.alive
