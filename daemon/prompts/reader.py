"""A prompt file to numbered records, whatever its layout: one object a line, one array, or pretty-printed objects.

Lines are read one by one, so memory stays flat; only a file that is one JSON array is read whole. A byte-order mark,
CRLF and a missing last newline are accepted. Blank lines count in the line numbers and are no records.
"""

from __future__ import annotations

import enum
import itertools
import json
import os
import re
from collections.abc import Iterator
from pathlib import Path
from typing import BinaryIO, Final

import msgspec

from daemon.prompts.refusals import PromptError, Refusal

BOM: Final = b"\xef\xbb\xbf"
_FOREIGN: Final = {
    b"\xff\xfe": "UTF-16 text: save it as UTF-8",
    b"\xfe\xff": "UTF-16 text: save it as UTF-8",
    b"\x1f\x8b": "gzip: unpack it first",
    b"\x28\xb5\x2f\xfd": "zstd: unpack it first",
    b"PK\x03\x04": "a zip archive: unpack it first",
    b"PAR1": "parquet: export it as JSONL first",
}
_STRING: Final = re.compile(rb'"(?:[^"\\]|\\.)*"?')


class PromptSourceError(PromptError):
    """The file is missing, empty, or no text."""


class Layout(enum.StrEnum):
    """How records lie in a file; the value is what their numbers count."""

    LINES = "lines"
    ELEMENTS = "elements"
    """One JSON array; records are numbered by element from 1."""
    OBJECTS = "objects"
    """Objects over several lines each; a record has the number of the line where it begins."""


class PromptReader:
    """Iterates a file as ``(number, decoded value | Refusal)``; `blank` and `records` count as it goes.

    Raises:
        PromptSourceError: When made: the file is missing, empty, or no text.
    """

    def __init__(self, path: Path) -> None:
        check_source(path)
        self.path = path
        self.blank = 0
        """Blank lines so far; they are neither records nor errors."""
        self.records = 0
        with path.open("rb") as stream:
            self.layout = detect_layout(stream)

    def __iter__(self) -> Iterator[tuple[int, object]]:
        self.blank = self.records = 0
        with self.path.open("rb") as stream:
            if self.layout is Layout.ELEMENTS:
                found = _elements(stream)
            elif self.layout is Layout.OBJECTS:
                found = _objects(stream)
            else:
                found = self._lines(stream)
            for item in found:
                self.records += 1
                yield item

    def _lines(self, stream: BinaryIO) -> Iterator[tuple[int, object]]:
        for number, _, line in numbered_lines(stream):
            if line.strip():
                yield number, decode_json(line)
            else:
                self.blank += 1


def check_source(path: Path, what: str = "prompt") -> None:
    """Refuse a file that cannot hold prompts (or responses) as a whole.

    Args:
        path: The file.
        what: ``prompt`` or ``response``, for the message.

    Raises:
        PromptSourceError: It is missing, a folder, unreadable, empty, or of a format that is no JSON text.
    """
    try:
        with path.open("rb") as stream:
            size = os.fstat(stream.fileno()).st_size
            head = stream.read(4)
    except FileNotFoundError:
        raise PromptSourceError(f"{path}: no such {what} file: check `{what}s` in run.toml") from None
    except OSError as error:
        raise PromptSourceError(f"{path}: the {what} file cannot be read: {error.strerror}") from error
    if size == 0:
        raise PromptSourceError(f"{path}: the {what} file is empty (0 bytes); was the disk full when it was written?")
    for magic, form in _FOREIGN.items():
        if head.startswith(magic):
            raise PromptSourceError(f"{path}: the {what} file is {form}")


def numbered_lines(stream: BinaryIO) -> Iterator[tuple[int, int, bytes]]:
    """Yield ``(1-based line number, byte offset, line)`` with neither line end nor byte-order mark."""
    offset = 0
    for number, line in enumerate(stream, 1):
        start, offset = offset, offset + len(line)
        if number == 1 and line.startswith(BOM):
            start, line = len(BOM), line[len(BOM) :]
        yield number, start, line.rstrip(b"\r\n")


def detect_layout(stream: BinaryIO) -> Layout:
    """Return the layout of a stream that stands at its beginning; reads no more than its first two filled lines."""
    filled = itertools.islice((line for _, _, line in numbered_lines(stream) if line.strip()), 2)
    first, second = next(filled, b""), next(filled, None)
    head = first.lstrip()
    if head.startswith(b"["):
        whole = second is None or isinstance(decode_json(first), Refusal)
        return Layout.ELEMENTS if whole else Layout.LINES
    if head.startswith(b"{") and second is not None and _depth(first) > 0 and not second.startswith(b"{"):
        return Layout.OBJECTS
    return Layout.LINES


def decode_json(data: bytes) -> object:
    """Return the value of one JSON text, or a `Refusal` that says where it is broken.

    msgspec and not orjson: it keeps every digit of a large integer. What it does not take and Python's json does
    (half a surrogate pair as an escape, NaN) is real in files that Python wrote, and is accepted.
    """
    try:
        return msgspec.json.decode(data)
    except (msgspec.DecodeError, RecursionError):
        pass
    try:
        return json.loads(data.decode("utf-8"))
    except UnicodeDecodeError as error:
        return Refusal(f"is not UTF-8: byte 0x{data[error.start]:02x} at position {error.start + 1}")
    except json.JSONDecodeError as error:
        return Refusal(f"is broken JSON: {error.msg} (character {error.pos + 1})")
    except RecursionError:
        return Refusal("is nested too deeply")
    except ValueError:
        return Refusal("holds a number with thousands of digits")


def _elements(stream: BinaryIO) -> Iterator[tuple[int, object]]:
    value = decode_json(stream.read().removeprefix(BOM).strip())
    if isinstance(value, list):
        yield from enumerate(value, 1)
    elif isinstance(value, Refusal):
        yield 1, Refusal(f"the file is one JSON array that {value.why}")


def _objects(stream: BinaryIO) -> Iterator[tuple[int, object]]:
    """Collect lines until their brackets are balanced."""
    begun: list[bytes] = []
    start = depth = 0
    for number, _, line in numbered_lines(stream):
        if not line.strip():
            continue
        if begun and line.startswith(b"{") and not begun[-1].rstrip().endswith((b",", b":", b"[")):
            # No JSON value goes on like this: the one before is broken, and what follows need not be lost with it.
            yield start, Refusal(f"the object that begins here is not closed before line {number}")
            begun, depth = [], 0
        if not begun:
            start = number
        begun.append(line)
        depth += _depth(line)
        if depth <= 0:
            yield start, decode_json(b"\n".join(begun))
            begun, depth = [], 0
    if begun:
        yield start, Refusal("the object that begins here is not closed before the end of the file")


def _depth(line: bytes) -> int:
    """How many brackets a line opens more than it closes, those in strings apart."""
    bare = _STRING.sub(b"", line)
    return bare.count(b"{") + bare.count(b"[") - bare.count(b"}") - bare.count(b"]")
