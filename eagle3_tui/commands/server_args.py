"""`eagle3 server-args`: how to launch SGLang for a run, with the plugin that dumps hidden states."""

from __future__ import annotations

import argparse
import sys

from contracts.exit_codes import ExitCode
from eagle3_tui.arguments import add_run, describe, natural, run_dir
from eagle3_tui.commands.daemon_verb import text_of
from eagle3_tui.processes import program


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add what `server-args` takes."""
    add_run(parser)
    parser.add_argument("--model", help="folder or name of the model (default: [extract] model)")
    parser.add_argument("--architecture", help="as in its config.json; needed where the model is no local folder")
    parser.add_argument("--port", type=natural, help="default: that of the first server in run.toml")
    parser.add_argument("--json", action="store_true", help="environment, command and notes as one object")
    describe(
        parser,
        "eagle3 server-args my_run --model models/Qwen3-8B",
        (ExitCode.OK, ExitCode.FAILED, ExitCode.USAGE, ExitCode.NOT_A_RUN),
        "Print the complete launch command of SGLang for the run's layers, layout and dump folder: environment,\n"
        "flags, and what they turn off and why. Layers are named in run.toml by 0-based output ids; here they become\n"
        "the ids that SGLang takes for this architecture.",
    )


def run(arguments: argparse.Namespace) -> int:
    """Print it."""
    options: list[str] = ["--json"] if arguments.json else []
    for name in ("model", "architecture", "port"):
        value = getattr(arguments, name)
        if value is not None:
            options.append(f"--{name}={value}")
    command = program("daemon", "server-args", run_dir(arguments.run).path, *options)
    sys.stdout.write(text_of(command, "no launch command was printed"))
    return ExitCode.OK
