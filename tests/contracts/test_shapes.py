"""Every known response shape, with the totals that tests/fixtures/shapes promises. Old fixtures stay for ever."""

from __future__ import annotations

import itertools
import json
from collections import Counter
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import msgspec
import pytest

from contracts.records import Response, encode_line
from contracts.shapes import BadLine, Outcome, ResponseFact, decode_response_line, merge_parts

FIXTURES = Path(__file__).parents[1] / "fixtures"

# file: complete, failed, skipped, empty, incomplete, complete ones without a count, sum of the known counts
EXPECTED: dict[str, tuple[int, int, int, int, int, int, int]] = {
    "shapes/r01_sglang_generate_raw.jsonl": (4, 0, 0, 0, 0, 0, 10),
    "shapes/r02_sglang_generate_odd.jsonl": (3, 2, 0, 0, 1, 0, 8),
    "shapes/r03_sglang_generate_stream.jsonl": (1, 0, 0, 0, 0, 0, 3),
    "shapes/r04_specforge_regenerated.jsonl": (3, 0, 0, 0, 0, 3, 0),
    "shapes/r05_specforge_error_skipped.jsonl": (0, 1, 2, 0, 0, 0, 0),
    "shapes/r06_openai_batch_output.jsonl": (2, 2, 0, 0, 0, 0, 39),
    "shapes/r07_vllm_run_batch_old_new.jsonl": (2, 1, 0, 0, 0, 0, 36),
    "shapes/r08_chat_completion_dump.jsonl": (5, 0, 0, 0, 0, 1, 105),
    "shapes/r09_stream_chunks.jsonl": (1, 0, 0, 0, 1, 0, 2),
    "shapes/r11_datatrove_rollouts.jsonl": (3, 0, 0, 1, 0, 0, 25),
    "shapes/r12_distilabel.jsonl": (3, 1, 0, 0, 0, 0, 6),
    "shapes/r14_speculators_regen.jsonl": (3, 1, 0, 0, 0, 1, 4),
    "shapes/r15_modelopt_server_generate.jsonl": (3, 0, 0, 1, 0, 3, 0),
    "shapes/r16_nemo_skills_output.jsonl": (2, 1, 0, 0, 0, 0, 10),
    "shapes/r17_think_text.jsonl": (4, 0, 0, 0, 0, 0, 64),
    "shapes/r19_eagle_model_answers.jsonl": (3, 0, 0, 0, 0, 1, 75),
    "cases/03-lone-surrogate-answer.json": (1, 0, 0, 0, 0, 0, 3),
    "cases/16-failures-in-responses.jsonl": (3, 2, 0, 0, 0, 0, 6),
    "cases/29-split-utf8-body.json": (1, 0, 0, 0, 0, 0, 3),
    "cases/30-abort-200.json": (0, 1, 0, 0, 0, 0, 0),
    "cases/31-cut-while-thinking.jsonl": (3, 0, 0, 0, 0, 0, 131),
    "cases/33-zero-usage.jsonl": (4, 0, 0, 0, 0, 3, 12),
    "cases/34-details-exceed.jsonl": (2, 0, 0, 0, 0, 0, 23972),
    "cases/35-stop-token-stripped.json": (1, 0, 0, 0, 0, 0, 4),
    "cases/47-escapes.jsonl": (5, 0, 0, 0, 0, 5, 0),
    "shapes/own_founding_incident.jsonl": (8, 0, 0, 0, 0, 0, 22),
}


def lines_of(name: str) -> list[bytes]:
    return [line for line in (FIXTURES / name).read_bytes().split(b"\n") if line]


def read(lines: Iterable[bytes]) -> tuple[list[ResponseFact], list[str]]:
    """Read lines as a fold does: the pieces of one key become one fact."""
    facts: list[ResponseFact] = []
    parts: dict[bytes, ResponseFact] = {}
    bad: list[str] = []
    for line in lines:
        decoded = decode_response_line(line)
        if isinstance(decoded, BadLine):
            bad.append(decoded.why)
            continue
        for fact in decoded:
            if fact.key is not None and fact.key in parts:
                fact = merge_parts(parts.pop(fact.key), fact)
            if fact.part and fact.key is not None:
                parts[fact.key] = fact
            else:
                facts.append(fact)
    return [*facts, *parts.values()], bad


