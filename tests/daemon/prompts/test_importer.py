from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from contracts.run_dir import DatasetDir
from daemon.prompts import importer
from daemon.prompts.conversation import Message
from daemon.prompts.importer import (
    ImportChanged,
    ImportReport,
    NothingUsable,
    PromptImportError,
    TokenizerNeeded,
    import_prompts,
)
from daemon.prompts.reader import Layout, PromptSourceError
from daemon.prompts.tokenizer import ByteTokenizer, NotEncodable
from tests.daemon.prompts.conftest import CASES, SHAPES

Write = Callable[..., Path]
BYTES = ByteTokenizer()
TOKENS = '{"sample_id":"a","input_ids":[1,2]}\n{"sample_id":"b","input_ids":[3]}\n'


def lines_of(dataset: DatasetDir) -> list[dict[str, object]]:
    return [json.loads(line) for line in dataset.prompts.read_bytes().splitlines()]


def answer(dataset: DatasetDir) -> None:
    dataset.responses.write_bytes(b'{"sample_id":"a"}\n')


def refused_lines(report: ImportReport) -> list[int]:
    return [refusal.line for refusal in report.refusals]


# (file, accepted, refused, blank)
ACCOUNTS = [
    ("p01_sharegpt_from_value.jsonl", 3, 1, 0),
    ("p02_sharegpt_array.json", 3, 0, 0),
    ("p03_array_in_jsonl.jsonl", 3, 0, 0),
    ("p04_pretty_printed.jsonl", 2, 0, 0),
    ("p05_messages_only.jsonl", 3, 0, 0),
    ("p06_conversations_role_content.jsonl", 3, 0, 0),
    ("p08_ultrachat_200k.jsonl", 3, 0, 0),
    ("p09_openthoughts.jsonl", 3, 0, 0),
    ("p10_opencodeinstruct.jsonl", 3, 0, 0),
    ("p11_magicoder_evol.jsonl", 3, 0, 0),
    ("p12_perfectblend.jsonl", 3, 0, 0),
    ("p13_indexed_integer_ids.jsonl", 3, 0, 0),
    ("p14_nemotron_input_list.jsonl", 3, 0, 0),
    ("p16_alpaca.jsonl", 3, 0, 0),
    ("p17_prompt_only.jsonl", 3, 1, 0),
    ("p18_text_preformatted.jsonl", 3, 0, 0),
    ("p19_question_answer.jsonl", 4, 0, 0),
    ("p20_turns_benchmark.jsonl", 3, 0, 0),
    ("p21_pretokenized.jsonl", 2, 3, 0),
    ("p22_openai_batch_input.jsonl", 2, 1, 0),
    ("p23_multimodal_content_list.jsonl", 1, 2, 0),
    ("p24_tool_calls.jsonl", 1, 2, 0),
    ("p25_query_response_history.jsonl", 3, 0, 0),
    ("p27_bom_crlf.jsonl", 3, 0, 0),
    ("p28_nulls_ids_empty.jsonl", 3, 3, 3),
]


@pytest.mark.parametrize(("name", "accepted", "refused", "blank"), ACCOUNTS, ids=[row[0][:3] for row in ACCOUNTS])
def test_every_line_of_every_shape_is_accounted_for(
    dataset: DatasetDir, name: str, accepted: int, refused: int, blank: int
) -> None:
    report = import_prompts(SHAPES / name, dataset, BYTES)
    assert (report.accepted, report.refused, report.blank) == (accepted, refused, blank)
    assert report.accepted + report.refused + report.blank == report.lines
    assert len(lines_of(dataset)) == accepted
    assert len(report.refusals) == refused
    if report.unit is Layout.LINES:
        assert report.lines == len((SHAPES / name).read_bytes().splitlines())


def test_the_list_of_shapes_is_complete() -> None:
    assert [row[0] for row in ACCOUNTS] == sorted(path.name for path in SHAPES.glob("p*"))


