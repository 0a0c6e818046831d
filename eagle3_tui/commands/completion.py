"""`eagle3 completion`: a script that makes a shell complete commands, options and run directories."""

from __future__ import annotations

import argparse

from contracts.exit_codes import ExitCode
from eagle3_tui.arguments import describe
from eagle3_tui.commands import COMMANDS

SHELLS = ("bash", "zsh", "tcsh")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add what `completion` takes."""
    parser.add_argument("shell", choices=SHELLS, help="bash, zsh or tcsh")
    describe(
        parser,
        "eagle3 completion bash > ~/.local/share/bash-completion/completions/eagle3",
        (ExitCode.OK, ExitCode.USAGE),
    )


def run(arguments: argparse.Namespace) -> int:
    """Print the script."""
    import shtab

    from eagle3_tui.__main__ import build_parser

    parser = build_parser(*COMMANDS)
    for action in _actions(parser):
        if action.dest in ("run", "dir"):
            action.complete = shtab.DIRECTORY  # type: ignore[attr-defined]
    print(shtab.complete(parser, arguments.shell))
    return ExitCode.OK


def _actions(parser: argparse.ArgumentParser) -> list[argparse.Action]:
    found = []
    for action in parser._actions:
        found.append(action)
        if isinstance(action, argparse._SubParsersAction):
            found += [inner for sub in action.choices.values() for inner in _actions(sub)]
    return found
