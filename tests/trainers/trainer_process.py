"""A trainer in a process of its own, with the packages of `.venv-trainers`; answers questions about stores."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path
from typing import Any

from tests.trainers import environment


class LoaderRefused(Exception):
    """The trainer's own code raised; the message is its."""


class Trainer:
    """One trainer's loaders.

    Args:
        modules: Files of tests/trainers/loaders, without their suffixes.
        log: Where its messages go.
    """

    def __init__(self, modules: tuple[str, ...], log: Path) -> None:
        self.warnings: list[str] = []
        """What was warned of during the last request."""
        self._modules = modules
        self._log_path = log
        self._log = log.open("wb")
        self._process = subprocess.Popen(
            [str(environment.VENV.python), "worker.py", *modules],
            cwd=environment.LOADERS,
            env=environment.process_env(),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._log,
        )

    def ask(self, do: str, **arguments: Any) -> Any:
        """Have it do something and return what it saw.

        Raises:
            LoaderRefused: The trainer's code raised.
        """
        assert self._process.stdin is not None and self._process.stdout is not None
        self._process.stdin.write(json.dumps({"do": do, **arguments}).encode() + b"\n")
        self._process.stdin.flush()
        line = self._process.stdout.readline()
        if not line:
            raise AssertionError(f"{self._modules} ended:\n{self._log_path.read_text()[-3000:]}")
        answer = json.loads(line)
        self.warnings = answer["warnings"]
        if "error" in answer:
            raise LoaderRefused(answer["error"])
        return answer["ok"]

    def load(self, folder: Path, **arguments: Any) -> list[dict[str, Any]]:
        """Return every sample of a store, as its loader hands them out."""
        found: list[dict[str, Any]] = self.ask("load", folder=str(folder), **arguments)
        return found

    def close(self) -> None:
        """End it."""
        self._process.communicate()
        self._log.close()
