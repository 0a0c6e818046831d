"""The contract probe against the real server."""

from __future__ import annotations

import socket
from pathlib import Path
from typing import Any

import pytest

from daemon.servers.probe import DOWN, OK, REFUSED, Probe
from tests.sglang.probing import probe
from tests.sglang.server import SglangServer
from tests.sglang.server_counts import wait_idle

SAMPLING: dict[str, Any] = {"temperature": 0.6, "top_p": 0.95, "max_new_tokens": 8192, "min_new_tokens": 5}


async def test_server_is_as_agreed_and_tells_its_limits(sglang_server: SglangServer, tiny_llama: Path) -> None:
    found = await probe(sglang_server.url, SAMPLING)
    assert found == Probe(
        url=sglang_server.url,
        state=OK,
        version="0.5.23",
        model=str(tiny_llama),
        vocab_size=1024,
        max_input_len=2042,
        context_length=2048,
        radix_cache=True,
        arguments=found.arguments,
        rid=found.rid,
    )
    assert found.arguments["tp_size"] == 1 and found.arguments["disable_radix_cache"] is False
    wait_idle(sglang_server)


@pytest.mark.parametrize(
    ("sampling", "named"),
    [
        ({"max_tokens": 5}, "unknown field `max_tokens`, expected one of `max_new_tokens`"),
        ({"temperature": -1}, "temperature must be"),
        ({"stop_token_ids": "1022"}, 'invalid type: string "1022"'),
    ],
)
async def test_refused_sampling_field_is_named_before_any_work_is_sent(
    sglang_server: SglangServer, sampling: dict[str, Any], named: str
) -> None:
    found = await probe(sglang_server.url, sampling)
    assert found.state == REFUSED
    assert found.refusal is not None
    assert found.refusal.startswith("sent POST /generate with rid, input_ids, sampling_params; got HTTP 400: ")
    assert named in found.refusal
    # What the server tells of itself is known all the same.
    assert (found.vocab_size, found.max_input_len) == (1024, 2042)


async def test_port_without_a_server_is_down() -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))  # bound but not listening: refuses, and nobody else gets it
        found = await probe(f"http://127.0.0.1:{taken.getsockname()[1]}", SAMPLING)
    assert (found.state, found.vocab_size) == (DOWN, None)
    assert found.refusal
