"""What `eagle3 tui` takes, and what it hands on."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

import eagle3_tui.app as app_module
from eagle3_tui.__main__ import main


@pytest.fixture
def shown(monkeypatch: pytest.MonkeyPatch) -> list[dict[str, Any]]:
    """The screens that were shown: their keyword arguments."""
    calls: list[dict[str, Any]] = []

    def run_app(path: Path, **options: Any) -> int:
        calls.append(options)
        return 0

    monkeypatch.setattr(app_module, "run_app", run_app)
    return calls


@pytest.mark.parametrize(
    ("words", "speed"),
    [
        ((), None),
        (("--replay",), 60.0),
        (("--replay", "--speed", "5"), 5.0),
        (("--replay", "--speed", "0.5x"), 0.5),
    ],
)
def test_a_replay_has_a_speed(
    tmp_path: Path, shown: list[dict[str, Any]], words: Sequence[str], speed: float | None
) -> None:
    assert main(["tui", str(tmp_path), *words]) == 0
    assert shown[0]["replay_speed"] == speed


@pytest.mark.parametrize(
    "words", [("--speed", "5"), *(("--replay", "--speed", text) for text in ("0", "-1", "inf", "nan", "x"))]
)
def test_other_speeds_are_refused(
    tmp_path: Path, shown: list[dict[str, Any]], words: Sequence[str], capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["tui", str(tmp_path), *words]) == 2
    assert "speed" in capsys.readouterr().err
    assert shown == []
