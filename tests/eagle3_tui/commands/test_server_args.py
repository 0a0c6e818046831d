"""`eagle3 server-args` and `eagle3 plugin-path`: the daemon's own code makes them, the commands pass them on."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from tests.eagle3_tui.commands.conftest import Result

Eagle3 = Callable[..., Result]
EXTRACT = '[extract]\nlayers = [1, 3, 5]\nlayout = "speculators"\ndump_dir = "/dev/shm/my dumps"\n'


@pytest.fixture
def extracting(run_path: Path) -> Path:
    file = run_path / "run.toml"
    text = file.read_text().replace('name = "small"\n', 'name = "small"\nstages = ["generate", "extract"]\n')
    file.write_text(text + EXTRACT)
    return run_path


def test_command_for_people(eagle3: Eagle3, extracting: Path) -> None:
    result = eagle3("server-args", extracting, "--model", "org/model", "--architecture", "Qwen3ForCausalLM")
    assert (result.code, result.err) == (0, "")
    lines = result.out.splitlines()
    assert lines[0].startswith("PYTHONPATH=")
    assert "EAGLE3_DUMP_DIR='/dev/shm/my dumps' \\" in [line.strip() for line in lines]
    assert "--return-aux-hidden-state-layer-ids 1 3 5" in result.out
    assert "# - radix cache: --disable-radix-cache: " in result.out


def test_command_for_scripts(eagle3: Eagle3, extracting: Path) -> None:
    result = eagle3(
        "server-args", extracting, "--model=m", "--architecture=DeepseekV3ForCausalLM", "--port=30001", "--json"
    )
    assert result.code == 0
    assert set(result.json) == {"env", "command", "turned_off", "notes"}
    assert result.json["env"]["EAGLE3_NORM"] == "over_weight"
    assert "30001" in result.json["command"]


def test_what_is_missing_is_told(eagle3: Eagle3, extracting: Path) -> None:
    result = eagle3("server-args", extracting)
    assert (result.code, result.out) == (2, "")
    assert result.err == "eagle3: which model? Give --model, or set [extract] model in run.toml\n"


def test_folder_that_is_no_run(eagle3: Eagle3, tmp_path: Path) -> None:
    assert eagle3("server-args", tmp_path).code == 5


def test_plugin_path_holds_module_and_metadata(eagle3: Eagle3) -> None:
    result = eagle3("plugin-path")
    assert result.code == 0
    folder = Path(result.out.strip())
    assert (folder / "eagle3_sglang" / "plugin.py").is_file()
    assert list(folder.glob("eagle3_sglang-*.dist-info/entry_points.txt"))
