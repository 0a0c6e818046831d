"""``POST /generate`` over aiohttp: one request, one answer, every way to fail named."""

from __future__ import annotations

import math
from contextlib import suppress
from typing import Final

import aiohttp
import msgspec
from yarl import URL

from daemon.servers.deadlines import DeadlineError, Deadlines

KEEP_ALIVE_S: Final = 4.0
"""Idle connections are dropped before SGLang drops them (5 s): a reused one that is being closed looks like a crash."""

ABORT_TIMEOUT_S: Final = 5.0


class ConnectionLostError(Exception):
    """The connection could not be made, or ended without a whole answer."""

    def __init__(self, why: str, *, refused: bool) -> None:
        super().__init__(why)
        self.refused = refused
        """Nothing listens there at all: the request was never taken."""


class AnswerTimeoutError(Exception):
    """No whole answer within the time; the server may still be working on it."""


class Answer(msgspec.Struct, frozen=True, gc=False):
    """What came back."""

    status: int
    body: bytes
    retry_after_s: float | None


class SglangClient:
    """Connections to one server. As many at a time as there are calls: the scheduler bounds them.

    Args:
        url: Root of the server.
        api_key: Sent as a bearer token where given.
        connect_timeout_s: For the TCP connection.
    """

    def __init__(self, url: str, api_key: str | None, connect_timeout_s: float) -> None:
        self.url = url.rstrip("/")
        self._generate = URL(self.url + "/generate")
        self._abort = URL(self.url + "/abort_request")
        self._deadlines = Deadlines()
        self._headers = {"Content-Type": "application/json"}
        if api_key is not None:
            self._headers["Authorization"] = f"Bearer {api_key}"
        self._connect_timeout_s = connect_timeout_s
        self._session: aiohttp.ClientSession | None = None

    async def open(self) -> None:
        """Make the session; on the loop that will use it."""
        connector = aiohttp.TCPConnector(limit=0, keepalive_timeout=KEEP_ALIVE_S, ttl_dns_cache=300)
        self._session = aiohttp.ClientSession(
            connector=connector,
            headers=self._headers,
            skip_auto_headers=("User-Agent", "Accept", "Accept-Encoding"),
            timeout=aiohttp.ClientTimeout(total=None, connect=None, sock_connect=self._connect_timeout_s),
            trust_env=False,  # a proxy in the environment must not be applied to 127.0.0.1
            auto_decompress=False,
            cookie_jar=aiohttp.DummyCookieJar(),
        )
        self._deadlines.start()

    async def close(self) -> None:
        """Close all connections; the server aborts what was open."""
        self._deadlines.stop()
        if self._session is not None:
            await self._session.close()

    async def generate(self, body: bytes, timeout_s: float) -> Answer:
        """Send one request and read its whole answer.

        Args:
            body: An encoded `contracts.sglang.GenerateRequest`.
            timeout_s: For everything, from the first byte sent to the last received.

        Raises:
            ConnectionLostError: Refused, reset, or cut off.
            AnswerTimeoutError: Not answered in time.
        """
        if self._session is None:
            raise RuntimeError("the client is not open")
        try:
            with self._deadlines.within(timeout_s):
                async with self._session.post(self._generate, data=body, allow_redirects=False) as response:
                    content = await response.read()
                    retry_after = None
                    if response.status >= 400:
                        retry_after = _seconds(response.headers.get("Retry-After"))
                    return Answer(response.status, content, retry_after)
        except DeadlineError as error:
            raise AnswerTimeoutError(f"no answer within {timeout_s:g} s") from error
        except aiohttp.ConnectionTimeoutError as error:
            raise ConnectionLostError(f"no connection within {self._connect_timeout_s:g} s", refused=True) from error
        except aiohttp.ClientConnectorError as error:
            raise ConnectionLostError(f"no connection: {error.os_error.strerror or error}", refused=True) from error
        except aiohttp.ClientPayloadError as error:
            raise ConnectionLostError("the answer was cut off", refused=False) from error
        except (aiohttp.ClientError, ConnectionError) as error:
            raise ConnectionLostError(f"connection lost: {error or type(error).__name__}", refused=False) from error

    async def abort(self, rid: str) -> None:
        """Ask the server to end a request, so that it frees the request's place at once.

        A server that does not take the message has nothing to end, or ends it when it sees the closed connection.
        """
        if self._session is None:
            raise RuntimeError("the client is not open")
        with suppress(DeadlineError, aiohttp.ClientError, OSError), self._deadlines.within(ABORT_TIMEOUT_S):
            async with self._session.post(self._abort, json={"rid": rid}, allow_redirects=False) as response:
                await response.read()


def _seconds(value: str | None) -> float | None:
    """Return the seconds of a ``Retry-After``; its form as a date is not used by such servers."""
    try:
        seconds = float(value or "nan")
    except ValueError:
        return None
    return max(seconds, 0.0) if math.isfinite(seconds) else None