def test_case_68_no_row_of_300_is_dropped_in_silence(dataset: DatasetDir, write: Write) -> None:
    rows = (SHAPES / "p18_text_preformatted.jsonl").read_bytes() * 100
    report = import_prompts(write(rows), dataset, BYTES)
    assert report.accepted + report.refused == 300
    # t1 and t2 come 100 times each; the row without an id is a new sample each time.
    assert (report.accepted, len(report.duplicates)) == (2 + 100, 2 * 99)
    stored = import_prompts(write(rows), dataset, BYTES)
    assert stored.skipped and stored.refusals == report.refusals


def test_record_as_contracted(dataset: DatasetDir, write: Write) -> None:
    source = write('\n{"input_ids": [1, 15], "loss_mask": [0,1], "id": 7}\n{"prompt": "\\ud800"}\n')
    report = import_prompts(source, dataset, BYTES)
    first, second = dataset.prompts.read_bytes().splitlines()
    assert first == b'{"sample_id":7,"input_ids":[1,15],"loss_mask":[0,1],"source_line":2}'
    assert json.loads(second)["source_line"] == 3
    assert (report.kind, report.fingerprint) == ("text", BYTES.fingerprint)


def test_case_04_empty_and_assistant_first(dataset: DatasetDir) -> None:
    report = import_prompts(CASES / "04-empty-and-assistant-first.jsonl", dataset, BYTES)
    assert [(refusal.line, refusal.sample_id) for refusal in report.refusals] == [(2, "e2"), (3, "e3"), (4, "e4")]
    assert [line["sample_id"] for line in lines_of(dataset)] == ["e1", "e5"]


def test_case_05_turns_that_do_not_alternate(dataset: DatasetDir) -> None:
    report = import_prompts(CASES / "05-not-alternating.jsonl", dataset, BYTES)
    assert [refusal.why for refusal in report.refusals] == [
        "turn 2 of messages is a second user turn in a row",
        "turn 2 of messages is a second system turn",
    ]
    assert [line["sample_id"] for line in lines_of(dataset)] == ["n1", "n4"]


def test_case_06_blank_lines(dataset: DatasetDir) -> None:
    report = import_prompts(CASES / "06-blank-lines.jsonl", dataset, BYTES)
    assert (report.accepted, report.blank, refused_lines(report)) == (4, 2, [6])


def test_case_07_array(dataset: DatasetDir) -> None:
    report = import_prompts(CASES / "07-array.jsonl", dataset, BYTES)
    assert (report.accepted, report.lines, report.unit) == (3, 3, Layout.ELEMENTS)
    assert [line["sample_id"] for line in lines_of(dataset)] == [0, 1, 2]


def test_case_08_duplicates_name_both_lines(dataset: DatasetDir) -> None:
    report = import_prompts(CASES / "08-duplicate-ids.jsonl", dataset, BYTES)
    assert report.duplicates == [("d1", 1, 3), ("d2", 2, 5)]
    assert refused_lines(report) == [3, 5]
    assert "lines 2 and 5 are one sample, line 2 is used" in report.refusals[1].why
    assert [line["sample_id"] for line in lines_of(dataset)] == ["d1", "d2", "d4"]


def test_case_09_integers_and_texts(dataset: DatasetDir) -> None:
    report = import_prompts(CASES / "09-int-and-string-ids.jsonl", dataset, BYTES)
    assert report.duplicates == [("7", 2, 3)]
    assert [line["sample_id"] for line in lines_of(dataset)] == [0, 7, "1a", 9007199254740993]


def test_case_11_empty_prompts(dataset: DatasetDir) -> None:
    report = import_prompts(CASES / "11-empty-prompts.jsonl", dataset, BYTES)
    assert refused_lines(report) == [1, 2, 3, 4]
    assert [line["sample_id"] for line in lines_of(dataset)] == ["z5"]


def test_case_49_wide_ids_come_back(dataset: DatasetDir) -> None:
    import_prompts(CASES / "49-wide.jsonl", dataset, BYTES)
    expected = [json.loads(line)["sample_id"] for line in (CASES / "49-wide.jsonl").read_text("utf-8").splitlines()]
    assert [line["sample_id"] for line in lines_of(dataset)] == expected


def test_p28_duplicates_before_other_reasons(dataset: DatasetDir) -> None:
    report = import_prompts(SHAPES / "p28_nulls_ids_empty.jsonl", dataset, BYTES)
    assert report.duplicates == [("7", 4, 5), ("dup", 8, 9)]
    assert refused_lines(report) == [3, 5, 9]


