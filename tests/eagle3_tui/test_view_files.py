from __future__ import annotations

import json
from pathlib import Path

import pytest

from eagle3_tui.view_files import write_view
from tests.eagle3_tui.samples import NOW, running

PICTURE = '<svg><style>@font-face { font-family: "x"; src: url("https://x/y"); } .a {}</style></svg>'


def test_three_files_named_for_run_screen_and_time(tmp_path: Path) -> None:
    paths = write_view(tmp_path, "a/../b é", "main", NOW, PICTURE, "text\n", running())
    assert [path.name for path in paths] == [
        f"eagle3-a_.._b_-main-20231114-221320{ending}" for ending in (".svg", ".txt", ".json")
    ]
    assert "font-face" not in paths[0].read_text()
    assert paths[1].read_text() == "text\n"
    assert json.loads(paths[2].read_text())["run"] == "synth_100k"


def test_none_is_overwritten(tmp_path: Path) -> None:
    first = write_view(tmp_path, "run", "main", NOW, PICTURE, "first", None)
    again = write_view(tmp_path, "run", "main", NOW, PICTURE, "second", None)
    third = write_view(tmp_path, "run", "main", NOW, PICTURE, "third", None)
    assert [path.suffix for path in first] == [".svg", ".txt"]
    assert len({*first, *again, *third}) == 6
    assert first[1].read_text() == "first"


def test_a_folder_that_is_not_there_is_an_error_with_its_name(tmp_path: Path) -> None:
    with pytest.raises(OSError) as raised:
        write_view(tmp_path / "gone", "run", "main", NOW, PICTURE, "text", None)
    assert str(tmp_path / "gone") in str(raised.value)