def totals(facts: list[ResponseFact]) -> tuple[int, ...]:
    outcomes = Counter(fact.outcome for fact in facts)
    complete = [fact.completion_tokens for fact in facts if fact.outcome is Outcome.COMPLETE]
    order = (Outcome.COMPLETE, Outcome.FAILED, Outcome.SKIPPED, Outcome.EMPTY, Outcome.INCOMPLETE)
    return (*(outcomes[o] for o in order), complete.count(None), sum(n for n in complete if n is not None))


def one(record: Any) -> ResponseFact:
    facts = decode_response_line(json.dumps(record).encode() if not isinstance(record, bytes) else record)
    assert isinstance(facts, list), facts
    (fact,) = facts
    return fact


def why(line: bytes) -> str:
    bad = decode_response_line(line)
    assert isinstance(bad, BadLine), bad
    return bad.why


def by_key(name: str) -> dict[bytes | None, ResponseFact]:
    return {fact.key: fact for fact in read(lines_of(name))[0]}


def test_the_table_has_every_fixture() -> None:
    files = {f"shapes/{path.name}" for path in (FIXTURES / "shapes").glob("r*.jsonl")}
    assert files <= set(EXPECTED)
    assert len(files) >= 16


@pytest.mark.parametrize("name", EXPECTED)
def test_expected_totals(name: str) -> None:
    facts, bad = read(lines_of(name))
    assert totals(facts) == EXPECTED[name]
    assert len(bad) == (2 if "founding" in name else 0)


def test_all_shapes_mixed_in_one_file() -> None:
    columns = [lines_of(name) for name in EXPECTED]
    mixed = [line for row in itertools.zip_longest(*columns) for line in row if line is not None]
    facts, bad = read(mixed)
    assert totals(facts) == tuple(map(sum, zip(*EXPECTED.values(), strict=True)))
    assert len(bad) == 2


@pytest.mark.parametrize("name", EXPECTED)
def test_key_order_does_not_matter(name: str) -> None:
    def turned(value: Any) -> Any:
        if isinstance(value, dict):
            return {key: turned(value[key]) for key in reversed(value)}
        return [turned(item) for item in value] if isinstance(value, list) else value

    for line in lines_of(name):
        if not isinstance(facts := decode_response_line(line), BadLine):
            assert decode_response_line(json.dumps(turned(json.loads(line))).encode()) == facts


def test_our_own_record() -> None:
    record = Response(
        sample_id="a",
        prompt_tokens=3,
        completion_tokens=2,
        finish_reason="stop",
        output_ids=msgspec.Raw(b"[7,8]"),
        finished_at=1.5,
        started_at=1.0,
        rid="r",
        server="s",
        attempt=1,
        think_end=False,
    )
    assert decode_response_line(encode_line(record)) == [
        ResponseFact(b"a", Outcome.COMPLETE, 3, 2, "stop", 2, 1.5, False, None, False, 1.0)
    ]


def test_both_sides_of_the_founding_incident_and_its_drift() -> None:
    facts, bad = read(lines_of("shapes/own_founding_incident.jsonl"))
    assert [fact.key for fact in facts] == [b"B1-0", b"B1-1", b"B1-2", b"3", b"B1-4", b"B1-5", b"B1-6", b"B1-10"]
    assert [fact.completion_tokens for fact in facts] == [3, 2, 1, 4, 5, 6, 1, 0]
    assert bad == [
        "a JSON object of no known shape (keys: sample_id, n_tokens, finish)",
        "not JSON: expecting ',' delimiter at byte 202",
    ]


def test_a_success_without_a_known_count_is_not_taken_for_an_answer() -> None:
    assert "no known shape" in why(b'{"sample_id": "x", "status": "success", "tokens_out": 50}')
    assert "no known shape" in why(b'{"sample_id": "x", "finish_reason": "stop", "tokens_out": 50}')
    assert "no known shape" in why(b'{"sample_id": "x", "input_ids": [1, 2], "loss_mask": [0, 1]}')
    assert "no known shape" in why(b'{"sample_id": "x", "meta_info": {"tokens_out": 50}}')
    assert "no known shape" in why(b'{"question": "?", "choices": ["a", "b"], "answer": 1}')


