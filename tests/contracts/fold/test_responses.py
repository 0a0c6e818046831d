"""Counting responses: bulk reading, line by line reading and an independent recount agree."""

from __future__ import annotations

import json
import random
from pathlib import Path
from typing import Any

import msgspec
import pytest
from hypothesis import Phase, given, settings
from hypothesis import strategies as st

import contracts.fold.responses as responses_module
from contracts.fold.dataset import DatasetFold
from contracts.fold.responses import ResponseFold
from contracts.journal.tail import Tail
from contracts.records import encode_line
from contracts.run_dir import DatasetDir
from contracts.sample_id import sample_key
from contracts.shapes import decode_response_line
from tests.support.records import NOW, response

FIXTURES = Path(__file__).parents[2] / "fixtures"
NO_SHRINKING = (Phase.explicit, Phase.reuse, Phase.generate)
"""The examples are drawn by a seed: a smaller seed is no smaller example."""


def fold_of(content: bytes, *, bulk: bool | None, cuts: tuple[int, ...] = ()) -> ResponseFold:
    """Fold whole lines, in blocks that end behind the lines with these numbers; ``bulk`` None: as they come in live.

    Not in bulk means every line in full: what the other ways are held against.
    """
    fold = ResponseFold(exact=bulk is False)
    lines = [line + b"\n" for line in content.split(b"\n")[:-1]]
    offset = 0
    for begin, end in zip((0, *cuts), (*cuts, len(lines)), strict=True):
        block = b"".join(lines[begin:end])
        if block:
            fold.feed(bytearray(block + b'{"behind the end'), len(block), offset, bulk is True)
        offset += len(block)
    return fold


def summary(fold: ResponseFold) -> dict[str, Any]:
    """All that a fold holds, but for contradictions: those bulk reading looks for in samples."""
    apart = ("contradictions", "unchecked", "exact", "notes")
    return {name: getattr(fold, name) for name in fold.__struct_fields__ if name not in apart}


def ours(number: int, chance: random.Random, **over: Any) -> dict[str, Any]:
    """A record of our writer as plain values, every optional key there or not by chance."""
    tokens = over.pop("tokens", chance.choice([0, 1, 2, 3, 40]))
    record: dict[str, Any] = {
        "sample_id": chance.choice([f"s{number}", number, f"é漢{number}", f'q"{number}', f"a/b {number}"]),
        "prompt_tokens": chance.randrange(2000),
        "completion_tokens": tokens,
        "finish_reason": chance.choice(["stop", "stop", "length", "tool_calls"]),
        "output_ids": [chance.randrange(160_000) for _ in range(tokens)],
        "think_end": chance.choice([True, False]),
        "finished_at": chance.choice([NOW + number * 0.3, int(NOW) + number, NOW - 5000 + 13 * number]),
        "started_at": NOW,
        "rid": f"e3-{number}",
        "server": "http://127.0.0.1:30000",
        "attempt": 1,
        "matched": chance.choice([7, "</s>", None]),
        "cached_tokens": 0,
        "e2e_latency_s": 1.5,
        "schema": 1,
    }
    for key in ("think_end", "finished_at", "matched", "cached_tokens", "e2e_latency_s", "rid", "schema"):
        if chance.random() < 0.3:
            del record[key]
    return record | over


def written(record: dict[str, Any], style: str = "compact") -> bytes:
    """A record as a line without its newline."""
    if style == "spaced":
        return json.dumps(record).encode()
    if style == "ids first":
        ids = record.pop("output_ids")
        record = {"sample_id": record.pop("sample_id"), "output_ids": ids} | record
    elif style == "ids last":
        record["output_ids"] = record.pop("output_ids")
    return json.dumps(record, separators=(",", ":"), ensure_ascii=style == "escaped").encode()


STYLES = ("compact", "spaced", "ids first", "ids last", "escaped")


