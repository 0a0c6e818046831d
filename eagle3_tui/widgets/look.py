"""How things look: the terminal's signs, and styles in its own sixteen colours, which suit dark and light alike."""

from __future__ import annotations

from dataclasses import dataclass

from rich.style import Style

from contracts.records import Severity
from contracts.status import DatasetStage, RunState
from eagle3_tui.terminal import Capabilities, Signs

MOVING = (RunState.RUNNING, RunState.DRAINING)
"""States in which a time of arrival means something."""


@dataclass(frozen=True)
class Look:
    """Signs and styles; without colour every style differs by weight or reversal alone."""

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


def look_for(capabilities: Capabilities) -> Look:
    """Return the look for a terminal."""
    if capabilities.color:
        good, active = Style(color="green", bold=True), Style(color="cyan")
        warn, bad = Style(color="yellow", bold=True), Style(color="red", bold=True)
        warn_badge = Style(color="black", bgcolor="yellow")
        bad_badge = Style(color="bright_white", bgcolor="red", bold=True)
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
