"""One data set: facts, lengths of its answers, speed over time, its newest records, what failed, what is stored."""

from __future__ import annotations

from collections.abc import Iterable
from functools import partial
from typing import ClassVar

from rich.style import Style
from textual.binding import BindingType
from textual.strip import Strip
from textual.widget import Widget

from contracts.commands import Retry
from contracts.details.dataset import DatasetDetail, dataset_detail
from contracts.details.latest import Record
from contracts.details.rates import SPANS
from contracts.details.sample import SampleRef
from contracts.records import Severity
from contracts.status import DatasetStatus
from eagle3_tui.feed.state import Feed
from eagle3_tui.keys import Key
from eagle3_tui.screens.detail import BACK, GO, MOVING, Ask, DetailScreen, Movable, bindings
from eagle3_tui.screens.failures import FailuresScreen
from eagle3_tui.screens.sample import SampleScreen
from eagle3_tui.text import UNKNOWN, human_duration, human_exact, human_rate
from eagle3_tui.widgets.dataset_facts import dataset_facts, dataset_title
from eagle3_tui.widgets.detail import Fact, fact_lines
from eagle3_tui.widgets.histogram import chart_cells, histogram_lines, rate_lines
from eagle3_tui.widgets.line import group, strip
from eagle3_tui.widgets.lines import Lines, rule_strip
from eagle3_tui.widgets.listing import ListColumn, Listing
from eagle3_tui.widgets.look import Look
from eagle3_tui.widgets.times import stamp

KEYS = (
    Key(("enter",), "enter", "open", ("enter", "sample"), "open the selected sample"),
    Key(("f",), "f", "failures", ("f", "failures"), "what failed in this data set"),
    Key(("w",), "w", "span", ("w", "time span"), "speed over 10 min, 1 h or all"),
    Key(("a",), "a", "retry", ("a", "try again"), "try again what failed here", changes_run=True),
    GO,
    BACK,
    *MOVING,
)
_SIDE_BY_SIDE = 100
"""From this width on lengths and speed are beside each other."""
_LEAST_ROWS = 4


