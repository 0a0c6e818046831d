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
from contracts.status import RunStatus
from contracts.version import version
from daemon.events import EventLog


class Controlled(Protocol):
    """The part of the daemon that commands act on."""

    fold: RunFold
    events: EventLog
    clock: Clock
    pid: int
    since: float

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

    def requeue(self, record: Requeue, dataset: str | None) -> int:
        """Give samples another try."""
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
            },
        )

    def _pause(self, reason: str | None) -> commands.Reply:
        if not self._daemon.pause(reason or "by command"):
            return _done("it was paused already")
        return _done("paused: nothing new is sent; what is in flight finishes. Go on with: eagle3 resume")

    def _resume(self) -> commands.Reply:
        if not self._daemon.resume():
            return _done("it was running already")
        return _done("running")

    def _set(self, command: commands.Set) -> commands.Reply:
        if command.concurrency is None and not command.targets:
            return _refused("nothing to set: give a concurrency or a target")
        unknown = [name for name in command.targets if name not in self._daemon.fold.datasets]
        if unknown:
            known = ", ".join(self._daemon.fold.datasets)
            return _refused(f"no data set {', '.join(map(repr, unknown))} in this run; there are: {known}")
        said = [f"target of {name}: {target:,} tokens" for name, target in command.targets.items()]
        if command.concurrency is not None:
            said.insert(0, f"concurrency: {command.concurrency}")
        data = {"concurrency": command.concurrency, "targets": command.targets}
        self._daemon.events.emit(Severity.INFO, SET, "; ".join(said), data=data)
        self._daemon.wake()
        return _done("; ".join(said))

    def _retry(self, command: commands.Retry) -> commands.Reply:
        if command.dataset is not None and command.dataset not in self._daemon.fold.datasets:
            return _refused(f"no data set {command.dataset!r}; there are: {', '.join(self._daemon.fold.datasets)}")
        record = Requeue(at=self._daemon.clock.now(), error=command.error, sample_id=command.sample_id)
        count = self._daemon.requeue(record, command.dataset)
        message = f"{count} samples are sent again"
        self._daemon.events.emit(Severity.INFO, "control.retry", message, dataset=command.dataset)
        return commands.Reply(ok=True, message=message, result={"samples": count})


def _done(message: str) -> commands.Reply:
    return commands.Reply(ok=True, message=message)


def _refused(message: str) -> commands.Reply:
    return commands.Reply(ok=False, message=message)
