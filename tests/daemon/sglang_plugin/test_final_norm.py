"""The final norm is found, and RMSNorm(y / w) is y again."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor, nn

from daemon.sglang_plugin.eagle3_sglang.final_norm import FinalNorm, NoFinalNorm, capturing_model, final_norm

EPS = 1e-6


class RMSNorm(nn.Module):
    def __init__(self, weight: Tensor) -> None:
        super().__init__()
        self.weight = nn.Parameter(weight)
        self.variance_epsilon = EPS


class GemmaRMSNorm(RMSNorm):
    pass


class LayerNorm(RMSNorm):
    pass


class Body(nn.Module):
    def __init__(self, norm: nn.Module) -> None:
        super().__init__()
        self.norm = norm
        self.layers_to_capture = [2, 4]


class Outer(nn.Module):
    """A multimodal model holds its language model somewhere below, and parts with norms of their own beside it."""

    def __init__(self, body: nn.Module, *others: nn.Module) -> None:
        super().__init__()
        self.vision = nn.ModuleList([RMSNorm(torch.ones(3)), *others])
        self.language_model = nn.ModuleDict({"model": body})
        self.layers_to_capture = [2, 4]  # without a norm: not the one


def rms(state: Tensor, weight: Tensor) -> Tensor:
    wide = state.float()
    return (wide * torch.rsqrt(wide.square().mean(-1, keepdim=True) + EPS) * weight).to(state.dtype)


@pytest.fixture
def weight() -> Tensor:
    torch.manual_seed(4)
    return torch.rand(4096) * 2 + 0.1


def test_norm_is_found_below_a_multimodal_model(weight: Tensor) -> None:
    part = capturing_model(Outer(Body(RMSNorm(weight))))
    found = final_norm(part)
    assert torch.equal(found.weight, weight)
    assert (found.eps, found.has_zero) == (EPS, False)


def test_gemma_adds_one_to_its_weight(weight: Tensor) -> None:
    assert torch.equal(final_norm(Body(GemmaRMSNorm(weight))).weight, weight + 1)


def test_zero_in_the_weight_is_seen(weight: Tensor) -> None:
    weight[7] = 0
    assert final_norm(Body(RMSNorm(weight))).has_zero
    assert not final_norm(Body(GemmaRMSNorm(weight))).has_zero


def test_norm_of_another_kind_is_refused(weight: Tensor) -> None:
    with pytest.raises(NoFinalNorm, match="the final norm is a LayerNorm, not one of RMSNorm"):
        final_norm(Body(LayerNorm(weight)))


def test_none_or_two_are_refused(weight: Tensor) -> None:
    with pytest.raises(NoFinalNorm, match="0 parts of ModuleList"):
        capturing_model(nn.ModuleList())
    with pytest.raises(NoFinalNorm, match="2 parts of Outer"):
        capturing_model(Outer(Body(RMSNorm(weight)), Body(RMSNorm(weight))))


def test_norming_again_gives_the_state_back_in_float32(weight: Tensor) -> None:
    state = rms(torch.randn(50, 4096) * 10, weight)
    divided = FinalNorm(weight, EPS).over_weight(state)
    assert torch.allclose(rms(divided, weight), state, rtol=1e-5, atol=1e-6)


def test_bfloat16_stays_bfloat16_and_close(weight: Tensor) -> None:
    state = rms((torch.randn(50, 4096) * 10).bfloat16(), weight)
    divided = FinalNorm(weight, EPS).over_weight(state)
    assert divided.dtype == torch.bfloat16
    again = rms(divided, weight)
    assert ((again.float() - state.float()).abs() <= 0.0079 * state.float().abs() + 1e-6).all()


@pytest.mark.parametrize("size", [0.1, 0.01, 0.003, 0.001])
def test_states_hardly_above_epsilon_are_put_right(weight: Tensor, size: float) -> None:
    """Without the correction, 5 % off at 0.01, and wrong at 0.001."""
    state = rms(torch.randn(50, 4096) * size, weight)
    again = rms(FinalNorm(weight, EPS).over_weight(state), weight)
    assert ((again - state).abs() <= 1e-2 * state.abs()).all()


def test_row_of_zeros_stays_finite(weight: Tensor) -> None:
    divided = FinalNorm(weight, EPS).over_weight(torch.zeros(2, 4096))
    assert torch.equal(divided, torch.zeros(2, 4096))
