"""speculators 0.9.0 trains on a store, on the CPU; runs inside .venv-trainers.

Its draft model holds the verifier's final norm and head (``verifier_norm``, ``verifier_lm_head``), through which the
last slot of the store becomes the teacher's logits.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import torch
from speculators.losses import resolve_loss_config
from speculators.models.eagle3 import Eagle3DraftModel
from speculators_store import open_dataset, packed
from transformers import AutoConfig, LlamaConfig, LlamaForCausalLM

_LAYERS = 8
_TTT_STEPS = 3


def make_verifier(folder: str, weight: str, eps: float, vocab: int) -> None:
    """Write a tiny Llama whose final norm has a given weight.

    Args:
        folder: Where.
        weight: A .npy file, float32 [H].
        eps: Of its norms.
        vocab: Size of its vocabulary.
    """
    norm = torch.from_numpy(np.load(weight))
    config = LlamaConfig(
        hidden_size=len(norm),
        intermediate_size=2 * len(norm),
        num_hidden_layers=_LAYERS,
        num_attention_heads=4,
        num_key_value_heads=2,
        vocab_size=vocab,
        rms_norm_eps=eps,
    )
    torch.manual_seed(0)
    model = LlamaForCausalLM(config)
    with torch.no_grad():
        model.model.norm.weight.copy_(norm)
        torch.nn.init.normal_(model.lm_head.weight, std=len(norm) ** -0.5)
    model.to(torch.bfloat16).save_pretrained(folder)


def teacher(verifier: str, folder: str, post: str) -> dict[str, Any]:
    """Compare what the model makes of a store's last slots with the states after the final norm themselves.

    Args:
        verifier: A folder of `make_verifier`.
        folder: The store.
        post: A .npy file, uint16 [tokens of all samples, H]: bfloat16 states after the final norm, in order of rows.
    """
    model = _draft_model(verifier).to(torch.bfloat16)
    dataset = open_dataset(folder)
    stored = torch.cat([dataset[row]["verifier_last_hidden_states"] for row in range(len(dataset))])
    truth = torch.from_numpy(np.load(post)).view(torch.bfloat16)
    with torch.no_grad():
        normed = model.verifier_norm(stored)
        logits = model.verifier_lm_head(normed)
        wanted = model.verifier_lm_head(truth)
        mistaken = model.verifier_lm_head(model.verifier_norm(truth))
    error = ((normed.float() - truth.float()).abs() / truth.float().abs())[truth != 0]
    chosen = wanted.float().gather(-1, logits.argmax(-1, keepdim=True))
    return {
        "largest_error": float(error.max()),
        "equal_states": float((normed == truth).float().mean()),
        "equal_logits": float((logits == wanted).float().mean()),
        "largest_logit_error": float((logits.float() - wanted.float()).abs().max()),
        "largest_logit": float(wanted.float().abs().max()),
        "argmax": _agreement(logits, wanted),
        "worst_choice": float((wanted.float().max(-1, keepdim=True).values - chosen).max()),
        "argmax_of_post_in_this_slot": _agreement(mistaken, wanted),
    }


def train(verifier: str, folder: str, layers: int, steps: int) -> list[float]:
    """Train on all samples of a store at once and return the loss of each step."""
    torch.manual_seed(0)
    model = _draft_model(verifier).to(torch.float32)
    dataset = open_dataset(folder)
    batch = packed(dataset, layers, model.hidden_size, torch.float32)
    inputs = {name: value for name, value in batch.items() if isinstance(value, torch.Tensor)}
    parameters = [one for one in model.parameters() if one.requires_grad]
    optimizer = torch.optim.AdamW(parameters, lr=1e-3)
    losses = []
    for _ in range(steps):
        _, loss, _ = model(**inputs, ttt_steps=_TTT_STEPS, loss_config=resolve_loss_config("kl_div", "eager"))
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(float(loss.detach()))
    return losses


def _draft_model(verifier: str) -> Eagle3DraftModel:
    config = AutoConfig.from_pretrained(Path(verifier))
    vocab = config.vocab_size
    config.num_hidden_layers = 1
    return Eagle3DraftModel.from_training_args(
        config,
        draft_vocab_size=vocab,
        norm_before_residual=False,
        ttt_steps=_TTT_STEPS,
        verifier_name_or_path=verifier,
        target_layer_ids=[1, 3, 5],
        draft_attn_impl="eager",
    )


def _agreement(one: torch.Tensor, other: torch.Tensor) -> float:
    return float((one.argmax(-1) == other.argmax(-1)).float().mean())


ACTIONS = {"make_verifier": make_verifier, "teacher": teacher, "train": train}