def recount(lines: list[bytes]) -> dict[str, Any]:
    """Count lines of our own shape, or of the one before it, with nothing but json."""
    done: dict[bytes, dict[str, Any]] = {}
    duplicates = unreadable = 0
    for line in lines:
        try:
            record = json.loads(line)
        except ValueError:
            unreadable += 1
            continue
        if "response" in record:
            answer = record["response"]
            record |= answer["usage"] | {"finish_reason": answer["choices"][0]["finish_reason"]}
        key = sample_key(record["sample_id"])
        if key in done:
            duplicates += 1
        else:
            done[key] = record
    return {
        "done": set(done),
        "duplicates": duplicates,
        "unreadable": unreadable,
        "prompt_tokens": sum(record["prompt_tokens"] for record in done.values()),
        "completion_tokens": sum(record["completion_tokens"] for record in done.values()),
        "lengths": sum(record["finish_reason"] == "length" for record in done.values()),
        "stamped": sum("finished_at" in record for record in done.values()),
        "think_missing": sum(record.get("think_end") is False for record in done.values()),
    }


def counted(fold: ResponseFold) -> dict[str, Any]:
    everything = fold.history.since(0)
    return {
        "done": fold.done,
        "duplicates": fold.duplicates,
        "unreadable": fold.unreadable.count,
        "prompt_tokens": fold.prompt_tokens,
        "completion_tokens": fold.completion_tokens,
        "lengths": fold.finish_reasons.get("length", 0),
        "stamped": everything.responses,
        "think_missing": fold.think_missing,
    }


@pytest.mark.parametrize("bulk", [False, True])
@pytest.mark.parametrize("style", [*STYLES, "all"])
def test_counts_are_those_of_an_independent_recount(style: str, bulk: bool) -> None:
    chance = random.Random(style)
    lines = []
    for number in range(400):
        record = ours(chance.randrange(300), chance)
        lines.append(written(record, chance.choice(STYLES) if style == "all" else style))
        if style == "all" and number % 7 == 0:
            choices = [{"finish_reason": "length", "message": {"content": "x"}}]
            usage = {"prompt_tokens": number, "completion_tokens": 3}
            old = {"sample_id": f"old{number}", "response": {"choices": choices, "usage": usage}}
            lines.append(json.dumps(old).encode())
        if style == "all" and number % 50 == 0:
            lines.append(b"Killed")
    fold = fold_of(b"".join(line + b"\n" for line in lines), bulk=bulk)
    assert counted(fold) == recount(lines)
    assert fold.contradictions.count == 0
    assert fold.lines == len(lines)


def watched(monkeypatch: pytest.MonkeyPatch) -> list[bytes]:
    """The lines that are not read in bulk, as they come."""
    seen: list[bytes] = []

    def noted(line: bytes) -> Any:
        seen.append(line)
        return decode_response_line(line)

    monkeypatch.setattr(responses_module, "decode_response_line", noted)
    return seen


def test_our_own_lines_are_read_in_bulk_without_a_look_at_their_ids(monkeypatch: pytest.MonkeyPatch) -> None:
    """Otherwise the other tests here would compare one thing with itself."""
    slow = watched(monkeypatch)
    chance = random.Random(3)
    lines = [encode_line(response(f"s{number}", 9, think_end=True, matched=7)) for number in range(50)]
    lines += [encode_line(response(number, 9, cached_tokens=1, e2e_latency_s=1.0)) for number in range(50)]
    fold = fold_of(b"".join(lines), bulk=True)
    assert slow == []
    assert len(fold.done) == 100
    for style in STYLES:
        same = [written(ours(1000 + number, chance), style) + b"\n" for number in range(20)]
        fold_of(b"".join(same), bulk=True)
        # The first of another style tells how the others are to be read; ids at the end are read in full.
        assert len(slow) <= (20 if style == "ids last" else 1), style
        slow.clear()
    fold_of(b"".join(lines), bulk=False)
    assert slow == [line[:-1] for line in lines]


def test_in_bulk_the_ids_of_every_64th_line_are_looked_at(monkeypatch: pytest.MonkeyPatch) -> None:
    seen = watched(monkeypatch)
    lines = [encode_line(response(f"s{number}", 2)).replace(b"[0,", b"[x,") for number in range(1, 300)]
    fold = fold_of(b"".join(lines), bulk=True, cuts=(50, 51, 157))
    assert seen == [lines[number - 1][:-1] for number in (64, 128, 192, 256)]
    assert fold.unreadable.count == 4


