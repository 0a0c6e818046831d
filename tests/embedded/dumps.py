"""Requests to an embedded server that dumps, and what must be in their dumps."""

import asyncio
from pathlib import Path
from typing import Any

import aiohttp
import numpy as np

from daemon.embedded.options import Options
from daemon.embedded.server import EmbeddedServer
from tests.embedded.helpers import generate
from tests.support.hidden_states import ReadDump, read_dump, reference_rows

CLOSE = {"atol": 2e-4, "rtol": 1e-4}


def prompt(length: int, start: int = 0) -> list[int]:
    return [(start + 37 * at + at * at) % 1000 + 1 for at in range(length)]


def dumping(folder: Path, **options: Any) -> EmbeddedServer:
    return EmbeddedServer(Options(dump_dir=folder, **options))


async def ask(
    client: aiohttp.ClientSession, server: EmbeddedServer, rid: str, ids: list[int], new: int = 8, **body: Any
) -> dict[str, Any]:
    """One answer of exactly `new` tokens."""
    sampling = {"max_new_tokens": new, "ignore_eos": True, "temperature": 1.0}
    status, answer = await generate(client, server.url, rid=rid, input_ids=ids, sampling_params=sampling, **body)
    assert status == 200
    assert isinstance(answer, dict)
    return answer


async def dumped(server: EmbeddedServer, rid: str) -> ReadDump:
    """The dump of a request, once the writer has caught up."""
    await asyncio.to_thread(server.dumper.flush)
    assert server.options.dump_dir is not None
    return read_dump(server.options.dump_dir, rid)


def fed(ids: list[int], answer: dict[str, Any]) -> list[int]:
    """What was fed: prompt and answer without its last token."""
    return [*ids, *answer["output_ids"]][: len(ids) + max(0, len(answer["output_ids"]) - 1)]


def check(dump: ReadDump, ids: list[int], *, seed: int = 0, tolerance: dict[str, float] = CLOSE) -> None:
    """Rows of `ids`, all of them, as the model has them."""
    assert dump.ids == ids
    assert all(dump.batches)
    expected = reference_rows(seed, ids, dump.header.layers, dump.header.norm)
    np.testing.assert_allclose(dump.rows, expected, **tolerance)
