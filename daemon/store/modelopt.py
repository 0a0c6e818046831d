"""Layout ``modelopt``: ``<conversation id>.pt``, torch.save of a dict.

``aux_hidden_states`` [L, K*H], ``hidden_states`` [L, H] after the final norm, ``input_ids`` and ``loss_mask`` int64
[L], ``conversation_id``. Every ``*.pt`` below the folder is a sample to it.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from contracts.sample_id import SampleId
from daemon.store.naming import file_stem
from daemon.store.sample import Sample
from daemon.store.torch_pickle import Value
from daemon.store.torch_samples import TorchLayout


class ModelOptLayout(TorchLayout):
    """See the module."""

    name = "modelopt"
    aux_key = "aux_hidden_states"
    last_key = "hidden_states"
    batched = False

    def file_for(self, sample: Sample, row: int) -> str:
        """Return the file of a sample, whatever its id looks like."""
        return f"{file_stem(sample.sample_id, sample.key)}.pt"

    def is_sample(self, path: Path) -> bool:
        """Whether ModelOpt takes a file for a sample."""
        return path.suffix == ".pt"

    def more(self, sample_id: SampleId) -> Mapping[str, Value]:
        """Return the id, as text."""
        return {"conversation_id": str(sample_id)}
