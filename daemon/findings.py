"""What `eagle3 check` found: the shape of it."""

from __future__ import annotations

from typing import Final

import msgspec

OK: Final = "ok"
WARNING: Final = "warning"
ERROR: Final = "error"


class Finding(msgspec.Struct, kw_only=True, omit_defaults=True):
    """One thing that was looked at."""

    level: str
    what: str
    advice: str | None = None


class Findings(msgspec.Struct):
    """What `eagle3 check --json` prints."""

    findings: list[Finding]
