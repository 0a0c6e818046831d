"""What each command does: one function for each."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Protocol

import msgspec

from contracts import commands
from contracts.clock import Clock
from contracts.fold.events import SET
from contracts.fold.run import RunFold
from contracts.records import Event, Requeue, Severity
from contracts.sample_id import SampleId
from contracts.status import RunStatus
from contracts.version import version
from daemon.events import EventLog
from daemon.wishes import Requeued, nothing_to_retry, retry_refusal, set_data, set_message, set_refusal


class Controlled(Protocol):
    """The part of the daemon that commands act on."""

    fold: RunFold
    events: EventLog
    clock: Clock
    pid: int
    since: float

    @property
    def word(self) -> str:
        """The run's state; ``starting`` until it is known whether anything is left to do."""
        ...

    def status(self) -> RunStatus:
        """The status now."""
        ...

    def pause(self, reason: str) -> bool:
        """Send nothing new; False when it was so already."""
        ...

    def resume(self) -> bool:
        """Go on; False when nothing held it."""
        ...

    def drain(self) -> None:
        """Let what is in flight finish, then exit."""
        ...

    def stop(self) -> None:
        """Exit now."""
        ...

    def requeue(self, record: Requeue, dataset: str | None) -> Requeued:
        """Give samples another try."""
        ...

    def has_failed(self, dataset: str | None, sample: SampleId) -> bool:
        """Whether a sample failed and has no answer yet: in one data set, with None in any."""
        ...

    def wake(self) -> None:
        """Look again at what can be sent."""
        ...


class Handlers:
    """Carries commands out; the `daemon.control.socket.Handler` of the daemon."""

    def __init__(self, daemon: Controlled) -> None:
        self._daemon = daemon

    async def handle(self, command: commands.AnyCommand) -> commands.Reply:
        """Carry one command out and say what was done, or why not."""
        match command:
            case commands.Ping():
                return self._ping()
            case commands.Status():
                return commands.Reply(ok=True, result=msgspec.to_builtins(self._daemon.status()))
            case commands.Pause(reason=reason):
                return self._pause(reason)
            case commands.Resume():
                return self._resume()
            case commands.Drain():
                self._daemon.drain()
                return _done("draining: nothing new is sent; the daemon ends when what is in flight has finished")
            case commands.Stop():
                self._daemon.stop()
                return _done("stopping: what is in flight is given up and sent again at the next start")
            case commands.Set():
                return self._set(command)
            case commands.Retry():
                return self._retry(command)
            case commands.Events(last=last):
                events = [msgspec.to_builtins(event) for event in self._daemon.events.last(last)]
                return commands.Reply(ok=True, result={"events": events})

    def subscribe_events(self, last: int) -> AsyncIterator[Event]:
        """Return the last events and all that come after."""
        return self._daemon.events.follow(last)

    def _ping(self) -> commands.Reply:
        daemon = self._daemon
        return commands.Reply(
            ok=True,
            message="here",
            result={
                "pid": daemon.pid,
                "run": str(daemon.fold.run.path),
                "since": daemon.since,
                "protocol": commands.PROTOCOL,
                "version": version(),
                "state": daemon.word,
            },
        )

    def _pause(self, reason: str | None) -> commands.Reply:
        if not self._daemon.pause(reason or "by command"):
            return _done("it was paused already")
        run = self._daemon.fold.run.quoted
        return _done(f"paused: nothing new is sent; what is in flight finishes. Go on with: eagle3 resume {run}")

    def _resume(self) -> commands.Reply:
        if not self._daemon.resume():
            return _done("it was running already")
        return _done("running")

    def _set(self, command: commands.Set) -> commands.Reply:
        refusal = set_refusal(self._daemon.fold, command)
        if refusal is not None:
            return _refused(refusal)
        said = set_message(self._daemon.fold, command)
        self._daemon.events.emit(Severity.INFO, SET, said, data=set_data(command))
        self._daemon.wake()
        return _done(said)

    def _retry(self, command: commands.Retry) -> commands.Reply:
        refusal = retry_refusal(self._daemon.fold, command, self._daemon.has_failed)
        if refusal is not None:
            return _refused(refusal)
        record = Requeue(at=self._daemon.clock.now(), error=command.error, sample_id=command.sample_id)
        done = self._daemon.requeue(record, command.dataset)
        if not done:
            return commands.Reply(ok=True, message=nothing_to_retry(self._daemon.fold, command), result={"samples": 0})
        self._daemon.events.emit(Severity.INFO, "control.retry", str(done), dataset=command.dataset)
        return commands.Reply(ok=True, message=str(done), result={"samples": done.samples})


def _done(message: str) -> commands.Reply:
    return commands.Reply(ok=True, message=message)


def _refused(message: str) -> commands.Reply:
    return commands.Reply(ok=False, message=message)
