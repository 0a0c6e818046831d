"""Numbers as people type them: ``10M``, ``1.5 M``, ``10_000_000``, ``10,000,000``."""

from __future__ import annotations

import re
from decimal import Decimal
from typing import Final

_NUMBER: Final = re.compile(r"(\d{1,3}(?:[,' ]\d{3})+|\d+)(\.\d+)?\s*([kmgbt]?)", re.IGNORECASE)
_UNITS: Final = {"": 1, "k": 10**3, "m": 10**6, "g": 10**9, "b": 10**9, "t": 10**12}


def natural_from(text: str) -> int | None:
    """Return the whole number that a text means, or None."""
    match = _NUMBER.fullmatch(text.strip().replace("_", ""))
    if match is None:
        return None
    whole = re.sub(r"[,' ]", "", match[1])
    value = Decimal(whole + (match[2] or "")) * _UNITS[match[3].lower()]
    return int(value) if value == int(value) else None
