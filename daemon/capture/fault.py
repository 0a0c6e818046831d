"""Why the hidden states of one sample were not stored."""

from __future__ import annotations

from typing import Final

from contracts.records import CaptureCheck

SYSTEMATIC: Final = frozenset(
    {
        CaptureCheck.LAYERS,
        CaptureCheck.NORM,
        CaptureCheck.DTYPE,
        CaptureCheck.HIDDEN_SIZE,
        CaptureCheck.CACHED,
    }
)
"""What comes of how a server was started: the next sample fails in the same way."""


class CaptureFault(Exception):
    """Rows that are not there, or are not those of the sample.

    Attributes:
        check: The check that failed.
        message: What was expected and what was found, with numbers.
        tokens: Rows of the sample, where it is left out for their number and another limit would let it in.
    """

    def __init__(self, check: CaptureCheck, message: str, tokens: int | None = None) -> None:
        super().__init__(check, message)
        self.check = check
        self.message = message
        self.tokens = tokens

    def __str__(self) -> str:
        return self.message

    @property
    def systematic(self) -> bool:
        """Whether another sample would fail the same way."""
        return self.check in SYSTEMATIC
