"""Events and the daemon's log: the newest followed, older ones a page at a time, search, and a least severity."""

from __future__ import annotations

from collections.abc import Coroutine, Iterable
from functools import partial
from typing import ClassVar, Final

from rich.style import Style
from textual.binding import BindingType
from textual.widget import Widget

from contracts.details.journal import EVENTS, LOG, Entry, Match, Page, find, page_after, page_before
from contracts.records import Severity
from contracts.wording import with_dataset
from eagle3_tui.feed.state import Feed, View
from eagle3_tui.keys import Key
from eagle3_tui.screens.detail import BACK, MOVING, DetailScreen, Movable, bindings
from eagle3_tui.text import UNKNOWN, human_bytes, human_percent
from eagle3_tui.widgets.detail import Fact, fact_lines
from eagle3_tui.widgets.line import group
from eagle3_tui.widgets.lines import Lines
from eagle3_tui.widgets.listing import ListColumn, Listing
from eagle3_tui.widgets.look import Look
from eagle3_tui.widgets.times import stamp

KEYS = (
    Key(("f",), "f", "follow", ("f", "follow"), "follow the newest"),
    Key(("slash",), "/", "search", ("/", "search"), "search, towards older lines"),
    Key(("n",), "n", "again(True)", ("n N", "next"), "the next older match"),
    Key(("N",), "N", "again(False)", None, "the next newer match"),
    Key(("s",), "s", "severity", ("s", "severity"), "all, warnings, critical only"),
    Key(("l", "tab"), "l", "other", ("l", "log or events"), "daemon.log, or events again"),
    BACK,
    *MOVING,
)
_SEVERITIES: Final = (Severity.INFO, Severity.WARNING, Severity.CRITICAL)
_KEPT: Final = 600
"""Entries that are held at most: a few screens around what is shown."""
_MORE: Final = 200
"""Entries that are read at once."""


