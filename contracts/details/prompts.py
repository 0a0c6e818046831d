"""How long the prompts of a data set are, from a bounded look at its prompt file: ids are counted, not decoded."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Final

import msgspec

from contracts.details.lengths import LengthSteps, length_steps
from contracts.details.windows import lines_before
from contracts.fold.lengths import Lengths
from contracts.fold.run import RunFold
from contracts.run_dir import PROMPTS

WINDOWS: Final = 16
"""Stretches of a long file that are looked at, evenly spread."""
WINDOW: Final = 512 * 1024
"""Bytes of each; a file that is no longer than all of them is read as a whole."""
_IDS: Final = re.compile(rb'"input_ids" ?: ?\[([^\]]*)\]')


class PromptLengths(msgspec.Struct, frozen=True):
    """Lengths of prompts in tokens; of pre-tokenized ones with the answer that they bring."""

    steps: LengthSteps | None
    """None: no line that was looked at holds token ids."""
    looked_at: int
    """Prompts that were counted: all, or those in some stretches of the file."""


def prompt_lengths(fold: RunFold, now: float, name: str) -> PromptLengths | None:
    """Return the lengths of a data set's prompts; None when the run has no data set of that name.

    Args:
        fold: Of the run.
        now: The present; prompts have no times.
        name: Of the data set.

    Raises:
        OSError: The prompt file cannot be read.
    """
    dataset = fold.datasets.get(name)
    if dataset is None:
        return None
    position = dataset.tails[PROMPTS].position
    return lengths_in(dataset.folder.prompts, 0 if position is None else position.offset)


def lengths_in(path: Path, size: int) -> PromptLengths:
    """Return the lengths of the prompts in the first ``size`` bytes of a file, or of some of them.

    Raises:
        OSError: The file cannot be read.
    """
    ends = [size] if size <= WINDOWS * WINDOW else [size * (number + 1) // WINDOWS for number in range(WINDOWS)]
    most = WINDOWS * WINDOW if len(ends) == 1 else WINDOW
    lengths = Lengths()
    for end in ends:
        found = (_IDS.search(line.text) for line in lines_before(path, end, 1 << 30, most).lines)
        lengths.add([_count(match[1]) for match in found if match is not None])
    return PromptLengths(length_steps(lengths), lengths.total)


def _count(ids: bytes) -> int:
    """The ids in what stands between the brackets."""
    return ids.count(b",") + 1 if ids.strip() else 0
