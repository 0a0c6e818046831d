"""Responses of another run, named in run.toml: answered samples for this one, and hidden states of them too."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from contracts.status import DatasetStage
from daemon.request_ids import is_probe
from tests.support.extracting import check_stored, dumping, extract, left_in, prompts
from tests.support.runs import answered, events, make_run, prompt_lines, responses, run_to_end, running, until
from tests.support.scripted_sglang import ScriptedSglang

pytestmark = pytest.mark.usefixtures("quick")


def foreign(path: Path, lines: list[dict[str, Any]], damaged: bool = True) -> str:
    """A file of another tool's answers to the first and every second prompt."""
    values = [
        {"id": line["sample_id"], "output_ids": [5, 6, 7 + number], "text": "x", "meta_info": {
            "completion_tokens": 3, "prompt_tokens": len(line["input_ids"]), "finish_reason": {"type": "stop"}}}
        for number, line in enumerate(lines[::2])
    ]  # fmt: skip
    path.parent.mkdir(parents=True, exist_ok=True)
    torn = b'{"id": "p1", "output_ids": [1,\n{"id": "nobody", "output_ids": [1], "text": "x"}\n'
    path.write_bytes(b"".join(json.dumps(value).encode() + b"\n" for value in values) + (torn if damaged else b""))
    return f"../{path.parent.name}/{path.name}"


def name_source(run: Path, source: str) -> None:
    text = (run / "run.toml").read_text()
    (run / "run.toml").write_text(text.replace('name = "B1"\n', f'name = "B1"\nresponses = "{source}"\n'))


async def test_a_run_that_makes_the_rest_and_stores_all(tmp_path: Path) -> None:
    given = prompts(10)
    source = foreign(tmp_path / "other" / "raw.jsonl", given)
    async with dumping(tmp_path / "dumps") as server:
        run = make_run(tmp_path / "run", [server.url], {"B1": given}, extract=extract(tmp_path / "dumps"))
        name_source(run, source)
        assert await run_to_end(run) is False
        assert answered(run)[:5] == ["p0", "p2", "p4", "p6", "p8"]
        assert sorted(answered(run)[5:]) == ["p1", "p3", "p5", "p7", "p9"]
        assert check_stored(run) == 10 and left_in(tmp_path / "dumps") == []
        (event,) = events(run, "responses.imported")
        assert event["message"].startswith("B1: 5 accepted + 2 refused + 0 blank = 7 answers of raw.jsonl; ")
        assert event["severity"] == "warning"
        content = (run / "prepared" / "B1" / "raw_responses.jsonl").read_bytes()
        assert await run_to_end(run) is False
    assert (run / "prepared" / "B1" / "raw_responses.jsonl").read_bytes() == content
    assert len(events(run, "responses.imported")) == 1


async def test_a_run_that_only_extracts(tmp_path: Path) -> None:
    given = prompts(6)
    source = foreign(tmp_path / "other" / "raw.jsonl", given, damaged=False)
    async with dumping(tmp_path / "dumps") as server:
        run = make_run(
            tmp_path / "run", [server.url], {"B1": given}, extract=extract(tmp_path / "dumps"), stages=["extract"]
        )
        name_source(run, source)
        assert await run_to_end(run) is False
        assert sum(not is_probe(rid) for rid in server.requests_seen.rids) == 3, "three passes"
    assert check_stored(run) == 3
    assert [event["severity"] for event in events(run, "responses.imported")] == ["info"]


async def test_what_is_taken_over_counts_for_the_target(tmp_path: Path) -> None:
    given = prompt_lines(10)
    source = foreign(tmp_path / "other" / "raw.jsonl", given)
    async with ScriptedSglang() as server:
        run = make_run(tmp_path / "run", [server.url], {"B1": given}, targets={"B1": 15})
        name_source(run, source)
        async with running(run) as work:
            assert await work.end() is False
            assert work.dataset().stage is DatasetStage.FINISHED
            assert work.dataset().tokens_per_s in (None, 0.0), "no work of this session"
    assert server.seen == [] and len(responses(run)) == 5


async def test_a_missing_source_stops_its_data_set_before_everything_is_made_again(tmp_path: Path) -> None:
    async with ScriptedSglang() as server:
        run = make_run(tmp_path / "run", [server.url], {"B1": prompt_lines(3), "B2": prompt_lines(2)})
        name_source(run, "../other/raw.jsonl")
        assert await run_to_end(run) is True
        assert len(server.seen) == 2, "B2 alone"
        (event,) = events(run, "prompts.failed")
        assert "no such response file" in event["message"] and event["dataset"] == "B1"
        foreign(tmp_path / "other" / "raw.jsonl", prompt_lines(3))
        assert await run_to_end(run) is False
    assert answered(run) == ["p0", "p2", "p1"]


async def test_a_source_that_changed_is_said_at_each_start(tmp_path: Path) -> None:
    given = prompt_lines(4)
    source = foreign(tmp_path / "other" / "raw.jsonl", given)
    async with ScriptedSglang() as server:
        run = make_run(tmp_path / "run", [server.url], {"B1": given})
        name_source(run, source)
        assert await run_to_end(run) is False
        before = responses(run)
        foreign(tmp_path / "other" / "raw.jsonl", prompt_lines(8))
        assert await run_to_end(run) is False
    assert responses(run) == before
    (event,) = events(run, "responses.kept")
    assert event["severity"] == "warning" and "has changed since its responses were taken over" in event["message"]


async def test_nobody_is_told_that_the_empty_file_was_replaced(tmp_path: Path) -> None:
    given = prompt_lines(4)
    source = foreign(tmp_path / "other" / "raw.jsonl", given)
    async with ScriptedSglang() as server:
        run = make_run(tmp_path / "run", [server.url], {"B1": given})
        name_source(run, source)
        async with running(run) as work:
            await until(lambda: work.task.done())
    assert [event["message"] for event in events(run, "daemon.note")] == []
