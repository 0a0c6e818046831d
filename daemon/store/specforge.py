"""Layout ``specforge``: ``rows_<g>-<g+2000>/data_<row>.ckpt``, torch.save of a dict.

``aux_hidden_state`` [1, L, K*H], ``hidden_state`` [1, L, H] after the final norm, ``input_ids`` and ``loss_mask`` int64
[L]. Its reader walks the whole folder and takes every ``*.ckpt`` and ``*.ckpt.gz`` for a sample.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Final

from daemon.store.layout import Identity, StoreError
from daemon.store.sample import Sample
from daemon.store.torch_samples import TorchLayout

_GROUP: Final = 2000
"""Files of one folder."""
_ROW: Final = re.compile(r"rows_[0-9]+-[0-9]+/data_(0|[1-9][0-9]{0,15})\.ckpt")


class SpecForgeLayout(TorchLayout):
    """See the module."""

    name = "specforge"
    aux_key = "aux_hidden_state"
    last_key = "hidden_state"
    batched = True

    def file_for(self, sample: Sample, row: int) -> str:
        """Return the file of a row."""
        return self._file(row)

    @staticmethod
    def _file(row: int) -> str:
        group = row // _GROUP * _GROUP
        return f"rows_{group}-{group + _GROUP}/data_{row}.ckpt"

    def identify(self, file: str, offset: int, length: int) -> Identity:
        """See `Layout.identify`: a name without its number is no sample's."""
        if self.row_of(file) is None:
            raise StoreError(f"{file} is no name of a sample in this layout")
        return super().identify(file, offset, length)

    def row_of(self, file: str) -> int | None:
        """See `Layout.row_of`."""
        found = _ROW.fullmatch(file)
        if found is None:
            return None
        row = int(found[1])
        return row if file == self._file(row) else None

    def is_sample(self, path: Path) -> bool:
        """Whether SpecForge takes a file for a sample."""
        return path.name.endswith((".ckpt", ".ckpt.gz"))
