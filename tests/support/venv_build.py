"""Virtual environments that a test tier builds for itself, with packages that our own must not depend on.

A stamp says from which requirements an environment was built: what is up to date is left as it is, what was
interrupted or comes from other requirements is begun again. Two builds in one checkout wait for each other.
"""

from __future__ import annotations

import fcntl
import hashlib
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Final

ROOT: Final = Path(__file__).resolve().parents[2]
_TORCH: Final = "torch=="


class BuildError(Exception):
    """A step failed; the message says which, why, and what to do."""


@dataclass(frozen=True)
class Venv:
    """One such environment.

    Attributes:
        folder: Where it is.
        requirements: Pinned packages, one a line. torch is installed first, with its dependencies; the rest without
            theirs, so that all that is needed stands in the file.
        cost: What a build takes, in words.
    """

    folder: Path
    requirements: Path
    cost: str

    @property
    def python(self) -> Path:
        """Its interpreter."""
        return self.folder / "bin" / "python"

    @property
    def key(self) -> str:
        """What it must have been built from."""
        version = "{}.{}".format(*sys.version_info)
        return f"python {version}, requirements {digest(self.requirements)}\n"

    @property
    def _stamp(self) -> Path:
        return self.folder / "built"

    @property
    def _log(self) -> Path:
        return self.folder / "install.log"

    def missing(self) -> str | None:
        """Why it cannot be used, or None when it is complete and up to date."""
        if not self.python.exists():
            return f"{self.folder.name} does not exist"
        if read_stamp(self._stamp) != self.key:
            return f"{self.folder.name} is unfinished, or from other requirements"
        return None

    def install(self, env: Mapping[str, str]) -> None:
        """Build it, unless it is there already.

        Args:
            env: The environment variables of the steps.

        Raises:
            BuildError: A step failed.
        """
        if self.missing() is None:
            say(f"{self.folder.name}: already built from these requirements")
            return
        begun = time.monotonic()
        say(f"{self.folder.name}: building ({self.cost})")
        self.step("creating the virtual environment", [sys.executable, "-m", "venv", "--clear", str(self.folder)], env)
        pip = [str(self.python), "-m", "pip", "install", "--disable-pip-version-check", "--no-input", "--no-compile"]
        pins = [line for line in self.requirements.read_text().splitlines() if line and not line.startswith("#")]
        torch = next(pin for pin in pins if pin.startswith(_TORCH))
        # With its dependencies, which depend on the build that the index offers; those pinned are put right below.
        self.step(f"installing {torch}", [*pip, torch], env)
        rest = [*pip, "--no-deps", "--prefer-binary", "-r", str(self.requirements)]
        self.step(f"installing {len(pins) - 1} more packages", rest, env)
        self._stamp.write_text(self.key)
        say(f"{self.folder.name}: built in {time.monotonic() - begun:.0f} s")

    def step(self, what: str, command: list[str], env: Mapping[str, str]) -> None:
        """Run one step with its output in the log, and show the log's end when it fails.

        Raises:
            BuildError: It failed.
        """
        say(f"  {what} ...")
        begun = time.monotonic()
        self.folder.mkdir(exist_ok=True)
        # Output goes through a pipe, not straight to the log: `venv --clear` empties the folder meanwhile.
        done = subprocess.run(command, cwd=ROOT, env=env, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
        with self._log.open("a") as log:
            log.write(f"$ {' '.join(command)}\n{done.stdout}\n")
        if done.returncode:
            tail = "\n".join(f"    {line}" for line in done.stdout.splitlines()[-15:])
            raise BuildError(
                f"{what}: exit status {done.returncode}\n{tail}\n"
                f"  The whole output: {self.folder.name}/{self._log.name}. Run the same command again to continue; if "
                f"the environment itself looks broken, remove {self.folder.name} first.\n"
                f"  Needed: a package index within pip's reach, Python 3.11 or later, 4 GB of free disk."
            )
        say(f"  {what}: {time.monotonic() - begun:.0f} s")

    @contextmanager
    def alone(self) -> Iterator[None]:
        """Hold a lock, so that two builds in one checkout wait for each other."""
        # On the requirements themselves: a file that is always there, and outside the folder being rebuilt.
        with self.requirements.open() as lock:
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                say(f"{self.folder.name}: another build is running, waiting for it")
                fcntl.flock(lock, fcntl.LOCK_EX)
            yield


def digest(path: Path) -> str:
    """Return the SHA-256 of a file."""
    return hashlib.sha256(path.read_bytes()).hexdigest()


def read_stamp(path: Path) -> str | None:
    """Return what a stamp says; None: there is none."""
    try:
        return path.read_text()
    except FileNotFoundError:
        return None


def say(text: str) -> None:
    """Tell the person who waits."""
    print(text, flush=True)
