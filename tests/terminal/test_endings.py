"""However the screen ends in a real tmux: the terminal is as before, and the exit code says how."""

from __future__ import annotations

import json
import signal
import sys
from pathlib import Path

import pytest

from tests.support.tmux import AFTERWARDS, Tmux, tui

_BROKEN = (
    "import sys, eagle3_tui.feed.state as state; state.Feed.view = lambda self: 1 / 0;"
    "from eagle3_tui.__main__ import main; sys.exit(main(sys.argv[1:]))"
)
"""A fault of our own in what draws the screen, as soon as it draws."""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return foreign(tmp_path / "folder")


def foreign(folder: Path) -> Path:
    """A folder of other tools with one data set of 20 answers."""
    dataset = folder / "prepared" / "B1"
    dataset.mkdir(parents=True)
    record = {"prompt_tokens": 3, "completion_tokens": 2, "finish_reason": "stop", "output_ids": [1, 2]}
    lines = [json.dumps({"sample_id": number, **record}) + "\n" for number in range(20)]
    (dataset / "raw_responses.jsonl").write_text("".join(lines))
    return folder


@pytest.mark.parametrize(("number", "code"), [(signal.SIGTERM, 143), (signal.SIGHUP, 129), (signal.SIGINT, 130)])
def test_a_signal(tmux: Tmux, folder: Path, number: signal.Signals, code: int) -> None:
    pane = tmux.open(tui(folder))
    pane.until("watching", "q leave")
    before = pane.modes()
    assert (before["alternate_on"], before["mouse_any_flag"], before["cursor_flag"]) == ("1", "1", "0")
    pane.kill(number)
    assert pane.ended() == code
    assert pane.modes() == AFTERWARDS
    assert "watching" not in pane.text()


def test_a_signal_over_another_screen_with_a_dialog(tmux: Tmux, folder: Path) -> None:
    pane = tmux.open(tui(folder))
    pane.until("watching", "q leave")
    pane.press("e")
    pane.until("esc back")
    pane.press("?")
    pane.until("any key closes this")
    pane.kill(signal.SIGTERM)
    assert pane.ended() == 143
    assert pane.modes() == AFTERWARDS


def test_a_crash_is_told_and_is_no_success(tmux: Tmux, folder: Path, tmp_path: Path) -> None:
    pane = tmux.open([sys.executable, "-c", _BROKEN, "tui", str(folder)], TMPDIR=str(tmp_path))
    assert pane.ended() == 1
    assert pane.modes() == AFTERWARDS
    assert "ZeroDivisionError" in pane.text()
    [trace] = tmp_path.glob("eagle3-tui-*.traceback.txt")
    assert trace.name in pane.text().replace("\n", "")


def test_without_the_mouse_the_terminal_keeps_it(tmux: Tmux, folder: Path) -> None:
    pane = tmux.open(tui(folder, "--no-mouse"))
    pane.until("watching", "q leave")
    assert pane.modes()["mouse_any_flag"] == "0"
    pane.press("m")
    pane.until("used here again")
    assert pane.modes()["mouse_any_flag"] == "1"
    pane.press("m")
    pane.until("the mouse is the terminal's")
    assert pane.modes()["mouse_any_flag"] == "0"
    pane.press("q")
    assert pane.ended() == 0
    assert pane.modes() == AFTERWARDS


def test_no_colour_and_ascii_alone(tmux: Tmux, folder: Path) -> None:
    pane = tmux.open(tui(folder), NO_COLOR="1", LC_ALL="C")
    pane.until("o watching", "B1", "q leave")
    for key, title in (("f", "failures"), ("e", "events"), ("v", "servers")):
        pane.press(key)
        pane.until(title, "esc back")
        shown = pane.text(colours=True)
        assert shown.isascii()
        assert not _colours(shown), shown
        pane.press("Escape")
        pane.until("o watching")
    pane.press("q")
    assert pane.ended() == 0


def _colours(text: str) -> set[str]:
    """Attributes in what tmux wrote that are colours."""
    codes = {code for part in text.split("\x1b[")[1:] for code in part.partition("m")[0].split(";")}
    return {code for code in codes if len(code) == 2 and code[0] in "34" and code[1] not in "9"}
