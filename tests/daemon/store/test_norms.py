"""From one form of the last hidden state to the other, against a trainer's own RMSNorm."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from daemon.store.floats import from_float32, to_float32
from daemon.store.norms import NormError, NormWeight, divide, multiply, over_weight, post
from tests.daemon.store.store_samples import BytesRows, make_sample, raw

HIDDEN = 1024
TORCH = {"bfloat16": torch.bfloat16, "float16": torch.float16, "float32": torch.float32}


def make_norm(eps: float = 1e-5, hidden: int = HIDDEN) -> NormWeight:
    weight = np.random.default_rng(5).uniform(0.3, 2.5, hidden).astype(np.float32)
    return NormWeight(weight, eps)


def rms_norm(x: torch.Tensor, norm: NormWeight) -> torch.Tensor:
    """As transformers' LlamaRMSNorm: in float32, rounded to the input's dtype before the weight."""
    wide = x.float()
    wide = wide * torch.rsqrt(wide.pow(2).mean(-1, keepdim=True) + norm.eps)
    return torch.from_numpy(norm.weight).to(x.dtype) * wide.to(x.dtype)


def states(dtype: torch.dtype, scale: float = 1.0) -> torch.Tensor:
    generator = torch.Generator().manual_seed(3)
    return (torch.randn(40, HIDDEN, generator=generator) * scale).to(dtype)


def bits(tensor: torch.Tensor) -> np.ndarray:
    return tensor.view({2: torch.uint16, 4: torch.uint32}[tensor.element_size()]).numpy()


def converted(y: torch.Tensor, norm: NormWeight, dtype: str) -> torch.Tensor:
    """Through the arithmetic of the store, rounded as it is stored."""
    stored = from_float32(over_weight(to_float32(bits(y), dtype), norm), dtype)
    return torch.from_numpy(stored.copy()).view(TORCH[dtype])


def worst(found: torch.Tensor, wanted: torch.Tensor) -> float:
    """Largest difference of a row, relative to the row's rms."""
    found, wanted = found.double(), wanted.double()
    return float(((found - wanted).abs().amax(-1) / wanted.pow(2).mean(-1).sqrt()).max())


@pytest.mark.parametrize("dtype", ["bfloat16", "float16", "float32"])
def test_bits_and_values(dtype: str) -> None:
    special = [0.0, -0.0, float("inf"), float("-inf"), float("nan"), 1.0, -2.5, 3e38, 65504.0, 65520.0, 1e-40, 1e-7]
    generator = torch.Generator().manual_seed(1)
    values = torch.cat((torch.tensor(special), torch.randn(5000, generator=generator) * 10))
    halfway = torch.tensor([1 + 2**-8, 1 + 3 * 2**-8, 1 + 2**-11, 1 + 3 * 2**-11])
    values = torch.cat((values, halfway))
    wanted = values.to(TORCH[dtype])
    found = torch.from_numpy(from_float32(values.numpy(), dtype).copy()).view(TORCH[dtype])
    nan = wanted.isnan()
    assert torch.equal(nan, found.isnan())
    assert torch.equal(found[~nan], wanted[~nan])
    assert np.array_equal(to_float32(bits(wanted), dtype), wanted.float().numpy(), equal_nan=True)


@pytest.mark.parametrize("payload", [0x7F800001, 0x7FFFFFFF, 0xFF800001, 0xFFFFFFFF])
def test_every_nan_stays_one(payload: int) -> None:
    value = np.array([payload], np.uint32).view(np.float32)
    assert np.isnan(to_float32(from_float32(value, "bfloat16"), "bfloat16")).all()


@pytest.mark.parametrize(("dtype", "within"), [("float32", 1e-5), ("float16", 5e-3), ("bfloat16", 4e-2)])
def test_the_norm_of_y_over_w_is_y(dtype: str, within: float) -> None:
    norm = make_norm()
    y = rms_norm(states(TORCH[dtype]), norm)
    over = converted(y, norm, dtype)
    assert worst(rms_norm(over, norm), y) < within
    assert worst(y, rms_norm(y, norm)) > 0.2  # the common mistake: y itself in that slot


