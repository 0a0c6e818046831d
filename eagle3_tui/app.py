"""The Textual app: feed in, screens out, keys to the daemon; the only way in is `run_app`."""

from __future__ import annotations

import asyncio
import gc
import signal
import sys
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any, ClassVar, Final

from rich.console import RenderableType
from textual.app import App
from textual.binding import Binding, BindingType
from textual.command import CommandPalette
from textual.driver import Driver
from textual.drivers.linux_driver import LinuxDriver
from textual.events import Resize
from textual.screen import Screen
from textual.timer import Timer
from textual.widget import Widget
from textual.worker import WorkerFailed

from contracts.clock import Clock
from contracts.details.sample import SampleRef
from contracts.exit_codes import ExitCode
from contracts.monitor import Monitor
from contracts.records import Severity
from contracts.replay.source import ReplaySource
from eagle3_tui import crash, taking
from eagle3_tui.control import ALL, Control, Sender
from eagle3_tui.dialogs.fields import Field
from eagle3_tui.dialogs.form import FormDialog, Preview
from eagle3_tui.driver import PatientDriver
from eagle3_tui.feed.state import Feed, Source, View
from eagle3_tui.feed.watcher import Watcher
from eagle3_tui.keys import APP_KEYS
from eagle3_tui.mouse import mouse_is_taken, take_mouse
from eagle3_tui.replay_keys import REPLAY_KEYS
from eagle3_tui.replaying import Replaying
from eagle3_tui.screens.causes import screen_for
from eagle3_tui.screens.detail import Ask, bindings
from eagle3_tui.screens.failures import FailuresScreen
from eagle3_tui.screens.help import HelpScreen
from eagle3_tui.screens.journal import JournalScreen
from eagle3_tui.screens.main import MainScreen
from eagle3_tui.screens.pages import Page, keys_of
from eagle3_tui.screens.palette import Actions
from eagle3_tui.screens.run import RunScreen
from eagle3_tui.screens.sample import SampleScreen
from eagle3_tui.screens.servers import ServersScreen
from eagle3_tui.sending import sender_for
from eagle3_tui.terminal import Capabilities, detect, drop_output_to_nowhere, refusal, with_theme
from eagle3_tui.text import visible
from eagle3_tui.widgets.look import look_for
from eagle3_tui.widgets.painting import cells_only
from eagle3_tui.widgets.plot import HistoryPlot
from eagle3_tui.widgets.scrubber import Scrubber

TICK_S: Final = 0.5
"""The folder is read, and the screen compared with what it says, at most this often, however much happens."""
AGE_S: Final = 1.0
"""How often the age of the latest reading is looked at."""
SAY_S: Final = 10.0
"""How long a sentence stays at the bottom."""
_SIGNALS: Final = (signal.SIGTERM, signal.SIGHUP, signal.SIGINT)


