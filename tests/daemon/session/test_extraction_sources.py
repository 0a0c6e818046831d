"""Where samples come from: answers of an earlier run and of a foreign one, pre-tokenized; too long, empty, odd."""

import json
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from daemon.request_ids import is_probe
from tests.support.extracting import (
    SHORT,
    check_stored,
    dumping,
    extract,
    in_memory,
    indexed,
    left_in,
    pretokenized,
    prompts,
    stored_ids,
)
from tests.support.runs import failures, make_run, records, responses, run_to_end, running

pytestmark = pytest.mark.usefixtures("quick")

ONLY = ["extract"]
VOCABULARY = {"vocab_size": 1024}
ANSWERS = {**SHORT, "min_new_tokens": 2}
CASES = Path(__file__).parents[2] / "fixtures" / "cases"


@pytest.fixture
def memory() -> Iterator[Path]:
    with in_memory() as folder:
        yield folder


def write_responses(run: Path, lines: list[dict[str, Any]], dataset: str = "B1") -> None:
    path = run / "prepared" / dataset / "raw_responses.jsonl"
    path.write_text("".join(json.dumps(line) + "\n" for line in lines))


async def test_an_earlier_run_that_only_made_answers(memory: Path) -> None:
    dumps = memory / "dumps"
    async with dumping(dumps) as server:
        earlier = make_run(
            memory / "earlier", [server.url], {"B1": prompts(10)}, sampling={**SHORT, "min_new_tokens": 2}
        )
        assert await run_to_end(earlier) is False
        assert left_in(dumps) == [], "answers alone have no rows"
        shutil.copytree(earlier, memory / "run")
        run = make_run(
            memory / "run", [server.url], {"B1": prompts(10)}, sampling=SHORT, extract=extract(dumps), stages=ONLY
        )
        assert await run_to_end(run) is False
        sent = [body["sampling_params"] for body in server.requests_seen.sample_bodies()][-10:]
        assert all(each["max_new_tokens"] == 1 for each in sent)
    assert (run / "prepared/B1/raw_responses.jsonl").read_bytes() == (
        earlier / "prepared/B1/raw_responses.jsonl"
    ).read_bytes()
    assert check_stored(run) == 10
    assert {record.capture for record in indexed(run).values()} == {"afterwards"}
    assert failures(run) == [] and left_in(dumps) == []


async def test_samples_that_were_exchanged_for_others_are_stored(memory: Path) -> None:
    """As many stored as there are prompts, but others: that is not done, and is said."""
    dumps = memory / "dumps"
    async with dumping(dumps) as server:
        run = make_run(memory / "run", [server.url], {"A1": pretokenized(3)}, extract=extract(dumps), stages=ONLY)
        assert await run_to_end(run) is False
        exchanged = [{**each, "sample_id": f"b{place}"} for place, each in enumerate(pretokenized(3))]
        path = run / "prepared" / "A1" / "prompts.jsonl"
        path.write_text("".join(json.dumps(line) + "\n" for line in exchanged))
        assert await run_to_end(run) is False
    assert stored_ids(run, "A1") == ["a0", "a1", "a2", "b0", "b1", "b2"]
    said = [event["data"] for event in records(run / "events.jsonl") if event["kind"] == "prompts.strangers"]
    assert said == [{"count": 0, "stored": 3}]


async def test_foreign_responses_of_several_shapes(memory: Path) -> None:
    dumps = memory / "dumps"
    asked = prompts(7)
    meta = {"finish_reason": {"type": "stop"}, "prompt_tokens": 4}
    lines: list[dict[str, Any]] = [
        {"sample_id": "p0", "output_ids": [5, 6, 7], "completion_tokens": 3, "finish_reason": "stop"},
        {"id": "p1", "output_ids": [5, 6, 7], "meta_info": {**meta, "id": "p1", "completion_tokens": 3}},
        {"sample_id": "p2", "response": {"output_ids": [9, 8, 7, 6], "meta_info": {**meta, "completion_tokens": 4}}},
        {"sample_id": "p3", "text": "no ids", "completion_tokens": 3, "finish_reason": "stop"},
        {"sample_id": "p4", "output_ids": [5, 5000, 7], "completion_tokens": 3, "finish_reason": "stop"},
        {"sample_id": "p5", "output_ids": [5, -1, 7], "completion_tokens": 3, "finish_reason": "stop"},
        {"sample_id": "p6", "output_ids": [5, 6, 7, 8], "completion_tokens": 4, "finish_reason": "stop"},
        {"sample_id": "stranger", "output_ids": [5, 6], "completion_tokens": 2, "finish_reason": "stop"},
    ]
    async with dumping(dumps) as server:
        run = make_run(
            memory / "run", [server.url], {"B1": asked}, generate=VOCABULARY, extract=extract(dumps), stages=ONLY
        )
        write_responses(run, lines)
        assert await run_to_end(run) is False, "responses that belong to no prompt are no work"
        assert not server.dead.is_set(), "an id beyond the vocabulary never reaches a server"
        sent = [rid for rid in server.requests_seen.rids if not is_probe(rid)]
    stored = set(stored_ids(run))
    refused = {each["sample_id"]: each for each in failures(run)}
    assert stored | set(refused) == {f"p{number}" for number in range(7)} and not stored & set(refused)
    assert {"p0", "p6"} <= stored and {"p3", "p4", "p5"} <= set(refused)
    assert len(sent) == len(stored)
    for each in refused.values():
        assert (each["next"], each["check"], each["stage"]) == ("refused", "no_ids", "extract")
    assert "5000" in refused["p4"]["message"] and "1024" in refused["p4"]["message"]
    assert check_stored(run) == len(stored)
    assert left_in(dumps) == []


