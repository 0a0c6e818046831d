"""The servers of a run: what was found out about each, what its plugin dumps, how fast it was lately."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Final

import msgspec

from contracts.details.windows import counted, lines_before
from contracts.fold.run import RunFold
from contracts.journal.extent import whole
from contracts.records import Event, ServerReading, ServerSample, Severity
from contracts.run_config import Alerts
from contracts.status import DaemonStatus

KEPT: Final = 40
"""Events of a server that are listed."""
_RECENT: Final = 600
_STEP_S: Final = 10.0
_EVENTS_BYTES: Final = 4 * 1024 * 1024
"""Of the newest events, searched for those of servers: the last few hundred may all be about something else."""
_ABOUT_BYTES: Final = 64 * 1024
_ABOUTS: Final = 64
"""Files that are read at most: each start of a scheduler leaves one."""


class About(msgspec.Struct, frozen=True):
    """``about.<instance>.json`` in the dump folder: what one scheduler of a server dumps. See the plugin's README."""

    instance: str
    port: int | None = None
    dp_rank: int | None = None
    sglang: str | None = None
    model: str | None = None
    architecture: str | None = None
    layers: tuple[int, ...] | None = None
    """0-based output ids."""
    server_layers: tuple[int, ...] | None = None
    """The ids that the server was given for them."""
    hidden_size: int | None = None
    dtype: str | None = None
    norm: str | None = None
    context_length: int | None = None
    started_at: float | None = None
    refusal: str | None = None
    """Why nothing is dumped, and what to do."""


class ServerDetail(msgspec.Struct, frozen=True):
    """One server."""

    url: str
    reading: ServerReading | None
    """How it is now; None where nobody says: no daemon runs, or its telemetry has stopped."""
    last: ServerReading | None
    """How it was when it was read last, however long ago (`ServersDetail.read_at`); None: it never was."""
    configured: bool
    """Whether run.toml names it."""
    arguments: dict[str, Any]
    """What the server said of its own settings, as far as it is recorded."""
    findings: tuple[Event, ...]
    """What is wrong or odd: notes of the contract probe since it came up last, and why it is refused."""
    events: tuple[Event, ...]
    """What happened to it, the newest first."""
    abouts: tuple[About, ...]
    """Of its newest start."""
    rates: tuple[tuple[float, float | None], ...]
    """(when, mean of the tokens a second that the server says) in steps of ten seconds, the oldest first; about the
    last ten minutes."""


class ServersDetail(msgspec.Struct, frozen=True):
    """All of them."""

    servers: tuple[ServerDetail, ...]
    read_at: float | None
    """When servers were read last, Unix seconds; None: never."""
    sampling: dict[str, Any]
    """What every request asks for."""
    dump_dir: str | None
    dump_trouble: str | None
    """Why the dump folder tells nothing."""
    wanted_layers: tuple[int, ...]
    """0-based output ids of run.toml; empty: nothing is captured."""


_SERVER: Final = b'"server.'
_EVENT: Final = msgspec.json.Decoder(Event)
_ABOUT: Final = msgspec.json.Decoder(About)
_SAMPLE: Final = msgspec.json.Decoder(ServerSample)


def servers_detail(fold: RunFold, now: float, daemon: DaemonStatus | None) -> ServersDetail:
    """Return what is known of every server that run.toml or telemetry names.

    Args:
        fold: Of the run.
        now: The present, on the time scale of the records.
        daemon: Whether one is there to read servers; None: not known yet.

    Raises:
        OSError: Events or telemetry cannot be read.
    """
    config = fold.config
    configured = [] if config is None else [server.url.rstrip("/") for server in config.servers]
    sample = fold.telemetry.server
    readings = {} if sample is None else {reading.url.rstrip("/"): reading for reading in sample.servers}
    current = readings if sample is not None and _is_current(sample, fold, now, daemon) else {}
    urls = list(dict.fromkeys([*configured, *readings]))
    history, events = _rates(fold, now), _events(fold, now)
    extracts = config is not None and config.extracts
    folder = Path(config.extract.dump_dir) if config is not None and extracts else None
    abouts, trouble = _abouts(folder) if folder is not None else ([], None)
    if fold.extent is not whole:
        abouts, trouble = _by_then(abouts, now, trouble)
    return ServersDetail(
        servers=tuple(
            _server(
                url,
                current.get(url),
                readings.get(url),
                url in configured,
                events.get(url, []),
                abouts,
                history.get(url, ()),
            )
            for url in urls
        ),
        read_at=None if sample is None else sample.at,
        sampling={} if config is None else dict(config.sampling),
        dump_dir=None if folder is None else str(folder),
        dump_trouble=trouble,
        wanted_layers=tuple(config.extract.layers) if config is not None and extracts else (),
    )


