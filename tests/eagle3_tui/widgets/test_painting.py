"""A partial update holds the changed cells and nothing else; on a screen it comes to the same as Textual's own."""

from __future__ import annotations

import pyte
import pytest
from rich.console import Console
from rich.segment import Segment
from rich.style import Style
from textual._compositor import ChopsUpdate, LayoutUpdate
from textual.geometry import Region
from textual.strip import Strip

from eagle3_tui.widgets.painting import CellsUpdate, cells_only

ROWS = ["abcdefghijklmnopqrst", "ABCDE漢字FGHIJKLMNOP", "0123█▌▏…●56789é12345"]


def update(*spans: tuple[int, int, int]) -> ChopsUpdate:
    """Three lines of two widgets each, the second from column 10 on."""
    strips = [Strip([Segment(text[:3], Style(bold=True)), Segment(text[3:])]) for text in ROWS]
    chops = [dict(zip((0, 10), strip.divide([10, strip.cell_length]), strict=True)) for strip in strips]
    return ChopsUpdate(chops, list(spans), [[10, 20]] * 3)


def painted(before: str, sent: str) -> list[str]:
    """What is on a screen after both."""
    screen = pyte.Screen(20, 3)
    stream = pyte.Stream(screen)
    stream.feed(before)
    stream.feed(sent)
    return list(screen.display)


CONSOLE = Console(color_system="standard", force_terminal=True)


def test_two_cells_of_a_line_cost_two_cells() -> None:
    cells = cells_only(update((0, 4, 5), (0, 18, 20)))
    assert isinstance(cells, CellsUpdate)
    assert cells.render_segments(CONSOLE) == "\x1b[1;5He\x1b[1;19Hst"


@pytest.mark.parametrize(
    "spans", [[(0, 0, 20)], [(0, 2, 12), (1, 0, 5), (1, 5, 9), (2, 9, 11)], [(2, 0, 1), (2, 3, 4), (2, 19, 20)]]
)
def test_a_screen_ends_up_as_with_textuals_own(spans: list[tuple[int, int, int]]) -> None:
    # The screen holds the right text already but for what is to be repaired.
    whole = update((0, 0, 20), (1, 0, 20), (2, 0, 20)).render_segments(CONSOLE)
    spoilt = whole + "".join(f"\x1b[{y + 1};{left + 1}H{'#' * (right - left)}" for y, left, right in spans)
    own, theirs = cells_only(update(*spans)), update(*spans)
    assert isinstance(own, CellsUpdate)
    assert painted(spoilt, own.render_segments(CONSOLE)) == painted(spoilt, theirs.render_segments(CONSOLE))
    assert len(own.render_segments(CONSOLE)) <= len(theirs.render_segments(CONSOLE))


def test_a_whole_screen_is_left_as_it_is() -> None:
    whole = LayoutUpdate([], Region(0, 0, 20, 3))
    assert cells_only(whole) is whole
    assert cells_only(None) is None
