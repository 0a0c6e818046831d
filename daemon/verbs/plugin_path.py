"""Print the folder that makes SGLang find the plugin."""

from __future__ import annotations

import argparse

from contracts.exit_codes import ExitCode
from daemon.server_args import plugin_folder


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add nothing: it takes none."""


def run(arguments: argparse.Namespace) -> int:
    """Print it."""
    print(plugin_folder())
    return ExitCode.OK
