"""The only place that appends to journals: batches lines, writes them in a thread, syncs them in another.

A line is handed over with `append` and is in the file (safe from a killed process) some hundred microseconds later, and
on the disk (safe from a power cut) after the next group commit. A full disk keeps the lines here: they are tried again
every second, nothing is dropped, and the run is told to pause meanwhile. So it is when the run folder was moved away.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Final

from contracts.journal.append import Journal, NoRoomError, Repair
from contracts.run_dir import HIDDEN_STATES
from contracts.run_place import RunAwayError

COMMIT_INTERVAL_S: Final = 0.1
BATCH_S: Final = 0.01
"""How long lines are collected before they are written: a thread woken for every line would cost more than its work."""
ROOM_RETRY_S: Final = 1.0
_LOG: Final = logging.getLogger(__name__)


class Writer:
    """Appends lines to journals from any thread; one instance owns all journals of a run.

    Args:
        on_written: Called in the writing thread after lines went into files, with their number.
        on_trouble: Called in one of the threads with a sentence when writing or syncing fails, and with None once both
            work again for all journals.
        open_journal: Replaced in tests that break the disk.
        on_doubt: Called in the syncing thread, once for each journal, with a sentence when a sync works again after the
            disk failed at it: Linux drops what it could not write, and the next sync knows nothing of it.
    """

    def __init__(
        self,
        on_written: Callable[[int], None],
        on_trouble: Callable[[str | None], None],
        open_journal: Callable[[Path], Journal] = Journal,
        *,
        on_doubt: Callable[[str], None] = lambda said: None,
    ) -> None:
        self._on_written = on_written
        self._on_trouble = on_trouble
        self._on_doubt = on_doubt
        self._open_journal = open_journal
        self._doubtful: dict[Path, str] = {}
        """Journals at which the disk failed, with its words; never taken back in this process."""
        self._doubts_told: set[Path] = set()
        self._journals: dict[Path, Journal] = {}
        self._pending: dict[Path, list[bytes]] = {}
        self._unwritten = 0
        self._dirty: set[Path] = set()
        self._troubles: dict[tuple[str, Path], str] = {}
        self._telling = threading.Lock()
        self._closing = False
        self._all_written = False
        self._wake = threading.Condition()
        self._synced = threading.Condition()
        self._threads = [
            threading.Thread(target=self._write_loop, name="journal-write", daemon=True),
            threading.Thread(target=self._sync_loop, name="journal-sync", daemon=True),
        ]

    def open(self, path: Path) -> Repair | None:
        """Open a journal before its first line, to repair what a crash left.

        Raises:
            OSError: It cannot be opened or repaired.
        """
        journal = self._journals[path] = self._open_journal(path)
        return journal.repair

    def start(self) -> None:
        """Start the threads."""
        for thread in self._threads:
            thread.start()

    def append(self, path: Path, line: bytes) -> None:
        """Hand over one whole line, newline included. Returns at once."""
        with self._wake:
            self._pending.setdefault(path, []).append(line)
            self._unwritten += 1
            if self._unwritten == 1:
                self._wake.notify()

    @property
    def unwritten(self) -> int:
        """Lines handed over that are not yet in their files."""
        return self._unwritten

    def close(self, timeout_s: float) -> int:
        """Write and sync what is left, then close the files.

        Returns:
            Lines that could not be written in time (their samples are sent again at the next start).
        """
        with self._wake:
            self._closing = True
            self._wake.notify_all()
        deadline = time.monotonic() + timeout_s
        for thread in self._threads:
            if thread.is_alive():
                thread.join(max(deadline - time.monotonic(), 0.0))
        if not any(thread.is_alive() for thread in self._threads):
            for journal in self._journals.values():
                journal.close()
        return self._unwritten

    def _write_loop(self) -> None:
        while True:
            with self._wake:
                while not self._pending and not self._closing:
                    self._wake.wait()
                if not self._pending:
                    break
            if not self._closing:
                time.sleep(BATCH_S)
            with self._wake:
                batch, self._pending = self._pending, {}
            self._write(batch)
        with self._synced:
            self._all_written = True
            self._synced.notify_all()

    def _write(self, batch: dict[Path, list[bytes]]) -> None:
        """Write a batch. Index records come last, and only when all else is written: the answer that a stored sample
        belongs to is in its file before, or after a kill the store would hold a sample of an answer that nobody has."""
        left = dict(batch)
        while left:
            is_last_try = self._closing
            for path, lines in sorted(left.items(), key=lambda each: each[0].name == HIDDEN_STATES):
                if path.name == HIDDEN_STATES and any(other.name != HIDDEN_STATES for other in left):
                    break
                try:
                    self._journal(path).append(b"".join(lines))
                except OSError as error:
                    self._report("write", path, _sentence(path, error))
                    continue
                self._report("write", path, None)
                del left[path]
                with self._synced:
                    self._dirty.add(path)
                with self._wake:
                    self._unwritten -= len(lines)
                self._on_written(len(lines))
            if left:
                if is_last_try:
                    return
                with self._wake:
                    if not self._closing:
                        self._wake.wait(ROOM_RETRY_S)
                    for path, lines in self._pending.items():
                        left.setdefault(path, []).extend(lines)
                    self._pending = {}

    def _journal(self, path: Path) -> Journal:
        journal = self._journals.get(path)
        if journal is None:
            journal = self._journals[path] = self._open_journal(path)
        return journal

    def _report(self, what: str, path: Path, trouble: str | None) -> None:
        """Note how one thing stands at one journal, and tell when the whole has changed by it."""
        key = (what, path)
        if self._troubles.get(key) == trouble:
            return
        with self._telling:
            if trouble is None:
                del self._troubles[key]
            else:
                if trouble not in self._troubles.values():  # a folder that is gone is that of all journals
                    _LOG.error("%s", trouble)
                self._troubles[key] = trouble
            self._on_trouble(next(iter(self._troubles.values()), None))

    def _sync_loop(self) -> None:
        failed: set[Path] = set()
        while True:
            with self._synced:
                self._synced.wait(ROOM_RETRY_S if failed else COMMIT_INTERVAL_S)
                ended = self._all_written
                dirty, self._dirty = self._dirty | failed, set()
            failed = {path for path in dirty if not self._sync(path)}
            if ended:
                break

    def _sync(self, path: Path) -> bool:
        try:
            self._journals[path].sync()
        except OSError as error:
            if not isinstance(error, NoRoomError):
                self._doubtful.setdefault(path, error.strerror or str(error))
            self._report("sync", path, _sentence(path, error))
            return False
        self._report("sync", path, None)
        if path in self._doubtful and path not in self._doubts_told:
            self._doubts_told.add(path)
            self._on_doubt(
                f"{path}: the disk failed ({self._doubtful[path]}) and works again; what was appended just before may "
                "not be on it: look at the disk, then restart the daemon, which reads the file anew"
            )
        return True


def _sentence(path: Path, error: OSError) -> str:
    if isinstance(error, NoRoomError):
        return f"{path}: the disk is full; make room, the run goes on by itself"
    if isinstance(error, RunAwayError):
        return str(error.strerror)
    return f"{path}: cannot be written: {error.strerror or error}"
