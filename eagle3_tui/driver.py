"""Textual's driver, but its input thread sleeps while nobody types: Textual's own looks ten times a second."""

from __future__ import annotations

import os
import select
from codecs import getincrementaldecoder
from contextlib import suppress
from threading import Event
from typing import Any, Final

from textual._parser import ParseError
from textual._xterm_parser import XTermParser
from textual.drivers.linux_driver import LinuxDriver

_TURN_S: Final = 0.1
"""After so long a sequence of keys that has not gone on is taken for what there is of it."""
_TURNS: Final = 3
"""So many without input: nothing begun is waited for any more."""


class _WakingEvent(Event):
    """Set, it makes a file readable too: a thread can wait for it and for input at once."""

    def __init__(self) -> None:
        super().__init__()
        self.readable, self._writable = os.pipe2(os.O_CLOEXEC | os.O_NONBLOCK)

    def set(self) -> None:
        """Wake who waits."""
        super().set()
        os.write(self._writable, b"x")

    def clear(self) -> None:
        """Let others wait again."""
        super().clear()
        with suppress(BlockingIOError):
            os.read(self.readable, 1 << 10)


class PatientDriver(LinuxDriver):
    """Waits for input as long as it takes."""

    def __init__(self, *arguments: Any, **more: Any) -> None:
        super().__init__(*arguments, **more)
        self._told_to_end = _WakingEvent()
        self.exit_event = self._told_to_end

    def release(self) -> None:
        """Let the input thread end, however the app did: it would wait for keys, and keep the process, for ever."""
        self._told_to_end.set()

    def run_input_thread(self) -> None:
        """Read keys, mouse and answers of the terminal, and hand them on; see `LinuxDriver.run_input_thread`."""
        parser = XTermParser(self._debug)
        decode = getincrementaldecoder("utf-8")().decode
        sources = [self.fileno, self._told_to_end.readable]
        quiet, last = 0, False
        while not last:
            last = self.exit_event.is_set()
            if last:
                sources = [self.fileno]  # what the terminal still answers is not for the shell
            ready, _, _ = select.select(sources, [], [], None if quiet >= _TURNS and not last else _TURN_S)
            quiet += 1
            if self.fileno in ready:
                quiet = 0
                data = os.read(self.fileno, 1 << 12)
                if not data:
                    sources = [self._told_to_end.readable]  # the input has ended
                text = decode(data)
                for event in parser.feed(text) if text else ():
                    self.process_message(event)
            for event in parser.tick():
                self.process_message(event)
        with suppress(EOFError, ParseError):  # it ended in the middle of a sequence
            for _ in parser.feed(""):
                pass
