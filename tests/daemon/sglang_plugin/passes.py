"""Stands in for what SGLang hands to the hook: the result of a forward pass and its batch."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import torch

from tests.daemon.sglang_plugin.dumps import HIDDEN, SLOTS, row, token


class Mode(SimpleNamespace):
    """A ForwardMode."""

    name: str

    def is_idle(self) -> bool:
        return self.name == "IDLE"


def forward_pass(mode: str, *segments: tuple[str, int, int], padding: int = 0) -> tuple[Any, Any]:
    """Rows of (rid, first position, count); padding rows behind them, as DP attention adds them."""
    keys = [(rid, position) for rid, first, count in segments for position in range(first, first + count)]
    rows = torch.cat([torch.stack([row(*key) for key in keys]), torch.full((padding, SLOTS * HIDDEN), -1.0)])
    split = (SLOTS - 1) * HIDDEN
    output = SimpleNamespace(hidden_states=rows[:, :split].clone(), last_hidden_states=rows[:, split:].clone())
    batch = SimpleNamespace(
        rids=[rid for rid, _, _ in segments],
        forward_mode=Mode(name=mode),
        extend_seq_lens_cpu=[count for _, _, count in segments] if mode != "DECODE" else None,
        input_ids=torch.tensor([token(*key) for key in keys] + [0] * padding),
        positions=torch.tensor([position for _, position in keys] + [0] * padding),
    )
    return SimpleNamespace(logits_output=output), batch
