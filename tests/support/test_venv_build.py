"""What is said when an environment of a test tier is missing or cannot be made."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest

from tests.support.venv_build import BuildError, Venv


@pytest.fixture
def venv(tmp_path: Path) -> Venv:
    (tmp_path / "requirements.txt").write_text("torch==2.13.0\nnumpy==2.4.6\n")
    return Venv(tmp_path / ".venv-some", tmp_path / "requirements.txt", "a minute")


def made(venv: Venv) -> None:
    """As after a build."""
    venv.python.parent.mkdir(parents=True)
    venv.python.touch()
    (venv.folder / "built").write_text(venv.key)


def test_missing_environment_is_named(venv: Venv) -> None:
    assert venv.missing() == ".venv-some does not exist"


def test_environment_from_other_requirements_is_not_used(venv: Venv) -> None:
    made(venv)
    assert venv.missing() is None
    venv.requirements.write_text("torch==2.14.0\n")
    assert venv.missing() == ".venv-some is unfinished, or from other requirements"
    (venv.folder / "built").unlink()
    assert venv.missing() == ".venv-some is unfinished, or from other requirements"


def test_what_is_built_is_left_as_it_is(venv: Venv, capsys: pytest.CaptureFixture[str]) -> None:
    made(venv)
    venv.install(os.environ)  # any step would fail: there is no interpreter
    assert capsys.readouterr().out == ".venv-some: already built from these requirements\n"


def test_failed_step_says_what_failed_and_what_to_do(venv: Venv) -> None:
    command = [sys.executable, "-c", "print('no such package'); raise SystemExit(3)"]
    with pytest.raises(BuildError) as raised:
        venv.step("installing things", command, os.environ)
    message = str(raised.value)
    assert message.startswith("installing things: exit status 3\n    no such package\n")
    assert ".venv-some/install.log" in message
    assert "Run the same command again" in message
