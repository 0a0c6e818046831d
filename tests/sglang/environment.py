"""Builds the environment of the real-SGLang tests: `python -m tests.sglang.environment`.

A virtual environment (`.venv-sglang` in the repository root) with SGLang on the CPU, and two tiny
models in `.venv-sglang/models`. What is already built from the same requirements is left as it is;
a build that was interrupted, or one from other requirements, is begun again.
"""

from __future__ import annotations

import fcntl
import hashlib
import os
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

HERE = Path(__file__).resolve().parent
ROOT = HERE.parents[1]
FOLDER = ROOT / ".venv-sglang"
PYTHON = FOLDER / "bin" / "python"
MODELS = FOLDER / "models"
SUPPORT = HERE / "support"

REQUIREMENTS = HERE / "requirements.txt"
_MODEL_SCRIPT = HERE / "tiny_model.py"
_STAMP = FOLDER / "built"
_MODELS_STAMP = MODELS / "built"
_LOG = FOLDER / "install.log"
_TORCH = "torch"


class BuildError(Exception):
    """A step failed; the message says which, why, and what to do."""


def model_path(kind: str = "llama") -> Path:
    """The folder of a tiny model.

    Args:
        kind: "llama" or "qwen3", as made by tiny_model.py.
    """
    return MODELS / kind


def missing() -> str | None:
    """Why the tests cannot run here, or None when the environment is complete and up to date."""
    if not PYTHON.exists():
        return f"{FOLDER.name} does not exist"
    if _read(_STAMP) != _install_key():
        return f"{FOLDER.name} is unfinished, or from other requirements"
    if _read(_MODELS_STAMP) != _models_key():
        return f"the models in {FOLDER.name} are missing, or from another tiny_model.py"
    return None


def process_env(*, extra_path: tuple[Path, ...] = ()) -> dict[str, str]:
    """The environment variables under which SGLang imports and runs on the CPU.

    Args:
        extra_path: Folders to put on PYTHONPATH behind the stand-ins, for instance that of a plugin.
    """
    # Nothing of the calling interpreter (coverage, warnings as errors, its own path) may leak in.
    env = {k: v for k, v in os.environ.items() if not k.startswith(("PYTHON", "PYTEST", "SGLANG"))}
    env.pop("VIRTUAL_ENV", None)
    env["PATH"] = f"{PYTHON.parent}{os.pathsep}{env.get('PATH', os.defpath)}"
    env["PYTHONPATH"] = os.pathsep.join(str(p) for p in (SUPPORT, *extra_path))
    env["PYTHONUNBUFFERED"] = "1"
    env["SGLANG_USE_CPU_ENGINE"] = "1"
    env["HF_HUB_OFFLINE"] = "1"
    env["TRANSFORMERS_OFFLINE"] = "1"
    env["TOKENIZERS_PARALLELISM"] = "false"
    # Matrices this small gain nothing from threads, which cost threefold when the cores are busy otherwise.
    env["OMP_NUM_THREADS"] = "1"
    return env


def build() -> None:
    """Make the environment and the models, unless they are there already.

    Raises:
        BuildError: A step failed.
    """
    with _alone():
        if _read(_STAMP) != _install_key():
            _install()
        else:
            _say(f"{FOLDER.name}: already built from these requirements")
        if _read(_MODELS_STAMP) != _models_key():
            _make_models()


def _install() -> None:
    begun = time.monotonic()
    _say(f"{FOLDER.name}: building (about 3 minutes and 3 GB)")
    _run("creating the virtual environment", [sys.executable, "-m", "venv", "--clear", str(FOLDER)])
    pip = [str(PYTHON), "-m", "pip", "install", "--disable-pip-version-check", "--no-input", "--no-compile"]
    pins = [line for line in REQUIREMENTS.read_text().splitlines() if line and not line.startswith("#")]
    torch = next(pin for pin in pins if pin.startswith(f"{_TORCH}=="))
    # With its dependencies, which depend on the build that the index offers; those pinned here are put right below.
    _run(f"installing {torch}", [*pip, torch])
    _run(f"installing {len(pins) - 1} more packages", [*pip, "--no-deps", "--prefer-binary", "-r", str(REQUIREMENTS)])
    _STAMP.write_text(_install_key())
    _say(f"{FOLDER.name}: built in {time.monotonic() - begun:.0f} s")


def _make_models() -> None:
    _run("making the tiny models", [str(PYTHON), str(_MODEL_SCRIPT), str(MODELS), "llama", "qwen3"])
    _MODELS_STAMP.write_text(_models_key())


def _run(what: str, command: list[str]) -> None:
    """Run one step with its output in the log, and show the log's end when it fails."""
    _say(f"  {what} ...")
    begun = time.monotonic()
    FOLDER.mkdir(exist_ok=True)
    # Output goes through a pipe, not straight to the log: `venv --clear` empties the folder meanwhile.
    done = subprocess.run(
        command, cwd=ROOT, env=process_env(), stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
    )
    with _LOG.open("a") as log:
        log.write(f"$ {' '.join(command)}\n{done.stdout}\n")
    if done.returncode:
        tail = "\n".join(f"    {line}" for line in done.stdout.splitlines()[-15:])
        raise BuildError(
            f"{what}: exit status {done.returncode}\n{tail}\n"
            f"  The whole output: {_LOG.relative_to(ROOT)}. Run the same command again to continue; if the "
            f"environment itself looks broken, remove {FOLDER.name} first.\n"
            f"  Needed: a package index within pip's reach, Python 3.11 or later, 4 GB of free disk."
        )
    _say(f"  {what}: {time.monotonic() - begun:.0f} s")


@contextmanager
def _alone() -> Iterator[None]:
    """Hold a lock, so that two builds in one checkout wait for each other."""
    # On the requirements themselves: a file that is always there, and outside the folder being rebuilt.
    with REQUIREMENTS.open() as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            _say(f"{FOLDER.name}: another build is running, waiting for it")
            fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def _install_key() -> str:
    version = "{}.{}".format(*sys.version_info)
    return f"python {version}, requirements {_digest(REQUIREMENTS)}\n"


def _models_key() -> str:
    return f"{_install_key()}tiny_model.py {_digest(_MODEL_SCRIPT)}\n"


def _digest(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()


def _read(path: Path) -> str | None:
    try:
        return path.read_text()
    except FileNotFoundError:
        return None


def _say(text: str) -> None:
    print(text, flush=True)


if __name__ == "__main__":
    try:
        build()
    except BuildError as problem:
        sys.exit(f"make test-sglang: {problem}")
