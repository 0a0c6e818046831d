"""What every test may leave as it found it, and what the workers of a whole run need not all do."""

from __future__ import annotations

import contextlib
import gc
import importlib
from collections.abc import Generator, Iterator
from pathlib import Path

import pytest


@pytest.fixture(autouse=True)
def collector(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """A session in the test's own process takes what it holds from the collector, for good: here it may not.

    What a test leaves would stay to the end otherwise, its server's model too: gigabytes in the course of a run.
    """
    threshold = gc.get_threshold()
    monkeypatch.setattr("gc.freeze", lambda: None)
    yield
    gc.set_threshold(*threshold)


@pytest.hookimpl(wrapper=True)
def pytest_collection(session: pytest.Session) -> Generator[None, object, object]:
    """Collect thousands of tests that live to the end: the collector need not look at them again and again."""
    gc.disable()
    try:
        if (worker := getattr(session.config, "workerinput", None)) is not None:
            _import_from(session.config, int(worker["workerid"].removeprefix("gw")), worker["workercount"])
        return (yield)
    finally:
        gc.enable()
        gc.collect()
        gc.freeze()


def _import_from(config: pytest.Config, worker: int, workers: int) -> None:
    """Import the test files, each worker beginning at another one.

    In a fresh checkout every file's assertions are rewritten first, which takes longer than all the rest of
    collecting. Each worker collects all files in the same order: without this each would rewrite all of them, at the
    same time as the others; so each does its share and finds what the others have done.
    """
    files: list[Path] = []
    for argument in config.args:
        path = config.invocation_params.dir / argument.partition("::")[0]
        files += sorted(path.rglob("test_*.py")) if path.is_dir() else [path]
    first = len(files) * worker // workers
    for path in files[first:] + files[:first]:
        # What cannot be imported is told when it is collected.
        with contextlib.suppress(Exception, pytest.skip.Exception):
            importlib.import_module(".".join(path.relative_to(config.rootpath).with_suffix("").parts))
