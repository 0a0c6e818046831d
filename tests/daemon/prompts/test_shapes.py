"""Every shape seen in public: the prompt it holds, as its index states, and hypothesis for what nobody has seen yet."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from daemon.prompts.reader import PromptReader
from daemon.prompts.refusals import Refusal
from daemon.prompts.shapes import ChatPrompt, TextPrompt, TokenPrompt, recognise
from tests.daemon.prompts.conftest import SHAPES


def turns(prompt: object) -> list[tuple[str, str]]:
    assert isinstance(prompt, ChatPrompt), prompt
    return [(message["role"], message["content"]) for message in prompt.messages]


def shapes_of(name: str) -> list[Any]:
    (path,) = SHAPES.glob(f"{name}_*")
    return [recognise(value) for _, value in PromptReader(path)]


def ids_of(name: str) -> list[Any]:
    return [prompt.sample_id for prompt in shapes_of(name)]


U, A, S = "user", "assistant", "system"


@pytest.mark.parametrize(
    ("name", "line", "expected"),
    [
        ("p01", 1, [(U, "Name two uses of a paper clip.")]),
        (
            "p01",
            2,
            [
                (S, "Answer in one line."),
                (U, "Why is the sky blue?"),
                (A, "Air scatters blue light more."),
                (U, "And at dusk?"),
            ],
        ),
        ("p01", 4, [(U, "List a prime above 10.")]),
        ("p02", 3, [(U, "Spell cat.")]),
        ("p03", 2, [(U, "Two?")]),
        ("p04", 2, [(U, "Define ebb.")]),
        ("p05", 2, [(S, "Be brief."), (U, "Convert 3 km to metres.")]),
        ("p05", 3, [(U, "Pick a colour."), (A, "Green."), (U, "Why that one?")]),
        ("p06", 3, [(U, "Hello"), (A, "Hi."), (U, "How far is the moon?")]),
        ("p08", 1, [(U, "How do bees navigate?"), (A, "By the sun and landmarks."), (U, "At night?")]),
        ("p09", 1, [(S, "Think step by step, then answer."), (U, "Is 91 prime?")]),
        ("p09", 3, [(U, "Name a noble gas.")]),
        ("p10", 1, [(U, "Write a function that reverses a list.")]),
        ("p11", 2, [(U, "Rewrite the loop without recursion.")]),
        ("p12", 3, [(U, "Greet me."), (A, "Hello!"), (U, "Again.")]),
        ("p13", 1, [(U, "Row zero")]),
        ("p14", 2, [(S, "detailed thinking off"), (U, "Shorten: very big"), (A, "Large."), (U, "Shorter?")]),
        ("p16", 1, [(U, "Sort the numbers.\n\n3, 1, 2")]),
        ("p16", 2, [(U, "Name a planet.")]),
        ("p17", 1, [(U, "Write a limerick about rain.")]),
        ("p17", 2, [(U, "A list-valued prompt, as trainers write it.")]),
        ("p19", 1, [(U, "A box holds 6 eggs. How many in 4 boxes?")]),
        ("p19", 2, [(U, "Find x: 2x=10")]),
        ("p19", 3, [(U, "A tap fills 2 l/min. 5 min?\n\na) 8 b) 10")]),
        ("p19", 4, [(U, "Explain osmosis.")]),
        ("p20", 1, [(U, "Draft a short note about a walk.")]),
        ("p22", 1, [(S, "Help."), (U, "Hi.")]),
        ("p23", 2, [(U, "Only text, in two parts.")]),
        ("p24", 2, [(U, "Add 2 and 3")]),
        ("p25", 1, [(U, "a?"), (A, "b"), (U, "c?")]),
        ("p25", 2, [(U, "only")]),
        ("p25", 3, [(U, "Hi")]),
        ("p27", 2, [(U, "second; text with \r\n inside stays one record")]),
    ],
)
def test_conversations(name: str, line: int, expected: list[tuple[str, str]]) -> None:
    assert turns(shapes_of(name)[line - 1]) == expected


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("p01", ["sg_0001_0", "sg_0001_1", "sg_0002_0", "sg_0003_0"]),
        ("p05", [None, None, None]),
        ("p08", ["a1" * 32, "b2" * 32, "c3" * 32]),
        ("p10", ["oci_1", "oci_2", None]),
        ("p13", [0, 1, 2]),
        ("p17", [None, None, None, "po_4"]),
        ("p20", [81, 95, None]),
        ("p21", [None, "pt_2", 7, "pt_4", "pt_5"]),
        ("p22", ["request-1", "request-2", "request-3"]),
        ("p27", ["crlf_1", "crlf_2", "crlf_3"]),
        ("p28", ["a", None, 7, "7", "dup", "dup"]),
    ],
)
def test_ids(name: str, expected: list[object]) -> None:
    assert ids_of(name) == expected


def test_text_is_never_put_into_a_template_again() -> None:
    first, second, third = shapes_of("p18")
    assert first == TextPrompt(
        "t1", "<|im_start|>user\nHi<|im_end|>\n<|im_start|>assistant\nHello<|im_end|>\n", preformatted=True
    )
    assert (second.sample_id, second.preformatted) == ("t2", True)
    assert third == TextPrompt(None, "Plain text without any template tokens.", preformatted=False)


@pytest.mark.parametrize(
    ("text", "preformatted"),
    [
        ("<|begin_of_text|><|start_header_id|>user", True),
        ("  <s>[INST] hi [/INST]", True),
        ("<start_of_turn>user", True),
        ("<｜User｜>hi", True),
        ("What does <|im_start|> mean?", False),
        ("a < b | c > d", False),
        ("<|not a mark because of spaces|>", False),
    ],
)
def test_template_marks(text: str, preformatted: bool) -> None:
    assert recognise({"text": text}) == TextPrompt(None, text, preformatted)
    prompt = recognise({"prompt": text})
    assert isinstance(prompt, TextPrompt if preformatted else ChatPrompt)


def test_completions_request_and_token_prompts() -> None:
    assert shapes_of("p22")[1] == TextPrompt("request-2", "Once", preformatted=False)
    assert recognise({"custom_id": "c", "body": {"prompt": [1, 2]}}) == TokenPrompt("c", [1, 2])
    assert recognise({"prompt": [5, 6], "id": 0}) == TokenPrompt(0, [5, 6])
    assert shapes_of("p21")[0] == TokenPrompt(None, [1, 15, 27, 2], [0, 0, 1, 1])
    assert shapes_of("p21")[1] == TokenPrompt("pt_2", [1, 15], [0, 1])


@pytest.mark.parametrize(
    ("name", "line", "why"),
    [
        ("p01", 3, "turn 1 of conversations is the assistant's"),
        ("p17", 3, "prompt is empty"),
        ("p21", 3, "input_ids[1] is 2.0, not an integer"),
        ("p21", 4, "loss_mask has 2 entries for 3 input_ids"),
        ("p21", 5, "input_ids is empty"),
        ("p22", 3, "'/v1/embeddings': not a generation"),
        ("p23", 1, "part of type 'image_url'"),
        ("p23", 3, "has image"),
        ("p24", 1, "tools: tool calls cannot be carried"),
        ("p24", 3, "tools: tool calls cannot be carried"),
        ("p28", 2, "turn 1 of messages (user) has no content (null or missing)"),
        ("p28", 6, "turn 2 of messages (assistant) is blank"),
    ],
)
def test_refusals_of_the_shape_files(name: str, line: int, why: str) -> None:
    refusal = shapes_of(name)[line - 1]
    assert isinstance(refusal, Refusal)
    assert why in refusal.why


def test_every_other_line_of_the_shape_files_is_a_prompt() -> None:
    refused = {
        path.name[:3]: found
        for path in sorted(SHAPES.glob("p*"))
        if (found := [i for i, (_, value) in enumerate(PromptReader(path), 1) if isinstance(recognise(value), Refusal)])
    }
    assert refused == {
        "p01": [3],
        "p17": [3],
        "p21": [3, 4, 5],
        "p22": [3],
        "p23": [1, 3],
        "p24": [1, 3],
        "p28": [2, 6],
    }


@pytest.mark.parametrize(
    ("record", "why"),
    [
        ([1], "is a JSON array"),
        (None, "is null, not an object"),
        ("x", "is the text 'x', not an object"),
        ({}, "is an empty object"),
        ({"foo": 1, "bar": 2}, "it has 'bar', 'foo'; known are input_ids"),
        ({"prompt": None, "foo": 1}, "it has 'foo', 'prompt' (null)"),
        ({"id": 1.5, "prompt": "x"}, "id is 1.5: an id is text or an integer"),
        ({"id": True, "prompt": "x"}, "id is true"),
        ({"id": "\ud800", "prompt": "x"}, "id is '\\ud800': half a surrogate pair"),
        ({"prompt": 5}, "prompt is 5, not text"),
        ({"prompt": []}, "prompt is empty"),
        ({"prompt": [1, "a"]}, "prompt[1] is the text 'a', not an integer"),
        ({"text": 5}, "text is 5, not text"),
        ({"text": " \n"}, "text is blank"),
        ({"input_ids": "1 2"}, "input_ids is the text '1 2', not a list"),
        ({"input_ids": [1], "loss_mask": [2]}, "loss_mask[0] is 2, not 0 or 1"),
        ({"input_ids": [1], "loss_mask": [True]}, "loss_mask[0] is true"),
        ({"input_ids": [1], "loss_mask": "1"}, "loss_mask is the text '1'"),
        ({"input_ids": [1, 2], "attention_mask": [1, 0]}, "attention_mask[1] is 0: padded"),
        ({"input_ids": [1, 2], "attention_mask": [1]}, "attention_mask has 1 entries for 2"),
        ({"question": "q", "choices": ["a"]}, "has choices beside question"),
        ({"Problem": "q", "options": 3}, "options is 3"),
        ({"turns": []}, "turns is empty"),
        ({"turns": "x"}, "turns is the text 'x', not a list"),
        ({"query": "q", "history": [["a"]]}, "entry 1 of history"),
        ({"query": "q", "history": "a"}, "history is the text 'a'"),
        ({"query": None, "foo": 1}, "no known prompt key"),
        ({"body": 1}, "body is 1, not a request"),
        ({"body": {}}, "body has neither messages nor a prompt"),
        ({"body": {"messages": [{"role": "user", "content": "x"}], "tools": [{}]}}, "body has tools"),
        ({"body": {"prompt": ["a", "b"]}}, "body.prompt[0] is the text 'a'"),
        ({"prompt": "x", "system": 3}, "system is 3, not text"),
        ({"prompt": "x", "tools": '[{"name": "f"}]'}, "tools: tool calls"),
        ({"prompt": "x", "images": ["a.png"]}, "has images"),
    ],
)
def test_refusals(record: object, why: str) -> None:
    refusal = recognise(record)
    assert isinstance(refusal, Refusal)
    assert why in refusal.why


@pytest.mark.parametrize("nothing", [None, [], "", "[]", "null", {}])
def test_empty_tools_and_images_are_none(nothing: object) -> None:
    assert turns(recognise({"prompt": "x", "tools": nothing, "image": nothing})) == [(U, "x")]


def test_ids_missing_zero_and_long() -> None:
    assert recognise({"prompt": "x", "id": ""}).sample_id is None
    assert recognise({"prompt": "x", "sample_id": None, "id": 0}).sample_id == 0
    assert recognise({"prompt": "x", "id": 10**30}).sample_id == 10**30


def test_a_refusal_tells_the_id() -> None:
    assert recognise({"prompt": "", "id": 3}) == Refusal("prompt is empty: an empty prompt is never sent", 3)


KNOWN_KEYS = (
    *("id", "sample_id", "input_ids", "loss_mask", "attention_mask", "messages", "conversations", "role", "from"),
    *("content", "value", "prompt", "text", "input", "body", "turns", "query", "history", "instruction", "question"),
    *("options", "type", "tools", "image", "system", "url"),
)
json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(st.characters(codec=None), max_size=8),
    lambda inner: (
        st.lists(inner, max_size=4)
        | st.dictionaries(
            st.sampled_from(KNOWN_KEYS),
            inner,
            max_size=5,
        )
    ),
    max_leaves=12,
)


@given(json_values)
def test_any_value_gives_a_prompt_or_a_reason(value: object) -> None:
    found = recognise(value)
    if isinstance(found, Refusal):
        assert found.why.encode("utf-8")
    elif isinstance(found, ChatPrompt):
        assert found.messages[-1]["role"] == "user"
        assert all(message["content"].strip() for message in found.messages)
    elif isinstance(found, TokenPrompt):
        assert found.input_ids and all(type(item) is int and item >= 0 for item in found.input_ids)
    else:
        assert found.text.strip()
    if found.sample_id is not None:
        json.dumps(found.sample_id, ensure_ascii=False).encode("utf-8")
