"""What a run's responses depend on, kept in its folder: a resume that would mix two kinds of data is refused."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Final

import msgspec

from contracts.fold.run import RunFold
from contracts.journal.durable import replace_file
from contracts.run_config import RunConfig

_SCHEMA: Final = 1


class FingerprintError(Exception):
    """run.toml, or a server, would produce other data than the run holds; the message names the difference."""


class Fingerprint(msgspec.Struct, omit_defaults=True):
    """``fingerprint.json``."""

    sampling: dict[str, Any]
    tokenizer: str | None = None
    system_prompt: str | None = None
    over_long: str = "refuse"
    model: str | None = None
    """As the first server named it; None until one was reached."""
    schema: int = msgspec.field(default_factory=lambda: _SCHEMA)


def fingerprint_of(config: RunConfig) -> Fingerprint:
    """Return what run.toml alone determines."""
    tokenizer = config.tokenizer
    return Fingerprint(
        sampling=config.sampling,
        tokenizer=tokenizer.path if tokenizer else None,
        system_prompt=tokenizer.system_prompt if tokenizer else None,
        over_long=config.generate.over_long,
    )


def check_fingerprint(path: Path, config: RunConfig, has_responses: bool) -> tuple[Fingerprint, str | None]:
    """Compare run.toml with the run's fingerprint, or write the first one.

    Args:
        path: ``fingerprint.json``.
        config: As it is now.
        has_responses: While the run holds none, anything may still change.

    Returns:
        The fingerprint that holds, and a sentence when there was none to compare with though there should be.

    Raises:
        FingerprintError: They differ, and there are responses.
        OSError: The file cannot be read or written.
    """
    now = fingerprint_of(config)
    if not has_responses:
        save_fingerprint(path, now)
        return now, None
    before = read_fingerprint(path)
    if before is None:
        how = "is empty or damaged" if path.exists() else "is missing"
        save_fingerprint(path, now)
        return now, (
            f"{path}: {how} though there are responses; made anew from run.toml. Whether they were made with the same "
            f"settings and model could not be checked"
        )
    difference = _difference(path, before, now)
    if difference is not None:
        raise FingerprintError(difference)
    now.model = before.model
    return now, None


def fingerprint_difference(path: Path, config: RunConfig) -> str | None:
    """Return what a start would be refused for in a run with responses, or None. Writes nothing.

    Raises:
        OSError: The file cannot be read.
    """
    before = read_fingerprint(path)
    return None if before is None else _difference(path, before, fingerprint_of(config))


def _difference(path: Path, before: Fingerprint, now: Fingerprint) -> str | None:
    changed = _differences(before, now)
    if not changed:
        return None
    return (
        f"{path}: run.toml would make other data than this run holds: {'; '.join(changed)}. Put it back, or start "
        f"a new run. To mix both on purpose, remove {path.name}."
    )


def store_difference(fold: RunFold, config: RunConfig) -> str | None:
    """Return in what run.toml asks for other hidden states than are stored, or None."""
    if not config.extracts:
        return None
    for name, dataset in fold.datasets.items():
        form = dataset.hidden.form
        if form is None:
            continue
        wanted = (("layers", list(form.layers), config.extract.layers), ("layout", form.layout, config.extract.layout))
        changed = [f"[extract] {key} was {old}, is {new}" for key, old, new in wanted if old != new]
        if changed:
            return (
                f"{dataset.folder.hidden_states}: {name} has {len(dataset.hidden.stored)} samples stored: "
                f"{'; '.join(changed)}. Put it back, or start a new run that takes these responses over ([[datasets]] "
                f"responses = ...)"
            )
    return None


def check_model(fingerprint: Fingerprint, path: Path, model: str | None, *, keep: bool = True) -> str | None:
    """Compare the model that a server names with the run's; remember the first one.

    Args:
        fingerprint: Of the run.
        path: Its file.
        model: As the server names it.
        keep: Write the first one into the file.

    Returns:
        A sentence when they differ, else None.

    Raises:
        OSError: The file cannot be written.
    """
    if model is None or model == fingerprint.model:
        return None
    if fingerprint.model is None:
        fingerprint.model = model
        if keep:
            save_fingerprint(path, fingerprint)
        return None
    return (
        f"serves the model {model!r}, this run was made with {fingerprint.model!r}. If it is the same one, start both "
        f"servers with the same --served-model-name; to go on with another on purpose, remove {path.name} from the run "
        f"and start the daemon again"
    )


def save_fingerprint(path: Path, fingerprint: Fingerprint) -> None:
    """Write it, atomically.

    Raises:
        OSError: It cannot be written.
    """
    replace_file(path, msgspec.json.format(msgspec.json.encode(fingerprint)) + b"\n")


def read_fingerprint(path: Path) -> Fingerprint | None:
    """Return what the file says; a missing, empty or damaged one counts as none: it is written again.

    Raises:
        OSError: It cannot be read.
    """
    try:
        return msgspec.json.decode(path.read_bytes(), type=Fingerprint)
    except FileNotFoundError:
        return None
    except (msgspec.DecodeError, UnicodeDecodeError):
        return None


def _differences(before: Fingerprint, now: Fingerprint) -> list[str]:
    found = [
        f"[sampling] {key} was {before.sampling.get(key, 'not set')!r}, is {now.sampling.get(key, 'not set')!r}"
        for key in sorted({*before.sampling, *now.sampling})
        if before.sampling.get(key) != now.sampling.get(key)
    ]
    for name in ("tokenizer", "system_prompt", "over_long"):
        old, new = getattr(before, name), getattr(now, name)
        if old != new:
            found.append(f"{name} was {old!r}, is {new!r}")
    return found
