"""`eagle3 check`: what the daemon's code found, rendered, with its exit code."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.eagle3_tui.commands.conftest import Result

Eagle3 = Callable[..., Result]
FOUND = (
    '{"findings":[{"level":"ok","what":"fine"},{"level":"error","what":"no \\u001b[2J server","advice":"start it"}]}'
)


@pytest.fixture
def checker(monkeypatch: pytest.MonkeyPatch) -> Callable[[str, str, int], None]:
    """Replace the daemon's check by one that prints what is given."""

    def replace(out: str, err: str, code: int) -> None:
        program = f"import sys; sys.stdout.write({out!r}); sys.stderr.write({err!r}); sys.exit({code})"
        monkeypatch.setattr("eagle3_tui.commands.check.program", lambda *_: [sys.executable, "-c", program])

    return replace


def test_findings_for_people(eagle3: Eagle3, run_path: Path, checker: Callable[[str, str, int], None]) -> None:
    checker(FOUND, "", 1)
    result = eagle3("check", run_path)
    assert result.code == 1
    lines = result.out.splitlines()
    assert lines[0].endswith("ok       fine")
    assert "no ^[[2J server" in lines[1]
    assert lines[2].strip() == "> start it"
    assert lines[3] == "errors 1, warnings 0, fine 1"


def test_findings_for_scripts(eagle3: Eagle3, run_path: Path, checker: Callable[[str, str, int], None]) -> None:
    checker(FOUND, "", 1)
    result = eagle3("check", run_path, "--json")
    assert result.code == 1
    assert [one["level"] for one in result.json["findings"]] == ["ok", "error"]


@pytest.mark.parametrize("out", ["", "not json", '{"findings":[{"level":"odd","what":"x"}]}'])
def test_a_check_that_breaks_is_told(
    eagle3: Eagle3, run_path: Path, checker: Callable[[str, str, int], None], out: str
) -> None:
    checker(out, "Traceback ...\nValueError: it broke\n", 1)
    result = eagle3("check", run_path)
    assert (result.code, result.out) == (1, "")
    assert result.err == "eagle3: ValueError: it broke\n"


def test_a_run_toml_that_cannot_be_used_is_told_as_by_every_command(eagle3: Eagle3, run_path: Path) -> None:
    """As docs/run-toml.md shows it: one sentence, and no sum of findings."""
    config = run_path / "run.toml"
    config.write_text(config.read_text() + "[generate]\nconcurency = 2\n")
    result = eagle3("check", run_path)
    said = f"{config}: [generate]: unknown key 'concurency'. Did you mean 'concurrency'?"
    assert (result.code, result.out, result.err) == (2, "", f"eagle3: {said}\n")
    for command in ("check", "verify", "status"):
        result = eagle3(command, run_path, "--json")
        assert (result.code, result.json["error"]) == (2, {"code": "config", "message": said}), command


def test_the_real_check_of_a_run_without_a_server(eagle3: Eagle3, run_path: Path) -> None:
    result = eagle3("check", run_path, "--json")
    assert result.code == 1
    assert any(one["level"] == "error" and "127.0.0.1:9" in one["what"] for one in result.json["findings"])
