"""The servers of a run: which one is used next, which ones are down, when they are back."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Final

from contracts.run_config import ConfigError, RunConfig
from contracts.run_config import Server as ServerConfig
from daemon.servers.client import SglangClient
from daemon.servers.info import ServerControl, ServerUnreachable
from daemon.servers.probe import Probe, probe_server

PROBE_EVERY_S: Final = 2.0
PROBE_EVERY_MOST_S: Final = 15.0
LOST_CHECKS_S: Final = 0.5


@dataclass(eq=False)
class ServerSlot:
    """One server and what is known of it."""

    url: str
    client: SglangClient
    control: ServerControl
    state: str = "unknown"
    """``unknown`` before the first probe, then ``ok``, ``down`` or ``refused`` (answers, but not as agreed)."""
    reason: str | None = None
    probe: Probe | None = None
    outstanding: int = 0
    open_rids: set[str] = field(default_factory=set)
    watcher: asyncio.Task[None] | None = None
    lost_check: asyncio.Task[bool] | None = None


class ServerPool:
    """All servers. Work goes to the least busy one that is ``ok``.

    Args:
        config: The run's configuration.
        on_change: Called with a slot whose state changed, and with the state it had.
        death_verdict_s: How long after a lost connection a dying server may still seem alive; SGLang's processes take
            about five seconds to go.
    """

    def __init__(
        self,
        config: RunConfig,
        on_change: Callable[[ServerSlot, str], None],
        death_verdict_s: float = 6.0,
    ) -> None:
        self._sampling: dict[str, Any] = config.sampling
        self._on_change = on_change
        self._death_verdict_s = death_verdict_s
        self.slots = [_slot(server, config.generate.connect_timeout_s) for server in config.servers]

    async def open(self) -> None:
        """Open the clients and begin to probe; returns at once."""
        for slot in self.slots:
            await slot.client.open()
            self._watch(slot)

    async def close(self) -> None:
        """Stop probing and close all connections."""
        tasks = [task for slot in self.slots for task in (slot.watcher, slot.lost_check) if task is not None]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        for slot in self.slots:
            await slot.client.close()

    def pick(self) -> ServerSlot | None:
        """Return the usable server with the fewest open requests, or None."""
        usable = [slot for slot in self.slots if slot.state == "ok"]
        return min(usable, key=lambda slot: slot.outstanding) if usable else None

    @property
    def probes(self) -> list[Probe]:
        """What the usable servers say of themselves."""
        return [slot.probe for slot in self.slots if slot.probe is not None and slot.state == "ok"]

    def outstanding(self, url: str) -> int | None:
        """Return the open requests at a server."""
        return next((slot.outstanding for slot in self.slots if slot.url == url), None)

    async def died(self, slot: ServerSlot, *, refused: bool) -> bool:
        """Return whether a lost connection meant the death of the server; marks it as down if so.

        One check serves all requests that were lost together.
        """
        if slot.state == "down":
            return True
        if slot.lost_check is None or slot.lost_check.done():
            slot.lost_check = asyncio.create_task(self._check_lost(slot, 1.0 if refused else self._death_verdict_s))
        return await asyncio.shield(slot.lost_check)

    async def _check_lost(self, slot: ServerSlot, for_s: float) -> bool:
        loop = asyncio.get_running_loop()
        deadline = loop.time() + for_s
        while True:
            try:
                await asyncio.to_thread(slot.control.model_info)
            except ServerUnreachable as error:
                if not error.timed_out:
                    self.mark_down(slot, error.why)
                    return True
            if loop.time() >= deadline:
                return False
            await asyncio.sleep(min(LOST_CHECKS_S, for_s / 4))

    def mark_down(self, slot: ServerSlot, why: str) -> None:
        """Send nothing more there until a probe succeeds."""
        if slot.state != "down":
            self._change(slot, "down", why)
        if slot.watcher is None or slot.watcher.done():
            self._watch(slot)

    def _watch(self, slot: ServerSlot) -> None:
        slot.watcher = asyncio.create_task(self._probe_until_ok(slot))

    async def _probe_until_ok(self, slot: ServerSlot) -> None:
        wait = PROBE_EVERY_S / 8
        while True:
            probe = await probe_server(slot.control, slot.client, self._sampling)
            slot.probe = probe
            if probe.refusal is None:
                self._change(slot, "ok", None)
                return
            self._change(slot, "refused" if probe.reachable else "down", probe.refusal)
            await asyncio.sleep(wait)
            wait = min(wait * 2, PROBE_EVERY_S if wait < PROBE_EVERY_S else PROBE_EVERY_MOST_S)

    def _change(self, slot: ServerSlot, state: str, reason: str | None) -> None:
        before, reason_before = slot.state, slot.reason
        slot.state, slot.reason = state, reason
        if (state, reason) != (before, reason_before):
            self._on_change(slot, before)


def _slot(server: ServerConfig, connect_timeout_s: float) -> ServerSlot:
    url = server.url.rstrip("/")
    key = api_key_of(server)
    return ServerSlot(url, SglangClient(url, key, connect_timeout_s), ServerControl(url, key))


def api_key_of(server: ServerConfig) -> str | None:
    """Return a server's key, from the file or from the environment variable that it names.

    Raises:
        ConfigError: The variable is not set.
    """
    if server.api_key_env is None:
        return server.api_key
    key = os.environ.get(server.api_key_env)
    if not key:
        raise ConfigError(f"[[servers]] {server.url}: the environment variable {server.api_key_env} is not set")
    return key
