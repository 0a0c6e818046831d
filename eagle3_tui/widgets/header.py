"""The lines at the top that say whether all is well: state, progress, what is in hand, what is stored."""

from __future__ import annotations

from dataclasses import replace
from functools import partial

from textual.strip import Strip

from contracts.progress import overall_progress
from contracts.records import Severity
from contracts.status import DatasetStatus, HiddenStatus, RunState, RunStatus
from eagle3_tui.feed.state import View
from eagle3_tui.progress_text import lost_text, share_text
from eagle3_tui.status_table import gave_up, oldest_text, state_text
from eagle3_tui.store_text import checks_text, only_extracts, used_of
from eagle3_tui.text import UNKNOWN, human_bytes, human_count, human_duration, human_exact, human_rate, human_time
from eagle3_tui.widgets.bars import bar
from eagle3_tui.widgets.canvas import Canvas
from eagle3_tui.widgets.line import Group, cell, group, labelled, line, wrap
from eagle3_tui.widgets.look import MOVING, Look
from eagle3_tui.widgets.times import moment

_LEAST_BAR = 8
_WIDE = 100
"""From this width on the first line has room for the elapsed time and for more about the time left."""
_DUMPS_FULL = 0.9
_MOST_NOTES = 3
"""A reason is said whole, over so many lines."""
_NOTES_FROM = 24
"""On a lower screen it has one line: data sets and alerts come first."""
_WELL = (RunState.RUNNING, RunState.DRAINING, RunState.FINISHED, RunState.WATCHING)
"""States in which no alert means that all is well."""


class Header(Canvas):
    """Run, state, alerts, ETA; progress and speed; counts; the store; and a line for what is out of the ordinary."""

    def lines(self, view: View, width: int, height: int) -> list[Strip]:
        """Return three lines, one for the store where there is one, and some where there is a reason or a doubt."""
        return header_lines(view, width, height, self.look)


def header_height(view: View, width: int, screen: int, look: Look) -> int:
    """Return how many lines the header takes on a screen of ``screen`` lines."""
    return _figures_height(view) + len(_note_rows(view, width, _MOST_NOTES if screen >= _NOTES_FROM else 1, look))


def header_lines(view: View, width: int, height: int, look: Look) -> list[Strip]:
    """Return the header's lines; see `header_height`."""
    status = view.status
    if status is None:
        lines = [line([group("reading the run's files ...", look.dim, look)], width, look), *_blank(2, width, look)]
    else:
        lines = [
            line(_state_groups(status, width, look, replays=view.replays), width, look),
            line(progress_groups(status, look), width, look),
            line(_count_groups(status, width, look), width, look),
        ]
        if status.totals.hidden is not None:
            lines.append(line(hidden_groups(status, status.totals.hidden, look), width, look))
    doubt = view.problem is not None or view.age_s is not None
    calm = status is not None and status.state in _WELL
    style = look.bad_badge if doubt else look.dim if calm else look.warn
    rows = _note_rows(view, width, max(height - _figures_height(view), 1), look)
    return lines + [line([group(row, style, look)], width, look) for row in rows]


def _figures_height(view: View) -> int:
    """Lines of what is always there, and of the store."""
    return 3 + (view.status is not None and view.status.totals.hidden is not None)


def _note_rows(view: View, width: int, most: int, look: Look) -> list[str]:
    """The reason or the doubt, over as many lines as it takes and there are."""
    notes, room = _notes(view), max(width - 2, 1)
    rows = wrap(notes, room, look) if notes else []
    if len(rows) > most:
        rows[most - 1 :] = [cell(" ".join(rows[most - 1 :]), room, look)]
    return rows


def _blank(count: int, width: int, look: Look) -> list[Strip]:
    return [line([], width, look)] * count


def _notes(view: View) -> str:
    notes = []
    if view.age_s is not None:
        notes.append(f"what you see is {human_duration(view.age_s)} old")
    if view.problem is not None:
        notes.append(view.problem)
    if not notes and view.status is not None and view.status.reason:
        notes.append(f"{view.status.state.value}: {view.status.reason}")
    return "; ".join(notes)


def state_badge(status: RunStatus, look: Look) -> Group:
    """Return the state as a shape and a word; finished with prompts given up is no plain success."""
    sign, style = (look.signs.warning, look.warn_badge) if gave_up(status) else look.state(status.state)
    return group(f" {sign} {_state_words(status)} ", style, look)