class Eagle3App(App[int], inherit_bindings=False):
    """Shows one run and asks its daemon for what the keys mean.

    Args:
        source: What is watched; read in a background thread only.
        sender: Sends one command and returns the reply; called in a background thread.
        capabilities: What the terminal can show.
        read_only: Refuse keys that change the run.
        farewell: The daemon goes on after leaving, and the screen says so.
        history: Draw what was on the main screen, where there is room, and how busy each GPU was.
        recording: Opens the run's recording; called in a background thread. None: it cannot be replayed.
        replay_speed: Begin with a replay, so fast; None: with the present.
        clock: For the age of what is shown.
    """

    CSS_PATH = "app.tcss"
    TITLE = "eagle3"
    ENABLE_COMMAND_PALETTE = False
    """Textual's own key would open it with Textual's own commands."""
    BINDINGS: ClassVar[list[BindingType]] = [
        *bindings(APP_KEYS),
        Binding("ctrl+c,ctrl+q", "leave", show=False, priority=True),
        *(
            Binding(",".join(key.keys), key.action.removeprefix("app."), key.help, show=False, priority=True)
            for key in REPLAY_KEYS
        ),
    ]

    def __init__(
        self,
        source: Source,
        sender: Sender,
        *,
        capabilities: Capabilities | None = None,
        read_only: bool = False,
        farewell: bool = True,
        history: bool = False,
        recording: Callable[[], ReplaySource] | None = None,
        replay_speed: float | None = None,
        clock: Clock | None = None,
    ) -> None:
        super().__init__(ansi_color=True)
        self.animation_level = "none"
        self._capabilities = capabilities or detect()
        self.look = look_for(self._capabilities)
        self.theme = _textual_theme(self._capabilities)
        self.set_class(not self.look.unicode, "-ascii")
        clock = clock or Clock()
        self.feed = Feed(source, clock)
        self.replaying = Replaying(self, source, recording, clock.mono)
        self._replay_speed = replay_speed
        self.control = Control(self, sender, read_only=read_only)
        self.fault: BaseException | None = None
        """What ended the app, where that was an error of its own."""
        self._watcher = Watcher(lambda: self.feed.folders)
        self.read_only = read_only
        plot = HistoryPlot(self.look, self.feed.ask, id="history") if history else None
        ask = self.feed.ask if history else None
        self._run_screen = MainScreen(self.look, read_only=read_only, farewell=farewell, history=plot, ask=ask)
        self._said_on: Page = self._run_screen
        self._silence: Timer | None = None
        self._settled = False
        """The first reading was shown."""

    def get_driver_class(self) -> type[Driver]:
        """Return Textual's choice, or what spares the processor in its place."""
        chosen = super().get_driver_class()
        return PatientDriver if chosen is LinuxDriver else chosen

    def on_load(self) -> None:
        """Heed signals before anything of the terminal is changed."""
        if not self.is_headless:
            loop = asyncio.get_running_loop()
            for number in _SIGNALS:
                loop.add_signal_handler(number, partial(self.leave, 128 + number))

    async def on_mount(self) -> None:
        """Show the screen, then begin to read: the first paint waits for no disk."""
        await self.push_screen(self._run_screen)
        if self._replay_speed is not None:
            await self.replaying.begin(speed=self._replay_speed, from_start=True)
        self.run_worker(self._watcher.run(), group="feed", exit_on_error=True)
        self.run_worker(self._follow(), group="feed", exit_on_error=True)
        # Each reading is shown at once; what is left for the clock is to say that none has come for a while.
        self.set_interval(AGE_S, self._show)
        # What changed while another screen was open is shown at once.
        self.screen_change_signal.subscribe(self, lambda _screen: self._show())

    async def _follow(self) -> None:
        """Read when something changed or the sweep is due, at most once a tick, and show it at once."""
        loop = asyncio.get_running_loop()
        while True:
            begun = loop.time()
            self._watcher.found(await self.feed.read())
            self._show()
            if not self._settled and not self.is_headless:
                self._settled = True
                # What is there by now stays to the end: looking through all of it again and again finds nothing.
                gc.freeze()
            await self._watcher.wait()
            await asyncio.sleep(max(begun + TICK_S - loop.time(), 0.0))

    def _show(self) -> None:
        """Show the latest view on the screen that is open; those below it follow when they come up again."""
        if not self.screen_stack:
            return  # it is being left
        self.replaying.place()
        screen = self.screen
        if isinstance(screen, Page) and screen.is_attached:
            screen.show(self.feed.view())

    def _display(self, screen: Screen[Any], renderable: RenderableType | None) -> None:
        """Send changed cells alone: Textual's own way costs several times the bytes, and this goes over SSH."""
        super()._display(screen, cells_only(renderable))

    def say(self, message: str, severity: Severity = Severity.INFO) -> None:
        """Show a sentence at the bottom for a while."""
        if self._silence is not None:
            self._silence.stop()
        page = self._page()
        if page is not self._said_on:
            self._said_on.say(None)
        self._said_on = page
        page.say(message, severity)
        self._silence = self.set_timer(SAY_S, partial(page.say, None))

    def wake(self) -> None:
        """Have the source read again soon, whatever the files say."""
        self._watcher.wake()

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        """Let the replay's keys through only while there is a replay and nothing else takes keys."""
        return self.replaying.takes_keys if action == "replay" else super().check_action(action, parameters)

    def leave(self, return_code: int) -> None:
        """End the app; the thread that waits for file events is told first, since the process waits for it."""
        self._watcher.stop()
        self.exit(return_code=return_code)

    def on_run_screen_opened(self, event: RunScreen.Opened) -> None:
        """Go to the data set under the cursor, or to the cause of the alert."""
        self.push_screen(screen_for(event.target, self.look, self.feed, self._ask))

    def on_scrubber_jumped(self, event: Scrubber.Jumped) -> None:
        """Go to the moment of the past that was clicked."""
        self.replaying.jump(event.at)

    def action_leave(self) -> None:
        """Leave the screen; the daemon goes on."""
        self.leave(int(ExitCode.OK))

    def action_pause(self) -> None:
        """Ask the daemon to send nothing new."""
        self.control.pause()

    def action_resume(self) -> None:
        """Ask the daemon to go on."""
        self.control.resume()

    def action_drain(self) -> None:
        """Ask the daemon to end when what is open has finished."""
        self.control.drain()

    def action_stop(self) -> None:
        """Ask the daemon to end now."""
        self.control.stop()

    def action_concurrency(self, direction: int) -> None:
        """Ask for a tenth more or fewer requests at once."""
        self.control.step_concurrency(direction)

    def action_concurrency_dialog(self) -> None:
        """Ask for a number of requests at once."""
        self.control.concurrency_dialog()

    def action_target_dialog(self) -> None:
        """Ask for a token target of the selected data set, or of another."""
        self.control.target_dialog(self._dataset())

    def action_retry_dialog(self) -> None:
        """Ask what shall be tried again."""
        self.control.retry_dialog()

    def action_failures(self) -> None:
        """Show what failed."""
        self.push_screen(FailuresScreen(self.look, self.feed, None, self._ask))

    def action_journal(self) -> None:
        """Show events and log."""
        self.push_screen(JournalScreen(self.look, self.feed))

    def action_servers(self) -> None:
        """Show the servers."""
        self.push_screen(ServersScreen(self.look, self.feed))

    def action_go(self) -> None:
        """Ask for a sample's id and show the sample."""
        self.run_worker(self._go(), group="dialog")

    def action_past(self) -> None:
        """Show the past, standing at its end."""
        self.run_worker(self.replaying.begin(), group="replay")

    def action_replay(self, what: str, amount: float = 0.0) -> None:
        """Move in the past, or leave it."""
        self.replaying.act(what, amount)

    def action_help(self) -> None:
        """Show the help of the open screen."""
        self.push_screen(HelpScreen(self.look, keys_of(self.screen), read_only=self.read_only))

    def action_commands(self) -> None:
        """Open the command palette."""
        self.push_screen(CommandPalette(providers=[Actions], placeholder="words of a command"))

    async def action_copy(self) -> None:
        """Copy what is selected, or the text of the screen where nothing can be."""
        await taking.copy(self)

    async def action_export(self) -> None:
        """Write the screen as SVG, text and JSON into the current folder."""
        await taking.write(self)

    def action_mouse(self) -> None:
        """Leave the mouse to the terminal, or take it back."""
        taken = not mouse_is_taken(self)
        take_mouse(self, taken)
        self.say("the mouse is used here again" if taken else "the mouse is the terminal's: select and copy with it")

    def action_theme(self) -> None:
        """Change between colours for a dark and for a light background."""
        self._capabilities = replace(self._capabilities, light=not self._capabilities.light)
        self.look.become(look_for(self._capabilities))
        self.theme = _textual_theme(self._capabilities)
        for screen in self.screen_stack:
            for part in screen.query(Widget):
                part.post_message(Resize(part.size, part.virtual_size))
        self.say(f"colours for a {'light' if self._capabilities.light else 'dark'} background")

    @property
    def _ask(self) -> Ask | None:
        """For screens that may send commands; None with ``--read-only``: they then offer none."""
        return None if self.read_only else self.control.ask

    async def _go(self) -> None:
        fields = [
            Field("sample id", hint="as the files have it"),
            Field("data set", (ALL, *self.feed.view().dataset_names)),
        ]
        ref = await self.push_screen_wait(FormDialog(self.look, "Go to a sample", fields, _sample_preview, "go"))
        if ref is not None:
            self.push_screen(SampleScreen(self.look, self.feed, ref, self._ask))

    def _page(self) -> Page:
        """The topmost screen that is not a dialog."""
        return next((one for one in reversed(self.screen_stack) if isinstance(one, Page)), self._run_screen)

    def _dataset(self) -> str | None:
        """The data set under the main screen's cursor."""
        selected = self._run_screen.selected
        return None if selected is None else selected.dataset

    def _handle_exception(self, error: Exception) -> None:
        self.fault = error.error if isinstance(error, WorkerFailed) else error
        super()._handle_exception(error)

    def _fatal_error(self) -> None:
        """End quietly: the terminal is given back first, then `run_app` says what happened."""
        self._watcher.stop()
        self._close_messages_no_wait()


