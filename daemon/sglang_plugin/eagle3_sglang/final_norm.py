"""The norm after the last layer: found in a model of SGLang's, and taken back out of what it gave."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final

import torch  # noqa: TID251
from torch import Tensor, nn  # noqa: TID251

_PLUS_ONE: Final = {"RMSNorm": 0.0, "GemmaRMSNorm": 1.0, "Gemma3RMSNorm": 1.0}
"""SGLang's RMS norms by class: what is added to the stored weight when it is used."""
_TINY: Final = 2e-3
"""From this share on that epsilon has in the mean square, the scale is put right."""


class NoFinalNorm(ValueError):
    """A model whose final norm is not found, or is no RMS norm; the message says which."""


@dataclass(frozen=True)
class FinalNorm:
    """Weight, [H] float32, as it multiplies; and epsilon."""

    weight: Tensor
    eps: float

    @property
    def has_zero(self) -> bool:
        """Whether nothing can be divided by the weight."""
        return bool((self.weight == 0).any())

    def over_weight(self, normed: Tensor) -> Tensor:
        """Return y / w of y = RMSNorm(x): again RMSNorm(y / w) = y, although x itself is lost. Same shape and dtype.

        Where the mean square of x was not far above epsilon, that of y / w is below 1, and norming it once more would
        not give y: there it is scaled so that it does.
        """
        divided = normed.float() / self.weight
        missing = 1 - divided.square().mean(-1, keepdim=True)
        scale = torch.where(missing > _TINY, (self.eps / missing.clamp(min=_TINY)).sqrt(), 1.0)
        return (divided * scale).to(normed.dtype)


def capturing_model(model: nn.Module) -> Any:
    """Return the part of a model of SGLang's that holds the layers, ``layers_to_capture`` and the final norm.

    Raises:
        NoFinalNorm: There is none, or more than one.
    """
    found = [part for part in model.modules() if getattr(part, "layers_to_capture", None) and hasattr(part, "norm")]
    if len(found) != 1:
        raise NoFinalNorm(f"{len(found)} parts of {type(model).__name__} have layers_to_capture and a norm, not one")
    return found[0]


def final_norm(part: Any) -> FinalNorm:
    """Return the norm of what `capturing_model` found.

    Raises:
        NoFinalNorm: It is of a kind that is not known.
    """
    norm = part.norm
    plus = _PLUS_ONE.get(type(norm).__name__)
    eps = getattr(norm, "variance_epsilon", getattr(norm, "eps", None))
    if plus is None or not isinstance(eps, float):
        raise NoFinalNorm(f"the final norm is a {type(norm).__name__}, not one of {', '.join(_PLUS_ONE)}")
    return FinalNorm(norm.weight.detach().float() + plus, eps)
