"""Builds the environment of the trainers' loaders: `python -m tests.trainers.environment`.

A virtual environment (`.venv-trainers` in the repository root) with SpecForge, speculators and ModelOpt on the CPU,
as published. What is already built from the same requirements is left as it is.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import Final

from tests.support.venv_build import ROOT, BuildError, Venv

HERE: Final = Path(__file__).resolve().parent
VENV: Final = Venv(ROOT / ".venv-trainers", HERE / "requirements.txt", "about 2 minutes and 2 GB")
LOADERS: Final = HERE / "loaders"


def process_env() -> dict[str, str]:
    """The environment variables under which the loaders run: nothing is fetched, nothing of the caller leaks in."""
    env = {k: v for k, v in os.environ.items() if not k.startswith(("PYTHON", "PYTEST", "SPECFORGE"))}
    env.pop("VIRTUAL_ENV", None)
    env["PATH"] = f"{VENV.python.parent}{os.pathsep}{env.get('PATH', os.defpath)}"
    env["HF_HUB_OFFLINE"] = "1"
    env["TRANSFORMERS_OFFLINE"] = "1"
    env["TOKENIZERS_PARALLELISM"] = "false"
    # SpecForge checks each file that it reads, as a careful person would have it.
    env["SPECFORGE_VALIDATE_OFFLINE_FEATURES"] = "1"
    # Matrices this small gain nothing from threads.
    env["OMP_NUM_THREADS"] = "1"
    return env


def build() -> None:
    """Make the environment, unless it is there already.

    Raises:
        BuildError: A step failed.
    """
    with VENV.alone():
        VENV.install(process_env())


if __name__ == "__main__":
    try:
        build()
    except BuildError as problem:
        sys.exit(f"make test-trainers: {problem}")
