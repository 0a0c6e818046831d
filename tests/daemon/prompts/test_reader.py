from __future__ import annotations

import json
import tracemalloc
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from daemon.prompts.reader import Layout, PromptReader, PromptSourceError, decode_json, numbered_lines
from daemon.prompts.refusals import Refusal
from tests.daemon.prompts.conftest import CASES, SHAPES

Write = Callable[..., Path]


def read(path: Path) -> tuple[Layout, list[tuple[int, object]], int]:
    reader = PromptReader(path)
    found = list(reader)
    assert reader.records == len(found)
    return reader.layout, found, reader.blank


def numbers(found: list[tuple[int, object]]) -> list[int | str]:
    """Line numbers; a refusal as its number with a minus."""
    return [-number if isinstance(value, Refusal) else number for number, value in found]


def test_bom_and_copy_without_are_the_same(write: Write) -> None:
    """Case 01."""
    source = CASES / "01-bom.jsonl"
    bare = write(source.read_bytes().removeprefix(b"\xef\xbb\xbf"))
    assert source.read_bytes() != bare.read_bytes()
    assert read(source) == read(bare)
    assert "\ufeff" not in json.dumps(read(source)[1], ensure_ascii=False)
    assert len(read(source)[1]) == 3


def test_bom_crlf_and_no_last_newline() -> None:
    (path,) = SHAPES.glob("p27_*")
    layout, found, _ = read(path)
    assert (layout, numbers(found)) == (Layout.LINES, [1, 2, 3])
    assert [value["id"] for _, value in found] == ["crlf_1", "crlf_2", "crlf_3"]  # type: ignore[index]


def test_blank_lines_count_in_numbers_only() -> None:
    """Case 06: the broken line is line 6."""
    layout, found, blank = read(CASES / "06-blank-lines.jsonl")
    assert (layout, numbers(found), blank) == (Layout.LINES, [1, 3, 5, -6, 7], 2)


@pytest.mark.parametrize("name", ["p02_sharegpt_array.json", "p03_array_in_jsonl.jsonl"])
def test_an_array_is_its_elements(name: str) -> None:
    layout, found, blank = read(SHAPES / name)
    assert (layout, numbers(found), blank) == (Layout.ELEMENTS, [1, 2, 3], 0)


def test_pretty_printed_objects_have_the_number_of_their_first_line() -> None:
    layout, found, _ = read(SHAPES / "p04_pretty_printed.jsonl")
    assert (layout, numbers(found)) == (Layout.OBJECTS, [1, 10])


@pytest.mark.parametrize(
    ("content", "layout", "expected"),
    [
        ('{"a":1}\n{"b":2}', Layout.LINES, [1, 2]),
        ('{"a":\n{"b":2}\n', Layout.LINES, [-1, 2]),
        ('{"a": "cut\n{"b":2}\n', Layout.LINES, [-1, 2]),
        ('{"a":1', Layout.LINES, [-1]),
        ("[1]\n", Layout.ELEMENTS, [1]),
        ("\n\n[1,\n2]\n", Layout.ELEMENTS, [1, 2]),
        ("[1]\n[2]\n", Layout.LINES, [1, 2]),
        ('[{"a":1},\n{"a":', Layout.ELEMENTS, [-1]),
        ("[]", Layout.ELEMENTS, []),
        ('{\n"a":1}\n\n{\n"b":[\n{\n}\n]}', Layout.OBJECTS, [1, 4]),
        ('{\n"a":1,\n}\n{\n"b":2\n}\n', Layout.OBJECTS, [-1, 4]),
        ('{\n"a":{\n"b":1\n}\n{\n"c":2\n}\n', Layout.OBJECTS, [-1, 5]),
        ('{\n"a":1\n', Layout.OBJECTS, [-1]),
        ('{\n"a":"}{[",\n"b":"\\"}"\n}', Layout.OBJECTS, [1]),
        ('x\n{"a":1}\n', Layout.LINES, [-1, 2]),
        ("\n \n", Layout.LINES, []),
    ],
)
def test_layouts(write: Write, content: str, layout: Layout, expected: list[int]) -> None:
    found = read(write(content))
    assert (found[0], numbers(found[1])) == (layout, expected)


