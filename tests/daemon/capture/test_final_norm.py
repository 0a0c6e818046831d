"""The final norm, judged by numbers: every form and dtype as it should be, every mistake found."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
import pytest

from daemon.capture.final_norm import LastRows, norm_fault
from daemon.store.floats import from_float32, to_float32
from daemon.store.norms import NormWeight, over_weight

Floats = npt.NDArray[np.float32]
DTYPES = ("bfloat16", "float16", "float32")
WIDTH = 512


def states(seed: int = 0, size: float = 3.0, outlier: float = 1.0) -> Floats:
    """Three rows before the norm; one channel may be much larger than the others, as in real models."""
    found = np.random.default_rng(seed).normal(0, size, (3, WIDTH)).astype(np.float32)
    found[:, 7] *= outlier
    return found


def weights(seed: int = 1) -> Floats:
    return np.random.default_rng(seed).uniform(0.3, 9.0, WIDTH).astype(np.float32)


def rounded(values: Floats, dtype: str) -> Floats:
    return to_float32(from_float32(values, dtype), dtype)


def normed(x: Floats, norm: NormWeight, dtype: str = "float32") -> Floats:
    """As a server does it that rounds before it multiplies, too."""
    scale = 1 / np.sqrt(np.mean(np.square(x, dtype=np.float64), axis=1, keepdims=True) + norm.eps)
    return rounded(rounded((x * scale).astype(np.float32), dtype) * norm.weight, dtype)


def judged(last: Floats, norm: NormWeight, form: str, dtype: str = "float32", aux: float = 3.0) -> str | None:
    rows = np.full((len(last), 3, last.shape[1]), aux, np.float32)
    rows[:, -1] = last
    return norm_fault(LastRows.of(rows, dtype, form), norm)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("outlier", [1.0, 60.0, 3_000.0])
@pytest.mark.parametrize("seed", range(4))
def test_what_comes_out_of_the_norm_is_believed(dtype: str, outlier: float, seed: int) -> None:
    norm = NormWeight(rounded(weights(seed + 10), dtype), 1e-6)
    y = normed(states(seed, outlier=outlier), norm, dtype)
    assert judged(y, norm, "post", dtype) is None
    assert judged(rounded(over_weight(y, norm), dtype), norm, "over_weight", dtype) is None


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize(
    ("form", "given", "words"),
    [
        ("post", "before", "before the norm, or like that of another norm"),
        ("over_weight", "before", "before the norm, or like that of another norm"),
        ("post", "over_weight", "('over_weight')"),
        ("over_weight", "post", "('post')"),
    ],
)
def test_another_state_is_refused_with_its_numbers(dtype: str, form: str, given: str, words: str) -> None:
    norm = NormWeight(weights(), 1e-6)
    x = states()
    y = normed(x, norm, dtype)
    last = {"before": x, "post": y, "over_weight": over_weight(y, norm)}[given]
    said = judged(rounded(last, dtype), norm, form, dtype)
    assert said is not None and words in said
    assert "mean square of " in said and "(rows 0 to 2)" in said and "eagle3 server-args RUN" in said


def test_one_row_is_enough() -> None:
    norm = NormWeight(weights(), 1e-6)
    y = normed(states(), norm)
    y[1] *= 1.05
    assert judged(y, norm, "post") is not None


@pytest.mark.parametrize("dtype", DTYPES)
def test_the_weight_of_another_checkpoint_shows(dtype: str) -> None:
    y = normed(states(), NormWeight(weights(1), 1e-6), dtype)
    assert judged(y, NormWeight(weights(2), 1e-6), "post", dtype) is not None


@pytest.mark.parametrize(("dtype", "least"), [("bfloat16", 1e-30), ("float16", 2e-5), ("float32", 1e-30)])
def test_tiny_weights_count_like_others_while_their_values_do_not_underflow(dtype: str, least: float) -> None:
    weight = weights()
    weight[::3] = least
    norm = NormWeight(rounded(weight, dtype), 1e-6)
    y = normed(states(), norm, dtype)
    assert judged(y, norm, "post", dtype) is None
    assert judged(rounded(0.9 * y, dtype), norm, "post", dtype) is not None


@pytest.mark.parametrize("least", [0.0, 1e-7])
def test_channels_that_the_weight_hides_leave_only_what_is_too_large(least: float) -> None:
    weight = weights()
    weight[7] = least
    norm = NormWeight(weight, 1e-6)
    y = normed(states(outlier=60.0), norm, "float16")
    assert judged(y, norm, "post", "float16") is None, "nearly all of the mean square is in the hidden channel"
    assert judged(states(), norm, "post", "float16") is not None


def test_a_weight_near_none_of_gemma_is_the_one_that_multiplies() -> None:
    stored = np.random.default_rng(3).normal(0, 0.4, WIDTH).astype(np.float32)
    norm = NormWeight(1 + stored, 1e-6)
    y = normed(states(), norm, "bfloat16")
    assert judged(y, norm, "post", "bfloat16") is None
    assert judged(y, NormWeight(stored, 1e-6), "post", "bfloat16") is not None


@pytest.mark.parametrize("form", ["post", "over_weight"])
def test_tiny_states_of_a_random_model_are_below_one_and_right(form: str) -> None:
    norm = NormWeight(weights(), 1e-5)
    y = normed(states(size=2e-3), norm)
    last = y if form == "post" else over_weight(y, norm)
    assert judged(last, norm, form, aux=2e-3) is None
    if form == "post":
        assert judged(last, norm, form, aux=3.0) is not None, "not where the layers say that the states are large"


def test_what_is_kept_of_rows() -> None:
    rows: Any = np.ones((2, 3, 4), np.float32)
    rows[1, 0] = 0.5
    kept = LastRows.of(rows, "float32", "post")
    assert (kept.last.shape, kept.least_square) == ((2, 4), 0.25)