def test_a_page_of_zeros_is_seen_in_bulk_wherever_the_block_begins() -> None:
    """What a power cut leaves of a page that never reached the disk."""
    lines = [encode_line(response(f"s{number}", 3000)) for number in range(4)]
    content = bytearray(b"".join(lines))
    content[4096:8192] = bytes(4096)
    for cuts in ((), (1,), (2, 3)):
        fold = fold_of(bytes(content), bulk=True, cuts=cuts)
        assert fold.unreadable.count >= 1
        assert summary(fold) == summary(fold_of(bytes(content), bulk=False))


def test_one_contradiction_found_in_bulk_has_the_file_read_in_full(tmp_path: Path) -> None:
    """How many there are must not depend on how the file was read."""
    folder = DatasetDir(tmp_path / "B1")
    folder.path.mkdir()
    lines = [encode_line(response(f"s{n}", 300, completion_tokens=300 + (n % 7 == 0))) for n in range(5000)]
    folder.responses.write_bytes(b"".join(lines))
    at_once, in_pieces = DatasetFold(folder), DatasetFold(folder)
    at_once.poll()
    while in_pieces.poll(50_000):
        pass
    assert at_once.responses.contradictions.count == in_pieces.responses.contradictions.count == 715
    assert at_once.responses.unchecked == 0
    with folder.responses.open("ab") as file:
        file.write(encode_line(response("more", 3, completion_tokens=4)))
    at_once.poll()
    assert at_once.responses.contradictions.count == 716
    assert len(at_once.responses.done) == 5001


def test_contradictions_are_all_found_line_by_line() -> None:
    lines = [encode_line(response(f"s{number}", 5, completion_tokens=5 + (number % 10 == 0))) for number in range(100)]
    fold = fold_of(b"".join(lines), bulk=False)
    assert fold.contradictions.count == 10
    assert fold.contradictions.first[1].line == 11
    assert fold.contradictions.first[1].why == "completion_tokens is 6, but there are 5 output_ids"
    assert fold.completion_tokens == 510  # what is stated counts


def test_in_bulk_contradictions_are_found_in_samples_and_beyond_any_width() -> None:
    ids = msgspec.Raw(b"[10000,20000,30000,40000,50000]")
    wrong = [encode_line(response(f"s{number}", completion_tokens=6, output_ids=ids)) for number in range(1280)]
    assert fold_of(b"".join(wrong), bulk=True).contradictions.count == 20
    zero = [encode_line(response(f"s{number}", 5, completion_tokens=0)) for number in range(10)]
    many = [encode_line(response(f"t{number}", 5, completion_tokens=5000)) for number in range(10)]
    assert fold_of(b"".join(zero + many), bulk=True).contradictions.count == 20


LINE = encode_line(response("a", 4, matched=7))[:-1]
IDS = LINE.index(b'"output_ids":[') + 14
CLOSE = LINE.index(b"]", IDS)


