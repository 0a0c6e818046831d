"""One decoded record of a prompt file, in any shape seen in public, to the prompt it holds or the reason why not.

A shape is known by its keys; where a record has several, the one that holds most of the prompt counts (a list of
messages before the first turn repeated beside it). Keys with null are as if absent. Answers, scores and other columns
are ignored; what would belong to the prompt and cannot be carried (images, tools, choices) refuses the record by name.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final

from contracts.sample_id import SampleId
from daemon.prompts.conversation import TOOLS_WHY, Message, read_conversation
from daemon.prompts.refusals import Refusal, describe, quoted
from daemon.prompts.token_ids import ids_fault, mask_fault


@dataclass(frozen=True, slots=True)
class TokenPrompt:
    """Token ids, ready to be sent. With a loss mask it is a finished sample: extracted, not generated."""

    sample_id: SampleId | None
    input_ids: list[int]
    loss_mask: list[int] | None = None


@dataclass(frozen=True, slots=True)
class ChatPrompt:
    """Messages that a chat template turns into a prompt; the last one is the user's."""

    sample_id: SampleId | None
    messages: list[Message]


@dataclass(frozen=True, slots=True)
class TextPrompt:
    """Text that is sent as it is, never put through a chat template.

    ``preformatted``: it begins with a template's own marks, so the tokenizer must not add its special tokens either.
    """

    sample_id: SampleId | None
    text: str
    preformatted: bool


PromptShape = TokenPrompt | ChatPrompt | TextPrompt
_Body = list[Message] | PromptShape | Refusal
"""What a shape gives: messages (wrapped by `recognise`), a whole prompt, or a refusal."""

ID_KEYS: Final = ("sample_id", "id", "custom_id", "prompt_id", "question_id", "conversation_id", "uuid")
"""Keys that name a sample, the first one with a value counts. An empty text counts as none, 0 does not."""

_MEDIA_KEYS: Final = ("image", "images", "video", "videos", "audio", "audios")
_TOOL_KEYS: Final = ("tools", "functions")
_UNCARRIED_KEYS: Final = ("choices", "context", "passage")
"""Beside a question these are part of it, and no rule says how to write them into the prompt."""

_TEMPLATE_MARK: Final = re.compile(
    r"\s*(?:<\|[^|<>\s]{1,40}\|>|<｜[^｜<>\s]{1,40}｜>|<s>|<bos>|\[INST\]|<start_of_turn>|\[gMASK\])"
)
"""How text that went through a chat template begins (ChatML, Llama, Mistral, Gemma, DeepSeek, GLM, ...)."""


def recognise(value: object) -> PromptShape | Refusal:
    """Return the prompt that one decoded JSON value holds, or why it holds none. Never raises."""
    if not isinstance(value, dict):
        return Refusal(f"is {describe(value)}, not an object" if not isinstance(value, list) else "is a JSON array")
    sample_id = read_sample_id(value)
    if isinstance(sample_id, Refusal):
        return sample_id
    body = _body(value)
    if isinstance(body, list):
        tools = next((key for key in _TOOL_KEYS if _is_given(value.get(key))), None)
        body = ChatPrompt(None, body) if tools is None else Refusal(f"{tools}: {TOOLS_WHY}")
    if isinstance(body, Refusal):
        return Refusal(body.why, sample_id)
    if isinstance(body, TokenPrompt):
        return TokenPrompt(sample_id, body.input_ids, body.loss_mask)
    if isinstance(body, ChatPrompt):
        return ChatPrompt(sample_id, body.messages)
    return TextPrompt(sample_id, body.text, body.preformatted)


def read_sample_id(record: dict[str, Any]) -> SampleId | Refusal | None:
    """Return the id that a record tells, None when it tells none, a refusal when it could not be written back."""
    for key in ID_KEYS:
        value = record.get(key)
        if value is None or value == "":
            continue
        if isinstance(value, bool) or not isinstance(value, int | str):
            return Refusal(f"{key} is {describe(value)}: an id is text or an integer")
        if isinstance(value, str) and any("\ud800" <= char <= "\udfff" for char in value):
            return Refusal(f"{key} is {quoted(value)}: half a surrogate pair cannot be written as UTF-8")
        return value
    return None


def _body(record: dict[str, Any]) -> _Body:
    for key in _MEDIA_KEYS:
        if _is_given(record.get(key)):
            return Refusal(f"has {key}: only text can be used, not images or media")
    for key, read in _SHAPES.items():
        if record.get(key) is not None:
            return read(record)
    if not record:
        return Refusal("is an empty object")
    names = sorted(map(quoted, record))
    shown = ", ".join(names[:12]) + (", ..." if len(names) > 12 else "")
    nulls = " (null)" if any(key in record for key in _SHAPES) else ""
    return Refusal(f"has no known prompt key: it has {shown}{nulls}; known are {', '.join(_SHAPES)}")


def _is_given(value: object) -> bool:
    """Whether an optional list or its JSON text says anything."""
    return value.strip() not in ("", "[]", "{}", "null") if isinstance(value, str) else bool(value)


def _tokens(record: dict[str, Any]) -> _Body:
    ids, mask, attention = record["input_ids"], record.get("loss_mask"), record.get("attention_mask")
    fault = ids_fault(ids)
    if fault is None and mask is not None:
        fault = mask_fault(mask, len(ids))
    if fault is None and attention is not None:
        fault = mask_fault(attention, len(ids), "attention_mask")
        if fault is None and 0 in attention:
            fault = f"attention_mask[{attention.index(0)}] is 0: padded rows cannot be used"
    return TokenPrompt(None, ids, mask) if fault is None else Refusal(fault)


