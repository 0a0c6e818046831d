"""The identity of a sample, as files of many tools write it.

The rule: two ids are the same sample when their text is the same. ``7`` and ``"7"`` are one sample, because a single
round trip through another tool's JSON turns one into the other; ``0`` is an id like any other; integers keep every
digit. What is written is the id as the prompt file had it.
"""

from __future__ import annotations

SampleId = str | int


def sample_key(sample_id: SampleId) -> bytes:
    """Return the key under which a sample is known in sets and folds: its text in UTF-8.

    A lone half of a surrogate pair (legal as an escape in JSON) is kept apart from other text by its raw three bytes.
    """
    return str(sample_id).encode("utf-8", "surrogatepass")
