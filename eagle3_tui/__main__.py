"""The command `eagle3`: finds the subcommand, runs it, tells what went wrong."""

from __future__ import annotations

import argparse
import importlib
import io
import os
import signal
import sys
from collections.abc import Sequence
from types import ModuleType, TracebackType
from typing import Any

from eagle3_tui.arguments import Parser
from eagle3_tui.commands import COMMANDS, MODULES
from eagle3_tui.failure import Failure, UsageError, expected_errors, failure_of
from eagle3_tui.text import visible


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command.

    Args:
        argv: Arguments without the program's name; None: those of the process.

    Returns:
        The exit code (`contracts.exit_codes`); 130 after Ctrl-C, 141 when the reader of the output went away.
    """
    if argv is None:
        _restart_in_utf8()
        _prepare_streams()
        argv = sys.argv[1:]
        if "--json" in argv:
            sys.excepthook = _tell_fault_as_json
    try:
        code = _run(list(argv))
        sys.stdout.flush()
    except KeyboardInterrupt:
        return 128 + signal.SIGINT
    except BrokenPipeError:
        return _reader_gone()
    except expected_errors() as error:
        return _tell(failure_of(error), "--json" in argv)
    return code


def build_parser(*names: str) -> argparse.ArgumentParser:
    """Return the parser, with the arguments of the named commands; of the others only name and help."""
    parser = Parser(
        prog="eagle3", description="Produce EAGLE-3 training data with SGLang, and see whether all is well."
    )
    parser.add_argument("--version", action=_Version, nargs=0, help="print the version")
    subparsers = parser.add_subparsers(dest="command", metavar="COMMAND", title="commands")
    for name, summary in COMMANDS.items():
        subparser = subparsers.add_parser(name, help=summary, description=f"{summary[0].upper()}{summary[1:]}.")
        if name in names:
            _module(name).add_arguments(subparser)
    return parser


class _Version(argparse.Action):
    """As argparse's own, but the version is looked up only when it is asked for."""

    def __call__(self, parser: argparse.ArgumentParser, *_: Any) -> None:
        from contracts.version import version

        print(f"eagle3 {version()}")
        parser.exit()


def _run(argv: list[str]) -> int:
    if argv[:1] == ["embedded"]:
        # Its arguments are those of the server, its help as well.
        return int(_module("embedded").run(argv[1:]))
    arguments = build_parser(*argv[:1]).parse_args(argv)
    if arguments.command is None:
        raise UsageError("no command given (see: eagle3 --help)")
    return int(_module(arguments.command).run(arguments))


def _module(name: str) -> ModuleType:
    return importlib.import_module(f"eagle3_tui.commands.{MODULES.get(name, name)}")


def _restart_in_utf8() -> None:
    """Begin again in UTF-8 mode where file names would be ASCII (LC_ALL=C with PYTHONUTF8=0): ours need not be."""
    if sys.flags.utf8_mode or sys.getfilesystemencoding().lower() in ("utf-8", "utf8"):
        return
    os.execv(sys.executable, [sys.executable, "-X", "utf8", *sys.orig_argv[1:]])


def _prepare_streams() -> None:
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(encoding="utf-8", errors="backslashreplace")


def _tell(failure: Failure, wants_json: bool) -> int:
    if wants_json:
        try:
            sys.stdout.write(failure.json().decode() + "\n")
            sys.stdout.flush()
        except BrokenPipeError:
            return _reader_gone()
    print(f"eagle3: {visible(failure.message)}", file=sys.stderr)
    return int(failure.exit_code)


def _tell_fault_as_json(kind: type[BaseException], error: BaseException, trace: TracebackType | None) -> None:
    """Whatever fails, standard output holds JSON; Python exits with 1 after this."""
    sys.stdout.write(failure_of(error).json().decode() + "\n")
    sys.stdout.flush()
    sys.__excepthook__(kind, error, trace)


def _reader_gone() -> int:
    # What Python would still flush at its end must not raise once more.
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    return 128 + signal.SIGPIPE


if __name__ == "__main__":
    sys.exit(main())
