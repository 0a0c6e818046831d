"""Fixtures of the real-SGLang tests.

`sglang_server` is one server for the whole session. `start_sglang` makes others, with other arguments. Both skip,
and say why, where the environment was not built.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any, Protocol

import pytest

from tests.sglang import environment
from tests.sglang.server import SglangServer

# A start takes half a minute, more on a busy machine, and counts as part of the test that asks for it first.
_TIMEOUT = 300


class StartSglang(Protocol):
    """Starts a server that is stopped after the test (or the module, see `start_sglang_for_module`)."""

    def __call__(self, **options: Any) -> SglangServer:
        """The options are those of SglangServer."""


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark every test of this folder, and give it the time that a start takes."""
    here = Path(__file__).parent
    for item in items:
        if here not in item.path.parents:
            continue
        item.add_marker("sglang")
        if item.get_closest_marker("timeout") is None:
            item.add_marker(pytest.mark.timeout(_TIMEOUT))


@pytest.fixture(scope="session")
def sglang_environment() -> Path:
    """Folder of the environment."""
    reason = environment.missing()
    if reason is not None:
        pytest.skip(f"no real SGLang here: {reason}; `make test-sglang` builds it")
    return environment.FOLDER


@pytest.fixture(scope="session")
def tiny_llama(sglang_environment: Path) -> Path:
    """Model folder: Llama, 8 layers, hidden 64, vocab 1024, context 2048; EOS is 1022."""
    return environment.model_path("llama")


@pytest.fixture(scope="session")
def tiny_qwen3(sglang_environment: Path) -> Path:
    """Model folder: the same measures as a Qwen3."""
    return environment.model_path("qwen3")


@pytest.fixture(scope="session")
def sglang_server(tiny_llama: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[SglangServer]:
    """A server that all tests share: the tiny Llama, with --enable-metrics. Do not stop or crash it."""
    log = tmp_path_factory.mktemp("sglang") / "shared.log"
    with SglangServer(tiny_llama, metrics=True, log_path=log) as server:
        yield server


@pytest.fixture
def start_sglang(sglang_environment: Path, tmp_path: Path) -> Iterator[StartSglang]:
    """Starts servers of the test's own; they are stopped after it, however it ends."""
    with ExitStack() as stack:
        yield _starter(stack, tmp_path)


@pytest.fixture(scope="module")
def start_sglang_for_module(
    sglang_environment: Path, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[StartSglang]:
    """The same for fixtures that share a server within a module."""
    with ExitStack() as stack:
        yield _starter(stack, tmp_path_factory.mktemp("sglang"))


def _starter(stack: ExitStack, logs: Path) -> StartSglang:
    count = 0

    def start(**options: Any) -> SglangServer:
        nonlocal count
        count += 1
        options.setdefault("log_path", logs / f"sglang-{count}.log")
        return stack.enter_context(SglangServer(**options))

    return start
