"""The status as lines of text: pure, at most ``width`` cells each, with nothing in them that a terminal would obey."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from contracts.records import GpuReading, HostSample, ServerReading, Severity
from contracts.status import AlertStatus, DatasetStage, DatasetStatus, RunState, RunStatus, UnreadableLine
from eagle3_tui.progress_text import left_parts
from eagle3_tui.store_text import given_up, named_disks, of_path, store_lines
from eagle3_tui.terminal import Signs
from eagle3_tui.text import (
    UNKNOWN,
    cell_width,
    fit,
    human_bytes,
    human_count,
    human_duration,
    human_exact,
    human_percent,
    human_rate,
    human_time,
    shorten,
    visible,
    wrap,
)

_HEADS: Final = ("data set", "stage", "done", "prompts", "tokens", "target", "mean", "tok/s", "fail", "ETA")
_STAGE: Final = {DatasetStage.PRETOKENIZED: "pretok", DatasetStage.EXTRACTING: "extract"}
_SHOWN_UNREADABLE: Final = 5
_LEAST_NAME: Final = 8
_ROOMY: Final = 100
"""From this width on a run that stores hidden states has all columns."""
_MINUTE_S: Final = 60.0
_HOUR_S: Final = 3600.0


def status_lines(status: RunStatus, *, width: int, signs: Signs) -> list[str]:
    """Return the whole status: header, totals, data sets, GPUs, servers, host, alerts, unreadable lines."""
    lines = [*_header(status, width, signs), "", *_datasets(status, width, signs), ""]
    lines += _machine(status, width, signs)
    lines += [line for alert in status.alerts for line in _alert(alert, width, signs)]
    lines += _unreadable(status, width)
    # A very narrow terminal: cut rather than let it break lines.
    return [line if cell_width(line) <= width else shorten(line, width, ellipsis=signs.ellipsis) for line in lines]


def oldest_text(status: RunStatus) -> str | None:
    """Return the age of the oldest open request in whole minutes, once there is one; before that it says nothing."""
    age = status.oldest_request_s
    if age is None or age < _MINUTE_S:
        return None
    return f"{age // _MINUTE_S:.0f}m" if age < _HOUR_S else human_duration(age // _MINUTE_S * _MINUTE_S)


def gave_up(status: RunStatus) -> bool:
    """Return whether a finished run has samples that got no answer, or were not stored, after all their attempts."""
    return status.state is RunState.FINISHED and given_up(status.totals) > 0


def state_text(status: RunStatus) -> str:
    """Return the state in words; a finished run that gave prompts up says so."""
    return f"{status.state}, {human_exact(given_up(status.totals))} given up" if gave_up(status) else status.state


def _ended_text(status: RunStatus) -> str:
    """Return the state of a finished run with its reason: ``finished: target reached``."""
    return state_text(status) + (f": {visible(status.reason)}" if status.reason else "")


def summary_line(status: RunStatus) -> str:
    """Return the status in one line, for logs."""
    totals = status.totals
    parts = [
        human_time(status.at),
        visible(status.run),
        _ended_text(status) if status.state is RunState.FINISHED else state_text(status),
        f"{human_exact(totals.done)}/{human_exact(totals.to_answer)} done",
        f"{human_exact(totals.completion_tokens)} tokens",
        f"{human_rate(totals.tokens_per_s)} tok/s",
        "ETA done" if status.state is RunState.FINISHED else f"ETA {human_duration(totals.eta_s)}",
        f"failed {human_exact(totals.failed)}",
    ]
    if totals.hidden is not None:
        parts.append(f"stored {human_exact(totals.hidden.stored)}/{human_exact(totals.hidden.to_store)}")
    if totals.unreadable:
        parts.append(f"unreadable {human_exact(totals.unreadable)}")
    return "  ".join(parts + [f"{alert.severity} {visible(alert.code)}" for alert in status.alerts])


def _header(status: RunStatus, width: int, signs: Signs) -> list[str]:
    totals = status.totals
    sign = signs.warning if gave_up(status) else getattr(signs, status.state.value)
    state = f"{sign} {state_text(status)}"
    elapsed = f"elapsed {human_duration(status.elapsed_s)}"
    reason = []
    if status.reason:
        whole = f"{visible(status.run)}  {state}: {visible(status.reason)}"
        if cell_width(whole) + 2 + cell_width(elapsed) <= width:
            state += f": {visible(status.reason)}"
        else:
            reason = wrap(status.reason, width, first="  ", rest="  ")
    tokens = f"{human_exact(totals.completion_tokens)} completion tokens"
    if totals.target_tokens:
        tokens += f" of {human_exact(totals.target_tokens)} ({human_percent(_share(totals))})"
    in_flight = human_exact(totals.in_flight)
    if status.concurrency is not None:
        in_flight += f"/{status.concurrency:,}"
    oldest = oldest_text(status)
    if oldest is not None:
        in_flight += f", oldest {oldest}"
    counts = [f"done {human_exact(totals.done)} of {human_exact(totals.to_answer)}", f"in flight {in_flight}"]
    counts.append(f"failed {human_exact(totals.failed)}{_of_failed(totals)}")
    for name, value in (
        ("refused", totals.refused),
        ("unreadable", totals.unreadable),
        ("without count", totals.unknown_counts),
        ("duplicates", totals.duplicates),
        ("incomplete", totals.incomplete),
        ("overrun tokens", totals.overrun_tokens),
    ):
        if value:
            counts.append(f"{name} {human_exact(value)}")
    left = left_parts(status)
    speed = f"{human_rate(totals.tokens_per_s)} tok/s now, {human_rate(totals.tokens_per_s_run)} run"
    return [
        _apart(f"{visible(status.run)}  {state}", elapsed, width, signs),
        *reason,
        _apart(visible(status.path), _daemon(status), width, signs),
        _apart(tokens, speed, width, signs),
        *wrap("   ".join(counts), width, rest="  "),
        *store_lines(status, width),
        *(wrap("   ".join(left), width, rest="  ") if left else []),
    ]


def _share(totals: DatasetStatus) -> float | None:
    if totals.completion_tokens is None or not totals.target_tokens:
        return None
    return 100 * totals.completion_tokens / totals.target_tokens


def _of_failed(totals: DatasetStatus) -> str:
    parts = [
        f"{name} {human_exact(value)}"
        for name, value in (("waiting", totals.waiting_retry), ("quarantined", totals.quarantined))
        if value
    ]
    return f" ({', '.join(parts)})" if parts else ""


def _daemon(status: RunStatus) -> str:
    daemon = status.daemon
    if daemon.alive is None:
        return "read only"
    if not daemon.alive:
        return "no daemon"
    pid = UNKNOWN if daemon.pid is None else str(daemon.pid)
    return f"daemon {pid}, heartbeat {human_duration(daemon.heartbeat_age_s)} ago"


def _apart(left: str, right: str, width: int, signs: Signs) -> str:
    """Put one text at each end; the left one gives way, down to a third of the line."""
    room = max(width - cell_width(right) - 2, width // 3)
    if cell_width(left) <= room:
        return left + " " * (width - cell_width(left) - cell_width(right)) + right
    return fit(left, room, ellipsis=signs.ellipsis) + "  " + right


def _datasets(status: RunStatus, width: int, signs: Signs) -> list[str]:
    rows = [_row(dataset) for dataset in status.datasets]
    if len(rows) > 1:
        rows.append(("total", "", *_row(status.totals)[2:]))
    table = [_HEADS, *rows]
    if status.totals.hidden is not None:
        table = _with_stored(table, [*status.datasets, status.totals], width)
    widths = [max(cell_width(visible(cell)) for cell in column) for column in zip(*table, strict=True)]
    others = sum(widths[1:]) + len(widths) - 1
    widths[0] = max(min(widths[0], width - others), _LEAST_NAME)
    return [_line(row, widths, signs) for row in table]


def _with_stored(table: list[tuple[str, ...]], datasets: list[DatasetStatus], width: int) -> list[tuple[str, ...]]:
    """Put the stored samples behind the prompts; on a narrow terminal in the place of the mean length."""
    cells = ["stored", *(UNKNOWN if each.hidden is None else human_count(each.hidden.stored) for each in datasets)]
    behind, mean = _HEADS.index("prompts") + 1, _HEADS.index("mean")
    kept = [row if width >= _ROOMY else row[:mean] + row[mean + 1 :] for row in table]
    return [(*row[:behind], cell, *row[behind:]) for row, cell in zip(kept, cells, strict=False)]


def _row(dataset: DatasetStatus) -> tuple[str, ...]:
    target = UNKNOWN if not dataset.target_tokens else human_percent(_share(dataset))
    left = "done" if dataset.eta_s == 0.0 else human_duration(dataset.eta_s)
    if dataset.stage is DatasetStage.PRETOKENIZED:
        left = UNKNOWN
    return (
        dataset.name,
        UNKNOWN if dataset.stage is None else _STAGE.get(dataset.stage, str(dataset.stage)),
        human_count(dataset.done),
        human_count(dataset.prompts),
        human_count(dataset.completion_tokens),
        target,
        human_rate(dataset.avg_completion_tokens),
        human_rate(dataset.tokens_per_s),
        human_count(dataset.failed),
        left,
    )


def _line(row: Sequence[str], widths: Sequence[int], signs: Signs) -> str:
    cells = [
        fit(text, cells, right=column > 1, ellipsis=signs.ellipsis)
        for column, (text, cells) in enumerate(zip(row, widths, strict=True))
    ]
    return " ".join(cells)


def _machine(status: RunStatus, width: int, signs: Signs) -> list[str]:
    lines = []
    if status.gpus is None:
        lines.append(f"GPUs    {UNKNOWN}")
    elif not status.gpus:
        lines += wrap(status.gpu_state or "none", width, first="GPUs    ", rest=" " * 8)
    lines += [line for gpu in status.gpus or () for line in _gpu(gpu, width, signs)]
    lines += [line for server in status.servers for line in _server(server, width)]
    if status.host is not None:
        lines += wrap(_host(status.host), width, first="host    ", rest=" " * 8)
    return lines


def _gpu(gpu: GpuReading, width: int, signs: Signs) -> list[str]:
    parts = [f"{human_percent(gpu.utilization_pct):>6}", f"memory {_of(gpu.memory_used_bytes, gpu.memory_total_bytes)}"]
    power = UNKNOWN if gpu.power_w is None else f"{gpu.power_w:.0f}"
    limit = "" if gpu.power_limit_w is None else f"/{gpu.power_limit_w:.0f}"
    parts.append(f"{power}{limit} W")
    parts.append(f"{UNKNOWN if gpu.temperature_c is None else f'{gpu.temperature_c:.0f}'} {signs.degree}C")
    line = f"GPU {gpu.index:<3} " + "  ".join(parts)
    if gpu.state == "ok" and not gpu.reason:
        return [line + (f"  {visible(gpu.name)}" if gpu.name else "")]
    return [line, *wrap(f"{gpu.state}: {gpu.reason or UNKNOWN}", width, first=" " * 8, rest=" " * 8)]


def _server(server: ServerReading, width: int) -> list[str]:
    parts = [
        visible(server.url),
        visible(server.state),
        f"{human_exact(server.running)} running",
        f"{human_exact(server.queued)} queued",
        f"KV {human_percent(server.kv_usage_pct)}",
        f"{human_rate(server.tokens_per_s)} tok/s",
    ]
    if server.retracted:
        parts.append(f"{human_exact(server.retracted)} retracted")
    if server.reason:
        parts.append(visible(server.reason))
    return wrap("  ".join(parts), width, first="server  ", rest=" " * 8)


def _host(host: HostSample) -> str:
    return (
        f"CPU {human_percent(host.cpu_pct)}  memory {_of(host.memory_used_bytes, host.memory_total_bytes)}"
        + "".join(f"  {name} {human_bytes(disk.free_bytes)}{of_path(path)}" for name, path, disk in named_disks(host))
    )


def _of(used: int | None, total: int | None) -> str:
    return UNKNOWN if used is None and total is None else f"{human_bytes(used)} of {human_bytes(total)}"


def _alert(alert: AlertStatus, width: int, signs: Signs) -> list[str]:
    sign = {Severity.CRITICAL: signs.critical, Severity.WARNING: signs.warning, Severity.INFO: signs.info}[
        alert.severity
    ]
    since = "" if alert.since is None else f" (since {human_time(alert.since)})"
    lines = wrap(f"{alert.severity} {alert.code}{since}: {alert.message}", width, first=f"{sign} ", rest="  ")
    return lines + (wrap(alert.advice, width, first="  > ", rest="    ") if alert.advice else [])


def _unreadable(status: RunStatus, width: int) -> list[str]:
    shown = status.unreadable[:_SHOWN_UNREADABLE]
    lines = [line for one in shown for line in wrap(_place(one), width, first="unreadable  ", rest=" " * 12)]
    more = status.totals.unreadable - len(shown)
    return lines + ([f"unreadable  {more:,} more: see eagle3 status --json"] if shown and more > 0 else [])


def _place(one: UnreadableLine) -> str:
    line = UNKNOWN if one.line is None else f"{one.line:,}"
    return f"{one.file} line {line}, byte {one.offset:,}: {one.why}"
