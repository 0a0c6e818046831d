"""Output ids to the server's ids and back, for the three conventions."""

from __future__ import annotations

import pytest

from daemon.sglang_plugin.eagle3_sglang.layer_ids import (
    ARCHITECTURES,
    LayerIdError,
    captured_outputs,
    output_ids,
    server_ids,
)

LLAMA, QWEN, DEEPSEEK, KIMI, GPT_OSS = (
    "LlamaForCausalLM",
    "Qwen3ForCausalLM",
    "DeepseekV3ForCausalLM",
    "KimiK25ForConditionalGeneration",
    "GptOssForCausalLM",
)


@pytest.mark.parametrize(
    ("architecture", "outputs", "ids"),
    [
        (LLAMA, (2, 30, 58), (2, 30, 58)),
        (LLAMA, (0, 1, 59), (0, 1, 59)),
        (QWEN, (1, 15, 32), (1, 15, 32)),
        (DEEPSEEK, (2, 30, 58), (3, 31, 59)),  # the server's 3 31 59 are inputs
        (DEEPSEEK, (1, 29, 57), (2, 30, 58)),
        (KIMI, (2, 30, 58), (3, 31, 59)),
        (GPT_OSS, (2, 18, 33), (2, 18, 33)),
    ],
)
def test_ids_for_outputs(architecture: str, outputs: tuple[int, ...], ids: tuple[int, ...]) -> None:
    assert server_ids(architecture, outputs, 61) == ids
    assert output_ids(architecture, ids, 61) == outputs


@pytest.mark.parametrize(
    ("architecture", "ids", "outputs"),
    [
        (DEEPSEEK, (1, 29, 57), (1, 29, 57)),  # a first id of 1: all are outputs
        (DEEPSEEK, (29, 1, 57), (0, 28, 56)),  # only the first counts
        (GPT_OSS, (2, 18, 36), (1, 17, 35)),  # the number of layers among them: all are inputs
        (LLAMA, (5, 1, 3), (1, 3, 5)),
    ],
)
def test_what_a_server_captures(architecture: str, ids: tuple[int, ...], outputs: tuple[int, ...]) -> None:
    assert output_ids(architecture, ids, 36) == outputs


@pytest.mark.parametrize("architecture", sorted(ARCHITECTURES))
def test_there_and_back(architecture: str) -> None:
    for outputs in ((1,), (1, 2), (2, 9, 20), (1, 9, 20), (5, 6, 7, 8), (1, 22)):
        assert output_ids(architecture, server_ids(architecture, outputs, 24), 24) == outputs


@pytest.mark.parametrize(
    ("architecture", "outputs", "layers", "said"),
    [
        ("MysteryForCausalLM", (1,), 8, "not known which layers .* 'MysteryForCausalLM'; known: Apertus"),
        (LLAMA, (1, 7), 8, "layer 7 of a model with 8 layers: the last layer's output is taken anyway; .* is 6"),
        (LLAMA, (1, 8), 8, "layer 8 of a model with 8 layers: there is no such layer"),
        (LLAMA, (), 8, "0-based output ids"),
        (LLAMA, (3, 1), 8, "ascending"),
        (LLAMA, (1, 1), 8, "each once"),
        (LLAMA, (-1, 1), 8, "0-based"),
        (DEEPSEEK, (0, 5), 61, "cannot capture the output of layer 0"),
    ],
)
def test_what_cannot_be_asked_for(architecture: str, outputs: tuple[int, ...], layers: int, said: str) -> None:
    with pytest.raises(LayerIdError, match=said):
        server_ids(architecture, outputs, layers)


@pytest.mark.parametrize("inputs", [[], [0, 3], [2, 2]])
def test_what_is_no_layers_output(inputs: list[int]) -> None:
    with pytest.raises(LayerIdError, match="captures the inputs of layers"):
        captured_outputs(inputs)


def test_number_of_layers_may_be_unknown() -> None:
    assert server_ids(LLAMA, (1, 100), None) == (1, 100)
