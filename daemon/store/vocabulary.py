"""The draft vocabulary: the ids that are learned most often, and the maps between it and the target's vocabulary."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from daemon.store.layout import StoreError


class TokenCounts:
    """How often each id occurs among the tokens that the trainer learns from."""

    def __init__(self) -> None:
        self._counts = np.zeros(0, np.int64)

    def add(self, ids: npt.NDArray[np.int64], loss_mask: npt.NDArray[np.uint8]) -> None:
        """Count one sample.

        Args:
            ids: [tokens], none negative.
            loss_mask: [tokens].
        """
        counts = np.bincount(ids[loss_mask == 1], minlength=len(self._counts))
        counts[: len(self._counts)] += self._counts
        self._counts = counts

    def frequencies(self) -> dict[int, int]:
        """Return the count of each id that occurs, by id."""
        found = np.flatnonzero(self._counts)
        return dict(zip(found.tolist(), self._counts[found].tolist(), strict=True))

    def most_frequent(self, size: int) -> npt.NDArray[np.int64]:
        """Return the ``size`` most frequent ids, ascending; the lower of two equally frequent ones comes first.

        Where fewer ids occur, the lowest others fill it up: as both trainers do.
        """
        found = np.flatnonzero(self._counts)
        order = np.lexsort((found, -self._counts[found]))
        chosen = found[order[:size]]
        others = np.setdiff1d(np.arange(size), chosen)[: size - len(chosen)]
        return np.sort(np.concatenate((chosen, others))).astype(np.int64)


def vocabulary_maps(
    counts: TokenCounts, draft_vocab_size: int, vocab_size: int
) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.bool_]]:
    """Return ``d2t`` (int64 [draft_vocab_size], target id minus draft id) and ``t2d`` (bool [vocab_size]).

    Raises:
        StoreError: The draft vocabulary is larger than the target's, or an id that occurs is outside of it.
    """
    if draft_vocab_size > vocab_size:
        raise StoreError(
            f"a draft vocabulary of {draft_vocab_size:,} ids does not fit into the target's {vocab_size:,}: lower "
            f"draft_vocab_size in [extract] of run.toml"
        )
    highest = max(counts.frequencies(), default=0)
    if highest >= vocab_size:
        raise StoreError(f"token id {highest} occurs in the store, the model's vocabulary has {vocab_size:,} ids")
    chosen = counts.most_frequent(draft_vocab_size)
    t2d = np.zeros(vocab_size, np.bool_)
    t2d[chosen] = True
    return chosen - np.arange(draft_vocab_size, dtype=np.int64), t2d
