"""What failed, by class and message; from here to the attempts, to the sample, and back into the queue."""

from __future__ import annotations

from collections.abc import Iterable
from functools import partial
from typing import ClassVar

from rich.style import Style
from textual.binding import BindingType
from textual.widget import Widget

from contracts.commands import Retry
from contracts.details.failures import FailureGroup, FailureOverview, failure_overview
from contracts.details.sample import SampleRef
from contracts.records import FailureClass, Severity
from eagle3_tui.feed.state import Feed
from eagle3_tui.keys import Key
from eagle3_tui.screens.attempts import AttemptsScreen
from eagle3_tui.screens.detail import BACK, GO, MOVING, Ask, DetailScreen, Movable, bindings
from eagle3_tui.screens.sample import SampleScreen
from eagle3_tui.text import UNKNOWN, human_exact
from eagle3_tui.widgets.detail import Fact, fact_lines
from eagle3_tui.widgets.line import group
from eagle3_tui.widgets.lines import Lines
from eagle3_tui.widgets.listing import ListColumn, Listing
from eagle3_tui.widgets.look import Look
from eagle3_tui.widgets.times import stamp

KEYS = (
    Key(("enter",), "enter", "open", ("enter", "attempts"), "the attempts behind a line"),
    Key(
        ("a",), "a", "retry", ("a", "try again"),
        "try the selected class again", changes_run=True,
    ),
    GO,
    BACK,
    *MOVING,
)  # fmt: skip


class FailuresScreen(DetailScreen):
    """The failures of a run, or of one data set.

    Args:
        look: Signs and styles.
        feed: Answers questions about the run.
        name: Of the data set; None: all of them.
        ask: Sends commands; None: nothing can be tried again from here.
    """

    KEYS: ClassVar[tuple[Key, ...]] = KEYS
    BINDINGS: ClassVar[list[BindingType]] = bindings(KEYS)

    def __init__(self, look: Look, feed: Feed, name: str | None = None, ask: Ask | None = None) -> None:
        super().__init__(look, feed, ask)
        self._dataset = name
        self._facts = Lines(look, id="facts")
        self._said = Lines(look, id="said")
        self._list = Listing(look, COLUMNS, lambda group_: group_.key, id="list", empty="nothing has failed")

    @property
    def movable(self) -> Movable:
        """The list."""
        return self._list

    def parts(self) -> Iterable[Widget]:
        """Yield the parts."""
        return (self._facts, self._list, self._said)

    def share_lines(self, width: int, height: int) -> None:
        """Totals above, the whole message of the selected line below."""
        below = min(5, height // 3)
        above = 2 if height >= 8 else 0
        self.place(self._facts, above)
        self.place(self._list, max(height - above - below, 1))
        self.place(self._said, below)

    async def read(self) -> None:
        """Ask for the groups."""
        overview = await self.feed.ask(partial(failure_overview, name=self._dataset))
        status = self.feed.view().status
        look = self.look
        self._list.put(overview.groups, 0.0 if status is None else status.at)
        unsolved = sum(each.open for each in overview.groups)
        left_out = sum(each.left_out for each in overview.groups)
        where = "of all data sets" if self._dataset is None else f"of {self._dataset}"
        self.title_groups(
            [
                group("failures", look.bold, look),
                group(where, look.plain, look, shrink_to=10),
                group(f"{human_exact(unsolved)} open", look.warn if unsolved else look.good, look),
                group(f"{human_exact(sum(each.solved for each in overview.groups))} solved", look.plain, look, rank=1),
                *([group(f"{human_exact(left_out)} left out", look.plain, look, rank=2)] if left_out else []),
            ]
        )
        facts = overview_facts(overview, look)
        self._facts.put(lambda width, height: fact_lines(facts, width, look)[:height])
        self.moved()

    def moved(self) -> None:
        """Show the whole of the selected group."""
        selected, look = self._list.selected, self.look
        facts = [] if selected is None else group_facts(selected, look)
        self._said.put(lambda width, height: fact_lines(facts, width, look)[:height])

    def action_open(self) -> None:
        """Open the attempts."""
        if self._list.selected is not None:
            self.app.push_screen(AttemptsScreen(self.look, self.feed, self._list.selected, self._dataset, self.ask))

    def action_go(self) -> None:
        """Ask for a sample's id and open it."""
        self.type_in("sample id:", self._go)

    def _go(self, text: str) -> None:
        if text:
            self.app.push_screen(SampleScreen(self.look, self.feed, SampleRef(self._dataset, text), self.ask))

    def action_retry(self) -> None:
        """Put what failed in the selected class back."""
        chosen = self._list.selected
        if chosen is None or self.ask is None:
            return
        if not chosen.can_retry:
            self.say(f"{chosen.error}: nothing to try again: {chosen.instead}", Severity.WARNING)
            return
        where = self._dataset or (chosen.datasets[0] if len(chosen.datasets) == 1 else None)
        about = "all data sets" if where is None else where
        self.ask(
            f"retry of {chosen.error}",
            Retry(dataset=where, error=FailureClass(chosen.error)),
            confirm=f"Put every failed sample of class {chosen.error} in {about} back into the queue?",
        )


def overview_facts(overview: FailureOverview, look: Look) -> list[Fact]:
    """Return how many attempts failed so far, by class and by check."""
    attempts = tuple((f"{kind} {human_exact(count)}", look.plain) for kind, count in sorted(overview.attempts.items()))
    checks = tuple((f"{kind} {human_exact(count)}", look.plain) for kind, count in sorted(overview.checks.items()))
    nothing = (("none", look.dim),)
    return [Fact("attempts", attempts or nothing), Fact("checks", checks or nothing)]


def group_facts(group_: FailureGroup, look: Look) -> list[Fact]:
    """Return one group in full."""
    given_up = group_.open - group_.retrying
    counts = [
        (f"{human_exact(group_.open)} open", look.warn if group_.open else look.plain),
        (f"{human_exact(group_.retrying)} tried again by themselves", look.plain),
        (f"{human_exact(given_up)} not", look.warn if given_up else look.plain),
        *([(f"{human_exact(group_.left_out)} left out", look.plain)] if group_.left_out else []),
        (f"{human_exact(group_.solved)} solved since", look.plain),
    ]
    return [
        Fact("message", ((group_.message, look.plain),)),
        Fact("samples", tuple(counts)),
        Fact("data sets", tuple((name, look.plain) for name in group_.datasets)),
    ]


def _count(value: int, look: Look, style: Style) -> tuple[str, Style]:
    return human_exact(value), style if value else look.dim


def _when(group_: FailureGroup, now: float, look: Look) -> tuple[str, Style]:
    return (UNKNOWN if group_.last_at is None else stamp(group_.last_at, now)), look.dim


def _where(group_: FailureGroup, now: float, look: Look) -> tuple[str, Style]:
    first, *others = group_.datasets
    return (f"{len(group_.datasets)} data sets" if others else first), look.plain


COLUMNS: tuple[ListColumn[FailureGroup], ...] = (
    ListColumn("open", 6, lambda group_, now, look: _count(group_.open, look, look.warn), right=True),
    ListColumn("solved", 6, lambda group_, now, look: _count(group_.solved, look, look.plain), rank=5, right=True),
    ListColumn("class", 14, lambda group_, now, look: (group_.error, look.bold)),
    ListColumn("stage", 8, lambda group_, now, look: (group_.stage, look.plain), rank=3),
    ListColumn("data set", 14, _where, rank=4),
    ListColumn("last", 8, _when, rank=2),
    ListColumn("message", 30, lambda group_, now, look: (group_.message, look.plain), rank=0, grows=True),
)
