"""Whatever stands in a line: an answer comes back, never an exception, and nothing in it can harm a terminal."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from contracts.shapes import BadLine, Outcome, decode_response_line
from contracts.shapes.line import Line

FIXTURES = Path(__file__).parents[1] / "fixtures"
CASES = ("03", "16", "29", "30", "31", "33", "34", "35", "47")
FILES = [
    *sorted((FIXTURES / "shapes").glob("r*.jsonl")),
    *(path for number in CASES for path in (FIXTURES / "cases").glob(f"{number}-*")),
]
KNOWN = [line for path in FILES for line in path.read_bytes().split(b"\n") if line]
EXAMPLES = 150
NAMES = [
    *Line.__struct_encode_fields__,
    *("rollout_results", "statistics_a", "output_tokens", "new_tokens", "turns", "message", "delta", "content", "type"),
]

JSON_VALUES = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats()
    | st.text(st.characters(exclude_categories=()), max_size=8)
    | st.sampled_from(["stop", "abort", "error", "skipped", "chat.completion.chunk"]),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(NAMES) | st.text(max_size=4), inner),
    max_leaves=12,
)


def check(line: bytes) -> None:
    decoded = decode_response_line(line)
    if isinstance(decoded, BadLine):
        assert decoded.why
        assert decoded.why.isprintable()
        return
    keys = [fact.key for fact in decoded if fact.key is not None and not fact.part]
    assert len(keys) == len(set(keys))
    for fact in decoded:
        assert isinstance(fact.outcome, Outcome)
        assert fact.key is None or (isinstance(fact.key, bytes) and fact.key)
        for number in (fact.prompt_tokens, fact.completion_tokens, fact.n_output_ids):
            assert number is None or (type(number) is int and number >= 0)
        assert fact.finish_reason is None or fact.finish_reason.isprintable()
        assert fact.message is None or fact.message.isprintable()
        assert (fact.message is not None) == (fact.outcome in (Outcome.FAILED, Outcome.SKIPPED))
        assert fact.finished_at is None or type(fact.finished_at) is float
        assert fact.part or fact.outcome is not Outcome.INCOMPLETE


@settings(max_examples=EXAMPLES, deadline=None)
@given(st.binary(max_size=200))
def test_any_bytes(line: bytes) -> None:
    check(line)


@settings(max_examples=EXAMPLES, deadline=None)
@given(JSON_VALUES, st.booleans())
def test_any_json(value: Any, ascii_only: bool) -> None:
    check(json.dumps(value, ensure_ascii=ascii_only).encode("utf-8", "surrogatepass"))


@settings(max_examples=EXAMPLES, deadline=None)
@given(st.dictionaries(st.sampled_from(NAMES), JSON_VALUES, min_size=1, max_size=6))
def test_known_keys_with_any_values(record: dict[str, Any]) -> None:
    check(json.dumps(record).encode())


@settings(max_examples=EXAMPLES, deadline=None)
@given(st.sampled_from(KNOWN), st.data())
def test_damaged_lines(line: bytes, data: st.DataObject) -> None:
    start = data.draw(st.integers(0, len(line)))
    end = data.draw(st.integers(start, min(len(line), start + 20)))
    check(line[:start] + data.draw(st.binary(max_size=5) | st.sampled_from(KNOWN)) + line[end:])


@settings(max_examples=EXAMPLES, deadline=None)
@given(st.sampled_from([line for line in KNOWN if line.startswith(b"{")]), st.data())
def test_values_replaced_in_known_lines(line: bytes, data: st.DataObject) -> None:
    record = json.loads(line)
    place = record
    while True:
        key = data.draw(st.sampled_from(list(place) if isinstance(place, dict) else range(len(place))))
        inner = place[key]
        if not isinstance(inner, dict | list) or not inner or data.draw(st.booleans()):
            break
        place = inner
    place[key] = data.draw(JSON_VALUES)
    check(json.dumps(record).encode())