class DatasetScreen(DetailScreen):
    """One data set.

    Args:
        look: Signs and styles.
        feed: Answers questions about the run.
        name: Of the data set.
        ask: Sends commands; None: nothing can be tried again from here.
    """

    KEYS: ClassVar[tuple[Key, ...]] = KEYS
    BINDINGS: ClassVar[list[BindingType]] = bindings(KEYS)

    def __init__(self, look: Look, feed: Feed, name: str, ask: Ask | None = None) -> None:
        super().__init__(look, feed, ask)
        self._dataset = name
        self._detail: DatasetDetail | None = None
        self._span = 0
        self._facts = Lines(look, id="facts")
        self._charts = Lines(look, id="charts")
        self._rates = Lines(look, id="rates")
        self._list = Listing(
            look, COLUMNS, lambda record: record.offset, id="list", empty="no record yet: the newest come first"
        )

    @property
    def movable(self) -> Movable:
        """The newest records."""
        return self._list

    def parts(self) -> Iterable[Widget]:
        """Yield the parts."""
        return (self._facts, self._charts, self._rates, self._list)

    def share_lines(self, width: int, height: int) -> None:
        """Facts first, then the list's first rows, then the charts, then the list."""
        facts = min(len(fact_lines(self._all_facts(), width, self.look)), max(height - _LEAST_ROWS, 0))
        left = height - facts - 1 - _LEAST_ROWS
        if width >= _SIDE_BY_SIDE:
            charts, rates = (min(max(left // 2, 4), 10) if left >= 4 else 0), 0
        else:
            charts = min(max((left + 1) // 2, 4), 7) if left >= 4 else 0
            rates = min(left - charts, 5) if left - charts >= 2 else 0
        self.place(self._facts, facts)
        self.place(self._charts, charts)
        self.place(self._rates, rates)
        self.place(self._list, max(height - facts - charts - rates, 1))

    async def read(self) -> None:
        """Ask for the data set."""
        width = self.app.size.width
        cells = chart_cells(width if width < _SIDE_BY_SIDE else width - width // 2 - 1)
        self._detail = await self.feed.ask(partial(dataset_detail, name=self._dataset, steps=cells))
        if self._detail is None:
            look = self.look
            self.title_groups([group(f"no data set {self._dataset} in this run", look.bad, look)])
            return
        status, own = self.feed.view().status, self._status()
        self.title_groups(dataset_title(self._dataset, own, status, self.look))
        self._list.put(self._detail.latest, 0.0 if status is None else status.at)
        self._draw()
        self.rearrange()

    def _draw(self) -> None:
        detail, look = self._detail, self.look
        if detail is None:
            return
        facts = self._all_facts()
        self._facts.put(lambda width, height: fact_lines(facts, width, look)[:height])
        span = f"tokens/s, {SPANS[self._span][0]}"
        rates = detail.rates[self._span]

        def lengths(width: int, height: int) -> list[Strip]:
            lines = histogram_lines(detail.lengths, width, height - 1, look)
            return [rule_strip("answers by length, tokens", width, look), *lines]

        def speed(width: int, height: int) -> list[Strip]:
            return [rule_strip(span, width, look), *rate_lines(rates, width, height - 1, look)]

        def charts(width: int, height: int) -> list[Strip]:
            if width < _SIDE_BY_SIDE:
                return lengths(width, height)
            half = width // 2
            return beside(lengths(half - 1, height), speed(width - half - 1, height), half, width, height, look)

        self._charts.put(charts)
        self._rates.put(speed)

    def _status(self) -> DatasetStatus | None:
        status = self.feed.view().status
        datasets = () if status is None else status.datasets
        return next((each for each in datasets if each.name == self._dataset), None)

    def _all_facts(self) -> list[Fact]:
        return [] if self._detail is None else dataset_facts(self._detail, self._status(), self.look)

    def action_open(self) -> None:
        """Open the selected record's sample."""
        record = self._list.selected
        if record is not None:
            ref = SampleRef(self._dataset, record.key, record.offset)
            self.app.push_screen(SampleScreen(self.look, self.feed, ref, self.ask))

    def action_failures(self) -> None:
        """Show what failed here."""
        self.app.push_screen(FailuresScreen(self.look, self.feed, self._dataset, self.ask))

    def action_span(self) -> None:
        """Draw the speed over another stretch."""
        self._span = (self._span + 1) % len(SPANS)
        self._draw()

    def action_go(self) -> None:
        """Ask for a sample's id and open it."""
        self.type_in("sample id:", self._go)

    def action_retry(self) -> None:
        """Put all that failed here back."""
        if self.ask is None:
            return
        if self._detail is None or not any(failed.open for failed in self._detail.failed):
            self.say("nothing here has failed that could be tried again", Severity.WARNING)
            return
        self.ask(
            f"retry of {self._dataset}",
            Retry(dataset=self._dataset),
            confirm=f"Put all failed samples of {self._dataset} back into the queue?",
        )

    def _go(self, text: str) -> None:
        if text:
            self.app.push_screen(SampleScreen(self.look, self.feed, SampleRef(self._dataset, text), self.ask))


def beside(left: list[Strip], right: list[Strip], half: int, width: int, height: int, look: Look) -> list[Strip]:
    """Return two blocks of lines next to each other, two cells between them."""
    lines = []
    for index in range(height):
        first = left[index] if index < len(left) else strip([], half - 1, look)
        second = right[index] if index < len(right) else strip([], width - half - 1, look)
        lines.append(Strip.join([first, strip([], 2, look), second]))
    return lines


def _when(record: Record, now: float, look: Look) -> tuple[str, Style]:
    return (UNKNOWN if record.finished_at is None else stamp(record.finished_at, now)), look.dim


def _sample(record: Record, now: float, look: Look) -> tuple[str, Style]:
    return (record.key if record.key is not None else f"(no id, byte {record.offset:,})"), look.bold


def _ended(record: Record, now: float, look: Look) -> tuple[str, Style]:
    if record.why is not None or record.finish_reason is None:
        return record.outcome, look.bad if record.why is not None else look.plain
    return record.finish_reason, look.warn if record.finish_reason == "length" else look.plain


def _speed(record: Record, now: float, look: Look) -> tuple[str, Style]:
    known = record.completion_tokens is not None and record.took_s
    return human_rate((record.completion_tokens or 0) / record.took_s if known and record.took_s else None), look.plain


COLUMNS: tuple[ListColumn[Record], ...] = (
    ListColumn("when", 8, _when, rank=1),
    ListColumn("sample", 18, _sample, grows=True),
    ListColumn("prompt", 6, lambda record, now, look: (human_exact(record.prompt_tokens), look.plain), 3, right=True),
    ListColumn("answer", 7, lambda record, now, look: (human_exact(record.completion_tokens), look.plain), right=True),
    ListColumn("ended", 10, _ended),
    ListColumn("took", 8, lambda record, now, look: (human_duration(record.took_s), look.plain), 4, right=True),
    ListColumn("tok/s", 6, _speed, rank=6, right=True),
    ListColumn("att", 3, lambda record, now, look: (human_exact(record.attempt), look.plain), rank=5, right=True),
    ListColumn("server", 21, lambda record, now, look: (_host(record.server), look.dim), rank=7),
)


def _host(url: str | None) -> str:
    return UNKNOWN if url is None else url.removeprefix("http://")