def _state_words(status: RunStatus) -> str:
    """The state, with what is missing where that is why nothing moves."""
    if status.state is RunState.STOPPED and status.daemon.alive is False:
        return f"{status.state.value}: {'no daemon' if status.daemon.gone_since is None else 'daemon gone'}"
    if status.state is RunState.STALLED and status.servers and all(each.state != "ok" for each in status.servers):
        return f"{status.state.value}: {'server' if len(status.servers) == 1 else 'all servers'} down"
    return state_text(status)


def verdict(status: RunStatus, look: Look) -> list[Group]:
    """Return how many alerts there are, worst first: what a person looks for."""
    critical = sum(alert.severity is Severity.CRITICAL for alert in status.alerts)
    warnings = sum(alert.severity is Severity.WARNING for alert in status.alerts)
    groups = []
    if critical:
        groups.append(group(f" {look.signs.critical} {critical} critical ", look.bad_badge, look))
    if warnings:
        text = f" {look.signs.warning} {warnings} warning{'' if warnings == 1 else 's'} "
        groups.append(group(text, look.warn_badge, look, rank=3 if critical else 0))
    if groups:
        return groups
    if status.state not in _WELL or gave_up(status):
        return [group("no alerts", look.plain, look)]
    return [group(f"{look.signs.good} no alerts", look.good, look)]


def _state_groups(status: RunStatus, width: int, look: Look, *, replays: bool) -> list[Group]:
    groups = [
        group(status.run, look.bold, look, shrink_to=8),
        *([group(f" REPLAY {human_time(status.at)} ", look.warn_badge, look)] if replays else []),
        state_badge(status, look),
        *verdict(status, look),
    ]
    if status.elapsed_s is not None and width >= _WIDE:
        groups.append(_elapsed(status, look, rank=4))
    if status.state in (RunState.FINISHED, RunState.WATCHING):
        return groups
    eta = status.totals.eta_s
    if eta is None or status.state not in MOVING:
        why = status.totals.eta_why if status.state in MOVING else status.state.value
        groups.append(group("ETA unknown", look.plain, look, rank=2, right=True))
        return [*groups, group(f"({why})", look.dim, look, rank=3, right=True, shrink_to=12)] if why else groups
    groups.append(group(f"ETA {moment(status.at + eta, status.at)}", look.bold, look, rank=2, right=True))
    groups.append(group(f"({_span(status.totals, width)})", look.plain, look, rank=3, right=True))
    return groups


def _span(totals: DatasetStatus, width: int) -> str:
    """How long it still takes, and between which two it is in eight cases of ten; those alone where room is short."""
    point = f"in {human_duration(totals.eta_s)}"
    if totals.eta_low_s is None or totals.eta_high_s is None:
        return point
    between = f"{human_duration(totals.eta_low_s)} - {human_duration(totals.eta_high_s)}"
    return f"{point}, {between}" if width >= _WIDE else between


def _elapsed(status: RunStatus, look: Look, *, rank: int, right: bool = False) -> Group:
    return replace(labelled("elapsed", human_duration(status.elapsed_s), look.plain, look, rank), right=right)


def progress_groups(status: RunStatus, look: Look) -> list[Group]:
    """Return the overall bar with tokens, share and speed; no bar where nobody knows how much there is to do."""
    totals = status.totals
    progress = overall_progress(status)
    if totals.target_tokens:
        amount = f"{human_count(totals.completion_tokens):>7} / {human_count(totals.target_tokens)} tokens"
    else:
        amount = f"{human_count(totals.completion_tokens):>7} tokens"
    speed = [
        group(amount, look.bold, look, rank=3),
        group(f"{human_rate(totals.tokens_per_s):>6} tok/s now", look.bold, look, rank=1),
    ]
    if totals.tokens_per_s_run is not None:
        speed.append(group(f"{human_rate(totals.tokens_per_s_run):>6} run", look.plain, look, rank=4))
    if progress is None:
        return speed
    lost = lost_text(progress, totals)
    warned = gave_up(status) or (lost and status.state is RunState.FINISHED)
    drawn = bar(progress.done, _LEAST_BAR, look.signs, progress.given_up)
    shape = Group(
        ((drawn, look.warn if warned else look.progress(status.state)),),
        rank=2,
        grow=partial(bar, progress.done, signs=look.signs, lost=progress.given_up),
    )
    shares = [group(f"{share_text(progress):>5}", look.bold, look)]
    if lost:
        shares.append(group(f"+ {lost}", look.warn, look))
    return [shape, *shares, *speed]


