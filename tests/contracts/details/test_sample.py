from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import msgspec
import pytest

from contracts.details import sample as sample_module
from contracts.details.latest import UNREADABLE, latest_records
from contracts.details.sample import Lookup, SampleRef, SampleStory, look_up
from contracts.fold.run import RunFold
from contracts.records import CaptureCheck, FailureClass, NextStep, Requeue, Stage, StoredSample
from contracts.run_dir import RunDir
from tests.support.records import NOW, failure, folded, make_run, prompt_line, response, write


def looked_up(fold: RunFold, ref: SampleRef) -> Lookup:
    lookup = Lookup(ref)
    for _ in range(1000):
        lookup = look_up(fold, NOW, lookup)
        if lookup.done:
            return lookup
    raise AssertionError("the search does not end")


def story(fold: RunFold, key: str, dataset: str | None = None) -> SampleStory:
    found = looked_up(fold, SampleRef(dataset, key)).story
    assert found is not None
    return found


def stored(sample_id: str | int, **over: Any) -> StoredSample:
    values: dict[str, Any] = {
        "sample_id": sample_id, "file": "0.safetensors", "row": 0, "bytes": 100, "checksum": "xxh3_128:0", "tokens": 7,
        "loss_tokens": 3, "layers": [1, 2], "hidden_size": 8, "dtype": "float32", "norm": "post",
        "layout": "safetensors", "capture": "generating", "at": NOW,
    }  # fmt: skip
    return StoredSample(**(values | over))


@pytest.fixture
def run(tmp_path: Path) -> RunDir:
    made = make_run(tmp_path / "r", datasets=("d", "e"), prompts=20)
    write(
        made.dataset("d").responses, [response(f"d-{n}", n + 1, finished_at=NOW + n, started_at=NOW) for n in range(12)]
    )
    write(
        made.dataset("d").failures,
        [
            failure("d-3"),
            failure("d-3", message="again", attempt=2),
            failure("d-15", error=FailureClass.REJECTED, next=NextStep.QUARANTINED),
            Requeue(at=NOW, sample_id="d-3"),
            failure("d-4", stage=Stage.EXTRACT, error=FailureClass.CAPTURE, check=CaptureCheck.IDS),
        ],
    )
    write(made.dataset("d").hidden_states, [stored("d-3"), stored("d-30", row=1)])
    return made


def test_all_that_is_known_of_a_sample(run: RunDir) -> None:
    found = story(folded(run), "d-3")
    assert (found.dataset, found.key, found.prompt_ids) == ("d", "d-3", (1, 2, 3))
    assert found.output_ids == (0, 1, 2, 3)
    assert found.record is not None
    assert (found.record.completion_tokens, found.record.took_s, found.record.attempt) == (4, 3.0, 1)
    assert [type(each).__name__ for each in found.failures] == ["Failure", "Failure", "Requeue"]
    assert [each.row for each in found.stored] == [0]
    assert found.state == "answered, hidden states stored"


@pytest.mark.parametrize(
    ("key", "state"),
    [
        ("d-15", "failed (rejected), given up"),
        ("d-16", "not answered yet"),
        ("d-4", "answered, hidden states: failed (capture), is tried again"),
    ],
)
def test_what_became_of_it(run: RunDir, key: str, state: str) -> None:
    assert story(folded(run), key).state == state


def test_a_sample_that_is_nowhere_is_said_to_be(run: RunDir) -> None:
    found = looked_up(folded(run), SampleRef(None, "d-99"))
    assert found.story is None
    assert found.missing == "no sample d-99 in any of 2 data sets"


def test_small_steps_find_the_same(run: RunDir, monkeypatch: pytest.MonkeyPatch) -> None:
    fold = folded(run)
    whole = looked_up(fold, SampleRef(None, "e-7"))
    monkeypatch.setattr(sample_module, "SEARCHED", 1)
    steps = 0
    lookup = Lookup(SampleRef(None, "e-7"))
    while not lookup.done:
        lookup = look_up(fold, NOW, lookup)
        steps += 1
    assert steps > 2
    assert lookup.story == whole.story
    assert lookup.story is not None
    assert lookup.story.dataset == "e"


def test_a_known_place_needs_no_search_of_the_responses(run: RunDir) -> None:
    fold = folded(run)
    record = latest_records(run.dataset("d").responses, None, 1)[0]
    found = looked_up(fold, SampleRef("d", record.key, record.offset)).story
    assert found is not None
    assert found.record == record


@pytest.mark.parametrize("key", ["日本", "a/b", 'q"uote', "7", "-3", "tab\t"])
@pytest.mark.parametrize("ascii_only", [True, False])
def test_an_id_in_any_spelling(tmp_path: Path, key: str, ascii_only: bool) -> None:
    run = make_run(tmp_path / "r", prompts=3)
    sample_id: Any = int(key) if key in ("7", "-3") and ascii_only else key
    line = {"sample_id": sample_id, "completion_tokens": 2, "output_ids": [7, 9], "finish_reason": "stop"}
    write(run.dataset("d").responses, [json.dumps(line, ensure_ascii=ascii_only).encode() + b"\n"])
    write(run.dataset("d").prompts, [prompt_line(sample_id)])
    found = story(folded(run), key)
    assert found.output_ids == (7, 9)
    assert found.prompt_ids == (1, 2, 3)


def test_a_part_of_an_id_is_not_the_id(run: RunDir) -> None:
    assert looked_up(folded(run), SampleRef(None, "d-")).missing is not None
    assert story(folded(run), "d-1").record is not None


def test_a_pretokenized_sample(tmp_path: Path) -> None:
    run = make_run(tmp_path / "r", prompts=0)
    write(run.dataset("d").prompts, [prompt_line("m", masked=True)])
    found = story(folded(run), "m")
    assert (found.loss_mask, found.state) == ("[0,1,1]", "brings its own answer")


def test_text_of_other_tools_and_a_line_without_an_id(tmp_path: Path) -> None:
    run = make_run(tmp_path / "r", prompts=0)
    path = run.dataset("d").responses
    write(path, [b'{"text":"hello","completion_tokens":3}\n', b"garbage\n"])
    fold = folded(run)
    broken, nameless = latest_records(path, None, 5)
    assert (broken.outcome, broken.key) == (UNREADABLE, None)
    found = looked_up(fold, SampleRef("d", None, nameless.offset)).story
    assert found is not None
    assert (found.text, found.key, found.output_ids) == ("hello", None, None)
    damaged = looked_up(fold, SampleRef("d", None, broken.offset)).story
    assert damaged is not None
    assert damaged.record is not None
    assert damaged.record.why


def test_ids_that_contradict_the_count_are_not_shown_as_the_answer(tmp_path: Path) -> None:
    run = make_run(tmp_path / "r", prompts=1)
    write(run.dataset("d").responses, [response("d-0", 5, output_ids=msgspec.Raw(b"[1,2]"))])
    found = story(folded(run), "d-0")
    assert found.output_ids is None
    assert found.record is not None
    assert found.record.ids == 2
