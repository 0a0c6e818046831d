"""``make bench [ONLY=reading]``: run the benchmarks and print their tables."""

from __future__ import annotations

import importlib
import os
import platform
import sys

NAMES = (
    "reading", "driver", "latency", "status", "moves", "capture", "writer",
    "plugin_cost", "states_as_json", "eta", "tui",
)  # fmt: skip


def main() -> None:
    chosen = sys.argv[1:] or NAMES
    print(f"Python {platform.python_version()}, {os.cpu_count()} cores, load {os.getloadavg()[0]:.1f}")
    for name in chosen:
        module = importlib.import_module(f"tests.benchmarks.{name}")
        print(f"\n## {name}\n{(module.__doc__ or '').splitlines()[0]}\n", flush=True)
        print(module.report(), flush=True)


if __name__ == "__main__":
    main()