@pytest.mark.parametrize(
    ("record", "key"),
    [
        ({"id": "i", "custom_id": "c", "sample_id": "s"}, b"s"),
        ({"id": "i", "custom_id": "c", "sample_id": None}, b"c"),
        ({"id": "", "conversation_id": 0}, b"0"),
        ({"question_id": 81, "primary_id": "p"}, b"81"),
        ({"_async_position": 0}, b"0"),
        ({"id": 9007199254740993}, b"9007199254740993"),
        ({"id": 123456789012345678901234567890}, b"123456789012345678901234567890"),
        ({"id": "test/1.json"}, b"test/1.json"),
        ({"id": "half \ud835"}, b"half \xed\xa0\xb5"),
        ({"meta_info": {"id": "m", "finish_reason": "stop"}, "id": 7}, b"7"),
        ({"meta_info": {"id": "m", "finish_reason": "stop"}}, b"m"),
        ({}, None),
    ],
)
def test_which_id(record: dict[str, Any], key: bytes | None) -> None:
    assert one({"text": "t", **record}).key == key
    assert one([{**record, "text": "t"}]).key == key


def test_id_of_no_usable_type_is_said() -> None:
    assert why(b'{"sample_id": 7.0, "completion_tokens": 1}').startswith("sample_id is a number with a fraction")
    assert why(b'{"id": true, "completion_tokens": 1}').startswith("id is a boolean")
    assert why(b'{"id": ["x"], "completion_tokens": 1}').startswith("id is an array")


@pytest.mark.parametrize("value", ["true", "1.0", "-1", "2147483648", '"12"', "[1]", "NaN", "1e999", "9" * 5000])
@pytest.mark.parametrize(
    "shape",
    [
        '{"sample_id": "a", "completion_tokens": %s}',
        '{"sample_id": "a", "prompt_tokens": %s, "completion_tokens": 1}',
        '{"id": "a", "choices": [], "usage": {"completion_tokens": %s}}',
        '{"text": "a", "meta_info": {"completion_tokens": %s, "prompt_tokens": 1}}',
        '{"id": "a", "response": {"body": {"usage": {"completion_tokens": %s}}}}',
        '{"id": "a", "generation": "x", "num_generated_tokens": %s}',
        '[{"id": "a", "text": "x"}, {"id": "b", "completion_tokens": %s}]',
    ],
)
def test_a_count_that_is_none_makes_the_line_unreadable(shape: str, value: str) -> None:
    assert "tokens" in (said := why((shape % value).encode())) or "out of range" in said or "too many digits" in said


def test_zero_is_kept_only_where_it_can_be_true() -> None:
    assert by_key("shapes/r02_sglang_generate_odd.jsonl")[b"ab"].completion_tokens == 0
    none = one({"id": "a", "output_ids": [], "text": "", "meta_info": {"completion_tokens": 0, "prompt_tokens": 4}})
    assert (none.completion_tokens, none.n_output_ids, none.prompt_tokens) == (0, 0, 4)
    contradiction = one({"sample_id": "a", "output_ids": [1, 2], "completion_tokens": 0, "prompt_tokens": 4})
    assert (contradiction.completion_tokens, contradiction.n_output_ids) == (0, 2)
    for text in ({"text": "x"}, {"choices": [{"message": {"content": None, "reasoning": "x"}}]}, {"response": "x"}):
        fact = one({"id": "a", **text, "usage": {"prompt_tokens": 4, "completion_tokens": 0}})
        assert (fact.completion_tokens, fact.prompt_tokens) == (None, 4)
    assert by_key("cases/33-zero-usage.jsonl")[b"q3"].prompt_tokens is None


def test_details_are_never_added() -> None:
    facts = by_key("cases/34-details-exceed.jsonl")
    assert (facts[b"g1"].completion_tokens, facts[b"g2"].completion_tokens) == (102, 23870)


def test_ids_are_counted_without_being_read() -> None:
    def n(ids: bytes) -> int | None:
        return one(b'{"sample_id": "a", "completion_tokens": 4, "output_ids": ' + ids + b"}").n_output_ids

    assert [n(ids) for ids in (b"[]", b"[ ]", b"[1]", b"[ 1 , 2 ]", b"[1,2,3]")] == [0, 0, 1, 2, 3]
    assert [n(ids) for ids in (b"null", b'"1,2"', b'{"a":1}', b"[[1,2],[3]]", b'["a,b"]')] == [None] * 5
    assert [n(ids) for ids in (b"[ 1, 2]", b"[1 , 2]", b"[1,\t2]", b"[-1,2.5,null]", b"[ \t ]")] == [2, 2, 2, 3, 0]
    short = by_key("cases/35-stop-token-stripped.json")[b"d"]
    assert (short.completion_tokens, short.n_output_ids) == (4, 3)


