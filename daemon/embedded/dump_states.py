"""The hidden states of one pass, as the model or a table has them, to rows as a dump has them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final, Protocol

import torch  # noqa: TID251
from torch import Tensor  # noqa: TID251

from daemon.sglang_plugin.eagle3_sglang.dump_format import OVER_WEIGHT
from daemon.sglang_plugin.eagle3_sglang.final_norm import FinalNorm
from daemon.store.sample import RowForm

_STRIDE: Final = 31
"""By how many ids' rows a token's row moves with its position, without a model."""


class States(Protocol):
    """The hidden states of one pass of T tokens."""

    @property
    def ids(self) -> Tensor:
        """That were fed: [T]."""

    @property
    def positions(self) -> Tensor:
        """Of each: [T]."""

    def rows(self, form: RowForm, places: list[int] | None) -> Tensor:
        """Rows in a form, of the tokens at these places or of all: [T, (K+1)*H], memory of their own."""


@dataclass(frozen=True, slots=True)
class ModelStates:
    """What a model was fed and computed: `aux` by layer and `last` after the final norm, [T, H] each.

    The model's tensors need no gradient. A call of torch costs as much as copying hundreds of rows of this model: so
    none is made that changes nothing.
    """

    ids: Tensor
    positions: Tensor
    aux: dict[int, Tensor]
    last: Tensor
    norm: FinalNorm

    def rows(self, form: RowForm, places: list[int] | None) -> Tensor:
        """As `States.rows`."""
        last = self.norm.over_weight(self.last) if form.norm == OVER_WEIGHT else self.last
        slots = [*[self.aux[layer] for layer in form.layers], last]
        if form.hidden_size != last.shape[1]:
            slots = [slot[:, : form.hidden_size] for slot in slots]
        if places is not None:
            slots = [slot[places] for slot in slots]
        rows, dtype = torch.cat(slots, dim=1), getattr(torch, form.dtype)
        return rows if rows.dtype == dtype else rows.to(dtype)


@dataclass(frozen=True, slots=True)
class TableStates:
    """Rows of a table, by id and position."""

    table: Callable[[RowForm], Tensor]
    ids: Tensor
    positions: Tensor

    def rows(self, form: RowForm, places: list[int] | None) -> Tensor:
        """As `States.rows`."""
        table = self.table(form)
        taken = (self.ids + _STRIDE * self.positions) % table.shape[0]
        return table[taken if places is None else taken[places]]
