"""What holds for every command: help with example and exit codes, errors, output that goes nowhere, locales."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from contracts.version import version
from eagle3_tui.__main__ import build_parser
from eagle3_tui.commands import COMMANDS
from tests.eagle3_tui.commands.conftest import Result, response

Eagle3 = Callable[..., Result]
PROGRAM = [sys.executable, "-m", "eagle3_tui"]


@pytest.mark.parametrize("name", [name for name in COMMANDS if name != "embedded"])
def test_help_shows_an_example_and_the_exit_codes(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        build_parser(name).parse_args([name, "--help"])
    assert ended.value.code == 0
    text = capsys.readouterr().out
    assert f"example:\n  eagle3 {name}" in text
    assert "exit codes:\n  0  " in text


def test_the_overview_lists_every_command() -> None:
    text = build_parser().format_help()
    assert all(f"\n    {name}" in text for name in COMMANDS)


def test_version(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        build_parser().parse_args(["--version"])
    assert capsys.readouterr().out == f"eagle3 {version()}\n"


@pytest.mark.parametrize("arguments", [[], ["dance"], ["status", "a", "b"], ["init", "--bogus"]])
def test_wrong_arguments_are_one_sentence_and_exit_2(eagle3: Eagle3, arguments: list[str]) -> None:
    result = eagle3(*arguments)
    assert (result.code, result.out) == (2, "")
    assert result.err.startswith("eagle3: ")
    assert "--help" in result.err


def test_a_reader_that_goes_away_is_141_without_a_traceback() -> None:
    reading, writing = os.pipe()
    os.close(reading)
    result = subprocess.run([*PROGRAM, "schema"], stdout=writing, stderr=subprocess.PIPE, check=False)
    os.close(writing)
    assert (result.returncode, result.stderr) == (141, b"")


def test_a_full_output_is_one_sentence() -> None:
    with Path("/dev/full").open("w") as full:
        result = subprocess.run([*PROGRAM, "schema"], stdout=full, stderr=subprocess.PIPE, text=True, check=False)
    assert result.returncode == 1
    assert "No space left on device" in result.stderr
    assert "Traceback" not in result.stderr


@pytest.mark.parametrize("shell", ["bash", "zsh", "tcsh"])
def test_completion_knows_every_command(eagle3: Eagle3, shell: str) -> None:
    result = eagle3("completion", shell)
    assert result.code == 0
    assert all(name in result.out for name in COMMANDS)
    assert shell == "tcsh" or "--watch" in result.out  # shtab's tcsh knows no options of subcommands


def test_bash_accepts_its_completion(eagle3: Eagle3, tmp_path: Path) -> None:
    script = tmp_path / "eagle3.bash"
    script.write_text(eagle3("completion", "bash").out)
    subprocess.run(["bash", "-n", script], check=True)


def test_embedded_hands_everything_on_to_the_server(monkeypatch: pytest.MonkeyPatch) -> None:
    became: list[list[str]] = []

    class Became(Exception):
        pass

    def execve(_path: str, command: list[str], _environment: dict[str, str]) -> None:
        became.append(command)
        raise Became

    monkeypatch.setattr("eagle3_tui.commands.embedded.os.execve", execve)
    from eagle3_tui.__main__ import main

    with pytest.raises(Became):
        main(["embedded", "--port", "0", "--help"])
    assert became == [[sys.executable, "-P", "-m", "daemon.embedded", "--port", "0", "--help"]]


# 50: an environment with nothing but the C locale.

LOCALES = {
    "utf-8": {"LC_ALL": "C.UTF-8"},
    "c": {"LC_ALL": "C"},
    "c without utf-8 mode": {"LC_ALL": "C", "PYTHONUTF8": "0"},
    "nothing": {},
}


@pytest.mark.parametrize("locale", LOCALES)
def test_case_50_any_locale_reads_and_writes_utf_8(tmp_path: Path, locale: str) -> None:
    environment = {"PATH": os.environ["PATH"], **LOCALES[locale]}

    def call(*arguments: str) -> subprocess.CompletedProcess[bytes]:
        return subprocess.run([*PROGRAM, *arguments], cwd=tmp_path, env=environment, capture_output=True, check=False)

    (tmp_path / "é漢.jsonl").write_text('{"prompt":"é漢 and more"}\n', encoding="utf-8")
    made = call("init", "lauf é漢", "--from", "é漢.jsonl")
    assert (made.returncode, made.stderr) == (0, b"")
    config = (tmp_path / "lauf é漢" / "run.toml").read_text(encoding="utf-8")
    assert 'prompts = "../é漢.jsonl"' in config
    folder = tmp_path / "lauf é漢" / "prepared" / "dataset"
    (folder / "raw_responses.jsonl").write_text(response("é漢"), encoding="utf-8")
    shown = call("status", "lauf é漢")
    assert (shown.returncode, shown.stderr) == (3, b"")
    text = shown.stdout.decode("utf-8")
    assert "lauf é漢" in text
    # With no locale at all Python itself sets C.UTF-8, and says so in the environment.
    assert ("■" in text) == (locale in ("utf-8", "nothing"))
    assert '"path":"lauf é漢"' in call("status", "lauf é漢", "--json").stdout.decode("utf-8")
    (tmp_path / "lauf é漢" / "run.toml").write_text(config.replace("FOLDER-OF-THE-MODELS-TOKENIZER", "bytes"))
    checked = call("check", "lauf é漢")
    assert (checked.returncode, checked.stderr) == (1, b"")  # there is no server; the prompts are imported all the same
    imported = (folder / "prompts.jsonl").read_bytes()
    assert bytes(json.loads(imported)["input_ids"]).decode("utf-8") == "user: é漢 and more\nassistant:"
    refused = call("init", "lauf é漢")
    assert refused.returncode == 1
    assert "lauf é漢/run.toml: is there already" in refused.stderr.decode("utf-8")
