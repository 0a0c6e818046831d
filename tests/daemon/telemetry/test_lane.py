"""One call at a time, each in a thread that nobody has to wait for."""

from __future__ import annotations

import subprocess
import sys
import threading
from collections.abc import Iterator

import pytest

from daemon.telemetry.lane import Lane


def test_a_result_is_taken_once() -> None:
    lane = Lane("x", lambda at: at * 2)
    assert lane.take() is None
    assert lane.wait(0.0)
    assert lane.start(21.0)
    assert lane.wait(5.0)
    assert (lane.take(), lane.take()) == (42.0, None)


def test_at_most_one_call_is_open() -> None:
    go, calls = threading.Event(), []

    def hang(at: float) -> str:
        calls.append(at)
        go.wait(10)
        return f"done {at:g}"

    lane = Lane("x", hang)
    before = threading.active_count()
    assert lane.start(1.0)
    for _ in range(100):
        assert lane.start(2.0) is False
    assert threading.active_count() == before + 1
    assert lane.wait(0.0) is False
    assert (lane.open_since(), lane.take()) == (1.0, None)
    go.set()
    assert lane.wait(5.0)
    assert (lane.open_since(), lane.take(), calls) == (None, "done 1", [1.0])
    assert lane.start(3.0)
    assert lane.wait(5.0)


@pytest.mark.filterwarnings("ignore::pytest.PytestUnhandledThreadExceptionWarning")
def test_a_job_that_raises_gives_no_result_and_can_be_started_again() -> None:
    results: Iterator[int | Exception] = iter([1, ValueError("a bug"), 3])

    def job(at: float) -> int:
        result = next(results)
        if isinstance(result, Exception):
            raise result
        return result

    lane, taken = Lane("x", job), []
    for _ in range(3):
        assert lane.start(0.0)
        assert lane.wait(5.0)
        taken.append(lane.take())
    assert taken == [1, None, 3]


def test_no_thread_to_be_had(monkeypatch: pytest.MonkeyPatch) -> None:
    def limit(self: threading.Thread) -> None:
        raise RuntimeError("can't start new thread")

    lane = Lane("x", lambda at: at)
    with monkeypatch.context() as patched:
        patched.setattr(threading.Thread, "start", limit)
        assert lane.start(1.0) is False
    assert (lane.open_since(), lane.wait(0.0)) == (None, True)
    assert lane.start(2.0)
    assert lane.wait(5.0)


def test_a_hanging_call_does_not_hold_up_the_end_of_the_process() -> None:
    program = (
        "import threading; from daemon.telemetry.lane import Lane\n"
        "lane = Lane('nvml', lambda at: threading.Event().wait()); lane.start(0.0); print('end')"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=30, check=False)
    assert (done.returncode, done.stdout, done.stderr) == (0, "end\n", "")
