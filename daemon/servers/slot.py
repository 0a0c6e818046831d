"""One server of a run and what is known of it."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Final

from contracts.run_config import ConfigError
from contracts.run_config import Server as ServerConfig
from daemon.servers.client import SglangClient
from daemon.servers.info import ServerControl
from daemon.servers.line import Line
from daemon.servers.probe import Probe

UNTRIED: Final = "untried"


@dataclass(eq=False)
class ServerSlot:
    """One server and what is known of it."""

    url: str
    client: SglangClient
    control: ServerControl
    line: Line
    """Ends with the process that was probed."""
    state: str = UNTRIED
    """``untried``, then ``ok``, ``starting`` (its own warm-up is not over), ``unready`` (there, but it cannot answer
    yet or any more), ``down`` or ``refused`` (answers, but not as agreed)."""
    reason: str | None = None
    probe: Probe | None = None
    sure: bool = False
    """Whether the process there is known to be the one that was probed: while it is not, nothing is sent."""
    doubted_at: float = 0.0
    """When it last was not any more; monotonic."""
    asked_at: float = 0.0
    """When the last probe that went well began; monotonic."""
    probed_at: float = 0.0
    """When it ended."""
    short_lines: int = 0
    """Lines in a row that the other end closed at once, though the server was there and well."""
    healthy: bool = False
    """Whether it has said so once since it came up."""
    outstanding: int = 0
    busy_since: float = 0.0
    """When the first of the requests that are open now, one after the other, was sent; monotonic."""
    answered_at: float | None = None
    """When its last answer was accepted; monotonic; None: none was in this session."""
    open_rids: set[str] = field(default_factory=set)
    life: int = 0
    """Counts its deaths: a request that began in an earlier life was lost with it."""
    failed_in_a_row: int = 0
    trial: object | None = None
    """The attempt that a suspect of its death is being tried with."""
    trial_since: float = 0.0
    watcher: asyncio.Task[None] | None = None
    lost_check: asyncio.Task[bool] | None = None
    checked_at: float = 0.0
    sick_check: asyncio.Task[bool] | None = None

    def idle_s(self, now: float) -> float:
        """For how many seconds, at the least, no request has been open there; at this monotonic time."""
        return 0.0 if self.outstanding else now - max(self.probed_at, self.busy_since, self.answered_at or 0.0)

    def opened(self, now: float) -> None:
        """A request is sent there, at this monotonic time."""
        if not self.outstanding:
            self.busy_since = now
        self.outstanding += 1

    def answered(self, now: float) -> None:
        """An answer of it is accepted, at this monotonic time."""
        self.failed_in_a_row = 0
        self.answered_at = now


def slot_of(server: ServerConfig, connect_timeout_s: float, on_lost: Callable[[ServerSlot, float], None]) -> ServerSlot:
    """Return the slot of a server of run.toml.

    Args:
        server: Its entry.
        connect_timeout_s: For each connection.
        on_lost: Called when its line ends, given for how many seconds it was there.

    Raises:
        ConfigError: Its key cannot be found.
    """
    url = server.url.rstrip("/")
    key = api_key_of(server)
    line = Line(url, connect_timeout_s, lambda lasted_s: on_lost(slot, lasted_s))
    slot = ServerSlot(url, SglangClient(url, key, connect_timeout_s), ServerControl(url, key), line)
    return slot


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
