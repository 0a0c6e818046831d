from __future__ import annotations

import pytest

from daemon.prompts.conversation import read_conversation
from daemon.prompts.refusals import Refusal


def turn(role: str, content: object = "x") -> dict[str, object]:
    return {"role": role, "content": content}


@pytest.mark.parametrize(
    ("turns", "why"),
    [
        ("x", "m is the text 'x', not a list of turns"),
        ([], "m is empty"),
        ([3], "turn 1 of m is 3, not an object"),
        ([{"content": "x"}], "turn 1 of m has no role"),
        ([turn("wizard")], "turn 1 of m has the unknown role 'wizard'"),
        ([turn("system")], "m has no user turn, only system"),
        ([turn("system"), turn("assistant")], "only assistant and system"),
        ([turn("assistant"), turn("user")], "turn 1 of m is the assistant's"),
        ([turn("system"), turn("gpt"), turn("user")], "turn 2 of m is the assistant's"),
        ([turn("user"), turn("human")], "turn 2 of m is a second user turn in a row"),
        ([turn("user"), turn("gpt"), turn("model"), turn("user")], "turn 3 of m is a second assistant turn in a row"),
        ([turn("system"), turn("developer"), turn("user")], "turn 2 of m is a second system turn"),
        ([turn("user"), turn("gpt"), turn("system"), turn("user")], "turn 3 of m is a system turn that is not first"),
        ([turn("user", None)], "turn 1 of m (user) has no content"),
        ([turn("user", "  ")], "turn 1 of m (user) is blank"),
        ([turn("user"), turn("gpt", ""), turn("user")], "turn 2 of m (assistant) is blank"),
        ([turn("user", 5)], "has 5 as content, not text"),
        ([turn("user", [{"type": "image"}])], "a part of type 'image'"),
        ([turn("user", [{"type": "text"}])], "has a part without text"),
        ([turn("user"), turn("tool"), turn("user")], "turn 2 of m: tool calls"),
        ([turn("user"), turn("gpt") | {"tool_calls": [{}]}, turn("user")], "turn 2 of m: tool calls"),
    ],
)
def test_refused(turns: object, why: str) -> None:
    refusal = read_conversation(turns, "m")
    assert isinstance(refusal, Refusal)
    assert why in refusal.why


def test_answers_after_the_last_user_turn_are_dropped_whatever_they_hold() -> None:
    answers = [turn("assistant", None) | {"tool_calls": [{}]}, turn("tool", 5), turn("assistant", "")]
    assert read_conversation([turn("user", "q"), *answers], "m") == [{"role": "user", "content": "q"}]


def test_an_empty_system_turn_is_as_if_absent() -> None:
    assert read_conversation([turn("system", " "), turn("user")], "m") == [turn("user")]
    assert read_conversation([turn("system", ""), turn("user")], "m", "rules") == [
        turn("system", "rules"),
        turn("user"),
    ]


def test_a_system_text_beside_and_one_inside_are_two() -> None:
    assert isinstance(read_conversation([turn("system"), turn("user")], "m", "rules"), Refusal)


def test_parts_are_joined_as_they_are() -> None:
    parts = [{"type": "text", "text": "a "}, "b", {"text": " c"}]
    assert read_conversation([turn("user", parts)], "m") == [turn("user", "a b c")]


def test_from_value_and_null_keys() -> None:
    turns = [{"role": None, "from": "Human", "content": None, "value": "hi"}]
    assert read_conversation(turns, "m") == [turn("user", "hi")]
