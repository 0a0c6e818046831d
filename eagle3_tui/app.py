"""The Textual app: feed in, screen out, keys to the daemon; the only way in is `run_app`."""

from __future__ import annotations

import asyncio
import signal
import sys
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import ClassVar, Final

from textual.app import App
from textual.binding import Binding, BindingType
from textual.timer import Timer

from contracts.clock import Clock
from contracts.commands import Command, Pause, Reply, Resume, Set
from contracts.control_client import ControlError, send, socket_of
from contracts.exit_codes import ExitCode
from contracts.monitor import Monitor
from contracts.records import Severity
from contracts.run_dir import RunDir
from eagle3_tui.feed.background import in_background
from eagle3_tui.feed.state import Feed, Source
from eagle3_tui.feed.watcher import Watcher
from eagle3_tui.keys import KEYS, usable_keys
from eagle3_tui.screens.help import HelpScreen
from eagle3_tui.screens.run import RunScreen
from eagle3_tui.terminal import Capabilities, detect, drop_output_to_nowhere, refusal
from eagle3_tui.text import visible
from eagle3_tui.widgets.look import look_for

TICK_S: Final = 0.5
"""The screen is compared with the latest state this often, however much happens."""
SAY_S: Final = 10.0
"""How long a sentence stays at the bottom."""
CONTROL_TIMEOUT_S: Final = 5.0
_HEARTBEATS_S: Final = 3.0
"""So long after an accepted change the status may still show what was before."""
_SIGNALS: Final = (signal.SIGTERM, signal.SIGHUP, signal.SIGINT)

Sender = Callable[[Command], Reply]


class Eagle3App(App[int], inherit_bindings=False):
    """Shows one run and asks its daemon for what the keys mean.

    Args:
        source: What is watched; read in a background thread only.
        sender: Sends one command and returns the reply; called in a background thread.
        capabilities: What the terminal can show.
        read_only: Refuse keys that change the run.
        farewell: The daemon goes on after leaving, and the screen says so.
        clock: For the age of what is shown.
    """

    CSS_PATH = "app.tcss"
    TITLE = "eagle3"
    ENABLE_COMMAND_PALETTE = False
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding(",".join(key.keys), key.action, key.help, show=False) for key in KEYS
    ]

    def __init__(
        self,
        source: Source,
        sender: Sender,
        *,
        capabilities: Capabilities | None = None,
        read_only: bool = False,
        farewell: bool = True,
        clock: Clock | None = None,
    ) -> None:
        super().__init__(ansi_color=True)
        self.theme = "ansi-dark"
        self.animation_level = "none"
        self.feed = Feed(source, clock or Clock())
        self._watcher = Watcher(lambda: self.feed.folders)
        self._sender = sender
        self._read_only = read_only
        self._look = look_for(capabilities or detect())
        self._run_screen = RunScreen(self._look, read_only=read_only, farewell=farewell)
        self._one_at_a_time = asyncio.Lock()
        self._asked_concurrency: int | None = None
        self._silence: Timer | None = None

    async def on_mount(self) -> None:
        """Show the screen, then begin to read: the first paint waits for no disk."""
        if not self.is_headless:
            loop = asyncio.get_running_loop()
            for number in _SIGNALS:
                loop.add_signal_handler(number, partial(self.leave, 128 + number))
        await self.push_screen(self._run_screen)
        self.run_worker(self._watcher.run(), group="feed", exit_on_error=True)
        self.run_worker(self._follow(), group="feed", exit_on_error=True)
        self.set_interval(TICK_S, self._show)

    async def _follow(self) -> None:
        """Read when something changed or the sweep is due, at most once a tick, and show it at once."""
        loop = asyncio.get_running_loop()
        while True:
            begun = loop.time()
            await self.feed.read()
            self._show()
            await self._watcher.wait()
            await asyncio.sleep(max(begun + TICK_S - loop.time(), 0.0))

    def _show(self) -> None:
        if self._run_screen.is_attached:
            self._run_screen.show(self.feed.view())

    def say(self, message: str, severity: Severity = Severity.INFO) -> None:
        """Show a sentence at the bottom for a while."""
        self._run_screen.say(message, severity)
        if self._silence is not None:
            self._silence.stop()
        self._silence = self.set_timer(SAY_S, partial(self._run_screen.say, None))

    def action_pause(self) -> None:
        """Ask the daemon to send nothing new."""
        self._ask("pause", Pause())

    def action_resume(self) -> None:
        """Ask the daemon to go on."""
        self._ask("resume", Resume())

    def action_concurrency(self, direction: int) -> None:
        """Ask for a tenth more or fewer requests at once, at least one; quick presses add up."""
        if self._refused_read_only():
            return
        status = self.feed.view().status
        known = self._asked_concurrency or (status.concurrency if status else None)
        if known is None:
            self.say("the concurrency is not known: no daemon has said it", Severity.WARNING)
            return
        wanted = stepped(known, direction)
        self._asked_concurrency = wanted
        self._ask(f"concurrency {wanted}", Set(concurrency=wanted))

    def action_leave(self) -> None:
        """Leave the screen; the daemon goes on."""
        self.leave(int(ExitCode.OK))

    def leave(self, return_code: int) -> None:
        """End the app; the thread that waits for file events is told first, since the process waits for it."""
        self._watcher.stop()
        self.exit(return_code=return_code)

    async def action_help(self) -> None:
        """Show the help."""
        keys = usable_keys(read_only=self._read_only)
        await self.push_screen(HelpScreen(self._look, keys, read_only=self._read_only))

    def action_scroll_rows(self, direction: int) -> None:
        """Move the data set table by a row."""
        self._run_screen.table.scroll_relative(y=direction, animate=False)

    def action_scroll_pages(self, direction: int) -> None:
        """Move the data set table by what is shown of it."""
        self._run_screen.table.scroll_relative(y=direction * self._run_screen.table.page_rows, animate=False)

    def action_scroll_ends(self, direction: int) -> None:
        """Move the data set table to its first or last row."""
        table = self._run_screen.table
        table.scroll_to(y=table.max_scroll_y if direction > 0 else 0, animate=False)

    def _refused_read_only(self) -> bool:
        if self._read_only:
            self.say("read only: this key would change the run; leave and start without --read-only", Severity.WARNING)
        return self._read_only

    def _ask(self, what: str, command: Command) -> None:
        if self._refused_read_only():
            return
        self.say(f"{what}: asking the daemon ...")
        self.run_worker(self._answer(what, command), group="control")

    async def _answer(self, what: str, command: Command) -> None:
        """Send a command and say what came of it, in the order of the keys."""
        async with self._one_at_a_time:
            if isinstance(command, Set) and command.concurrency != self._asked_concurrency:
                return  # A later key wants another number: the daemon needs only that one.
            done = False
            try:
                reply = await in_background(partial(self._sender, command))
            except ControlError as error:
                self.say(str(error), Severity.WARNING)
            else:
                done = reply.ok
                outcome = reply.message or f"{what}: {'done' if reply.ok else 'refused'}"
                self.say(outcome, Severity.INFO if reply.ok else Severity.WARNING)
            if isinstance(command, Set) and done:
                # The next key counts on from here; what is shown follows with the daemon's next heartbeats.
                self.set_timer(_HEARTBEATS_S, partial(self._forget_asked, command.concurrency))
            elif isinstance(command, Set):
                self._forget_asked(command.concurrency)

    def _forget_asked(self, concurrency: object) -> None:
        if self._asked_concurrency == concurrency:
            self._asked_concurrency = None


