"""Layout ``specforge``: ``rows_<g>-<g+2000>/data_<row>.ckpt``, torch.save of a dict.

``aux_hidden_state`` [1, L, K*H], ``hidden_state`` [1, L, H] after the final norm, ``input_ids`` and ``loss_mask`` int64
[L]. Its reader walks the whole folder and takes every ``*.ckpt`` and ``*.ckpt.gz`` for a sample.
"""

from __future__ import annotations

from pathlib import Path
from typing import Final

from daemon.store.sample import Sample
from daemon.store.torch_samples import TorchLayout

_GROUP: Final = 2000
"""Files of one folder."""


class SpecForgeLayout(TorchLayout):
    """See the module."""

    name = "specforge"
    aux_key = "aux_hidden_state"
    last_key = "hidden_state"
    batched = True

    def file_for(self, sample: Sample, row: int) -> str:
        """Return the file of a row."""
        group = row // _GROUP * _GROUP
        return f"rows_{group}-{group + _GROUP}/data_{row}.ckpt"

    def is_sample(self, path: Path) -> bool:
        """Whether SpecForge takes a file for a sample."""
        return path.name.endswith((".ckpt", ".ckpt.gz"))
