"""The fold over a whole folder: every data set, the events, the newest telemetry."""

from __future__ import annotations

from pathlib import Path

from contracts.fold.checkpoint import Snapshot, load_checkpoint
from contracts.fold.dataset import DatasetFold
from contracts.fold.events import EventFold
from contracts.fold.telemetry import TelemetryFold
from contracts.journal.extent import Extent, whole
from contracts.journal.tail import Tail
from contracts.rates import MedianSpeed
from contracts.run_config import RunConfig, load_run_config
from contracts.run_dir import RunDir


class NotARunError(Exception):
    """A folder without run.toml that holds nothing which could be watched either."""


class RunFold:
    """Everything the journals of one folder say. `poll` brings it up to date.

    Args:
        path: A run directory, or a folder of other tools (see `RunDir.datasets_on_disk`).
        extent: How much of each journal counts. Where that is not all, the checkpoint is of no use: it is of the
            present.

    Raises:
        NotARunError: Neither of the two.
        ConfigError: There is a run.toml and it cannot be used.
    """

    def __init__(self, path: Path, extent: Extent = whole) -> None:
        self.run = RunDir(path)
        self.extent = extent
        self.config: RunConfig | None = load_run_config(self.run.config) if self.run.is_run else None
        self.datasets: dict[str, DatasetFold] = {}
        self.events = EventFold()
        self.telemetry = TelemetryFold(self.run, extent)
        self.notes: list[str] = []
        """What happened to the files, and to the checkpoint; taken by whoever shows it."""
        self.median_speed = MedianSpeed()
        """Of the responses of all data sets."""
        self._events_tail = Tail(self.run.events, extent=extent)
        self._discover()
        if self.config is None and not self.datasets:
            raise NotARunError(
                self.run.no_folder
                or f"{path}: is not a run: no run.toml, and no <dataset>/raw_responses.jsonl or prompts.jsonl in it or "
                f"in its prepared/ folder. Make a run with: eagle3 init {self.run.quoted}"
            )
        if extent is whole:
            self.notes += load_checkpoint(self.run.checkpoint, list(self.datasets.values()))

    def _discover(self) -> None:
        """Find data sets: those of run.toml, in its order; in a foreign folder, those on the disk."""
        if self.config is not None:
            found = [self.run.dataset(dataset.name) for dataset in self.config.datasets]
        else:
            found = self.run.datasets_on_disk()
        for folder in found:
            if folder.name not in self.datasets:
                self.datasets[folder.name] = DatasetFold(folder, self.extent)

    def poll(self, most_bytes: int | None = None) -> bool:
        """Read everything that is new; return whether there was anything.

        Args:
            most_bytes: Read about so much of each file; the next call goes on.

        Raises:
            OSError: A journal is there and cannot be read.
        """
        if self.config is None:
            self._discover()
        changed = [dataset.poll(most_bytes) for dataset in self.datasets.values()]
        changed += [self._events_tail.poll(self.events), self.telemetry.poll()]
        for dataset in self.datasets.values():
            self.notes += dataset.take_notes()
        self.notes += [f"events: {note}" for note in self.events.notes]
        self.events.notes.clear()
        return any(changed)

    def snapshot(self) -> Snapshot:
        """Return what takes and writes a copy (to `RunDir.checkpoint`) while the fold goes on."""
        return Snapshot(list(self.datasets.values()))

    def save_checkpoint(self) -> None:
        """Save the fold beside the journals.

        Raises:
            OSError: The file cannot be written.
        """
        snapshot = self.snapshot()
        for _ in snapshot.take():
            pass
        snapshot.write(self.run.checkpoint)

    def target_of(self, name: str) -> int | None:
        """Return a data set's token target: set by a person, else from run.toml; None: none."""
        return self.events.targets[name] if name in self.events.targets else self.configured_target(name)

    def configured_target(self, name: str) -> int | None:
        """Return a data set's token target as run.toml says; None: none."""
        if self.config is None:
            return None
        for dataset in self.config.datasets:
            if dataset.name == name:
                return self.config.target_of(dataset)
        return None

    @property
    def concurrency(self) -> int | None:
        """The concurrency that holds: set by a person, else from run.toml."""
        if self.events.concurrency is not None:
            return self.events.concurrency
        return None if self.config is None else self.config.generate.concurrency
