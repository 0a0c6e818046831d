"""One data set: facts, lengths of answers or prompts, speed over time, newest answers or stored samples, failures."""

from __future__ import annotations

from collections.abc import Iterable
from functools import partial
from typing import ClassVar

from textual.binding import BindingType
from textual.strip import Strip
from textual.widget import Widget

from contracts.commands import Retry
from contracts.details.dataset import DatasetDetail, dataset_detail
from contracts.details.latest import Record
from contracts.details.prompts import PromptLengths, prompt_lengths
from contracts.details.rates import SPANS
from contracts.details.sample import SampleRef
from contracts.details.stored import StoredRecord
from contracts.records import Severity
from contracts.status import DatasetStatus
from eagle3_tui.feed.state import Feed
from eagle3_tui.keys import Key
from eagle3_tui.screens.dataset_lists import ANSWERS, SAMPLES
from eagle3_tui.screens.detail import BACK, GO, MOVING, Ask, DetailScreen, Movable, bindings
from eagle3_tui.screens.failures import FailuresScreen
from eagle3_tui.screens.sample import SampleScreen
from eagle3_tui.text import human_exact
from eagle3_tui.widgets.dataset_facts import dataset_facts, dataset_title
from eagle3_tui.widgets.detail import Fact, fact_lines
from eagle3_tui.widgets.histogram import chart_cells, histogram_lines, rate_lines
from eagle3_tui.widgets.line import group, strip
from eagle3_tui.widgets.lines import Lines, rule_strip
from eagle3_tui.widgets.listing import Listing
from eagle3_tui.widgets.look import Look

KEYS = (
    Key(("enter",), "enter", "open", ("enter", "sample"), "open the selected sample"),
    Key(("f",), "f", "failures", ("f", "failures"), "what failed in this data set"),
    Key(("w",), "w", "span", ("w", "time span"), "speed over 10 min, 1 h or all"),
    Key(("l", "tab"), "l", "other", ("l", "answers or store"), "stored samples, or answers"),
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
        self._answers: Listing[Record] = Listing(
            look, ANSWERS, lambda record: record.offset, id="list", empty="no record yet: the newest come first"
        )
        self._samples: Listing[StoredRecord] = Listing(
            look, SAMPLES, lambda record: record.offset, id="stored", empty="nothing is stored yet"
        )
        self._chosen: bool | None = None
        """The stored samples are wanted, or not; None: nobody has said."""
        self._prompts: PromptLengths | None = None
        self._prompts_of = 0
        """Prompts there were when their lengths were asked for."""

    @property
    def movable(self) -> Movable:
        """The newest records."""
        return self._samples if self._is_of_store else self._answers

    @property
    def _is_of_store(self) -> bool:
        """The stored samples are listed: where there is nothing to answer from the start."""
        return (self._detail is not None and self._detail.is_brought) if self._chosen is None else self._chosen

    def parts(self) -> Iterable[Widget]:
        """Yield the parts."""
        return (self._facts, self._charts, self._rates, self._answers, self._samples)

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
        rows = max(height - facts - charts - rates, 1)
        self.place(self._answers, 0 if self._is_of_store else rows)
        self.place(self._samples, rows if self._is_of_store else 0)

    async def read(self) -> None:
        """Ask for the data set."""
        width = self.app.size.width
        cells = chart_cells(width if width < _SIDE_BY_SIDE else width - width // 2 - 1)
        self._detail = await self.feed.ask(partial(dataset_detail, name=self._dataset, steps=cells))
        if self._detail is None:
            look = self.look
            self.title_groups([group(f"no data set {self._dataset} in this run", look.bad, look)])
            return
        if self._detail.is_brought and self._detail.prompts != self._prompts_of:
            self._prompts_of = self._detail.prompts
            self._prompts = await self.feed.ask(partial(prompt_lengths, name=self._dataset))
        status, own = self.feed.view().status, self._status()
        self.title_groups(dataset_title(self._dataset, own, status, self.look))
        now = 0.0 if status is None else status.at
        self._answers.put(self._detail.latest, now)
        self._samples.put(self._detail.latest_stored, now)
        self._draw()
        self.rearrange()

    def _draw(self) -> None:
        detail, look = self._detail, self.look
        if detail is None:
            return
        facts = self._all_facts()
        self._facts.put(lambda width, height: fact_lines(facts, width, look)[:height])
        span = f"{'rows stored/s' if self._is_of_store else 'tokens/s'}, {SPANS[self._span][0]}"
        rates = (detail.stored_rates if self._is_of_store else detail.rates)[self._span]
        empty = "nothing was stored yet" if self._is_of_store else "nothing was finished yet"
        title, steps, none = "answers by length, tokens", detail.lengths, "no answer with a known length yet"
        if detail.is_brought:
            looked = 0 if self._prompts is None else self._prompts.looked_at
            part = "" if looked >= detail.prompts else f", {human_exact(looked)} of {human_exact(detail.prompts)}"
            title, none = f"prompts with answers by length, tokens{part}", "no prompt holds token ids"
            steps = None if self._prompts is None else self._prompts.steps

        def lengths(width: int, height: int) -> list[Strip]:
            lines = histogram_lines(steps, width, height - 1, look, empty=none)
            return [rule_strip(title, width, look), *lines]

        def speed(width: int, height: int) -> list[Strip]:
            return [rule_strip(span, width, look), *rate_lines(rates, width, height - 1, look, empty=empty)]

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
        return [] if self._detail is None else dataset_facts(self._detail, self._status(), self.look, self._prompts)

    def action_open(self) -> None:
        """Open the selected record's sample."""
        if self._is_of_store:
            stored = self._samples.selected
            if stored is not None and stored.key is not None:
                self._go(stored.key)
            return
        record = self._answers.selected
        if record is not None:
            ref = SampleRef(self._dataset, record.key, record.offset)
            self.app.push_screen(SampleScreen(self.look, self.feed, ref, self.ask))

    def action_other(self) -> None:
        """List the stored samples in place of the answers, or the other way round."""
        self._chosen = not self._is_of_store
        self._draw()
        self.rearrange()

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
