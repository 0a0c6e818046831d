"""The one status object: what ``eagle3 status --json``, the control socket and the TUI show.

``None`` means unknown and is shown as ``-``; it is never turned into a 0. Made by `contracts.report.build_status`.
"""

from __future__ import annotations

import enum
from typing import Final

import msgspec

from contracts.exit_codes import ExitCode
from contracts.records import GpuReading, HostSample, ServerReading, Severity

STATUS_SCHEMA: Final = 1


class RunState(enum.StrEnum):
    """What the run as a whole is doing."""

    RUNNING = "running"
    PAUSED = "paused"
    DRAINING = "draining"
    STOPPED = "stopped"
    """No daemon, and work is left."""
    FINISHED = "finished"
    STALLED = "stalled"
    """A daemon is there and work is left, but nothing comes back for too long, or nothing can be sent."""
    WATCHING = "watching"
    """A folder of other tools, read only: nobody knows what is still to come."""


class DatasetStage(enum.StrEnum):
    """What one data set is doing."""

    PRETOKENIZED = "pretokenized"
    """Nothing to generate, in a run that does nothing else: a run that extracts stores its hidden states."""
    WAITING = "waiting"
    RUNNING = "running"
    EXTRACTING = "extracting"
    """Every answer is there, not yet all hidden states."""
    FINISHED = "finished"
    """Target reached, or every prompt has its response or its final refusal; where the run extracts, the hidden states
    of all of them are stored or given up too."""
    HALTED = "halted"
    """Stopped by contract drift, or by hidden states that are all wrong in the same way, until a person retries."""
    WATCHING = "watching"


DONE_STAGES: Final = (DatasetStage.FINISHED, DatasetStage.PRETOKENIZED)
"""Stages in which a data set needs nothing more."""


class DaemonStatus(msgspec.Struct, kw_only=True):
    """The daemon, as far as this reader can tell."""

    alive: bool | None
    """None where nobody can tell: a foreign folder, another user's run with a lock that may not be read."""
    pid: int | None = None
    since: float | None = None
    heartbeat_age_s: float | None = None
    gone_since: float | None = None
    """When a daemon that is gone without having said its end (killed, power) was last heard of; None: none is."""


class HiddenStatus(msgspec.Struct, kw_only=True):
    """The hidden states of one data set."""

    to_store: int | None
    """Samples whose hidden states can be taken by now: answered and pre-tokenized ones; None: nobody can tell yet."""
    stored: int
    """Samples in the store, checked."""
    tokens: int
    """Rows in the store."""
    bytes: int
    mb_per_s: float | None
    """Stored over the last minute, in 10^6 bytes a second."""
    failed: int
    """Samples whose last capture failed and that are not stored; ``given_up`` ones included."""
    given_up: int
    """Samples that are not tried again unless a person says so."""
    skipped: int
    """Samples left out by a rule: too long, or nothing in them to learn from; in neither of the two above."""
    truncated: int
    """Stored samples that were cut to the limit of length."""
    in_work: int | None
    """Open prefill passes."""
    checks: dict[str, int] = {}
    """Failed checks so far, by kind."""


