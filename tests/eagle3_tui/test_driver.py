"""Input is waited for, and nothing of it is lost by that."""

from __future__ import annotations

import os
import threading
from collections.abc import Iterator
from pathlib import Path
from queue import SimpleQueue

import pytest
from textual.events import Key
from textual.message import Message

from eagle3_tui.app import Eagle3App, run_app
from eagle3_tui.driver import PatientDriver, _WakingEvent
from tests.support.records import make_run

WAIT_S = 20.0


class Listening(PatientDriver):
    """Its input thread alone, on a pipe."""

    def __init__(self, fileno: int) -> None:
        self.fileno = fileno
        self._debug = False
        self._told_to_end = _WakingEvent()
        self.exit_event = self._told_to_end
        self.got: SimpleQueue[Message] = SimpleQueue()
        self.thread = threading.Thread(target=self.run_input_thread, daemon=True)

    def process_message(self, message: Message) -> None:
        self.got.put(message)

    def key(self) -> str:
        message = self.got.get(timeout=WAIT_S)
        assert isinstance(message, Key)
        return message.key


@pytest.fixture
def keyboard() -> Iterator[tuple[Listening, int]]:
    reading, writing = os.pipe()
    driver = Listening(reading)
    driver.thread.start()
    yield driver, writing
    driver.exit_event.set()
    driver.thread.join(WAIT_S)
    assert not driver.thread.is_alive()


def test_keys_come_one_by_one_and_in_pieces(keyboard: tuple[Listening, int]) -> None:
    driver, typed = keyboard
    os.write(typed, b"a")
    assert driver.key() == "a"
    os.write(typed, "é".encode()[:1])
    os.write(typed, "é".encode()[1:] + b"\x1b[")
    os.write(typed, b"Az")
    assert [driver.key() for _ in range(3)] == ["é", "up", "z"]


def test_escape_alone_is_a_key_though_nothing_follows(keyboard: tuple[Listening, int]) -> None:
    driver, typed = keyboard
    for _ in range(2):
        os.write(typed, b"\x1b")
        assert driver.key() == "escape"


def test_it_ends_while_nobody_types_and_begins_again() -> None:
    reading, _typed = os.pipe()
    driver = Listening(reading)
    for _ in range(2):
        thread = threading.Thread(target=driver.run_input_thread, daemon=True)
        thread.start()
        driver.exit_event.set()
        thread.join(WAIT_S)
        assert not thread.is_alive()
        driver.exit_event.clear()


def test_it_ends_after_the_input_has(keyboard: tuple[Listening, int]) -> None:
    driver, typed = keyboard
    os.write(typed, b"q")
    os.close(typed)
    assert driver.key() == "q"


def test_however_the_app_ends_its_input_does_too(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A terminal that closes can take with it what Textual does at the end."""
    driver = Listening(os.pipe()[0])

    def run(app: Eagle3App, **_: object) -> None:
        app._driver = driver
        driver.thread.start()
        raise OSError("the terminal is gone")

    monkeypatch.setattr("eagle3_tui.app.refusal", lambda _: None)
    monkeypatch.setattr(Eagle3App, "run", run)
    with pytest.raises(OSError, match="is gone"):
        run_app(make_run(tmp_path / "run").path)
    driver.thread.join(WAIT_S)
    assert not driver.thread.is_alive()
