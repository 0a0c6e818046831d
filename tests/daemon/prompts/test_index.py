from __future__ import annotations

import json
import random
import shutil
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import msgspec
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from contracts.records import FailureClass, NextStep, encode_line
from contracts.run_dir import DatasetDir
from daemon.prompts.importer import import_prompts
from daemon.prompts.index import PromptIndex, PromptIndexError, PromptLimits
from daemon.prompts.prompt_file import PromptFileError
from daemon.prompts.refusals import refusal_record
from daemon.prompts.tokenizer import ByteTokenizer
from tests.daemon.prompts.conftest import CASES, SHAPES

Write = Callable[..., Path]
ANY = PromptLimits(vocab_size=None, max_input_len=None, context_length=None, max_new_tokens=8)


def limits(**changes: Any) -> PromptLimits:
    return replace(ANY, **changes)


def build(path: Path, given: PromptLimits = ANY) -> PromptIndex:
    return PromptIndex.build(path, given)


def ids_in(index: PromptIndex) -> list[list[int]]:
    return [json.loads(index.read_ids(entry)) for entry in index.entries]


def whys(index: PromptIndex) -> list[tuple[int, str]]:
    return [(refusal.line, refusal.why) for refusal in index.refusals]


def test_case_10_bad_token_ids() -> None:
    index = build(CASES / "10-bad-token-ids.jsonl", limits(vocab_size=32000))
    assert [(entry.sample_id, entry.line) for entry in index.entries] == [(1, 1), (9, 9)]
    assert ids_in(index) == [[1, 2, 3], [31999]]
    assert whys(index) == [
        (2, "input_ids[0] is -1: negative"),
        (3, "input_ids[0] is 32000: outside the vocabulary of 32000 (0 to 31999)"),
        (4, "input_ids[1] is 2.0, not an integer"),
        (5, "input_ids[0] is true, not an integer"),
        (6, "input_ids[1] is the text '2', not an integer"),
        (7, "input_ids[0] is a list, not an integer"),
        (8, "input_ids[0] is 5279552648203111001: outside the vocabulary of 32000 (0 to 31999)"),
    ]
    assert [refusal.sample_id for refusal in index.refusals] == [2, 3, 4, 5, 6, 7, 8]


def test_unknown_vocabulary_still_refuses_negative_and_absurd_ids() -> None:
    index = build(CASES / "10-bad-token-ids.jsonl")
    assert [entry.line for entry in index.entries] == [1, 3, 9]
    assert "larger than any vocabulary" in index.refusals[-1].why


def test_pretokenized_file() -> None:
    index = build(SHAPES / "p21_pretokenized.jsonl", limits(context_length=4 + 1))
    assert index.pretokenized and index.mixed is None
    assert ids_in(index) == [[1, 15, 27, 2], [1, 15]]
    assert [entry.pretokenized for entry in index.entries] == [True, True]
    assert [line for line, _ in whys(index)] == [3, 4, 5]
    again = build(SHAPES / "p21_pretokenized.jsonl")
    assert [entry.sample_id for entry in index.entries] == [entry.sample_id for entry in again.entries]


def test_mixed_file_is_said_and_treated_line_by_line(write: Write) -> None:
    index = build(write('{"sample_id":1,"input_ids":[1],"loss_mask":[1]}\n{"sample_id":2,"input_ids":[1]}\n'))
    assert [entry.pretokenized for entry in index.entries] == [True, False]
    assert not index.pretokenized
    assert index.mixed is not None and "1 of 2 prompts have a loss_mask" in index.mixed


def test_null_mask_is_none_and_spaces_and_other_keys_are_fine(write: Write) -> None:
    text = (
        '\ufeff{"x": [7], "input_ids" : [ 1,\t2 ] , "loss_mask":null, "sample_id": "é"}\r\n\r\n{"input_ids":[3],"id":5}'
    )
    index = build(write(text))
    assert [index.read_ids(entry) for entry in index.entries] == [b"[ 1,\t2 ]", b"[3]"]
    assert [(entry.sample_id, entry.key, entry.line, entry.n_tokens) for entry in index.entries] == [
        ("é", "é".encode(), 1, 2),
        (5, b"5", 3, 1),
    ]
    assert (index.blank, index.pretokenized, index.refusals) == (1, False, [])


