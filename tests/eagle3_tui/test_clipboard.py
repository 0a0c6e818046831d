from __future__ import annotations

import base64
import stat
from pathlib import Path

import pytest

from eagle3_tui.clipboard import MOST_BYTES, clean, sequence, to_tmux

PLAIN = "\x1b]52;c;" + base64.b64encode("é漢".encode()).decode() + "\x07"


def test_nothing_that_a_shell_or_terminal_would_obey_is_copied() -> None:
    assert clean("a\x1b]0;title\x07\r\nb\t\ud800\u202e") == "a^[]0;title^G^M\nb^I\ufffd<202e>"


def test_too_much_is_cut_between_characters() -> None:
    text = clean("漢" * MOST_BYTES)
    assert len(text.encode()) <= MOST_BYTES
    assert set(text) == {"漢"}


def test_the_sequence_and_the_one_that_tmux_hands_through() -> None:
    assert sequence("é漢", {"TERM": "xterm-256color"}) == PLAIN
    passed = PLAIN + "\x1bPtmux;\x1b" + PLAIN + "\x1b\\"
    assert sequence("é漢", {"TERM": "screen", "TMUX": "/tmp/x,1,0"}) == passed
    assert sequence("é漢", {"TERM": "tmux-256color"}) == passed


@pytest.fixture
def fake_tmux(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A tmux that is too old for `load-buffer -w` and keeps what it is given."""
    program = tmp_path / "tmux"
    kept = tmp_path / "kept"
    program.write_text(f'#!/bin/sh\ncase "$*" in *-w*) exit 1;; esac\ncat > "{kept}"\n')
    program.chmod(program.stat().st_mode | stat.S_IXUSR)
    monkeypatch.setenv("PATH", str(tmp_path), prepend=":")
    return kept


def test_tmux_gets_it_in_its_own_buffer(fake_tmux: Path) -> None:
    assert to_tmux("é漢\n", {"TMUX": "/tmp/x,1,0"})
    assert fake_tmux.read_text() == "é漢\n"


def test_without_tmux_the_terminal_is_asked(fake_tmux: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert not to_tmux("x", {})
    assert not fake_tmux.exists()
    monkeypatch.setenv("PATH", "")
    assert not to_tmux("x", {"TMUX": "/tmp/x,1,0"})
