"""Print how to launch SGLang for a run."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

import msgspec

from contracts.exit_codes import ExitCode
from contracts.run_config import ConfigError, load_run_config
from contracts.run_dir import RunDir
from daemon.server_args import ServerArgsError, server_args


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add what it takes."""
    parser.add_argument("run", type=Path)
    parser.add_argument("--model")
    parser.add_argument("--port", type=int)
    parser.add_argument("--architecture")
    parser.add_argument("--json", action="store_true", help="as one object")


def run(arguments: argparse.Namespace) -> int:
    """Print it, the command first, so that it can be copied; notes are shell comments."""
    try:
        made = server_args(
            load_run_config(RunDir(arguments.run).config),
            arguments.model,
            port=arguments.port,
            architecture=arguments.architecture,
        )
    except (ConfigError, ServerArgsError) as error:
        print(error, file=sys.stderr)
        return ExitCode.USAGE
    if arguments.json:
        sys.stdout.buffer.write(msgspec.json.encode(made) + b"\n")
        return ExitCode.OK
    print(made.shell())
    print("\n# Turned off:")
    for each in made.turned_off:
        print(f"# - {each.what}: {each.why}")
    print("# Notes:")
    for note in made.notes:
        print(f"# - {note}")
    return ExitCode.OK