def test_made_up_ids_are_stable_and_tell_repeats_apart(tmp_path: Path, dataset: DatasetDir) -> None:
    source = SHAPES / "p11_magicoder_evol.jsonl"
    import_prompts(source, dataset, BYTES)
    other = DatasetDir(tmp_path / "other")
    import_prompts(source, other, BYTES)
    assert dataset.prompts.read_bytes() == other.prompts.read_bytes()
    first, second, third = (str(line["sample_id"]) for line in lines_of(dataset))
    assert len(first) == 16 and third == f"{first}-2" and second != first


def test_made_up_ids_do_not_depend_on_the_tokenizer(tmp_path: Path) -> None:
    source = SHAPES / "p05_messages_only.jsonl"
    sets = [DatasetDir(tmp_path / name) for name in ("one", "two")]
    for dataset, tokenizer in zip(sets, (BYTES, ByteTokenizer("Be kind.")), strict=True):
        import_prompts(source, dataset, tokenizer)
    one, two = map(lines_of, sets)
    assert [line["sample_id"] for line in one] == [line["sample_id"] for line in two]
    assert one != two


def test_a_refused_line_does_not_hold_its_id(dataset: DatasetDir, write: Write) -> None:
    report = import_prompts(write('{"id":1,"prompt":""}\n{"id":1,"prompt":"x"}\n'), dataset, BYTES)
    assert (report.accepted, report.duplicates) == (1, [])


class Picky(ByteTokenizer):
    def encode_chat(self, messages: list[Message]) -> list[int]:
        if messages[-1]["content"] == "bad":
            raise NotEncodable("the template says \ud800")
        return [] if messages[-1]["content"] == "nothing" else super().encode_chat(messages)


def test_what_the_tokenizer_refuses_is_one_line(dataset: DatasetDir, write: Write) -> None:
    source = write('{"prompt":"bad"}\n{"prompt":"ok"}\n{"prompt":"nothing"}\n')
    report = import_prompts(source, dataset, Picky())
    assert report.accepted == 1
    assert [refusal.why for refusal in report.refusals] == [
        "the template says \\ud800",
        "gives no token at all: an empty prompt is never sent",
    ]


def test_token_files_need_no_tokenizer(dataset: DatasetDir, write: Write) -> None:
    report = import_prompts(write(TOKENS + '{"prompt":"text"}\n'), dataset, None)
    assert (report.accepted, refused_lines(report), report.fingerprint) == (2, [3], None)
    assert "run.toml has no [tokenizer]" in report.refusals[0].why


def test_text_files_say_that_they_need_one(dataset: DatasetDir, write: Write) -> None:
    with pytest.raises(TokenizerNeeded, match=r"line 1 holds text.*\[tokenizer\]"):
        import_prompts(write('{"prompt":"text"}\n'), dataset, None)
    assert list(dataset.path.iterdir()) == []


def test_nothing_usable(dataset: DatasetDir, write: Write) -> None:
    with pytest.raises(NothingUsable, match="none of its 2 lines can be used: line 1: prompt is empty") as caught:
        import_prompts(write('{"prompt":""}\n{"foo":1}\n'), dataset, BYTES)
    assert [refusal.line for refusal in caught.value.refusals] == [1, 2]
    assert list(dataset.path.iterdir()) == []


@pytest.mark.parametrize("content", [None, b""])
def test_missing_or_empty_source(tmp_path: Path, dataset: DatasetDir, write: Write, content: bytes | None) -> None:
    source = tmp_path / "missing.jsonl" if content is None else write(content)
    with pytest.raises(PromptSourceError, match=source.name):
        import_prompts(source, dataset, BYTES)


# What is there already


def test_an_unchanged_source_is_not_imported_twice(dataset: DatasetDir, write: Write) -> None:
    source = write(TOKENS)
    first = import_prompts(source, dataset, None)
    stat = dataset.prompts.stat()
    os.utime(source, ns=(1, 1))  # touched or copied: the content decides
    again = import_prompts(source, dataset, BYTES)  # a tokenizer that is not used does not count
    assert (first.skipped, again.skipped) == (False, True)
    assert again.accepted == first.accepted == 2
    assert (dataset.prompts.stat().st_ino, dataset.prompts.stat().st_mtime_ns) == (stat.st_ino, stat.st_mtime_ns)


