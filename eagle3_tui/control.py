"""Commands of the person to the daemon: confirmed where it matters, sent one after the other, the outcome said."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from functools import partial
from typing import TYPE_CHECKING, Final, Literal

from contracts.commands import DEFAULT, Command, Drain, Pause, Reply, Resume, Retry, Set, Stop
from contracts.control_client import ControlError
from contracts.records import FailureClass, Severity
from contracts.status import RunState
from eagle3_tui.dialogs.confirm import Confirm
from eagle3_tui.dialogs.consequences import consequences
from eagle3_tui.dialogs.fields import Field
from eagle3_tui.dialogs.form import FormDialog, Preview
from eagle3_tui.dialogs.numbers import natural_from
from eagle3_tui.dialogs.retryable import Retryable, retryable
from eagle3_tui.feed.background import in_background
from eagle3_tui.store_text import is_pretokenized, only_extracts

if TYPE_CHECKING:
    from eagle3_tui.app import Eagle3App

Sender = Callable[[Command], Reply]

MOST_CONCURRENCY: Final = 65_536
ALL: Final = "all data sets"
ANY_CLASS: Final = "every class"
_HEARTBEATS_S: Final = 3.0
"""So long after an accepted change the status may still show what was before."""


class Control:
    """Asks the daemon for what the person wants.

    Args:
        app: Where dialogs and outcomes are shown.
        sender: Sends one command and returns the reply; called in a background thread.
        read_only: Refuse everything.
    """

    def __init__(self, app: Eagle3App, sender: Sender, *, read_only: bool) -> None:
        self._app = app
        self.sender = sender
        self._read_only = read_only
        self._one_at_a_time = asyncio.Lock()
        self._asked_concurrency: int | None = None

    def ask(self, what: str, command: Command, *, confirm: str | None = None) -> None:
        """Send a command, after a question where there is one, and say what came of it.

        Args:
            what: A few words for the command.
            command: To be sent.
            confirm: The question to be answered with yes first; what the command does is said below it.
        """
        if self.refused():
            return
        status = self._app.feed.view().status
        nobody_there = status is not None and status.daemon.alive is False and isinstance(command, (Drain, Stop))
        if confirm is None or nobody_there:
            self._send(what, command)
        else:
            self._app.run_worker(self._confirmed(what, command, confirm), group="dialog")

    def pause(self) -> None:
        """Nothing is lost by it and it is taken back with a key: no question."""
        self.ask("pause", Pause())

    def resume(self) -> None:
        """Go on."""
        self.ask("resume", Resume())

    def drain(self) -> None:
        """End the daemon once what is open has finished."""
        self.ask("drain", Drain(), confirm="Drain the run and end its daemon?")

    def stop(self) -> None:
        """End the daemon."""
        self.ask("stop", Stop(), confirm="Stop the daemon now?")

    def step_concurrency(self, direction: int) -> None:
        """Ask for a tenth more or fewer requests at once, at least one; quick presses add up."""
        if self.refused():
            return
        status = self._app.feed.view().status
        known = self._asked_concurrency or (status.concurrency if status else None)
        if known is None:
            self._app.say("the concurrency is not known: no daemon has said it", Severity.WARNING)
            return
        self._set_concurrency(stepped(known, direction))

    def concurrency_dialog(self) -> None:
        """Ask for a number of requests at once."""
        fields = [Field("at once", hint=f"1 to {MOST_CONCURRENCY:,}, or {DEFAULT}")]
        self._open("Requests open at once", fields, self._concurrency_preview, "set it")

    def target_dialog(self, dataset: str | None) -> None:
        """Ask for a token target, beginning with a data set."""
        if self.refused():
            return
        names = self._generated()
        if not names:
            self._app.say("nothing is generated in this run: there is no token target to set", Severity.WARNING)
            return
        if dataset is not None and dataset not in names:
            self._app.say(
                f"{dataset}: its prompts bring their own answers, so nothing is generated there: it can have no target",
                Severity.WARNING,
            )
        fields = [
            Field("tokens", hint=f"like 10M or 10_000_000, or {DEFAULT}"),
            Field("data set", (*names, ALL), dataset if dataset in names else ""),
        ]
        self._open("Completion tokens to reach", fields, self._target_preview, "set it")

    def retry_dialog(self, dataset: str | None = None) -> None:
        """Ask what shall be tried again."""
        if not self.refused():
            self._app.run_worker(self._retry_dialog(dataset), group="dialog")

    def refused(self) -> bool:
        """Whether nothing may be changed here; says why."""
        status = self._app.feed.view().status
        if self._app.replaying.active:
            self._app.say("the past can't be changed: R goes back to the present", Severity.WARNING)
        elif self._read_only:
            self._app.say(
                "read only: this key would change the run; leave and start without --read-only", Severity.WARNING
            )
        elif status is not None and status.state is RunState.WATCHING:
            self._app.say("a folder of other tools: it is watched, there is nothing to control", Severity.WARNING)
        else:
            return False
        return True

    def _open(
        self, title: str, fields: Sequence[Field], preview: Callable[[Sequence[str]], Preview[Command]], does: str
    ) -> None:
        if not self.refused():
            self._app.run_worker(self._filled_in(title, fields, preview, does), group="dialog")

    async def _filled_in(
        self, title: str, fields: Sequence[Field], preview: Callable[[Sequence[str]], Preview[Command]], does: str
    ) -> None:
        command = await self._app.push_screen_wait(FormDialog(self._app.look, title, fields, preview, does))
        if isinstance(command, Set) and isinstance(command.concurrency, int):
            self._set_concurrency(command.concurrency)
        elif command is not None:
            self._send(str(command.__struct_config__.tag), command)

    async def _retry_dialog(self, dataset: str | None) -> None:
        reach = await self._reach()
        names = tuple(self._app.feed.view().dataset_names)
        fields = [
            Field("class", (ANY_CLASS, *(str(one) for one in FailureClass if one is not FailureClass.INVALID_INPUT))),
            Field("data set", (ALL, *names), dataset if dataset in names else ""),
            Field("sample", hint="its id; empty: all of them"),
        ]
        await self._filled_in("Try failed samples again", fields, partial(_retry_preview, reach), "send them again")

    async def _reach(self) -> Retryable | None:
        try:
            return await self._app.feed.ask(retryable)
        except OSError:
            return None  # The screen says by itself that the folder cannot be read.

    async def _confirmed(self, what: str, command: Command, question: str) -> None:
        reach = await self._reach() if isinstance(command, Retry) else None
        said = consequences(command, self._app.feed.view().status, reach)
        if await self._app.push_screen_wait(Confirm(self._app.look, question, said, what)):
            self._send(what, command)

    def _concurrency_preview(self, values: Sequence[str]) -> Preview[Command]:
        number = natural_from(values[0])
        wanted = DEFAULT if values[0].strip() == DEFAULT else number
        if wanted is None or (number is not None and not 1 <= number <= MOST_CONCURRENCY):
            status = self._app.feed.view().status
            now = "-" if status is None or status.concurrency is None else f"{status.concurrency:,}"
            return Preview(None, (f"Now {now} at once. A number from 1 to {MOST_CONCURRENCY:,} is needed.",))
        command = Set(concurrency=DEFAULT if number is None else number)
        return Preview(command, tuple(consequences(command, self._app.feed.view().status)))

    def _target_preview(self, values: Sequence[str]) -> Preview[Command]:
        tokens, name = values
        number = natural_from(tokens)
        if number is None and tokens.strip() != DEFAULT:
            return Preview(None, ("A number of tokens is needed.",))
        wanted: int | Literal["default"] = DEFAULT if number is None else number
        names = self._generated() if name == ALL else [name]
        command = Set(targets=dict.fromkeys(names, wanted))
        said = consequences(command, self._app.feed.view().status)
        if len(names) > 1:
            said = [f"The target of {len(names)} data sets changes, each to this.", *said[-1:]]
        return Preview(command, tuple(said))

    def _generated(self) -> list[str]:
        """The data sets that have anything to generate."""
        status = self._app.feed.view().status
        if status is None or only_extracts(status):
            return []
        return [data.name for data in status.datasets if not is_pretokenized(data)]

    def _set_concurrency(self, wanted: int) -> None:
        if self.refused():
            return
        self._asked_concurrency = wanted
        self._send(f"concurrency {wanted}", Set(concurrency=wanted))

    def _send(self, what: str, command: Command) -> None:
        """Send a command; not where the past came on the screen while a dialog was being made or was open."""
        if self.refused():
            return
        self._app.say(f"{what}: asking the daemon ...")
        self._app.run_worker(self._answer(what, command), group="control")

    async def _answer(self, what: str, command: Command) -> None:
        """Send a command and say what came of it, in the order of the keys."""
        number = command.concurrency if isinstance(command, Set) and isinstance(command.concurrency, int) else None
        async with self._one_at_a_time:
            if number is not None and number != self._asked_concurrency:
                return  # A later key wants another number: the daemon needs only that one.
            done = False
            try:
                reply = await in_background(partial(self.sender, command))
            except ControlError as error:
                self._app.say(str(error), Severity.WARNING)
            else:
                done = reply.ok
                outcome = reply.message or f"{what}: {'done' if reply.ok else 'refused'}"
                self._app.say(outcome, Severity.INFO if reply.ok else Severity.WARNING)
            if number is not None and done:
                # The next key counts on from here; what is shown follows with the daemon's next heartbeats.
                self._app.set_timer(_HEARTBEATS_S, partial(self._forget_asked, number))
            elif number is not None:
                self._forget_asked(number)

    def _forget_asked(self, concurrency: int) -> None:
        if self._asked_concurrency == concurrency:
            self._asked_concurrency = None


def stepped(concurrency: int, direction: int) -> int:
    """Return the concurrency a tenth (at least one) up or down, from 1 to the most that there is."""
    return min(max(concurrency + direction * max(round(concurrency / 10), 1), 1), MOST_CONCURRENCY)


def _retry_preview(reach: Retryable | None, values: Sequence[str]) -> Preview[Command]:
    error, name, sample = values
    command = Retry(
        dataset=None if name == ALL else name,
        error=None if error == ANY_CLASS else FailureClass(error),
        sample_id=sample.strip() or None,
    )
    said = tuple(consequences(command, None, reach))
    if reach is None or command.sample_id is not None:
        return Preview(command, said)
    if not reach.samples(command.dataset, command.error) and not reach.going_on(command.dataset, command.error):
        return Preview(None, ("Nothing of that was given up: there is nothing to try again.",))
    return Preview(command, said)