def _textual_theme(capabilities: Capabilities) -> str:
    return "ansi-light" if capabilities.light else "ansi-dark"


def _sample_preview(values: Sequence[str]) -> Preview[SampleRef]:
    key, name = values[0].strip(), values[1]
    if not key:
        return Preview(None, ("The id of a sample is needed.",))
    return Preview(
        SampleRef(None if name == ALL else name, key),
        ("It is looked for in prompts, answers, failures and hidden states.",),
    )


def run_app(
    path: Path,
    *,
    read_only: bool = False,
    mouse: bool = True,
    theme: str = "auto",
    farewell: bool = True,
    replay_speed: float | None = None,
) -> int:
    """Show a run until the person leaves.

    Args:
        path: A run directory, or a foreign folder.
        read_only: Refuse keys that change the run.
        mouse: Take the mouse; without, the terminal's own selection works.
        theme: One of `eagle3_tui.terminal.THEMES`.
        farewell: Say after leaving that the daemon goes on and how to stop it; not where the caller ends it.
        replay_speed: Begin with a replay of the run, so many seconds of it in one; None: with the present.

    Returns:
        The exit code of the process: 0 after leaving, 128 + n after signal n, 1 after a crash,
        2 without a fit terminal.

    Raises:
        contracts.fold.run.NotARunError: The folder is not a run and holds no data sets.
        contracts.run_config.ConfigError: Its run.toml can't be used.
    """
    why_not = refusal({"standard input": sys.stdin, "standard output": sys.stdout, "standard error": sys.stderr})
    if why_not is not None:
        print(f"eagle3 tui: {why_not} {visible(path)}", file=sys.stderr)
        return ExitCode.USAGE
    app = Eagle3App(
        Monitor(path, often=True),
        sender_for(path),
        capabilities=with_theme(detect(), theme),
        read_only=read_only,
        farewell=farewell,
        history=True,
        recording=partial(ReplaySource, path),
        replay_speed=replay_speed,
    )
    try:
        app.run(mouse=mouse)
    finally:
        # The terminal may be gone at any moment, and take what Textual does at the end with it.
        if isinstance(app._driver, PatientDriver):
            app._driver.release()
    # Else the interpreter looks through everything once more before it drops it: longer than all the rest of leaving.
    gc.freeze()
    drop_output_to_nowhere((sys.stdout, sys.stderr))
    if app.fault is not None:
        print(f"eagle3 tui: {crash.report(app.fault, visible(path))}", file=sys.stderr)
    elif farewell and app.return_code == ExitCode.OK and _goes_on(app.feed.view()):
        print(f"the daemon goes on; stop it with: eagle3 stop {visible(path)}")
    return app.return_code or 0


def _goes_on(view: View) -> bool:
    """Whether a daemon goes on that was watched."""
    return not view.replays and view.status is not None and bool(view.status.daemon.alive)
