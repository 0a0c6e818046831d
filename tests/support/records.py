"""Lines and whole run directories for tests of the journals, the fold and what is built on them."""

from __future__ import annotations

import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import msgspec

from contracts.clock import boot_id
from contracts.fold.run import RunFold
from contracts.records import Event, Failure, FailureClass, Heartbeat, NextStep, Response, Severity, encode_line
from contracts.run_dir import RunDir

NOW = 1_800_000_000.0
"""A present for tests that pass the clock in; whole minutes and seconds."""

PID = 4242


def response(sample_id: str | int = "s1", tokens: int = 3, **over: Any) -> Response:
    """A response as the daemon writes it, with as many ids as it states."""
    values: dict[str, Any] = {
        "sample_id": sample_id,
        "prompt_tokens": 5,
        "completion_tokens": tokens,
        "finish_reason": "stop",
        "output_ids": msgspec.Raw(json.dumps(list(range(tokens)), separators=(",", ":")).encode()),
        "finished_at": NOW - 5,
        "started_at": NOW - 10,
        "rid": "e3-1",
        "server": "http://127.0.0.1:30000",
        "attempt": 1,
    }
    return Response(**(values | over))


def failure(sample_id: str | int | None = "s1", **over: Any) -> Failure:
    """A failed attempt that will be tried again."""
    values: dict[str, Any] = {
        "sample_id": sample_id,
        "error": FailureClass.TRANSIENT,
        "message": "HTTP 503",
        "next": NextStep.RETRY,
        "at": NOW - 5,
        "attempt": 1,
    }
    return Failure(**(values | over))


def event(kind: str, at: float = NOW, **over: Any) -> Event:
    """An event."""
    values: dict[str, Any] = {"at": at, "severity": Severity.INFO, "kind": kind, "message": kind}
    return Event(**(values | over))


def heartbeat(at: float = NOW, **over: Any) -> Heartbeat:
    """A heartbeat of this boot, the monotonic clock of which reads the same as ``at``."""
    values: dict[str, Any] = {
        "at": at,
        "mono": at,
        "boot_id": boot_id(),
        "pid": PID,
        "state": "running",
        "reason": None,
        "concurrency": 8,
        "in_flight": {},
        "waiting_retry": {},
    }
    return Heartbeat(**(values | over))


def prompt_line(sample_id: str | int, *, masked: bool = False) -> bytes:
    """A line of prompts.jsonl."""
    mask = b',"loss_mask":[0,1,1]' if masked else b""
    return b'{"sample_id":%s,"input_ids":[1,2,3]%s}\n' % (json.dumps(sample_id).encode(), mask)


def write(path: Path, records: Iterable[msgspec.Struct | bytes]) -> None:
    """Append records, or lines as they are, to a file."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("ab") as file:
        for record in records:
            file.write(record if isinstance(record, bytes) else encode_line(record))


def bare_run(folder: Path) -> Path:
    """Make a folder that is a run by its run.toml, and holds nothing."""
    folder.mkdir()
    RunDir(folder).config.touch()
    return folder


def make_run(folder: Path, *, datasets: Iterable[str] = ("d",), extra: str = "", prompts: int = 10) -> RunDir:
    """Make a run directory with prompts ``<dataset>-0`` and so on.

    Args:
        folder: Where.
        datasets: Their names.
        extra: Tables to add to run.toml; ``[generate]`` is yours.
        prompts: Of each data set.
    """
    folder.mkdir(parents=True, exist_ok=True)
    named = "".join(f'[[datasets]]\nname = "{name}"\n' for name in datasets)
    text = f'[run]\nname = "test"\n{extra}\n[[servers]]\nurl = "http://127.0.0.1:30000"\n{named}'
    (folder / "run.toml").write_text(text, encoding="utf-8")
    run = RunDir(folder)
    for name in datasets:
        write(run.dataset(name).prompts, [prompt_line(f"{name}-{number}") for number in range(prompts)])
    return run


def folded(run: RunDir) -> RunFold:
    """The fold over a run directory, brought up to date."""
    fold = RunFold(run.path)
    fold.poll()
    return fold
