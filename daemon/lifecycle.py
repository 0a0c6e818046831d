"""From the process's start to its exit code: lock, log, socket, signals, and one `Session` in between."""

from __future__ import annotations

import asyncio
import logging
import logging.handlers
import signal
import sys
import threading
from collections.abc import Callable, Coroutine
from pathlib import Path
from typing import Any, Final

import uvloop

from contracts.exit_codes import ExitCode
from contracts.fold.run import RunFold
from contracts.run_config import ConfigError, load_run_config
from contracts.run_dir import RunDir
from daemon.control.handlers import Handlers
from daemon.control.socket import ControlServer
from daemon.control.socket_file import SocketTrouble
from daemon.fingerprint import FingerprintError, check_fingerprint, store_difference
from daemon.session import Session
from daemon.single import AlreadyRunning, LockTrouble, SingleInstance
from daemon.store.layout import StoreError

LOG_BYTES: Final = 8_000_000
LOG_KEPT: Final = 3
_LOG: Final = logging.getLogger("eagle3")


def run_daemon(path: Path) -> ExitCode:
    """Be the daemon of a run until its work is done or it is told to end.

    Every reason not to start is one sentence on stderr.

    Returns:
        OK when all work is done, STOPPED when some is left, USAGE or FAILED when it could not start.
    """
    run = RunDir(path)
    instance = SingleInstance(run)
    try:
        config = load_run_config(run.config)
        notes = instance.acquire()
    except ConfigError as error:
        return _refuse(str(error), ExitCode.USAGE)
    except (AlreadyRunning, LockTrouble) as error:
        return _refuse(str(error), ExitCode.FAILED)
    try:
        _open_log(run.log)
        fold = RunFold(path)
        fold.poll()
        has_responses = any(dataset.responses.done for dataset in fold.datasets.values())
        fingerprint, note = check_fingerprint(run.fingerprint, config, has_responses)
        notes += [] if note is None else [note]
        difference = store_difference(fold, config)
        if difference is not None:
            raise FingerprintError(difference)
        if has_responses and run.events.exists() and run.events.stat().st_size == 0:
            notes.append(
                f"{run.events}: is empty; targets and concurrency that people set are forgotten: set them again"
            )
        return _loop(_serve(run, lambda: Session(run, config, fold, fingerprint, notes)))
    except (FingerprintError, ConfigError) as error:
        return _refuse(str(error), ExitCode.USAGE)
    except (SocketTrouble, StoreError) as error:
        return _refuse(str(error), ExitCode.FAILED)
    except OSError as error:
        _LOG.info("ended by", exc_info=error)
        return _refuse(f"{error.filename or path}: {error.strerror or error}", ExitCode.FAILED)
    except Exception:
        _LOG.exception("the daemon broke")
        raise
    finally:
        for note in instance.release():
            _LOG.warning("%s", note)


async def _serve(run: RunDir, make_session: Callable[[], Session]) -> bool:
    """Open the socket, work, close the socket; return whether work is left."""
    session = make_session()
    _on_signals(session)
    control = ControlServer(run.socket, Handlers(session))
    await control.start()
    try:
        return await session.run()
    finally:
        for sentence in session.unusable:
            print(sentence, file=sys.stderr)
        if session.lost:
            why = session.condition.disk_trouble
            because = "" if why is None else f" ({why})"
            _say(f"{run.path}: {session.lost} records could not be written{because}; samples among them are sent again")
        await control.close()


def _on_signals(session: Session) -> None:
    """TERM or INT: drain; the second one: stop. HUP is ignored: the terminal may go, the daemon stays."""
    loop = asyncio.get_running_loop()

    def end() -> None:
        if session.condition.draining:
            session.stop()
        else:
            session.drain()

    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, end)
    loop.add_signal_handler(signal.SIGHUP, lambda: None)


def _loop(work: Coroutine[Any, Any, bool]) -> ExitCode:
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        return ExitCode.STOPPED if runner.run(work) else ExitCode.OK


def _open_log(path: Path) -> None:
    handler = logging.handlers.RotatingFileHandler(
        path, maxBytes=LOG_BYTES, backupCount=LOG_KEPT, encoding="utf-8", errors="backslashreplace"
    )
    handler.setFormatter(logging.Formatter("%(asctime)s %(levelname)s %(name)s: %(message)s"))
    root = logging.getLogger()
    root.addHandler(handler)
    root.setLevel(logging.INFO)
    logging.raiseExceptions = False  # a full disk must not turn each log line into a traceback on stderr
    threading.excepthook = _log_thread


def _log_thread(broken: threading.ExceptHookArgs) -> None:
    """A detached daemon has no stderr that anybody reads."""
    if broken.exc_value is not None:
        name = broken.thread.name if broken.thread is not None else "unknown"
        _LOG.error("the thread %s broke", name, exc_info=broken.exc_value)


def _refuse(sentence: str, code: ExitCode) -> ExitCode:
    _say(sentence)
    return code


def _say(sentence: str) -> None:
    print(sentence, file=sys.stderr)
    _LOG.error("%s", sentence)
