from __future__ import annotations

from daemon.capture.estimate import EstimateReport, store_estimate
from daemon.store.sample import RowForm

FORM = RowForm((1, 15, 28), 4096, "bfloat16", "post")
GB = 1_000_000_000


def _report(samples: int, mean: float, seen: int, free: int) -> EstimateReport:
    return EstimateReport(samples, mean, seen, store_estimate(samples * mean, FORM), free)


def test_case_54_said_before_the_start() -> None:
    """10 000 samples of 2 000 tokens, width 4096, 4 blocks of layers, bf16, 200 GB free."""
    report = _report(10_000, 2_000, 0, 200 * GB)
    assert report.needed_bytes == 655_360_000_000
    assert not report.fits
    assert report.text == (
        "about 655 GB (610 GiB) needed for 10,000 samples of 2,000 tokens (assumed), 200 GB (186 GiB) free beyond "
        "the reserve: 455 GB (424 GiB) too little"
    )


def test_case_54_corrected_as_lengths_come_in() -> None:
    report = _report(9_900, 500, 100, 200 * GB)
    assert report.fits
    assert report.text == (
        "about 162 GB (151 GiB) needed for 9,900 samples of 500 tokens (mean of 100), 200 GB (186 GiB) free beyond "
        "the reserve"
    )


def test_it_fits_to_the_last_byte() -> None:
    needed = store_estimate(1_000_000, FORM)
    assert _report(1000, 1000, 0, needed).fits
    assert (_report(1000, 1000, 0, needed - 1).fits, _report(1000, 1000, 0, needed - 1).missing_bytes) == (False, 1)


def test_small_stores_keep_their_digits() -> None:
    assert "about 0.33 GB (0.31 GiB) needed for 10 samples" in _report(10, 1000, 0, 9 * GB).text
    assert "about 0 B needed for 0 samples" in _report(0, 1000, 0, 9 * GB).text
