"""The app in a real pseudo-terminal: what it leaves behind however it ends, and where it refuses to start."""

from __future__ import annotations

import json
import os
import signal
import stat
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pexpect
import pytest

from tests.support.terminal import START, Terminal, environment


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A folder of other tools, with one data set."""
    dataset = tmp_path / "prepared" / "B1_codé"
    dataset.mkdir(parents=True)
    lines = [
        {
            "sample_id": n,
            "prompt_tokens": 3,
            "completion_tokens": 5,
            "finish_reason": "stop",
            "output_ids": [1, 2, 3, 4, 5],
        }
        for n in range(20)
    ]
    (dataset / "raw_responses.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    return tmp_path


@pytest.fixture
def terminal(folder: Path) -> Iterator[Terminal]:
    terminal = Terminal(folder)
    yield terminal
    terminal.child.close(force=True)


@pytest.mark.parametrize(("number", "code"), [(signal.SIGTERM, 143), (signal.SIGHUP, 129), (signal.SIGINT, 130)])
def test_a_signal_restores_the_terminal(terminal: Terminal, number: signal.Signals, code: int) -> None:
    terminal.until("B1_cod", "watching")
    terminal.child.kill(number)
    assert terminal.ended() == code
    terminal.assert_restored()


def test_q_leaves_at_once(terminal: Terminal) -> None:
    terminal.until("B1_cod", "q leave")
    assert "20" in "\n".join(terminal.screen.display)
    terminal.child.send("q")
    assert terminal.ended() == 0
    terminal.assert_restored()


def test_a_record_shows_up_by_itself(terminal: Terminal, folder: Path) -> None:
    terminal.until("done 20")
    line = {
        "sample_id": "new",
        "prompt_tokens": 3,
        "completion_tokens": 5,
        "finish_reason": "stop",
        "output_ids": [1] * 5,
    }
    with (folder / "prepared" / "B1_codé" / "raw_responses.jsonl").open("a") as out:
        out.write(json.dumps(line) + "\n")
    terminal.until("done 21", seconds=10)


def test_a_closed_terminal_ends_the_app(folder: Path) -> None:
    terminal = Terminal(folder)
    terminal.until("watching")
    pid = terminal.child.pid
    process = terminal.child.ptyproc
    process.fileobj.close()
    process.closed = process.terminated = terminal.child.closed = terminal.child.terminated = True
    end = time.monotonic() + 20
    while (done := os.waitpid(pid, os.WNOHANG))[0] == 0:
        assert time.monotonic() < end, "it goes on without a terminal"
        time.sleep(0.02)
    assert os.waitstatus_to_exitcode(done[1]) in (129, -signal.SIGHUP)


def test_no_size_is_taken_as_80x24(folder: Path) -> None:
    terminal = Terminal(folder, rows=0, columns=0)
    try:
        terminal.until("watching", "q leave")
        terminal.child.setwinsize(5, 20)
        terminal.until("needs 40x12")
        terminal.child.setwinsize(24, 80)
        terminal.until("q leave")
        terminal.child.send("q")
        assert terminal.ended() == 0
    finally:
        terminal.child.close(force=True)


def test_an_ascii_locale_gets_ascii(folder: Path) -> None:
    terminal = Terminal(folder, LANG="", LC_ALL="C", PYTHONUTF8="0")
    try:
        terminal.until("B1_cod", "o watching")
        terminal.child.send("q")
        assert terminal.ended() == 0
        assert terminal.sent.isascii()
    finally:
        terminal.child.close(force=True)


def test_a_dumb_terminal_is_refused_politely(folder: Path) -> None:
    terminal = Terminal(folder, TERM="dumb")
    assert terminal.ended() == 2
    assert b"TERM is dumb" in terminal.sent
    assert b"\x1b" not in terminal.sent


def test_without_a_terminal_nothing_is_drawn(folder: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-c", START, str(folder)],
        env=environment(), stdin=subprocess.DEVNULL, capture_output=True, timeout=30, check=False,
    )  # fmt: skip
    assert done.returncode == 2
    assert done.stdout == b""
    assert b"is not a terminal" in done.stderr
    assert b"\x1b" not in done.stderr


@pytest.mark.parametrize("broken", ["state as s; s.Feed.view", "state as s; s._read"])
def test_a_crash_is_told_in_a_sentence_with_the_place_of_its_traceback(
    folder: Path, tmp_path_factory: pytest.TempPathFactory, broken: str
) -> None:
    crash = START.replace("sys.exit", f"import eagle3_tui.feed.{broken} = lambda self: 1 / 0; sys.exit")
    temporary = tmp_path_factory.mktemp("temporary")
    child = pexpect.spawn(
        sys.executable,
        ["-c", crash, str(folder)],
        env=environment(TMPDIR=str(temporary)),
        dimensions=(24, 80),
        timeout=20,
    )
    output = child.read()
    child.wait()
    assert child.exitstatus == 1
    said = output[output.rfind(b"\x1b[?1049l") :].decode()
    assert output.rfind(b"\x1b[?1049h") < output.rfind(b"\x1b[?1049l")
    assert "ZeroDivisionError: division by zero" in said
    [trace] = temporary.glob("eagle3-tui-*.traceback.txt")
    assert str(trace) in said
    assert "Traceback" not in said
    assert "Traceback (most recent call last)" in trace.read_text()
    assert stat.S_IMODE(trace.stat().st_mode) == 0o600


def test_the_mouse_is_given_and_taken_at_run_time(terminal: Terminal) -> None:
    terminal.until("B1_cod", "q leave")
    terminal.child.send("m")
    terminal.until("the mouse is the terminal's")
    assert terminal.sent.rfind(b"\x1b[?1003h") < terminal.sent.rfind(b"\x1b[?1003l")
    terminal.child.send("m")
    terminal.until("used here again")
    assert terminal.sent.rfind(b"\x1b[?1003h") > terminal.sent.rfind(b"\x1b[?1003l")
    terminal.child.send("q")
    assert terminal.ended() == 0
    terminal.assert_restored()


def test_nothing_is_sent_while_nothing_changes(terminal: Terminal) -> None:
    terminal.until("done 20", "q leave")
    while (before := len(terminal.sent)) != (terminal.read(0.5), len(terminal.sent))[1]:
        pass  # what was still on its way
    for _ in range(4):
        terminal.read(0.5)
    assert len(terminal.sent) == before