def test_a_changed_source_is_imported_anew_while_nothing_is_answered(dataset: DatasetDir, write: Write) -> None:
    import_prompts(write(TOKENS), dataset, None)
    report = import_prompts(write(TOKENS + '{"sample_id":"c","input_ids":[4]}\n'), dataset, None)
    assert (report.skipped, report.accepted, len(lines_of(dataset))) == (False, 3, 3)


def test_a_changed_source_is_an_error_once_there_are_answers(dataset: DatasetDir, write: Write) -> None:
    import_prompts(write(TOKENS), dataset, None)
    before = dataset.prompts.read_bytes()
    answer(dataset)
    with pytest.raises(ImportChanged, match=r"the source's content .*of 70 bytes, now .* of 36 bytes"):
        import_prompts(write('{"sample_id":"a","input_ids":[1,2]}\n'), dataset, None)
    assert dataset.prompts.read_bytes() == before
    assert import_prompts(write(TOKENS), dataset, None).skipped


def test_another_tokenizer_is_an_error_once_there_are_answers(dataset: DatasetDir, write: Write) -> None:
    source = write('{"id":"a","prompt":"x"}\n')
    import_prompts(source, dataset, BYTES)
    answer(dataset)
    with pytest.raises(ImportChanged, match=r"the tokenizer \(was bytes:.*, now bytes:"):
        import_prompts(source, dataset, ByteTokenizer("Be kind."))
    with pytest.raises(ImportChanged, match=r"now none\)"):
        import_prompts(source, dataset, None)


def test_edited_prompts_are_not_overwritten_once_there_are_answers(dataset: DatasetDir, write: Write) -> None:
    source = write(TOKENS)
    import_prompts(source, dataset, None)
    answer(dataset)
    dataset.prompts.write_bytes(b'{"sample_id":"a","input_ids":[9]}\n')
    with pytest.raises(ImportChanged, match=r"prompts.jsonl itself \(.* bytes, now 34\)"):
        import_prompts(source, dataset, None)


def test_someones_own_prompts_are_never_overwritten(dataset: DatasetDir, write: Write) -> None:
    dataset.path.mkdir(parents=True)
    dataset.prompts.write_bytes(b'{"sample_id":"own","input_ids":[9]}\n')
    with pytest.raises(ImportChanged, match="was not made from this source"):
        import_prompts(write(TOKENS), dataset, None)
    assert lines_of(dataset) == [{"sample_id": "own", "input_ids": [9]}]


def test_the_data_set_s_own_file_as_source(dataset: DatasetDir, write: Write) -> None:
    import_prompts(write(TOKENS), dataset, None)
    with pytest.raises(PromptImportError, match=r"take `prompts` out of run\.toml"):
        import_prompts(dataset.prompts, dataset, None)
    assert len(lines_of(dataset)) == 2


@pytest.mark.parametrize("damage", [b"", b'{"schema":1,"sour', b'{"schema":99}', None])
def test_a_lost_import_record_is_made_again(dataset: DatasetDir, write: Write, damage: bytes | None) -> None:
    """Case 52, for import.json: prompts that are just what the source gives are recognised, also with answers."""
    source = write(TOKENS)
    import_prompts(source, dataset, None)
    before, record = dataset.prompts.read_bytes(), dataset.import_record.read_bytes()
    answer(dataset)
    if damage is None:
        dataset.import_record.unlink()
    else:
        dataset.import_record.write_bytes(damage)
    import_prompts(source, dataset, None)
    assert (dataset.prompts.read_bytes(), dataset.import_record.read_bytes()) == (before, record)


@pytest.mark.parametrize("damage", [b"", None])
def test_lost_prompts_are_made_again(dataset: DatasetDir, write: Write, damage: bytes | None) -> None:
    """Case 52, for prompts.jsonl."""
    source = write(TOKENS)
    import_prompts(source, dataset, None)
    before = dataset.prompts.read_bytes()
    answer(dataset)
    if damage is None:
        dataset.prompts.unlink()
    else:
        dataset.prompts.write_bytes(damage)
    assert not import_prompts(source, dataset, None).skipped
    assert dataset.prompts.read_bytes() == before


