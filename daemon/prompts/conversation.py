"""Turns of a conversation, in the spellings seen in public files, to the messages of a prompt.

The prompt is everything up to and including the last user turn: what follows it is another model's answer and is
dropped, since the target model answers itself. The rules for what is left, each refusal naming its turn:

- only user, assistant and at most one system turn, and that one first (an empty system turn is as if absent);
- the first other turn is the user's, then user and assistant alternate: chat templates of real models refuse or
  silently reorder anything else, so it is refused here, alike for all models;
- no turn of the prompt is null or blank;
- parts of text are joined as they are; images, audio and tool calls among the turns of the prompt are refused by name,
  since token ids made from the text alone would silently lack them.
"""

from __future__ import annotations

from typing import Any, Final

from daemon.prompts.refusals import Refusal, describe, quoted

Message = dict[str, str]
"""``{"role": "system" | "user" | "assistant", "content": text}``, as chat templates take it."""

_ROLES: Final = {
    "system": "system",
    "developer": "system",
    "user": "user",
    "human": "user",
    "assistant": "assistant",
    "gpt": "assistant",
    "model": "assistant",
    "chatgpt": "assistant",
    "bing": "assistant",
    "bard": "assistant",
    "tool": "tool",
    "function": "tool",
    "function_call": "tool",
    "tool_call": "tool",
    "tool_response": "tool",
    "observation": "tool",
}
_TEXT_PARTS: Final = ("text", "input_text")
TOOLS_WHY: Final = "tool calls cannot be carried by a prompt of token ids"


def read_conversation(turns: object, key: str, system: str = "") -> list[Message] | Refusal:
    """Return the messages of the prompt that a list of turns holds.

    Args:
        turns: Decoded list of ``{"role", "content"}`` or ``{"from", "value"}``.
        key: Name of the list in the record, for reasons.
        system: System text that stands beside the list; empty for none.
    """
    if not isinstance(turns, list):
        return Refusal(f"{key} is {describe(turns)}, not a list of turns")
    if not turns:
        return Refusal(f"{key} is empty: a conversation without turns")
    roles: list[str] = []
    for number, turn in enumerate(turns, 1):
        role = _role(turn, f"turn {number} of {key}")
        if isinstance(role, Refusal):
            return role
        roles.append(role)
    if "user" not in roles:
        only = " and ".join(sorted(set(roles)))
        return Refusal(f"{key} has no user turn, only {only}: nothing to answer")
    last_user = len(roles) - 1 - roles[::-1].index("user")
    messages: list[Message] = [{"role": "system", "content": system}] if system.strip() else []
    for number, (role, turn) in enumerate(zip(roles[: last_user + 1], turns, strict=False), 1):
        where = f"turn {number} of {key}"
        if role == "tool":
            return Refusal(f"{where}: {TOOLS_WHY}")
        content = _content(turn, f"{where} ({role})")
        if isinstance(content, Refusal):
            return content
        if role == "system" and not content.strip():
            continue
        out_of_order = _order_fault(role, messages, where)
        if out_of_order is not None:
            return out_of_order
        if not content.strip():
            return Refusal(f"{where} ({role}) is blank")
        messages.append({"role": role, "content": content})
    return messages


def _role(turn: object, where: str) -> str | Refusal:
    """The role in our words; ``tool`` also for an assistant's turn that calls one."""
    if not isinstance(turn, dict):
        return Refusal(f"{where} is {describe(turn)}, not an object with a role and a content")
    name = turn.get("from") if turn.get("role") is None else turn["role"]
    if not isinstance(name, str):
        return Refusal(f"{where} has no role (role or from)")
    role = _ROLES.get(name.strip().lower())
    if role is None:
        return Refusal(f"{where} has the unknown role {quoted(name)}")
    return "tool" if turn.get("tool_calls") or turn.get("function_call") else role


def _order_fault(role: str, before: list[Message], where: str) -> Refusal | None:
    previous = before[-1]["role"] if before else None
    if role == "system":
        if previous == "system":
            return Refusal(f"{where} is a second system turn")
        return Refusal(f"{where} is a system turn that is not first") if before else None
    if role == "assistant" and previous in (None, "system"):
        return Refusal(f"{where} is the assistant's: a conversation must begin with the user")
    if role == previous:
        return Refusal(f"{where} is a second {role} turn in a row")
    return None


def _content(turn: dict[str, Any], where: str) -> str | Refusal:
    content = turn.get("value") if turn.get("content") is None else turn["content"]
    if isinstance(content, str):
        return content
    if content is None:
        return Refusal(f"{where} has no content (null or missing)")
    if not isinstance(content, list):
        return Refusal(f"{where} has {describe(content)} as content, not text")
    texts: list[str] = []
    for part in content:
        text = part
        if isinstance(part, dict):
            kind = part.get("type", "text")
            if kind not in _TEXT_PARTS:
                return Refusal(
                    f"{where} has a part of type {quoted(str(kind))}: only text can be used, not images or media"
                )
            text = part.get("text")
        if not isinstance(text, str):
            return Refusal(f"{where} has a part without text")
        texts.append(text)
    return "".join(texts)
