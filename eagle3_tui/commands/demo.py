"""`eagle3 demo`: the whole job, small: an embedded server, three data sets, a daemon, the screen; and a recount."""

from __future__ import annotations

import argparse
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Final

from contracts.commands import Stop
from contracts.control_client import ControlError, DaemonNotRunning
from contracts.exit_codes import ExitCode
from contracts.monitor import Monitor
from contracts.run_dir import RunDir
from contracts.status import RunState, RunStatus
from eagle3_tui.arguments import describe
from eagle3_tui.commands.control import ask
from eagle3_tui.commands.daemon_verb import call
from eagle3_tui.commands.start import launch, wait_until_answers
from eagle3_tui.commands.status import print_table, status_json
from eagle3_tui.commands.verify import Report, report_lines
from eagle3_tui.demo.folder import Found, dumps, look_at, make, write_config
from eagle3_tui.demo.recount import differences
from eagle3_tui.failure import CommandFailed
from eagle3_tui.processes import end, environment, has_ended, program, wait_for_end
from eagle3_tui.status_table import summary_line
from eagle3_tui.terminal import detect, refusal
from eagle3_tui.text import visible

_SERVER: Final = (
    *("--port", "0", "--seed", "7", "--max-running-requests", "8", "--eos-bias", "1.3", "--enable-metrics"),
    # So that it lasts long enough for a speed and an ETA.
    *("--latency", "0.3", "--latency-spread", "0.6"),
    *("--dump-dtype", "bfloat16", "--dump-layers", "1", "3", "4"),
)
_SERVER_S: Final = 120.0
"""Longest wait for the embedded server: importing torch from a cold disk takes its time."""
_HEADLESS_S: Final = 600.0
_STOP_S: Final = 10.0
_LOOK_S: Final = 0.05
_LINE_S: Final = 1.0


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add what `demo` takes."""
    parser.add_argument(
        "--headless", action="store_true", help="no screen, a line a second (so too without a terminal)"
    )
    parser.add_argument("--dir", type=Path, default=Path("eagle3-demo"), metavar="DIR", help="where (./eagle3-demo)")
    parser.add_argument("--keep", action="store_true", help="keep a finished demo that is there; else it is made anew")
    describe(
        parser,
        "eagle3 demo --headless --dir /tmp/demo",
        (ExitCode.OK, ExitCode.FAILED, ExitCode.USAGE),
        "The whole job with a tiny model on this machine, no GPU needed: answers for two small data sets, hidden\n"
        "states of three. What was written is counted a second time, independently, and every stored sample verified.\n"
        "Exit 1 when a single count differs or a sample is not as it should be.",
    )


def run(arguments: argparse.Namespace) -> int:
    """Run the demo; whatever happens, the processes it started are ended."""
    path = arguments.dir
    found = look_at(path)
    streams = {"standard input": sys.stdin, "standard output": sys.stdout, "standard error": sys.stderr}
    headless = arguments.headless or refusal(streams) is not None
    if found is Found.FINISHED and arguments.keep:
        return _judge(RunDir(path), Monitor(path).refresh(), headless)
    print(f"{visible(path)}: {found.value}{', replaced' if found is Found.FINISHED else ''}", flush=True)
    run = RunDir(path) if found is Found.UNFINISHED else make(path)
    with _ended_by_signals(), ExitStack() as started:
        server = _start_server(run, started)
        daemon = _start_daemon(run, started)
        code = 0 if headless else _show(path)
        status = _watch(path, server, daemon) if headless else Monitor(path).refresh()
    if code:
        return code
    if status.state is not RunState.FINISHED:
        print(f"the demo was left with work to do; eagle3 demo --dir {visible(path)} takes it up again")
        return ExitCode.OK
    return _judge(run, status, headless)


@contextmanager
def _ended_by_signals() -> Iterator[None]:
    """Make TERM and HUP unwind like Ctrl-C does, so that what was started is ended."""

    def unwind(number: int, _frame: object) -> None:
        # A second one must not interrupt the clean-up, which takes seconds at most.
        for each in (signal.SIGTERM, signal.SIGHUP, signal.SIGINT):
            signal.signal(each, signal.SIG_IGN)
        raise SystemExit(128 + number)

    before = {number: signal.signal(number, unwind) for number in (signal.SIGTERM, signal.SIGHUP, signal.SIGINT)}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def _start_server(run: RunDir, started: ExitStack) -> subprocess.Popen[bytes]:
    port_file = run.path / "embedded.port"
    port_file.unlink(missing_ok=True)
    log = run.path / "embedded.log"
    print("starting the embedded server ...", flush=True)
    with log.open("ab") as output:
        server = subprocess.Popen(
            program("daemon.embedded", *_SERVER, "--port-file", port_file, "--dump-dir", dumps(run)),
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=output,
            env=environment(),
            process_group=0,
        )
    started.callback(end, server)
    deadline = time.monotonic() + _SERVER_S
    while not port_file.exists():
        if has_ended(server):
            raise CommandFailed(
                f"the embedded server ended at its start, see {log} (it needs: pip install 'eagle3-tui[torch]')"
            )
        if time.monotonic() > deadline:
            raise CommandFailed(f"the embedded server is not ready after {_SERVER_S:.0f} s, see {log}")
        time.sleep(_LOOK_S)
    write_config(run, f"http://127.0.0.1:{int(port_file.read_text())}")
    return server


def _start_daemon(run: RunDir, started: ExitStack) -> subprocess.Popen[bytes]:
    print("starting the daemon ...", flush=True)
    daemon, said_from = launch(run)
    started.callback(_stop_daemon, run, daemon)
    wait_until_answers(run, daemon, said_from)
    return daemon


def _stop_daemon(run: RunDir, daemon: subprocess.Popen[bytes]) -> None:
    if not has_ended(daemon):
        try:
            ask(run, Stop(), _STOP_S)
        except DaemonNotRunning:
            pass  # its work is done and it is about to end
        except (ControlError, CommandFailed) as error:
            print(f"eagle3: {visible(error)}", file=sys.stderr)
        wait_for_end(daemon, _STOP_S)
    end(daemon)


def _show(path: Path) -> int:
    from eagle3_tui.app import run_app

    return run_app(path, farewell=False)  # the demo ends its daemon itself


def _watch(path: Path, server: subprocess.Popen[bytes], daemon: subprocess.Popen[bytes]) -> RunStatus:
    """Print a line a second until the run is finished, and return its last status."""
    monitor = Monitor(path)
    deadline = time.monotonic() + _HEADLESS_S
    while True:
        # Before the files are read: what a daemon wrote before its end is then in them.
        gone = has_ended(daemon)
        status = monitor.refresh()
        print(summary_line(status), flush=True)
        if status.state is RunState.FINISHED:
            return status
        if gone:
            raise CommandFailed(f"the daemon ended with work left, see {path / 'daemon.log'}")
        if has_ended(server):
            raise CommandFailed(f"the embedded server ended, see {path / 'embedded.log'}")
        if time.monotonic() > deadline:
            raise CommandFailed(f"not finished after {_HEADLESS_S:.0f} s, see {path / 'daemon.log'}")
        time.sleep(_LINE_S)


def _judge(run: RunDir, status: RunStatus, headless: bool) -> int:
    """Print the final status, and whether a count of the files by other means agrees."""
    if headless:
        print(status_json(status).decode())
    else:
        print_table(status)
    try:
        wrong = differences(status, run.prepared)
    except (ValueError, KeyError) as error:
        raise CommandFailed(f"the files cannot be recounted: {error}") from error
    if wrong:
        raise CommandFailed("recount: " + "; ".join(wrong))
    print(f"recounted: every count agrees with the files in {visible(run.prepared)}", file=sys.stderr)
    return _verify(run)


def _verify(run: RunDir) -> int:
    """Have every stored sample read again, as `eagle3 verify` does, and say what comes of it."""
    report, printed = call(program("daemon", "verify", run.path, "--json"), Report)
    for line in report_lines(report, detect(encoding="utf-8").signs):
        print(line, file=sys.stderr)
    return printed.code
