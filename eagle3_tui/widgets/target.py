"""What the cursor of the main screen is on."""

from __future__ import annotations

from dataclasses import dataclass

from contracts.status import AlertStatus


@dataclass(frozen=True)
class Target:
    """An alert, or a data set. ``Enter`` goes to it."""

    dataset: str | None
    """The data set, or the one that the alert is about; None for an alert about the whole run."""
    alert: AlertStatus | None = None
