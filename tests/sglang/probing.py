"""The contract probe, as the daemon makes it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from daemon.request_ids import RequestIds
from daemon.servers.client import SglangClient
from daemon.servers.info import ServerControl
from daemon.servers.probe import Probe, probe_server

_CONNECT_S = 5.0


async def probe(url: str, sampling: dict[str, Any], api_key: str | None = None) -> Probe:
    """Probe a server with a client of its own."""
    client = SglangClient(url, api_key, _CONNECT_S)
    await client.open()
    try:
        rid = RequestIds(Path("run"), "s").probe(captured=False)
        return await probe_server(ServerControl(url, api_key), client, sampling, rid)
    finally:
        await client.close()
