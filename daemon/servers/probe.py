"""The contract probe: before any work is sent, does this server speak what we speak?

It asks what the server says of itself, then sends one tiny ``/generate`` with the run's own sampling parameters, which
must decode and agree with itself. Endpoints that are missing cost features; a wrong shape names the field.
"""

from __future__ import annotations

import asyncio
import uuid
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

import msgspec

from contracts.sglang import GenerateRequest, error_text
from daemon.servers.answers import disagreement, parse_answer
from daemon.servers.client import AnswerTimeoutError, ConnectionLostError, SglangClient
from daemon.servers.info import ServerControl, ServerUnreachable

PROBE_IDS: Final = (1, 2, 3)
PROBE_TIMEOUT_S: Final = 120.0
RID_PREFIX: Final = "e3."


@dataclass
class Probe:
    """What a probe found. ``refusal`` set: no work may be sent there."""

    url: str
    reachable: bool = True
    refusal: str | None = None
    notes: list[str] = field(default_factory=list)
    version: str | None = None
    model: str | None = None
    vocab_size: int | None = None
    max_input_len: int | None = None
    """Longest prompt + 1, as the server counts it."""
    context_length: int | None = None
    speculative: str | None = None


async def probe_server(
    control: ServerControl, client: SglangClient, sampling: dict[str, Any], timeout_s: float = PROBE_TIMEOUT_S
) -> Probe:
    """Probe one server.

    Args:
        control: Its control endpoints.
        client: Its opened client.
        sampling: ``[sampling]`` of the run: sent as it will be, so that a refusal shows now.
        timeout_s: For the one small answer.
    """
    probe = Probe(control.url)
    try:
        await asyncio.to_thread(_ask, control, probe)
    except ServerUnreachable as error:
        probe.reachable, probe.refusal = False, error.why
        return probe
    await _generate(client, probe, sampling, timeout_s)
    return probe


def _ask(control: ServerControl, probe: Probe) -> None:
    model, server = control.model_info(), control.server_info()
    if model is not None:
        probe.model = model.model_path
        if model.is_generation is False:
            probe.refusal = "serves an embedding model (is_generation is false)"
    if server is not None:
        probe.version = server.version
        probe.model = probe.model or server.model_path
        probe.max_input_len = server.max_req_input_len
        probe.context_length = server.context_length
        probe.speculative = server.speculative_algorithm
    probe.vocab_size = control.vocab_size(probe.model)
    if probe.context_length is None:
        probe.context_length = context_of_model(probe.model)
    probe.notes += control.problems
    if control.missing:
        probe.notes.append(f"{probe.url} has no {', '.join(sorted(control.missing))}: what they tell stays unknown")
    if model is None and server is None:
        probe.notes.append(f"{probe.url} tells neither its model nor its limits")


def context_of_model(model_path: str | None) -> int | None:
    """Return ``max_position_embeddings`` of a local model's config.json, or None."""
    if not model_path:
        return None
    try:
        config = msgspec.json.decode((Path(model_path) / "config.json").read_bytes())
    except (OSError, msgspec.DecodeError, UnicodeDecodeError):
        return None
    for part in (config.get("text_config"), config) if isinstance(config, dict) else ():
        length = part.get("max_position_embeddings") if isinstance(part, dict) else None
        if isinstance(length, int) and not isinstance(length, bool) and length > 0:
            return length
    return None


async def _generate(client: SglangClient, probe: Probe, sampling: dict[str, Any], timeout_s: float) -> None:
    rid = f"{RID_PREFIX}probe.{uuid.uuid4().hex}"
    parameters = {**sampling, "max_new_tokens": 1}
    parameters.pop("min_new_tokens", None)
    request = GenerateRequest(
        rid=rid,
        input_ids=msgspec.Raw(msgspec.json.encode(PROBE_IDS)),
        sampling_params=msgspec.Raw(msgspec.json.encode(parameters)),
    )
    sent = "POST /generate with rid, input_ids, sampling_params"
    try:
        answer = await client.generate(msgspec.json.encode(request), timeout_s)
    except ConnectionLostError as error:
        probe.reachable, probe.refusal = False, str(error)
        return
    except AnswerTimeoutError as error:
        probe.refusal = f"sent {sent}: {error}"
        return
    if answer.status != 200:
        probe.refusal = f"sent {sent}; got HTTP {answer.status}: {error_text(answer.body)}"
        return
    decoded = parse_answer(answer.body)
    problem = decoded if isinstance(decoded, str) else disagreement(decoded, rid, len(PROBE_IDS))
    if problem:
        probe.refusal = f"sent {sent}; the answer {problem}"
