"""`eagle3 schema`: JSON Schema of every record, message and wire type."""

from __future__ import annotations

import argparse
import json

from contracts.exit_codes import ExitCode
from eagle3_tui.arguments import describe
from eagle3_tui.contracts_page import TYPES, page, schema


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add what `schema` takes."""
    parser.add_argument("name", nargs="?", choices=tuple(TYPES), metavar="NAME", help=f"one of: {', '.join(TYPES)}")
    parser.add_argument("--markdown", action="store_true", help="all of them as the page docs/contracts.md")
    describe(
        parser, "eagle3 schema response", (ExitCode.OK, ExitCode.USAGE), "Without NAME: all, as one object by name."
    )


def run(arguments: argparse.Namespace) -> int:
    """Print one schema, all, or the page."""
    if arguments.markdown:
        print(page(), end="")
        return ExitCode.OK
    wanted = schema(arguments.name) if arguments.name else {name: schema(name) for name in TYPES}
    print(json.dumps(wanted, indent=2, ensure_ascii=False))
    return ExitCode.OK
