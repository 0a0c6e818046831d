"""The contract probe: what a server must do to be given work, and what it is called otherwise."""

import asyncio
import json
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
from aiohttp import web

from daemon.servers.client import SglangClient
from daemon.servers.info import Health, ServerControl, ServerUnreachable
from daemon.servers.probe import DOWN, OK, REFUSED, STARTING, UNREADY, Probe, probe_server
from tests.daemon.servers.scripted_server import closed_port
from tests.support.scripted_sglang import Request, ScriptedSglang


@pytest.fixture
async def server() -> AsyncIterator[ScriptedSglang]:
    async with ScriptedSglang() as server:
        yield server


async def probed(
    url: str, sampling: dict[str, Any] | None = None, timeout_s: float = 5.0, *, ask_health: bool = False
) -> Probe:
    client = SglangClient(url, None, 2.0)
    await client.open()
    try:
        return await probe_server(
            ServerControl(url, timeout_s=0.3),
            client,
            sampling or {},
            "e3g.t.probe.s.0",
            timeout_s,
            ask_health=ask_health,
        )
    finally:
        await client.close()


async def test_a_good_server(server: ScriptedSglang, tmp_path: Path) -> None:
    (tmp_path / "config.json").write_text(
        json.dumps({"text_config": {"vocab_size": 1024, "max_position_embeddings": 2048}})
    )
    server.model_info = {"model_path": str(tmp_path), "served_model_name": "tiny", "is_generation": True}
    probe = await probed(server.url)
    assert (probe.state, probe.refusal, probe.notes) == (OK, None, [])
    assert (probe.model, probe.version, probe.max_input_len) == ("tiny", "0.5.23", 2000)
    assert (probe.vocab_size, probe.context_length) == (1024, 2048)


async def test_the_runs_own_sampling_is_tried_with_one_token(server: ScriptedSglang) -> None:
    sent = list[dict[str, Any]]()

    async def note(request: Request) -> web.Response:
        sent.append(request.body)
        return web.json_response(request.good([4]))

    server.probe = note
    await probed(server.url, {"temperature": 0.6, "max_new_tokens": 8192, "min_new_tokens": 5})
    (body,) = sent
    assert body["sampling_params"] == {"temperature": 0.6, "max_new_tokens": 1}
    assert "input_ids" in body and "prompt_token_ids" not in body and body["rid"] == "e3g.t.probe.s.0"


async def wants_prompt_token_ids(request: Request) -> web.Response:
    return web.json_response(
        {"error": {"message": "Either text, input_ids or input_embeds should be provided."}}, status=400
    )


async def ignores_input_ids(request: Request) -> web.Response:
    return web.json_response(request.good([4], prompt_tokens=0))


async def openai_shape(request: Request) -> web.Response:
    return web.json_response({"id": "x", "choices": [{"text": "a"}], "usage": {"completion_tokens": 1}})


async def html(request: Request) -> web.Response:
    return web.Response(text="<html><body>It works!</body></html>", content_type="text/html")


async def empty(request: Request) -> web.Response:
    return web.Response()


async def wrong_counts(request: Request) -> web.Response:
    return web.json_response(request.good([4, 5], completion_tokens=1))


async def not_found(request: Request) -> web.Response:
    return web.json_response({"detail": "Not Found"}, status=404)


async def unknown_sampling(request: Request) -> web.Response:
    return web.json_response({"error": "unknown field `max_tokens`, expected one of"}, status=400)


@pytest.mark.parametrize(
    ("answer", "words"),
    [
        (wants_prompt_token_ids, "sent POST /generate with rid, input_ids, sampling_params; got HTTP 400: Either text"),
        (ignores_input_ids, "does the server read another field than input_ids?"),
        (openai_shape, "missing required field `output_ids`"),
        (html, "It works!"),
        (empty, "does not have the agreed shape"),
        (wrong_counts, "completion_tokens is 1, output_ids are 2"),
        (not_found, "got HTTP 404"),
        (unknown_sampling, "unknown field `max_tokens`"),
    ],
)
async def test_another_contract_is_refused_and_named(answer: Any, words: str, server: ScriptedSglang) -> None:
    server.probe = answer
    probe = await probed(server.url)
    assert probe.state == REFUSED
    assert words in str(probe.refusal)