@pytest.mark.parametrize("bulk", [False, True])
@pytest.mark.parametrize(
    "line",
    [
        LINE[: IDS + 3] + LINE,  # torn in its ids, continued by a whole record
        LINE[: IDS + 3] + b" " + LINE,
        LINE[:CLOSE] + LINE,
        LINE[: CLOSE + 1] + LINE,
        LINE[: CLOSE + 2] + LINE,
        LINE[: CLOSE + 12] + LINE,
        LINE[:-1] + LINE,
        LINE + LINE,
        LINE[:20] + LINE,
        LINE[: IDS - 2] + LINE,
        LINE[: IDS + 3],
        LINE[:CLOSE],
        LINE[:-1],
        LINE[: CLOSE + 1],
        LINE + b"}",
        LINE[: CLOSE + 2] + b"}",
        LINE[: CLOSE + 1] + b',"finished_at":}',
        LINE[: CLOSE + 1] + b',"finished_at":1,}',
        LINE[: CLOSE + 1] + b',"rid":"\x01"}',
        LINE[: CLOSE + 1] + b',"rid":"\xff"}',
        LINE[: CLOSE + 1] + b',"anything at all}',
        LINE[: CLOSE + 1] + b" }x",
        LINE.replace(b":4,", b":04,", 1),
        LINE.replace(b":4,", b":-4,", 1),
        LINE.replace(b":4,", b":4.0,", 1),
        LINE.replace(b":4,", b':"4",', 1),
        LINE.replace(b":4,", b":true,", 1),
        LINE.replace(b'"prompt_tokens":5', b'"prompt_tokens":-1'),
        LINE.replace(b'"prompt_tokens":5', b'"prompt_tokens":9999999999'),
        LINE.replace(b'"prompt_tokens":5', b'"prompt_tokens":[5]'),
        LINE.replace(b'"a"', b"1.5"),
        LINE.replace(b'"a"', b'"\xff"'),
        LINE.replace(b'"a"', b'"\n"'),
        LINE.replace(b"0,1", b"0\0,1"),
        LINE.replace(b"0,1", b"0\n,1"),
        b"\0" * 40,
        b"[1,2,3]",
        b"Segmentation fault",
        b'{"sample_id":"a"}',
        b"{}",
    ],
)
def test_damaged_lines_are_unreadable_and_never_counted(line: bytes, bulk: bool) -> None:
    other = encode_line(response("other", 2))
    if bulk and (b"0\0," in line or b"0\n," in line):
        return  # within the ids, of no width to speak of: bulk reading sees it in samples (tested above)
    fold = fold_of(other + line + b"\n" + other.replace(b"other", b"third"), bulk=bulk)
    assert fold.done == {b"other", b"third"}
    assert fold.completion_tokens == 4
    assert fold.unreadable.count == line.count(b"\n") + 1
    assert fold.unreadable.first[0].line == 2
    assert fold.unreadable.first[0].offset == len(other)


@pytest.mark.parametrize("bulk", [False, True])
@pytest.mark.parametrize(
    ("over", "failed", "done"),
    [
        ({"finish_reason": "abort"}, 1, 0),
        ({"finish_reason": "error"}, 1, 0),
        ({"finish_reason": "eos"}, 0, 1),
        ({"finish_reason": "a\x1b[2J"}, 0, 1),
        ({"finish_reason": ""}, 0, 0),
        ({"finish_reason": None}, 0, 0),
        ({"error": "HTTP 503"}, 1, 0),
        ({"status": "error"}, 1, 0),
        ({"sample_id": ""}, 0, 1),
        ({"sample_id": None}, 0, 1),
        ({"finished_at": None}, 0, 1),
        ({"finished_at": "yesterday"}, 0, 1),
        ({"finished_at": -5}, 0, 1),
        ({"finished_at": 1e15}, 0, 1),
        ({"think_end": None}, 0, 1),
        ({"completion_tokens": 0, "output_ids": [], "text": "words"}, 0, 1),
        ({"completion_tokens": 0, "output_ids": []}, 0, 1),
        ({"somebody_elses": {"output_ids": [1, 2]}}, 0, 1),
    ],
)
def test_odd_values_mean_the_same_in_bulk(over: dict[str, Any], failed: int, done: int, bulk: bool) -> None:
    record = json.loads(encode_line(response("a", 3, matched=7))) | over
    line = json.dumps(record, separators=(",", ":")).encode() + b"\n"
    fold = fold_of(line, bulk=bulk)
    assert (len(fold.failures), len(fold.done), fold.unreadable.count) == (failed, done, 0)
    assert summary(fold) == summary(fold_of(line, bulk=False))


