"""One answer of a server: our record, SGLang's raw body, the OpenAI API's body and its stream chunks.

They are read by one function, since files mix them and records often are one of them with keys of another added.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

import msgspec
from msgspec import UNSET, Raw, UnsetType

from contracts.shapes.facts import Outcome, ResponseFact
from contracts.shapes.line import Choice, Line, Message, Meta, Metadata, Turn, Usage, is_object, read_field
from contracts.shapes.values import count, given, id_key, message_of, reason_of

_USAGE: Final = msgspec.json.Decoder(Usage)
_META: Final = msgspec.json.Decoder(Meta)
_METADATA: Final = msgspec.json.Decoder(Metadata)
_CHOICES: Final = msgspec.json.Decoder(list[Choice])
_MESSAGE: Final = msgspec.json.Decoder(Message)
_TURNS: Final = msgspec.json.Decoder(list[Turn])
_ANY: Final = msgspec.json.Decoder(Any)

FAILED_REASONS: Final = ("abort", "error")
_FAILED_STATUS: Final = ("error", "failed", "failure")
_ASKING: Final = ("user", "human", "system")


def metadata_of(line: Line) -> Metadata | None:
    """Return ``metadata`` when it is an object."""
    return read_field(line.metadata, _METADATA)


def error_of(line: Line, metadata: Metadata | None = None) -> str | None:
    """Return the sentence of the line's error; None when it states none."""
    message = None
    if line.error is not UNSET:
        message = message_of(_ANY.decode(line.error))
    if message is None and metadata is not None:
        message = message_of(metadata.error)
    if line.object == "error":
        message = message or message_of(read_field(line.message, _ANY)) or "error"
    return message


def verdict(line: Line, metadata: Metadata | None) -> tuple[Outcome, str] | None:
    """Return whether the line says of itself that there is no answer, and why."""
    status = line.status.lower() if type(line.status) is str else None
    message = error_of(line, metadata)
    if status == "skipped":
        return Outcome.SKIPPED, message or "skipped"
    if message is not None:
        return Outcome.FAILED, message
    if status in _FAILED_STATUS:
        return Outcome.FAILED, f"status {status}"
    if line.generation is not UNSET and bytes(line.generation) == b"null":
        return Outcome.FAILED, "generation is null"
    return None


def read_answer(line: Line, key: bytes | None) -> ResponseFact | None:
    """Read one answer.

    Args:
        line: The object that holds it.
        key: Of the sample; None when neither this object nor one around it has an id, except ``meta_info.id``.

    Returns:
        What it states; None when there is no sign of an answer or a failure in it.

    Raises:
        UnreadableError: A count is no count.
    """
    meta = read_field(line.meta_info, _META)
    metadata = metadata_of(line)
    choices = read_field(line.choices, _CHOICES)
    if key is None and meta is not None and type(meta.id) in (str, int):
        key = id_key(meta.id, "meta_info.id")
    n_ids = line.n_output_ids
    prompt, completion = _counts(line, meta, metadata, choices)
    if completion == 0 and not n_ids and _has_text(line, choices):
        prompt, completion = prompt or None, None
    reason, message = _ending(line, meta, metadata, choices)
    part = False

    stated = verdict(line, metadata)
    if stated is not None:
        outcome, message = stated
    elif message is not None:
        outcome = Outcome.FAILED
    elif _is_chunk(line, choices):
        part = True
        outcome = Outcome.COMPLETE if type(reason) is str and completion is not None else Outcome.INCOMPLETE
        message = None
    elif completion is not None or n_ids or _is_answered(line, choices):
        part = reason is None
        outcome = Outcome.INCOMPLETE if part else Outcome.COMPLETE
    elif (meta is not None and reason is not UNSET) or _has_place(line, choices):
        # The place for an answer is there. With a finish reason it is an empty answer, otherwise there is none.
        part = reason is None
        outcome = Outcome.COMPLETE if reason else Outcome.INCOMPLETE if part else Outcome.EMPTY
    else:
        return None
    return ResponseFact(
        key=key,
        outcome=outcome,
        prompt_tokens=prompt,
        completion_tokens=completion,
        finish_reason=reason if type(reason) is str else None,
        n_output_ids=n_ids,
        finished_at=stamp(line.finished_at),
        started_at=stamp(line.started_at),
        think_end=line.think_end if type(line.think_end) is bool else None,
        message=message,
        part=part,
    )


def stamp(value: Any) -> float | None:
    """Return a time of our clock; None when it is absent or no positive number."""
    return float(value) if type(value) in (float, int) and 0 < value < 1e12 else None


