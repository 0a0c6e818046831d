"""Judging answers without building their ids."""

import json

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from contracts.sglang import GenerateAnswer
from daemon.servers.answers import count_ids, disagreement, holds_id, one_line, parse_answer

IDS = st.lists(st.integers(0, 1 << 20), max_size=40)
SEPARATORS = st.sampled_from([(",", ":"), (", ", ": ")])


@given(IDS, st.sampled_from([None, 0, 1, 2, "\t"]), SEPARATORS)
def test_the_number_of_ids_is_found_however_they_are_printed(
    ids: list[int], indent: int | str | None, separators: tuple[str, str]
) -> None:
    text = json.dumps(ids, indent=indent, separators=separators).encode()
    assert count_ids(msgspec.Raw(text)) == len(ids)


@given(IDS, st.integers(0, 1 << 20))
def test_an_id_is_found_whole(ids: list[int], wanted: int) -> None:
    assert holds_id(msgspec.Raw(json.dumps(ids).encode()), wanted) == (wanted in ids)


@given(IDS, st.sampled_from([None, 1, "\t"]))
def test_one_line_holds_the_same_ids(ids: list[int], indent: int | str | None) -> None:
    text = bytes(one_line(msgspec.Raw(json.dumps(ids, indent=indent).encode())))
    assert b"\n" not in text
    assert json.loads(text) == ids


@pytest.mark.parametrize(
    "text", ["null", "1", '"1,2"', "{}", "[[1, 2]]", "[1.0]", "[1e3]", "[-1]", "[true]", "[null]", '["1"]', "[{}]"]
)
def test_what_is_no_flat_list_of_ids_has_no_count(text: str) -> None:
    assert count_ids(msgspec.Raw(text.encode())) is None


SCALARS = st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=5)


@given(SCALARS | st.lists(st.integers(-2, 9) | SCALARS | st.lists(SCALARS, max_size=2), max_size=6))
def test_a_count_is_never_wrong(value: object) -> None:
    count = count_ids(msgspec.Raw(json.dumps(value).encode()))
    whole = isinstance(value, list) and all(type(each) is int and each >= 0 for each in value)
    assert count == (len(value) if whole and isinstance(value, list) else None)


def answer(**meta: object) -> bytes:
    whole = {
        "id": "e3.1",
        "finish_reason": {"type": "stop", "matched": 2},
        "prompt_tokens": 2,
        "completion_tokens": 3,
        **meta,
    }
    return json.dumps({"text": "t", "output_ids": [5, 6, 7], "meta_info": whole}).encode()


def parsed(body: bytes) -> GenerateAnswer:
    found = parse_answer(body)
    assert isinstance(found, GenerateAnswer), found
    return found


def test_an_answer_that_agrees() -> None:
    assert disagreement(parsed(answer()), "e3.1", 2) is None


@pytest.mark.parametrize(
    ("meta", "words"),
    [
        ({"id": "e3.2"}, "to another request"),
        ({"prompt_tokens": 0}, "to another prompt"),
        ({"completion_tokens": 4}, "completion_tokens is 4, output_ids are 3"),
        ({"finish_reason": None}, "not finished"),
    ],
)
def test_each_way_to_disagree_is_named(meta: dict[str, object], words: str) -> None:
    assert words in str(disagreement(parsed(answer(**meta)), "e3.1", 2))


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"<html>Bad gateway</html>",
        b"[]",
        b'{"output_ids": [1]}',
        b'{"meta_info": {}}',
        b'{"text":"a","usage":{"completion_tokens":3}}',
        answer()[:-10],
        answer(prompt_tokens="2"),
        answer(completion_tokens=-1),
        b'{"output_ids": [1], "text": "\\ud835\\"}',
        b"\xff\xfe",
    ],
)
def test_another_shape_is_a_sentence(body: bytes) -> None:
    assert "does not have the agreed shape" in str(parse_answer(body))


@given(st.text(alphabet=st.characters()))
def test_any_text_beside_the_ids_is_harmless(text: str) -> None:
    """Python's json writes lone surrogates as escapes, as the real server does."""
    body = json.dumps({"text": text, "output_ids": [1], "meta_info": json.loads(answer())["meta_info"]})
    assert bytes(parsed(body.encode()).output_ids) == b"[1]"


@given(st.text(alphabet=st.sampled_from(["\ud835", "\udfd9", "\\", "u", "d", "8", "3", "5", '"', "x", "\U0001d7d9"])))
def test_only_lone_halves_are_replaced(text: str) -> None:
    found = parsed(answer(finish_reason={"type": "stop", "matched": text}))
    assert found.meta_info.finish_reason is not None
    joined = json.loads(json.dumps(text))  # a high half followed by a low one is one character in JSON
    expected = "".join("\ufffd" if "\ud800" <= each <= "\udfff" else each for each in joined)
    assert found.meta_info.finish_reason.matched == expected
