"""A verb of the daemon's own code, run as a process: its JSON, its exit code, and what it says meanwhile."""

from __future__ import annotations

import subprocess
import sys
import tempfile
from collections.abc import Sequence
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


def call(command: Sequence[str], kind: type[_T]) -> tuple[_T, Printed]:
    """Run a verb that prints one JSON object; lines that tell its progress go to our standard error as they come.

    Args:
        command: From `eagle3_tui.processes.program`.
        kind: Type of the object.

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
        said = words[-1] if words else f"it printed no result: {error}"
        raise CommandFailed(said, printed.code or ExitCode.FAILED) from error
