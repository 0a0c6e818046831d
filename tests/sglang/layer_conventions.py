"""What SGLang's models make of layer ids: `python layer_conventions.py < CASES`, inside the SGLang environment.

CASES is a JSON list of [architecture, ids, layers]. Prints a JSON list of what each model's own
``set_eagle3_layers_to_capture`` leaves in ``layers_to_capture``; null where the class cannot be imported without a GPU.
The method is called on a stand-in: no model is made.
"""

from __future__ import annotations

import importlib
import json
import pkgutil
import sys
from types import SimpleNamespace
from typing import Any
from unittest import mock

import sglang.srt.models


def classes() -> dict[str, Any]:
    found: dict[str, Any] = {}
    for info in pkgutil.iter_modules(sglang.srt.models.__path__):
        try:
            entry = getattr(importlib.import_module(f"sglang.srt.models.{info.name}"), "EntryClass", [])
        except Exception:
            continue
        found |= {one.__name__: one for one in (entry if isinstance(entry, list) else [entry])}
    return found


class Recorder(SimpleNamespace):
    """Stands in for the part with the layers, where that has a method of its own."""

    def set_eagle3_layers_to_capture(self, ids: list[int]) -> None:
        self.layers_to_capture = list(ids)


def captured(kind: Any, known: dict[str, Any], ids: list[int], layers: int) -> list[int]:
    config = SimpleNamespace(num_hidden_layers=layers)
    part = Recorder(layers=[SimpleNamespace() for _ in range(layers)], layers_to_capture=[])
    stand_in = SimpleNamespace(
        pp_group=SimpleNamespace(is_last_rank=True),
        config=SimpleNamespace(num_hidden_layers=layers, text_config=config),
        model=part,
        language_model=part,
    )
    if kind.__name__ in INNER:
        inner = known[INNER[kind.__name__]]
        part.set_eagle3_layers_to_capture = lambda given: inner.set_eagle3_layers_to_capture(  # type: ignore[method-assign]
            SimpleNamespace(pp_group=stand_in.pp_group, config=config, model=part), given
        )
    with mock.patch.object(importlib.import_module(kind.__module__), "get_parallel", lambda: stand_in, create=True):
        kind.set_eagle3_layers_to_capture(stand_in, list(ids))
    return list(part.layers_to_capture)


INNER = {
    "KimiK25ForConditionalGeneration": "DeepseekV3ForCausalLM",
    "Gemma3ForConditionalGeneration": "Gemma3ForCausalLM",
    "Llama4ForConditionalGeneration": "LlamaForCausalLM",
}
"""Those that pass the ids on to a language model of this class."""

if __name__ == "__main__":
    known = classes()
    print(
        json.dumps(
            [
                captured(known[name], known, ids, layers) if name in known else None
                for name, ids, layers in json.load(sys.stdin)
            ]
        )
    )
