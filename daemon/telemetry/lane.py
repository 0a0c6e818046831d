"""One blocking call at a time, in a thread that can be left behind."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Generic, TypeVar

_Result = TypeVar("_Result")


class Lane(Generic[_Result]):
    """Runs a job that may hang, with at most one call open. Owned by one thread.

    Each call has a daemon thread of its own. Unlike the threads of an executor, which Python joins at exit even after
    ``shutdown(wait=False)``, a hung one delays nothing: neither other lanes nor the end of the process. A job that
    raises ends its thread, with its traceback in the log through `threading.excepthook`; the next `start` is as any.
    """

    def __init__(self, name: str, job: Callable[[float], _Result]) -> None:
        """Start nothing yet.

        Args:
            name: For the thread's name.
            job: Called with the time that `start` was given.
        """
        self.name = name
        self._job = job
        self._thread: threading.Thread | None = None
        self._started_at = 0.0
        self._result: _Result | None = None

    def start(self, at: float) -> bool:
        """Begin a call; False when the last one is still open, or the system has no thread to give."""
        if self._is_open():
            return False
        thread = threading.Thread(target=self._run, args=(at,), name=f"telemetry-{self.name}", daemon=True)
        try:
            thread.start()
        except RuntimeError:  # the limit on processes: next time, perhaps
            return False
        self._thread, self._started_at = thread, at
        return True

    def wait(self, timeout_s: float) -> bool:
        """Wait for the open call, if any; False when it is still open after ``timeout_s`` seconds."""
        if self._thread is not None:
            self._thread.join(timeout_s)
        return not self._is_open()

    def take(self) -> _Result | None:
        """Return what the last call came to, once; None when a call is open, raised, or was taken before."""
        if self._is_open():
            return None
        result, self._result = self._result, None
        return result

    def open_since(self) -> float | None:
        """Return the time that the open call was started with; None when none is open."""
        return self._started_at if self._is_open() else None

    def _is_open(self) -> bool:
        return self._thread is not None and self._thread.is_alive()

    def _run(self, at: float) -> None:
        self._result = self._job(at)