def test_another_reading_of_the_same_source_is_an_error_once_there_are_answers(
    dataset: DatasetDir, write: Write, monkeypatch: pytest.MonkeyPatch
) -> None:
    source = write('{"id":"a","prompt":"x"}\n')
    import_prompts(source, dataset, BYTES)
    answer(dataset)
    dataset.prompts.unlink()
    monkeypatch.setattr(ByteTokenizer, "encode_chat", lambda self, messages: [1])
    with pytest.raises(ImportChanged, match="how this version of eagle3 reads the source"):
        import_prompts(source, dataset, BYTES)


class Killed(BaseException):
    pass


@pytest.mark.parametrize(
    ("owner", "name", "calls"),
    [(Path, "unlink", 0), (importer, "replace_file", 0), (Path, "rename", 0), (Path, "rename", 1), (os, "fsync", 3)],
)
def test_killed_while_putting_in_place(
    dataset: DatasetDir, write: Write, monkeypatch: pytest.MonkeyPatch, owner: object, name: str, calls: int
) -> None:
    """Whatever is left behind (old prompts of the same size among it), the next import gives the whole file."""
    real, left = getattr(owner, name), calls

    def killing(*given: object, **named: object) -> object:
        nonlocal left
        left -= 1
        if left < 0:
            raise Killed
        return real(*given, **named)

    import_prompts(write(TOKENS.replace("1", "9")), dataset, None)
    with monkeypatch.context() as patch, pytest.raises(Killed):
        patch.setattr(owner, name, killing)
        import_prompts(write(TOKENS), dataset, None)
    import_prompts(write(TOKENS), dataset, None)
    assert [line["input_ids"] for line in lines_of(dataset)] == [[1, 2], [3]]
    assert import_prompts(write(TOKENS), dataset, None).skipped
    assert sorted(path.name for path in dataset.path.iterdir()) == ["import.json", "prompts.jsonl"]


def test_a_source_that_grows_meanwhile_is_an_error(
    dataset: DatasetDir, write: Write, monkeypatch: pytest.MonkeyPatch
) -> None:
    source = write('{"prompt":"x"}\n')

    class Growing(ByteTokenizer):
        def encode_chat(self, messages: list[Message]) -> list[int]:
            with source.open("ab") as stream:
                stream.write(b" ")
            return [1]

    with pytest.raises(PromptImportError, match="changed while it was read"):
        import_prompts(source, dataset, Growing())
    assert not dataset.prompts.exists()


def test_a_full_disk_is_named(dataset: DatasetDir, write: Write, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(handle: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(PromptImportError, match="No space left on device"):
        import_prompts(write(TOKENS), dataset, None)
    assert list(dataset.path.iterdir()) == []


def test_case_50_any_locale_gives_the_same_bytes(tmp_path: Path) -> None:
    folder = tmp_path / "é漢"
    folder.mkdir()
    source = folder / "prompts é.jsonl"
    source.write_bytes((CASES / "49-wide.jsonl").read_bytes())
    script = (
        "import sys; from pathlib import Path\n"
        "from contracts.run_dir import DatasetDir\n"
        "from daemon.prompts.importer import import_prompts\n"
        "from daemon.prompts.tokenizer import ByteTokenizer\n"
        "import_prompts(Path(sys.argv[1]), DatasetDir(Path(sys.argv[2])), ByteTokenizer())\n"
    )
    root = Path(__file__).parents[3]
    made = []
    for name, locale in (("ascii", "C"), ("utf8", "C.UTF-8")):
        target = folder / name
        environment = {
            "PATH": os.environ["PATH"],
            "LC_ALL": locale,
            "PYTHONUTF8": "0",
            "PYTHONCOERCECLOCALE": "0",
            "PYTHONPATH": str(root),
        }
        subprocess.run(
            [sys.executable, "-c", script, os.fsencode(source), os.fsencode(target)], env=environment, check=True
        )
        made.append([(target / file).read_bytes() for file in ("prompts.jsonl", "import.json")])
    assert made[0] == made[1]
    assert "prompts é.jsonl" in made[0][1].decode("utf-8")