class DatasetStatus(msgspec.Struct, kw_only=True):
    """One data set; `RunStatus.totals` is the same over all of them."""

    name: str
    stage: DatasetStage | None
    prompts: int | None
    """Usable prompts; None when there is no prompt file."""
    pretokenized: int | None = None
    """Those of them that bring their own answer: nothing to generate."""
    refused: int
    """Lines of the prompt file that cannot be used."""
    done: int
    """Distinct samples with an accepted response."""
    failed: int
    """Samples whose last attempt failed and that have no response; quarantined ones included."""
    quarantined: int
    in_flight: int | None
    waiting_retry: int | None
    unreadable: int
    """Lines of the journals that fit no known shape; in the totals, those of events and telemetry too."""
    unknown_counts: int
    """Responses that state no token count: in ``done``, not in any token sum."""
    duplicates: int
    """Further lines for a sample that already has its response: not counted."""
    incomplete: int
    """Saved stream pieces and unfinished answers without an end: not in ``done``."""
    prompt_tokens: int | None
    completion_tokens: int | None
    """Sum over responses with a known count; None when there are responses and none states a count."""
    avg_completion_tokens: float | None
    target_tokens: int | None
    overrun_tokens: int | None
    """Completion tokens beyond the target; None before it is reached."""
    tokens_per_s: float | None
    """Over the last minute."""
    tokens_per_s_run: float | None
    """Over the time in which the run was running since the daemon's start."""
    eta_s: float | None
    """Until every answer is there and, where the run extracts, every hidden state is stored."""
    eta_low_s: float | None = None
    """In one case of ten it is done before that."""
    eta_high_s: float | None = None
    """In one case of ten it is done after that."""
    eta_why: str | None = None
    """Why there is no ``eta_s``."""
    length_pct: float | None
    """Share of responses that ended by length."""
    truncated: int
    finish_reasons: dict[str, int] = {}
    hidden: HiddenStatus | None = None
    """None where the run does not extract and nothing is stored."""
    progress_pct: float | None = None
    """Share of the work that is done, answers and hidden states; None where nobody knows how much there is."""
    given_up_pct: float | None = None
    """Share of it that will never be: given up, refused, left out, or short of a target for want of prompts."""

    @property
    def to_answer(self) -> int | None:
        """Prompts that need an answer."""
        return None if self.prompts is None else self.prompts - (self.pretokenized or 0)


class AlertStatus(msgspec.Struct, kw_only=True):
    """Something a person should know now; gone when its cause is."""

    code: str
    severity: Severity
    message: str
    since: float | None
    dataset: str | None = None
    advice: str | None = None


class UnreadableLine(msgspec.Struct, kw_only=True):
    """Where a line is that fits no known shape, and why."""

    file: str
    offset: int
    line: int | None
    why: str


class RunStatus(msgspec.Struct, kw_only=True):
    """The whole status."""

    schema: int = STATUS_SCHEMA
    run: str
    path: str
    state: RunState
    reason: str | None
    """Why it is in that state, where there is more to say than the word."""
    at: float
    daemon: DaemonStatus
    concurrency: int | None
    elapsed_s: float | None
    totals: DatasetStatus
    datasets: list[DatasetStatus]
    gpus: list[GpuReading] | None
    """None: no telemetry; an empty list: none there."""
    gpu_state: str | None
    servers: list[ServerReading]
    host: HostSample | None
    alerts: list[AlertStatus]
    unreadable: list[UnreadableLine]
    """The first of them; the counts above hold all."""
    oldest_request_s: float | None = None
    """Age of the oldest open request; None when none is open, or without a daemon."""
    stages: list[str] = []
    """What the run does: ``generate``, ``extract``; empty for a folder of other tools."""
    dump_used_bytes: int | None = None
    """In the dump folder, of this run; None without a daemon that captures."""
    dump_budget_bytes: int | None = None
    """What dumps of this run may take there."""
    taking: int | None = None
    """Captures that are being awaited, checked or stored; None without a daemon that captures."""
    store_trouble: str | None = None
    """Why nothing can be stored now."""
    disk_full_in_s: float | None = None
    """Until the disk of the run or of the store is full, whichever is first, each at the rate at which what lies on it
    grew in the last ten minutes; None when unknown, or when nothing grows."""
    disk_full_path: str | None = None
    """A folder on that disk."""
    stall_after_s: float | None = None
    """For how long open requests may go without an answer: ``[alerts] stall_after_s``; None without a run.toml."""


def exit_code(status: RunStatus) -> ExitCode:
    """Return what ``eagle3 status`` exits with for this status."""
    if status.state is RunState.STALLED or any(a.severity is Severity.CRITICAL for a in status.alerts):
        return ExitCode.CRITICAL
    if status.state is RunState.STOPPED:
        return ExitCode.STOPPED
    return ExitCode.OK
