"""Which servers may take part in a run, and what is said when one comes or goes."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from contracts.records import Severity
from contracts.run_config import RunConfig
from daemon.events import EventLog
from daemon.fingerprint import Fingerprint, check_model
from daemon.preparation import limits_of
from daemon.prompts.index import PromptIndex, PromptLimits
from daemon.servers.probe import OK, STARTING, UNREADY, Probe
from daemon.servers.slot import ServerSlot

_RESTART: Final = "end the daemon and start it again, then the prompts are checked for this server too"


@dataclass(frozen=True)
class Needs:
    """What the prompts of a run ask of a server."""

    limits: PromptLimits
    """What they were checked against."""
    longest_prompt: int
    longest_whole: int
    """Prompt and the longest answer that it may have."""


def needs_of(indexes: Iterable[PromptIndex], limits: PromptLimits) -> Needs:
    """Return what prompts ask of a server."""
    entries = [entry for index in indexes for entry in index.entries if not entry.pretokenized]
    whole = (entry.n_tokens + (entry.max_new_tokens or limits.max_new_tokens) for entry in entries)
    return Needs(limits, max((entry.n_tokens for entry in entries), default=0), max(whole, default=0))


class ServerRules:
    """Judges servers beyond the agreed shape of their answers: the run's model, and room for its prompts.

    Args:
        config: The run's configuration.
        fingerprint: What the run's data depends on.
        path: Its file.
        events: Takes what a person should read.
    """

    def __init__(self, config: RunConfig, fingerprint: Fingerprint, path: Path, events: EventLog) -> None:
        self._config = config
        self._fingerprint = fingerprint
        self._path = path
        self._events = events
        self.needs: Needs | None = None
        """None before the prompts were checked."""

    def objection(self, probe: Probe) -> str | None:
        """Return why a server that speaks as agreed is not to be used all the same, or None."""
        try:
            return self._too_small(probe) or check_model(self._fingerprint, self._path, probe.model)
        except OSError as error:
            return f"{self._path}: the model cannot be noted: {error.strerror or error}"

    def _too_small(self, probe: Probe) -> str | None:
        if self.needs is None:
            return None
        needs, own = self.needs, limits_of(self._config, [probe])
        known = needs.limits.vocab_size
        if own.vocab_size is not None and (known is None or own.vocab_size < known):
            checked = "no vocabulary" if known is None else f"one of {known}"
            return f"has a vocabulary of {own.vocab_size}, the prompts were checked against {checked}: {_RESTART}"
        if own.max_input_len is not None and own.max_input_len <= needs.longest_prompt:
            return (
                f"takes prompts below {own.max_input_len} tokens, the run has one of {needs.longest_prompt}: {_RESTART}"
            )
        if own.context_length is not None and own.context_length < needs.longest_whole:
            return (
                f"has room for {own.context_length} tokens of prompt and answer, the run needs {needs.longest_whole}: "
                f"{_RESTART}"
            )
        return None

    def changed(self, slot: ServerSlot, before: str) -> None:
        """Say what became of a server."""
        data = {"server": slot.url}
        if slot.state == OK and slot.probe is not None:
            said = (
                f"{slot.url} is {'back' if slot.life else 'ready'}: SGLang {slot.probe.version or '(version unknown)'}"
            )
            self._events.emit(
                Severity.INFO,
                "server.up",
                f"{said}, {slot.probe.model or '(model unknown)'}",
                data={**data, "arguments": slot.probe.arguments},
            )
            for note in slot.probe.notes:
                self._events.emit(Severity.WARNING, "server.note", note, data=data)
            return
        waiting = slot.state in (STARTING, UNREADY) and before != OK
        severity = Severity.INFO if waiting else Severity.CRITICAL
        words = "is not ready" if slot.state == UNREADY else f"is {slot.state}"
        self._events.emit(severity, f"server.{slot.state}", f"{slot.url} {words}: {slot.reason}", data=data)
