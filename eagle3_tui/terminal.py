"""What this terminal can do: whether the app may start here, which signs it can show, whether colour is wanted."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Final, Protocol, TextIO

TOO_SMALL: Final = (40, 12)
"""Below this many columns or lines only a short form is shown."""
DEFAULT_SIZE: Final = (80, 24)
"""What a terminal that reports no size (0x0) is taken for."""


_LIGHT_BACKGROUNDS: Final = ("7", "9", "10", "11", "12", "13", "14", "15")
"""Of the sixteen colours; white and the bright ones."""


@dataclass(frozen=True)
class Signs:
    """The characters drawn besides data. None is an emoji, none has a width that terminals disagree on."""

    blocks: str
    """A cell filled from the left by eighths: first the emptiest part, last the whole cell."""
    levels: str
    """A cell filled from below, from nearly empty to full."""
    empty: str
    """A cell of a bar that is not filled."""
    lost: str
    """A cell of a bar that never will be."""
    rule: str
    ellipsis: str
    degree: str
    running: str
    paused: str
    draining: str
    stopped: str
    finished: str
    stalled: str
    watching: str
    waiting: str
    extracting: str
    nothing: str
    good: str
    warning: str
    critical: str
    info: str
    more: str
    """There is more above or below."""


UNICODE_SIGNS: Final = Signs(
    blocks="▏▎▍▌▋▊▉█",
    levels="▁▂▃▄▅▆▇█",
    empty="░",
    lost="╳",
    rule="─",
    ellipsis="…",
    degree="°",
    running="●",
    paused="‖",
    draining="▼",
    stopped="■",
    finished="✓",
    stalled="▲",
    watching="○",
    waiting="·",
    extracting="◆",
    nothing="◇",
    good="✓",
    warning="▲",
    critical="✗",
    info="·",
    more="↕",
)
ASCII_SIGNS: Final = Signs(
    blocks="#",
    levels="0123456789",
    empty=".",
    lost="x",
    rule="-",
    ellipsis="~",
    degree="",
    running="*",
    paused="=",
    draining="v",
    stopped="#",
    finished="+",
    stalled="!",
    watching="o",
    waiting=".",
    extracting="%",
    nothing="_",
    good="+",
    warning="!",
    critical="X",
    info=".",
    more="^",
)


@dataclass(frozen=True)
class Capabilities:
    """What may be sent to this terminal."""

    unicode: bool = True
    color: bool = True
    light: bool = False
    """Its background is light."""
    exact: bool = False
    """Colours of our own (24 bits) instead of the terminal's sixteen."""

    @property
    def signs(self) -> Signs:
        """The signs that can be shown."""
        return UNICODE_SIGNS if self.unicode else ASCII_SIGNS


THEMES: Final = ("auto", "dark", "light", "dark-exact", "light-exact")
"""What ``--theme`` takes: the background, and whether our own colours are used instead of the terminal's sixteen."""


class _Stream(Protocol):
    def isatty(self) -> bool: ...


def detect(environ: Mapping[str, str] = os.environ, encoding: str | None = None) -> Capabilities:
    """Tell from the environment what the terminal can show.

    Args:
        environ: The environment. The locale's variables count, not what Python made of them: it turns the C locale into
            UTF-8 for itself, which says nothing about the terminal. NO_COLOR, if not empty, asks for no colour.
            COLORFGBG, which some terminals set, names the colours of text and background: ``0;15`` is light.
        encoding: Of the stream that is drawn on; None: that of standard error, where Textual draws.
    """
    locale = next((environ[name] for name in ("LC_ALL", "LC_CTYPE", "LANG") if environ.get(name)), "")
    if encoding is None:
        encoding = getattr(sys.__stderr__, "encoding", None) or ""
    return Capabilities(
        unicode=_is_utf8(locale) and _is_utf8(encoding),
        color=not environ.get("NO_COLOR"),
        light=environ.get("COLORFGBG", "").rpartition(";")[2] in _LIGHT_BACKGROUNDS,
    )


def with_theme(capabilities: Capabilities, theme: str) -> Capabilities:
    """Return what the terminal can show with the colours that one of `THEMES` asks for."""
    background, _, exact = theme.partition("-")
    light = capabilities.light if background == "auto" else background == "light"
    return replace(capabilities, light=light, exact=bool(exact))


def refusal(streams: Mapping[str, _Stream | None], environ: Mapping[str, str] = os.environ) -> str | None:
    """Return why the app can't start here and what to do instead, or None.

    Args:
        streams: What reads keys and what is drawn on, by name: each must be a terminal.
        environ: The environment, for TERM.
    """
    for name, stream in streams.items():
        if stream is None or not stream.isatty():
            return f"{name} is not a terminal, so there is no screen to draw on; use: eagle3 status"
    if environ.get("TERM", "") in ("dumb", "unknown", ""):
        term = environ.get("TERM") or "not set"
        return f"TERM is {term}: this terminal can't move its cursor; set TERM (xterm-256color) or use: eagle3 status"
    return None


def drop_output_to_nowhere(streams: Iterable[TextIO]) -> None:
    """Turn streams whose terminal is gone to the null device.

    After a hang-up what is still buffered can't be written, and Python would end with exit code 120 for it instead of
    the one that says which signal it was.
    """
    for stream in streams:
        try:
            stream.flush()
        except OSError:
            null = os.open(os.devnull, os.O_WRONLY)
            os.dup2(null, stream.fileno())
            os.close(null)


def _is_utf8(name: str) -> bool:
    return "utf8" in name.lower().replace("-", "").replace("_", "")
