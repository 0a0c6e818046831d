"""What the embedded server says of its dumps, and what faults make of the form of its rows."""

from __future__ import annotations

import os
import time
from dataclasses import replace

from daemon.embedded.config import ModelConfig
from daemon.embedded.dump_faults import DumpFault
from daemon.embedded.information import VERSION
from daemon.embedded.options import Options
from daemon.sglang_plugin.eagle3_sglang.dump_format import OVER_WEIGHT, POST, About
from daemon.store.sample import RowForm


def told_by(form: RowForm, about: About) -> About:
    """The same self-description, but for rows of another form."""
    return replace(
        about, layers=form.layers, server_layers=form.layers, hidden_size=form.hidden_size,
        dtype=form.dtype, norm=form.norm,
    )  # fmt: skip


def spoilt(form: RowForm, fault: DumpFault | None) -> RowForm:
    """The form that a fault of the whole form makes of one."""
    if fault == "wrong_layers":
        return replace(form, layers=tuple(layer + 1 for layer in form.layers))
    if fault == "missing_layer":
        return replace(form, layers=form.layers[:-1])
    if fault == "wrong_hidden_size":
        return replace(form, hidden_size=form.hidden_size // 2)
    if fault == "wrong_dtype":
        return replace(form, dtype="bfloat16" if form.dtype == "float32" else "float32")
    if fault == "wrong_norm":
        return replace(form, norm=POST if form.norm == OVER_WEIGHT else OVER_WEIGHT)
    return form


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
