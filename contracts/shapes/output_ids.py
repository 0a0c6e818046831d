"""The output ids of a response line, as the text that they are in it."""

from __future__ import annotations

from typing import Final

import msgspec
from msgspec import UNSET, Raw, UnsetType

_BOM: Final = b"\xef\xbb\xbf"
_MOST_NESTING: Final = 4


class _Holder(msgspec.Struct):
    """Where known shapes keep ids: at the top, or in what they wrap."""

    output_ids: Raw | UnsetType = UNSET
    response: Raw | UnsetType = UNSET
    body: Raw | UnsetType = UNSET
    raw: Raw | UnsetType = UNSET


_HOLDER: Final = msgspec.json.Decoder(_Holder)


def output_ids_of(line: bytes) -> bytes | None:
    """Return the JSON text of a line's ``output_ids``; None when it has none, or is no JSON object.

    What the ids are is for the caller to check. Ids of another name (a logprob list, ``tokens``) are not guessed at.
    """
    text = line.removeprefix(_BOM).strip()
    for _ in range(_MOST_NESTING):
        try:
            holder = _HOLDER.decode(text)
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
            return None
        if holder.output_ids is not UNSET:
            return bytes(holder.output_ids)
        inner = [bytes(each) for each in (holder.response, holder.body, holder.raw) if each is not UNSET]
        inner = [each for each in inner if each.lstrip().startswith(b"{")]
        if not inner:
            return None
        text = inner[0]
    return None
