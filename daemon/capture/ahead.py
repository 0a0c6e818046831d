"""Rows read and examined in a thread of their own while those before them are hashed and written.

Reading and looking take about as long as hashing and writing, and all four let other threads run: with a second core a
sample is stored in little more than half the time.
"""

from __future__ import annotations

import queue
import threading
from collections.abc import Iterator
from types import TracebackType
from typing import Final, Self

from daemon.capture.checks import CheckedRows
from daemon.capture.dump import Dump
from daemon.store.blocks import BlockPool
from daemon.store.sample import BLOCK_BYTES

AHEAD_BLOCKS: Final = 2
"""Blocks that wait between the two. More would leave the processor's cache before they are written."""
WORTH_BYTES: Final = 8 * BLOCK_BYTES
"""Rows below it are read by whoever asks: a thread costs more than it saves."""


class RowsAhead:
    """Rows of a dump, examined and read ahead; a `daemon.store.sample.Rows` for one reader and one pass.

    A block is the reader's until it asks for the next. A context: when it has ended, nothing is read from the dump any
    more, so that it may be closed.

    Args:
        dump: The source.
        tokens: Rows of it that are wanted.
    """

    def __init__(self, dump: Dump, tokens: int) -> None:
        self._pool = BlockPool()
        self._rows = CheckedRows(dump, tokens, self._pool.take)
        self._worth_it = tokens * dump.header.row_bytes >= WORTH_BYTES
        self._read_blocks: queue.SimpleQueue[memoryview | BaseException | None] = queue.SimpleQueue()
        self._room: queue.SimpleQueue[bool] = queue.SimpleQueue()
        self._thread: threading.Thread | None = None

    @property
    def tokens(self) -> int:
        """How many rows there are."""
        return self._rows.tokens

    def blocks(self) -> Iterator[memoryview]:
        """Yield them, and raise what `CheckedRows.blocks` raises where it would."""
        for block in self._ahead() if self._start() else self._rows.blocks():
            yield block
            self._pool.give_back()
            self._room.put(True)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._thread is not None:
            self._room.put(False)
            self._thread.join()

    def _start(self) -> bool:
        """Begin to read ahead, where it pays and the system has a thread to give."""
        if not self._worth_it:
            return False
        thread = threading.Thread(target=self._read, name="rows-ahead", daemon=True)
        try:
            thread.start()
        except RuntimeError:
            return False
        self._thread = thread
        return True

    def _ahead(self) -> Iterator[memoryview]:
        while (found := self._read_blocks.get()) is not None:
            if isinstance(found, BaseException):
                raise found
            yield found

    def _read(self) -> None:
        last: BaseException | None = None
        for _ in range(AHEAD_BLOCKS):
            self._room.put(True)
        try:
            for block in self._rows.blocks():
                self._read_blocks.put(block)
                if not self._room.get():
                    return
        except BaseException as raised:  # noqa: BLE001 - handed to the reader, whatever it is
            last = raised
        self._read_blocks.put(last)
