"""What the embedded server says of its dumps, and the form of rows that follows from it."""

from __future__ import annotations

import dataclasses
import os
import time
from dataclasses import dataclass, replace

from daemon.embedded.config import ModelConfig
from daemon.embedded.dump_faults import DumpFault
from daemon.embedded.information import VERSION
from daemon.embedded.options import Options
from daemon.sglang_plugin.eagle3_sglang.dump_format import OVER_WEIGHT, POST, About


@dataclass(frozen=True)
class RowForm:
    """What rows are made of: layers are 0-based output ids, ascending."""

    layers: tuple[int, ...]
    hidden_size: int
    dtype: str
    norm: str

    @classmethod
    def of(cls, about: About) -> RowForm:
        """The form of a server's rows."""
        return cls(about.layers, about.hidden_size, about.dtype, about.norm)

    def told_by(self, about: About) -> About:
        """The same self-description, but for rows of this form."""
        return dataclasses.replace(
            about, layers=self.layers, server_layers=self.layers, hidden_size=self.hidden_size,
            dtype=self.dtype, norm=self.norm,
        )  # fmt: skip

    def spoilt(self, fault: DumpFault | None) -> RowForm:
        """The form that a fault of the whole form makes of it."""
        if fault == "wrong_layers":
            return replace(self, layers=tuple(layer + 1 for layer in self.layers))
        if fault == "missing_layer":
            return replace(self, layers=self.layers[:-1])
        if fault == "wrong_hidden_size":
            return replace(self, hidden_size=self.hidden_size // 2)
        if fault == "wrong_dtype":
            return replace(self, dtype="bfloat16" if self.dtype == "float32" else "float32")
        if fault == "wrong_norm":
            return replace(self, norm=POST if self.norm == OVER_WEIGHT else OVER_WEIGHT)
        return self


def about_of(options: Options, config: ModelConfig, port: int) -> About:
    """The self-description of a server that listens on `port`."""
    started, pid = time.time(), os.getpid()
    layers = tuple(sorted(options.dump_layers))
    return About(
        instance=f"{pid}-{int(started * 1000)}-0",
        pid=pid,
        port=port,
        dp_rank=0,
        sglang=VERSION,
        model=str(options.model_path),
        architecture=config.architectures[0],
        layers=layers,
        server_layers=layers,  # of a Llama: the server's ids are those of the outputs
        hidden_size=config.hidden_size,
        dtype=options.dump_dtype,
        norm=options.dump_norm,
        norm_eps=config.rms_norm_eps,
        norm_has_zero=False,
        context_length=config.max_position_embeddings,
        started_at=started,
        refusal=options.dump_refusal,
    )
