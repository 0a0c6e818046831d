"""The servers of a run: how each is, what it said of itself, what is odd about it, what its plugin dumps."""

from __future__ import annotations

from collections.abc import Iterable
from functools import partial
from typing import ClassVar

from rich.style import Style
from textual.binding import BindingType
from textual.widget import Widget

from contracts.details.servers import About, ServerDetail, ServersDetail, servers_detail
from contracts.records import ServerReading
from eagle3_tui.feed.state import Feed
from eagle3_tui.keys import Key
from eagle3_tui.screens.detail import BACK, MOVING, DetailScreen, Movable, bindings
from eagle3_tui.text import UNKNOWN, human_duration, human_exact, human_percent, human_rate
from eagle3_tui.widgets.detail import Fact, Pager, fact_rows
from eagle3_tui.widgets.histogram import rate_lines
from eagle3_tui.widgets.line import Group, group
from eagle3_tui.widgets.lines import Lines, rule_strip
from eagle3_tui.widgets.listing import ListColumn, Listing
from eagle3_tui.widgets.look import Look
from eagle3_tui.widgets.servers import STARTING, is_silent, state_look
from eagle3_tui.widgets.times import stamp

KEYS = (
    Key(("left_square_bracket",), "[", "scroll(-1)", ("[ ]", "scroll the text"), "scroll the text below up"),
    Key(("right_square_bracket",), "]", "scroll(1)", None, "scroll the text below down"),
    BACK,
    *MOVING,
)
_RATE_LINES = 4


