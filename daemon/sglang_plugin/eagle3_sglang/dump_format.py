"""What lies in the dump folder: the contract between the plugin inside SGLang and the daemon. Standard library only.

``<rid>.dump``, one for each request, a sparse file::

    0       4096    header: one JSON object (`DumpHeader`), then a newline, then spaces
    4096    8*C     marks: for each position (uint32 token id that was fed, uint32 number of the batch of rows that it
                    came in, from 1; a forward pass is one batch or, when long, several); a position that was never
                    written reads as batch 0. C is the server's context length
    R       ...     rows: for each position K+1 slots of H values, slot 0..K-1 the outputs of the layers, ascending,
                    slot K the last hidden state. R (``rows_offset``) is a multiple of 4096

Rows are contiguous, so that a store can take them as they are. Of a position the mark is written before the row, and
positions are written in the order in which they were computed: a file that reaches to the end of row n holds rows 0..n.
There is no end mark: the response says how many rows there must be (prompt + answer - 1: the last token is never fed).

``<rid>.error``: the plugin could not write this request's rows; text, why. It has removed the dump.
``about.<instance>.json`` (`About`), once for each start of a scheduler that writes (a DP rank is one): what its rows
are, or why there will be none. ``norm.<instance>.f32``: the weight of the final norm, H little-endian float32.

The daemon takes dumps back by truncating and removing them. The plugin makes a file only for a request's first row; one
that vanished under its hands is a request that nobody wants any more.
"""

from __future__ import annotations

import dataclasses
import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final, TypeVar

FORMAT: Final = "eagle3-dump/1"
HEADER_BYTES: Final = 4096
MARK: Final = "<II"
"""struct format of a mark: token id, number of the batch of rows."""
MARK_BYTES: Final = 8
_PAGE: Final = 4096
DUMP_SUFFIX: Final = ".dump"
ERROR_SUFFIX: Final = ".error"
RID: Final = re.compile(r"e3\.[A-Za-z0-9._-]{1,200}")
"""Requests whose rows are written: ours, and fit for a file name. All others are none of our business."""

POST: Final = "post"
"""Norm of the last slot: after the final RMSNorm."""
OVER_WEIGHT: Final = "over_weight"
"""After the final RMSNorm, divided by its weight: RMSNorm of it is the state after the final norm (see README)."""
Kind = TypeVar("Kind", "DumpHeader", "About")
ITEM_BYTES: Final = {"bfloat16": 2, "float16": 2, "float32": 4}


class DumpFormatError(ValueError):
    """A file of the dump folder that is not what it should be."""


@dataclasses.dataclass(frozen=True)
class DumpHeader:
    """The first page of a dump."""

    rid: str
    instance: str
    """Of the scheduler that wrote it; see `About`."""
    layers: tuple[int, ...]
    """0-based output ids of the slots, ascending."""
    server_layers: tuple[int, ...]
    """The ids that the server was given for them."""
    hidden_size: int
    dtype: str
    norm: str
    model: str
    sglang: str
    context_length: int
    format: str = FORMAT

    @property
    def slots(self) -> int:
        """K + 1."""
        return len(self.layers) + 1

    @property
    def row_bytes(self) -> int:
        """Bytes of one row."""
        return self.slots * self.hidden_size * ITEM_BYTES[self.dtype]

    @property
    def rows_offset(self) -> int:
        """Where row 0 begins."""
        return rows_offset(self.context_length)

    def encode(self) -> bytes:
        """Return the header page."""
        text = json.dumps(dataclasses.asdict(self)).encode()
        if len(text) >= HEADER_BYTES:
            raise DumpFormatError(f"the header of {self.rid} has {len(text)} bytes, room for {HEADER_BYTES - 1}")
        return text + b"\n" + b" " * (HEADER_BYTES - len(text) - 1)

    @classmethod
    def decode(cls, page: bytes) -> DumpHeader:
        """Read a header page.

        Raises:
            DumpFormatError: It is cut short, no header, or of another format.
        """
        return _decode(cls, page)


def header_pages(header: DumpHeader) -> Callable[[str], bytes]:
    """Return what makes the header page of any request's dump from its rid; all else is encoded once.

    Raises:
        DumpFormatError: The page of the longest rid has no room for it.
    """
    dataclasses.replace(header, rid="e3." + "-" * 200).encode()
    before, after = dataclasses.replace(header, rid="\0").encode().rstrip(b" ").split(b"\\u0000", 1)  # rid comes first
    return lambda rid: (before + _checked(rid).encode() + after).ljust(HEADER_BYTES)


def rows_offset(context_length: int) -> int:
    """Return where row 0 begins in a dump of a server with this context."""
    return -(-(HEADER_BYTES + MARK_BYTES * context_length) // _PAGE) * _PAGE


@dataclasses.dataclass(frozen=True)
class About:
    """``about.<instance>.json``: what one scheduler dumps."""

    instance: str
    """``<pid>-<start, ms>-<dp rank>``, also in the headers of its dumps."""
    pid: int
    port: int | None
    """Of the HTTP server."""
    dp_rank: int
    sglang: str
    model: str
    architecture: str
    layers: tuple[int, ...]
    server_layers: tuple[int, ...]
    hidden_size: int
    dtype: str
    norm: str
    norm_eps: float
    norm_has_zero: bool
    """The norm's weight has a zero: ``over_weight`` cannot be made."""
    context_length: int
    started_at: float
    """Unix seconds."""
    refusal: str | None = None
    """Why nothing is dumped, and what to do; None when all is well."""
    format: str = FORMAT

    @property
    def file_name(self) -> str:
        """Its name in the dump folder."""
        return f"about.{self.instance}.json"

    @property
    def norm_file_name(self) -> str:
        """Name of the norm's weight in the dump folder."""
        return f"norm.{self.instance}.f32"

    def encode(self) -> bytes:
        """Return the file's content."""
        return json.dumps(dataclasses.asdict(self), indent=1).encode() + b"\n"

    @classmethod
    def decode(cls, text: bytes) -> About:
        """Read the file's content.

        Raises:
            DumpFormatError: It is no such file, or of another format.
        """
        return _decode(cls, text)


def dump_path(folder: Path, rid: str) -> Path:
    """Return the file of a request's rows.

    Raises:
        DumpFormatError: The rid is not one of ours.
    """
    return folder / (_checked(rid) + DUMP_SUFFIX)


def error_path(folder: Path, rid: str) -> Path:
    """Return the file that says why there are no rows.

    Raises:
        DumpFormatError: The rid is not one of ours.
    """
    return folder / (_checked(rid) + ERROR_SUFFIX)


def _checked(rid: str) -> str:
    if RID.fullmatch(rid) is None:
        raise DumpFormatError(f"{rid[:80]!r} is no request id of ours")
    return rid


def _decode(kind: type[Kind], text: bytes) -> Kind:
    try:
        raw = json.loads(text)
        if not isinstance(raw, dict) or raw.get("format") != FORMAT:
            raise DumpFormatError(f"is not {FORMAT}: {text[:80]!r}")
        known = {field.name for field in dataclasses.fields(kind)}
        values: dict[str, Any] = {name: tuple(v) if isinstance(v, list) else v for name, v in raw.items()}
        made: Callable[..., Kind] = kind
        return made(**{name: value for name, value in values.items() if name in known})
    except (ValueError, TypeError) as error:
        if isinstance(error, DumpFormatError):
            raise
        raise DumpFormatError(f"cannot be read as {FORMAT}: {error}") from error
