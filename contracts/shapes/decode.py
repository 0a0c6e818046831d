"""The way in: one line of a response file -> facts, or why it cannot be read."""

from __future__ import annotations

from dataclasses import replace
from typing import Final

from msgspec import UNSET

from contracts.shapes.answer import FAILED_REASONS, abort_message, metadata_of, read_answer, stamp, verdict
from contracts.shapes.facts import BadLine, Outcome, ResponseFact, merge_parts
from contracts.shapes.line import Line, is_object, read_items, read_keys, read_kind, read_line
from contracts.shapes.other_tools import read_distilabel, read_rollouts
from contracts.shapes.values import NoShapeError, UnreadableError, count, id_key, printable, reason_of

_BOM: Final = b"\xef\xbb\xbf"
_MAX_NESTING: Final = 4
"""``response`` in ``response`` in ...: no tool goes beyond ``response.body``."""
_SHOWN_KEYS: Final = 8


def decode_response_line(line: bytes) -> list[ResponseFact] | BadLine:
    """Read one line of a response file, of any known shape (see the package).

    Args:
        line: The line, without its newline.

    Returns:
        Its facts: usually one, several for a list or several rollouts, none for a blank line or an end marker; or why
        it cannot be read.
    """
    text = line.removeprefix(_BOM).lstrip()
    start = len(line) - len(text)
    if not text:
        return []
    try:
        if not text.isascii():
            text.decode("utf-8")
        facts = _records(text, None, 0)
    except UnreadableError as error:
        return BadLine(str(error) if error.place is None else f"{error} at byte {start + error.place}")
    except UnicodeDecodeError as error:
        return BadLine(f"not UTF-8: {error.reason} at byte {start + error.start}")
    except RecursionError:
        return BadLine("nested too deeply to be read")
    return facts if len(facts) < 2 else _distinct(facts)


def _records(text: bytes, key: bytes | None, depth: int) -> list[ResponseFact]:
    """Read an object, or a list of them."""
    if text[:1] == b"{":
        return _record(text, key, depth)
    if text[:1] == b"[":
        items = read_items(text)
        if not items:
            raise UnreadableError("an empty JSON array")
        facts: list[ResponseFact] = []
        for number, item in enumerate(items, 1):
            if item[:1] != b"{":
                raise UnreadableError(f"a JSON array whose value {number} is {read_kind(item)}, not an object")
            try:
                facts += _record(item, key, depth)
            except UnreadableError as error:
                raise UnreadableError(f"a JSON array whose object {number} cannot be read: {error}") from error
        return facts
    if not text.strip(b"\0"):
        raise UnreadableError(f"{len(text)} NUL bytes: a hole that a crash or a full disk left in the file")
    raise UnreadableError(f"{read_kind(text)} where a JSON object belongs")


def _record(text: bytes, outer: bytes | None, depth: int) -> list[ResponseFact]:
    line = read_line(text)
    key = outer if outer is not None else _key(line)
    if line.completion_tokens is UNSET or line.completion_tokens is None:
        if line.metadata is not UNSET and (facts := read_rollouts(line, key)) is not None:
            return facts
        if (facts := read_distilabel(line, key)) is not None:
            return facts
        if (inner := _inner(line, depth)) is not None:
            try:
                return _unwrapped(line, inner, key, depth)
            except NoShapeError:
                if (fact := read_answer(line, key)) is None:
                    raise
                return [fact]
    if (fact := read_answer(line, key)) is not None:
        return [fact]
    return _without_answer(text, line, key)


def _key(line: Line) -> bytes | None:
    if (key := id_key(line.sample_id, "sample_id")) is not None:
        return key
    for name in ("custom_id", "id", "conversation_id", "question_id", "primary_id", "async_position"):
        if (key := id_key(getattr(line, name), name)) is not None:
            return key
    return None


def _inner(line: Line, depth: int) -> bytes | None:
    """Return the object or list that holds the answer, when this one only wraps it."""
    if depth >= _MAX_NESTING or is_object(line.usage) or line.meta_info is not UNSET or line.choices is not UNSET:
        return None
    for raw in (line.response, line.raw, line.body if depth else UNSET):
        if raw is not UNSET:
            text = bytes(raw)
            if text[:1] in (b"{", b"["):
                return text
    return None


