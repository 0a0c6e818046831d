"""Every recorded exchange that the embedded server offers, sent again: same status, same shape, same words."""

import json
import re
from collections.abc import AsyncIterator
from typing import Any

import aiohttp
import pytest
import pytest_asyncio

from daemon.embedded.options import Options
from daemon.embedded.server import EmbeddedServer
from tests.embedded.helpers import capture, exchanges, send

pytestmark = pytest.mark.asyncio(loop_scope="module")

# What the embedded server leaves out, by capture (everything else must have the recorded keys, no more, no fewer).
OMITTED_KEYS = {
    "A_model_info": {"embedding"},  # figures of embedding models
    "A_get_model_info": {"embedding"},
}
# Sent to other servers below, or refused on purpose.
OTHER_SERVERS = {name for name in exchanges() if name[:2] in ("C_", "E_", "K_")}  # without metrics
SEPARATE = {"A_dup_rid_second", "A_flush_cache_busy", "A_metrics", "A_server_info", "A_gen_stream"}
TOO_LONG_FOR_THE_MODEL = {"M_max_new_null"}
PLAIN = [name for name in exchanges() if name not in OTHER_SERVERS | SEPARATE]
WITH_MODEL = [name for name in PLAIN if "_gen_" in name or name.startswith("M_")]

Client = aiohttp.ClientSession


@pytest_asyncio.fixture(loop_scope="module", scope="module")
async def session() -> AsyncIterator[Client]:
    async with aiohttp.ClientSession() as client:
        yield client


@pytest_asyncio.fixture(loop_scope="module", scope="module")
async def canned() -> AsyncIterator[EmbeddedServer]:
    async with EmbeddedServer(Options(no_model=True, enable_metrics=True)) as server:
        yield server


@pytest_asyncio.fixture(loop_scope="module", scope="module")
async def real() -> AsyncIterator[EmbeddedServer]:
    async with EmbeddedServer(Options(enable_metrics=True, max_running_requests=16)) as server:
        yield server


@pytest.mark.parametrize("name", PLAIN)
async def test_as_recorded(name: str, canned: EmbeddedServer, session: Client) -> None:
    await replay(name, canned, session)


@pytest.mark.parametrize("name", [name for name in WITH_MODEL if name not in TOO_LONG_FOR_THE_MODEL])
async def test_as_recorded_with_the_model(name: str, real: EmbeddedServer, session: Client) -> None:
    await replay(name, real, session)


@pytest.mark.parametrize("name", sorted(OTHER_SERVERS))
async def test_as_recorded_by_other_servers(name: str, session: Client) -> None:
    options = Options(no_model=True)
    if name.startswith("C_"):
        options.skip_tokenizer_init = True
    elif name.startswith("K_"):
        options.api_key, options.max_running_requests, options.max_queued_requests = "sekret", 1, 2
    async with EmbeddedServer(options) as server:
        await replay(name, server, session)


async def replay(name: str, server: EmbeddedServer, session: Client) -> None:
    recorded = capture(name)
    status, body = await send(session, server.url, recorded)
    assert status == recorded["status"]
    if not recorded["headers"].get("content-type", "").startswith("application/json"):
        assert body == recorded["body"]
        return
    theirs, ours = json.loads(recorded["body"]), json.loads(body)
    if status != 200:
        assert ours == theirs
        return
    if isinstance(theirs, list):
        assert len(ours) == len(theirs)
        pairs = list(zip(ours, theirs, strict=True))
    else:
        pairs = [(ours, theirs)]
    for mine, other in pairs:
        assert set(mine) == set(other) - OMITTED_KEYS.get(name, set())
        if "meta_info" in other:
            check_meta(mine, other, named="rid" in (recorded["request"]["body"] or {}))
        if "choices" in other:
            assert set(mine["choices"][0]) == set(other["choices"][0])
            assert mine["usage"] == other["usage"]
    if name in ("M_tokenize", "M_return_prompt_token_ids"):
        assert ours.get("tokens") == theirs.get("tokens")
        assert ours.get("prompt_token_ids") == theirs.get("prompt_token_ids")


