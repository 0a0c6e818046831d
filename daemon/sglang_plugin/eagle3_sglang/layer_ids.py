"""Which layers SGLang's ``--return-aux-hidden-state-layer-ids`` mean, by architecture. Standard library only.

Inside the server, ``layers_to_capture`` holds v for "the input of layer v", which is the output of layer v - 1. How the
ids of the command line become those v is up to each model's ``set_eagle3_layers_to_capture``; read in SGLang 0.5.23,
there are three ways. We speak of 0-based **output** ids everywhere else.
"""

from __future__ import annotations

import enum
from collections.abc import Sequence
from typing import Final


class LayerIdError(ValueError):
    """Layers that cannot be named to the server, or ids whose meaning is not known."""


class Convention(enum.Enum):
    """How an architecture reads the ids."""

    OUTPUTS = "outputs"
    """v = id + 1 for each: the ids are output ids."""
    INPUTS_UNLESS_FIRST_IS_1 = "inputs"
    """v = id, but v = id + 1 for all when the first id is 1 (DeepSeek, Kimi)."""
    OUTPUTS_UNLESS_BEYOND_LAST = "gpt_oss"
    """v = id + 1, but v = id for all when the largest id is the number of layers (gpt_oss)."""


_OUTPUTS: Final = (
    "ApertusForCausalLM",
    "BailingMoEForCausalLM",
    "BailingMoeForCausalLM",
    "BailingMoeV2ForCausalLM",
    "ExaoneMoEForCausalLM",
    "ExaoneMoeForCausalLM",
    "Gemma3ForCausalLM",
    "Gemma3ForConditionalGeneration",
    "Gemma4ForCausalLM",
    "Gemma4ForConditionalGeneration",
    "Glm4MoeForCausalLM",
    "IQuestCoderForCausalLM",
    "InternLM3ForCausalLM",
    "Llama4ForCausalLM",
    "Llama4ForConditionalGeneration",
    "LlamaForCausalLM",
    "LongcatFlashForCausalLM",
    "MiniMaxM2ForCausalLM",
    "MiniMaxM3SparseForCausalLM",
    "MiniMaxM3SparseForConditionalGeneration",
    "Ministral3ForCausalLM",
    "MistralForCausalLM",
    "Phi3ForCausalLM",
    "Qwen2ForCausalLM",
    "Qwen2MoeForCausalLM",
    "Qwen2_5_VLForConditionalGeneration",
    "Qwen3ForCausalLM",
    "Qwen3MoeForCausalLM",
    "Qwen3NextForCausalLM",
    "Qwen3VLForConditionalGeneration",
    "Qwen3_5ForCausalLM",
    "Qwen3_5MoeForCausalLM",
)
_INPUTS: Final = (
    "DeepseekV2ForCausalLM",
    "DeepseekV32ForCausalLM",
    "DeepseekV3ForCausalLM",
    "Glm4MoeLiteForCausalLM",
    "GlmMoeDsaForCausalLM",
    "KimiK25ForConditionalGeneration",
    "MistralLarge3ForCausalLM",
)
ARCHITECTURES: Final[dict[str, Convention]] = {
    **dict.fromkeys(_OUTPUTS, Convention.OUTPUTS),
    **dict.fromkeys(_INPUTS, Convention.INPUTS_UNLESS_FIRST_IS_1),
    "GptOssForCausalLM": Convention.OUTPUTS_UNLESS_BEYOND_LAST,
}
"""By the name in ``architectures`` of the model's config.json."""


def convention(architecture: str) -> Convention:
    """Return how an architecture reads the ids.

    Raises:
        LayerIdError: It is not in the table.
    """
    found = ARCHITECTURES.get(architecture)
    if found is None:
        raise LayerIdError(
            f"it is not known which layers the server's ids mean for the architecture {architecture!r}; known: "
            f"{', '.join(sorted(ARCHITECTURES))}"
        )
    return found


def server_ids(architecture: str, outputs: Sequence[int], layers: int | None) -> tuple[int, ...]:
    """Return the ids to give to the server for output ids.

    Args:
        architecture: As in config.json.
        outputs: 0-based output ids, ascending.
        layers: How many the model has; None: not known.

    Raises:
        LayerIdError: The server cannot be asked for them.
    """
    way = convention(architecture)
    if not outputs or list(outputs) != sorted(set(outputs)) or outputs[0] < 0:
        raise LayerIdError(f"layers must be 0-based output ids, ascending, each once: {list(outputs)}")
    if layers is not None and outputs[-1] > layers - 2:
        what = "the last layer's output is taken anyway" if outputs[-1] == layers - 1 else "there is no such layer"
        raise LayerIdError(
            f"layer {outputs[-1]} of a model with {layers} layers: {what}; the highest to name is {layers - 2}"
        )
    if way is Convention.INPUTS_UNLESS_FIRST_IS_1:
        if outputs[0] == 0:
            raise LayerIdError(
                f"{architecture} cannot capture the output of layer 0: its id would be 1, and a first id of 1 makes "
                f"the server read all ids as outputs"
            )
        return tuple(output + 1 for output in outputs)
    return tuple(outputs)


def output_ids(architecture: str, ids: Sequence[int], layers: int) -> tuple[int, ...]:
    """Return the output ids, ascending, of what a server with these ids captures.

    Args:
        architecture: As in config.json.
        ids: As given to the server, in its order.
        layers: How many the model has.

    Raises:
        LayerIdError: One of them is no layer's output.
    """
    way = convention(architecture)
    as_outputs = way is Convention.OUTPUTS
    if way is Convention.INPUTS_UNLESS_FIRST_IS_1:
        as_outputs = bool(ids) and ids[0] == 1
    elif way is Convention.OUTPUTS_UNLESS_BEYOND_LAST:
        as_outputs = not ids or max(ids) != layers
    return captured_outputs([one + 1 for one in ids] if as_outputs else ids)


def captured_outputs(inputs: Sequence[int]) -> tuple[int, ...]:
    """Return the output ids, ascending, of a model's ``layers_to_capture``.

    Raises:
        LayerIdError: There is none, one comes twice, or one is the embedding.
    """
    outputs = tuple(sorted(one - 1 for one in inputs))
    if not outputs or len(set(outputs)) != len(outputs):
        raise LayerIdError(f"the server captures the inputs of layers {list(inputs)}")
    if outputs[0] < 0:
        raise LayerIdError(f"the server captures the inputs of layers {list(inputs)}: that of layer 0 is no output")
    return outputs
