"""The screens beyond the main one as they were approved by looking at them."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from eagle3_tui.terminal import Capabilities
from tests.eagle3_tui.screens.details import OneScreen, rich_run, settled
from tests.eagle3_tui.screens.test_details import SCREENS

Compare = Callable[..., bool]
SIZES = {"80x24": (80, 24), "120x36": (120, 36)}


@pytest.fixture(autouse=True)
def in_the_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Paths on the screen are the same everywhere."""
    monkeypatch.chdir(tmp_path)
    rich_run(tmp_path / "run")


@pytest.mark.parametrize(
    ("name", "size"),
    [
        ("dataset", "80x24"), ("dataset", "120x36"), ("failures", "80x24"), ("sample", "80x24"), ("journal", "120x36"),
        ("servers", "120x36"),
    ],
)  # fmt: skip
def test_screen(snap_compare: Compare, name: str, size: str) -> None:
    app = OneScreen(Path("run"), SCREENS[name])
    assert snap_compare(app, terminal_size=SIZES[size], run_before=settled)


@pytest.mark.parametrize("capabilities", [Capabilities(unicode=False, color=False)], ids=["ascii-no_color"])
def test_plain_terminal(snap_compare: Compare, capabilities: Capabilities) -> None:
    app = OneScreen(Path("run"), SCREENS["dataset"], capabilities)
    assert snap_compare(app, terminal_size=SIZES["80x24"], run_before=settled)
