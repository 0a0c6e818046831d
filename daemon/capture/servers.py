"""What the dump folder says of the servers that write into it, and whether that is what the run asks for."""

from __future__ import annotations

import fcntl
import math
import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import numpy as np

from contracts.records import CaptureCheck
from daemon.capture.arrival import await_rows
from daemon.capture.checks import CheckedRows, check_marks, check_rows_written
from daemon.capture.dump import Dump, read_start, sound
from daemon.capture.fault import CaptureFault
from daemon.capture.final_norm import LastRows
from daemon.capture.forms import AskedForm, difference
from daemon.capture.leftovers import remove_dump
from daemon.sglang_plugin.eagle3_sglang.dump_format import About, DumpFormatError, DumpHeader
from daemon.store.floats import BITS, to_float32
from daemon.store.norms import NormWeight

_MOST_ABOUT_BYTES: Final = 1 << 20


@dataclass(frozen=True)
class Probed:
    """What the dump of an answered probe says, and what it holds."""

    about: About
    """Of the scheduler that wrote it."""
    header: DumpHeader
    rows: LastRows


def read_abouts(folder: Path, note: Callable[[str], None] | None = None) -> list[About]:
    """Return all ``about.*.json`` that can be used, oldest first; a folder that is missing holds none.

    Args:
        folder: The dump folder.
        note: Takes a sentence on each that cannot be used.

    Raises:
        OSError: The folder cannot be read.
    """
    found = list[About]()
    for path in sorted(folder.glob("about.*.json")):
        try:
            found.append(sound(About, read_start(path, _MOST_ABOUT_BYTES)))
        except FileNotFoundError:
            continue
        except (OSError, DumpFormatError) as error:
            if note is not None:
                words = f"cannot be read: {error.strerror or error}" if isinstance(error, OSError) else str(error)
                note(f"{path}: {words}")
    return sorted(found, key=lambda about: about.started_at)


def alive(folder: Path, about: About) -> bool:
    """Tell whether the process that wrote a self-description runs: it holds a lock on the file, in any container."""
    try:
        descriptor = os.open(folder / about.file_name, os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK)
    except OSError:
        return False
    try:
        fcntl.flock(descriptor, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    finally:
        os.close(descriptor)
    return False


def objection(about: About, form: AskedForm, model: str | None) -> str | None:
    """Return why a server's rows cannot be used for the run, or None.

    Args:
        about: What it says of itself.
        form: Of the run, as far as it is known (`daemon.capture.forms.Asked`), or of the store.
        model: Of the run, as the servers name it; None: any.
    """
    if about.refusal is not None:
        return f"the plugin there dumps nothing: {about.refusal}"
    found = difference(about, form, model)
    return None if found is None else found[1]


def norm_weight(folder: Path, about: About) -> NormWeight:
    """Return weight and epsilon of a server's final norm.

    Raises:
        DumpFormatError: They are not there, or damaged.
    """
    path = folder / about.norm_file_name
    expected = 4 * about.hidden_size
    try:
        content = read_start(path, expected + 1)
    except OSError as error:
        raise DumpFormatError(f"{path}: the final norm's weight cannot be read: {error.strerror or error}") from error
    if len(content) != expected:
        had = "more" if len(content) > expected else str(len(content))
        raise DumpFormatError(f"{path}: {had} bytes; a hidden size of {about.hidden_size} has {expected}")
    weight = np.frombuffer(content, "<f4").astype(np.float32)
    if not np.isfinite(weight).all():
        raise DumpFormatError(f"{path}: the final norm's weight is not finite")
    if not math.isfinite(about.norm_eps) or about.norm_eps < 0:
        raise DumpFormatError(f"{folder / about.file_name}: the final norm's epsilon is {about.norm_eps}")
    return NormWeight(weight, about.norm_eps)


async def probe_fault(
    folder: Path, rid: str, ids: Sequence[int], timeout_s: float, port: int | None = None
) -> Probed | str:
    """Return what the dump of an answered probe says of its server, or why there is none that can be used.

    The dump is removed, whatever is wrong with it. Whether its form is the run's is for `objection` to say, whether its
    last slot is what it says for `daemon.capture.final_norm.norm_fault`.

    Args:
        folder: The dump folder.
        rid: Of the probe.
        ids: Its prompt. With one new token asked for, these are the rows that there must be.
        timeout_s: Longest wait for them.
        port: Of the server that was asked, to find what it says of itself when nothing comes; None: not known.
    """
    try:
        await await_rows(folder, rid, len(ids), timeout_s)
        found: Probed | str = _examine(folder, rid, ids)
    except CaptureFault as fault:
        found = _own_words(folder, port) or f"no usable dump of the probe: {fault.message}"
    try:
        remove_dump(folder, rid)
    except OSError as error:
        return (
            f"{error.filename or folder}: the dump of the probe cannot be removed: {error.strerror or error}; server "
            f"and daemon must run as the same user"
        )
    return found


def _examine(folder: Path, rid: str, ids: Sequence[int]) -> Probed:
    with Dump.open(folder, rid) as dump:
        check_rows_written(dump, len(ids))
        check_marks(*dump.marks(len(ids)), np.array(ids, np.int64))
        blocks = [np.frombuffer(block, "u1") for block in CheckedRows(dump, len(ids)).blocks()]
        header = dump.header
    bits = np.concatenate(blocks).view(BITS[header.dtype]).reshape(len(ids), header.slots, header.hidden_size)
    for about in _abouts(folder):
        if about.instance == header.instance:
            return Probed(about, header, LastRows.of(to_float32(bits, header.dtype), header.dtype, header.norm))
    raise CaptureFault(
        CaptureCheck.MISSING,
        f"{folder}: there is no about.{header.instance}.json that says what the rows of that server are: was the "
        f"folder cleared while it ran? Start it again",
    )


def _own_words(folder: Path, port: int | None) -> str | None:
    """Return why a server dumps nothing, where the youngest one that can be meant has said so itself.

    One that refused before it knew its model knows no port either.
    """
    there = [about for about in _abouts(folder) if about.port in (port, None) and alive(folder, about)]
    refusal = there[-1].refusal if there else None
    return None if refusal is None else f"the plugin there dumps nothing: {refusal}"


def _abouts(folder: Path) -> list[About]:
    try:
        return read_abouts(folder)
    except OSError:
        return []
