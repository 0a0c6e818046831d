"""How things look: the terminal's signs, and styles in its own sixteen colours, or exact ones where they are wanted.

A colour never says anything alone: state and severity have a word and a sign besides.
"""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import Final

from rich.style import Style

from contracts.records import Severity
from contracts.status import DatasetStage, RunState
from eagle3_tui.terminal import Capabilities, Signs

MOVING = (RunState.RUNNING, RunState.DRAINING)
"""States in which a time of arrival means something."""


@dataclass(eq=False)
class Look:
    """Signs and styles; without colour every style differs by weight or reversal alone.

    Every part of the screen holds the same one: `become` changes them all.
    """

    signs: Signs
    unicode: bool
    plain: Style
    dim: Style
    bold: Style
    good: Style
    active: Style
    warn: Style
    bad: Style
    warn_badge: Style
    bad_badge: Style
    heading: Style

    def become(self, other: Look) -> None:
        """Take the signs and styles of another look."""
        for field in fields(self):
            setattr(self, field.name, getattr(other, field.name))

    def severity(self, severity: Severity) -> tuple[str, Style]:
        """Return the sign and style of an alert or event."""
        return {
            Severity.INFO: (self.signs.info, self.dim),
            Severity.WARNING: (self.signs.warning, self.warn),
            Severity.CRITICAL: (self.signs.critical, self.bad),
        }[severity]

    def state(self, state: RunState) -> tuple[str, Style]:
        """Return the sign and style of a run's state."""
        signs = self.signs
        return {
            RunState.RUNNING: (signs.running, self.good),
            RunState.PAUSED: (signs.paused, self.warn_badge),
            RunState.DRAINING: (signs.draining, self.warn_badge),
            RunState.STOPPED: (signs.stopped, self.warn_badge),
            RunState.FINISHED: (signs.finished, self.good),
            RunState.STALLED: (signs.stalled, self.bad_badge),
            RunState.WATCHING: (signs.watching, self.active),
        }[state]

    def progress(self, state: RunState) -> Style:
        """Return the style of the overall bar."""
        if state is RunState.STALLED:
            return self.bad
        return self.warn if state in (RunState.PAUSED, RunState.STOPPED) else self.good

    def stage(self, stage: DatasetStage | None) -> tuple[str, str, Style]:
        """Return the sign, the word and the style of a data set's stage; unknown is ``-``."""
        signs = self.signs
        if stage is None:
            return " ", "-", self.dim
        return {
            DatasetStage.PRETOKENIZED: (signs.nothing, "pre-tok", self.dim),
            DatasetStage.WAITING: (signs.waiting, "waiting", self.plain),
            DatasetStage.RUNNING: (signs.running, "running", self.active),
            DatasetStage.EXTRACTING: (signs.extracting, "extract", self.active),
            DatasetStage.FINISHED: (signs.finished, "finished", self.good),
            DatasetStage.HALTED: (signs.critical, "HALTED", self.bad),
            DatasetStage.WATCHING: (signs.watching, "watching", self.plain),
        }[stage]


@dataclass(frozen=True)
class _Palette:
    """Colours on the terminal's own background."""

    good: str
    active: str
    warn: str
    bad: str
    warn_badge: tuple[str, str]
    """Text and background."""
    bad_badge: tuple[str, str]


_DARK: Final = _Palette("green", "cyan", "yellow", "red", ("black", "yellow"), ("bright_white", "red"))
# Yellow and cyan can hardly be read on white.
_LIGHT: Final = _Palette("green", "blue", "magenta", "red", ("black", "yellow"), ("bright_white", "red"))
# Told apart with any kind of colour blindness (Okabe and Ito), darker on white.
_DARK_EXACT: Final = _Palette(
    "#3fb68b", "#56b4e9", "#e69f00", "#ff6e4a", ("#000000", "#e69f00"), ("#ffffff", "#c0392b")
)
_LIGHT_EXACT: Final = _Palette(
    "#006b4f", "#0055a0", "#8a5a00", "#b3261e", ("#000000", "#e69f00"), ("#ffffff", "#b3261e")
)


def look_for(capabilities: Capabilities) -> Look:
    """Return the look for a terminal."""
    if capabilities.color:
        if capabilities.exact:
            palette = _LIGHT_EXACT if capabilities.light else _DARK_EXACT
        else:
            palette = _LIGHT if capabilities.light else _DARK
        good, active = Style(color=palette.good, bold=True), Style(color=palette.active)
        warn, bad = Style(color=palette.warn, bold=True), Style(color=palette.bad, bold=True)
        warn_badge = Style(color=palette.warn_badge[0], bgcolor=palette.warn_badge[1])
        bad_badge = Style(color=palette.bad_badge[0], bgcolor=palette.bad_badge[1], bold=True)
    else:
        good, active = Style(bold=True), Style()
        warn, bad = Style(bold=True), Style(bold=True, underline=True)
        warn_badge, bad_badge = Style(reverse=True), Style(reverse=True, bold=True)
    return Look(
        signs=capabilities.signs,
        unicode=capabilities.unicode,
        plain=Style(),
        dim=Style(dim=True),
        bold=Style(bold=True),
        good=good,
        active=active,
        warn=warn,
        bad=bad,
        warn_badge=warn_badge,
        bad_badge=bad_badge,
        heading=Style(underline=True, dim=True),
    )
