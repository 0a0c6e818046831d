"""`eagle3 status`: valid JSON whatever fails, exit codes, foreign folders, and nothing slow imported."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from eagle3_tui.commands import status as command
from tests.eagle3_tui.commands.conftest import Result, response
from tests.eagle3_tui.statuses import run_status

Eagle3 = Callable[..., Result]


def test_a_stopped_run_exits_3(eagle3: Eagle3, run_path: Path) -> None:
    result = eagle3("status", run_path, "--json")
    assert result.code == 3
    assert result.json["state"] == "stopped"
    nothing = dict.fromkeys(("pid", "since", "heartbeat_age_s", "gone_since"))
    assert result.json["daemon"] == {"alive": False, **nothing}
    assert result.json["totals"]["done"] == 1
    assert result.json["totals"]["in_flight"] is None


def test_for_people_it_is_a_table(eagle3: Eagle3, run_path: Path) -> None:
    result = eagle3("status", run_path)
    assert result.code == 3
    assert result.out.splitlines()[0].startswith("small  ")
    assert max(map(len, result.out.splitlines())) <= 80


def test_a_finished_run_exits_0(eagle3: Eagle3, run_path: Path) -> None:
    (run_path / "prepared/B1/raw_responses.jsonl").write_text("".join(map(response, "abc")))
    assert eagle3("status", run_path, "--json").code == 0


def test_a_folder_of_other_tools_is_watched(eagle3: Eagle3, tmp_path: Path) -> None:
    folder = tmp_path / "foreign" / "B7"
    folder.mkdir(parents=True)
    (folder / "raw_responses.jsonl").write_text(response("a", 5) + "garbage\n")
    result = eagle3("status", tmp_path / "foreign", "--json")
    assert result.code == 0
    assert result.json["state"] == "watching"
    assert result.json["totals"]["completion_tokens"] == 5
    assert result.json["totals"]["unreadable"] == 1


@pytest.mark.parametrize(
    ("content", "code", "word"),
    [(None, 5, "not_a_run"), ("", 2, "config"), ("[run", 2, "config"), ("[runn]\n", 2, "config")],
)
def test_whatever_fails_there_is_an_error_object(
    eagle3: Eagle3, tmp_path: Path, content: str | None, code: int, word: str
) -> None:
    if content is not None:
        (tmp_path / "run.toml").write_text(content)
    result = eagle3("status", tmp_path, "--json")
    assert result.code == code
    assert result.json["schema"] == 1
    assert result.json["error"]["code"] == word
    assert str(tmp_path) in result.json["error"]["message"]
    assert result.err.startswith("eagle3: ")
    assert result.err.count("\n") == 1


def test_wrong_arguments_are_an_error_object_too(eagle3: Eagle3) -> None:
    result = eagle3("status", "--json", "--bogus")
    assert (result.code, result.json["error"]["code"]) == (2, "usage")


def test_without_json_an_error_is_one_sentence_on_stderr(eagle3: Eagle3, tmp_path: Path) -> None:
    result = eagle3("status", tmp_path)
    assert (result.code, result.out) == (5, "")
    assert result.err.count("\n") == 1


@pytest.mark.parametrize("value", ["0", "-1", "nan", "inf", "x"])
def test_an_impossible_interval_is_refused(eagle3: Eagle3, run_path: Path, value: str) -> None:
    assert eagle3("status", run_path, f"--watch={value}").code == 2


def test_a_fault_of_ours_is_still_json(run_path: Path) -> None:
    code = (
        "import sys; from contracts.monitor import Monitor\n"
        "def fault(self): raise ZeroDivisionError('oh')\n"
        "Monitor.refresh = fault\n"
        "from eagle3_tui.__main__ import main\n"
        "sys.exit(main())"
    )
    result = subprocess.run(
        [sys.executable, "-c", code, "status", run_path, "--json"], capture_output=True, text=True, check=False
    )
    assert result.returncode == 1
    assert json.loads(result.stdout)["error"]["code"] == "internal"
    assert "ZeroDivisionError" in result.stderr


def test_names_that_are_not_utf_8_give_valid_json(eagle3: Eagle3, tmp_path: Path) -> None:
    folder = tmp_path / os.fsdecode(b"\xe9\xff")
    (folder / "prepared" / "B1").mkdir(parents=True)
    (folder / "prepared" / "B1" / "raw_responses.jsonl").write_text(response("a"))
    result = eagle3("status", folder, "--json")
    assert result.code == 0
    result.json["path"].encode()
    assert eagle3("status", folder).code == 0


def test_numbers_that_json_does_not_know_are_null() -> None:
    encoded = json.loads(command.status_json(run_status(elapsed_s=float("nan"))))
    assert encoded["elapsed_s"] is None


def watch_twice(monkeypatch: pytest.MonkeyPatch) -> None:
    naps: list[float] = []

    def nap(length: float) -> None:
        naps.append(length)
        if len(naps) == 2:
            raise KeyboardInterrupt

    monkeypatch.setattr("eagle3_tui.commands.status.time.sleep", nap)


def test_watching_prints_a_line_each_time_and_ctrl_c_is_130(
    eagle3: Eagle3, run_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    watch_twice(monkeypatch)
    result = eagle3("status", run_path, "--watch", "0.5")
    assert result.code == 130
    assert len(result.out.splitlines()) == 2
    assert "small  stopped  1/3 done" in result.out


def test_watching_as_json_prints_an_object_a_line(
    eagle3: Eagle3, run_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    watch_twice(monkeypatch)
    result = eagle3("status", run_path, "--watch", "0.5", "--json")
    assert [json.loads(line)["state"] for line in result.out.splitlines()] == ["stopped", "stopped"]


@pytest.mark.parametrize("size", [(0, 0), (1, 1), (20, 5), (100, 30)])
def test_on_a_terminal_watching_repaints_in_place_at_any_size(
    eagle3: Eagle3, run_path: Path, monkeypatch: pytest.MonkeyPatch, size: tuple[int, int]
) -> None:
    watch_twice(monkeypatch)
    monkeypatch.setattr(sys.stdout, "isatty", lambda: True)
    monkeypatch.setattr("eagle3_tui.commands.status._terminal_size", lambda: os.terminal_size(size))
    result = eagle3("status", run_path, "--watch", "0.5")
    assert result.code == 130
    first, second = result.out.split("\x1b[H")[1:]
    assert first == second
    assert first.endswith("\x1b[J")
    columns, rows = size[0] or 80, size[1] or 24
    lines = first.removesuffix("\x1b[J").splitlines()
    assert len(lines) < rows
    assert all(len(line.removesuffix("\x1b[K")) <= columns for line in lines)


@pytest.mark.parametrize("command", ["status", "start"])
@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("nowhere", "nowhere: no such folder; make a run with: eagle3 init "),
        ("my_run/run.toml", "my_run/run.toml: is a file; the run is its folder "),
        ("file", "file: is a file, and a run is a folder"),
    ],
)
def test_a_path_that_is_no_folder_is_told_as_what_it_is(
    eagle3: Eagle3, run_path: Path, command: str, name: str, words: str
) -> None:
    (run_path.parent / "file").touch()
    result = eagle3(command, run_path.parent / name)
    assert (result.code, result.out) == (5, "")
    assert words in result.err


def test_it_imports_nothing_slow(run_path: Path) -> None:
    code = (
        "import sys; from eagle3_tui.__main__ import main; main(['status', sys.argv[1], '--json']); "
        "print([name for name in ('textual', 'aiohttp', 'requests', 'torch', 'psutil', 'asyncio') "
        "if name in sys.modules], file=sys.stderr)"
    )
    result = subprocess.run([sys.executable, "-c", code, run_path], capture_output=True, text=True, check=True)
    assert result.stderr == "[]\n"
