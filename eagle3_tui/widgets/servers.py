"""The SGLang servers and the machine: one line for all servers, a line each, or all figures over two lines."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from rich.style import Style
from textual.strip import Strip

from contracts.records import ServerReading
from contracts.status import RunState, RunStatus
from eagle3_tui.feed.state import View
from eagle3_tui.text import human_duration, human_exact, human_percent, human_rate
from eagle3_tui.widgets.canvas import Canvas
from eagle3_tui.widgets.host import host_groups
from eagle3_tui.widgets.line import Group, flow, flow_height, group, labelled, line
from eagle3_tui.widgets.look import Look

STARTING: Final = "starting"
"""State of a server whose own warm-up is not over."""
_LINES: Final = 2
"""More than that no server and no host takes."""


class Servers(Canvas):
    """Every server and the host in full where the height allows it, else a line each, else one for all servers."""

    def lines(self, view: View, width: int, height: int) -> list[Strip]:
        """Return what fits: servers first."""
        status = view.status
        if status is None or not servers_height(status):
            return []
        for most in range(_LINES, 0, -1):
            whole = _all_lines(status, width, most, self.look)
            if len(whole) <= height:
                return whole
        summary = [servers_line(status, width, self.look)] if status.servers else []
        host = [host_line(status, width, self.look)] if status.host is not None else []
        return (summary + host)[:height]


def servers_height(status: RunStatus | None) -> int:
    """Return how many lines show every server and the host, a line each."""
    return len(status.servers) + (status.host is not None) if status else 0


def full_height(status: RunStatus | None, width: int, look: Look) -> int:
    """Return how many lines show every figure of every server and of the host."""
    if status is None:
        return 0
    parts = [_server_groups(server, status, look) for server in status.servers]
    parts += [host_groups(status, look)] if status.host is not None else []
    return sum(flow_height(groups, width, _LINES) for groups in parts)


def server_line(server: ServerReading, status: RunStatus, width: int, look: Look) -> Strip:
    """Return one server: where, how it is, what it does."""
    return line(_server_groups(server, status, look), width, look)


def host_line(status: RunStatus, width: int, look: Look) -> Strip:
    """Return the machine on one line."""
    return line(host_groups(status, look), width, look)


def servers_line(status: RunStatus, width: int, look: Look) -> Strip:
    """Return all servers as one line: which are not well, then sums over those that tell."""
    servers = status.servers
    if len(servers) == 1:
        return server_line(servers[0], status, width, look)
    groups = [group(f"{len(servers)} servers", look.plain, look)]
    bad = {_where(server): server.state for server in servers if server.state not in ("ok", STARTING)}
    bad |= {_where(server): words for server in servers if (words := _no_progress(server, status)) is not None}
    starting = [_where(server) for server in servers if server.state == STARTING]
    if bad:
        names = ", ".join(f"{where} {words}" for where, words in bad.items())
        groups.append(group(f"{look.signs.critical} {names}", look.bad, look, shrink_to=20))
    if starting:
        names = ", ".join(starting)
        groups.append(group(f"{look.signs.warning} {names} {STARTING}", look.warn, look, shrink_to=20))
    if not bad and not starting:
        groups.append(group(f"{look.signs.good} all ok", look.good, look))
    groups += _loads(
        _sum([server.running for server in servers]),
        _sum([server.queued for server in servers]),
        max((server.kv_usage_pct for server in servers if server.kv_usage_pct is not None), default=None),
        look,
    )
    return line(groups, width, look)


def _all_lines(status: RunStatus, width: int, most: int, look: Look) -> list[Strip]:
    lines = []
    for server in status.servers:
        lines += flow(_server_groups(server, status, look), width, most, look)
    return lines + (flow(host_groups(status, look), width, most, look) if status.host is not None else [])


def _server_groups(server: ServerReading, status: RunStatus, look: Look) -> list[Group]:
    groups = [group(_where(server), look.plain, look, shrink_to=15)]
    if server.state != "ok":
        why = server.state + (f": {server.reason}" if server.reason else "")
        sign, style = state_look(server.state, look)
        return [*groups, group(f"{sign} {why}", style, look, shrink_to=10)]
    words = _no_progress(server, status)
    if words is not None:
        groups.append(group(f"{look.signs.warning} {words}", look.warn, look))
    else:
        groups.append(group(f"{look.signs.good} ok", look.good, look))
    groups += _loads(server.running, server.queued, server.kv_usage_pct, look)
    groups.append(labelled("tok/s", human_rate(server.tokens_per_s), look.plain, look, 5))
    groups.append(labelled("cache", human_percent(server.cache_hit_pct), look.plain, look, 7))
    style = look.warn if server.retracted else look.plain
    groups.append(labelled("retracted", human_exact(server.retracted), style, look, 3 if server.retracted else 8))
    if server.model:
        groups.append(group(server.model, look.dim, look, rank=9, shrink_to=12))
    return groups


def state_look(state: str, look: Look) -> tuple[str, Style]:
    """Return sign and style of a server's state."""
    if state == STARTING:
        return look.signs.warning, look.warn
    return (look.signs.good, look.good) if state == "ok" else (look.signs.critical, look.bad)


def is_silent(server: ServerReading, stall_after_s: float | None) -> bool:
    """Whether requests have been open at a server for too long without any answer."""
    return server.silent_s is not None and stall_after_s is not None and server.silent_s >= stall_after_s


def _no_progress(server: ServerReading, status: RunStatus) -> str | None:
    """Say that a server is there and nothing comes of it: a health check alone says that all is well for hours."""
    if server.state != "ok" or not (server.outstanding or server.running):
        return None
    if is_silent(server, status.stall_after_s):
        return f"no answer for {human_duration(server.silent_s)}"
    hidden = status.totals.hidden
    passes = hidden is not None and bool(hidden.in_work)  # they make no tokens
    silent = server.tokens_per_s == 0.0 and status.totals.tokens_per_s == 0.0 and not passes
    return "no progress" if status.state is RunState.STALLED or silent else None


def _where(server: ServerReading) -> str:
    return server.url.removeprefix("http://")


def _loads(running: int | None, queued: int | None, kv_pct: float | None, look: Look) -> list[Group]:
    return [
        labelled("running", human_exact(running), look.plain, look, 1),
        labelled("queued", human_exact(queued), look.plain, look, 2),
        labelled("KV", human_percent(kv_pct), look.plain, look, 4),
    ]


def _sum(values: Sequence[int | None]) -> int | None:
    known = [value for value in values if value is not None]
    return sum(known) if known else None