def _is_current(sample: ServerSample, fold: RunFold, now: float, daemon: DaemonStatus | None) -> bool:
    """Whether the newest readings are of the present: of the daemon that runs, and as fresh as no alert is about."""
    if daemon is None or not daemon.alive or (daemon.since is not None and sample.at < daemon.since):
        return False
    limits = Alerts() if fold.config is None else fold.config.alerts
    return now - sample.at < limits.telemetry_stale_s


def _server(
    url: str,
    reading: ServerReading | None,
    last: ServerReading | None,
    configured: bool,
    own: list[Event],
    abouts: list[About],
    rates: tuple[tuple[float, float | None], ...],
) -> ServerDetail:
    arguments: dict[str, Any] = {}
    findings: list[Event] = []
    for event in own:
        said = event.data.get("arguments")
        if isinstance(said, dict) and not arguments:
            arguments = said
        if event.kind == "server.note" or event.severity is Severity.CRITICAL:
            findings.append(event)
        if event.kind == "server.up":
            break  # what was found before that was of another life of the server
    return ServerDetail(
        url=url,
        reading=reading,
        last=last,
        configured=configured,
        arguments=arguments,
        findings=tuple(findings),
        events=tuple(own[:KEPT]),
        abouts=_newest([about for about in abouts if about.port is not None and url.endswith(f":{about.port}")]),
        rates=rates,
    )


def _events(fold: RunFold, now: float) -> dict[str, list[Event]]:
    """Return what happened to each server, the newest first."""
    window = lines_before(fold.run.events, counted(fold.run.events, fold.extent), 1 << 30, _EVENTS_BYTES)
    found: dict[str, list[Event]] = {}
    for line in reversed(window.lines):
        if _SERVER not in line.text:
            continue
        try:
            event = _EVENT.decode(line.text)
        except (msgspec.DecodeError, UnicodeDecodeError):
            continue  # counted and shown as unreadable, by the fold
        url = event.data.get("server")
        if isinstance(url, str) and event.kind.startswith("server.") and event.at <= now + 1.0:
            found.setdefault(url.rstrip("/"), []).append(event)
    return found


def _by_then(abouts: list[About], now: float, trouble: str | None) -> tuple[list[About], str | None]:
    """Return what was there at a moment of the past, and what cannot be told of it."""
    untimed = sum(about.started_at is None for about in abouts)
    there = [about for about in abouts if about.started_at is None or about.started_at <= now]
    if untimed and trouble is None:
        trouble = f"{untimed} of the plugin's files say no time: shown as they are now"
    return there, trouble


def _newest(abouts: list[About]) -> tuple[About, ...]:
    """Return those of the newest start: one for each DP rank."""
    by_rank: dict[int | None, About] = {}
    for about in sorted(abouts, key=lambda about: about.started_at or 0.0):
        by_rank[about.dp_rank] = about
    return tuple(by_rank[rank] for rank in sorted(by_rank, key=lambda rank: -1 if rank is None else rank))


def _abouts(folder: Path) -> tuple[list[About], str | None]:
    """Read the files that say what is dumped; a folder that cannot be read is no fault of the run's."""
    try:
        files = sorted(folder.glob("about.*.json"), key=lambda file: file.name)[-_ABOUTS:]
        found = []
        for file in files:
            with file.open("rb") as opened:
                text = opened.read(_ABOUT_BYTES)
            try:
                found.append(_ABOUT.decode(text))
            except (msgspec.DecodeError, UnicodeDecodeError):
                continue  # half written, or of another version of the plugin
    except OSError as error:
        return [], f"{folder}: {error.strerror or error}"
    if not found:
        return [], f"{folder}: no file of a plugin there (about.*.json): is this the machine of the servers?"
    return found, None


def _rates(fold: RunFold, now: float) -> dict[str, tuple[tuple[float, float | None], ...]]:
    path = fold.run.telemetry_file("server")
    window = lines_before(path, counted(path, fold.extent), _RECENT, 512 * 1024)
    found: dict[str, dict[int, list[float]]] = {}
    for line in window.lines:
        try:
            sample = _SAMPLE.decode(line.text)
        except (msgspec.DecodeError, UnicodeDecodeError):
            continue  # the fold says so when it is the newest
        if not now - _RECENT <= sample.at <= now + 1.0:
            continue
        for reading in sample.servers:
            step = found.setdefault(reading.url.rstrip("/"), {}).setdefault(int(sample.at // _STEP_S), [])
            if reading.tokens_per_s is not None:
                step.append(reading.tokens_per_s)
    return {
        url: tuple((step * _STEP_S, sum(rates) / len(rates) if rates else None) for step, rates in steps.items())
        for url, steps in found.items()
    }
