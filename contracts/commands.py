"""Control messages on the daemon's Unix socket: one JSON object a line, one reply a line.

`Events` with ``follow`` is the exception: after its reply, event records follow, a line each, until either side closes.
"""

from __future__ import annotations

from typing import Annotated, Any, Final, Literal

import msgspec

from contracts.records import Count, FailureClass
from contracts.sample_id import SampleId

PROTOCOL: Final = 1
"""Version of the control protocol; the daemon's `Reply` to `Ping` names its own."""


DEFAULT: Final = "default"
"""In a `Set`: as run.toml says, whatever was set before."""


class Command(msgspec.Struct, tag_field="command", forbid_unknown_fields=True, kw_only=True):
    """Base of all commands; ``command`` names which."""


class Ping(Command, tag="ping"):
    """Is anybody there? The reply's result: ``{"pid", "run", "since", "protocol", "version", "state"}``."""


class Status(Command, tag="status"):
    """The daemon's own view: the same object as ``eagle3 status --json``."""


class Pause(Command, tag="pause"):
    """Send nothing new; what is in flight finishes."""

    reason: str | None = None


class Resume(Command, tag="resume"):
    """Go on after a pause, or take back a drain."""


class Drain(Command, tag="drain"):
    """Send nothing new, let what is in flight finish, then exit."""


class Stop(Command, tag="stop"):
    """Exit: abort what is in flight (it is sent again at the next start)."""


class Set(Command, tag="set"):
    """Change the run; kept over restarts by its event record. ``"default"``: as run.toml says."""

    concurrency: Annotated[int, msgspec.Meta(ge=1, le=65_536)] | Literal["default"] | None = None
    targets: dict[str, Count | Literal["default"]] = {}
    """New ``target_tokens`` by data set."""


class Retry(Command, tag="retry"):
    """Put failed or quarantined samples back into the queue; no filter: all but invalid input."""

    dataset: str | None = None
    error: FailureClass | None = None
    sample_id: SampleId | None = None


class Events(Command, tag="events"):
    """The last events, and with ``follow`` all that come after."""

    last: Count = 20
    follow: bool = False


AnyCommand = Ping | Status | Pause | Resume | Drain | Stop | Set | Retry | Events

COMMANDS: Final[dict[str, type[Command]]] = {
    "command.ping": Ping,
    "command.status": Status,
    "command.pause": Pause,
    "command.resume": Resume,
    "command.drain": Drain,
    "command.stop": Stop,
    "command.set": Set,
    "command.retry": Retry,
    "command.events": Events,
}


class Reply(msgspec.Struct, kw_only=True, omit_defaults=True):
    """The answer to one command."""

    ok: bool
    message: str = ""
    """A sentence for a person: what was done, or why not and what to do."""
    result: dict[str, Any] = {}


_COMMAND: Final[msgspec.json.Decoder[AnyCommand]] = msgspec.json.Decoder(AnyCommand)
_REPLY: Final = msgspec.json.Decoder(Reply)


def decode_command(line: bytes) -> AnyCommand:
    """Decode one command line.

    Raises:
        msgspec.DecodeError: Not JSON, an unknown command, or an unknown or ill-typed key; the message names it.
    """
    return _COMMAND.decode(line)


def decode_reply(line: bytes) -> Reply:
    """Decode one reply line.

    Raises:
        msgspec.DecodeError: Not a reply.
    """
    return _REPLY.decode(line)