def _counts(
    line: Line, meta: Meta | None, metadata: Metadata | None, choices: list[Choice] | None
) -> tuple[int | None, int | None]:
    """Return prompt and completion tokens from the first place that states the latter."""
    prompt = count(line.prompt_tokens, "prompt_tokens")
    completion = count(line.completion_tokens, "completion_tokens")
    if completion is not None:
        return prompt, completion
    for name, usage in _usages(line, meta, metadata):
        completion = count(usage.completion_tokens, f"{name}.completion_tokens")
        if prompt is None:
            prompt = count(usage.prompt_tokens, f"{name}.prompt_tokens")
        if completion is not None:
            return prompt, completion
    completion = count(line.num_generated_tokens, "num_generated_tokens")
    if completion is None and choices:
        completion = _new_tokens(choices)
    return prompt, completion


def _usages(line: Line, meta: Meta | None, metadata: Metadata | None) -> Iterator[tuple[str, Usage | Meta]]:
    if usage := read_field(line.usage, _USAGE):
        yield "usage", usage
    if meta is not None:
        yield "meta_info", meta
    if metadata is not None and (usage := read_field(metadata.usage, _USAGE)):
        yield "metadata.usage", usage


def _new_tokens(choices: list[Choice]) -> int | None:
    """Return the sum over all turns of all choices; None when one of them is not counted."""
    total = 0
    for choice in choices:
        turns = choice.new_tokens
        if turns is UNSET or turns is None:
            return None
        for value in turns if type(turns) is list else (turns,):
            tokens = count(value, "choices[].new_tokens")
            if tokens is None:
                return None
            total += tokens
    return total


def _ending(
    line: Line, meta: Meta | None, metadata: Metadata | None, choices: list[Choice] | None
) -> tuple[str | UnsetType | None, str | None]:
    """Return the finish reason (None: stated as null; UNSET: not stated) and, for an abort, its message.

    Of several choices an aborted one decides, then one without an end, then the first.
    """
    stated = [line.finish_reason]
    if meta is not None:
        stated.append(meta.finish_reason)
    if metadata is not None:
        stated.append(metadata.finish_reason)
    reason: str | UnsetType | None = UNSET
    for finish in stated:
        if (found := reason_of(finish)) is UNSET:
            continue
        if found in FAILED_REASONS:
            return found, abort_message(finish, found)
        reason = reason or found
    if type(reason) is str or not choices:
        if reason is UNSET and line.truncated is True:
            reason = "length"
        return reason, None
    ends = [reason_of(choice.finish_reason) for choice in choices]
    for failed in FAILED_REASONS:
        if failed in ends:
            return failed, abort_message(None, failed)
    return None if None in ends else ends[0], None


def abort_message(finish: Any, reason: object) -> str:
    """Return why an answer with a failed finish reason was ended."""
    stated = message_of(finish.get("message")) if type(finish) is dict else None
    return stated or f"the server ended it with finish_reason {reason}"


def _is_chunk(line: Line, choices: list[Choice] | None) -> bool:
    """Return whether this is a piece of an OpenAI-style stream; the last one has only a usage."""
    if type(line.object) is str and line.object.endswith(".chunk"):
        return True
    if choices is None:
        return False
    return any(choice.delta is not UNSET for choice in choices) if choices else is_object(line.usage)


def _is_answered(line: Line, choices: list[Choice] | None) -> bool:
    return bool(choices) or _has_text(line, None)


def _has_place(line: Line, choices: list[Choice] | None) -> bool:
    """Return whether there is a key for generated text or ids, if an empty one."""
    return (
        choices is not None
        or (line.response is not UNSET and not given(line.response))
        or any(raw is not UNSET for raw in (line.text, line.generation, line.conversations, line.output_ids))
    )


def _has_text(line: Line, choices: list[Choice] | None) -> bool:
    """Return whether text was generated: anywhere, thinking and tool calls included."""
    if given(line.text) or given(line.generation) or _is_text(line.response):
        return True
    if turns := read_field(line.conversations, _TURNS):
        last = turns[-1]
        role = last.sender if last.role is UNSET else last.role
        if role not in _ASKING:
            return True
    return any(_choice_has_text(choice) for choice in choices or ())


def _choice_has_text(choice: Choice) -> bool:
    if given(choice.text) or given(choice.turns):
        return True
    for raw in (choice.message, choice.delta):
        message = read_field(raw, _MESSAGE)
        if message is not None and (
            given(message.content)
            or given(message.reasoning)
            or given(message.reasoning_content)
            or given(message.tool_calls)
        ):
            return True
    return False


def _is_text(raw: Raw | UnsetType) -> bool:
    return given(raw) and bytes(raw)[:1] == b'"'  # type: ignore[arg-type]