def test_ids_that_are_not_the_lines_own() -> None:
    nested = b'{"raw": {"output_ids": [1, 2, 3]}, "text": "\\"output_ids\\":[9]", "completion_tokens": 3, '
    assert one(nested + b'"output_ids":[4,5]}').n_output_ids == 2
    assert one(b'{"completion_tokens": 3, "text": "\\"output_ids\\":[9,9]"}').n_output_ids is None
    assert one(b'{"completion_tokens": 3, "x": {"output_ids":[9,9]}}').n_output_ids is None
    assert one(b'{"completion_tokens": 3, "n_output_ids": "3", "output_ids": [1]}').n_output_ids == 1
    assert one(b'{"sample_id": "half \\ud835", "completion_tokens": 3, "output_ids": [1,2]}').n_output_ids == 2
    assert "not JSON" in why(b'{"completion_tokens": 3, "output_ids": [1,2}')
    assert "not JSON" in why(b'{"completion_tokens": 3, "output_ids": [1,2]]}')
    assert "not JSON" in why(b'{"completion_tokens": 3, "output_ids": [1 2]}')
    assert "not JSON" in why(b'{"completion_tokens": 3, "x": "output_ids":[1,2]}')


def test_failures_say_why() -> None:
    def messages(name: str) -> dict[bytes | None, str | None]:
        return {fact.key: fact.message for fact in read(lines_of(name))[0] if fact.outcome is not Outcome.COMPLETE}

    assert messages("cases/16-failures-in-responses.jsonl") == {b"p4": "HTTP 503", b"p5": "aborted"}
    assert messages("cases/30-abort-200.json") == {b"x": "Abort in waiting queue"}
    assert messages("shapes/r06_openai_batch_output.jsonl") == {
        b"request-3": "HTTP 400: bad request",
        b"request-4": "not run in time",
    }
    assert messages("shapes/r07_vllm_run_batch_old_new.jsonl") == {b"request-3": "too long"}
    assert messages("shapes/r12_distilabel.jsonl") == {None: "generation is null"}
    assert messages("shapes/r16_nemo_skills_output.jsonl") == {b"test/alg/2.json": "_ran_out_of_context_"}


@pytest.mark.parametrize(
    ("record", "message"),
    [
        ({"error": {"message": "m", "code": 400}}, "m"),
        ({"error": "Unauthorized"}, "Unauthorized"),
        ({"object": "error", "message": "queue full", "code": 503}, "queue full"),
        ({"id": "a", "status": "error"}, "status error"),
        ({"id": "a", "error": ["x", 1]}, '["x", 1]'),
        ({"id": "a", "error": "\x1b[2Jcleared\n", "completion_tokens": 3}, "\\x1b[2Jcleared\\n"),
        ({"id": "a", "response": {"status_code": 500, "body": {}}, "error": None}, "HTTP 500"),
        ({"id": "a", "response": {"status_code": 502, "body": {"html": 1}}}, "HTTP 502"),
        ({"id": "a", "response": {"status_code": 503, "body": None}}, "HTTP 503"),
        ({"id": "a", "raw": {"error": {"message": "inner"}}}, "inner"),
        ({"id": "a", "finish_reason": "abort", "completion_tokens": 2}, "the server ended it with finish_reason abort"),
        (
            {"id": "a", "finish_reason": {"type": "abort", "message": "m"}, "raw": {"usage": {"completion_tokens": 2}}},
            "m",
        ),
        (
            {"id": "a", "choices": [{"finish_reason": "stop"}, {"finish_reason": "abort"}]},
            "the server ended it with finish_reason abort",
        ),
    ],
)
def test_failure_shapes(record: dict[str, Any], message: str) -> None:
    fact = one(record)
    assert (fact.outcome, fact.message, fact.part) == (Outcome.FAILED, message, False)


def test_no_error_is_not_an_error() -> None:
    nothings: list[Any] = [None, "", False, {}, []]
    for nothing in nothings:
        assert one({"id": "a", "text": "x", "error": nothing, "error_message": ""}).outcome is Outcome.COMPLETE


