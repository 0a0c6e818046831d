"""Between the present and the past: what the replay's keys do, and which source the screens are fed from."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Final

from contracts.fold.run import NotARunError
from contracts.records import Severity
from contracts.replay.player import Player
from contracts.replay.source import ReplaySource
from contracts.run_config import ConfigError
from eagle3_tui.feed.background import in_background
from eagle3_tui.feed.state import Source
from eagle3_tui.screens.pages import Page
from eagle3_tui.widgets.scrubber import Playing, Scrubber

if TYPE_CHECKING:
    from eagle3_tui.app import Eagle3App

TICK_S: Final = 0.5
"""How often a replay goes on."""
SPEED: Final = 60.0
"""Of a replay, where none is asked for."""


class Replaying:
    """Switches the app's feed between a run and its recording, and moves in that.

    Args:
        app: Whose feed.
        live: The present.
        open_source: Opens the recording, in a background thread; None: there is none.
        clock: Seconds that only go on.
    """

    def __init__(
        self,
        app: Eagle3App,
        live: Source,
        open_source: Callable[[], ReplaySource] | None,
        clock: Callable[[], float],
    ) -> None:
        self._app = app
        self._live = live
        self._open_source = open_source
        self._clock = clock
        self._source: ReplaySource | None = None
        self._player: Player | None = None
        self._stop_ticking: Callable[[], None] | None = None
        self._left: float | None = None
        """The moment that was shown when one went elsewhere: until another one is, the line is ahead of the screens."""
        self._opening = False
        self._is_of_the_past = False
        """The replay was asked for from the start: its end is an end, and not the present."""

    @property
    def active(self) -> bool:
        """Whether the past is shown, or about to be."""
        return self._player is not None or self._opening

    @property
    def takes_keys(self) -> bool:
        """Whether the replay's keys hold: not while a person types, and not under a dialog."""
        screen = self._app.screen
        if self._player is None or not isinstance(screen, Page):
            return False
        entry = getattr(screen, "entry", None)
        return not (getattr(screen, "filtering", False) or (entry is not None and entry.active))

    async def begin(self, *, speed: float = SPEED, from_start: bool = False) -> None:
        """Show the recording: from its beginning on, or standing at its end, from where one goes back."""
        if self._open_source is None:
            self._app.say("there are no journals to replay here", Severity.WARNING)
            return
        if self.active:
            return
        self._opening = True
        try:
            source = await in_background(self._open_source)
        except (OSError, ConfigError, NotARunError) as error:
            self._app.say(f"cannot be replayed: {error}", Severity.WARNING)
            return
        finally:
            self._opening = False
        outline = source.outline
        at = outline.begin if from_start else outline.end
        self._source, self._is_of_the_past = source, from_start
        self._player = Player(
            at, self._clock(), begin=outline.begin, end=outline.end, speed=speed, paused=not from_start
        )
        source.seek(at)
        self._app.feed.use(source, replays=True)
        self._stop_ticking = self._app.set_interval(TICK_S, self.tick).stop
        self.tick()

    def leave(self) -> None:
        """Show the present."""
        if self._player is None:
            return
        self._source = self._player = None
        if self._stop_ticking is not None:
            self._stop_ticking()
        self._app.feed.use(self._live, replays=False)
        self._app.wake()
        self.place()

    def act(self, what: str, amount: float = 0.0) -> None:
        """Do what a key of `eagle3_tui.replay_keys` means."""
        player, source, wall = self._player, self._source, self._clock()
        if player is None or source is None:
            return
        self._left = self._shown()
        if what == "toggle":
            player.toggle(wall)
        elif what == "move":
            player.move(amount, wall)
        elif what == "speed":
            player.faster(int(amount), wall)
        elif what == "home":
            player.jump(player.begin, wall)
        elif what == "note":
            if not player.to_note(source.outline.notes, int(amount), wall):
                self._app.say(f"nothing of note {'after' if amount > 0 else 'before'} this moment")
        elif what == "leave" or not self._is_of_the_past:
            self.leave()
            return
        else:
            player.jump(player.end, wall)
        self.tick()

    def jump(self, at: float) -> None:
        """Go to a moment, Unix seconds."""
        if self._player is not None:
            self._left = self._shown()
            self._player.jump(at, self._clock())
            self.tick()

    def tick(self) -> None:
        """Follow the clock: have the source go on, and show where it is."""
        player, source = self._player, self._source
        if player is not None and source is not None:
            player.end = source.outline.end
            source.seek(player.at(self._clock()))
            self._app.wake()
        self.place()

    def place(self) -> None:
        """Put the line on the open screen, or take it away."""
        if not self._app.screen_stack:
            return  # it is being left, and the clock of the replay ticks yet
        screen = self._app.screen
        if not isinstance(screen, Page) or not screen.is_mounted:
            return
        line = next(iter(screen.query(Scrubber)), None)
        player, source = self._player, self._source
        if player is None or source is None:
            if line is not None:
                line.remove()
                screen.reserve(0)
            return
        if line is None:
            line = Scrubber(self._app.look, id="scrubber")
            screen.mount(line)
            screen.reserve(1)
        wall, outline, shown = self._clock(), source.outline, self._shown()
        at = player.at(wall) if shown is None or shown == self._left else shown
        ended = player.is_at_end(wall) and not player.paused
        line.put(Playing(at, outline.begin, outline.end, player.speed, player.paused, outline.marks, ended))

    def _shown(self) -> float | None:
        """Return the moment that the screens show; None: it is the present yet. A replay that plays is ahead of it."""
        view = self._app.feed.view()
        return view.status.at if view.replays and view.status is not None else None
