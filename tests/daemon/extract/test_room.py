"""How much of the store is still to come: answered, to be answered, pre-tokenized, stored."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from contracts.eta import samples_to_store, tokens_to_store
from contracts.fold.run import RunFold
from contracts.records import NextStep, encode_line
from contracts.run_config import RunConfig, load_run_config
from contracts.work import dataset_storing
from daemon.extract.room import PromptTotals, room_report, still_to_store, totals_of
from daemon.prompts.index import PromptIndex
from daemon.store.sample import RowForm
from tests.daemon.extract.support import LIMITS, prompt, response
from tests.support.runs import make_run
from tests.support.stored import failed_capture, stored

PROMPTS = [prompt(f"p{number}", [1] * 10) for number in range(10)] + [prompt("m", [1] * 50, loss_mask=[1] * 50)]
EXTRACT = {"layers": [1, 3, 4]}


class Run:
    def __init__(self, path: Path, **how: object) -> None:
        self.path = make_run(path, ["http://h:1"], {"B1": PROMPTS}, extract=EXTRACT, **how)  # type: ignore[arg-type]
        self.config: RunConfig = load_run_config(path / "run.toml")
        with PromptIndex.build(path / "prepared" / "B1" / "prompts.jsonl", LIMITS) as index:
            self.totals = {"B1": totals_of(index)}

    def write(self, name: str, *records: object) -> None:
        with (self.path / "prepared" / "B1" / name).open("ab") as file:
            file.writelines(map(encode_line, records))  # type: ignore[arg-type]

    @property
    def fold(self) -> RunFold:
        fold = RunFold(self.path)
        fold.poll()
        return fold

    def wanted(self) -> tuple[float, float, bool]:
        found = still_to_store(self.fold, self.config, self.totals)
        return found.tokens, found.samples, found.assumed


def test_totals_of_prompts(tmp_path: Path) -> None:
    assert Run(tmp_path).totals == {"B1": PromptTotals(10, 100, 1, 50)}


def test_before_any_answer_the_longest_is_assumed(tmp_path: Path) -> None:
    assert Run(tmp_path).wanted() == (50 + 10 * (10 + 64), 11, True)


def test_a_target_bounds_what_is_to_come(tmp_path: Path) -> None:
    tokens, samples, assumed = Run(tmp_path, targets={"B1": 128}).wanted()
    assert (tokens, samples, assumed) == (50 + 128 + 2 * 10, 3, False)


def test_answers_that_are_there_and_what_is_stored_of_them(tmp_path: Path) -> None:
    run = Run(tmp_path, stages=["extract"])
    run.write("raw_responses.jsonl", *(response(f"p{number}", [7] * 20, prompt_tokens=10) for number in range(4)))
    assert run.wanted() == (50 + 4 * 30, 5, False)
    run.write("hidden_states.jsonl", stored("p0", 0, tokens=30), stored("m", 1, tokens=50))
    assert run.wanted() == (3 * 30, 3, False)


def test_lengths_that_were_seen_tell_of_those_to_come(tmp_path: Path) -> None:
    run = Run(tmp_path)
    run.write("raw_responses.jsonl", *(response(f"p{number}", [7] * 20, prompt_tokens=10) for number in range(5)))
    tokens, samples, assumed = run.wanted()
    assert tokens == pytest.approx(50 + 10 * 30) and samples == pytest.approx(11) and not assumed


def test_what_is_given_up_needs_no_room(tmp_path: Path) -> None:
    run = Run(tmp_path, stages=["extract"])
    run.write("raw_responses.jsonl", *(response(f"p{number}", [7] * 20, prompt_tokens=10) for number in range(4)))
    run.write("hidden_states.jsonl", stored("m", 0, tokens=50))
    run.write("failures.jsonl", failed_capture("p0", attempt=3, next=NextStep.QUARANTINED))
    assert run.wanted() == (3 * 30, 3, False)


def test_as_the_status_counts_it(tmp_path: Path) -> None:
    """Where samples are alike the estimate of the start and that of the alert come to the same."""
    run = Run(tmp_path)
    run.write("raw_responses.jsonl", *(response(f"p{number}", [7] * 20, prompt_tokens=10) for number in range(5)))
    run.write("hidden_states.jsonl", stored("m", 0, tokens=50), *(stored(f"p{n}", n + 1, tokens=30) for n in range(2)))
    storing = replace(dataset_storing(run.fold, run.fold.datasets["B1"]), sample_tokens=30.0)
    assert run.wanted() == (pytest.approx(tokens_to_store(storing)), pytest.approx(samples_to_store(storing)), False)


def test_nothing_is_left(tmp_path: Path) -> None:
    run = Run(tmp_path, stages=["extract"])
    run.write("hidden_states.jsonl", stored("m", 0, tokens=50))
    wanted = still_to_store(run.fold, run.config, run.totals)
    report = room_report(wanted, run.fold, RowForm((1, 3, 4), 8, "float32", "post"), 10)
    assert report.fits and report.samples == 0 and report.needed_bytes == 0


def test_a_disk_that_is_too_small(tmp_path: Path) -> None:
    run = Run(tmp_path, stages=["extract"])
    form = RowForm((1, 3, 4), 8, "float32", "post")
    report = room_report(still_to_store(run.fold, run.config, run.totals), run.fold, form, 1000)
    assert not report.fits and report.needed_bytes >= 50 * form.row_bytes and "too little" in report.text
    assert room_report(still_to_store(run.fold, run.config, run.totals), run.fold, form, -5).free_bytes == 0
