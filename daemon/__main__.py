"""What the commands of eagle3 call: ``python -m daemon VERB ...``; one module of `daemon.verbs` for each verb."""

from __future__ import annotations

import argparse
import importlib
import sys
from typing import Any, Final

VERBS: Final = {
    "run": "be the daemon of a run, in the foreground",
    "check": "print the findings on a run, as JSON",
    "record": "record a command for the next start; prints the reply, as JSON",
    "plugin-path": "print the folder to put on SGLang's PYTHONPATH",
    "server-args": "print how to launch SGLang for a run",
    "verify": "compare a run's store with its index and its responses; prints a report, as JSON",
    "show": "print the facts of one stored sample, as JSON",
    "export": "write a run's store in another layout",
}


def main(arguments: list[str] | None = None) -> int:
    """Do what the arguments say and return the exit code."""
    given = sys.argv[1:] if arguments is None else arguments
    parser = argparse.ArgumentParser(prog="python -m daemon", description=__doc__)
    verbs = parser.add_subparsers(dest="verb", required=True)
    for name, summary in VERBS.items():
        verb = verbs.add_parser(name, help=summary)
        if name in given[:1]:
            _module(name).add_arguments(verb)
    chosen = parser.parse_args(given)
    return int(_module(chosen.verb).run(chosen))


def _module(name: str) -> Any:
    return importlib.import_module(f"daemon.verbs.{name.replace('-', '_')}")


if __name__ == "__main__":
    sys.exit(main())
