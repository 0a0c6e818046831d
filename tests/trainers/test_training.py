"""The last slot of a speculators store, through the trainer's own norm and head, and real steps of its training.

It applies the verifier's final norm itself, SGLang hands over the state behind it: the store holds that state divided
by the norm's weight. Its RMSNorm rounds to bfloat16 before it multiplies by the weight, so that it cannot give back
every state exactly, not even from the true state before the norm: measured against that here.
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any, Final

import numpy as np
import numpy.typing as npt
import pytest

from daemon.store.dataset_files import write_dataset_files
from daemon.store.floats import from_float32, to_float32
from daemon.store.layouts import make_layout
from daemon.store.norms import NormWeight, over_weight
from tests.support.known_samples import VOCAB, Known, known_samples, write_store
from tests.trainers.trainer_process import Trainer

Floats = npt.NDArray[np.float32]

HIDDEN: Final = 256
LENGTHS: Final = (40, 128, 90)
EPS: Final = 1e-5
DTYPE: Final = "bfloat16"
_SIZE: Final = 1.3
"""Of the states before the norm: not 1, where bfloat16 states times 1 / rms all round back the same way."""
ULP: Final = 2.0**-7
"""Largest distance of neighbours in bfloat16, relative to them."""


def rounded(values: Floats) -> Floats:
    """Return values as bfloat16 holds them."""
    return to_float32(from_float32(values, DTYPE), DTYPE)


def final_norm(states: Floats, weight: Floats) -> Floats:
    """Return the state behind the final norm as SGLang's kernels compute it: in float32, rounded once."""
    mean_square = np.mean(np.square(states), axis=1, keepdims=True)
    return rounded(states / np.sqrt(mean_square + EPS) * weight)


def weight_of(kind: str) -> Floats:
    """Return a norm's weight, representable in bfloat16 as models store it."""
    random = np.random.default_rng(5)
    if kind == "powers of two":
        return (2.0 ** random.integers(-2, 3, HIDDEN)).astype(np.float32)
    return rounded((2.5 + 0.4 * random.standard_normal(HIDDEN)).astype(np.float32))


class Stores:
    """One set of samples, with different things in the last slot of its stores."""

    def __init__(self, trainer: Trainer, folder: Path, kind: str, size: float = _SIZE) -> None:
        self._trainer, self._folder = trainer, folder
        self._samples = known_samples(DTYPE, "over_weight", LENGTHS, HIDDEN)
        self.norm = NormWeight(weight_of(kind), EPS)
        random = np.random.default_rng(6)
        self.before = [rounded(size * random.standard_normal((n, HIDDEN)).astype(np.float32)) for n in LENGTHS]
        self.after = [final_norm(states, self.norm.weight) for states in self.before]
        np.save(folder / "weight.npy", self.norm.weight)
        np.save(folder / "after.npy", from_float32(np.concatenate(self.after), DTYPE))
        self.verifier = folder / "verifier"
        trainer.ask("make_verifier", folder=str(self.verifier), weight=f"{folder}/weight.npy", eps=EPS, vocab=VOCAB)

    def write(self, name: str, last: list[Floats]) -> Path:
        """Write a store with these values in the last slot."""
        folder = self._folder / name
        samples = [self._with(known, values) for known, values in zip(self._samples, last, strict=True)]
        records = write_store("speculators", folder, samples)
        layout = make_layout("speculators", folder)
        write_dataset_files(layout, folder, records, draft_vocab_size=None, vocab_size=None, norm=self.norm)
        return folder

    def teacher(self, name: str, last: list[Floats]) -> dict[str, Any]:
        """Return how the trainer's teacher differs from the true one; see loaders/speculators_model.py."""
        store = self.write(name, last)
        found: dict[str, Any] = self._trainer.ask(
            "teacher", verifier=str(self.verifier), folder=str(store), post=f"{self._folder}/after.npy"
        )
        return found

    def _with(self, known: Known, last: Floats) -> Known:
        bits = known.bits.copy()
        bits[:, -1] = from_float32(last, DTYPE)
        return replace(known, bits=bits)


def divided(stores: Stores) -> list[Floats]:
    """Return what our stores hold."""
    return [over_weight(states, stores.norm) for states in stores.after]


def test_teacher_logits_are_bit_equal_where_the_weight_divides_exactly(speculators: Trainer, tmp_path: Path) -> None:
    stores = Stores(speculators, tmp_path, "powers of two")
    found = stores.teacher("ours", divided(stores))
    assert (found["equal_states"], found["equal_logits"], found["argmax"]) == (1.0, 1.0, 1.0)
    assert found["argmax_of_post_in_this_slot"] < 0.8  # the common mistake, which nothing notices


def test_with_any_weight_the_teacher_is_closer_than_from_the_state_before_the_norm(
    speculators: Trainer, tmp_path: Path
) -> None:
    stores = Stores(speculators, tmp_path, "as in a model")
    ours = stores.teacher("ours", divided(stores))
    true = stores.teacher("before the norm", stores.before)
    assert ours["largest_error"] <= ULP
    assert ours["equal_states"] > max(0.85, true["equal_states"])
    assert ours["equal_logits"] > true["equal_logits"]
    assert ours["largest_logit_error"] <= 2 * ULP * ours["largest_logit"]
    # Where it names another token, two logits were the same or neighbours.
    assert ours["worst_choice"] <= ULP * ours["largest_logit"]
    assert ours["argmax"] > 0.98
    assert ours["argmax_of_post_in_this_slot"] < 0.9


@pytest.mark.parametrize("size", [0.01, 0.003])
def test_states_hardly_larger_than_eps_come_back_too(speculators: Trainer, tmp_path: Path, size: float) -> None:
    """There y / w alone has not the mean square 1, and the trainer's norm would scale it: the correction is needed."""
    stores = Stores(speculators, tmp_path, "as in a model", size)
    plain = [rounded(states / stores.norm.weight) for states in stores.after]
    assert stores.teacher("uncorrected", plain)["largest_error"] > 0.02
    assert stores.teacher("ours", divided(stores))["largest_error"] <= 2 * ULP


def test_training_on_a_store_lowers_the_loss(speculators: Trainer, tmp_path: Path) -> None:
    stores = Stores(speculators, tmp_path, "as in a model")
    store = stores.write("ours", divided(stores))
    losses = speculators.ask("train", verifier=str(stores.verifier), folder=str(store), layers=3, steps=8)
    assert np.isfinite(losses).all()
    assert losses[-1] < 0.7 * losses[0]