def check_meta(ours: dict[str, Any], theirs: dict[str, Any], *, named: bool) -> None:
    mine, other = ours["meta_info"], theirs["meta_info"]
    # decode_throughput is there from the second token on, and answers may be longer here.
    optional = {"decode_throughput"} if mine["completion_tokens"] != other["completion_tokens"] else set()
    assert set(mine) - optional == set(other) - optional
    assert mine["prompt_tokens"] == other["prompt_tokens"]
    assert mine["completion_tokens"] == len(ours["output_ids"])
    assert mine["weight_versions"] == [{"version": "default", "start": 0, "end": mine["completion_tokens"]}]
    if named:
        assert mine["id"] == other["id"]
    else:
        assert re.fullmatch("[0-9a-f]{32}", mine["id"])
    if other["finish_reason"]["type"] == "length" and mine["finish_reason"]["type"] == "length":
        assert mine["finish_reason"] == other["finish_reason"]


async def test_streamed_as_recorded(real: EmbeddedServer, session: Client) -> None:
    recorded = capture("A_gen_stream")
    _, body = await send(session, real.url, recorded)
    theirs, ours = events(recorded["body"]), events(body)
    assert len(theirs) == 7  # the real server put the last two tokens into one event
    assert [len(each["output_ids"]) for each in ours] == list(range(1, 9))
    for mine, other in ((ours[0], theirs[0]), (ours[3], theirs[3]), (ours[-1], theirs[-1])):
        assert set(mine) == set(other)
        assert set(mine["meta_info"]) == set(other["meta_info"])
        assert mine["meta_info"]["completion_tokens"] == other["meta_info"]["completion_tokens"]
        assert mine["output_ids"] == ours[-1]["output_ids"][: len(mine["output_ids"])]  # cumulative
    assert [each["meta_info"]["finish_reason"] for each in ours[:-1]] == [None] * 7


def events(body: str) -> list[dict[str, Any]]:
    lines = [line.removeprefix("data: ") for line in body.split("\n\n") if line]
    assert lines[-1] == "[DONE]"
    return [json.loads(line) for line in lines[:-1]]


async def test_server_info_has_recorded_keys_with_recorded_types(canned: EmbeddedServer, session: Client) -> None:
    recorded = capture("A_server_info")
    status, body = await send(session, canned.url, recorded)
    assert status == 200
    theirs, ours = json.loads(recorded["body"]), json.loads(body)
    assert set(ours) <= set(theirs)
    assert set(ours["internal_states"][0]) <= set(theirs["internal_states"][0])
    for key in ("version", "status", "max_req_input_len", "context_length", "skip_tokenizer_init"):
        assert ours[key] == theirs[key], key
    for key in set(ours) - {"max_queued_requests", "max_total_tokens"}:
        assert ours[key] is None or theirs[key] is None or isinstance(ours[key], type(theirs[key])), key
    assert ours["port"] == canned.port


async def test_metrics_have_recorded_names_and_labels(canned: EmbeddedServer, session: Client) -> None:
    recorded = capture("A_metrics")
    status, body = await send(session, canned.url, recorded)
    assert status == 200
    theirs, ours = series(recorded["body"]), series(body)
    ours.pop("sglang:num_aborted_requests_total")  # appears with the first abort; none was recorded
    assert set(ours) <= set(theirs)
    for name, labels in ours.items():
        assert labels <= theirs[name], name
    assert {"sglang:num_running_reqs", "sglang:gen_throughput", "sglang:generation_tokens_total"} <= set(ours)


def series(text: str) -> dict[str, set[str]]:
    """Label names by series name."""
    found: dict[str, set[str]] = {}
    for line in text.splitlines():
        match = re.match(r"(sglang:\w+)\{(.*)\} \S+$", line)
        if match:
            found[match[1]] = set(re.findall(r'(\w+)="', match[2]))
    return found


async def test_every_recorded_text_follows_from_its_ids(canned: EmbeddedServer) -> None:
    from daemon.embedded.config import load_config
    from daemon.embedded.tokenizer import ByteTokenizer

    tokenizer, seen = ByteTokenizer(load_config()), 0
    for name in exchanges():
        recorded = capture(name)
        if recorded["request"]["path"] != "/generate" or recorded["status"] != 200 or "stream" in name:
            continue
        body = json.loads(recorded["body"])
        for answer in body if isinstance(body, list) else [body]:
            if "text" in answer and answer["meta_info"]["finish_reason"]["type"] == "length":
                assert tokenizer.decode(answer["output_ids"]) == answer["text"], name
                seen += 1
    assert seen > 20