def test_the_ids_found_are_those_of_the_key(write: Write) -> None:
    """Equal text earlier in the line, a repeated key (the last counts) and the key's name inside a text."""
    rows = [
        '{"sample_id":1,"other":[1,2],"input_ids":[1,2]}',
        '{"sample_id":2,"input_ids":[9],"input_ids":[1,2]}',
        '{"note":"\\"input_ids\\":[5]","input_ids":[6],"sample_id":3}',
        '{"sample_id":4,"\\u0069nput_ids":[7]}',
        '{"note":"\\ud800","input_ids":[8],"sample_id":5}',
    ]
    assert ids_in(build(write("\n".join(rows)))) == [[1, 2], [1, 2], [6], [7], [8]]


def test_duplicates_are_refused(write: Write) -> None:
    index = build(
        write('{"sample_id":7,"input_ids":[1]}\n{"sample_id":"7","input_ids":[2]}\n{"id":7,"input_ids":[]}\n')
    )
    assert [entry.line for entry in index.entries] == [1]
    assert [line for line, _ in whys(index)] == [2, 3]
    assert "lines 1 and 3 are one sample" in index.refusals[1].why


@pytest.mark.parametrize(
    ("changes", "own_limit", "why"),
    [
        ({"max_input_len": 5}, None, None),
        ({"max_input_len": 4}, None, "has 4 tokens: the server takes fewer than 4"),
        ({"context_length": 12}, None, None),
        ({"context_length": 11}, None, "with max_new_tokens 8 it exceeds the context of 11"),
        ({"context_length": 11, "over_long": "clip"}, 7, None),
        ({"context_length": 12, "over_long": "clip"}, None, None),
        ({"context_length": 5, "over_long": "clip"}, 1, None),
        ({"context_length": 4, "over_long": "clip"}, None, "the context of 4 leaves no room"),
        ({"vocab_size": 5}, None, None),
        ({"vocab_size": 4}, None, "input_ids[3] is 4: outside the vocabulary of 4 (0 to 3)"),
    ],
)
def test_limits(write: Write, changes: dict[str, Any], own_limit: int | None, why: str | None) -> None:
    index = build(write('{"sample_id":"a","input_ids":[1,2,3,4]}\n'), limits(**changes))
    if why is None:
        assert [entry.max_new_tokens for entry in index.entries] == [own_limit]
    else:
        assert index.entries == []
        assert why in index.refusals[0].why


def test_pretokenized_samples_need_no_room_for_an_answer(write: Write) -> None:
    path = write('{"sample_id":"a","input_ids":[1,2,3],"loss_mask":[0,1,1]}\n')
    assert [entry.max_new_tokens for entry in build(path, limits(context_length=4, over_long="clip")).entries] == [None]
    assert build(path, limits(context_length=3)).entries == []


def test_text_shapes_say_how_to_import_them() -> None:
    index = build(SHAPES / "p05_messages_only.jsonl")
    assert index.entries == []
    for _, why in whys(index):
        assert "`prompts = ...`" in why and "[tokenizer]" in why


@pytest.mark.parametrize(
    ("name", "what"), [("p03_array_in_jsonl.jsonl", "one JSON array"), ("p04_pretty_printed.jsonl", "pretty-printed")]
)
def test_other_layouts_are_one_refusal(name: str, what: str) -> None:
    index = build(SHAPES / name)
    ((line, why),) = whys(index)
    assert line == 1 and what in why and "`prompts = ...`" in why


def test_ids_under_another_key(write: Write) -> None:
    index = build(write('{"prompt":[1,2],"id":"a"}\nbroken\n'))
    assert "but not as input_ids" in index.refusals[0].why
    assert "broken JSON" in index.refusals[1].why


