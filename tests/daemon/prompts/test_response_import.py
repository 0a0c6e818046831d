"""Responses of other runs: every answer taken over or refused with its reason, nothing mixed, nothing twice."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from contracts.fold.dataset import DatasetFold
from contracts.run_dir import DatasetDir, RunDir
from daemon.prompts.refusals import PromptError
from daemon.prompts.response_import import ResponseImportError, check_responses, import_responses

NOW = 2_000_000_000.0
PROMPTS: list[dict[str, Any]] = [
    {"sample_id": "a", "input_ids": [1, 2, 3]},
    {"sample_id": 7, "input_ids": [1, 2, 3]},
    {"sample_id": "c", "input_ids": [1, 2, 3]},
    {"sample_id": "d", "input_ids": [1, 2, 3]},
    {"sample_id": "e", "input_ids": [1, 2, 3]},
    {"sample_id": "masked", "input_ids": [1, 2, 3], "loss_mask": [0, 1, 1]},
]
OURS = {
    "sample_id": "a", "prompt_tokens": 3, "completion_tokens": 2, "finish_reason": "length", "output_ids": [4, 5],
    "think_end": True, "finished_at": 1.5e9, "started_at": 1.4e9, "rid": "e3.x", "server": "http://h:1", "attempt": 2,
    "schema": 1,
}  # fmt: skip
MIXED: list[object] = [
    OURS,
    {"id": 7, "text": "hi \ud83d", "output_ids": [6, 7, 8], "meta_info": {
        "id": "x", "finish_reason": {"type": "stop", "matched": 2}, "prompt_tokens": 3, "completion_tokens": 3}},
    "",
    '{"sample_id": "c", "completion_tokens": 2, "output_ids": [1,',
    {"custom_id": "c", "response": {"body": {"output_ids": [9, 9], "completion_tokens": 2}, "status_code": 200}},
    [{"id": "d", "output_ids": [1], "text": "x"}, {"id": "stranger", "output_ids": [2], "text": "y"}],
    OURS | {"output_ids": [4, 5, 6], "completion_tokens": 3},
    OURS | {"sample_id": "e", "prompt_tokens": 4},
    OURS | {"sample_id": "e", "completion_tokens": 9},
    {"sample_id": "e", "completion_tokens": 2, "text": "no ids"},
    OURS | {"sample_id": "e", "output_ids": [4, -5]},
    OURS | {"sample_id": "e", "finish_reason": "abort"},
    OURS | {"sample_id": "masked"},
    {"id": "e", "object": "chat.completion.chunk", "choices": [{"delta": {"content": "x"}}]},
    b"\xff\xfe damaged",
    {"finished": True},
    "   ",
]  # fmt: skip


def lines(values: list[object]) -> bytes:
    return b"".join(
        (one if isinstance(one, bytes) else one.encode() if isinstance(one, str) else json.dumps(one).encode()) + b"\n"
        for one in values
    )


def folder(path: Path) -> DatasetDir:
    target = RunDir(path / "run").dataset("B1")
    target.path.mkdir(parents=True)
    target.prompts.write_bytes(lines(list(PROMPTS)))
    return target


def source_file(path: Path, values: list[object]) -> Path:
    source = path / "other" / "raw_responses.jsonl"
    source.parent.mkdir(exist_ok=True)
    source.write_bytes(lines(values))
    return source


def written(target: DatasetDir) -> list[dict[str, Any]]:
    return [json.loads(line) for line in target.responses.read_bytes().splitlines()]


def test_a_foreign_file_of_mixed_shapes_and_damage(tmp_path: Path) -> None:
    target, source = folder(tmp_path), source_file(tmp_path, MIXED)
    found = import_responses(source, target, NOW)
    report = found.report
    assert found.done_now and report is not None and found.refusal is None
    assert (report.accepted, report.blank) == (4, 2)
    assert report.refused_for == {
        "belong to no prompt of this data set": 1,
        "fit no known shape": 2,
        "are further answers to a sample that is taken over": 1,
        "were made for a prompt of another length": 1,
        "hold no token ids, or another number of them than they state": 3,
        "hold no accepted answer": 2,
        "belong to a prompt that brings its own answer": 1,
        "are pieces of a stream or cut short": 1,
    }
    assert report.accepted + report.refused + report.blank == report.lines == len(MIXED) + 1
    assert "4 accepted + 12 refused + 2 blank = 18 answers of raw_responses.jsonl; " in str(report)
    records = written(target)
    assert [(one["sample_id"], one["output_ids"], one["finish_reason"]) for one in records] == [
        ("a", [4, 5], "length"), (7, [6, 7, 8], "stop"), ("c", [9, 9], "unknown"), ("d", [1], "unknown"),
    ]  # fmt: skip
    for one in records:
        assert (one["prompt_tokens"], one["completion_tokens"]) == (3, len(one["output_ids"]))
        assert (one["rid"], one["server"], one["attempt"]) == ("", "", 0)
    assert (records[0]["finished_at"], records[0]["think_end"]) == (1.5e9, True)


def test_the_fold_counts_them_as_ours(tmp_path: Path) -> None:
    target = folder(tmp_path)
    import_responses(source_file(tmp_path, MIXED), target, NOW)
    fold = DatasetFold(target)
    fold.poll()
    assert sorted(fold.responses.done) == [b"7", b"a", b"c", b"d"]
    assert (fold.responses.completion_tokens, fold.responses.unknown, fold.responses.unreadable.count) == (8, 0, 0)
    assert fold.responses.contradictions.count == 0


def test_what_states_no_time_is_no_work_of_this_session(tmp_path: Path) -> None:
    target, source = folder(tmp_path), source_file(tmp_path, [{"id": "c", "output_ids": [1, 2], "text": "x"}])
    import_responses(source, target, NOW)
    assert written(target)[0]["finished_at"] == pytest.approx(source.stat().st_mtime)
    target.responses.unlink()
    import_responses(source, target, 5.0)
    assert written(target)[0]["finished_at"] == 5.0, "nor after it"


def test_it_is_done_once(tmp_path: Path) -> None:
    target, source = folder(tmp_path), source_file(tmp_path, MIXED)
    first = import_responses(source, target, NOW)
    content = target.responses.read_bytes()
    again = import_responses(source, target, NOW + 9)
    assert not again.done_now and again.report == first.report and again.refusal is None
    assert target.responses.read_bytes() == content


def test_responses_that_came_since_stay_and_the_source_may_go(tmp_path: Path) -> None:
    target, source = folder(tmp_path), source_file(tmp_path, MIXED)
    import_responses(source, target, NOW)
    with target.responses.open("ab") as file:
        file.write(lines([OURS | {"sample_id": "e"}]))
    content = target.responses.read_bytes()
    source.unlink()
    found = import_responses(source, target, NOW)
    assert (found.done_now, found.refusal) == (False, None)
    assert target.responses.read_bytes() == content


def test_a_source_that_changed_is_said_and_never_mixed_in(tmp_path: Path) -> None:
    target, source = folder(tmp_path), source_file(tmp_path, MIXED)
    import_responses(source, target, NOW)
    content = target.responses.read_bytes()
    source_file(tmp_path, [*MIXED, OURS | {"sample_id": "e"}])
    found = import_responses(source, target, NOW)
    assert not found.done_now and found.refusal is not None and "has changed since" in found.refusal
    assert target.responses.read_bytes() == content


def test_responses_of_the_run_itself_are_never_touched(tmp_path: Path) -> None:
    target, source = folder(tmp_path), source_file(tmp_path, MIXED)
    target.responses.write_bytes(lines([OURS]))
    found = import_responses(source, target, NOW)
    assert found.report is None and found.refusal is not None and "holds responses already" in found.refusal
    assert target.responses.read_bytes() == lines([OURS])


@pytest.mark.parametrize("empty", [True, False])
def test_a_kill_in_between_has_it_made_again(empty: bool, tmp_path: Path) -> None:
    """The record is written first: without the responses it says nothing."""
    target, source = folder(tmp_path), source_file(tmp_path, MIXED)
    import_responses(source, target, NOW)
    content = target.responses.read_bytes()
    target.responses.unlink()
    if empty:
        target.responses.touch()
    (target.path / ".raw_responses.jsonl.tmp").write_bytes(b"half of")
    assert import_responses(source, target, NOW).done_now
    assert target.responses.read_bytes() == content
    assert sorted(path.name for path in target.path.iterdir()) == [
        "prompts.jsonl", "raw_responses.jsonl", "responses_import.json",
    ]  # fmt: skip


def test_a_damaged_record_of_the_import(tmp_path: Path) -> None:
    target, source = folder(tmp_path), source_file(tmp_path, MIXED)
    import_responses(source, target, NOW)
    (target.path / "responses_import.json").write_bytes(b"{")
    found = import_responses(source, target, NOW)
    assert found.refusal is not None and not found.done_now


@pytest.mark.parametrize(
    ("values", "said"),
    [
        (None, "no such response file: check `responses` in run.toml"),
        ([], "the response file is empty"),
        ([OURS | {"sample_id": "other"}], "none of its responses can be taken over: .* 1 belong to no prompt"),
        ([{"sample_id": "a", "completion_tokens": 3, "text": "x"}], "1 hold no token ids"),
    ],
)
def test_a_source_of_which_nothing_can_be_used(values: list[object] | None, said: str, tmp_path: Path) -> None:
    target = folder(tmp_path)
    source = tmp_path / "missing.jsonl" if values is None else source_file(tmp_path, values)
    with pytest.raises(PromptError, match=said):
        import_responses(source, target, NOW)
    assert [path.name for path in target.path.iterdir()] == ["prompts.jsonl"]


def test_a_packed_source(tmp_path: Path) -> None:
    target, source = folder(tmp_path), source_file(tmp_path, [b"\x1f\x8b\x08 packed"])
    with pytest.raises(PromptError, match="the response file is gzip: unpack it first"):
        check_responses(source, target)
    target.responses.write_bytes(lines([OURS]))
    check_responses(source, target)


def test_a_full_disk_leaves_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    target, source = folder(tmp_path), source_file(tmp_path, MIXED)

    def full(descriptor: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("os.fsync", full)
    with pytest.raises(ResponseImportError, match=r"could not be taken over.*No space left"):
        import_responses(source, target, NOW)
    assert [path.name for path in target.path.iterdir()] == ["prompts.jsonl"]
