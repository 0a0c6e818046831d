"""The dumps of probes: none outlives its probe, whatever came of that, and none is ever taken for a sample's."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable
from pathlib import Path
from typing import Final

from contracts.run_config import RunConfig
from daemon.capture.leftovers import remove_dump

LATE_S: Final = 1.0
"""How long after its answer the rows of a probe may come: the plugin writes them in a thread of its own."""
_LOOK_S: Final = 0.02
_LOG: Final = logging.getLogger(__name__)


class ProbeDumps:
    """Removes what probes leave in the dump folder.

    Args:
        folder: The dump folder.
        monotonic: For tests: the clock.
    """

    def __init__(self, folder: Path, monotonic: Callable[[], float] = time.monotonic) -> None:
        self._folder = folder
        self._monotonic = monotonic
        self._awaited: dict[str, float] = {}
        """When each probe ended whose rows may still come, by request id."""

    def over(self, rid: str, *, taken: bool = False) -> None:
        """Remove what an ended probe left, and what came late of those before it.

        Args:
            rid: Of the probe.
            taken: Its dump was there, was looked at and removed: nothing more comes.
        """
        if not taken:
            self._awaited[rid] = self._monotonic()
        self._look()

    async def settle(self) -> None:
        """Wait for what the last probes may still leave, and remove it."""
        while self._awaited and max(self._awaited.values()) + LATE_S >= self._monotonic():
            await asyncio.sleep(_LOOK_S)
            self._look()

    def _look(self) -> None:
        now = self._monotonic()
        for rid, ended_at in list(self._awaited.items()):
            try:
                remove_dump(self._folder, rid)
            except OSError as error:  # the judgement of a probe's rows says that to people, and refuses the server
                _LOG.warning("%s: the dump of a probe cannot be removed: %s", self._folder, error)
            if ended_at + LATE_S < now:
                del self._awaited[rid]


def probe_dumps(config: RunConfig) -> ProbeDumps | None:
    """Return what removes the dumps of a run's probes; None: its probes leave none."""
    return ProbeDumps(Path(config.extract.dump_dir)) if config.extracts else None