@pytest.mark.parametrize("bulk", [False, True])
class TestIdentity:
    def test_numbers_and_their_text_are_one_sample(self, bulk: bool) -> None:
        lines = [encode_line(response(sample_id, 2)) for sample_id in (0, 7, "7", "1a", 9007199254740993, "0")]
        fold = fold_of(b"".join(lines), bulk=bulk)
        assert fold.done == {b"0", b"7", b"1a", b"9007199254740993"}
        assert (fold.duplicates, fold.completion_tokens) == (2, 8)

    def test_escapes_and_their_characters_are_one_sample(self, bulk: bool) -> None:
        plain = encode_line(response("é/1", 2))
        escaped = plain.replace("é/1".encode(), b"\\u00e9\\/1")
        fold = fold_of(plain + escaped, bulk=bulk)
        assert (fold.done, fold.duplicates) == ({"é/1".encode()}, 1)

    def test_the_first_response_of_a_sample_counts(self, bulk: bool) -> None:
        fold = fold_of(encode_line(response("a", 2)) + encode_line(response("a", 30)), bulk=bulk)
        assert (fold.completion_tokens, fold.duplicates, fold.known) == (2, 1, 1)

    def test_a_response_ends_a_failure_and_an_unfinished_answer(self, bulk: bool) -> None:
        failed = b'{"sample_id":"a","error":"HTTP 503"}\n'
        meta = b'{"finish_reason":null,"prompt_tokens":1,"completion_tokens":1}'
        cut = b'{"sample_id":"b","text":"wor","meta_info":' + meta + b"}\n"
        before = fold_of(failed + cut, bulk=bulk)
        assert (set(before.failures), set(before.parts)) == ({b"a"}, {b"b"})
        fold = fold_of(failed + cut + encode_line(response("a", 2)) + encode_line(response("b", 2)), bulk=bulk)
        assert (fold.failures, fold.parts, fold.completion_tokens) == ({}, {}, 4)

    def test_what_comes_after_the_response_changes_nothing(self, bulk: bool) -> None:
        piece = b'{"sample_id":"a","completion_tokens":1,"finish_reason":null,"output_ids":[1]}\n'
        fold = fold_of(encode_line(response("a", 2)) + b'{"sample_id":"a","error":"HTTP 503"}\n' + piece, bulk=bulk)
        assert (fold.done, fold.failures, fold.parts, fold.completion_tokens) == ({b"a"}, {}, {}, 2)


@pytest.mark.parametrize("bulk", [False, True])
def test_old_times_among_new_ones_lose_nothing(bulk: bool) -> None:
    """Buckets that become coarse while one of them is being filled keep what is added to them."""
    lines, chance = [], random.Random(1)
    for number in range(6000):
        at = NOW + number - (100_000 if number % 3 == 0 else 0)
        lines.append(encode_line(response(f"s{number}", 1, finished_at=at)))
        if chance.random() < 0.1:
            old = {"sample_id": f"old{number}", "completion_tokens": 1, "finished_at": at - 5_000_000}
            lines.append(json.dumps(old).encode() + b"\n")
    fold = fold_of(b"".join(lines), bulk=bulk)
    assert fold.history.since(0).responses == len(fold.done) == len(lines)
    assert len(fold.history.fine) <= 1920


def test_a_bucket_that_became_coarse_between_two_lines_of_its_second() -> None:
    fold = ResponseFold()
    for number in range(1920):
        fold.history.bucket(NOW + number)
    foreign = b'{"sample_id":"b","completion_tokens":1,"finished_at":%d}\n' % (NOW + 5000)
    lines = encode_line(response("a", 1, finished_at=NOW + 0.1)) + foreign
    lines += encode_line(response("c", 1, finished_at=NOW + 0.2))
    fold.feed(bytearray(lines), len(lines), 0, True)
    assert fold.history.coarse
    assert fold.history.since(0).responses == 3


def all_known_lines() -> list[bytes]:
    lines = []
    for path in sorted((FIXTURES / "shapes").glob("r*.jsonl")):
        lines += [line for line in path.read_bytes().split(b"\n") if line]
    return lines


@st.composite
def contents(draw: st.DrawFn, anywhere: bool = False) -> bytes:
    """Files of every shape, with lines torn, merged and damaged: anywhere, or where bulk reading promises to see it."""
    chance = random.Random(draw(st.integers(0, 2**32)))
    foreign = all_known_lines()
    lines: list[bytes] = []
    for number in range(draw(st.integers(1, 25))):
        line = written(ours(chance.randrange(20), chance), chance.choice(STYLES))
        what = chance.randrange(10)
        place = chance.randrange(len(line))
        other = written(ours(100 + number, chance), chance.choice(STYLES))
        if what == 0:
            line = chance.choice(foreign)
        elif what == 1:
            line = line[:place] + other
        elif what == 2:
            line = line[:place] + other[chance.randrange(len(other)) :]
            # A bracket more within the ids is what bulk reading does not see.
            if max(line.count(b"["), line.count(b"]")) > 1 and not anywhere:
                line = other
        elif what == 3:
            begin = line.index(b"[", line.index(b"output_ids"))
            seen = [b'"', b'{"', b'],"']
            if anywhere or not begin <= place <= line.index(b"]", begin):
                seen += [b"\0", b"\n"]  # within the ids bulk reading sees those in samples only
            line = line[:place] + chance.choice(seen) + line[place:]
        elif what == 4:
            line = line[:place]
        elif what == 5:
            ids = line.index(b"output_ids")
            begin = line.index(b"[", ids)
            end = line.index(b"]", begin)
            if anywhere or not begin <= place <= end:
                line = line[:place] + bytes([chance.randrange(256)]) + line[place + chance.randrange(3) :]
        lines.append(line)
    return b"".join(line + b"\n" for line in lines)


