"""A run without a daemon, and a stand-in for its daemon: a lock, a socket and prepared answers."""

from __future__ import annotations

import fcntl
import json
import os
import socket
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from contracts.run_dir import RunDir
from eagle3_tui.__main__ import main

RUN_TOML = """\
[run]
name = "small"
[[servers]]
url = "http://127.0.0.1:9"
[[datasets]]
name = "B1"
"""

Answer = Callable[[dict[str, Any]], list[dict[str, Any]]]


def response(sample_id: str, tokens: int = 2) -> str:
    record = {
        "sample_id": sample_id,
        "prompt_tokens": 3,
        "completion_tokens": tokens,
        "finish_reason": "stop",
        "output_ids": [1] * tokens,
    }
    return json.dumps(record) + "\n"


@pytest.fixture
def run_path(tmp_path: Path) -> Path:
    """A stopped run: three prompts, one of them answered, two events."""
    path = tmp_path / "my_run"
    folder = RunDir(path).dataset("B1")
    folder.path.mkdir(parents=True)
    (path / "run.toml").write_text(RUN_TOML)
    folder.prompts.write_text("".join(f'{{"sample_id":"{one}","input_ids":[1,2,3]}}\n' for one in "abc"))
    folder.responses.write_text(response("a"))
    event = '{"at":1.0,"severity":"%s","kind":"test","message":"%s","schema":1}\n'
    (path / "events.jsonl").write_text(event % ("info", "first") + event % ("warning", "second \\u001b[2J"))
    return path


class FakeDaemon:
    """Holds the run's lock and answers each connection's commands with ``answer``."""

    def __init__(self, run: RunDir, answer: Answer) -> None:
        self.run = run
        self.answer = answer
        self.got: list[dict[str, Any]] = []
        self._lock = os.open(run.lock, os.O_RDWR | os.O_CREAT)
        fcntl.flock(self._lock, fcntl.LOCK_EX)
        self._listener = socket.socket(socket.AF_UNIX)
        self._listener.bind(str(run.socket))
        self._listener.listen()
        self._thread = threading.Thread(target=self._serve)
        self._thread.start()

    def _serve(self) -> None:
        while True:
            connection, _ = self._listener.accept()
            with connection, connection.makefile("rb") as lines:
                line = lines.readline()
                if not line:
                    return
                self.got.append(json.loads(line))
                for reply in self.answer(self.got[-1]):
                    connection.sendall(json.dumps(reply).encode() + b"\n")

    def release_lock(self) -> None:
        """As a daemon that ends."""
        fcntl.flock(self._lock, fcntl.LOCK_UN)

    def close(self) -> None:
        """End the thread with an empty connection."""
        with socket.socket(socket.AF_UNIX) as last:
            last.connect(str(self.run.socket))
            last.shutdown(socket.SHUT_WR)
            self._thread.join()
        self._listener.close()
        os.close(self._lock)


@pytest.fixture
def daemon(run_path: Path) -> Iterator[FakeDaemon]:
    """A daemon that says yes to everything."""
    fake = FakeDaemon(RunDir(run_path), lambda command: [{"ok": True, "message": f"{command['command']}: done"}])
    yield fake
    fake.close()


class Result:
    """What a command did."""

    def __init__(self, code: int, out: str, err: str) -> None:
        self.code = code
        self.out = out
        self.err = err

    @property
    def json(self) -> Any:
        return json.loads(self.out)


@pytest.fixture
def eagle3(capsys: pytest.CaptureFixture[str]) -> Callable[..., Result]:
    """Run a command in this process."""

    def call(*arguments: str | Path) -> Result:
        code = main([str(one) for one in arguments])
        captured = capsys.readouterr()
        return Result(code, captured.out, captured.err)

    return call