def _unwrapped(line: Line, inner: bytes, key: bytes | None, depth: int) -> list[ResponseFact]:
    """Read what ``response``, ``body`` or ``raw`` holds; what stands around it decides on failure and adds values."""
    if (stated := verdict(line, metadata_of(line))) is not None:
        return [ResponseFact(key, stated[0], message=stated[1])]
    if inner in (b"{}", b"[]"):
        return [_refused(line, key, None) or ResponseFact(key, Outcome.EMPTY)]
    try:
        facts = _records(inner, key, depth + 1)
    except NoShapeError:
        if (refused := _refused(line, key, None)) is not None:
            return [refused]
        raise
    if (refused := _refused(line, key, facts)) is not None:
        return [refused]
    return [_completed(facts[0], line)] if len(facts) == 1 else facts


def _refused(line: Line, key: bytes | None, facts: list[ResponseFact] | None) -> ResponseFact | None:
    """Return the failure that an HTTP status beside the body states."""
    status = line.status_code
    if type(status) is not int or status < 400:
        return None
    said = next((fact.message for fact in facts or () if fact.message), None)
    return ResponseFact(key, Outcome.FAILED, message=f"HTTP {status}" + (f": {said}" if said else ""))


def _completed(fact: ResponseFact, line: Line) -> ResponseFact:
    """Add what the outer object knows and the inner one does not say."""
    if fact.outcome is Outcome.COMPLETE and fact.finish_reason is None:
        reason = reason_of(line.finish_reason)
        if reason in FAILED_REASONS:
            why = abort_message(line.finish_reason, reason)
            fact = replace(fact, outcome=Outcome.FAILED, finish_reason=reason, message=why)
        elif reason is None:
            fact = replace(fact, outcome=Outcome.INCOMPLETE, part=True)
        elif reason is not UNSET:
            fact = replace(fact, finish_reason=reason)
    prompt = count(line.prompt_tokens, "prompt_tokens")
    return replace(
        fact,
        prompt_tokens=prompt if fact.prompt_tokens is None else fact.prompt_tokens,
        n_output_ids=line.n_output_ids if fact.n_output_ids is None else fact.n_output_ids,
        finished_at=stamp(line.finished_at) if fact.finished_at is None else fact.finished_at,
        started_at=stamp(line.started_at) if fact.started_at is None else fact.started_at,
    )


def _without_answer(text: bytes, line: Line, key: bytes | None) -> list[ResponseFact]:
    """Judge an object without any sign of an answer: an end marker, a row without its answer, or nothing known."""
    if (refused := _refused(line, key, None)) is not None:
        return [refused]
    keys = read_keys(text)
    if keys == ["finished"] and type(line.finished) is bool:
        return []
    if set(keys) <= {"conversation_id", "truncated"} and key is not None:
        return [ResponseFact(key, Outcome.EMPTY)]
    if not keys:
        raise NoShapeError("an empty JSON object")
    shown = ", ".join(printable(name, 40) for name in keys[:_SHOWN_KEYS])
    more = f" and {len(keys) - _SHOWN_KEYS} more" if len(keys) > _SHOWN_KEYS else ""
    raise NoShapeError(f"a JSON object of no known shape (keys: {shown}{more})")


def _distinct(facts: list[ResponseFact]) -> list[ResponseFact]:
    """Merge the pieces of one stream, and tell apart several generations of one id by ``#1``, ``#2``."""
    merged: list[ResponseFact] = []
    for fact in facts:
        last = merged[-1] if merged else None
        if last is not None and last.part and last.key is not None and last.key == fact.key:
            merged[-1] = merge_parts(last, fact)
        else:
            merged.append(fact)
    seen: dict[bytes, int] = {}
    for place, fact in enumerate(merged):
        if fact.key is None:
            continue
        number = seen.get(fact.key, 0)
        seen[fact.key] = number + 1
        if number:
            merged[place] = replace(fact, key=fact.key + b"#%d" % number)
    return merged