class ServersScreen(DetailScreen):
    """All servers, and everything about the selected one.

    Args:
        look: Signs and styles.
        feed: Answers questions about the run.
    """

    KEYS: ClassVar[tuple[Key, ...]] = KEYS
    BINDINGS: ClassVar[list[BindingType]] = bindings(KEYS)

    def __init__(self, look: Look, feed: Feed) -> None:
        super().__init__(look, feed)
        self._detail: ServersDetail | None = None
        self._list = Listing(look, COLUMNS, lambda server: server.url, id="list", empty="no server is named anywhere")
        self._rates = Lines(look, id="rates")
        self._text = Pager(look, margin=0, id="text")
        self._of: str | None = None

    @property
    def movable(self) -> Movable:
        """The list."""
        return self._list

    def parts(self) -> Iterable[Widget]:
        """Yield the parts."""
        return (self._list, self._rates, self._text)

    def share_lines(self, width: int, height: int) -> None:
        """The list as long as it is, up to half; its rates; the rest is about the selected one."""
        count = 1 if self._detail is None else max(len(self._detail.servers), 1)
        rows = max(min(count + 1, height // 2), 1)
        rates = _RATE_LINES + 1 if height - rows >= 14 else 0
        self.place(self._list, rows)
        self.place(self._rates, rates)
        self.place(self._text, max(height - rows - rates, 1))

    async def read(self) -> None:
        """Ask for the servers."""
        status = self.feed.view().status
        daemon = None if status is None else status.daemon
        self._detail = await self.feed.ask(partial(servers_detail, daemon=daemon))
        look, servers = self.look, self._detail.servers
        states = [server.reading.state for server in servers if server.reading is not None]
        bad, starting = sum(state not in ("ok", STARTING) for state in states), states.count(STARTING)
        waiting = [group(f"{look.signs.warning} {starting} {STARTING}", look.warn, look)] if starting else []
        findings = sum(len(server.findings) for server in servers)
        self.title_groups(
            [
                group(f"{len(servers)} server{'' if len(servers) == 1 else 's'}", look.bold, look),
                _health(bad, len(states), self._detail.read_at, self._now(), look),
                *waiting,
                group(f"{findings} findings", look.warn if findings else look.plain, look, rank=1),
                group(_dumps(self._detail), look.dim, look, rank=2, right=True),
            ]
        )
        self._list.put(servers, self._now())
        self.rearrange()
        self.moved()

    def moved(self) -> None:
        """Show all of the selected server."""
        selected, look = self._list.selected, self.look
        if selected is None or self._detail is None:
            return
        status = self.feed.view().status
        stall_after_s = None if status is None else status.stall_after_s
        facts = server_facts(selected, self._detail, self._now(), look, stall_after_s)
        rates = tuple(rate for _, rate in selected.rates)
        title = f"tokens/s of {selected.url}, last 10 min"
        self._rates.put(
            lambda width, height: [
                rule_strip(title, width, look),
                *rate_lines(rates, width, height - 1, look, empty="the server has not said"),
            ]
        )
        rows = fact_rows(facts, max(self.app.size.width, 8), look)
        self._text.put(rows, top=None if selected.url == self._of else 0)
        self._of = selected.url

    def action_scroll(self, rows: int) -> None:
        """Scroll the text about the selected server."""
        self._text.move(rows)

    def _now(self) -> float:
        status = self.feed.view().status
        return 0.0 if status is None else status.at


def server_facts(
    server: ServerDetail, detail: ServersDetail, now: float, look: Look, stall_after_s: float | None = None
) -> list[Fact]:
    """Return everything about one server, what is wrong first.

    Args:
        server: Which.
        detail: Of all servers.
        now: The present.
        look: Signs and styles.
        stall_after_s: From when on open requests without an answer are worth a warning; None: not known.
    """
    reading, last = server.reading, server.last
    facts = []
    if reading is None and last is not None and detail.read_at is not None:
        words = f"at {stamp(detail.read_at, now)} it was {last.state}"
        facts.append(Fact("state", (("nobody reads it now", look.warn), (words, look.dim))))
    if reading is not None and reading.state != "ok":
        words = f"{reading.state}: {reading.reason or 'no reason given'}"
        facts.append(Fact("state", ((words, state_look(reading.state, look)[1]),)))
    if reading is not None and (answers := tuple(_answers(reading, look, stall_after_s))):
        facts.append(Fact("answers", answers))
    if not server.configured:
        facts.append(Fact("", (("run.toml does not name it any more", look.warn),)))
    facts += [
        Fact("finding", ((f"{stamp(event.at, now)}  {event.message}", look.severity(event.severity)[1]),))
        for event in server.findings
    ]
    if not server.findings:
        facts.append(Fact("findings", (("none: it speaks as agreed, as far as is recorded", look.good),)))
    if last is not None:
        facts.append(Fact("speaks", tuple(_versions(last, look))))
    if server.arguments:
        said = sorted(server.arguments.items())
        facts.append(Fact("arguments", tuple((f"{name} {value}", look.plain) for name, value in said)))
    for about in server.abouts:
        facts += _about_facts(about, detail, now, look)
    if detail.dump_trouble is not None:
        facts.append(Fact("dumps", ((detail.dump_trouble, look.warn),)))
    if detail.sampling:
        asked = sorted(detail.sampling.items())
        facts.append(Fact("asked for", tuple((f"{name} {value}", look.plain) for name, value in asked)))
    return facts + [Fact("event", ((f"{stamp(event.at, now)}  {event.message}", look.dim),)) for event in server.events]


def _answers(reading: ServerReading, look: Look, stall_after_s: float | None) -> Iterable[tuple[str, Style]]:
    """Return when the last one came, and for how long open requests have waited for the next."""
    if reading.last_answer_s is not None:
        yield f"last answer {human_duration(reading.last_answer_s)} ago", look.plain
    elif reading.outstanding:
        yield "none since the daemon's start", look.plain
    silent = is_silent(reading, stall_after_s)
    if reading.silent_s is not None and (silent or reading.silent_s != reading.last_answer_s):
        words = f"{human_exact(reading.outstanding)} open, none answered for {human_duration(reading.silent_s)}"
        yield words, look.warn if silent else look.plain


def _versions(reading: ServerReading, look: Look) -> Iterable[tuple[str, Style]]:
    yield f"SGLang {reading.version or UNKNOWN}", look.plain
    yield f"model {reading.model or UNKNOWN}", look.plain


def _about_facts(about: About, detail: ServersDetail, now: float, look: Look) -> list[Fact]:
    rank = "" if not about.dp_rank else f" (DP rank {about.dp_rank})"
    label = "dumps" + ("" if not about.dp_rank else f" {about.dp_rank}")
    if about.refusal is not None:
        return [Fact(label, ((f"nothing{rank}: {about.refusal}", look.bad),))]
    layers = _ids(about.layers)
    fits = not detail.wanted_layers or about.layers == detail.wanted_layers
    parts = [
        (f"layers {layers}" + ("" if fits else f", run.toml asks for {_ids(detail.wanted_layers)}"),
         look.plain if fits else look.bad),
        (f"server's ids {_ids(about.server_layers)}", look.plain),
        (f"{human_exact(about.hidden_size)} wide {about.dtype or UNKNOWN}", look.plain),
        (f"last: {about.norm or UNKNOWN}", look.plain),
        (f"context {human_exact(about.context_length)}", look.plain),
        (f"SGLang {about.sglang or UNKNOWN}", look.plain),
        (f"{about.architecture or UNKNOWN}", look.plain),
        (f"{about.model or UNKNOWN}", look.dim),
    ]  # fmt: skip
    if about.started_at is not None:
        parts.append((f"up {human_duration(now - about.started_at)}", look.plain))
    return [Fact(label, tuple(parts))]


def _ids(ids: tuple[int, ...] | None) -> str:
    return UNKNOWN if ids is None else ", ".join(map(str, ids))


def _health(bad: int, known: int, read_at: float | None, now: float, look: Look) -> Group:
    """Say whether all are well; of servers that nobody reads, since when."""
    if not known:
        return group("not read now" if read_at is None else f"not read since {stamp(read_at, now)}", look.warn, look)
    if bad:
        return group(f"{look.signs.critical} {bad} not ok", look.bad, look)
    return group(f"{look.signs.good} none is bad", look.good, look)


def _dumps(detail: ServersDetail) -> str:
    return "nothing is captured" if detail.dump_dir is None else f"dumps in {detail.dump_dir}"


def _state(server: ServerDetail, now: float, look: Look) -> tuple[str, Style]:
    if server.reading is None:
        return UNKNOWN, look.dim
    sign, style = state_look(server.reading.state, look)
    return f"{sign} {server.reading.state}", style


def _last_answer(server: ServerDetail, now: float, look: Look) -> tuple[str, Style]:
    return human_duration(None if server.reading is None else server.reading.last_answer_s), look.plain


def _figure(server: ServerDetail, name: str, look: Look) -> tuple[str, Style]:
    reading = server.reading
    value = None if reading is None else getattr(reading, name)
    if name.endswith("_pct"):
        return human_percent(value), look.plain
    style = look.warn if name == "retracted" and value else look.plain
    return (human_rate(value) if name == "tokens_per_s" else human_exact(value)), style


def _column(title: str, width: int, name: str, rank: int) -> ListColumn[ServerDetail]:
    return ListColumn(title, width, lambda server, now, look: _figure(server, name, look), rank=rank, right=True)


COLUMNS: tuple[ListColumn[ServerDetail], ...] = (
    ListColumn("server", 21, lambda server, now, look: (server.url.removeprefix("http://"), look.bold), grows=True),
    ListColumn("state", 10, _state),
    _column("open", 5, "outstanding", 2),
    _column("running", 7, "running", 1),
    _column("queued", 6, "queued", 3),
    _column("KV", 6, "kv_usage_pct", 4),
    _column("cache", 6, "cache_hit_pct", 6),
    _column("tok/s", 7, "tokens_per_s", 0),
    ListColumn("answered", 8, _last_answer, rank=2, right=True),
    _column("retr.", 5, "retracted", 5),
)
