"""Sees that the run folder is where it was, and pauses the run while it is not."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from contracts.run_place import RunPlace
from daemon.condition import RUN_FOLDER, Condition

PLACE_EVERY_S: Final = 0.1


class PlaceWatch:
    """Looks at a run folder whenever it is asked to.

    Args:
        place: The run folder.
        condition: Told when it is not there.
        wake: Called when that has changed: something may be sent again.
        stop: Called when it was deleted: there is no way back, and nobody could reach the daemon any more.
    """

    def __init__(
        self, place: RunPlace, condition: Condition, wake: Callable[[], None], stop: Callable[[], None]
    ) -> None:
        self._place = place
        self._condition = condition
        self._wake = wake
        self._stop = stop
        self._missed = False
        """The last look found it gone. One is not enough: an editor takes run.toml away for a moment."""

    def look(self) -> None:
        """Look once. The second look in a row that does not find it pauses the run."""
        trouble = self._place.trouble()
        missed, self._missed = self._missed, trouble is not None
        if trouble is not None and not missed:
            return
        if trouble != self._condition.away:
            self._condition.set_trouble(RUN_FOLDER, trouble)
            self._wake()
        if trouble is not None and self._place.is_deleted:
            self._stop()
