"""The tiny model's dimensions, read from `config.json` beside this file.

One file is the truth: the model, the tokenizer and the validation read it, and `/server_info` reports its
folder as `model_path`, where clients look the vocabulary size up (no GET of SGLang tells it).
"""

from __future__ import annotations

from pathlib import Path

import msgspec

PACKAGED_MODEL_PATH = Path(__file__).parent


class ModelConfig(msgspec.Struct, frozen=True):
    """A Hugging Face style Llama `config.json`; keys that are not declared are ignored."""

    vocab_size: int
    hidden_size: int
    intermediate_size: int
    num_hidden_layers: int
    num_attention_heads: int
    head_dim: int
    max_position_embeddings: int
    rms_norm_eps: float
    rope_theta: float
    initializer_range: float
    bos_token_id: int
    eos_token_id: int
    pad_token_id: int
    architectures: list[str]
    model_type: str

    @property
    def special_ids(self) -> tuple[int, int, int]:
        """The ids that have no text: BOS, EOS, PAD."""
        return (self.bos_token_id, self.eos_token_id, self.pad_token_id)


def load_config(folder: Path = PACKAGED_MODEL_PATH) -> ModelConfig:
    """Read `config.json` in `folder`.

    Raises:
        FileNotFoundError: there is none.
        msgspec.ValidationError: a dimension is missing or has the wrong type.
    """
    return msgspec.json.decode((folder / "config.json").read_bytes(), type=ModelConfig)


def write_model_folder(folder: Path) -> None:
    """Copy the packaged `config.json` into `folder`, so that it can be reported as the `model_path`."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "config.json").write_bytes((PACKAGED_MODEL_PATH / "config.json").read_bytes())
