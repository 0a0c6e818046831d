"""Judging an answer of ``/generate`` without building its ids: their number is checked, they are passed on as text."""

from __future__ import annotations

import re
from typing import Final

import msgspec

from contracts.sglang import GenerateAnswer, decode_answer, error_text

_ESCAPE: Final = re.compile(
    rb"\\(?:u[dD][89abAB][0-9a-fA-F]{2}\\u[dD][c-fC-F][0-9a-fA-F]{2}|(u[dD][89a-fA-F][0-9a-fA-F]{2})|.)"
)
"""One JSON escape; the group matches a half of a surrogate pair without its other half."""


def parse_answer(body: bytes) -> GenerateAnswer | str:
    """Decode a 200 body, or say how it breaks the agreed shape.

    A lone half of a surrogate pair, legal as an escape in JSON and no character, is read as U+FFFD: a model may say
    one, its ids are what counts.
    """
    try:
        return decode_answer(body)
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        whole = _ESCAPE.sub(_whole_escape, body)
        if whole != body:
            return parse_answer(whole)
        return f"does not have the agreed shape ({error}); it begins with: {error_text(body, 120)}"


def _whole_escape(escape: re.Match[bytes]) -> bytes:
    return rb"\ufffd" if escape[1] else escape[0]


def disagreement(answer: GenerateAnswer, rid: str, prompt_tokens: int) -> str | None:
    """Return how an answer breaks the contract, or None when it is ours and agrees with itself."""
    meta = answer.meta_info
    if meta.id != rid:
        return f"is to another request (meta_info.id {meta.id[:60]!r}, sent {rid!r})"
    if meta.finish_reason is None:
        return "has no meta_info.finish_reason: it is not finished"
    if meta.prompt_tokens != prompt_tokens:
        return (
            f"is to another prompt: {prompt_tokens} input_ids were sent, meta_info.prompt_tokens is "
            f"{meta.prompt_tokens} (does the server read another field than input_ids?)"
        )
    count = count_ids(answer.output_ids)
    if count is None:
        return "holds output_ids that are no flat list of token ids"
    if count != meta.completion_tokens:
        return f"contradicts itself: meta_info.completion_tokens is {meta.completion_tokens}, output_ids are {count}"
    return None


def is_json(body: bytes) -> bool:
    """Whether a body is JSON at all, of whatever shape; a page of a proxy or half an answer is not."""
    try:
        msgspec.json.decode(body)
    except (msgspec.DecodeError, UnicodeDecodeError):
        return False
    return True


def count_ids(ids: msgspec.Raw) -> int | None:
    """Return how many ids a JSON array text holds, or None when it is anything but a flat array of whole numbers."""
    text = bytes(ids)
    # One pass at C speed: what is left of a flat array of whole numbers are its brackets and commas.
    rest = text.translate(None, b"0123456789 \n\t\r")
    commas = len(rest) - 2
    if rest != b"[" + b"," * commas + b"]":
        return None
    return commas + 1 if commas or text.translate(None, b"[] \n\t\r") else 0


def one_line(ids: msgspec.Raw) -> msgspec.Raw:
    """Return the same ids on one line: a journal's line may hold no newline, a pretty-printing server's answer does."""
    text = bytes(ids)
    return msgspec.Raw(text.translate(None, b" \n\t\r")) if b"\n" in text or b"\r" in text else ids


def holds_id(ids: msgspec.Raw, token_id: int) -> bool:
    """Whether a token id is among the ids of a JSON array text."""
    return re.search(rb"(?<![0-9])%d(?![0-9])" % token_id, bytes(ids)) is not None
