"""One screen in a real tmux through every size from a polite minimum to ultrawide, up and down again."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.support.polling import wait_for
from tests.support.tmux import AFTERWARDS, Pane, Tmux, tui
from tests.support.wide_run import wide_run

SIZES = (
    (41, 13), (60, 15), (80, 24), (79, 23), (120, 36), (200, 50), (300, 100), (300, 12), (40, 100), (10, 3), (120, 36),
    (1, 1), (80, 24), (20, 5), (40, 12),
)  # fmt: skip
FEWER = ((80, 24), (300, 100), (10, 3), (120, 36), (40, 12))
TOO_SMALL = (40, 12)
"""Below this the run itself is not shown, only that it is there."""


@pytest.fixture(scope="module")
def pane(tmux: Tmux, tmp_path_factory: pytest.TempPathFactory) -> Pane:
    run: Path = wide_run(tmp_path_factory.mktemp("run") / "sized")
    pane = tmux.open(tui(run), columns=40, rows=12)
    pane.until("sized", "q leave")
    return pane


@pytest.mark.parametrize("key", ["", "f", "e", "v", "Enter"])
def test_every_size(pane: Pane, key: str) -> None:
    if key:
        pane.press(key)
        pane.until("esc back")
    for columns, rows in FEWER if key else SIZES:
        pane.resize(columns, rows)
        fits = columns >= TOO_SMALL[0] and rows >= TOO_SMALL[1]
        wait_for(lambda columns=columns, rows=rows, fits=fits: _is_drawn(pane, columns, rows, fits), pane.text)
    if key:
        pane.press("Escape")
        pane.until("q leave", without=["esc back"])


def test_it_is_left_as_always(pane: Pane) -> None:
    pane.press("q")
    assert pane.ended() == 0
    assert pane.modes() == AFTERWARDS


def _is_drawn(pane: Pane, columns: int, rows: int, fits: bool) -> bool:
    """Whether the whole window is in use: its keys in the last line, where it is not too small for them."""
    lines = pane.text().removesuffix("\n").split("\n")
    if len(lines) != rows:
        return False
    return not fits or (bool(re.search(r"(leave|back)", lines[-1])) and len(lines[0]) <= columns)
