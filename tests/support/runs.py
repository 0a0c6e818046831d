"""Making run directories, running a daemon's session on one in-process, and reading what it wrote."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Callable, Iterable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from contracts.fold.run import RunFold
from contracts.run_config import load_run_config
from contracts.run_dir import RunDir
from contracts.status import DatasetStatus
from daemon.control.handlers import Handlers
from daemon.fingerprint import check_fingerprint
from daemon.session import Session


def prompt_lines(number: int, first: int = 0, ids: Callable[[int], list[int]] | None = None) -> list[dict[str, Any]]:
    """Prompts p0, p1, ... each with token ids of its own: [1, n]."""
    made = ids or (lambda index: [1, index])
    return [{"sample_id": f"p{index}", "input_ids": made(index)} for index in range(first, first + number)]


def write_prompts(path: Path, lines: Iterable[dict[str, Any]]) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("".join(json.dumps(line) + "\n" for line in lines), encoding="utf-8")


def make_run(
    path: Path,
    urls: list[str],
    datasets: dict[str, list[dict[str, Any]]],
    *,
    concurrency: int = 4,
    generate: dict[str, Any] | None = None,
    sampling: dict[str, Any] | None = None,
    alerts: dict[str, Any] | None = None,
    targets: dict[str, int] | None = None,
    prompts: dict[str, str] | None = None,
    tokenizer: str | None = None,
    extract: dict[str, Any] | None = None,
    stages: list[str] | None = None,
) -> Path:
    """Write run.toml and the prompts of each data set; pauses are short. `extract`: the run has both stages, unless
    `stages` names others."""
    if extract is not None and stages is None:
        stages = ["generate", "extract"]
    # An answer of one token has nothing to learn from: a run that extracts would refuse it.
    least = {} if extract is None else {"min_new_tokens": 2}
    tables: dict[str, dict[str, Any]] = {
        "run": {"name": "tested", **({} if stages is None else {"stages": stages})},
        "sampling": {"max_new_tokens": 64, **least, **(sampling or {})},
        "generate": {
            "concurrency": concurrency,
            "vocab_size": 1_000_000,
            "retry_base_s": 0.01,
            "retry_max_s": 0.05,
            **(generate or {}),
        },
        "telemetry": {"interval_s": 0.05, "gpus": False},
        "alerts": {"disk_free_min_gb": 0, **(alerts or {})},
    }
    if tokenizer is not None:
        tables["tokenizer"] = {"path": tokenizer}
    if extract is not None:
        tables["extract"] = extract
    text = "".join(f"[{name}]\n{_pairs(values)}" for name, values in tables.items())
    text += "".join(f"[[servers]]\n{_pairs({'url': url})}" for url in urls)
    for name, lines in datasets.items():
        keys: dict[str, Any] = {"name": name}
        if name in (targets or {}):
            keys["target_tokens"] = (targets or {})[name]
        if name in (prompts or {}):
            keys["prompts"] = (prompts or {})[name]
        text += f"[[datasets]]\n{_pairs(keys)}"
        if lines:
            write_prompts(path / "prepared" / name / "prompts.jsonl", lines)
    path.mkdir(parents=True, exist_ok=True)
    (path / "run.toml").write_text(text, encoding="utf-8")
    return path


def _pairs(values: dict[str, Any]) -> str:
    return "".join(f"{key} = {json.dumps(value)}\n" for key, value in values.items())


@dataclass
class Running:
    """A session at work."""

    session: Session
    task: asyncio.Task[bool]

    @property
    def handlers(self) -> Handlers:
        return Handlers(self.session)

    def dataset(self, name: str = "B1") -> DatasetStatus:
        return next(dataset for dataset in self.session.status().datasets if dataset.name == name)

    async def end(self, seconds: float = 20.0) -> bool:
        """Wait for the session's own end; return whether work is left."""
        return await asyncio.wait_for(asyncio.shield(self.task), seconds)


@asynccontextmanager
async def running(path: Path) -> AsyncIterator[Running]:
    """Run a session, as the lifecycle does; stopped at the end of the block if it has not ended by itself."""
    run, config, fold = RunDir(path), load_run_config(path / "run.toml"), RunFold(path)
    fold.poll()
    has_responses = any(dataset.responses.done for dataset in fold.datasets.values())
    fingerprint, note = check_fingerprint(run.fingerprint, config, has_responses)
    session = Session(run, config, fold, fingerprint, [note] if note else [])
    work = Running(session, asyncio.create_task(session.run()))
    try:
        yield work
    finally:
        session.stop()
        await asyncio.wait({work.task}, timeout=20.0)
        assert work.task.done(), "the session does not end"
        work.task.exception()


async def run_to_end(path: Path, seconds: float = 20.0) -> bool:
    """Run a session until it ends by itself; return whether work is left."""
    async with running(path) as work:
        return await work.end(seconds)


async def until(condition: Callable[[], Any], seconds: float = 10.0) -> None:
    """Let the loop run until the condition holds."""
    try:
        async with asyncio.timeout(seconds):
            while not condition():  # noqa: ASYNC110 - there is no event to wait for
                await asyncio.sleep(0.003)
    except TimeoutError:
        raise AssertionError(f"did not happen within {seconds:g} s") from None


def records(path: Path) -> list[dict[str, Any]]:
    """Every line of a journal; each must be whole JSON."""
    if not path.exists():
        return []
    return [json.loads(line) for line in path.read_bytes().splitlines()]


def responses(path: Path, dataset: str = "B1") -> list[dict[str, Any]]:
    return records(path / "prepared" / dataset / "raw_responses.jsonl")


def failures(path: Path, dataset: str = "B1") -> list[dict[str, Any]]:
    return records(path / "prepared" / dataset / "failures.jsonl")


def events(path: Path, kind: str | None = None) -> list[dict[str, Any]]:
    return [event for event in records(path / "events.jsonl") if kind in (None, event["kind"])]


def answered(path: Path, dataset: str = "B1") -> list[Any]:
    """Sample ids of the responses, in the order of the file."""
    return [record["sample_id"] for record in responses(path, dataset)]