def test_missing_empty_and_folder(tmp_path: Path, write: Write) -> None:
    with pytest.raises(PromptIndexError, match=r"no such file.*`prompts = ...`"):
        build(tmp_path / "none.jsonl")
    with pytest.raises(PromptIndexError, match="is empty"):
        build(write(b""))
    with pytest.raises(PromptFileError, match="cannot be read: Is a directory"):
        build(tmp_path)


def test_imported_files_index_without_a_refusal_and_tell_the_source_s_line(dataset: DatasetDir) -> None:
    for source in sorted(SHAPES.glob("p*")):
        report = import_prompts(source, dataset, ByteTokenizer())
        index = build(dataset.prompts, limits(vocab_size=256))
        assert (len(index.entries), index.refusals) == (report.accepted, [])
        shutil.rmtree(dataset.path)
    import_prompts(CASES / "10-bad-token-ids.jsonl", dataset, None)
    index = build(dataset.prompts, limits(vocab_size=32000))
    ((line, why),) = whys(index)
    assert line == 2 and why.endswith("(line 3 of the imported file)")


def test_refusal_record(write: Write) -> None:
    index = build(write('{"sample_id":"a","input_ids":[]}\n'))
    record = refusal_record("B1", index.refusals[0], at=12.5)
    assert (record.sample_id, record.error, record.next) == ("a", FailureClass.INVALID_INPUT, NextStep.REFUSED)
    assert (record.line, record.at, record.attempt) == (1, 12.5, 0)
    assert record.message == "B1: line 1: input_ids is empty: an empty prompt is never sent"
    assert encode_line(record)


def test_ids_go_into_a_request_as_they_are(write: Write) -> None:
    index = build(write('{"sample_id":"a","input_ids":[1, 2]}\n'))
    assert msgspec.json.encode({"input_ids": msgspec.Raw(index.read_ids(index.entries[0]))}) == b'{"input_ids":[1, 2]}'


def test_a_file_cut_while_in_use_is_an_error(write: Write) -> None:
    path = write('{"sample_id":"a","input_ids":[1]}\n{"sample_id":"b","input_ids":[2,3]}\n')
    with build(path) as index:
        path.write_bytes(path.read_bytes()[:40])
        assert json.loads(index.read_ids(index.entries[0])) == [1]
        with pytest.raises(PromptFileError, match="line 2 is not where it was"):
            index.read_ids(index.entries[1])


def test_entries_are_small(write: Write) -> None:
    (entry,) = build(write('{"sample_id":"a","input_ids":[1]}\n')).entries
    assert not hasattr(entry, "__dict__")


def test_many_lines_over_buffer_ends(write: Write) -> None:
    chance = random.Random(1)
    rows = [[chance.randrange(32000) for _ in range(chance.randrange(1, 2000))] for _ in range(400)]
    text = "".join(f'{{"sample_id":{number},"input_ids":{json.dumps(row)}}}\n' for number, row in enumerate(rows))
    assert len(text) > 2 << 20
    assert ids_in(build(write(text))) == rows


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    st.lists(
        st.fixed_dictionaries(
            {"input_ids": st.lists(st.integers(-1, 9) | st.booleans() | st.floats() | st.text(max_size=2), max_size=3)},
            optional={
                "sample_id": st.integers(0, 3) | st.text(max_size=1) | st.none() | st.floats(),
                "loss_mask": st.lists(st.integers(0, 2), max_size=3) | st.none(),
                "attention_mask": st.lists(st.just(1), max_size=3),
            },
        )
        | st.text(max_size=5),
        min_size=1,
        max_size=8,
    )
)
def test_nothing_bad_ever_gets_in(write: Write, rows: list[object]) -> None:
    path = write("\n".join(json.dumps(row) for row in rows))
    with build(path, limits(vocab_size=8)) as index:
        assert len(index.entries) + len(index.refusals) == len(rows)
        assert len({entry.key for entry in index.entries}) == len(index.entries)
        for entry in index.entries:
            ids = json.loads(index.read_ids(entry))
            assert ids == rows[entry.line - 1]["input_ids"]  # type: ignore[index]
            assert ids and all(type(number) is int and 0 <= number < 8 for number in ids)
            assert len(ids) == entry.n_tokens
