"""One sample on its way to one server."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from daemon.generate.work_queue import WorkQueue
from daemon.servers.slot import ServerSlot


@dataclass(eq=False, slots=True)
class Attempt:
    """What the scheduler knows of an open attempt."""

    slot: ServerSlot
    queue: WorkQueue[Any]
    entry: Any
    """Of the queue's kind."""
    rid: str
    number: int
    """In the data set's order of sending."""
    life: int
    """Of the server, when it was sent."""
    started: float
    """On the monotonic clock."""
    fruitful: bool = False
    """It has a good answer."""
    silent: bool = False
    """It was given up without any word from the server."""

    @property
    def on_trial(self) -> bool:
        """Whether it is the one suspect that its server is being tried with."""
        return self.slot.trial is self
