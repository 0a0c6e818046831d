"""The records of a run directory: one msgspec Struct for each kind of line, with its schema version.

Encoding is strict and goes through `encode_line`; decoding of lines that other tools or older versions may have
written goes through `contracts.shapes`. Times named ``at``, ``*_at`` are Unix seconds of the daemon's steady clock
(`contracts.clock`); durations end in ``_s``; sizes in ``_bytes``; shares in ``_pct`` run from 0 to 100.
"""

from __future__ import annotations

import enum
from typing import Annotated, Any, Final

import msgspec

from contracts.sample_id import SampleId

SCHEMA: Final = 1
"""Version of every record shape in this module; raised when a key changes its meaning."""


def _schema() -> int:
    """A factory, since omit_defaults would leave out a plain default and the version is always written."""
    return SCHEMA


TokenIds = Annotated[
    msgspec.Raw, msgspec.Meta(extra_json_schema={"type": "array", "items": {"type": "integer", "minimum": 0}})
]
"""Token ids kept as the JSON text they came in: passed on without ever becoming Python ints."""

Count = Annotated[int, msgspec.Meta(ge=0)]


class Severity(enum.StrEnum):
    """How much an event or an alert matters to the person who is paged."""

    INFO = "info"
    WARNING = "warning"
    CRITICAL = "critical"


class FailureClass(enum.StrEnum):
    """Why an attempt failed; each class has its own retry rule (``daemon.generate.retry``)."""

    INVALID_INPUT = "invalid_input"
    """Never sent: the prompt itself cannot be used."""
    REJECTED = "rejected"
    """The server refused it with a 4xx."""
    TRANSIENT = "transient"
    """Reset, timeout, 5xx, abort: worth another try."""
    SERVER_DOWN = "server_down"
    """No server answered; no attempt is charged."""
    CONTRACT_DRIFT = "contract_drift"
    """The answer could not be decoded or contradicted itself; stops the data set."""
    POISON = "poison"
    """In flight when a server died, twice: not sent again unless a person says so."""


class NextStep(enum.StrEnum):
    """What happens after a failed attempt."""

    RETRY = "retry"
    QUARANTINED = "quarantined"
    REFUSED = "refused"
    STOPPED = "stopped"


class Prompt(msgspec.Struct, kw_only=True, omit_defaults=True):
    """One line of ``prompts.jsonl``. ``loss_mask`` present: pre-tokenized, goes straight to extraction."""

    sample_id: SampleId
    input_ids: TokenIds
    loss_mask: msgspec.Raw | msgspec.UnsetType = msgspec.UNSET
    source_line: int | None = None
    """1-based line of the file that this prompt was imported from."""


class Response(msgspec.Struct, kw_only=True, omit_defaults=True):
    """One line of ``raw_responses.jsonl``: an answer that was accepted. Counts come before the ids on disk."""

    sample_id: SampleId
    prompt_tokens: Count
    completion_tokens: Count
    finish_reason: str
    output_ids: TokenIds
    think_end: bool | None = None
    """Whether the configured ``think_end_token`` is among the output ids; None when none is configured."""
    finished_at: float
    started_at: float
    rid: str
    server: str
    attempt: Count
    matched: int | str | None = None
    """The stop token or string that ended it, as the server named it."""
    cached_tokens: Count | None = None
    e2e_latency_s: float | None = None
    """The server's own measure, request received to answer."""
    schema: int = msgspec.field(default_factory=_schema)


class Failure(msgspec.Struct, kw_only=True, omit_defaults=True, tag_field="type", tag="failure"):
    """One line of ``failures.jsonl``: one failed attempt, why, and what happens next."""

    sample_id: SampleId | None
    error: FailureClass
    message: str
    next: NextStep
    at: float
    attempt: Count = 0
    """Charged attempts so far, this one included; 0 when none was charged."""
    rid: str | None = None
    server: str | None = None
    http_status: int | None = None
    retry_in_s: float | None = None
    line: int | None = None
    """1-based line in the prompt file, for refused input."""
    source: str | None = None
    """The file of ``line`` when it was imported; None: ``prompts.jsonl`` itself."""
    completion_tokens: Count | None = None
    """Tokens that a partial (aborted) answer held; never part of the totals."""
    schema: int = msgspec.field(default_factory=_schema)


class Requeue(msgspec.Struct, kw_only=True, omit_defaults=True, tag_field="type", tag="requeue"):
    """One line of ``failures.jsonl``: a person asked for another try. Clears what matches, before this line."""

    at: float
    error: FailureClass | None = None
    """Only failures of this class; None: of every class but invalid input."""
    sample_id: SampleId | None = None
    schema: int = msgspec.field(default_factory=_schema)


