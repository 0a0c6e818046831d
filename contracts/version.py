"""Which version of eagle3-tui this is."""

from __future__ import annotations

from functools import cache

DISTRIBUTION = "eagle3-tui"


@cache
def version() -> str:
    """Return the installed version, or ``unknown`` when run from files that were never installed."""
    # Late: this import alone costs a tenth of what `eagle3 status` may take.
    from importlib import metadata

    try:
        return metadata.version(DISTRIBUTION)
    except metadata.PackageNotFoundError:
        return "unknown"
