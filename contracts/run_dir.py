"""Where everything in a run directory is, and the rules for its socket's name."""

from __future__ import annotations

import hashlib
import os
import shlex
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import Final

SOCKET_PATH_LIMIT: Final = 107
"""Longest path of a Unix socket address on Linux, in bytes."""

RESPONSES: Final = "raw_responses.jsonl"
PROMPTS: Final = "prompts.jsonl"
FAILURES: Final = "failures.jsonl"
HIDDEN_STATES: Final = "hidden_states.jsonl"


@dataclass(frozen=True)
class DatasetDir:
    """One ``prepared/<dataset>`` folder."""

    path: Path

    @property
    def name(self) -> str:
        """The data set's name."""
        return self.path.name

    @property
    def prompts(self) -> Path:
        """``prompts.jsonl``."""
        return self.path / PROMPTS

    @property
    def responses(self) -> Path:
        """``raw_responses.jsonl``."""
        return self.path / RESPONSES

    @property
    def failures(self) -> Path:
        """``failures.jsonl``."""
        return self.path / FAILURES

    @property
    def hidden_states(self) -> Path:
        """``hidden_states.jsonl``: the index of the store."""
        return self.path / HIDDEN_STATES

    @property
    def import_record(self) -> Path:
        """``import.json``: which file ``prompts.jsonl`` was made from."""
        return self.path / "import.json"


@dataclass(frozen=True)
class RunDir:
    """A run directory. Nothing here touches the disk but `datasets_on_disk` and `is_run`."""

    path: Path

    @property
    def quoted(self) -> str:
        """The folder as a command that somebody is advised to type names it."""
        return shlex.quote(str(self.path))

    @property
    def no_folder(self) -> str | None:
        """Why there is no folder to look into, and what to do; None: there is one."""
        if self.path.is_dir():
            return None
        if not self.path.is_file():
            return f"{self.path}: no such folder; make a run with: eagle3 init {self.quoted}"
        parent = RunDir(self.path.parent)
        whose = f"; the run is its folder {parent.path}" if parent.is_run else ", and a run is a folder"
        return f"{self.path}: is a file{whose}"

    @property
    def config(self) -> Path:
        """``run.toml``."""
        return self.path / "run.toml"

    @property
    def prepared(self) -> Path:
        """``prepared/``."""
        return self.path / "prepared"

    @property
    def events(self) -> Path:
        """``events.jsonl``."""
        return self.path / "events.jsonl"

    @property
    def telemetry(self) -> Path:
        """``telemetry/``."""
        return self.path / "telemetry"

    @property
    def lock(self) -> Path:
        """``daemon.lock``, held with flock by the living daemon."""
        return self.path / "daemon.lock"

    @property
    def daemon_info(self) -> Path:
        """``daemon.json``: pid, start time, socket of the last daemon."""
        return self.path / "daemon.json"

    @property
    def log(self) -> Path:
        """``daemon.log``."""
        return self.path / "daemon.log"

    @property
    def fingerprint(self) -> Path:
        """``fingerprint.json``: what the responses depend on; a resume with another is refused."""
        return self.path / "fingerprint.json"

    @property
    def run_tag(self) -> Path:
        """``run_tag.json``: which requests and dumps are this run's own, also after it was moved."""
        return self.path / "run_tag.json"

    @property
    def checkpoint(self) -> Path:
        """``fold.checkpoint``: a saved fold; may be deleted at any time."""
        return self.path / "fold.checkpoint"

    @property
    def stores(self) -> Path:
        """``hidden_states/``: a folder of tensors for each data set."""
        return self.path / "hidden_states"

    def store(self, name: str) -> Path:
        """The tensors of a data set, in the layout that run.toml names."""
        return self.stores / name

    def telemetry_file(self, kind: str) -> Path:
        """``telemetry/<kind>.jsonl`` for gpu, host, server or daemon."""
        return self.telemetry / f"{kind}.jsonl"

    def dataset(self, name: str) -> DatasetDir:
        """The folder of a data set."""
        return DatasetDir(self.prepared / name)

    @property
    def is_run(self) -> bool:
        """Whether this folder has a run.toml, whatever is in it."""
        return self.config.exists()

    def datasets_on_disk(self) -> list[DatasetDir]:
        """Data set folders that exist: below ``prepared/``, or directly below a foreign folder; sorted by name."""
        for parent in (self.prepared, self.path):
            found = [
                DatasetDir(child)
                for child in _folders(parent)
                if any((child / name).exists() for name in (RESPONSES, PROMPTS, FAILURES))
            ]
            if found:
                return sorted(found, key=lambda dataset: dataset.name)
        return []

    @property
    def socket(self) -> Path:
        """The control socket: in the run directory, or a short name in the runtime directory when that is too long."""
        inside = self.path.absolute() / "daemon.sock"
        if len(os.fsencode(inside)) <= SOCKET_PATH_LIMIT:
            return inside
        digest = hashlib.sha256(os.fsencode(self.path.resolve())).hexdigest()[:24]
        return runtime_dir() / f"eagle3-{digest}.sock"


def runtime_dir() -> Path:
    """Return a private folder for sockets of this user: ``$XDG_RUNTIME_DIR``, or one below the temporary folder."""
    given = os.environ.get("XDG_RUNTIME_DIR")
    if given and len(os.fsencode(given)) < SOCKET_PATH_LIMIT - 40 and Path(given).is_dir():
        return Path(given)
    return Path(tempfile.gettempdir()) / f"eagle3-{os.getuid()}"


def _folders(parent: Path) -> list[Path]:
    try:
        return [child for child in parent.iterdir() if child.is_dir()]
    except OSError:
        return []


def path_text(path: Path | str) -> str:
    """Return a path as a record can hold it: a name need not be UTF-8."""
    return os.fsencode(path).decode("utf-8", "backslashreplace")
