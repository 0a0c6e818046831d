"""What all screens beyond the main one have in common: a title, parts, the keys at the bottom, Esc goes back.

A screen asks its question in the background whenever the feed has something new, and shows the answer; it holds no
file and reads none itself.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import ClassVar, Final, Protocol

from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.events import Key as KeyPress
from textual.events import Paste, Resize
from textual.screen import Screen
from textual.widget import Widget

from contracts.commands import Command
from contracts.records import Severity
from eagle3_tui.feed.state import Feed, View
from eagle3_tui.keys import Key
from eagle3_tui.terminal import DEFAULT_SIZE
from eagle3_tui.widgets.entry import Entry
from eagle3_tui.widgets.footer import Footer
from eagle3_tui.widgets.line import Group, line
from eagle3_tui.widgets.lines import Lines
from eagle3_tui.widgets.listing import Listing
from eagle3_tui.widgets.look import Look

TICK_S: Final = 0.5

BACK: Final = Key(("escape", "backspace"), "esc", "back", ("esc", "back"), "back to where you came from", rank=0)
GO: Final = Key(("g",), "g", "go", ("g", "go to sample"), "open a sample by its id")
MOVING: Final = (
    Key(("up", "k"), "up", "move(-1)", None, "one line up"),
    Key(("down", "j"), "down", "move(1)", None, "one line down"),
    Key(("pageup",), "pgup", "page(-1)", None, "a page up"),
    Key(("pagedown", "space"), "pgdn", "page(1)", None, "a page down"),
    Key(("home",), "home", "ends(-1)", None, "to the first line"),
    Key(("end", "G"), "end", "ends(1)", None, "to the last line"),
)


class Ask(Protocol):
    """Sends a command to the daemon, after the person has confirmed it, and shows what came of it."""

    def __call__(self, what: str, command: Command, *, confirm: str | None = None) -> None:
        """Ask.

        Args:
            what: A few words for the command.
            command: To be sent.
            confirm: The question to be answered with yes first; None: none.
        """


class Movable(Protocol):
    """A part with a place in it."""

    def move(self, rows: int) -> None:
        """Move by rows."""

    def move_pages(self, pages: int) -> None:
        """Move by pages."""

    def move_to_end(self, direction: int) -> None:
        """Move to the first or the last row."""


def bindings(keys: Iterable[Key]) -> list[BindingType]:
    """Return a screen's bindings from its table of keys."""
    return [Binding(",".join(key.keys), key.action, key.help, show=False) for key in keys]