def test_most_values_come_back_bit_equal_in_bfloat16() -> None:
    norm = make_norm()
    y = rms_norm(states(torch.bfloat16), norm)
    back = rms_norm(converted(y, norm, "bfloat16"), norm)
    assert (back == y).float().mean() > 0.7
    assert ((back.float() - y.float()).abs() / y.float().abs().clamp_min(1e-9)).max() <= 1.5e-2


@pytest.mark.parametrize("rms", [1e-1, 3e-2, 1e-2, 3e-3, 1e-3, 3e-4])
def test_tiny_states(rms: float) -> None:
    """Where mean(x^2) is not far above eps, y / w alone fails: 5 % at an rms of 0.01, wrong at 0.001."""
    norm = make_norm(eps=1e-5)
    x = states(torch.float32, scale=rms)
    y = rms_norm(x, norm)
    plain = y / torch.from_numpy(norm.weight)
    if rms <= 1e-2:
        assert worst(rms_norm(plain, norm), y) > 2e-2
    over = converted(y, norm, "float32")
    assert worst(rms_norm(over, norm), y) < 1e-2
    if rms <= 1e-2:
        assert worst(over, x) < 1e-2  # scaled, it is the state before the norm


def test_there_and_back() -> None:
    norm = make_norm()
    for scale in (1.0, 3e-2, 1e-2, 1e-3, 1e-5):
        y = rms_norm(states(torch.float32, scale=scale), norm).numpy()
        assert np.allclose(post(over_weight(y, norm), norm), y, rtol=2e-3, atol=1e-6), scale
    zero = np.zeros((2, HIDDEN), np.float32)
    assert np.array_equal(post(over_weight(zero, norm), norm), zero)


@pytest.mark.parametrize("dtype", ["bfloat16", "float16", "float32"])
@pytest.mark.parametrize("at_once", [1, 3, 100])
def test_only_the_last_slot_changes(dtype: str, at_once: int) -> None:
    norm = make_norm(hidden=8)
    sample = make_sample(dtype=dtype, at_once=at_once)
    before = raw(sample)
    there = divide(sample.rows, sample.form, norm)
    assert there.tokens == len(sample.ids)
    divided = b"".join(there.blocks())
    assert raw(sample) == before and len(divided) == len(before)
    rows = np.frombuffer(divided, "<u4" if dtype == "float32" else "<u2").reshape(-1, 4, 8)
    assert np.array_equal(rows[:, :3], sample.rows.data[:, :3])
    wanted = from_float32(over_weight(to_float32(sample.rows.data[:, 3], dtype), norm), dtype)
    assert np.array_equal(rows[:, 3], wanted)
    back = multiply(BytesRows(rows), sample.form, norm)
    again = np.frombuffer(b"".join(back.blocks()), rows.dtype).reshape(-1, 4, 8)
    assert np.array_equal(again[:, :3], sample.rows.data[:, :3])


def test_norms_that_cannot_be_used() -> None:
    rows = np.ones((2, 4), np.float32)
    weight = np.array([1, 0, 1, 1], np.float32)
    with pytest.raises(NormError, match="has a zero"):
        over_weight(rows, NormWeight(weight, 1e-5))
    assert post(rows, NormWeight(weight, 1e-5))[0].tolist() == [1, 0, 1, 1]
    with pytest.raises(NormError, match="5 weights, the rows have 4"):
        over_weight(rows, NormWeight(np.ones(5, np.float32), 1e-5))
    with pytest.raises(NormError, match="not finite"):
        over_weight(rows, NormWeight(np.array([1, np.nan, 1, 1], np.float32), 1e-5))


def test_values_too_large_for_the_dtype_are_named() -> None:
    sample = make_sample(dtype="float16")
    norm = NormWeight(np.full(8, 1e-6, np.float32), 1e-5)
    with pytest.raises(NormError, match="among 0 to 2 is not finite in the other form of the norm, as float16"):
        list(divide(sample.rows, sample.form, norm).blocks())
