"""Hidden states by transformers; run inside the SGLang environment: `python reference_states.py MODEL DTYPE IN OUT`.

IN is a JSON list of lists of token ids. OUT becomes a .npy, float32 [layers, all tokens, hidden], the sequences one
after the other: index L is the output of 0-based layer L; that of the last layer is as transformers gives it, after the
final norm.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

import numpy as np
import torch
from transformers import AutoModelForCausalLM


def main() -> None:
    folder, dtype, source, target = sys.argv[1:]
    torch.set_grad_enabled(False)
    model = AutoModelForCausalLM.from_pretrained(folder, dtype=getattr(torch, dtype)).eval()
    parts = []
    for ids in json.loads(Path(source).read_text()):
        states = model(torch.tensor([ids]), output_hidden_states=True).hidden_states
        parts.append(torch.stack([state[0].float() for state in states[1:]]))
    np.save(target, torch.cat(parts, 1).numpy())


if __name__ == "__main__":
    main()
