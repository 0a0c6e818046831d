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
    CAPTURE = "capture"
    """Its hidden states failed a check; `Failure.check` says which."""


class Stage(enum.StrEnum):
    """The two halves of the job."""

    GENERATE = "generate"
    EXTRACT = "extract"


HALTING: Final[dict[Stage, tuple[FailureClass, ...]]] = {
    Stage.GENERATE: (FailureClass.CONTRACT_DRIFT,),
    Stage.EXTRACT: (FailureClass.CONTRACT_DRIFT, FailureClass.CAPTURE),
}
"""Classes of failure that can stop a data set in a stage; a `Requeue` of one, for all samples, lets it go on."""


class CaptureCheck(enum.StrEnum):
    """What can be wrong with the hidden states of one sample; ``daemon.capture`` checks each."""

    MISSING = "missing"
    """No dump came, or it stopped short of the rows that the response asks for."""
    ROWS = "rows"
    """Another number of rows than tokens."""
    POSITIONS = "positions"
    """A position was never written."""
    IDS = "ids"
    """Rows were computed from other token ids than those sent and received."""
    LAYERS = "layers"
    """Other layers, or another number of them, than run.toml asks for."""
    NORM = "norm"
    """The last hidden state is not in the form that the layout stores."""
    DTYPE = "dtype"
    HIDDEN_SIZE = "hidden_size"
    """Rows of another width than the model's."""
    CACHED = "cached"
    """The server took a prefix from its cache: those rows were never computed."""
    NON_FINITE = "non_finite"
    ZERO_ROW = "zero_row"
    NO_ROOM = "no_room"
    """The dump folder was full, or the capture was given up to keep it from filling."""
    SERVER_ERROR = "server_error"
    """The plugin says that it could not write the rows."""
    TOO_LARGE = "too_large"
    """Larger than what dumps may take of the dump folder as a whole."""
    TOO_LONG = "too_long"
    """Beyond the data set's limit of length, or the server's."""
    NOTHING_TO_LEARN = "nothing_to_learn"
    """No token of it would be learnt from: an answer of one token, which is never fed, or a mask of zeros."""
    NO_IDS = "no_ids"
    """The response states no usable token ids, or its prompt is not there."""


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
    stage: Stage = Stage.GENERATE
    """Of which half of the job it was an attempt."""
    check: CaptureCheck | None = None
    """The check that hidden states failed."""
    tokens: Count | None = None
    """Rows of a sample that is left out for their number (`too_long`, `too_large`): a later start may have room."""
    schema: int = msgspec.field(default_factory=_schema)


class Requeue(msgspec.Struct, kw_only=True, omit_defaults=True, tag_field="type", tag="requeue"):
    """One line of ``failures.jsonl``: a person asked for another try. Clears what matches, before this line."""

    at: float
    error: FailureClass | None = None
    """Only failures of this class; None: of every class but invalid input."""
    sample_id: SampleId | None = None
    stage: Stage | None = None
    """Only failures of this half of the job; None: of both."""
    schema: int = msgspec.field(default_factory=_schema)


class StoredSample(msgspec.Struct, kw_only=True, omit_defaults=True, tag_field="type", tag="stored"):
    """One line of ``hidden_states.jsonl``: the hidden states of one sample, checked, in the store, synced."""

    sample_id: SampleId
    file: str
    """Below ``hidden_states/<dataset>/``."""
    row: Count
    """Number of the sample in the store, from 0; the row of a data set whose files are numbered."""
    offset: Count = 0
    """Where the sample begins in a file that holds several."""
    bytes: Count
    """That the sample takes in its file."""
    checksum: str
    """``xxh3_128:<hex>`` of those bytes."""
    tokens: Count
    """Rows: one for each token id that is stored."""
    loss_tokens: Count
    """Tokens whose loss mask is 1."""
    layers: list[int]
    """0-based output ids, ascending: slot i of a row is the output of layer ``layers[i]``; one more slot follows."""
    hidden_size: Count
    dtype: str
    """``bfloat16``, ``float16`` or ``float32``."""
    norm: str
    """Of the last slot: ``post`` (after the final norm) or ``over_weight`` (that, divided by the norm's weight)."""
    layout: str
    model: str | None = None
    capture: str
    """``generating`` or ``afterwards``."""
    truncated_from: Count | None = None
    """Tokens that the sample had before it was cut to the data set's limit."""
    server: str | None = None
    rid: str | None = None
    at: float
    schema: int = msgspec.field(default_factory=_schema)


