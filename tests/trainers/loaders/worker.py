"""Runs inside .venv-trainers: `python worker.py MODULE ...` answers requests with one trainer's own code.

A request is a JSON line ``{"do": action, ...}`` on standard input, the answer a JSON line: ``{"ok": ...}`` or
``{"error": "KeyError: ..."}`` with what the trainer's code raised. One process serves many requests, since importing a
trainer takes seconds.
"""

from __future__ import annotations

import importlib
import json
import os
import sys
import warnings


def main() -> None:
    """Answer until standard input ends."""
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)  # what a trainer prints must not get between the answers
    actions = {}
    for name in sys.argv[1:]:
        actions.update(importlib.import_module(name).ACTIONS)
    for line in sys.stdin:
        request = json.loads(line)
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            try:
                answer = {"ok": actions[request.pop("do")](**request)}
            # Whatever a trainer raises is the answer.
            except Exception as error:
                answer = {"error": f"{type(error).__name__}: {error}"}
        answer["warnings"] = [str(one.message) for one in caught]
        answers.write(json.dumps(answer) + "\n")
        answers.flush()


if __name__ == "__main__":
    main()
