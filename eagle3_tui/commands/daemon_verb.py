"""A verb of the daemon's own code, run as a process: its JSON, its exit code, and what it says meanwhile."""

from __future__ import annotations

import subprocess
import sys
import tempfile
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Final, TypeVar

import msgspec

from contracts.exit_codes import ExitCode
from eagle3_tui.failure import CommandFailed
from eagle3_tui.processes import environment
from eagle3_tui.text import visible

_PROGRESS: Final = "progress: "
_T = TypeVar("_T")


@dataclass(frozen=True)
class Printed:
    """What a verb printed on standard output, and its exit code."""

    out: bytes
    code: int


def tell(printed: Printed, lines: Iterable[str], *, as_json: bool) -> int:
    """Print what a verb said, as it was or as lines for people, and return its exit code."""
    if as_json:
        sys.stdout.write(printed.out.decode())
    else:
        for line in lines:
            print(line)
    return printed.code


def text_of(command: Sequence[str], nothing: str) -> str:
    """Run a verb that prints text for people, and return that.

    Args:
        command: From `eagle3_tui.processes.program`.
        nothing: What to say when it failed without a word.

    Raises:
        CommandFailed: It failed; in its own last words.
    """
    done = subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, env=environment(), check=False)
    if done.returncode != ExitCode.OK:
        words = done.stderr.decode("utf-8", "replace").strip().splitlines()
        raise _failed(words[-1] if words else nothing, done.returncode)
    return done.stdout.decode()


def call(command: Sequence[str], kind: type[_T], nothing: str = "it printed no result") -> tuple[_T, Printed]:
    """Run a verb that prints one JSON object; lines that tell its progress go to our standard error as they come.

    Args:
        command: From `eagle3_tui.processes.program`.
        kind: Type of the object.
        nothing: What to say when it printed no such object, and no word on that either.

    Raises:
        CommandFailed: It printed no such object; in its own last words.
    """
    words: list[str] = []
    with (
        tempfile.TemporaryFile() as out,
        subprocess.Popen(
            command, stdin=subprocess.DEVNULL, stdout=out, stderr=subprocess.PIPE, env=environment()
        ) as process,
    ):
        assert process.stderr is not None
        for line in process.stderr:
            text = line.decode("utf-8", "replace").rstrip("\r\n")
            if text.startswith(_PROGRESS):
                print(visible(text.removeprefix(_PROGRESS)), file=sys.stderr, flush=True)
            elif text.strip():
                words.append(text)
        code = process.wait()
        out.seek(0)
        printed = Printed(out.read(), code)
    try:
        return msgspec.json.decode(printed.out, type=kind), printed
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        said = words[-1] if words else f"{nothing}: {error}"
        raise _failed(said, printed.code or ExitCode.FAILED) from error


def _failed(said: str, code: int) -> CommandFailed:
    """Return the failure of a verb; its arguments are ours, so what it calls wrong is run.toml."""
    return CommandFailed(said, code, "config" if code == ExitCode.USAGE else "failed")