async def broken(request: Request) -> web.Response:
    return web.Response(status=500, text="Internal Server Error")


async def full(request: Request) -> web.Response:
    return web.json_response({"object": "error", "message": "The request queue is full."}, status=503)


async def aborted(request: Request) -> web.Response:
    return web.json_response(request.good([4], finish_reason={"type": "abort", "message": "shutting down"}))


async def hanging(request: Request) -> web.Response:
    await asyncio.Event().wait()
    return web.Response()


async def reset(request: Request) -> web.Response:
    return request.reset()


@pytest.mark.parametrize(
    ("answer", "words"),
    [
        (broken, "HTTP 500: Internal Server Error"),
        (full, "The request queue is full."),
        (aborted, "aborted: shutting down"),
        (hanging, "no answer within 0.3 s"),
        (reset, "connection lost"),
    ],
)
async def test_what_may_pass_is_waited_for(answer: Any, words: str, server: ScriptedSglang) -> None:
    server.probe = answer
    probe = await probed(server.url, timeout_s=0.3)
    assert probe.state == UNREADY
    assert words in str(probe.refusal)


async def test_nothing_there() -> None:
    probe = await probed(f"http://127.0.0.1:{closed_port()}")
    assert (probe.state, probe.refusal) == (DOWN, "Connection refused")


async def test_a_port_that_is_bound_before_the_model_is_loaded(server: ScriptedSglang) -> None:
    server.model_info = lambda: asyncio.Event().wait()  # type: ignore[assignment,return-value]
    probe = await probed(server.url)
    assert probe.state == UNREADY
    assert "no answer within 0.3 s" in str(probe.refusal)
    assert server.probes == 0, "what does not even say its name is not asked to generate"


async def test_an_embedding_model_is_refused(server: ScriptedSglang) -> None:
    server.model_info = {"model_path": "bge", "is_generation": False}
    probe = await probed(server.url)
    assert (probe.state, server.probes) == (REFUSED, 0)


async def test_missing_endpoints_cost_what_they_tell_and_nothing_else(server: ScriptedSglang) -> None:
    async def gone() -> web.Response:
        return web.Response(status=404)

    server.server_info, server.model_info = None, gone
    probe = await probed(server.url)
    assert (probe.state, probe.model, probe.max_input_len) == (OK, None, None)
    assert "tells neither its model nor its limits" in str(probe.notes)


@pytest.mark.parametrize("config", ["", "[]", '{"max_position_embeddings": "2048"}', '{"max_position_embeddings": 0}'])
async def test_a_config_that_tells_nothing(config: str, server: ScriptedSglang, tmp_path: Path) -> None:
    (tmp_path / "config.json").write_text(config)
    server.model_info = {"model_path": str(tmp_path), "is_generation": True}
    probe = await probed(server.url)
    assert (probe.state, probe.context_length, probe.vocab_size) == (OK, None, None)


@pytest.mark.parametrize(
    ("health", "state", "words"),
    [
        (Health(200, 1.0), OK, ""),
        (Health(404, 0.0), OK, ""),
        (Health(503, 0.01), STARTING, "has not finished its warm-up"),
        (Health(503, 20.0), UNREADY, "503 after 20 s"),
        (None, OK, ""),
    ],
)
async def test_what_health_says_of_a_server_that_is_new(
    health: Health | None, state: str, words: str, server: ScriptedSglang, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(ServerControl, "health", lambda control: health)
    found = await probed(server.url, ask_health=True)
    assert (found.state, found.healthy, server.probes) == (state, state == OK, int(state == OK))
    assert words in str(found.refusal)


async def test_a_server_that_never_says_how_it_is(server: ScriptedSglang, monkeypatch: pytest.MonkeyPatch) -> None:
    def silent(control: ServerControl) -> Health:
        raise ServerUnreachable(control.url, "no answer within 30 s", timed_out=True)

    monkeypatch.setattr(ServerControl, "health", silent)
    assert (await probed(server.url, ask_health=True)).state == UNREADY
    assert (await probed(server.url)).state == OK
