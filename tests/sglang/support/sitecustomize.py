"""Runs at the start of every Python process of the SGLang test environment.

torchvision's wheel is built for a CUDA torch. Beside a CPU torch its import ends with "operator torchvision::nms
does not exist", unless the operators' schemas are declared before.
"""

from __future__ import annotations

import importlib.abc
import importlib.machinery
import sys
from collections.abc import Sequence
from types import ModuleType

_SCHEMAS = (
    "nms(Tensor dets, Tensor scores, float iou_threshold) -> Tensor",
    "qnms(Tensor dets, Tensor scores, float iou_threshold) -> Tensor",
)
_libraries = []  # a torch.library.Library takes its declarations along when it is collected


class _BeforeTorchvision(importlib.abc.MetaPathFinder):
    """Declares the schemas when torchvision is about to be imported.

    Not at start-up: that would import torch into every helper process, pip's included.
    """

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> importlib.machinery.ModuleSpec | None:
        if fullname == "torchvision":
            sys.meta_path.remove(self)
            _declare()
        return None


def _declare() -> None:
    import torch

    library = torch.library.Library("torchvision", "DEF")
    for schema in _SCHEMAS:
        library.define(schema)
    _libraries.append(library)


sys.meta_path.insert(0, _BeforeTorchvision())
