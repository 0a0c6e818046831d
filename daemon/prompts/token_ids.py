"""Whether lists of token ids and loss masks are what they must be; one bad id can end a server for everybody."""

from __future__ import annotations

from typing import Final

from daemon.prompts.refusals import describe

MAX_TOKEN_ID: Final = 2**31 - 1
"""No vocabulary has more ids (they are 32-bit in every runtime); the limit where the vocabulary is unknown."""


def ids_fault(value: object, key: str = "input_ids") -> str | None:
    """Return why a decoded value is no list of token ids, naming the first bad one; None when it is one."""
    if not isinstance(value, list):
        return f"{key} is {describe(value)}, not a list of token ids"
    if not value:
        return f"{key} is empty: an empty prompt is never sent"
    for position, item in enumerate(value):
        if type(item) is not int:  # bool is an int to isinstance
            return f"{key}[{position}] is {describe(item)}, not an integer"
        if not 0 <= item <= MAX_TOKEN_ID:
            kind = "negative" if item < 0 else "larger than any vocabulary"
            return f"{key}[{position}] is {describe(item)}: {kind}"
    return None


def mask_fault(mask: object, length: int, key: str = "loss_mask") -> str | None:
    """Return why a decoded value is no mask of `length` zeros and ones; None when it is one."""
    if not isinstance(mask, list):
        return f"{key} is {describe(mask)}, not a list of 0 and 1"
    for position, item in enumerate(mask):
        if type(item) is not int or item not in (0, 1):
            return f"{key}[{position}] is {describe(item)}, not 0 or 1"
    if len(mask) != length:
        return f"{key} has {len(mask)} entries for {length} input_ids"
    return None


def vocabulary_fault(ids: list[int], vocab_size: int | None) -> str | None:
    """Return why ids that are integers >= 0 don't fit the vocabulary; None when they do.

    Args:
        ids: At least one.
        vocab_size: Number of ids; None when unknown: then only what no vocabulary has is refused.
    """
    largest = max(ids)
    if largest < (MAX_TOKEN_ID + 1 if vocab_size is None else vocab_size):
        return None
    place = f"input_ids[{ids.index(largest)}] is {describe(largest)}"
    if vocab_size is None:
        return f"{place}: larger than any vocabulary"
    return f"{place}: outside the vocabulary of {vocab_size} (0 to {vocab_size - 1})"