@pytest.mark.parametrize("second", [b'"output_ids":[]', b'"output_ids": [7, 8]', b'"output_ids":[1],"attempt":1'])
@pytest.mark.parametrize("bulk", [False, True])
def test_of_two_lists_of_ids_in_a_line_the_last_counts_as_in_any_json(second: bytes, bulk: bool) -> None:
    """A line that was torn before its last key, and another writer's end of line behind it: still JSON."""
    first = b'{"sample_id":"a","prompt_tokens":9,"completion_tokens":1,"finish_reason":"stop","output_ids":[122455],'
    content = first + b'"started_at":1,' + second + b"}\n"
    expected, quick = fold_of(content, bulk=False), fold_of(content, bulk=None if not bulk else True)
    assert summary(quick) == summary(expected)
    assert quick.contradictions == expected.contradictions
    assert quick.contradictions.count == (0 if b"[1]" in second else 1)


@pytest.mark.parametrize(
    "ids", ["[4,5 6,7]", "[4, 5 6, 7]", "[4, 5, 6 , 7]", "[ 4, 5, 6]", "[4, 5, 6 ]", "[4,, 5, 6]", "[ ]"]
)
def test_a_blank_that_does_not_stand_between_two_ids_is_looked_at_closely(ids: str) -> None:
    """A digit that became a blank leaves as many commas as before."""
    line = written(ours(1, random.Random(1), tokens=3)).decode()
    begin = line.index("[", line.index("output_ids"))
    content = (line[:begin] + ids + line[line.index("]", begin) + 1 :] + "\n").encode()
    expected, quick = fold_of(content, bulk=False), fold_of(content, bulk=None)
    assert summary(quick) == summary(expected)
    assert quick.contradictions == expected.contradictions


@settings(max_examples=200, deadline=None, phases=NO_SHRINKING)
@given(content=contents(anywhere=True), data=st.data())
def test_what_comes_in_live_is_read_as_exactly_as_line_by_line(content: bytes, data: st.DataObject) -> None:
    cuts = tuple(sorted(data.draw(st.lists(st.integers(0, content.count(b"\n")), max_size=4))))
    expected, live = fold_of(content, bulk=False), fold_of(content, bulk=None, cuts=cuts)
    assert summary(live) == summary(expected)
    assert live.contradictions == expected.contradictions
    assert live.unchecked == 0


@settings(max_examples=200, deadline=None, phases=NO_SHRINKING)
@given(content=contents(), data=st.data())
def test_bulk_reading_and_reading_by_lines_agree_however_it_is_cut(content: bytes, data: st.DataObject) -> None:
    count = content.count(b"\n")
    cuts = tuple(sorted(data.draw(st.lists(st.integers(0, count), max_size=4))))
    expected = summary(fold_of(content, bulk=False))
    assert summary(fold_of(content, bulk=True)) == expected
    assert summary(fold_of(content, bulk=True, cuts=cuts)) == expected
    assert summary(fold_of(content, bulk=False, cuts=cuts)) == expected


@settings(max_examples=40, deadline=None, phases=NO_SHRINKING)
@given(content=contents(), sizes=st.lists(st.integers(1, 400), min_size=1, max_size=10))
def test_the_fold_does_not_depend_on_when_it_looked(
    tmp_path_factory: pytest.TempPathFactory, content: bytes, sizes: list[int]
) -> None:
    """Bytes arrive in pieces of any size, with a look after each."""
    path = tmp_path_factory.mktemp("fold") / "r.jsonl"
    tail, fold = Tail(path), ResponseFold()
    written_bytes = 0
    with path.open("wb", buffering=0) as file:
        while written_bytes < len(content):
            for size in sizes:
                written_bytes += file.write(content[written_bytes : written_bytes + size])
                tail.poll(fold)
    once = ResponseFold()
    Tail(path).poll(once)
    assert (summary(fold), fold.contradictions) == (summary(once), once.contradictions)


