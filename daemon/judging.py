"""Judges a server by its probe: the rules of the run first, then the hidden states that the probe left; and tidies."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

from contracts.run_config import RunConfig
from daemon.capture.probe_dumps import ProbeDumps, probe_dumps
from daemon.servers.probe import Probe


class Judging:
    """What `daemon.servers.pool.ServerPool` asks of servers that speak as agreed, and tells of its probes.

    Args:
        config: The run's configuration.
        rules: Returns why a server is not to be used, whatever its rows are, or None.
    """

    def __init__(self, config: RunConfig, rules: Callable[[Probe], str | None]) -> None:
        self._rules = rules
        self._dumps: ProbeDumps | None = probe_dumps(config)
        self._taken: set[str] = set()
        """Probes that are not over, and whose rows were looked at and taken away."""
        self.rows: Callable[[Probe], Awaitable[str | None]] | None = None
        """Returns why a server's hidden states cannot be used, or None; None: none are wanted."""

    async def objection(self, probe: Probe) -> str | None:
        """Return why a server that speaks as agreed is not to be used all the same, or None."""
        found = self._rules(probe)
        if found is None and self.rows is not None:
            found = await self.rows(probe)
            if probe.rows_seen:
                self._taken.add(probe.rid)
        return found

    def probed(self, rid: str) -> None:
        """A probe is over, whatever came of it: what it left is removed."""
        if self._dumps is not None:
            self._dumps.over(rid, taken=rid in self._taken)
            self._taken.discard(rid)

    async def settle(self) -> None:
        """Wait for what the last probes may still leave, and remove it."""
        if self._dumps is not None:
            await self._dumps.settle()
