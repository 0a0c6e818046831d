"""The demo's run directory: made, taken up again, or replaced; never a folder that is something else."""

from __future__ import annotations

import enum
import shutil
from importlib import resources
from pathlib import Path
from typing import Final

from contracts.liveness import look
from contracts.monitor import Monitor
from contracts.run_dir import RunDir
from contracts.status import RunState
from eagle3_tui.failure import CommandFailed
from eagle3_tui.run_template import toml_value

_MARK: Final = ".eagle3-demo"
_MARK_TEXT: Final = "Made by eagle3 demo, which may replace everything in this folder.\n"
_SOURCES: Final = "sources"
PRETOKENIZED: Final = "A1_greetings"
TEXTS: Final = ("B1_questions", "B2_code")


class Found(enum.Enum):
    """What was at the demo's place."""

    NOTHING = "a new demo"
    UNFINISHED = "an earlier demo with work left, which goes on"
    FINISHED = "a finished demo"


def look_at(path: Path) -> Found:
    """Return what is at the demo's place.

    Raises:
        CommandFailed: Something else is there, or a daemon runs in it.
    """
    if not path.exists() or (path.is_dir() and not any(path.iterdir())):
        return Found.NOTHING
    if not (path / _MARK).is_file():
        raise CommandFailed(f"{path}: is there and is not a demo; choose another folder with --dir")
    run = RunDir(path)
    if look(run).alive:
        raise CommandFailed(f"{path}: a daemon is running there; stop it first with: eagle3 stop {path}")
    if not run.is_run:
        return Found.NOTHING
    return Found.FINISHED if Monitor(path).refresh().state is RunState.FINISHED else Found.UNFINISHED


def make(path: Path) -> RunDir:
    """Make the folder with its data anew; what an earlier demo left in it is removed."""
    path.mkdir(parents=True, exist_ok=True)
    for child in path.iterdir():
        if child.is_dir() and not child.is_symlink():
            shutil.rmtree(child)
        elif child.name != _MARK:
            child.unlink()
    # The mark is there before anything else, so that a demo that was interrupted here is still known as one.
    (path / _MARK).write_text(_MARK_TEXT, encoding="utf-8")
    run = RunDir(path)
    _copy(PRETOKENIZED, run.dataset(PRETOKENIZED).prompts)
    for name in TEXTS:
        _copy(name, path / _SOURCES / f"{name}.jsonl")
    return run


def write_config(run: RunDir, server: str) -> None:
    """Write run.toml for the embedded server at an address; a demo taken up again gets a new one."""
    texts = "\n".join(
        f"[[datasets]]\nname = {toml_value(name)}\nprompts = {toml_value(f'{_SOURCES}/{name}.jsonl')}\n"
        for name in TEXTS
    )
    run.config.write_text(
        _CONFIG.format(
            server=toml_value(server),
            dumps=toml_value(str(dumps(run).absolute())),
            pretokenized=toml_value(PRETOKENIZED),
            texts=texts,
        )
    )


def dumps(run: RunDir) -> Path:
    """Return where the demo's server dumps rows: on the run's own disk, since it is so little."""
    return run.path / "dumps"


def _copy(name: str, target: Path) -> None:
    target.parent.mkdir(parents=True, exist_ok=True)
    source = resources.files("eagle3_tui") / "demo_data" / f"{name}.jsonl"
    target.write_bytes(source.read_bytes())


_CONFIG: Final = """\
[run]
name = "demo"
stages = ["generate", "extract"]

[[servers]]
url = {server}

[sampling]
temperature = 0.6
max_new_tokens = 256
min_new_tokens = 2               # of an answer of one token there are no hidden states to learn from

[generate]
concurrency = 8

[extract]
layers = [1, 3, 4]               # 0-based outputs of the embedded model, which has eight layers
layout = "specforge"
dump_dir = {dumps}

[tokenizer]
path = "bytes"                   # prompts are text; the embedded model has byte-level ids

[[datasets]]
name = {pretokenized}            # has a loss_mask: only its hidden states are wanted

{texts}target_tokens = 2500             # enough before its prompts are used up
"""
