"""Dialogs as they were approved by looking at them."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

import pytest
from textual.pilot import Pilot

from eagle3_tui.dialogs.dialog import Dialog
from eagle3_tui.terminal import Capabilities
from tests.eagle3_tui.conftest import AppMaker
from tests.eagle3_tui.samples import running, storing
from tests.eagle3_tui.screens.support import shown, until

Compare = Callable[..., bool]


def pressed(*keys: str) -> Callable[[Pilot[Any]], Awaitable[None]]:
    """Return what opens a dialog and types into it."""

    async def press(pilot: Pilot[Any]) -> None:
        await shown(pilot)
        await pilot.press(keys[0])
        await until(pilot, lambda: isinstance(pilot.app.screen, Dialog))
        await pilot.press(*keys[1:])
        await pilot.pause()
        await pilot.pause()

    return press


@pytest.mark.parametrize(
    ("name", "keys"), [("stop", ("S",)), ("target", ("t", *"9M", "tab", *"magic")), ("help", ("question_mark",))]
)
def test_dialog(snap_compare: Compare, make_app: AppMaker, name: str, keys: tuple[str, ...]) -> None:
    assert snap_compare(make_app(storing()), terminal_size=(80, 24), run_before=pressed(*keys))


def test_plain_signs_no_colour_and_little_room(snap_compare: Compare, make_app: AppMaker) -> None:
    app = make_app(running(), capabilities=Capabilities(unicode=False, color=False))
    assert snap_compare(app, terminal_size=(40, 12), run_before=pressed("c", *"512"))
