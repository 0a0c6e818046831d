"""A connection to a server over which nothing is said: it ends when the process at its other end does.

Whoever listens at a port later answers just as well, so no request tells that the process is another one. A connection
does: the system closes it with its process, before another process can listen there. SGLang's HTTP server leaves a
connection alone on which nothing was asked yet; a proxy that closes such ones costs a probe each time.
"""

from __future__ import annotations

import asyncio
import itertools
import os
import socket
from collections.abc import Callable
from typing import Any, Final
from urllib.parse import urlsplit

from daemon.servers.client import ConnectionLostError

_KEEP_ALIVE: Final = (("TCP_KEEPIDLE", 5), ("TCP_KEEPINTVL", 5), ("TCP_KEEPCNT", 3))
"""A machine that is gone closes nothing: the system asks it after 5 s of silence, and three times."""
_NUMBERS: Final = itertools.count(1)


class Line:
    """The line to one server; used on one event loop.

    Args:
        url: Root of the server.
        timeout_s: For the connection.
        on_lost: Called when it ends without `close`; given for how many seconds it was there.
    """

    def __init__(self, url: str, timeout_s: float, on_lost: Callable[[float], None]) -> None:
        self._address = urlsplit(url)
        self._timeout_s = timeout_s
        self._on_lost = on_lost
        self._end: _End | None = None
        self._opening = asyncio.Lock()

    @property
    def number(self) -> int | None:
        """Of the connection that is there, each with its own; None: none is."""
        return None if self._end is None else self._end.number

    async def open(self) -> int:
        """Connect where there is no connection; return the number of the one that is there then.

        Raises:
            ConnectionLostError: It cannot be made, or ended at once.
        """
        async with self._opening:
            if self._end is not None:
                return self._end.number
            end = await self._connect()
            if end.over:
                raise ConnectionLostError("the connection was closed as soon as it was made", refused=False)
            self._end = end
            return end.number

    def close(self) -> None:
        """End it; nobody is told."""
        end, self._end = self._end, None
        if end is not None and end.transport is not None:
            end.transport.abort()

    async def _connect(self) -> _End:
        secure = self._address.scheme == "https"
        loop = asyncio.get_running_loop()
        try:
            async with asyncio.timeout(self._timeout_s):
                _, end = await loop.create_connection(
                    lambda: _End(self._lost),
                    self._address.hostname or "",
                    self._address.port or (443 if secure else 80),
                    ssl=secure or None,
                )
        except TimeoutError:
            raise ConnectionLostError(f"no connection within {self._timeout_s:g} s", refused=True) from None
        except (OSError, ValueError) as error:  # a port that is none
            number = error.errno if isinstance(error, OSError) else None
            said = os.strerror(number) if number else str(error)
            raise ConnectionLostError(f"no connection: {said}", refused=True) from error
        return end

    def _lost(self, end: _End) -> None:
        if end is self._end:
            self._end = None
            self._on_lost(asyncio.get_running_loop().time() - end.since)


class _End(asyncio.Protocol):
    """Our end of one connection."""

    def __init__(self, on_lost: Callable[[_End], None]) -> None:
        self.number = next(_NUMBERS)
        self.since = 0.0
        """When it was made; time of the loop."""
        self.over = False
        self.transport: asyncio.Transport | None = None
        self._on_lost = on_lost

    def connection_made(self, transport: Any) -> None:
        self.transport = transport
        self.since = asyncio.get_running_loop().time()
        own = transport.get_extra_info("socket")
        own.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
        for name, value in _KEEP_ALIVE:
            own.setsockopt(socket.IPPROTO_TCP, getattr(socket, name), value)

    def connection_lost(self, exc: Exception | None) -> None:
        self.over = True
        self._on_lost(self)
