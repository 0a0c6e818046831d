"""What a server dumps against what a run asks for."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

from contracts.records import CaptureCheck
from daemon.sglang_plugin.eagle3_sglang.dump_format import About, DumpHeader
from daemon.store.sample import RowForm


class AskedForm(Protocol):
    """A `RowForm`, or an `Asked` of which the first server decides what is None."""

    @property
    def layers(self) -> tuple[int, ...]:
        """0-based output ids, ascending."""

    @property
    def norm(self) -> str:
        """Of the last slot."""

    @property
    def hidden_size(self) -> int | None:
        """None: whatever the servers have, if they all agree."""

    @property
    def dtype(self) -> str | None:
        """None: whatever the servers have, if they all agree."""


@dataclass(frozen=True)
class Asked:
    """What run.toml fixes (layers, and the norm by its layout), and what servers or the store have added to it."""

    layers: tuple[int, ...]
    norm: str
    hidden_size: int | None = None
    dtype: str | None = None


def form_of(described: About | DumpHeader) -> RowForm:
    """Return the form of the rows that a server describes."""
    return RowForm(described.layers, described.hidden_size, described.dtype, described.norm)


def difference(described: About | DumpHeader, asked: AskedForm, model: str | None) -> tuple[CaptureCheck, str] | None:
    """Return in what a server's rows are not those asked for, or None.

    Args:
        described: What the server says of itself, or of one dump.
        asked: Form of the store, or of the run.
        model: Of the run, as the servers name it; None: any.
    """
    if asked.hidden_size is not None and described.hidden_size != asked.hidden_size:
        return (
            CaptureCheck.HIDDEN_SIZE,
            f"{_width(described, asked)}hidden size {described.hidden_size} instead of {asked.hidden_size}",
        )
    if described.layers != asked.layers:
        return CaptureCheck.LAYERS, (
            f"{_width(described, asked)}outputs of layers {_listed(described.layers)} (the server was given "
            f"--return-aux-hidden-state-layer-ids {_listed(described.server_layers, ' ')}) instead of "
            f"{_listed(asked.layers)}: start it as `eagle3 server-args RUN` says"
        )
    if model is not None and described.model != model:
        return CaptureCheck.LAYERS, f"layers of the model {described.model!r}, the run's is {model!r}"
    if described.norm != asked.norm:
        return CaptureCheck.NORM, (
            f"the last hidden state is {described.norm!r}, the store takes {asked.norm!r}: start the server as "
            f"`eagle3 server-args RUN` says"
        )
    if asked.dtype is not None and described.dtype != asked.dtype:
        return CaptureCheck.DTYPE, f"rows of {described.dtype}, the store holds {asked.dtype}"
    return None


def _width(described: About | DumpHeader, asked: AskedForm) -> str:
    """Return the widths of a row, where they differ and both are known."""
    got = (len(described.layers) + 1) * described.hidden_size
    expected = None if asked.hidden_size is None else (len(asked.layers) + 1) * asked.hidden_size
    return "" if expected is None or expected == got else f"expected {expected} values a row, got {got}: "


def _listed(layers: tuple[int, ...], between: str = ", ") -> str:
    return between.join(map(str, layers))