async def test_case_35_an_answer_whose_count_is_not_that_of_its_ids_is_not_stored(memory: Path) -> None:
    """3 ids and a count of 4: which of the two is right nobody knows; the count is shown, nothing is stored."""
    case = json.loads((CASES / "35-stop-token-stripped.json").read_text())
    dumps = memory / "dumps"
    async with dumping(dumps) as server:
        run = make_run(memory / "run", [server.url], {"B1": prompts(2)}, extract=extract(dumps), stages=ONLY)
        write_responses(
            run,
            [
                {"sample_id": "p0", **case},
                {"sample_id": "p1", "output_ids": [5, 6, 7], "completion_tokens": 3, "finish_reason": "stop"},
            ],
        )
        async with running(run) as work:
            assert await work.end() is False
            assert work.dataset().completion_tokens == 4 + 3
            assert any(alert.code == "count_mismatch" for alert in work.session.status().alerts)
    assert stored_ids(run) == ["p1"]
    (refused,) = failures(run)
    assert (refused["sample_id"], refused["check"], refused["next"]) == ("p0", "no_ids", "refused")
    assert check_stored(run) == 1


async def test_a_run_of_nothing_but_pretokenized_samples(memory: Path) -> None:
    dumps = memory / "dumps"
    async with dumping(dumps, chunked_prefill_size=16, retract_every=3) as server:
        run = make_run(memory / "run", [server.url], {"A1": pretokenized(12, 30)}, extract=extract(dumps), stages=ONLY)
        assert await run_to_end(run) is False
    assert check_stored(run) == 12
    for record in indexed(run, "A1").values():
        assert record.loss_tokens == record.tokens - 5, "the mask is its own"
    assert not responses(run, "A1") and left_in(dumps) == []


@pytest.mark.parametrize("over_long", ["skip", "truncate"])
@pytest.mark.parametrize("capture", ["generating", "afterwards"])
async def test_limits_of_length_are_kept_and_counted(memory: Path, over_long: str, capture: str) -> None:
    dumps = memory / "dumps"
    limit = 16
    async with dumping(dumps) as server:
        run = make_run(
            memory / "run", [server.url], {"B1": prompts(12, longest=12), "A1": pretokenized(8)}, sampling=SHORT,
            extract=extract(dumps, capture=capture, max_tokens=limit, over_long=over_long),
        )  # fmt: skip
        async with running(run) as work:
            assert await work.end() is False
            hidden = {name: work.dataset(name).hidden for name in ("B1", "A1")}
        lengths = {"A1": [12 + number for number in range(8)], "B1": []}
        asked = {line["sample_id"]: line["input_ids"] for line in records(run / "prepared/B1/prompts.jsonl")}
        lengths["B1"] = [len(asked[each["sample_id"]]) + len(each["output_ids"]) - 1 for each in responses(run)]
        for name, status in hidden.items():
            assert status is not None
            longer = sum(length > limit for length in lengths[name])
            assert longer > 0
            kept = status.truncated if over_long == "truncate" else status.skipped
            assert (kept, status.stored) == (longer, len(lengths[name]) if over_long == "truncate" else
                                              len(lengths[name]) - longer)  # fmt: skip
            for each in failures(run, name):
                assert (each["check"], each["next"]) == ("too_long", "refused")
                assert f"the limit is {limit}" in each["message"]
        for name in ("B1", "A1"):
            for record in indexed(run, name).values():
                assert record.tokens <= limit
                assert record.truncated_from is None or record.truncated_from > limit == record.tokens
        check_stored(run)
        # With room for them a later daemon that has work stores those that were left out.
        if over_long == "skip":
            more = {"B1": prompts(13, longest=12), "A1": pretokenized(8)}
            make_run(run, [server.url], more, sampling=SHORT, extract=extract(dumps, capture=capture))
            assert await run_to_end(run) is False
            assert check_stored(run) == 21
    assert left_in(dumps) == []


