"""A live run watched in a real tmux: attach and detach, two screens, a daemon that is killed and comes back."""

from __future__ import annotations

import re
from collections.abc import Iterator

import pexpect
import pyte
import pytest

from tests.support.polling import wait_for
from tests.support.terminal import environment
from tests.support.tmux import Pane, Tmux, tui
from tests.terminal.live import LiveRun, live_run


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LiveRun]:
    with live_run(tmp_path_factory.mktemp("run")) as run:
        yield run


@pytest.fixture(scope="module")
def pane(tmux: Tmux, run: LiveRun) -> Pane:
    pane = tmux.open(tui(run.path))
    pane.until("● running", "q leave")
    return pane


class Client:
    """A terminal that is attached to a pane."""

    def __init__(self, tmux: Tmux, pane: Pane, columns: int, rows: int) -> None:
        program, *words = tmux.attach_command(pane)
        self._child: pexpect.spawn[bytes] = pexpect.spawn(program, words, env=environment(), dimensions=(rows, columns))
        self.screen = pyte.Screen(columns, rows)
        self._stream = pyte.ByteStream(self.screen)

    def text(self) -> str:
        """What the terminal shows by now."""
        try:
            self._stream.feed(self._child.read_nonblocking(1 << 16, 0.05))
        except pexpect.TIMEOUT:
            pass
        return "\n".join(self.screen.display)

    def ended(self) -> bool:
        """Whether tmux has let go of the terminal."""
        try:
            self._child.read_nonblocking(1 << 16, 0.05)
        except pexpect.TIMEOUT:
            return False
        except pexpect.EOF:
            self._child.wait()
            return True
        return False


def done(text: str) -> int:
    """How many answers a screen counts; -1 where it does not say."""
    found = re.search(r"done +([\d,]+)", text)
    return int(found[1].replace(",", "")) if found else -1


def test_counts_rise_by_themselves_and_are_those_of_the_files(pane: Pane, run: LiveRun) -> None:
    first = done(pane.until("done"))
    assert first >= 0
    least = run.answers()
    wait_for(lambda: done(pane.text()) > max(first, least), pane.text)
    assert done(pane.text()) <= run.answers()


def test_detached_and_attached_again_it_is_up_to_date(tmux: Tmux, pane: Pane, run: LiveRun) -> None:
    seen = -1
    for columns, rows in ((100, 30), (80, 24)):
        client = Client(tmux, pane, columns, rows)
        wait_for(lambda client=client, seen=seen: done(client.text()) > seen, client.text)
        wait_for(lambda client=client: "q leave" in client.text().split("\n")[-1], client.text)
        assert "● running" in client.screen.display[0]
        seen = done(client.text())
        tmux.call("detach-client", "-s", pane.name)
        wait_for(client.ended)
        least = run.answers()
        wait_for(lambda least=least: done(pane.text()) >= least, pane.text)
    pane.resize(120, 36)


def test_two_screens_show_and_do_the_same(tmux: Tmux, pane: Pane, run: LiveRun) -> None:
    other = tmux.open(tui(run.path), columns=80, rows=24)
    other.until("● running", "q leave")
    other.press("p")
    for each in (other, pane):
        each.until("‖ paused", without=["● running"])
    pane.press("r")
    for each in (other, pane):
        each.until("● running", without=["‖ paused"])
    other.press("q")
    assert other.ended() == 0
    assert run.alive
    least = run.answers()
    wait_for(lambda: done(pane.text()) > least, pane.text)


def test_a_killed_daemon_is_told_and_one_that_is_back_too(pane: Pane, run: LiveRun) -> None:
    run.kill()
    pane.until("no daemon", without=["● running"])
    run.start()
    pane.until("● running", str(run.pid), without=["no daemon"])
    least = run.answers()
    wait_for(lambda: done(pane.text()) > least, pane.text)


def test_stop_asks_first_and_then_ends_the_daemon_but_not_the_screen(pane: Pane, run: LiveRun) -> None:
    pane.press("S")
    pane.until("Stop the daemon now?")
    assert run.alive
    pane.press("y")
    pane.until("no daemon", without=["Stop the daemon now?"])
    assert run.end() in (0, 3)
    pane.press("q")
    assert pane.ended() == 0
    assert "goes on" not in pane.text()
