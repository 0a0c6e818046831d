"""The contract probe: before any work is sent, does this server speak what we speak?

It asks what the server says of itself and, until it has said so once in its life, whether it is healthy: requests that
come before its own warm-up can fill its queue, and a warm-up that is refused ends it. Then it sends one tiny
``/generate`` with the run's own sampling parameters, which must decode and agree with itself. Endpoints that are
missing cost features; a wrong shape names the field.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

import msgspec

from contracts.sglang import GenerateRequest, error_text
from daemon.servers.answers import disagreement, parse_answer
from daemon.servers.client import AnswerTimeoutError, ConnectionLostError, SglangClient
from daemon.servers.info import Health, ServerControl, ServerUnreachable
from daemon.threads import in_thread

OK: Final = "ok"
UNREADY: Final = "unready"
"""There, but it does not answer, or answers that it cannot now: loading, overloaded, hanging. Waiting may help."""
STARTING: Final = "starting"
"""There, and not done with its own warm-up: nothing may be sent before."""
DOWN: Final = "down"
"""Nothing is there."""
REFUSED: Final = "refused"
"""It answers, but not as agreed: no work may be sent there."""
PROBE_IDS: Final = (1, 2, 3)
PROBE_TIMEOUT_S: Final = 120.0
_INFO_PATHS: Final = frozenset({"/model_info", "/get_model_info", "/server_info", "/get_server_info"})
_STARTING_WITHIN_S: Final = 10.0
"""A 503 of /health that took longer is no server that starts: that one says it at once."""
_NOT_NOW: Final = frozenset({408, 425, 429})


@dataclass
class Probe:
    """What a probe found."""

    url: str
    state: str = OK
    healthy: bool = False
    """Whether it was asked for its health, and had nothing against work."""
    refusal: str | None = None
    """Why no work can be sent there; None when the state is ``ok``."""
    notes: list[str] = field(default_factory=list)
    """What is missing or odd and matters: limits that stay unknown."""
    version: str | None = None
    model: str | None = None
    """The name it serves under, which is the model's path unless it was given another."""
    vocab_size: int | None = None
    max_input_len: int | None = None
    """Longest prompt + 1, as the server counts it."""
    context_length: int | None = None
    speculative: str | None = None
    radix_cache: bool | None = None
    arguments: dict[str, Any] = field(default_factory=dict)
    """What it was started with, as far as it tells and as far as `contracts.sglang.ServerInfo` names it."""
    rid: str = ""
    """Of the request that was sent."""
    rows_seen: bool = False
    """Whether what it left of hidden states was there whole, and was taken away: nothing more of it comes."""


async def probe_server(
    control: ServerControl,
    client: SglangClient,
    sampling: dict[str, Any],
    rid: str,
    timeout_s: float = PROBE_TIMEOUT_S,
    *,
    ask_health: bool = False,
) -> Probe:
    """Probe one server.

    Args:
        control: Its control endpoints.
        client: Its opened client.
        sampling: ``[sampling]`` of the run: sent as it will be, so that a refusal shows now.
        rid: Of the one small request.
        timeout_s: For the one small answer.
        ask_health: Send nothing before ``/health`` answers; for a server of which that is not known yet.
    """
    probe = Probe(control.url, rid=rid)
    try:
        await in_thread(lambda: _ask(control, probe), "server-probe")
        if ask_health and probe.state == OK:
            health = await in_thread(control.health, "server-health")
            probe.state, probe.refusal = _judged(health)
            probe.healthy = probe.state == OK
    except ServerUnreachable as error:
        probe.state = UNREADY if error.timed_out else DOWN
        probe.refusal = f"it took the connection, then {error.why}" if error.timed_out else error.why
        return probe
    if probe.state == OK:
        await _generate(client, probe, sampling, timeout_s)
    return probe


def _ask(control: ServerControl, probe: Probe) -> None:
    model, server = control.model_info(), control.server_info()
    path = None
    if model is not None:
        path = model.model_path
        probe.model = model.served_model_name or path
        if model.is_generation is False:
            probe.state, probe.refusal = REFUSED, "serves an embedding model (is_generation is false)"
    if server is not None:
        path = path or server.model_path
        probe.version = server.version
        probe.model = probe.model or server.model_path
        probe.max_input_len = server.max_req_input_len
        probe.context_length = server.context_length
        probe.speculative = server.speculative_algorithm
        told = msgspec.structs.asdict(server)
        probe.arguments = {name: told[name] for name in sorted(told) if told[name] is not None and name != "status"}
        if server.disable_radix_cache is not None:
            probe.radix_cache = not server.disable_radix_cache
    probe.vocab_size = control.vocab_size(path)
    if probe.context_length is None:
        probe.context_length = context_of_model(path)
    # What is odd about other endpoints costs a reading on the screen, and is shown there.
    watched = (f"{probe.url}/metrics", f"{probe.url}/v1/loads")
    probe.notes += [problem for problem in control.problems if not problem.startswith(watched)]
    missing = sorted(control.missing & _INFO_PATHS)
    if missing:
        probe.notes.append(f"{probe.url} has no {', '.join(missing)}: what they tell stays unknown")
    if model is None and server is None:
        probe.notes.append(f"{probe.url} tells neither its model nor its limits")


def _judged(health: Health | None) -> tuple[str, str | None]:
    """Return the state that an answer of ``/health`` means, and why. Whoever has none is judged by ``/generate``."""
    if health is None or health.status != 503:
        return OK, None
    if health.took_s < _STARTING_WITHIN_S:
        return STARTING, "GET /health answers 503: it has not finished its warm-up, or is shutting down"
    return UNREADY, f"GET /health answers 503 after {health.took_s:.0f} s: nothing comes of a forward pass there"


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
    rid = probe.rid
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
        # It answered a moment ago: only when nothing listens any more is it gone for certain.
        probe.state = DOWN if error.refused else UNREADY
        probe.refusal = str(error) if error.refused else f"sent {sent}: {error}"
        return
    except AnswerTimeoutError as error:
        probe.state, probe.refusal = UNREADY, f"sent {sent}: {error}"
        return
    if answer.status != 200:
        probe.state = UNREADY if answer.status >= 500 or answer.status in _NOT_NOW else REFUSED
        probe.refusal = f"sent {sent}; got HTTP {answer.status}: {error_text(answer.body)}"
        return
    decoded = parse_answer(answer.body)
    reason = None if isinstance(decoded, str) else decoded.meta_info.finish_reason
    if reason is not None and reason.type == "abort":
        probe.state = UNREADY
        probe.refusal = f"sent {sent}; it was aborted: {reason.message or 'no reason given'}"
        return
    problem = decoded if isinstance(decoded, str) else disagreement(decoded, rid, len(PROBE_IDS))
    if problem:
        probe.state, probe.refusal = REFUSED, f"sent {sent}; the answer {problem}"
