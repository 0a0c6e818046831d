"""One sample: what became of it, its attempts, where its hidden states are, its prompt and answer as ids or text."""

from __future__ import annotations

from collections.abc import Iterable
from functools import partial
from pathlib import Path
from typing import ClassVar

import msgspec
from textual.binding import BindingType
from textual.widget import Widget

from contracts.commands import Retry
from contracts.details.sample import Lookup, SampleRef, SampleStory, look_up
from contracts.fold.run import RunFold
from contracts.records import Severity
from eagle3_tui.feed.background import in_background
from eagle3_tui.feed.state import Feed, View
from eagle3_tui.keys import Key
from eagle3_tui.screens.detail import BACK, GO, MOVING, Ask, DetailScreen, Movable, bindings
from eagle3_tui.text import human_bytes, human_exact
from eagle3_tui.token_text import NoTokenizer, Piece, TokenText, load_token_text
from eagle3_tui.widgets.bars import whole_percent
from eagle3_tui.widgets.detail import Fact, Pager, fact_lines
from eagle3_tui.widgets.line import Part, group
from eagle3_tui.widgets.lines import Lines, rule_strip
from eagle3_tui.widgets.look import Look
from eagle3_tui.widgets.story import id_rows, story_facts, text_rows

KEYS = (
    Key(("i",), "i", "other_view", ("i", "ids or text"), "ids in place of text, or back"),
    Key(("a",), "a", "retry", ("a", "try again"), "try this sample again", changes_run=True),
    GO,
    BACK,
    *MOVING,
)
_LEAST_BODY = 6


