"""What runs beside the work of a session; should it break, that is said and the work goes on."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Coroutine
from typing import Any, Final

from contracts.records import Severity
from daemon.events import EventLog

_LOG: Final = logging.getLogger("eagle3")


class Helpers:
    """Starts them.

    Args:
        events: Takes what a person should read.
    """

    def __init__(self, events: EventLog) -> None:
        self._events = events

    def start(self, work: Coroutine[Any, Any, None]) -> asyncio.Task[None]:
        """Let something run beside the work."""
        task = asyncio.create_task(work)
        task.add_done_callback(self._ended)
        return task

    async def repeat(self, work: Callable[[], None], every_s: float) -> None:
        """Do something again and again. A fault is told once, until it works again: one failure is not the last try."""
        broken = False
        while True:
            await asyncio.sleep(every_s)
            try:
                work()
            except Exception as fault:  # noqa: BLE001 - the top of this loop
                if not broken:
                    self.broke("a part of the daemon broke, and is tried again", fault)
                broken = True
            else:
                broken = False

    def broke(self, what: str, fault: BaseException) -> None:
        """Tell of a fault of our own."""
        _LOG.error("%s", what, exc_info=fault)
        self._events.emit(Severity.CRITICAL, "daemon.fault", f"{what}: {fault!r}; see daemon.log")

    def _ended(self, task: asyncio.Task[None]) -> None:
        fault = None if task.cancelled() else task.exception()
        if fault is not None:
            self.broke("a part of the daemon broke", fault)