def test_rows_without_an_answer_are_empty() -> None:
    for row in (
        {"conversation_id": 1},
        {"id": "a", "text": ""},
        {"id": "a", "conversations": []},
        {"id": "a", "conversations": [{"role": "user", "content": "?"}], "status": "success"},
        {"id": "a", "conversations": [{"from": "human", "value": "?"}]},
        {"id": "a", "choices": []},
        {"custom_id": "a", "response": None, "error": None},
        {"custom_id": "a", "response": {"status_code": 200, "body": {}}},
        {"id": "a", "output_ids": []},
        {"id": "a", "metadata": {"rollout_results": None}},
        {"id": "a", "generations": []},
    ):
        fact = one(row)
        assert (fact.outcome, fact.completion_tokens) == (Outcome.EMPTY, None), row
    assert one({"id": "a", "text": "", "finish_reason": "stop"}).outcome is Outcome.COMPLETE


def test_no_end_is_incomplete_and_no_finish_reason_at_all_is_not() -> None:
    for finish in (None, ""):
        fact = one({"sample_id": "a", "completion_tokens": 5, "finish_reason": finish})
        assert (fact.outcome, fact.part) == (Outcome.INCOMPLETE, True)
        fact = one({"sample_id": "a", "finish_reason": finish, "response": {"usage": {"completion_tokens": 5}}})
        assert (fact.outcome, fact.part) == (Outcome.INCOMPLETE, True)
    assert one({"sample_id": "a", "completion_tokens": 5}).outcome is Outcome.COMPLETE
    assert one({"id": 0, "text": "x", "truncated": True}).finish_reason == "length"


def test_several_generations_in_one_line_have_keys_of_their_own() -> None:
    answers = [{"text": "x", "meta_info": {"id": f"m{i}", "completion_tokens": i}} for i in range(1, 4)]
    facts = decode_response_line(json.dumps({"sample_id": "s", "response": answers}).encode())
    assert isinstance(facts, list)
    assert [(fact.key, fact.completion_tokens) for fact in facts] == [(b"s", 1), (b"s#1", 2), (b"s#2", 3)]
    (fact,) = decode_response_line(
        json.dumps({"id": "c", "choices": [{}, {}], "usage": {"completion_tokens": 9}}).encode()
    )  # type: ignore[misc]
    assert fact.completion_tokens == 9
    rollouts = {"id": "d", "metadata": {"rollout_results": [{"error": "e"}, None, {"text": "t"}]}}
    facts = decode_response_line(json.dumps(rollouts).encode())
    assert isinstance(facts, list)
    assert [fact.outcome for fact in facts] == [Outcome.FAILED, Outcome.FAILED, Outcome.COMPLETE]


def test_a_stream_saved_as_one_list_is_one_response() -> None:
    chunks = [json.loads(line) for line in lines_of("shapes/r09_stream_chunks.jsonl")]
    first, second = decode_response_line(json.dumps(chunks).encode())  # type: ignore[misc]
    assert (first.key, first.outcome, first.completion_tokens) == (b"k1", Outcome.COMPLETE, 2)
    assert (second.key, second.outcome, second.completion_tokens) == (b"k2", Outcome.INCOMPLETE, None)


def test_merging_pieces() -> None:
    piece = ResponseFact(b"k", Outcome.INCOMPLETE, part=True)
    end = ResponseFact(b"k", Outcome.INCOMPLETE, finish_reason="stop", part=True)
    usage = ResponseFact(b"k", Outcome.INCOMPLETE, 11, 2, part=True)
    for order in itertools.permutations((piece, end, usage)):
        merged = merge_parts(merge_parts(order[0], order[1]), order[2])
        assert merged == ResponseFact(b"k", Outcome.COMPLETE, 11, 2, "stop", part=True)
    assert merge_parts(piece, end).outcome is Outcome.INCOMPLETE

    whole = ResponseFact(b"k", Outcome.COMPLETE, 4, 3, "stop", 3)
    assert merge_parts(usage, whole) == whole
    assert merge_parts(whole, usage) == whole
    uncounted = ResponseFact(b"k", Outcome.COMPLETE, finish_reason="length")
    assert merge_parts(uncounted, usage) == ResponseFact(b"k", Outcome.COMPLETE, 11, 2, "length")
    failed = ResponseFact(b"k", Outcome.FAILED, message="m")
    assert merge_parts(failed, usage) == usage
    assert merge_parts(usage, failed) == failed


