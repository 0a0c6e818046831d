"""Remaining work and time, as pure functions. Unknown is None; finished is 0."""

from __future__ import annotations

from contracts.eta.estimate import DONE, Eta, later, unknown
from contracts.eta.left import Conditions, Part
from contracts.eta.model import Forecast, forecast
from contracts.eta.storing import (
    Storing,
    bytes_to_store,
    is_stored,
    samples_to_store,
    storing_eta,
    tokens_to_store,
)
from contracts.eta.work import Work, answers_to_come, is_finished, remaining_tokens

__all__ = [
    "DONE",
    "Conditions",
    "Eta",
    "Forecast",
    "Part",
    "Storing",
    "Work",
    "answers_to_come",
    "bytes_to_store",
    "forecast",
    "is_finished",
    "is_stored",
    "later",
    "remaining_tokens",
    "samples_to_store",
    "storing_eta",
    "tokens_to_store",
    "unknown",
]
