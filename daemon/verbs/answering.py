"""What verbs have in common that print one JSON object: what can go wrong, in a sentence, and the exit code for it."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

import msgspec

from contracts.exit_codes import ExitCode
from contracts.run_config import ConfigError
from daemon.single import AlreadyRunning, LockTrouble

Result = TypeVar("Result", bound=msgspec.Struct)


def answer(
    run: Path,
    work: Callable[[], Result],
    is_well: Callable[[Result], bool],
    *,
    busy: str = "",
    refusals: tuple[type[Exception], ...] = (LockTrouble,),
) -> ExitCode:
    """Print what the work comes to, or why it comes to nothing.

    Args:
        run: Named where the system does not say which file it refused.
        work: Does it.
        is_well: Whether its result is one to be content with.
        busy: Put behind the sentence that a daemon runs: what to do.
        refusals: Exceptions whose words say everything.
    """
    try:
        result = work()
    except ConfigError as error:
        return _refuse(str(error), ExitCode.USAGE)
    except AlreadyRunning as error:
        return _refuse(f"{error}{busy}", ExitCode.FAILED)
    except refusals as error:
        return _refuse(str(error), ExitCode.FAILED)
    except OSError as error:
        return _refuse(f"{error.filename or run}: {error.strerror or error}", ExitCode.FAILED)
    sys.stdout.buffer.write(msgspec.json.encode(result) + b"\n")
    return ExitCode.OK if is_well(result) else ExitCode.FAILED


def _refuse(sentence: str, code: ExitCode) -> ExitCode:
    print(sentence, file=sys.stderr)
    return code
