"""Case 47: text that steers a terminal, wherever a run's files can hold text; none of it reaches the terminal.

Every byte that the terminal was sent is looked at: it is printable, or of a sequence that the screen itself needs.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.terminal import Terminal
from tests.support.wide_run import wide_run

CASE = Path(__file__).parents[1] / "fixtures" / "cases" / "47-escapes.jsonl"
TEXTS = tuple(json.loads(line)["text"] for line in CASE.read_text(encoding="utf-8").splitlines())

_OURS = re.compile(
    rb"\x1b\[[0-9;]*m"  # colours
    rb"|\x1b\[\d+;\d+H|\x1b\[H"  # where to write
    rb"|\x1b\[\?(?:7|25|1000|1003|1004|1006|1015|1049|2004|2026|2048)[hl]"  # modes, set at the start and at the end
    rb"|\x1b\[\?(?:2026|2048)\$p|\x1b\[>\d+u|\x1b\[<u|\x1b\[c|\x1bP\+q[0-9a-f;]*\x1b\\"  # questions to the terminal
    rb"|\x1b\]22;default\x07"  # the mouse pointer's shape
    rb"|\x1b\[(?:\?1049|>4;\d)?[hlm]|[\r\n]"
)
"""Nothing that writes to the clipboard, sets a title, clears the screen or rings."""
_FAILURES = (
    ("", "q leave"), ("f", "esc back"), ("\r", "esc back"), ("\r", "esc back"), ("\x1b", "esc back"),
    ("\x1b", "esc back"), ("\x1b", "q leave"),
)  # fmt: skip
"""From the main screen to failures, an attempt, its sample, and back."""
_KEYS = (
    *_FAILURES, ("e", "following"), ("l", "daemon.log"), ("\x1b", "q leave"), ("v", "esc back"), ("\x1b", "q leave"),
    ("\r", "esc back"), ("\x1b", "q leave"), ("?", "any key closes this"), (" ", "q leave"),
    (":", "words of a command"), ("\x1b", "q leave"),
)  # fmt: skip
"""Then events, log, servers, a data set, help, palette."""


@pytest.fixture
def terminal(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Terminal]:
    terminal = Terminal(wide_run(tmp_path / "hostile", TEXTS), rows=36, columns=120, LC_ALL=request.param)
    yield terminal
    terminal.child.close(force=True)


@pytest.mark.parametrize(
    ("terminal", "keys"), [("C.UTF-8", _KEYS), ("C", _FAILURES)], indirect=["terminal"], ids=["unicode", "ascii"]
)
def test_no_byte_of_it_is_obeyed(terminal: Terminal, keys: tuple[tuple[str, str], ...]) -> None:
    for key, then in keys:
        terminal.settle()
        terminal.child.send(key)
        terminal.until(then)
    terminal.settle()
    terminal.child.send("q")
    assert terminal.ended() == 0
    terminal.assert_restored()
    rest = _OURS.sub(b"", terminal.sent)
    assert not re.findall(rb".{0,20}[\x00-\x1f\x7f].{0,20}", rest)
    assert not re.findall("[\x80-\x9f]", rest.decode("utf-8"))
    assert "^[" in rest.decode("utf-8")


def test_the_files_keep_the_text(tmp_path: Path) -> None:
    run = wide_run(tmp_path / "hostile", TEXTS)
    lines = (run / "events.jsonl").read_text(encoding="utf-8").splitlines()
    assert [json.loads(line)["message"] for line in lines] == list(TEXTS)