class DetailScreen(Screen[None]):
    """A screen about one thing; a subclass says which keys, which parts and what to ask.

    Args:
        look: Signs and styles.
        feed: Answers questions about the run.
        ask: Sends commands; None: this screen changes nothing.
    """

    AUTO_FOCUS = None
    ALLOW_SELECT = False
    KEYS: ClassVar[tuple[Key, ...]] = ()
    DEFAULT_CSS = """
    DetailScreen { layout: vertical; overflow: hidden hidden; background: ansi_default; color: ansi_default; }
    DetailScreen > Canvas { width: 100%; height: 1; background: ansi_default; color: ansi_default; }
    DetailScreen > #footer, DetailScreen > #entry { dock: bottom; }
    """

    def __init__(self, look: Look, feed: Feed, ask: Ask | None = None) -> None:
        super().__init__()
        self.look, self.feed, self.ask = look, feed, ask
        self.title_line = Lines(look, id="title")
        self.footer = Footer(look, self.usable_keys, read_only=False, farewell=False, id="footer")
        self.entry = Entry(look, id="entry")
        self._asked: View | None = None
        self._busy = False
        self.has_read = False
        """Something was read and shown."""
        self._heights: dict[str, int] = {}
        self._reserved = 0
        """Lines at the top that are somebody else's."""

    @property
    def usable_keys(self) -> tuple[Key, ...]:
        """The keys of this screen alone that do something here."""
        return tuple(key for key in self.KEYS if self.ask is not None or not key.changes_run)

    @property
    def movable(self) -> Movable | None:
        """The part that the moving keys are for."""
        return None

    def parts(self) -> Iterable[Widget]:
        """Yield the parts between title and bottom line."""
        raise NotImplementedError

    async def read(self) -> None:
        """Ask what is to be shown, and show it.

        Raises:
            OSError: A file of the run cannot be read.
        """
        raise NotImplementedError

    def share_lines(self, width: int, height: int) -> None:
        """Give the parts their heights (`place`), for a screen of this size less title and bottom line."""
        raise NotImplementedError

    def compose(self) -> ComposeResult:
        """Yield title, parts and bottom line."""
        yield self.title_line
        yield from self.parts()
        yield self.footer
        yield self.entry

    def on_mount(self) -> None:
        """Ask at once, then whenever there is something new."""
        self.entry.display = False
        self.footer.show(self.feed.view())
        self.set_interval(TICK_S, lambda: self.show(self.feed.view()))
        self.rearrange()
        self.show(self.feed.view())

    def on_screen_resume(self) -> None:
        """Catch up with what came while another screen was over this one."""
        self.show(self.feed.view())

    def on_resize(self, event: Resize) -> None:
        """Share the lines out anew."""
        self.rearrange()

    def show(self, view: View) -> None:
        """Take note of a new view of the run; below another screen nothing is read."""
        if not self.is_mounted or self.app.screen is not self or self._busy or view is self._asked:
            return
        self._asked = view
        self.footer.show(view)
        self.reread()

    def reread(self) -> None:
        """Ask again, whether there is something new or not."""
        if not self._busy:
            self._busy = True
            self.run_worker(self._read(), group="detail", exit_on_error=True)

    async def _read(self) -> None:
        try:
            await self.read()
        except OSError as error:
            where = f"{error.filename}: " if error.filename else ""
            self.say(f"can't read {where}{error.strerror or error}", Severity.WARNING)
        finally:
            self._busy, self.has_read = False, True

    def say(self, message: str | None, severity: Severity = Severity.INFO) -> None:
        """Show a sentence at the bottom, or the keys again."""
        self.footer.say(message, severity)

    def title_groups(self, groups: Sequence[Group]) -> None:
        """Show groups in the title line."""
        made = tuple(groups)
        self.title_line.put(lambda width, height: [line(made, width, self.look)])

    def place(self, part: Widget, height: int) -> None:
        """Give a part its height; 0 hides it."""
        name = part.id or ""
        if self._heights.get(name) == height:
            return
        self._heights[name] = height
        part.display = height > 0
        if height:
            part.styles.height = height

    def rearrange(self) -> None:
        """Share the lines out over the parts."""
        width, height = self.app.size
        if not width and not height:
            width, height = DEFAULT_SIZE
        self.share_lines(width, max(height - 2 - self._reserved, 0))

    def reserve(self, lines: int) -> None:
        """Leave lines free at the top."""
        if lines != self._reserved:
            self._reserved = lines
            self.rearrange()

    def type_in(self, label: str, done: Callable[[str], None], text: str = "") -> None:
        """Let the person type at the bottom; ``done`` takes the text after Enter."""
        self.entry.begin(label, done, text)
        self._show_entry()

    def on_key(self, event: KeyPress) -> None:
        """Hand keys to the line that is being typed in."""
        if self.entry.active:
            self.entry.press(event)
            self._show_entry()

    def on_paste(self, event: Paste) -> None:
        """Hand pasted text to the line that is being typed in."""
        if self.entry.active:
            self.entry.paste(event)

    def on_listing_chosen(self, event: Listing.Chosen) -> None:
        """A second click is Enter."""
        self.action_open()

    def action_open(self) -> None:
        """Open what is selected."""

    def action_back(self) -> None:
        """Go back to the screen before."""
        self.app.pop_screen()

    def action_move(self, rows: int) -> None:
        """Move in the part that moves."""
        if self.movable is not None:
            self.movable.move(rows)
            self.moved()

    def action_page(self, pages: int) -> None:
        """Move by pages."""
        if self.movable is not None:
            self.movable.move_pages(pages)
            self.moved()

    def action_ends(self, direction: int) -> None:
        """Move to the first or the last line."""
        if self.movable is not None:
            self.movable.move_to_end(direction)
            self.moved()

    def moved(self) -> None:
        """Follow the cursor: another one is selected, or other lines are in sight."""

    def _show_entry(self) -> None:
        self.entry.display = self.entry.active
        self.footer.display = not self.entry.active