async def test_answers_with_nothing_to_learn_from_are_refused_and_end_nothing(memory: Path) -> None:
    """An empty answer, and one of a single token, which is never fed."""
    dumps = memory / "dumps"
    lines = [
        {"sample_id": "p0", "output_ids": [], "completion_tokens": 0, "finish_reason": "stop"},
        {"sample_id": "p1", "output_ids": [5], "completion_tokens": 1, "finish_reason": "stop"},
        {"sample_id": "p2", "output_ids": [5, 6], "completion_tokens": 2, "finish_reason": "stop"},
    ]
    async with dumping(dumps) as server:
        run = make_run(memory / "run", [server.url], {"B1": prompts(3)}, extract=extract(dumps), stages=ONLY)
        write_responses(run, lines)
        assert await run_to_end(run) is False
        again = make_run(
            memory / "again", [server.url], {"B1": prompts(3)}, extract=extract(dumps),
            sampling={"max_new_tokens": 1, "min_new_tokens": 0},
        )  # fmt: skip
        assert await run_to_end(again) is False
    assert stored_ids(run) == ["p2"] and check_stored(run) == 1
    checks = {each["sample_id"]: each["check"] for each in failures(run)}
    assert checks == {"p0": "nothing_to_learn", "p1": "nothing_to_learn"}
    assert stored_ids(again) == [] and {each["check"] for each in failures(again)} == {"nothing_to_learn"}
    assert left_in(dumps) == []


async def test_a_server_without_room_for_a_whole_sample_is_not_asked(memory: Path) -> None:
    """What no server takes in one pass is refused by its length: a request too long could end one."""
    dumps = memory / "dumps"
    answer = [1 + place % 900 for place in range(2100)]
    async with dumping(dumps) as server:
        run = make_run(memory / "run", [server.url], {"B1": prompts(2)}, extract=extract(dumps), stages=ONLY)
        write_responses(
            run,
            [
                {"sample_id": "p0", "output_ids": answer, "completion_tokens": 2100, "finish_reason": "length"},
                {"sample_id": "p1", "output_ids": [5, 6, 7], "completion_tokens": 3, "finish_reason": "stop"},
            ],
        )
        assert await run_to_end(run) is False
        assert len([rid for rid in server.requests_seen.rids if not is_probe(rid)]) == 1
    (refused,) = failures(run)
    assert (refused["sample_id"], refused["check"], refused["next"]) == ("p0", "too_long", "refused")
    assert "2102 tokens" in refused["message"]
    assert stored_ids(run) == ["p1"]


async def test_case_17_rows_are_those_of_their_own_token_in_every_file(memory: Path) -> None:
    """Every row holds its token's id: 16 in flight, two rounds, answers in any order, retractions and chunks."""
    dumps = memory / "dumps"
    options: dict[str, Any] = {"dump_token_rows": True, "chunked_prefill_size": 8, "retract_every": 5}
    async with dumping(dumps, **options) as server:
        for capture in ("generating", "afterwards"):
            run = make_run(
                memory / capture, [server.url], {"B1": prompts(32), "A1": pretokenized(6)}, concurrency=16,
                sampling=SHORT, extract=extract(dumps, capture=capture, layout="specforge"),
            )  # fmt: skip
            assert await run_to_end(run) is False
            for dataset, number in (("B1", 32), ("A1", 6)):
                held = len(indexed(run, dataset))
                assert held >= number - 4, "but those that hold token 0: a row of zeros"
                assert {each["check"] for each in failures(run, dataset)} == ({"zero_row"} if held < number else set())
                for loaded in loaded_samples(run, dataset):
                    rows, ids = loaded
                    assert (rows == ids[:, None, None]).all()
    assert left_in(dumps) == []


def loaded_samples(run: Path, dataset: str) -> Iterator[tuple[Any, Any]]:
    import numpy as np

    from contracts.run_dir import RunDir
    from daemon.store.layouts import make_layout

    store = make_layout("specforge", RunDir(run).store(dataset))
    for record in indexed(run, dataset).values():
        loaded = store.load(record)
        raw = b"".join(bytes(block) for block in loaded.rows.blocks())
        yield np.frombuffer(raw, "<f4").reshape(record.tokens, 4, -1), loaded.ids


async def test_case_18_fewer_rows_than_tokens(memory: Path) -> None:
    """7 rows for 5 prompt and 4 answer tokens, of which the last is never fed: failed with both numbers."""
    dumps = memory / "dumps"
    asked = [{"sample_id": f"p{number}", "input_ids": [1 + number, 2, 3, 4, 5]} for number in range(4)]
    async with dumping(dumps) as server:
        run = make_run(
            memory / "run", [server.url], {"B1": asked}, sampling={"max_new_tokens": 4, "ignore_eos": True},
            extract=extract(dumps, dump_wait_s=0.2),
        )  # fmt: skip
        server.options.dump_faults.short_rows = 1
        server.options.dump_faults.force(None, "short")
        assert await run_to_end(run) is False
    (failure,) = failures(run)
    assert "7 rows for 8 tokens" in failure["message"] and failure["check"] == "missing"
    assert check_stored(run) == 4