class DroppedSample(msgspec.Struct, kw_only=True, omit_defaults=True, tag_field="type", tag="dropped"):
    """One line of ``hidden_states.jsonl``: what is stored of a sample, before this line, holds no longer."""

    sample_id: SampleId
    why: str
    at: float
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


class DiskReading(msgspec.Struct, kw_only=True):
    """One file system that the run writes to, at one moment."""

    path: str
    """A folder on it, as it is found once links are followed: the first of those that ``uses`` names."""
    uses: list[str]
    """What lies there: ``run`` (run directory: journals, log), ``store`` (``hidden_states/``), ``dumps``; ``shm``
    (``/dev/shm``) where the run captures nothing."""
    free_bytes: int | None = None
    """For this user."""
    total_bytes: int | None = None


class HostSample(msgspec.Struct, kw_only=True):
    """One line of ``telemetry/host.jsonl``."""

    at: float
    cpu_pct: float | None = None
    load_1m: float | None = None
    memory_used_bytes: int | None = None
    memory_total_bytes: int | None = None
    disk_free_bytes: int | None = None
    """Of the run directory's disk."""
    disk_total_bytes: int | None = None
    shm_free_bytes: int | None = None
    """Where dumps go, ``/dev/shm`` where the run captures none."""
    shm_total_bytes: int | None = None
    disks: list[DiskReading] = []
    """Each file system once; the two above are of it. Empty in lines of earlier versions."""
    daemon_rss_bytes: int | None = None
    daemon_cpu_pct: float | None = None
    schema: int = SCHEMA


class ServerReading(msgspec.Struct, kw_only=True):
    """One SGLang server at one moment; a value is None when that server has no endpoint that tells."""

    url: str
    state: str
    """``ok``, ``starting`` (its own warm-up is not over), ``unready`` (there, but a tiny request came to nothing: it
    gets no work until one is answered), ``down``, ``refused`` (answers, but not as agreed: it gets no work) or
    ``unknown``."""
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
    last_answer_s: float | None = None
    """Seconds since its last accepted answer; None: none since the daemon's start."""
    silent_s: float | None = None
    """For how many seconds requests have been open there without any accepted answer; None: none is open."""


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
    extracting: dict[str, int] = {}
    """Open prefill passes of each data set (``in_flight`` counts the answers that are being generated)."""
    taking: int = 0
    """Captures that are being awaited, checked or stored."""
    dump_used_bytes: int | None = None
    """In the dump folder, of this run; None when nothing is captured."""
    dump_budget_bytes: int | None = None
    store_trouble: str | None = None
    """Why nothing can be stored now."""
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
    "stored": StoredSample,
    "dropped": DroppedSample,
    "gpu": GpuSample,
    "host": HostSample,
    "server": ServerSample,
    "daemon": Heartbeat,
    "event": Event,
}

INDEX_DECODER: Final[msgspec.json.Decoder[StoredSample | DroppedSample]] = msgspec.json.Decoder(
    StoredSample | DroppedSample
)
"""Of the lines of ``hidden_states.jsonl``."""
_ENCODER: Final = msgspec.json.Encoder()


def encode_line(record: msgspec.Struct) -> bytes:
    """Return a record as one JSON line, newline included."""
    return _ENCODER.encode(record) + b"\n"
