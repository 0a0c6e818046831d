"""The JSON of a response line: every key that any known shape has, declared once; everything else is skipped unread.

Values that may be long or of several types stay `msgspec.Raw` until somebody needs them, so that ids and texts never
become Python objects.
"""

from __future__ import annotations

import json
import math
from typing import Any, Final, TypeVar

import msgspec
from msgspec import UNSET, Raw, UnsetType

from contracts.shapes.ids import ASIDE, count_ids, set_aside
from contracts.shapes.values import UnreadableError, kind

_T = TypeVar("_T")
_RawValue = Raw | UnsetType


class Line(msgspec.Struct, kw_only=True, gc=False, rename={"async_position": "_async_position"}):
    """One JSON object of a response line, at the top or below ``response``, ``body``, ``raw`` and the like."""

    sample_id: Any = UNSET
    custom_id: Any = UNSET
    id: Any = UNSET
    conversation_id: Any = UNSET
    question_id: Any = UNSET
    primary_id: Any = UNSET
    async_position: Any = UNSET

    prompt_tokens: Any = UNSET
    completion_tokens: Any = UNSET
    num_generated_tokens: Any = UNSET
    usage: _RawValue = UNSET
    meta_info: _RawValue = UNSET
    metadata: _RawValue = UNSET
    distilabel_metadata: _RawValue = UNSET

    finish_reason: Any = UNSET
    finished_at: Any = UNSET
    started_at: Any = UNSET
    think_end: Any = UNSET
    truncated: Any = UNSET
    finished: Any = UNSET
    object: Any = UNSET

    output_ids: _RawValue = UNSET
    n_output_ids: Any = None
    """Not from the data: set by `read_line` to the number of ``output_ids``; None when that is no array of numbers."""
    text: _RawValue = UNSET
    generation: _RawValue = UNSET
    generations: _RawValue = UNSET
    choices: _RawValue = UNSET
    conversations: _RawValue = UNSET

    error: _RawValue = UNSET
    message: _RawValue = UNSET
    status: Any = UNSET
    status_code: Any = UNSET
    response: _RawValue = UNSET
    body: _RawValue = UNSET
    raw: _RawValue = UNSET


class Usage(msgspec.Struct):
    """``usage`` of the OpenAI API. Its details are inside the total and are not read."""

    prompt_tokens: Any = UNSET
    completion_tokens: Any = UNSET


class Meta(msgspec.Struct):
    """``meta_info`` of SGLang."""

    id: Any = UNSET
    finish_reason: Any = UNSET
    prompt_tokens: Any = UNSET
    completion_tokens: Any = UNSET


class Metadata(msgspec.Struct):
    """``metadata`` of datatrove (rollouts) and of speculators (the rest)."""

    rollout_results: _RawValue = UNSET
    finish_reason: Any = UNSET
    usage: _RawValue = UNSET
    error: Any = UNSET


class Choice(msgspec.Struct):
    """One of ``choices``: OpenAI's (also as a stream chunk) or an EAGLE model answer's."""

    finish_reason: Any = UNSET
    message: _RawValue = UNSET
    delta: _RawValue = UNSET
    text: _RawValue = UNSET
    turns: _RawValue = UNSET
    new_tokens: Any = UNSET


class Message(msgspec.Struct):
    """``message`` or ``delta`` of a choice."""

    content: _RawValue = UNSET
    reasoning: _RawValue = UNSET
    reasoning_content: _RawValue = UNSET
    tool_calls: _RawValue = UNSET


class Turn(msgspec.Struct, rename={"sender": "from"}):
    """One of ``conversations``."""

    role: Any = UNSET
    sender: Any = UNSET


class Statistics(msgspec.Struct):
    """``statistics_<step>`` of distilabel: a number, or one for each generation."""

    input_tokens: Any = UNSET
    output_tokens: Any = UNSET


_LINE: Final = msgspec.json.Decoder(Line)
_ITEMS: Final = msgspec.json.Decoder(list[Raw])
_FIELDS: Final = msgspec.json.Decoder(dict[str, Raw])
_ID_FIELDS: Final = (
    "sample_id",
    "custom_id",
    "id",
    "conversation_id",
    "question_id",
    "primary_id",
)


