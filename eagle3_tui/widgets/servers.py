"""The SGLang servers and the machine they are watched from: one line, or a line each."""

from __future__ import annotations

from collections.abc import Sequence

from textual.strip import Strip

from contracts.records import HostSample, ServerReading
from contracts.status import RunStatus
from eagle3_tui.feed.state import View
from eagle3_tui.text import human_bytes, human_exact, human_percent, human_rate
from eagle3_tui.widgets.canvas import Canvas
from eagle3_tui.widgets.line import Group, group, labelled, line
from eagle3_tui.widgets.look import Look

_LOW_DISK = 0.05


class Servers(Canvas):
    """A line for each server and one for the host; where that is too much, one for all servers."""

    def lines(self, view: View, width: int, height: int) -> list[Strip]:
        """Return what fits: servers first."""
        status = view.status
        if status is None or not servers_height(status):
            return []
        host = [host_line(status.host, width, self.look)] if status.host is not None else []
        if len(status.servers) + len(host) <= height:
            return [*(server_line(server, width, self.look) for server in status.servers), *host]
        summary = [servers_line(status.servers, width, self.look)] if status.servers else []
        return (summary + host)[:height]


def servers_height(status: RunStatus | None) -> int:
    """Return how many lines show every server and the host."""
    return len(status.servers) + (status.host is not None) if status else 0


def server_line(server: ServerReading, width: int, look: Look) -> Strip:
    """Return one server: where, how it is, what it does."""
    where = server.url.removeprefix("http://")
    return line([group(where, look.plain, look, shrink_to=15), *_figures(server, look)], width, look)


def servers_line(servers: Sequence[ServerReading], width: int, look: Look) -> Strip:
    """Return all servers as one line: which are not well, then sums over those that tell."""
    if len(servers) == 1:
        return server_line(servers[0], width, look)
    groups = [group(f"{len(servers)} servers", look.plain, look)]
    bad = [server for server in servers if server.state != "ok"]
    if bad:
        names = ", ".join(f"{server.url.removeprefix('http://')} {server.state}" for server in bad)
        groups.append(group(f"{look.signs.critical} {names}", look.bad, look, shrink_to=20))
    else:
        groups.append(group(f"{look.signs.good} all ok", look.good, look))
    groups += _loads(
        _sum([server.running for server in servers]),
        _sum([server.queued for server in servers]),
        max((server.kv_usage_pct for server in servers if server.kv_usage_pct is not None), default=None),
        look,
    )
    return line(groups, width, look)


def host_line(host: HostSample, width: int, look: Look) -> Strip:
    """Return the machine: processor, memory, and the disks that may fill."""
    groups = [
        group("host", look.dim, look),
        labelled("CPU", human_percent(host.cpu_pct), look.plain, look, 2),
        labelled("load", human_rate(host.load_1m), look.plain, look, 4),
        labelled("memory", _of(host.memory_used_bytes, host.memory_total_bytes), look.plain, look, 1),
        _free("disk free", host.disk_free_bytes, host.disk_total_bytes, look, 0),
        _free("shm free", host.shm_free_bytes, host.shm_total_bytes, look, 3),
    ]
    return line(groups, width, look)


def _figures(server: ServerReading, look: Look) -> list[Group]:
    if server.state != "ok":
        why = server.state + (f": {server.reason}" if server.reason else "")
        return [group(f"{look.signs.critical} {why}", look.bad, look, shrink_to=10)]
    groups = [group(f"{look.signs.good} ok", look.good, look)]
    groups += _loads(server.running, server.queued, server.kv_usage_pct, look)
    groups.append(labelled("tok/s", human_rate(server.tokens_per_s), look.plain, look, 5))
    if server.retracted:
        groups.append(labelled("retracted", human_exact(server.retracted), look.warn, look, 3))
    if server.model:
        groups.append(group(server.model, look.dim, look, rank=6))
    return groups


def _loads(running: int | None, queued: int | None, kv_pct: float | None, look: Look) -> list[Group]:
    return [
        labelled("running", human_exact(running), look.plain, look, 1),
        labelled("queued", human_exact(queued), look.plain, look, 2),
        labelled("KV", human_percent(kv_pct), look.plain, look, 4),
    ]


def _sum(values: Sequence[int | None]) -> int | None:
    known = [value for value in values if value is not None]
    return sum(known) if known else None


def _of(used: int | None, total: int | None) -> str:
    return f"{human_bytes(used)} of {human_bytes(total)}"


def _free(label: str, free: int | None, total: int | None, look: Look, rank: int) -> Group:
    short = free is not None and total is not None and total > 0 and free / total < _LOW_DISK
    return labelled(label, human_bytes(free), look.warn if short else look.plain, look, rank)