def test_a_broken_array_is_one_refusal_that_says_array(write: Write) -> None:
    ((_, refusal),) = read(write('[{"a":1},\n{"a":'))[1]
    assert isinstance(refusal, Refusal) and "one JSON array" in refusal.why


@pytest.mark.parametrize(
    ("content", "why"),
    [
        (b"", "empty (0 bytes)"),
        (b"\xff\xfe{\x00", "UTF-16"),
        (b"\x1f\x8b\x08\x00", "gzip"),
        (b"PAR1....", "parquet"),
    ],
)
def test_no_prompt_file(write: Write, content: bytes, why: str) -> None:
    path = write(content)
    with pytest.raises(PromptSourceError, match=str(path)) as caught:
        PromptReader(path)
    assert why in str(caught.value)


def test_missing_or_a_folder(tmp_path: Path) -> None:
    with pytest.raises(PromptSourceError, match="no such prompt file"):
        PromptReader(tmp_path / "nothing.jsonl")
    with pytest.raises(PromptSourceError, match="cannot be read"):
        PromptReader(tmp_path)


@pytest.mark.parametrize(
    ("data", "expected"),
    [
        (b'"\\ud800"', "\ud800"),
        (b'"\\ud83d\\ude42"', "\U0001f642"),
        (b"9007199254740993", 9007199254740993),
        (b"123456789012345678901234567890", 123456789012345678901234567890),
    ],
)
def test_values_that_fast_decoders_spoil(data: bytes, expected: object) -> None:
    assert decode_json(data) == expected


@pytest.mark.parametrize(
    ("data", "why"),
    [
        (b'{"a": ', "is broken JSON: Expecting value (character 7)"),
        (b'{"a": "\xff"}', "is not UTF-8: byte 0xff at position 8"),
        pytest.param(b"[" * 100_000, "is nested too deeply", id="deep"),
        pytest.param(b"1" * 5000, "holds a number with thousands of digits", id="long number"),
        (b'{"a": 1} {"b": 2}', "is broken JSON: Extra data"),
    ],
)
def test_broken_values(data: bytes, why: str) -> None:
    refusal = decode_json(data)
    assert isinstance(refusal, Refusal) and why in refusal.why


def test_numbered_lines_tell_offsets(write: Write) -> None:
    data = b'\xef\xbb\xbf{"a"}\r\n\r\nlast'
    with write(data).open("rb") as stream:
        found = list(numbered_lines(stream))
    assert found == [(1, 3, b'{"a"}'), (2, 10, b""), (3, 12, b"last")]
    assert all(data[offset : offset + len(line)] == line for _, offset, line in found)


def test_memory_is_flat(write: Write) -> None:
    line = json.dumps({"prompt": "x" * 2000}) + "\n"
    path = write(line * 5000)
    tracemalloc.start()
    try:
        for _ in PromptReader(path):
            pass
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert peak < 1_000_000 < path.stat().st_size


fragments = st.lists(
    st.sampled_from([b"{", b"}", b"[", b"]", b'"a":', b"1", b",", b"\n", b'"', b"\\", b"\r\n", b"\xff", b" ", b"\x00"])
    | st.binary(max_size=4),
    min_size=1,
    max_size=30,
).map(b"".join)


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=300)
@given(fragments.filter(bool))
def test_any_bytes_are_read_or_refused(write: Write, data: bytes) -> None:
    path = write(data)
    try:
        layout, found, blank = read(path)
    except PromptSourceError:
        return
    assert all(number >= 1 for number, _ in found)
    if layout is Layout.LINES:
        bodies = data.removeprefix(b"\xef\xbb\xbf").split(b"\n")
        assert len(found) + blank == len(bodies) - (bodies[-1] == b"") or data == b"\xef\xbb\xbf"


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.lists(st.dictionaries(st.text(max_size=3), st.integers() | st.text(max_size=5)), min_size=1, max_size=5))
def test_every_layout_gives_the_same_records(write: Write, records: list[dict[str, object]]) -> None:
    texts = [
        "\n".join(json.dumps(record) for record in records),
        json.dumps(records),
        json.dumps(records, indent=1),
        "\n".join(json.dumps({"_": 1, **record}, indent=2) for record in records),
    ]
    first, *others = ([value for _, value in read(write(text))[1]] for text in texts)
    assert first == others[0] == others[1] == records
    assert others[2] == [{"_": 1, **record} for record in records]
