"""Events: appended to ``events.jsonl``, written to the log, handed to everybody who follows."""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import AsyncIterator, Callable
from typing import Any, Final

from contracts.clock import Clock
from contracts.records import Event, Severity, encode_line

_LOG: Final = logging.getLogger("eagle3")
_LEVELS: Final = {
    Severity.INFO: logging.INFO,
    Severity.WARNING: logging.WARNING,
    Severity.CRITICAL: logging.ERROR,
}
_QUEUE: Final = 1000


class EventLog:
    """Where everything that an operator would want to read goes through.

    Args:
        append: Takes an encoded line for ``events.jsonl``.
        clock: Gives the times.
        earlier: Events of earlier sessions, for those who ask for the last few.
    """

    def __init__(self, append: Callable[[bytes], None], clock: Clock, earlier: list[Event]) -> None:
        self._append = append
        self._clock = clock
        self._last: deque[Event] = deque(earlier, maxlen=500)
        self._followers: set[asyncio.Queue[Event]] = set()
        self._closed = False

    def emit(
        self,
        severity: Severity,
        kind: str,
        message: str,
        *,
        dataset: str | None = None,
        data: dict[str, Any] | None = None,
    ) -> None:
        """Record one event. Call it on the event loop."""
        # Names of files need not be UTF-8, and come as lone surrogates, which no journal can hold.
        text = message.encode("utf-8", "backslashreplace").decode("utf-8")
        event = Event(
            at=self._clock.now(), severity=severity, kind=kind, message=text, dataset=dataset, data=data or {}
        )
        if self._closed:
            _LOG.warning("too late for events.jsonl: the journals are closed")
        else:
            self._append(encode_line(event))
        self._last.append(event)
        _LOG.log(_LEVELS[severity], "%s: %s", kind, text)
        for follower in self._followers:
            if follower.full():
                follower.get_nowait()  # a follower that does not read loses its oldest, nobody waits for it
            follower.put_nowait(event)

    def close(self) -> None:
        """Append nothing more: the journals are closed. What is still emitted goes to the log and to followers."""
        self._closed = True

    def last(self, count: int) -> list[Event]:
        """Return the newest events, oldest first."""
        return list(self._last)[-count:] if count else []

    async def follow(self, last: int) -> AsyncIterator[Event]:
        """Yield the last events, then without end all that come after."""
        follower: asyncio.Queue[Event] = asyncio.Queue(_QUEUE)
        self._followers.add(follower)
        try:
            for event in self.last(last):
                yield event
            while True:
                yield await follower.get()
        finally:
            self._followers.discard(follower)