class GpuReading(msgspec.Struct, kw_only=True):
    """One GPU at one moment. Each value is None when the driver does not tell."""

    index: int
    uuid: str | None = None
    name: str | None = None
    utilization_pct: float | None = None
    memory_used_bytes: int | None = None
    memory_total_bytes: int | None = None
    power_w: float | None = None
    power_limit_w: float | None = None
    temperature_c: float | None = None
    processes: int | None = None
    mig: bool | None = None
    state: str = "ok"
    """``ok``, ``lost``, ``mig`` or ``unknown``."""
    reason: str | None = None
    """Why values are missing, in a sentence, when something is wrong."""


class GpuSample(msgspec.Struct, kw_only=True):
    """One line of ``telemetry/gpu.jsonl``."""

    at: float
    state: str
    """``ok``, ``none`` (no GPU or no driver) or ``error``."""
    gpus: list[GpuReading]
    reason: str | None = None
    schema: int = SCHEMA


class HostSample(msgspec.Struct, kw_only=True):
    """One line of ``telemetry/host.jsonl``."""

    at: float
    cpu_pct: float | None = None
    load_1m: float | None = None
    memory_used_bytes: int | None = None
    memory_total_bytes: int | None = None
    disk_free_bytes: int | None = None
    disk_total_bytes: int | None = None
    shm_free_bytes: int | None = None
    shm_total_bytes: int | None = None
    daemon_rss_bytes: int | None = None
    daemon_cpu_pct: float | None = None
    schema: int = SCHEMA


class ServerReading(msgspec.Struct, kw_only=True):
    """One SGLang server at one moment; a value is None when that server has no endpoint that tells."""

    url: str
    state: str
    """``ok``, ``down``, ``refused`` (answers, but not as agreed: it gets no work) or ``unknown``."""
    reason: str | None = None
    version: str | None = None
    model: str | None = None
    running: int | None = None
    queued: int | None = None
    kv_usage_pct: float | None = None
    tokens_per_s: float | None = None
    cache_hit_pct: float | None = None
    retracted: int | None = None
    outstanding: int | None = None
    """Requests that this daemon has open there."""


class ServerSample(msgspec.Struct, kw_only=True):
    """One line of ``telemetry/server.jsonl``."""

    at: float
    servers: list[ServerReading]
    schema: int = SCHEMA


class Heartbeat(msgspec.Struct, kw_only=True):
    """One line of ``telemetry/daemon.jsonl``, once a second: what only the daemon knows.

    ``mono`` is the machine's monotonic clock and ``boot_id`` says for which boot it holds, so that a reader on the same
    machine knows the heartbeat's age however the wall clock was set meanwhile.
    """

    at: float
    mono: float
    boot_id: str
    pid: int
    state: str
    """``running``, ``paused``, ``draining`` or ``finished``."""
    reason: str | None
    blocked: str | None = None
    """Why nothing can be sent now though work is left and nobody paused it: no usable server, or only stopped data
    sets are left; None otherwise."""
    concurrency: int
    in_flight: dict[str, int]
    """Open requests of each data set."""
    waiting_retry: dict[str, int]
    """Samples of each data set that wait for their next attempt."""
    oldest_request_s: float | None = None
    since_progress_s: float | None = None
    """Seconds since the last answer of any kind, while requests were in flight."""
    schema: int = SCHEMA


class Event(msgspec.Struct, kw_only=True, omit_defaults=True):
    """One line of ``events.jsonl``: what an operator would want to read."""

    at: float
    severity: Severity
    kind: str
    """Stable word for programs: ``daemon.started``, ``control.set``, ``alert.raised``, ``server.down``, ..."""
    message: str
    dataset: str | None = None
    data: dict[str, Any] = {}
    schema: int = msgspec.field(default_factory=_schema)


RECORDS: Final[dict[str, type[msgspec.Struct]]] = {
    "prompt": Prompt,
    "response": Response,
    "failure": Failure,
    "requeue": Requeue,
    "gpu": GpuSample,
    "host": HostSample,
    "server": ServerSample,
    "daemon": Heartbeat,
    "event": Event,
}

_ENCODER: Final = msgspec.json.Encoder()


def encode_line(record: msgspec.Struct) -> bytes:
    """Return a record as one JSON line, newline included."""
    return _ENCODER.encode(record) + b"\n"
