"""A tmux server of our own: the app in its panes, keys typed, the screen and the terminal's modes read."""

from __future__ import annotations

import os
import shlex
import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from tests.support.polling import wait_for
from tests.support.terminal import ROOT, environment

MODES = ("alternate_on", "mouse_any_flag", "cursor_flag", "keypad_cursor_flag")
AFTERWARDS = {"alternate_on": "0", "mouse_any_flag": "0", "cursor_flag": "1", "keypad_cursor_flag": "0"}
"""The modes of a pane in which no program has changed anything."""
WHY_NOT = None if shutil.which("tmux") else "tmux is not installed"
_CONFIGURATION = """\
set -g status off
set -g exit-empty off
set -g history-limit 200
set -s escape-time 0
set -g default-terminal screen-256color
"""
_ENDED = "[it ended with "


def tui(folder: Path, *words: str) -> list[str]:
    """The command that shows a run."""
    return [sys.executable, "-m", "eagle3_tui", "tui", str(folder), *words]


@dataclass
class Pane:
    """One pane with a program in it; what is left on the screen after the program can be read too."""

    tmux: Tmux
    name: str
    _pid: Path

    @property
    def pid(self) -> int:
        """Of the program."""
        return int(wait_for(lambda: self._pid.exists() and self._pid.read_text().strip()))

    def press(self, *keys: str) -> None:
        """Press keys, as tmux names them."""
        self.tmux.call("send-keys", "-t", self.name, *keys)

    def type(self, text: str) -> None:
        """Type a text."""
        self.tmux.call("send-keys", "-t", self.name, "-l", text)

    def text(self, *, colours: bool = False) -> str:
        """What is on the screen."""
        return self.tmux.call("capture-pane", "-p", *(["-e"] if colours else []), "-t", self.name)

    def until(self, *texts: str, without: Sequence[str] = (), seconds: float = 20.0) -> str:
        """Wait until all these texts are on the screen, and none of the others; return the screen."""

        def there() -> str:
            shown = self.text()
            right = all(text in shown for text in texts) and not any(text in shown for text in without)
            return shown if right else ""

        return wait_for(there, lambda: f"wanted {texts}, without {tuple(without)}, in:\n{self.text()}", seconds=seconds)

    def resize(self, columns: int, rows: int) -> None:
        """Change the size of the window."""
        self.tmux.call("resize-window", "-t", self.name, "-x", str(columns), "-y", str(rows))

    def modes(self) -> dict[str, str]:
        """The modes of the terminal that a program may change."""
        said = self.tmux.call("display-message", "-p", "-t", self.name, ",".join(f"#{{{mode}}}" for mode in MODES))
        return dict(zip(MODES, said.strip().split(","), strict=True))

    def kill(self, number: signal.Signals) -> None:
        """Send the program a signal."""
        os.kill(self.pid, number)

    def ended(self) -> int:
        """Wait for the program's end; return its exit code as a shell sees it."""
        shown = self.until(_ENDED)
        return int(shown.rpartition(_ENDED)[2].split()[0])


class Tmux:
    """A server on a socket of its own; no configuration of the person's is read."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        configuration = folder / "tmux.conf"
        configuration.write_text(_CONFIGURATION)
        self._command = ["tmux", "-u", "-S", str(folder / "socket"), "-f", str(configuration)]
        self._panes = 0
        self.call("start-server")

    def call(self, *words: str) -> str:
        """Run a command of tmux and return what it said."""
        done = subprocess.run(
            [*self._command, *words], env=environment(), cwd=ROOT, capture_output=True, text=True, check=False
        )
        assert done.returncode == 0, f"tmux {shlex.join(words)}: {done.stderr}"
        return done.stdout

    def attach_command(self, pane: Pane) -> list[str]:
        """The command that shows a pane in a terminal."""
        return [*self._command, "attach-session", "-t", pane.name]

    def open(
        self, command: Sequence[str], *, columns: int = 120, rows: int = 36, cwd: Path | None = None, **more: str
    ) -> Pane:
        """Run a program in a new window, with these environment variables too."""
        self._panes += 1
        name, pid = f"p{self._panes}", self.folder / f"pid{self._panes}"
        variables = shlex.join(f"{key}={value}" for key, value in more.items())
        inner = f"echo $$ > {shlex.quote(str(pid))}; exec env {variables} {shlex.join(command)}"
        outer = f"sh -c {shlex.quote(inner)}; echo '{_ENDED}'$? ; exec cat"
        size = ("-x", str(columns), "-y", str(rows))
        self.call("new-session", "-d", "-s", name, *size, "-c", str(cwd or self.folder), outer)
        return Pane(self, name, pid)

    def close(self) -> None:
        """End the server and with it every program in it."""
        self.call("kill-server")


@contextmanager
def a_tmux() -> Iterator[Tmux]:
    """A server in a folder with a short name: the path of a socket has room for 107 bytes only."""
    with tempfile.TemporaryDirectory(prefix="e3tmux-") as name:
        tmux = Tmux(Path(name))
        try:
            yield tmux
        finally:
            tmux.close()
