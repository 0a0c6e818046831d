"""What went wrong, once for all commands: a stable word, a sentence, an exit code."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import msgspec

from contracts.exit_codes import ExitCode
from eagle3_tui.text import encodable

ERROR_SCHEMA: Final = 1


class CommandFailed(Exception):
    """A command could not do what was asked.

    Args:
        message: One sentence: what failed and what to do.
        exit_code: What the command exits with.
        code: Stable word for scripts.
    """

    def __init__(self, message: str, exit_code: int = ExitCode.FAILED, code: str = "failed") -> None:
        super().__init__(message)
        self.exit_code = exit_code
        self.code = code


class UsageError(CommandFailed):
    """Wrong arguments."""

    def __init__(self, message: str) -> None:
        super().__init__(message, ExitCode.USAGE, "usage")


@dataclass(frozen=True)
class Failure:
    """An error as it is told."""

    code: str
    message: str
    exit_code: int

    def json(self) -> bytes:
        """Return the error object that scripts get instead of the result."""
        error = {"code": self.code, "message": encodable(self.message)}
        return msgspec.json.encode({"schema": ERROR_SCHEMA, "error": error})


def expected_errors() -> tuple[type[Exception], ...]:
    """Return what a command may raise and a person can do something about; all else is a fault of ours."""
    # Late: only a command that failed pays for these.
    from contracts.control_client import ControlError
    from contracts.fold.run import NotARunError
    from contracts.run_config import ConfigError

    return CommandFailed, ControlError, NotARunError, ConfigError, OSError


def failure_of(error: BaseException) -> Failure:
    """Return how an error is told; one that nobody expected is named as such."""
    from contracts.control_client import ControlError, DaemonNotRunning
    from contracts.fold.run import NotARunError
    from contracts.run_config import ConfigError

    match error:
        case CommandFailed():
            return Failure(error.code, str(error), int(error.exit_code))
        case NotARunError():
            return Failure("not_a_run", str(error), ExitCode.NOT_A_RUN)
        case ConfigError():
            return Failure("config", str(error), ExitCode.USAGE)
        case DaemonNotRunning():
            return Failure("not_running", str(error), ExitCode.STOPPED)
        case ControlError():
            return Failure("control", str(error), ExitCode.FAILED)
        case OSError():
            what = f"{error.filename}: " if error.filename else ""
            return Failure("io", f"{what}{error.strerror or error}", ExitCode.FAILED)
    return Failure("internal", f"{type(error).__name__}: {error} (a fault of eagle3-tui)", ExitCode.FAILED)