def test_a_reset_forgets_all_but_says_so() -> None:
    fold = fold_of(encode_line(response("a", 2)) + b"garbage\n", bulk=False)
    fold.reset("raw_responses.jsonl was replaced")
    assert summary(fold) == summary(ResponseFold())
    assert fold.notes == ["raw_responses.jsonl was replaced"]
    fold.done.add(b"x")
    assert ResponseFold().done == set()


class TestCases:
    """Cases of ../shared/known-failures.md, at the level of the fold."""

    def read(self, name: str, bulk: bool = False) -> ResponseFold:
        fold = ResponseFold()
        content = (FIXTURES / name).read_bytes()
        content += b"" if content.endswith(b"\n") else b"\n"
        fold.feed(bytearray(content), len(content), 0, bulk)
        return fold

    def test_16_failures_among_responses_are_not_done(self) -> None:
        fold = self.read("cases/16-failures-in-responses.jsonl")
        assert fold.done == {b"p1", b"p2", b"p3"}
        assert fold.failures == {b"p4": "HTTP 503", b"p5": "aborted"}
        assert fold.completion_tokens == 6

    def test_31_cut_while_thinking_counts_as_truncated(self) -> None:
        fold = self.read("cases/31-cut-while-thinking.jsonl")
        assert fold.finish_reasons == {"length": 2, "stop": 1}
        assert fold.completion_tokens == 131

    def test_32_usage_on_the_last_chunk(self) -> None:
        fold = self.read("shapes/r09_stream_chunks.jsonl")
        assert (fold.done, fold.completion_tokens) == ({b"k1"}, 2)
        assert set(fold.parts) == {b"k2"}

    def test_33_zero_or_missing_usage_is_unknown(self) -> None:
        fold = self.read("cases/33-zero-usage.jsonl")
        assert (len(fold.done), fold.known, fold.unknown, fold.completion_tokens) == (4, 1, 3, 12)

    def test_34_details_are_never_added(self) -> None:
        fold = self.read("cases/34-details-exceed.jsonl")
        assert (len(fold.done), fold.completion_tokens) == (2, 102 + 23870)

    def test_35_a_missing_stop_token_is_counted_as_stated_and_shown(self) -> None:
        fold = self.read("cases/35-stop-token-stripped.json")
        assert (len(fold.done), fold.completion_tokens) == (1, 4)
        assert fold.contradictions.first[0].why == "completion_tokens is 4, but there are 3 output_ids"

    def test_33_none_states_a_count(self) -> None:
        fold = self.read("shapes/r04_specforge_regenerated.jsonl")
        assert (len(fold.done), fold.known, fold.unknown, fold.unreadable.count) == (3, 0, 3, 0)

    @pytest.mark.parametrize("path", sorted((FIXTURES / "shapes").glob("r*.jsonl")), ids=lambda path: path.name[:3])
    def test_bulk_reading_knows_every_shape(self, path: Path) -> None:
        name = f"shapes/{path.name}"
        assert summary(self.read(name, bulk=True)) == summary(self.read(name))
        assert self.read(name).unreadable.count == 0


@pytest.mark.parametrize(
    ("ids", "count"),
    [
        (b"", 0),
        (b"  ", 0),
        (b"7", 1),
        (b"1,2, 3", 3),
        (b",".join(b"%d" % number for number in range(2000)), 2000),
        (b"1," * 32_759 + b"1", 32_760),
        (b"1," * 32_760 + b"1", 32_761),
        (b"," * 65_519, 65_520),
        (b"," * 65_520, 65_521),
        (b"," * 200_000, 200_001),
        (b"1," * 100_000 + b"1", 100_001),
        (b"1,-2", None),
        (b"1,2.5", None),
        (b'1,"2"', None),
        (b"1,\xff", None),
        (b"1,2\0", None),
    ],
)
def test_ids_are_counted_as_they_stand(ids: bytes, count: int | None) -> None:
    assert responses_module._count_ids(bytearray(ids)) == count