class JournalScreen(DetailScreen):
    """``events.jsonl`` or ``daemon.log``, the newest at the bottom.

    Args:
        look: Signs and styles.
        feed: Reads the pages.
        which: `EVENTS` or `LOG`.
    """

    KEYS: ClassVar[tuple[Key, ...]] = KEYS
    BINDINGS: ClassVar[list[BindingType]] = bindings(KEYS)

    def __init__(self, look: Look, feed: Feed, which: str = EVENTS) -> None:
        super().__init__(look, feed)
        self._which = which
        self._least = Severity.INFO
        self._following = True
        self._page: Page | None = None
        self._wanted = ""
        self._said = Lines(look, id="said")
        self._list = Listing(look, COLUMNS, lambda entry: entry.offset, id="list", empty="nothing here yet")
        self._moving = False

    @property
    def movable(self) -> Movable:
        """The list."""
        return self._list

    def parts(self) -> Iterable[Widget]:
        """Yield the parts."""
        return (self._list, self._said)

    def share_lines(self, width: int, height: int) -> None:
        """The whole of the selected line below the list."""
        below = min(6 if height > 26 else 4, height // 3)
        self.place(self._list, max(height - below, 1))
        self.place(self._said, below)

    def show(self, view: View) -> None:
        """Only who follows is shown what is new."""
        if self._following:
            super().show(view)

    async def read(self) -> None:
        """Show the newest."""
        page = await self._before(None)
        if self._following:
            self._put(page, last=True)

    def action_follow(self) -> None:
        """Go to the newest and stay there."""
        self._following = True
        self.reread()

    def action_move(self, rows: int) -> None:
        """Move the cursor; at an end of what is held, read on."""
        self._begin(self._moved_by(rows))

    def action_page(self, pages: int) -> None:
        """Move by pages."""
        self._begin(self._moved_by(pages * self._list.page_rows))

    def action_ends(self, direction: int) -> None:
        """Go to the oldest, or to the newest and follow."""
        if direction > 0:
            self.action_follow()
        else:
            self._begin(self._to_oldest())

    def action_severity(self) -> None:
        """Show less, or all again."""
        self._least = _SEVERITIES[(_SEVERITIES.index(self._least) + 1) % len(_SEVERITIES)]
        self.action_follow()

    def action_other(self) -> None:
        """Change the file."""
        self._which = LOG if self._which == EVENTS else EVENTS
        self._page = None
        self.action_follow()

    def action_search(self) -> None:
        """Ask for a text."""
        self.type_in("search:", self._search, self._wanted)

    def action_again(self, older: bool) -> None:
        """Search on."""
        if not self._wanted:
            self.action_search()
            return
        self._begin(self._find(older))

    def _search(self, text: str) -> None:
        self._wanted = text
        if text:
            self._begin(self._find(older=True))

    def _begin(self, work: Coroutine[object, object, None]) -> None:
        """One movement at a time; keys that come meanwhile would move from a place that is not shown yet."""
        if self._moving:
            work.close()
            return
        self._moving = True
        self.run_worker(self._guarded(work), group="moving", exit_on_error=True)

    async def _guarded(self, work: Coroutine[object, object, None]) -> None:
        try:
            await work
        except OSError as error:
            self.say(f"can't read: {error.strerror or error}", Severity.WARNING)
        finally:
            self._moving = False

    async def _moved_by(self, rows: int) -> None:
        page = self._page
        if page is None:
            return
        place = self._list.place + rows
        if place < 0 and not page.is_first:
            older = await self._before(page.start)
            entries = (*older.entries, *page.entries)
            end = entries[_KEPT].offset if len(entries) > _KEPT else page.end
            place += len(older.entries)
            self._page = Page(entries[:_KEPT], older.start, end, older.size, older.path)
        elif place >= len(page.entries) and page.entries:
            newer = await self._after(page)
            entries = (*page.entries, *newer.entries)
            if not newer.entries:
                self._following = True
            cut = max(len(entries) - _KEPT, 0)
            place -= cut
            start = entries[cut].offset if cut else page.start
            self._page = Page(entries[cut:], start, newer.end, newer.size, newer.path)
        if rows < 0:
            self._following = False
        assert self._page is not None
        self._list.put(self._page.entries, self._now())
        self._list.go_to(place)
        self._said_anew()

    async def _to_oldest(self) -> None:
        self._following = False
        page = await self.feed.ask(partial(page_after, which=self._which, start=0, count=_MORE, least=self._least))
        self._put(page, last=False)

    async def _find(self, older: bool) -> None:
        selected = self._list.selected
        if selected is None:
            return
        place = selected.offset if older else selected.offset + 1
        if not older and self._page is not None:
            place = self._next_offset(selected)
        self.say(f"searching {self._wanted} ...")
        while True:
            question = partial(
                find, which=self._which, text=self._wanted, place=place, backwards=older, least=self._least
            )
            match: Match = await self.feed.ask(question)
            if match.offset is not None:
                break
            if match.done:
                self.say(f"no {'older' if older else 'newer'} line holds {self._wanted}", Severity.WARNING)
                return
            place = match.next
        self.say(None)
        self._following = False
        before = await self._before(match.offset)
        after = await self.feed.ask(
            partial(page_after, which=self._which, start=match.offset, count=_MORE, least=self._least)
        )
        self._page = Page((*before.entries, *after.entries), before.start, after.end, after.size, after.path)
        self._list.put(self._page.entries, self._now())
        self._list.go_to(len(before.entries))
        self._said_anew()

    def _next_offset(self, selected: Entry) -> int:
        """Where the entry behind the selected one begins."""
        page = self._page
        assert page is not None
        following = (entry.offset for entry in page.entries if entry.offset > selected.offset)
        return next(following, page.end)

    async def _before(self, end: int | None) -> Page:
        return await self.feed.ask(partial(page_before, which=self._which, end=end, count=_MORE, least=self._least))

    async def _after(self, page: Page) -> Page:
        return await self.feed.ask(
            partial(page_after, which=self._which, start=page.end, count=_MORE, least=self._least)
        )

    def _put(self, page: Page, *, last: bool) -> None:
        self._page = page
        self._list.put(page.entries, self._now())
        self._list.go_to(len(page.entries) - 1 if last else 0)
        self._said_anew()

    def _now(self) -> float:
        status = self.feed.view().status
        return 0.0 if status is None else status.at

    def _said_anew(self) -> None:
        page, look, selected = self._page, self.look, self._list.selected
        if page is None:
            return
        least = {Severity.INFO: "all", Severity.WARNING: "warnings and worse", Severity.CRITICAL: "critical only"}
        place = 100.0 if selected is None or not page.size else 100.0 * min(selected.offset / page.size, 1.0)
        state = "following" if self._following else f"at {human_percent(place)}"
        untimed = self.feed.view().replays and not any(entry.at is not None for entry in page.entries)
        self.title_groups(
            [
                group("events" if self._which == EVENTS else "daemon.log", look.bold, look),
                *([group("says no times: as it is now", look.warn, look)] if untimed and page.entries else []),
                group(least[self._least], look.plain if self._least is Severity.INFO else look.warn, look),
                group(state, look.good if self._following else look.active, look),
                group(f"of {human_bytes(page.size)}", look.dim, look, rank=2),
                group(page.path, look.dim, look, rank=3, right=True, shrink_to=20),
            ]
        )
        facts = [] if selected is None else entry_facts(selected, look)
        self._said.put(lambda width, height: fact_lines(facts, width, look)[:height])


def entry_facts(entry: Entry, look: Look) -> list[Fact]:
    """Return one entry in full."""
    about = [(text, look.plain) for text in (entry.kind, entry.dataset) if text]
    facts = [Fact(entry.severity.value, ((entry.text, look.plain),))]
    if about:
        facts.append(Fact("kind", tuple(about)))
    return facts if entry.data is None else [*facts, Fact("data", ((entry.data, look.dim),))]


def _when(entry: Entry, now: float, look: Look) -> tuple[str, Style]:
    if entry.continues:
        return "", look.dim
    return (UNKNOWN if entry.at is None else stamp(entry.at, now)), look.dim


def _mark(entry: Entry, now: float, look: Look) -> tuple[str, Style]:
    sign, style = look.severity(entry.severity)
    return ("" if entry.continues else f"{sign} {entry.severity.value}"), style


def _text(entry: Entry, now: float, look: Look) -> tuple[str, Style]:
    return with_dataset(entry.dataset, entry.text), look.dim if entry.severity is Severity.INFO else look.plain


COLUMNS: tuple[ListColumn[Entry], ...] = (
    ListColumn("when", 8, _when),
    ListColumn("severity", 10, _mark, rank=1),
    ListColumn("kind", 18, lambda entry, now, look: (entry.kind or "", look.dim), rank=2),
    ListColumn("message", 20, _text, grows=True),
)
