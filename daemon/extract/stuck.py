"""Samples that cannot be written into their stores at the moment, and the pause that lasts as long as there are any."""

from __future__ import annotations

import asyncio

from daemon.condition import Condition


class StuckSamples:
    """All of a session, by store.

    Others may be stored meanwhile (a small one fits where a large one does not): that ends no pause.

    Args:
        condition: Pauses the run.
    """

    def __init__(self, condition: Condition) -> None:
        self._condition = condition
        self._said: dict[str, dict[str, str]] = {}
        """By store and request id: why it cannot be written."""
        self._any = asyncio.Event()
        self._ended = False

    def add(self, store: str, rid: str, why: str) -> None:
        """Note that a sample could not be written; it may be noted already."""
        self._said.setdefault(store, {})[rid] = why
        self._any.set()
        self._condition.set_trouble(store, why)

    def discard(self, store: str, rid: str) -> None:
        """Note that nobody tries to write a sample any more: it is stored, or given up, and maybe never was stuck."""
        of_store = self._said.get(store, {})
        if self._ended or of_store.pop(rid, None) is None:
            return
        if not of_store:
            del self._said[store]
        if not self._said:
            self._any.clear()
        self._condition.set_trouble(store, next(iter(of_store.values()), None))

    async def wait(self) -> None:
        """Return when there is one."""
        await self._any.wait()

    def end(self) -> None:
        """The session ends: what is stuck is so until the end, though nobody tries any more."""
        self._ended = True
