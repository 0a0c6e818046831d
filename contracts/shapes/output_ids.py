"""Which response of a sample counts, and the token ids that its line holds: one rule for all who need the ids.

As in the fold (`contracts.fold.responses`) the first accepted response of a sample counts, whatever comes later. Its
ids can be used when they are a list of values as long as the count that the line states: a line that contradicts itself
has none that anybody could trust, and neither have the pieces of a stream.
"""

from __future__ import annotations

from typing import Final, NamedTuple

import msgspec
from msgspec import UNSET, Raw, UnsetType

from contracts.records import Response
from contracts.sample_id import sample_key
from contracts.shapes.answer import FAILED_REASONS, stamp
from contracts.shapes.decode import decode_response_line
from contracts.shapes.facts import BadLine, Outcome, ResponseFact, merge_parts
from contracts.shapes.ids import ASIDE, count_ids, set_aside
from contracts.shapes.line import plain_object, read_items
from contracts.shapes.values import MAX_COUNT, UnreadableError

_BOM: Final = b"\xef\xbb\xbf"
_BLANKS: Final = b"\xef\xbb\xbf \t\r"
_MOST_NESTING: Final = 4


class Answer(NamedTuple):
    """One answer, as one line states it."""

    key: bytes
    """``sample_key`` of its sample."""
    output_ids: bytes | None
    """JSON text of a list with as many values as the line counts; None: there is none to be used."""
    n_output_ids: int | None
    completion_tokens: int | None
    prompt_tokens: int | None
    finish_reason: str | None
    finished_at: float | None
    think_end: bool | None
    unfinished: ResponseFact | None = None
    """What the line says, when its answer has no end in it: a piece of a stream, or cut short."""


class AcceptedResponses:
    """Tells, line by line through one response file, which answers count.

    Remembers the key of every sample that has one, and unfinished answers, as the fold does.
    """

    def __init__(self) -> None:
        self._seen: set[bytes] = set()
        self._parts: dict[bytes, ResponseFact] = {}

    def reset(self) -> None:
        """Begin with another file."""
        self._seen.clear()
        self._parts.clear()

    def of_line(self, line: bytes) -> list[Answer]:
        """Return the answers of the next line that count; none for one that cannot be read.

        Args:
            line: Without its newline.
        """
        found = []
        for answer in answers_of(line):
            if answer.key in self._seen:
                continue
            if answer.unfinished is not None:
                merged = self._joined(answer.key, answer.unfinished)
                if merged is None:
                    continue
                answer = _answer(merged, answer.key, None)
            self._seen.add(answer.key)
            self._parts.pop(answer.key, None)
            found.append(answer)
        return found

    def _joined(self, key: bytes, fact: ResponseFact) -> ResponseFact | None:
        """Put a piece to those before it; return the whole once it is one."""
        older = self._parts.get(key)
        if fact.part and older is not None:
            fact = merge_parts(older, fact)
        self._parts[key] = fact
        return fact if fact.outcome is Outcome.COMPLETE else None


class _Ours(Response, kw_only=True, forbid_unknown_fields=True):
    """A line as our writer makes it: any further key might change what it means. Its ids are not decoded."""


_OURS: Final = msgspec.json.Decoder(_Ours)


def answers_of(line: bytes) -> list[Answer]:
    """Return the answers of one line, accepted and unfinished ones; none of failures and of an unreadable line.

    Args:
        line: Without its newline.
    """
    aside = set_aside(line)
    if aside is None:
        return _foreign(line)
    rest, count = aside
    try:
        ours = _OURS.decode(rest)
    except (msgspec.DecodeError, UnicodeDecodeError):
        return _foreign(line)
    plain = ours.sample_id != "" and max(ours.completion_tokens, ours.prompt_tokens) <= MAX_COUNT
    if not plain or not ours.finish_reason or ours.finish_reason in FAILED_REASONS or bytes(ours.output_ids) != ASIDE:
        return _foreign(line)
    start = rest.find(ASIDE)
    text = line[start : start + len(line) - len(rest) + len(ASIDE)]
    return [
        Answer(
            sample_key(ours.sample_id),
            text if count == ours.completion_tokens else None,
            count,
            ours.completion_tokens,
            ours.prompt_tokens,
            ours.finish_reason,
            stamp(ours.finished_at),
            ours.think_end,
        )
    ]


def ids_in(line: bytes, key: bytes) -> bytes | None:
    """Return the JSON text of the ids that a line holds for a sample; None when there are none that can be used."""
    return next((answer.output_ids for answer in answers_of(line) if answer.key == key), None)


def _foreign(line: bytes) -> list[Answer]:
    facts = decode_response_line(line)
    if isinstance(facts, BadLine):
        return []
    objects: list[bytes] = read_items(line.lstrip(_BLANKS)) if line.lstrip(_BLANKS).startswith(b"[") else [line]
    whole = len(objects) == len(facts)  # else several answers in one object: no known tool writes ids there
    found = []
    for place, fact in enumerate(facts):
        if fact.key is None or not (fact.part or fact.outcome in (Outcome.COMPLETE, Outcome.INCOMPLETE)):
            continue
        if fact.part or fact.outcome is Outcome.INCOMPLETE:
            found.append(_answer(fact, fact.key, None)._replace(unfinished=fact))
        else:
            found.append(_answer(fact, fact.key, output_ids_of(objects[place]) if whole else None))
    return found


def _answer(fact: ResponseFact, key: bytes, text: bytes | None) -> Answer:
    """Return what a fact says, with its ids when they agree with its count."""
    count = fact.n_output_ids if text is None else count_ids(text)
    agrees = text is not None and count is not None and fact.completion_tokens in (None, count)
    return Answer(
        key,
        text if agrees else None,
        count,
        fact.completion_tokens,
        fact.prompt_tokens,
        fact.finish_reason,
        fact.finished_at,
        fact.think_end,
    )


class _Holder(msgspec.Struct):
    """Where known shapes keep ids: at the top, or in what they wrap."""

    output_ids: Raw | UnsetType = UNSET
    response: Raw | UnsetType = UNSET
    raw: Raw | UnsetType = UNSET
    body: Raw | UnsetType = UNSET


_HOLDER: Final = msgspec.json.Decoder(_Holder)


def output_ids_of(text: bytes) -> bytes | None:
    """Return the text of an object's ``output_ids``. Ids of another name (logprobs, ``tokens``) are not guessed at."""
    text = text.removeprefix(_BOM).strip()
    for _ in range(_MOST_NESTING):
        holder = _holder(text)
        if holder is None:
            return None
        if holder.output_ids is not UNSET:
            return bytes(holder.output_ids)
        inner = [bytes(each) for each in (holder.response, holder.raw, holder.body) if each is not UNSET]
        text = next((each for each in inner if each.startswith(b"{")), b"")
    return None


def _holder(text: bytes) -> _Holder | None:
    if not text.startswith(b"{"):
        return None
    try:
        return _HOLDER.decode(text)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        pass
    try:
        return _HOLDER.decode(plain_object(text))  # halves of surrogate pairs in its text, NaN: readable all the same
    except (msgspec.DecodeError, UnreadableError, UnicodeDecodeError, RecursionError):
        return None