def _turn_list(key: str) -> Callable[[dict[str, Any]], _Body]:
    def read(record: dict[str, Any]) -> _Body:
        system = _system(record)
        return system if isinstance(system, Refusal) else read_conversation(record[key], key, system)

    return read


def _batch_request(record: dict[str, Any]) -> _Body:
    body, url = record["body"], record.get("url")
    if isinstance(url, str) and not url.rstrip("/").endswith("/completions"):
        return Refusal(f"is a request to {quoted(url)}: not a generation")
    if not isinstance(body, dict):
        return Refusal(f"body is {describe(body)}, not a request")
    for key in _TOOL_KEYS:
        if _is_given(body.get(key)):
            return Refusal(f"body has {key}: {TOOLS_WHY}")
    if body.get("messages") is not None:
        return read_conversation(body["messages"], "body.messages")
    prompt = body.get("prompt")
    if isinstance(prompt, str):
        return _final_text(prompt, "body.prompt")
    if isinstance(prompt, list):
        fault = ids_fault(prompt, "body.prompt")
        return TokenPrompt(None, prompt) if fault is None else Refusal(fault)
    return Refusal("body has neither messages nor a prompt")


def _first_turn(record: dict[str, Any]) -> _Body:
    turns = record["turns"]
    if not isinstance(turns, list) or not turns:
        return Refusal("turns is empty" if turns == [] else f"turns is {describe(turns)}, not a list")
    if isinstance(turns[0], dict):
        return _turn_list("turns")(record)
    return _single(record, turns[0], "turns[0]")


def _query(record: dict[str, Any]) -> _Body:
    turns: list[dict[str, object]] = []
    history = record.get("history") or []
    if not isinstance(history, list):
        return Refusal(f"history is {describe(history)}, not a list of pairs")
    for number, pair in enumerate(history, 1):
        if not isinstance(pair, list) or len(pair) != 2:
            return Refusal(f"entry {number} of history is no pair of query and response")
        turns += [{"role": "user", "content": pair[0]}, {"role": "assistant", "content": pair[1]}]
    turns.append({"role": "user", "content": record["query"]})
    system = _system(record)
    return system if isinstance(system, Refusal) else read_conversation(turns, "history + query", system)


def _instruction(record: dict[str, Any]) -> _Body:
    text, extra = record["instruction"], record.get("input")
    if isinstance(text, str) and isinstance(extra, str) and extra.strip():
        text = f"{text}\n\n{extra}" if text.strip() else extra
    return _single(record, text, "instruction")


def _input(record: dict[str, Any]) -> _Body:
    return (
        _turn_list("input")(record) if isinstance(record["input"], list) else _single(record, record["input"], "input")
    )


def _prompt(record: dict[str, Any]) -> _Body:
    prompt = record["prompt"]
    if isinstance(prompt, list):
        if prompt and not isinstance(prompt[0], dict):
            fault = ids_fault(prompt, "prompt")
            return TokenPrompt(None, prompt) if fault is None else Refusal(fault)
        return _turn_list("prompt")(record)
    if isinstance(prompt, str) and _TEMPLATE_MARK.match(prompt):
        return TextPrompt(None, prompt, preformatted=True)
    return _single(record, prompt, "prompt")


def _question(key: str) -> Callable[[dict[str, Any]], _Body]:
    def read(record: dict[str, Any]) -> _Body:
        for beside in _UNCARRIED_KEYS:
            if _is_given(record.get(beside)):
                return Refusal(f"has {beside} beside {key}: no rule says how they belong into the prompt")
        text, options = record[key], record.get("options")
        if isinstance(options, list) and all(isinstance(option, str) for option in options):
            options = "\n".join(options)
        if options is not None and not isinstance(options, str):
            return Refusal(f"options is {describe(options)}, not text or a list of texts")
        if isinstance(text, str) and text.strip() and options and options.strip():
            text = f"{text}\n\n{options}"
        return _single(record, text, key)

    return read


def _text(record: dict[str, Any]) -> _Body:
    return _final_text(record["text"], "text")


def _single(record: dict[str, Any], text: object, key: str) -> _Body:
    """One user turn, with the system text beside it."""
    if not isinstance(text, str):
        return Refusal(f"{key} is {describe(text)}, not text")
    if not text.strip():
        return Refusal(f"{key} is {'blank' if text else 'empty'}: an empty prompt is never sent")
    system = _system(record)
    return (
        system if isinstance(system, Refusal) else read_conversation([{"role": "user", "content": text}], key, system)
    )


def _final_text(text: object, key: str) -> _Body:
    if not isinstance(text, str):
        return Refusal(f"{key} is {describe(text)}, not text")
    if not text.strip():
        return Refusal(f"{key} is {'blank' if text else 'empty'}: an empty prompt is never sent")
    return TextPrompt(None, text, preformatted=_TEMPLATE_MARK.match(text) is not None)


def _system(record: dict[str, Any]) -> str | Refusal:
    """The system text beside the turns, or an empty text."""
    for key in ("system", "system_prompt"):
        value = record.get(key)
        if value is not None and not isinstance(value, str):
            return Refusal(f"{key} is {describe(value)}, not text")
        if value:
            return value
    return ""


_SHAPES: Final[dict[str, Callable[[dict[str, Any]], _Body]]] = {
    "input_ids": _tokens,
    "body": _batch_request,
    "messages": _turn_list("messages"),
    "conversations": _turn_list("conversations"),
    "conversation": _turn_list("conversation"),
    "turns": _first_turn,
    "query": _query,
    "instruction": _instruction,
    "prompt": _prompt,
    "input": _input,
    "question": _question("question"),
    "problem": _question("problem"),
    "Problem": _question("Problem"),
    "message_1": _question("message_1"),
    "text": _text,
}
"""Key that shows a shape -> its reader, in the order in which they are tried."""
