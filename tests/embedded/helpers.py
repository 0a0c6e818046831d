"""Recorded exchanges of the real SGLang 0.5.23, and a few lines of client."""

import asyncio
import json
from pathlib import Path
from typing import Any

import aiohttp

CAPTURES = Path(__file__).parent.parent / "fixtures" / "captures"
PROMPT = [71, 72, 73, 74, 75, 76, 77, 78, 79, 80]


def capture(name: str) -> Any:
    return json.loads((CAPTURES / f"{name}.json").read_text())


def exchanges() -> list[str]:
    """Names of the captures that hold one request and its answer."""
    found = []
    for path in sorted(CAPTURES.glob("*.json")):
        recorded = json.loads(path.read_text())
        if isinstance(recorded, dict) and "status" in recorded:
            found.append(path.stem)
    return found


async def send(client: aiohttp.ClientSession, url: str, recorded: dict[str, Any]) -> tuple[int, str]:
    """Send a recorded request; a body that is a string is sent as it is."""
    request = recorded["request"]
    body = request["body"]
    data = None if body is None else body if isinstance(body, str) else json.dumps(body)
    headers = {} if data is None else {"Content-Type": "application/json", **request["headers"]}
    async with client.request(request["method"], url + request["path"], data=data, headers=headers) as response:
        return response.status, await response.text()


async def generate(client: aiohttp.ClientSession, url: str, **body: Any) -> tuple[int, Any]:
    """POST /generate; the body of the answer is decoded when it is JSON."""
    body.setdefault("input_ids", PROMPT)
    async with client.post(f"{url}/generate", json=body) as response:
        raw = await response.read()
        return response.status, json.loads(raw) if response.content_type == "application/json" else raw


async def until(condition: Any, seconds: float = 5.0) -> None:
    """Let the loop run until `condition()` holds."""
    async with asyncio.timeout(seconds):
        while not condition():  # noqa: ASYNC110 - there is no event to wait for
            await asyncio.sleep(0.001)
