"""`python -m daemon.embedded`: prints `ready http://HOST:PORT` when it serves, and drains on SIGTERM."""

from __future__ import annotations

import asyncio
import os
import signal
import sys
from pathlib import Path

import uvloop

from daemon.embedded.arguments import build_parser, options_from
from daemon.embedded.backends import DumpFolderError
from daemon.embedded.options import Options
from daemon.embedded.server import EmbeddedServer


def main() -> int:
    """Run until a signal; 0 after a drain, 1 when it can't start, 130 after a second signal."""
    parser = build_parser()
    try:
        options = options_from(parser.parse_args())
    except ValueError as error:
        parser.error(str(error))
    try:
        uvloop.run(_serve(options))
    except OSError as error:
        print(f"embedded server: cannot listen on {options.host}:{options.port}: {error.strerror}", file=sys.stderr)
        return 1
    except DumpFolderError as error:
        print(f"embedded server: {error}", file=sys.stderr)
        return 1
    return 0


async def _serve(options: Options) -> None:
    stop = asyncio.Event()
    loop = asyncio.get_running_loop()

    def on_signal() -> None:
        if stop.is_set():
            os._exit(130)
        stop.set()

    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, on_signal)
    async with EmbeddedServer(options, on_death=os._exit) as server:
        if options.port_file is not None:
            write_port(options.port_file, server.port)
        print(f"ready {server.url}", flush=True)
        await stop.wait()
        await server.drain()


def write_port(path: Path, port: int) -> None:
    """Write the port so that a reader sees all of it or nothing."""
    partial = path.with_name(f".{path.name}.{os.getpid()}")
    partial.write_text(f"{port}\n")
    partial.replace(path)


if __name__ == "__main__":
    sys.exit(main())
