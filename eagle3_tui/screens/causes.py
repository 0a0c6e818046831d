"""Where Enter goes: the screen on which the cause of an alert, or all of a data set, is to be seen."""

from __future__ import annotations

from typing import Final

from contracts.details.journal import EVENTS, LOG
from eagle3_tui.feed.state import Feed
from eagle3_tui.screens.dataset import DatasetScreen
from eagle3_tui.screens.detail import Ask, DetailScreen
from eagle3_tui.screens.failures import FailuresScreen
from eagle3_tui.screens.journal import JournalScreen
from eagle3_tui.screens.servers import ServersScreen
from eagle3_tui.widgets.look import Look
from eagle3_tui.widgets.target import Target

_FAILURES: Final = frozenset(
    {
        "dataset_halted", "extract_halted", "failure_share", "not_stored", "prompts_failed", "prompts_refused",
        "quarantined",
    }
)  # fmt: skip
_SERVERS: Final = frozenset({"no_progress", "server_down", "server_refused", "slow", "slow_requests"})
_LOG: Final = frozenset({"daemon_gone", "heartbeat_stale", "telemetry_stale"})


def screen_for(target: Target, look: Look, feed: Feed, ask: Ask | None) -> DetailScreen:
    """Return the screen that shows more of what the cursor is on."""
    code = None if target.alert is None else target.alert.code
    if code in _FAILURES:
        return FailuresScreen(look, feed, target.dataset, ask)
    if code in _SERVERS:
        return ServersScreen(look, feed)
    if target.dataset is not None:
        return DatasetScreen(look, feed, target.dataset, ask)
    return JournalScreen(look, feed, LOG if code in _LOG else EVENTS)