def read_line(text: bytes) -> Line:
    """Decode one JSON object.

    Raises:
        UnreadableError: It is not JSON, with the byte; or not an object.
    """
    aside = set_aside(text)
    if aside is not None:
        line = _decode(aside[0])
        if line is not None and line.output_ids is not UNSET and bytes(line.output_ids) == ASIDE:
            line.n_output_ids = aside[1]
            return line
    # There are no ids, or they are deeper inside, in another spelling, or in a line that needs a closer look.
    line = _decode(text) or _lenient(text)
    line.n_output_ids = None if line.output_ids is UNSET else count_ids(bytes(line.output_ids))
    return line


def _decode(text: bytes) -> Line | None:
    try:
        return _LINE.decode(text)
    except msgspec.DecodeError:
        return None


def read_items(text: bytes) -> list[bytes]:
    """Return the values of a JSON array, each as its own text.

    Raises:
        UnreadableError: It is not JSON, with the byte.
    """
    try:
        return [bytes(item) for item in _ITEMS.decode(text)]
    except msgspec.DecodeError:
        items: list[Any] = _loads(text)
        return [json.dumps(item).encode() for item in items]


def read_kind(text: bytes) -> str:
    """Return in words what a JSON text is.

    Raises:
        UnreadableError: It is not JSON, with the byte.
    """
    return kind(_loads(text))


def read_keys(text: bytes) -> list[str]:
    """Return the keys of a JSON object that `read_line` has accepted."""
    try:
        return list(_FIELDS.decode(text))
    except msgspec.DecodeError:
        return list(_loads(text))


def read_field(raw: _RawValue, decoder: msgspec.json.Decoder[_T]) -> _T | None:
    """Decode a nested value; None when it is absent or of another form than ``decoder`` knows.

    Raises:
        UnreadableError: It holds a number that no reader can represent.
    """
    if raw is UNSET:
        return None
    try:
        return decoder.decode(raw)
    except msgspec.ValidationError as error:
        if "out of range" in str(error):
            raise UnreadableError("a number is out of range") from error
        return None


def is_object(raw: _RawValue) -> bool:
    """Return whether a value is there and is a JSON object."""
    return raw is not UNSET and bytes(raw)[:1] == b"{"


def _lenient(text: bytes) -> Line:
    """Read what msgspec refuses and other tools write: halves of surrogate pairs, NaN.

    The line is written again without them; only the id keeps its own text, since it must match its prompt.
    """
    value = _loads(text)
    if not isinstance(value, dict):
        raise UnreadableError("not a JSON object")
    line = _LINE.decode(json.dumps(_clean(value)))
    for name in _ID_FIELDS:
        if name in value:
            setattr(line, name, value[name])
    return line


def plain_object(text: bytes) -> bytes:
    """Return a JSON value without what msgspec refuses and other tools write: halves of surrogate pairs, NaN.

    Raises:
        UnreadableError: It is not JSON.
        UnicodeDecodeError: It is not UTF-8.
    """
    return json.dumps(_clean(_loads(text))).encode()


def _loads(text: bytes) -> Any:
    string = text.decode("utf-8")
    try:
        return json.loads(string)
    except json.JSONDecodeError as error:
        place = len(string[: error.pos].encode("utf-8"))
        what = error.msg[:1].lower() + error.msg[1:].removesuffix(" at")
        if error.msg == "Extra data":
            what = "a second JSON value or other text begins"
        raise UnreadableError(f"not JSON: {what}", place) from error
    except ValueError as error:  # the interpreter's limit on the digits of an integer
        raise UnreadableError("a number with too many digits") from error


def _clean(value: Any) -> Any:
    if isinstance(value, str):
        return value.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")
    if isinstance(value, float) and not math.isfinite(value):
        return str(value)  # a text where a number belongs: refused as a count, ignored elsewhere
    if isinstance(value, dict):
        return {_clean(key): _clean(item) for key, item in value.items()}
    if isinstance(value, list):
        return [_clean(item) for item in value]
    return value