class SampleScreen(DetailScreen):
    """One sample, found by its id or by where its response is.

    Args:
        look: Signs and styles.
        feed: Answers questions about the run.
        ref: Which sample.
        ask: Sends commands; None: it cannot be tried again from here.
    """

    KEYS: ClassVar[tuple[Key, ...]] = KEYS
    BINDINGS: ClassVar[list[BindingType]] = bindings(KEYS)

    def __init__(self, look: Look, feed: Feed, ref: SampleRef, ask: Ask | None = None) -> None:
        super().__init__(look, feed, ask)
        self._lookup = Lookup(ref)
        self._facts = Lines(look, id="facts")
        self._body = Pager(look, id="body")
        self._rule = Lines(look, id="rule")
        self._tokenizer: TokenText | None = None
        self._no_text: str | None = None
        self._as_text = True
        self._made: tuple[int, bool] | None = None
        """Width and view of the lines that are shown."""

    @property
    def movable(self) -> Movable:
        """The ids or the text."""
        return self._body

    def copied(self) -> str | None:
        """Return all of the sample as JSON."""
        story = self._lookup.story
        return None if story is None else msgspec.json.encode(story).decode()

    def parts(self) -> Iterable[Widget]:
        """Yield the parts."""
        return (self._facts, self._rule, self._body)

    def share_lines(self, width: int, height: int) -> None:
        """As many facts as there are, but always some of the body."""
        needed = len(fact_lines(self._all_facts(), width, self.look))
        above = max(min(needed, height - 1 - min(_LEAST_BODY, height // 2)), 0)
        self.place(self._facts, above)
        self.place(self._rule, 1)
        self.place(self._body, max(height - above - 1, 1))
        if self._lookup.story is None or (self._tokenizer is None and self._no_text is None):
            return  # not found yet, or not yet known whether there is text
        if self._made != (width, self._as_text):
            self.run_worker(self._make_body(width), group="body")
        self.call_after_refresh(self.moved)

    def show(self, view: View) -> None:
        """A sample that was found, or is not there, is not searched again; a failed one may change."""
        if not self._lookup.done:
            super().show(view)

    async def read(self) -> None:
        """Search step by step: between two of them the main screen's readings have their turn."""
        while not self._lookup.done:
            self._lookup = await self.feed.ask(partial(look_up, lookup=self._lookup))
            self._titles()
        await self._load_tokenizer()
        self.rearrange()
        facts = self._all_facts()
        self._facts.put(lambda width, height: fact_lines(facts, width, self.look)[:height])

    async def _load_tokenizer(self) -> None:
        if self._lookup.story is None or self._tokenizer is not None or self._no_text is not None:
            return
        path, run = await self.feed.ask(_tokenizer_of)
        try:
            self._tokenizer = await in_background(lambda: load_token_text(path, run))
        except NoTokenizer as error:
            self._no_text, self._as_text = str(error), self._lookup.story.text is not None

    async def _make_body(self, width: int) -> None:
        """Make the lines off the event loop: a long answer takes a while to be wrapped."""
        story, wanted = self._lookup.story, (width, self._as_text)
        if story is None or self._made == wanted:
            return
        self._made = wanted
        text = self._tokenizer if self._as_text else None
        rows = await in_background(partial(body_rows, story, text, self._as_text, max(width - 2, 8), self.look))
        if self._made == wanted:
            self._body.put(rows)
            self.call_after_refresh(self.moved)  # by then the body has its place

    def moved(self) -> None:
        """Say which lines are in sight."""
        first, last, count = self._body.shown
        kind = "text" if self._as_text and (self._tokenizer or not self._no_text) else "ids"
        why = f"  {self._no_text}" if self._no_text is not None else ""
        look = self.look
        place = f"lines {first:,}-{last:,} of {count:,}"
        self._rule.put(lambda width, height: [rule_strip(f"{kind}{why}", width, look, tail=place)])

    def action_other_view(self) -> None:
        """Show ids in place of text, or text in place of ids."""
        story = self._lookup.story
        if story is None:
            return
        if not self._as_text and self._tokenizer is None and story.text is None:
            self.say(self._no_text or "no text", Severity.WARNING)
            return
        self._as_text = not self._as_text
        self._body.move_to_end(-1)
        self.rearrange()

    def action_go(self) -> None:
        """Ask for another sample's id and open it."""
        self.type_in("sample id:", self._go)

    def action_retry(self) -> None:
        """Put this sample back."""
        story = self._lookup.story
        if story is None or story.key is None or self.ask is None:
            return
        if not story.failures:
            self.say("this sample has not failed: nothing to try again", Severity.WARNING)
            return
        sample = story.failures[-1].sample_id or story.key
        self.ask(
            f"retry of {sample}",
            Retry(dataset=story.dataset, sample_id=sample),
            confirm=f"Put sample {sample} of {story.dataset} back into the queue?",
        )

    def _go(self, text: str) -> None:
        if text:
            ref = SampleRef(None, text)
            self.app.push_screen(SampleScreen(self.look, self.feed, ref, self.ask))

    def _titles(self) -> None:
        look, lookup = self.look, self._lookup
        name = lookup.ref.key if lookup.story is None else lookup.story.key
        groups = [group("sample", look.dim, look), group(name or "without an id", look.bold, look, shrink_to=10)]
        if lookup.story is not None:
            groups.append(group(f"of {lookup.story.dataset}", look.plain, look, rank=1, shrink_to=10))
        elif lookup.missing is not None:
            groups.append(group(f"{look.signs.critical} {lookup.missing}", look.bad, look, shrink_to=10))
        else:
            share = whole_percent(lookup.searched / lookup.total) if lookup.total else ""
            groups.append(group(f"searching {share} of {human_bytes(lookup.total)} ...", look.plain, look))
        self.title_groups(groups)

    def _all_facts(self) -> list[Fact]:
        story, status = self._lookup.story, self.feed.view().status
        if story is None:
            missing = self._lookup.missing
            said = ((f"{missing}. Ids are looked for as a whole, in all journals.", self.look.warn),)
            return [] if missing is None else [Fact("", said)]
        now = status.at if status is not None else 0.0
        return story_facts(story, now, self.look)


def _tokenizer_of(fold: RunFold, now: float) -> tuple[str | None, Path]:
    config = fold.config
    return (None if config is None or config.tokenizer is None else config.tokenizer.path), fold.run.path


def body_rows(
    story: SampleStory, tokenizer: TokenText | None, as_text: bool, width: int, look: Look
) -> list[list[Part]]:
    """Return prompt and answer as lines: by the tokenizer, as the text in the line, or as ids."""
    answer = "answer" if story.loss_mask is None else None
    rows: list[list[Part]] = []
    for title, ids, text in (("prompt", story.prompt_ids, None), (answer, story.output_ids, story.text)):
        if title is None:
            continue
        if as_text and tokenizer is not None and ids is not None:
            rows += text_rows(f"{title}, {human_exact(len(ids))} tokens", tokenizer.pieces(ids), width, look)
        elif as_text and text is not None:
            rows += text_rows(f"{title}, as its line has it", [Piece(text, special=False)], width, look)
        else:
            rows += id_rows(title, ids, width, look)
    return rows
