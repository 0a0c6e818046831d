"""The layouts of a store, by the names that run.toml uses."""

from __future__ import annotations

from pathlib import Path
from typing import Final, Protocol, runtime_checkable

from contracts.records import StoredSample
from daemon.store.layout import Layout, Placed
from daemon.store.modelopt import ModelOptLayout
from daemon.store.safetensors_ import SafetensorsLayout
from daemon.store.specforge import SpecForgeLayout
from daemon.store.speculators_ import SpeculatorsLayout

LAYOUTS: Final[dict[str, type[Layout]]] = {
    "safetensors": SafetensorsLayout,
    "specforge": SpecForgeLayout,
    "speculators": SpeculatorsLayout,
    "modelopt": ModelOptLayout,
}


@runtime_checkable
class Renumbering(Protocol):
    """What a layout can do besides whose trainer knows samples by their row."""

    def renumber(self, record: StoredSample, row: int) -> Placed:
        """See `daemon.store.speculators_.SpeculatorsLayout.renumber`."""


def norm_of(name: str) -> str:
    """Return what a layout wants in the last slot.

    Raises:
        ValueError: There is no layout of that name.
    """
    return _kind(name).norm


def make_layout(name: str, folder: Path) -> Layout:
    """Return a layout for one data set's store; nothing is touched yet.

    Raises:
        ValueError: There is no layout of that name.
    """
    return _kind(name)(folder)


def _kind(name: str) -> type[Layout]:
    try:
        return LAYOUTS[name]
    except KeyError:
        raise ValueError(f"layout {name!r} is not known; known: {', '.join(LAYOUTS)}") from None