def stepped(concurrency: int, direction: int) -> int:
    """Return the concurrency a tenth (at least one) up or down, never below one."""
    return max(concurrency + direction * max(round(concurrency / 10), 1), 1)


def run_app(path: Path, *, read_only: bool = False, mouse: bool = True, farewell: bool = True) -> int:
    """Show a run until the person leaves.

    Args:
        path: A run directory, or a foreign folder.
        read_only: Refuse keys that change the run.
        mouse: Take the mouse; without, the terminal's own selection works.
        farewell: Say after leaving that the daemon goes on and how to stop it; not where the caller ends it.

    Returns:
        The exit code of the process: 0 after leaving, 128 + n after signal n, 2 without a fit terminal, not 0 after a
        crash.

    Raises:
        contracts.fold.run.NotARunError: The folder is not a run and holds no data sets.
        contracts.run_config.ConfigError: Its run.toml can't be used.
    """
    why_not = refusal({"standard input": sys.stdin, "standard output": sys.stdout, "standard error": sys.stderr})
    if why_not is not None:
        print(f"eagle3 tui: {why_not} {visible(path)}", file=sys.stderr)
        return ExitCode.USAGE
    run = RunDir(path)

    def sender(command: Command) -> Reply:
        return send(socket_of(run), command, CONTROL_TIMEOUT_S, run=path)

    app = Eagle3App(Monitor(path), sender, read_only=read_only, farewell=farewell)
    app.run(mouse=mouse)
    drop_output_to_nowhere((sys.stdout, sys.stderr))
    status = app.feed.view().status
    if farewell and app.return_code == ExitCode.OK and status is not None and status.daemon.alive:
        print(f"the daemon goes on; stop it with: eagle3 stop {visible(path)}")
    return app.return_code or 0
