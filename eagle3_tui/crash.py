"""What is left of an error that nobody expected: a sentence for the person, and the whole of it in a file."""

from __future__ import annotations

import os
import sys
import tempfile
import traceback
from pathlib import Path

from contracts.version import version


def report(error: BaseException, run: str) -> str:
    """Write the traceback of an error into a file of its own and return what to tell the person.

    Args:
        error: That ended the app.
        run: The folder that was shown.
    """
    trace = "".join(traceback.format_exception(error))
    text = f"eagle3 {version()}, Python {sys.version.split()[0]}, TERM {os.environ.get('TERM')}\n{run}\n\n{trace}"
    what = f"{type(error).__name__}: {error}" if str(error) else type(error).__name__
    said = (
        f"the screen ended by a fault of its own: {what}. The daemon is not affected; look with: eagle3 status {run}."
    )
    try:
        handle, name = tempfile.mkstemp(prefix="eagle3-tui-", suffix=".traceback.txt")
        with open(handle, "w", encoding="utf-8", errors="backslashreplace") as out:
            out.write(text)
    except OSError as why:
        return (
            f"{said} Its traceback cannot be written to {Path(tempfile.gettempdir())} ({why.strerror or why}):\n{text}"
        )
    return f"{said} The traceback is in: {name}"
