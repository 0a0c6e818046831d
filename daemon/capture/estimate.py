"""Whether a store will fit on its disk: said before the start, and corrected as real lengths come in."""

from __future__ import annotations

from dataclasses import dataclass

from contracts.wording import counted, human_bytes
from daemon.store.sample import RowForm


def store_estimate(tokens: float, form: RowForm) -> int:
    """Return the bytes that the rows of so many tokens take; ids and masks come to less than a thousandth of that."""
    return round(tokens * form.row_bytes)


@dataclass(frozen=True)
class EstimateReport:
    """What the samples that are still to be stored need."""

    samples: int
    """Still to be stored."""
    tokens_per_sample: float
    seen: int
    """Lengths of which that is the mean; 0: an assumption."""
    needed_bytes: int
    free_bytes: int
    """On the disk of the store, without what must stay free."""

    @property
    def missing_bytes(self) -> int:
        """What the disk is too small by; 0: they fit."""
        return max(0, self.needed_bytes - self.free_bytes)

    @property
    def fits(self) -> bool:
        """Whether there is room."""
        return not self.missing_bytes

    @property
    def text(self) -> str:
        """The whole of it in one line."""
        basis = f"mean of {self.seen:,}" if self.seen else "assumed"
        verdict = "" if self.fits else f": {_gigabytes(self.missing_bytes)} too little"
        return (
            f"about {_gigabytes(self.needed_bytes)} needed for {counted(self.samples, 'sample')} of "
            f"{self.tokens_per_sample:,.0f} tokens ({basis}), "
            f"{_gigabytes(self.free_bytes)} free beyond the reserve{verdict}"
        )


def _gigabytes(count: int) -> str:
    """Return a size in both units that people have in mind."""
    if count < 1e7:
        return human_bytes(count)
    shown = f"{count / 1e9:,.0f} GB ({count / 2**30:,.0f} GiB)"
    return shown if count >= 1e10 else f"{count / 1e9:,.2f} GB ({count / 2**30:,.2f} GiB)"
