"""One scheduler's self-description, from the live model and SGLang's settings; and why it cannot dump.

Everything here is read once, at the first forward pass: the model is loaded and knows what it captures.
"""

from __future__ import annotations

import importlib
import os
import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

from .dump_format import OVER_WEIGHT, About
from .final_norm import FinalNorm, NoFinalNorm, capturing_model, final_norm
from .layer_ids import LayerIdError, captured_outputs, output_ids

ADVICE = "`eagle3 server-args` prints a launch command that is right"


@dataclass(frozen=True)
class Described:
    """A self-description, and the norm where it is known."""

    about: About
    norm: FinalNorm | None


def bare(*, sglang: str, norm: str, refusal: str | None = None) -> About:
    """Return a self-description of this process that says nothing yet of a model."""
    now = time.time()
    return About(
        instance=f"{os.getpid()}-{int(now * 1000)}-0",
        pid=os.getpid(),
        port=None,
        dp_rank=0,
        sglang=sglang,
        model="",
        architecture="",
        layers=(),
        server_layers=(),
        hidden_size=0,
        dtype="",
        norm=norm,
        norm_eps=0.0,
        norm_has_zero=False,
        context_length=0,
        started_at=now,
        refusal=refusal,
    )


def describe(runner: Any, sglang: str, norm: str) -> Described:
    """Return what the runner's rows are; with a refusal where there cannot be any."""
    context = importlib.import_module("sglang.srt.runtime_context")
    features, parallel, config = context.get_exec().features, context.get_parallel(), runner.model_config
    given = tuple(features.return_aux_hidden_state_layer_ids or ())
    rank = parallel.attn_dp_rank if parallel.attn_dp_size > 1 else (parallel.dp_rank or 0)
    start = bare(sglang=sglang, norm=norm)
    about = replace(
        start,
        instance=f"{start.instance.rsplit('-', 1)[0]}-{rank}",
        port=runner.server_args.port,
        dp_rank=rank,
        model=str(config.model_path),
        architecture=str((config.hf_config.architectures or [""])[0]),
        server_layers=given,
        hidden_size=int(config.hidden_size),
        dtype=str(config.dtype).removeprefix("torch."),
        context_length=int(config.context_len),
    )
    refusals = [sentence for sentence in _settings(runner, context, features) if sentence]
    found: FinalNorm | None = None
    if not refusals:
        try:
            layers, found = _of_model(runner.model, about.architecture, given, config)
            about = replace(about, layers=layers, norm_eps=found.eps, norm_has_zero=found.has_zero)
        except (LayerIdError, NoFinalNorm) as error:
            refusals.append(str(error))
    if found is not None and found.has_zero and norm == OVER_WEIGHT:
        refusals.append("the final norm has a weight of zero: the last hidden state cannot be divided by it")
    return Described(replace(about, refusal=f"{'; '.join(refusals)}. {ADVICE}" if refusals else None), found)


def _settings(runner: Any, context: Any, features: Any) -> list[str | None]:
    if not runner.spec_algorithm.is_none():
        speculative = "it decodes speculatively: rows of rejected tokens would come in between"
        return [speculative]
    refused: list[tuple[Callable[[], bool], str]] = [
        (lambda: features.aux_hidden_state_capture != "eagle3", "--enable-return-aux-hidden-states is missing"),
        (lambda: not features.return_aux_hidden_state_layer_ids, "--return-aux-hidden-state-layer-ids is missing"),
        (lambda: features.return_hidden_states_mode != "full", "--return-hidden-states-mode must be full"),
        (lambda: context.get_parallel().pp_size > 1, "pipeline parallel (pp_size > 1) is on"),
        (lambda: not context.get_memory().disable_radix_cache, "the radix cache is on: cached rows are never computed"),
        (lambda: context.get_schedule().enable_mixed_chunk, "mixed chunk is on"),
        (
            lambda: runner.server_args.disaggregation_mode != "null",
            "prefill and decode are on different servers: neither computes all rows",
        ),
    ]
    return [sentence for test, sentence in refused if test()]


def _of_model(model: Any, architecture: str, given: tuple[int, ...], config: Any) -> tuple[tuple[int, ...], FinalNorm]:
    """Return the captured layers, as the model itself and as the table understand them, and the norm.

    Raises:
        LayerIdError: The two differ, or the architecture is not in the table.
        NoFinalNorm: It is not found.
    """
    part = capturing_model(model)
    captured = captured_outputs(list(part.layers_to_capture))
    understood = output_ids(architecture, given, int(config.hf_text_config.num_hidden_layers))
    if captured != understood:
        raise LayerIdError(
            f"{architecture} captures the outputs of layers {list(captured)} for the ids {list(given)}, and not of "
            f"{list(understood)} as it did in SGLang 0.5.23"
        )
    return captured, final_norm(part)
