"""Dumps on their way out of the dump folder, off the event loop: to free the memory of a large one takes a while."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable
from functools import partial
from pathlib import Path

from daemon.capture.leftovers import remove_dump
from daemon.threads import in_thread


class Removals:
    """Removes dumps one after the other, in a thread.

    Args:
        folder: The dump folder.
        gone: Told of each, on the loop: its request id, and why it could not be removed, or None.
    """

    def __init__(self, folder: Path, gone: Callable[[str, Exception | None], None]) -> None:
        self._folder = folder
        self._gone = gone
        self._rids: deque[str] = deque()
        self._task: asyncio.Task[None] | None = None

    def __contains__(self, rid: str) -> bool:
        """Whether the dump of a request is about to be removed."""
        return rid in self._rids

    def add(self, rid: str) -> None:
        """Have the dump of a request removed, soon."""
        self._rids.append(rid)
        if self._task is None or self._task.done():
            self._task = asyncio.get_running_loop().create_task(self._run())

    async def _run(self) -> None:
        while self._rids:
            rid, why = self._rids[0], None
            try:
                await in_thread(partial(remove_dump, self._folder, rid), "dump-remove")
            except (OSError, RuntimeError) as error:  # RuntimeError: the system has no thread to give
                why = error
            self._rids.popleft()
            self._gone(rid, why)

    async def end(self, wait_s: float) -> None:
        """Let it finish, for a while; what is left then is found by the next start."""
        if self._task is None:
            return
        await asyncio.wait({self._task}, timeout=wait_s)
        self._task.cancel()
        await asyncio.gather(self._task, return_exceptions=True)
