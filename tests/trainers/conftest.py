"""Fixtures of the trainers' tier: one process for each trainer, for the whole session.

They skip, and say why, where the environment was not built.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.trainers import environment
from tests.trainers.trainer_process import Trainer

# Importing a trainer takes up to half a minute the first time, and counts as part of the test that asks first.
_TIMEOUT = 300


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark every test of this folder, and give it the time that an import takes."""
    here = Path(__file__).parent
    for item in items:
        if here not in item.path.parents:
            continue
        item.add_marker("trainers")
        if item.get_closest_marker("timeout") is None:
            item.add_marker(pytest.mark.timeout(_TIMEOUT))


@pytest.fixture(scope="session")
def trainers_environment() -> None:
    """The environment is there."""
    reason = environment.VENV.missing()
    if reason is not None:
        pytest.skip(f"no trainers here: {reason}; `make test-trainers` builds them")


@pytest.fixture(scope="session")
def specforge(trainers_environment: None, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Trainer]:
    """SpecForge's offline reader, store and data loader."""
    yield from _started(tmp_path_factory, "specforge_store", "spoil")


@pytest.fixture(scope="session")
def speculators(trainers_environment: None, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Trainer]:
    """speculators' data set and collator, and its draft model on the CPU."""
    yield from _started(tmp_path_factory, "speculators_store", "speculators_model", "spoil")


@pytest.fixture(scope="session")
def modelopt(trainers_environment: None, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Trainer]:
    """ModelOpt's data set and collator."""
    yield from _started(tmp_path_factory, "modelopt_store", "spoil")


def _started(folders: pytest.TempPathFactory, *modules: str) -> Iterator[Trainer]:
    trainer = Trainer(modules, folders.mktemp("trainers") / f"{modules[0]}.log")
    yield trainer
    trainer.close()
