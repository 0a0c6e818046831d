"""Text to the clipboard of the terminal at the other end: OSC 52, and in tmux its own buffer."""

from __future__ import annotations

import base64
import os
import shutil
import subprocess
from collections.abc import Mapping
from typing import Final

from eagle3_tui.text import encodable, visible

MOST_BYTES: Final = 64 * 1024
"""Terminals refuse much longer sequences without a word."""
_TMUX_S: Final = 2.0


def clean(text: str) -> str:
    """Return text that may be pasted anywhere: nothing in it but printable characters and line breaks, cut to fit."""
    shown = "\n".join(visible(line) for line in encodable(text).split("\n"))
    return shown.encode()[:MOST_BYTES].decode("utf-8", "ignore")


def sequence(text: str, environ: Mapping[str, str] = os.environ) -> str:
    """Return what sets the terminal's clipboard; below tmux also as a sequence that tmux hands through."""
    plain = f"\x1b]52;c;{base64.b64encode(text.encode()).decode()}\x07"
    if not (environ.get("TMUX") or environ.get("TERM", "").startswith("tmux")):
        return plain
    return plain + "\x1bPtmux;" + plain.replace("\x1b", "\x1b\x1b") + "\x1b\\"


def to_tmux(text: str, environ: Mapping[str, str] = os.environ) -> bool:
    """Put text into tmux's buffer, from where it also sets the terminal's clipboard; False: there is no tmux for it.

    By default tmux drops both sequences of programs in it (``set-clipboard external``, ``allow-passthrough off``);
    this way works whatever is set.
    """
    tmux = shutil.which("tmux") if environ.get("TMUX") else None
    if tmux is None:
        return False
    for options in (["-w"], []):  # before tmux 3.2 there was no -w
        try:
            done = subprocess.run(
                [tmux, "load-buffer", *options, "-"],
                input=text.encode(),
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
                timeout=_TMUX_S,
                check=False,
            )
        except (OSError, subprocess.TimeoutExpired):
            return False
        if done.returncode == 0:
            return True
    return False
