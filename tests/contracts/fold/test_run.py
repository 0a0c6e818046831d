"""The fold over a whole folder: a run's, or that of other tools."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from contracts.fold.run import NotARunError, RunFold
from contracts.run_config import ConfigError
from tests.support.records import event, folded, heartbeat, make_run, prompt_line, response, write


def test_a_run_has_the_data_sets_of_its_run_toml_in_its_order(tmp_path: Path) -> None:
    run = make_run(tmp_path, datasets=("z", "a"))
    write(run.dataset("other").responses, [response()])
    fold = folded(run)
    assert list(fold.datasets) == ["z", "a"]
    assert fold.datasets["z"].usable_prompts == 10


def test_a_run_of_which_nothing_is_there_yet(tmp_path: Path) -> None:
    run = make_run(tmp_path, prompts=0)
    run.dataset("d").prompts.unlink()
    fold = folded(run)
    assert fold.datasets["d"].usable_prompts is None
    assert fold.poll() is False


@pytest.mark.parametrize("below", ["prepared", "."])
def test_a_foreign_folder_is_looked_through_again_each_time(tmp_path: Path, below: str) -> None:
    write(tmp_path / below / "B1" / "raw_responses.jsonl", [response()])
    fold = RunFold(tmp_path)
    fold.poll()
    assert list(fold.datasets) == ["B1"]
    write(tmp_path / below / "B2" / "prompts.jsonl", [prompt_line("a")])
    assert fold.poll() is True
    assert list(fold.datasets) == ["B1", "B2"]
    assert fold.config is None


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("nothing", "no such folder; make a run with: eagle3 init"),
        ("file", "is a file, and a run is a folder"),
        ("empty", r"no run\.toml.*raw_responses\.jsonl.*eagle3 init"),
    ],
)
def test_what_is_no_run_is_refused_with_what_was_looked_for(tmp_path: Path, name: str, said: str) -> None:
    (tmp_path / "file").write_text("x", encoding="utf-8")
    (tmp_path / "empty").mkdir()
    with pytest.raises(NotARunError, match=said):
        RunFold(tmp_path / name)


def test_an_empty_run_toml_is_named_and_nothing_starts_anew(tmp_path: Path) -> None:
    """Case 52."""
    run = make_run(tmp_path)
    run.config.write_bytes(b"")
    with pytest.raises(ConfigError, match=r"run\.toml: is empty"):
        RunFold(run.path)


def test_zero_byte_files_give_what_the_others_still_say(tmp_path: Path) -> None:
    """Case 52: the responses are the truth; whatever else is empty costs no response."""
    run = make_run(tmp_path, prompts=3)
    write(run.dataset("d").responses, [response(f"d-{number}", 2) for number in range(2)])
    write(run.events, [event("control.set", data={"targets": {"d": 5}})])
    write(run.telemetry_file("daemon"), [heartbeat()])
    write(run.dataset("d").failures, [b"\n"])
    folded(run).save_checkpoint()
    for path in (run.events, run.telemetry_file("daemon"), run.dataset("d").failures, run.checkpoint):
        path.write_bytes(b"")
        fold = folded(run)
        assert len(fold.datasets["d"].responses.done) == 2
        assert fold.datasets["d"].responses.completion_tokens == 4
        assert fold.datasets["d"].usable_prompts == 3


def test_zero_byte_responses_are_said_where_a_checkpoint_knows_better(tmp_path: Path) -> None:
    run = make_run(tmp_path)
    write(run.dataset("d").responses, [response()])
    folded(run).save_checkpoint()
    run.dataset("d").responses.write_bytes(b"")
    fold = folded(run)
    assert fold.datasets["d"].responses.done == set()
    assert "raw_responses.jsonl: became shorter" in fold.notes[0]


def test_what_people_set_goes_before_run_toml(tmp_path: Path) -> None:
    run = make_run(tmp_path, datasets=("d", "e"), extra="[generate]\ntarget_tokens = 100\nconcurrency = 7")
    fold = folded(run)
    assert (fold.target_of("d"), fold.target_of("e"), fold.concurrency) == (100, 100, 7)
    write(run.events, [event("control.set", data={"concurrency": 9, "targets": {"d": 5}})])
    assert fold.poll() is True
    assert (fold.target_of("d"), fold.target_of("e"), fold.concurrency) == (5, 100, 9)
    assert fold.target_of("unheard of") is None


def test_a_foreign_folder_has_no_target(tmp_path: Path) -> None:
    write(tmp_path / "B1" / "raw_responses.jsonl", [response()])
    fold = RunFold(tmp_path)
    assert (fold.target_of("B1"), fold.concurrency) == (None, None)


def test_what_happens_to_files_is_noted_once_with_its_data_set(tmp_path: Path) -> None:
    run = make_run(tmp_path)
    write(run.dataset("d").responses, [response()])
    write(run.events, [event("x")])
    fold = folded(run)
    run.dataset("d").responses.unlink()
    run.events.write_bytes(b"")
    fold.poll()
    fold.poll()
    assert fold.notes[0] == "d: raw_responses.jsonl was deleted"
    assert re.fullmatch(r"events: events\.jsonl was cut from \d+ to 0 bytes: .*", fold.notes[1])
    assert len(fold.notes) == 2


def test_most_bytes_reads_large_files_bit_by_bit(tmp_path: Path) -> None:
    run = make_run(tmp_path)
    write(run.dataset("d").responses, [response(f"s{number}", 400) for number in range(600)])
    fold = RunFold(run.path)
    counts = []
    while fold.poll(1):
        counts.append(len(fold.datasets["d"].responses.done))
    assert len(counts) > 2
    assert counts[-1] == 600
    assert fold.datasets["d"].responses.completion_tokens == 240_000
