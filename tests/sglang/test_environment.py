"""What is said when a server cannot be made, or the models of the environment are not there."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.sglang import environment
from tests.sglang.server import ServerError, SglangServer


def test_models_from_another_script_are_not_used(
    sglang_environment: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(environment, "_MODELS_STAMP", tmp_path / "built")
    assert environment.missing() == "the models in .venv-sglang are missing, or from another tiny_model.py"


def test_server_that_does_not_start_shows_its_log(sglang_environment: Path, tmp_path: Path) -> None:
    server = SglangServer(extra_args=["--no-such-option"], log_path=tmp_path / "server.log")
    with pytest.raises(ServerError, match="ended with status 2 before it was ready") as raised:
        server.start()
    assert "unrecognized arguments: --no-such-option" in str(raised.value)
    assert not server.running()