def test_distilabel_counts_that_fit_nothing_are_unknown() -> None:
    def counts(metadata: Any, texts: list[str]) -> list[int | None]:
        facts = decode_response_line(json.dumps({"generations": texts, "distilabel_metadata": metadata}).encode())
        assert isinstance(facts, list)
        return [fact.completion_tokens for fact in facts]

    assert counts({"statistics_a": {"output_tokens": [1, 2, 3]}}, ["a", "b"]) == [None, None]
    assert counts({"statistics_a": {"output_tokens": 5}}, ["a"]) == [5]
    assert counts({"statistics_a": {"output_tokens": [0, 4]}}, ["a", "b"]) == [None, 4]
    assert counts({"statistics_a": {"output_tokens": 5}, "statistics_b": {"output_tokens": 6}}, ["a"]) == [None]
    assert counts(None, ["a", "b"]) == [None, None]


@pytest.mark.parametrize(
    "line", [b"", b"  ", b"\r", b"\t \r", b"\xef\xbb\xbf", b'{"finished": true}', b' {"finished":false}\r']
)
def test_what_is_no_record_and_no_damage(line: bytes) -> None:
    assert decode_response_line(line) == []


def test_tolerated_spelling() -> None:
    plain = b'{"sample_id": "a", "completion_tokens": 3}'
    expected = ResponseFact(b"a", Outcome.COMPLETE, None, 3)
    assert one(b"\xef\xbb\xbf" + plain) == expected
    assert one(b"  " + plain + b" \r") == expected
    assert one(plain[:-1] + b', "text": "\\ud835", "logprob": [NaN, -Infinity, 1e999]}') == expected
    assert one(plain[:-1] + b', "text": "\\udc00 \xe6\xbc\xa2 \\u0000"}') == expected


@pytest.mark.parametrize(
    ("line", "said"),
    [
        (b'{"sample_id": "a", "completion_tokens": 3', "not JSON: expecting ',' delimiter at byte 41"),
        (b'{"sample_id": "a", "completion_tok', "not JSON: unterminated string starting at byte 19"),
        (b' {"text": "a"} x', "not JSON: a second JSON value or other text begins at byte 15"),
        (b'{"text": "a"}{"text": "b"}', "not JSON: a second JSON value or other text begins at byte 13"),
        (b'{"text": "\xc3\xa9", oops}', "not JSON: expecting property name enclosed in double quotes at byte 15"),
        (b'{"text": "a\0b"}', "not JSON: invalid control character at byte 11"),
        (b"\0" * 9, "9 NUL bytes: a hole that a crash or a full disk left in the file"),
        (b'{"text": "\xff"}', "not UTF-8: invalid start byte at byte 10"),
        (b"garbage \x1b[2J", "not JSON: expecting value at byte 0"),
        (b"[]", "an empty JSON array"),
        (b"[1, 2]", "a JSON array whose value 1 is a number, not an object"),
        (
            b'[{"text": "a"}, {"x": 1}]',
            "a JSON array whose object 2 cannot be read: a JSON object of no known shape (keys: x)",
        ),
        (b"{}", "an empty JSON object"),
        (b"null", "null where a JSON object belongs"),
        (b'"text"', "a text where a JSON object belongs"),
        (b'{"\\u001b[2J\\ud835": 1}', "a JSON object of no known shape (keys: \\x1b[2J\\ud835)"),
        (b'{"x":' * 100_000, "nested too deeply to be read"),
        (b"[" * 100_000, "nested too deeply to be read"),
    ],
)
def test_what_is_wrong_with_a_line(line: bytes, said: str) -> None:
    assert why(line) == said


def test_many_keys_are_shortened() -> None:
    keys = {f"key{i}": i for i in range(12)}
    assert why(json.dumps(keys).encode()).endswith("key6, key7 and 4 more)")
    assert len(why(json.dumps({"k" * 10_000: 1}).encode())) < 100


def test_an_unknown_object_beside_an_answer_is_no_obstacle() -> None:
    extras: list[dict[str, Any]] = [
        {"raw": {"html": 1}},
        {"metadata": "x"},
        {"usage": 5},
        {"meta_info": []},
        {"response": {"headers": 1}},
    ]
    for extra in extras:
        assert one({"id": "a", "text": "x", **extra}).outcome is Outcome.COMPLETE
