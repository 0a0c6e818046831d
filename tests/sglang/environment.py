"""Builds the environment of the real-SGLang tests: `python -m tests.sglang.environment`.

A virtual environment (`.venv-sglang` in the repository root) with SGLang on the CPU, and two tiny
models in `.venv-sglang/models`. What is already built from the same requirements is left as it is;
a build that was interrupted, or one from other requirements, is begun again.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path

from tests.support.venv_build import ROOT, BuildError, Venv, digest, read_stamp

HERE = Path(__file__).resolve().parent
VENV = Venv(ROOT / ".venv-sglang", HERE / "requirements.txt", "about 3 minutes and 3 GB")
FOLDER = VENV.folder
PYTHON = VENV.python
MODELS = FOLDER / "models"
SUPPORT = HERE / "support"

_MODEL_SCRIPT = HERE / "tiny_model.py"
_MODELS_STAMP = MODELS / "built"


def model_path(kind: str = "llama") -> Path:
    """The folder of a tiny model.

    Args:
        kind: "llama" or "qwen3", as made by tiny_model.py.
    """
    return MODELS / kind


def missing() -> str | None:
    """Why the tests cannot run here, or None when the environment is complete and up to date."""
    reason = VENV.missing()
    if reason is not None:
        return reason
    if read_stamp(_MODELS_STAMP) != _models_key():
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
    with VENV.alone():
        VENV.install(process_env())
        if read_stamp(_MODELS_STAMP) != _models_key():
            _make_models()


def _make_models() -> None:
    command = [str(PYTHON), str(_MODEL_SCRIPT), str(MODELS), "llama", "qwen3"]
    VENV.step("making the tiny models", command, process_env())
    _MODELS_STAMP.write_text(_models_key())


def _models_key() -> str:
    return f"{VENV.key}tiny_model.py {digest(_MODEL_SCRIPT)}\n"


if __name__ == "__main__":
    try:
        build()
    except BuildError as problem:
        sys.exit(f"make test-sglang: {problem}")