def _count_groups(status: RunStatus, width: int, look: Look) -> list[Group]:
    totals = status.totals
    oldest = oldest_text(status)
    groups = [
        _open_requests(status, look),
        *([] if oldest is None else [labelled("oldest", oldest, look.plain, look, 1)]),
        labelled("done", _of(totals.done, totals.to_answer), look.plain, look, 5),
        labelled("failed", human_exact(totals.failed), look.warn if totals.failed else look.plain, look, 0),
    ]
    for rank, label, count in ((3, "retrying", totals.waiting_retry), (2, "quarantined", totals.quarantined)):
        if count:
            groups.append(labelled(label, human_exact(count), look.plain, look, rank))
    style = look.bad if totals.unreadable else look.plain
    groups.append(labelled("unreadable", human_exact(totals.unreadable), style, look, 0))
    for rank, (label, count) in enumerate(
        (
            ("without count", totals.unknown_counts),
            ("refused", totals.refused),
            ("duplicates", totals.duplicates),
            ("incomplete", totals.incomplete),
        ),
        start=6,
    ):
        if count:
            groups.append(labelled(label, human_exact(count), look.plain, look, rank))
    if status.elapsed_s is not None and width < _WIDE:
        groups.append(_elapsed(status, look, rank=4, right=True))
    return groups + _daemon(status, look)


def _open_requests(status: RunStatus, look: Look) -> Group:
    """Answers that are being made; in a run that makes none, the prefill passes."""
    hidden = status.totals.hidden
    if hidden is not None and only_extracts(status):
        return labelled("passes", human_exact(hidden.in_work), look.plain, look, 1)
    return labelled("in flight", _of(status.totals.in_flight, status.concurrency), look.plain, look, 1)


def hidden_groups(status: RunStatus, hidden: HiddenStatus, look: Look) -> list[Group]:
    """Return what is stored, how fast, how full the dump folder is, and what is wrong."""
    failed = sum(hidden.checks.values())
    groups = [
        labelled("stored", _of(hidden.stored, hidden.to_store), look.plain, look, 0),
        group(f"{human_bytes(hidden.bytes):>8}", look.bold, look, rank=1),
        group(f"{human_rate(hidden.mb_per_s):>5} MB/s", look.bold, look, rank=1),
    ]
    if status.dump_budget_bytes is not None:
        used, budget = status.dump_used_bytes, status.dump_budget_bytes
        full = used is not None and used >= _DUMPS_FULL * budget
        groups.append(labelled("dumps", used_of(used, budget), look.warn if full else look.plain, look, 3))
    if hidden.in_work and not only_extracts(status):
        groups.append(labelled("passes", human_exact(hidden.in_work), look.plain, look, 6))
    style = look.warn if failed else look.plain
    groups.append(labelled("checks failed", human_exact(failed), style, look, 2 if failed else 4))
    if failed:
        groups.append(group(checks_text(hidden).partition(" ")[2], look.plain, look, rank=5))
    if hidden.given_up:
        groups.append(labelled("not stored", human_exact(hidden.given_up), look.warn, look, 0))
    for rank, (label, count) in enumerate((("left out", hidden.skipped), ("cut", hidden.truncated)), start=7):
        if count:
            groups.append(labelled(label, human_exact(count), look.plain, look, rank))
    return groups


def _of(part: int | None, whole: int | None) -> str:
    """``248/256``, the first as wide as the second, so that the line stays still while it grows."""
    if whole is None:
        return human_exact(part)
    all_of_it = human_exact(whole)
    return f"{human_exact(part):>{len(all_of_it)}}/{all_of_it}"


def _daemon(status: RunStatus, look: Look) -> list[Group]:
    daemon = status.daemon
    if daemon.alive is None:
        return []
    if not daemon.alive:
        style = look.plain if status.state is RunState.FINISHED else look.warn
        return [group("no daemon", style, look, rank=2, right=True)]
    return [group(f"daemon {daemon.pid or UNKNOWN}", look.dim, look, rank=10, right=True)]
