"""Single values of a response line: counts, ids, finish reasons, error texts. Each is checked for what it must be."""

from __future__ import annotations

import json
from typing import Any, Final

import msgspec
from msgspec import UNSET, UnsetType

from contracts.sample_id import sample_key

MAX_COUNT: Final = 2**31 - 1
"""No answer has more tokens; a larger number is damage or a number of something else."""

_KINDS: Final[dict[type, str]] = {
    type(None): "null",
    bool: "a boolean",
    int: "a number",
    float: "a number with a fraction",
    str: "a text",
    list: "an array",
    dict: "an object",
}

_BLANK: Final = (b"null", b'""', b"[]", b"{}")


class UnreadableError(ValueError):
    """The line cannot be read; the message is the reason, fit to be shown.

    Attributes:
        place: Byte of the text that was being read, when the reason has a place.
    """

    def __init__(self, why: str, place: int | None = None) -> None:
        super().__init__(why)
        self.place = place


class NoShapeError(UnreadableError):
    """The object is JSON, but nothing in it is known."""


def kind(value: object) -> str:
    """Return what a decoded JSON value is, in words."""
    return _KINDS.get(type(value), "a value")


def printable(text: str, limit: int = 300) -> str:
    """Return a text of unknown origin in a form that is safe on a terminal and on one line, shortened to ``limit``.

    Control characters, separators, direction marks and lone surrogates become escapes.
    """
    cut = text if len(text) <= limit else text[: limit - 1] + "…"
    if cut.isprintable():
        return cut
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode("ascii") for c in cut)


def count(value: object, name: str) -> int | None:
    """Return a token count; None when it is absent or null.

    Raises:
        UnreadableError: It is anything but a whole number from 0 to `MAX_COUNT`.
    """
    if type(value) is int:
        if 0 <= value <= MAX_COUNT:
            return value
        raise UnreadableError(f"{name} is {'negative' if value < 0 else 'too large for a token count'}")
    if value is None or value is UNSET:
        return None
    raise UnreadableError(f"{name} is {kind(value)}, not a whole number")


def id_key(value: object, name: str) -> bytes | None:
    """Return the key of an id; None when it is absent, null or an empty text.

    Raises:
        UnreadableError: It is something that cannot be an id.
    """
    if type(value) is str or type(value) is int:
        return sample_key(value) or None
    if value is None or value is UNSET:
        return None
    raise UnreadableError(f"{name} is {kind(value)}, not a text or a whole number")


def reason_of(finish: Any) -> str | UnsetType | None:
    """Return a finish reason, given as text or as SGLang's object.

    Returns:
        The reason; None when it is given as null or empty; UNSET when there is none or it is of no known form.
    """
    if type(finish) is dict:
        finish = finish.get("type", UNSET)
    if type(finish) is str:
        return printable(finish, 64) or None
    return None if finish is None else UNSET


def message_of(value: Any) -> str | None:
    """Return the sentence of an ``error``, of whatever form; None when it stands for "no error"."""
    if value is UNSET or not value:
        return None
    if type(value) is str:
        return printable(value)
    if type(value) is dict:
        for name in ("message", "error", "detail", "code", "type"):
            if inner := message_of(value.get(name)):
                return inner
    if value is True:
        return "error"
    return printable(json.dumps(value, ensure_ascii=False))


def given(raw: msgspec.Raw | UnsetType) -> bool:
    """Return whether a value is there and neither null nor empty."""
    return raw is not UNSET and bytes(raw) not in _BLANK
