"""What is said when the environment or a server cannot be made."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from tests.sglang import environment
from tests.sglang.server import ServerError, SglangServer


def test_missing_environment_is_named(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(environment, "PYTHON", tmp_path / "python")
    assert environment.missing() == ".venv-sglang does not exist"


def test_environment_from_other_requirements_is_not_used(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    stamp = tmp_path / "built"
    monkeypatch.setattr(environment, "PYTHON", Path(sys.executable))
    monkeypatch.setattr(environment, "_STAMP", stamp)
    assert environment.missing() == ".venv-sglang is unfinished, or from other requirements"
    stamp.write_text("python 3.11, requirements 0123\n")
    assert environment.missing() == ".venv-sglang is unfinished, or from other requirements"


def test_failed_step_says_what_failed_and_what_to_do(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(environment, "FOLDER", tmp_path)
    monkeypatch.setattr(environment, "_LOG", tmp_path / "install.log")
    monkeypatch.setattr(environment, "ROOT", tmp_path)
    with pytest.raises(environment.BuildError) as raised:
        environment._run("installing things", [sys.executable, "-c", "print('no such package'); raise SystemExit(3)"])
    message = str(raised.value)
    assert message.startswith("installing things: exit status 3\n    no such package\n")
    assert "install.log" in message
    assert "Run the same command again" in message


def test_server_that_does_not_start_shows_its_log(sglang_environment: Path, tmp_path: Path) -> None:
    server = SglangServer(extra_args=["--no-such-option"], log_path=tmp_path / "server.log")
    with pytest.raises(ServerError, match="ended with status 2 before it was ready") as raised:
        server.start()
    assert "unrecognized arguments: --no-such-option" in str(raised.value)
    assert not server.running()
