"""The attempts behind one group of failures, each with its way to the sample."""

from __future__ import annotations

from collections.abc import Iterable
from functools import partial
from typing import ClassVar

from rich.style import Style
from textual.binding import BindingType
from textual.widget import Widget

from contracts.commands import Retry
from contracts.details.failures import Attempt, FailureGroup, attempts_of
from contracts.details.sample import SampleRef
from contracts.records import Severity
from eagle3_tui.feed.state import Feed
from eagle3_tui.keys import Key
from eagle3_tui.screens.detail import BACK, MOVING, Ask, DetailScreen, Movable, bindings
from eagle3_tui.screens.sample import SampleScreen
from eagle3_tui.text import human_exact
from eagle3_tui.widgets.detail import Fact, fact_lines
from eagle3_tui.widgets.line import group
from eagle3_tui.widgets.lines import Lines
from eagle3_tui.widgets.listing import ListColumn, Listing
from eagle3_tui.widgets.look import Look
from eagle3_tui.widgets.times import stamp

KEYS = (
    Key(("enter",), "enter", "open", ("enter", "sample"), "open the attempt's sample"),
    Key(("a",), "a", "retry", ("a", "try again"), "try the selected sample again", changes_run=True),
    BACK,
    *MOVING,
)


class AttemptsScreen(DetailScreen):
    """The last failed attempts of one group.

    Args:
        look: Signs and styles.
        feed: Answers questions about the run.
        group: Which.
        name: Only of this data set; None: of all.
        ask: Sends commands.
    """

    KEYS: ClassVar[tuple[Key, ...]] = KEYS
    BINDINGS: ClassVar[list[BindingType]] = bindings(KEYS)

    def __init__(self, look: Look, feed: Feed, group: FailureGroup, name: str | None, ask: Ask | None) -> None:
        super().__init__(look, feed, ask)
        self._group, self._dataset = group, name
        self._said = Lines(look, id="facts")
        self._list = Listing(
            look, COLUMNS, lambda attempt: (attempt.dataset, attempt.offset), id="list",
            empty="none in the last 8 MB of the journal: older ones are in failures.jsonl",
        )  # fmt: skip

    @property
    def movable(self) -> Movable:
        """The list."""
        return self._list

    def parts(self) -> Iterable[Widget]:
        """Yield the parts."""
        return (self._list, self._said)

    def share_lines(self, width: int, height: int) -> None:
        """The whole message of the selected one below the list."""
        below = min(6, height // 3)
        self.place(self._list, max(height - below, 1))
        self.place(self._said, below)

    async def read(self) -> None:
        """Ask for the attempts."""
        attempts = await self.feed.ask(partial(attempts_of, group=self._group, name=self._dataset))
        status = self.feed.view().status
        self._list.put(
            attempts, attempts[0].failure.at if status is None and attempts else status.at if status else 0.0
        )
        group_ = self._group
        self.title_groups(
            [
                group(f"{group_.error}", self.look.bold, self.look),
                group(f"{group_.stage}, {', '.join(group_.datasets)}", self.look.plain, self.look, rank=2),
                group(f"{human_exact(group_.open)} open", self.look.warn, self.look, rank=1),
                group(f"{human_exact(group_.solved)} solved since", self.look.plain, self.look, rank=3),
                group(f"last {human_exact(len(attempts))} attempts", self.look.dim, self.look, rank=4, right=True),
            ]
        )
        self.moved()

    def moved(self) -> None:
        """Show the whole of the selected attempt."""
        attempt, look = self._list.selected, self.look
        facts = [] if attempt is None else attempt_facts(attempt, look)
        self._said.put(lambda width, height: fact_lines(facts, width, look)[:height])

    def action_open(self) -> None:
        """Open the sample."""
        attempt = self._list.selected
        if attempt is None or attempt.failure.sample_id is None:
            self.say("this attempt names no sample", Severity.WARNING)
            return
        ref = SampleRef(attempt.dataset, str(attempt.failure.sample_id))
        self.app.push_screen(SampleScreen(self.look, self.feed, ref, self.ask))

    def action_retry(self) -> None:
        """Put the sample back."""
        attempt = self._list.selected
        if attempt is None or attempt.failure.sample_id is None or self.ask is None:
            return
        sample = attempt.failure.sample_id
        self.ask(
            f"retry of {sample}",
            Retry(dataset=attempt.dataset, sample_id=sample),
            confirm=f"Put sample {sample} of {attempt.dataset} back into the queue?",
        )


def attempt_facts(attempt: Attempt, look: Look) -> list[Fact]:
    """Return one attempt in full."""
    failure = attempt.failure
    rest = [(f"attempt {failure.attempt}" if failure.attempt else "not charged", look.plain)]
    rest.append((f"then: {failure.next}", look.plain))
    if failure.retry_in_s is not None:
        rest.append((f"again in {failure.retry_in_s:.1f} s", look.plain))
    if failure.http_status is not None:
        rest.append((f"HTTP {failure.http_status}", look.plain))
    if failure.check is not None:
        rest.append((f"check: {failure.check}", look.plain))
    if failure.completion_tokens is not None:
        rest.append((f"{failure.completion_tokens:,} tokens came before", look.plain))
    facts = [Fact("message", ((failure.message, look.plain),)), Fact("attempt", tuple(rest))]
    where = [(text, look.plain) for text in (failure.server, failure.rid) if text]
    return [*facts, Fact("where", tuple(where))] if where else facts


def _when(attempt: Attempt, now: float, look: Look) -> tuple[str, Style]:
    return stamp(attempt.failure.at, now), look.dim


def _sample(attempt: Attempt, now: float, look: Look) -> tuple[str, Style]:
    return str(attempt.failure.sample_id), look.bold


def _next(attempt: Attempt, now: float, look: Look) -> tuple[str, Style]:
    return attempt.failure.next.value, look.plain if attempt.failure.next == "retry" else look.warn


COLUMNS: tuple[ListColumn[Attempt], ...] = (
    ListColumn("when", 8, _when),
    ListColumn("data set", 16, lambda attempt, now, look: (attempt.dataset, look.plain), rank=4),
    ListColumn("sample", 20, _sample),
    ListColumn("att", 3, lambda attempt, now, look: (str(attempt.failure.attempt or "-"), look.plain), 2, right=True),
    ListColumn("then", 11, _next, rank=1),
    ListColumn("message", 24, lambda attempt, now, look: (attempt.failure.message, look.plain), rank=3, grows=True),
)
