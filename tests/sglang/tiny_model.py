"""Makes tiny models for the real SGLang; run inside its environment: `python tiny_model.py FOLDER KIND...`.

Each is a folder as a hub would give it: config, float32 weights, tokenizer with a chat template. Random weights,
always the same for the same kind. They are wide enough (initializer_range 0.2, norm weights away from 1) that a
wrong layer, a skipped norm or a shifted position shows plainly in the hidden states.
"""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

import torch
from tokenizers import AddedToken, Tokenizer, decoders, models, pre_tokenizers
from transformers import (
    AutoModelForCausalLM,
    LlamaConfig,
    PreTrainedConfig,
    PreTrainedTokenizerFast,
    Qwen3Config,
)

VOCAB = 1024
CONTEXT = 2048
# The last ids are special; between the 256 bytes and them lie fillers, <f256> and so on, that no text encodes to.
PAD, START, END, UNKNOWN = 1020, 1021, 1022, 1023
SPECIAL = {PAD: "<|pad|>", START: "<|start|>", END: "<|end|>", UNKNOWN: "<|unknown|>"}

CONFIGS: dict[str, type[PreTrainedConfig]] = {"llama": LlamaConfig, "qwen3": Qwen3Config}

CHAT_TEMPLATE = (
    "{% for message in messages %}<|start|>{{ message.role }}\n{{ message.content }}<|end|>\n{% endfor %}"
    "{% if add_generation_prompt %}<|start|>assistant\n{% endif %}"
)


def make_config(kind: str) -> PreTrainedConfig:
    """The configuration of one kind: 8 layers of 64, 4 heads of 16, 1024 tokens, context 2048."""
    shape: dict[str, Any] = {
        "hidden_size": 64,
        "intermediate_size": 128,
        "num_hidden_layers": 8,
        "num_attention_heads": 4,
        "num_key_value_heads": 2,
        "head_dim": 16,
        "vocab_size": VOCAB,
        "max_position_embeddings": CONTEXT,
        "initializer_range": 0.2,
        "tie_word_embeddings": False,
        "bos_token_id": START,
        "eos_token_id": END,
        "pad_token_id": PAD,
        "dtype": "float32",
    }
    return CONFIGS[kind](**shape)


def make_tokenizer() -> PreTrainedTokenizerFast:
    """A byte-level tokenizer without merges: one token per byte, ids 0..255 in the order of the byte alphabet."""
    alphabet = sorted(pre_tokenizers.ByteLevel.alphabet())
    fillers = [f"<f{index}>" for index in range(len(alphabet), PAD)]
    words = [*alphabet, *fillers, *SPECIAL.values()]
    backend = Tokenizer(models.BPE(vocab={word: index for index, word in enumerate(words)}, merges=[]))
    backend.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)
    backend.decoder = decoders.ByteLevel()
    backend.add_special_tokens([AddedToken(word, special=True, normalized=False) for word in SPECIAL.values()])
    return PreTrainedTokenizerFast(
        tokenizer_object=backend,
        bos_token=SPECIAL[START],
        eos_token=SPECIAL[END],
        pad_token=SPECIAL[PAD],
        unk_token=SPECIAL[UNKNOWN],
        model_max_length=CONTEXT,
        chat_template=CHAT_TEMPLATE,
        clean_up_tokenization_spaces=False,
    )


def make_model(kind: str, folder: Path) -> None:
    """Write one model into the folder.

    Args:
        kind: "llama" or "qwen3".
        folder: Is created; files of the same names are replaced.
    """
    torch.manual_seed(20260923)
    model = AutoModelForCausalLM.from_config(make_config(kind))
    with torch.no_grad():
        for name, weight in model.named_parameters():
            if "norm" in name:
                weight.copy_(torch.rand_like(weight) + 0.5)
    model.save_pretrained(folder)
    make_tokenizer().save_pretrained(folder)


def main() -> None:
    parser = argparse.ArgumentParser(description="Makes tiny models for the real SGLang.")
    parser.add_argument("folder", type=Path, help="each model goes into FOLDER/KIND")
    parser.add_argument("kinds", nargs="+", choices=sorted(CONFIGS), metavar="KIND", help="llama or qwen3")
    arguments = parser.parse_args()
    for kind in arguments.kinds:
        make_model(kind, arguments.folder / kind)
        print(f"{kind}: {arguments.folder / kind}")


if __name__ == "__main__":
    main()
