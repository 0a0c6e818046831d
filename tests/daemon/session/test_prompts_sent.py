"""What is sent and what never is: cases of prompt files that broke other tools, through the whole daemon."""

import json
from pathlib import Path

import pytest

from contracts.run_dir import RunDir
from tests.support.runs import answered, events, failures, make_run, prompt_lines, run_to_end, running, until
from tests.support.scripted_sglang import ScriptedSglang

CASES = Path(__file__).parents[2] / "fixtures" / "cases"


def lines_of(name: str) -> list[dict[str, object]]:
    return [json.loads(line) for line in (CASES / name).read_text().splitlines()]


async def test_token_ids_outside_the_vocabulary_never_reach_a_server(tmp_path: Path) -> None:
    async with ScriptedSglang() as server:
        run = make_run(tmp_path, [server.url], {"B1": []}, generate={"vocab_size": 32000})
        prompts = RunDir(run).dataset("B1").prompts
        prompts.parent.mkdir(parents=True)
        prompts.write_bytes((CASES / "10-bad-token-ids.jsonl").read_bytes())
        async with running(run) as work:
            assert await work.end() is False
            status = work.dataset()
    assert sorted(server.prompts()) == [[1, 2, 3], [31999]]
    assert [failure["line"] for failure in failures(run)] == [2, 3, 4, 5, 6, 7, 8]
    assert {(failure["error"], failure["next"]) for failure in failures(run)} == {("invalid_input", "refused")}
    assert (status.prompts, status.refused, status.done, status.failed) == (2, 7, 2, 0)


async def test_empty_prompts_are_never_sent(tmp_path: Path) -> None:
    source = CASES / "11-empty-prompts.jsonl"
    async with ScriptedSglang() as server:
        run = make_run(tmp_path, [server.url], {"B1": []}, prompts={"B1": str(source)}, tokenizer="bytes")
        assert await run_to_end(run) is False
    refused = sorted(failure["line"] for failure in failures(run))
    assert refused[:3] == [1, 2, 3]
    assert len(server.seen) + len(refused) == 5
    assert all(prompt for prompt in server.prompts())
    assert "z5" in answered(run)


async def test_duplicate_ids_are_told_with_both_lines_before_anything_is_sent(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("daemon.writer.BATCH_S", 0.1)
    source = CASES / "08-duplicate-ids.jsonl"
    async with ScriptedSglang() as server:
        run = make_run(
            tmp_path, [server.url], {"B1": []}, prompts={"B1": str(source)}, tokenizer="bytes", concurrency=50
        )
        async with running(run) as work:
            await until(lambda: server.seen)
            assert len([f for f in failures(run) if f["error"] == "invalid_input"]) == 2
            assert await work.end() is False
    assert sorted(answered(run)) == ["d1", "d2", "d4"]
    messages = [failure["message"] for failure in failures(run)]
    assert "line 3" in messages[0] and "line 1" in messages[0]
    assert "line 5" in messages[1] and "line 2" in messages[1]


async def test_ids_that_are_numbers_and_texts_are_one_by_their_text_and_never_sent_twice(tmp_path: Path) -> None:
    source = CASES / "09-int-and-string-ids.jsonl"
    async with ScriptedSglang() as server:
        run = make_run(tmp_path, [server.url], {"B1": []}, prompts={"B1": str(source)}, tokenizer="bytes")
        assert await run_to_end(run) is False
        assert len(server.seen) == 4, '7 and "7" are one sample'
        text = (run / "prepared/B1/raw_responses.jsonl").read_text()
        assert '"sample_id":9007199254740993,' in text
        assert '"sample_id":0,' in text
        assert await run_to_end(run) is False
        assert len(server.seen) == 4, "nothing is sent twice"


async def test_a_bad_id_kills_no_server_because_it_never_gets_there(tmp_path: Path) -> None:
    """The real server dies of it; the embedded one plays dead."""
    from daemon.embedded.options import Options
    from daemon.embedded.server import EmbeddedServer

    prompts = [*prompt_lines(3), {"sample_id": "bad", "input_ids": [5000]}, {"sample_id": "neg", "input_ids": [-1]}]
    async with EmbeddedServer(Options(no_model=True, fixed_length=3)) as server:
        run = make_run(tmp_path, [server.url], {"B1": prompts})
        text = (run / "run.toml").read_text()
        (run / "run.toml").write_text(text.replace("vocab_size = 1000000\n", ""))
        assert await run_to_end(run) is False
        assert not server.dead.is_set()
    assert sorted(answered(run)) == ["p0", "p1", "p2"]


async def test_limits_come_from_the_narrowest_of_all_servers(tmp_path: Path) -> None:
    async with ScriptedSglang() as wide, ScriptedSglang() as narrow:
        narrow.server_info = {"version": "0.5.23", "max_req_input_len": 10}
        prompts = [*prompt_lines(4), {"sample_id": "long", "input_ids": list(range(1, 12))}]
        run = make_run(tmp_path, [wide.url, narrow.url], {"B1": prompts}, sampling={"max_new_tokens": 12})
        assert await run_to_end(run) is False
    assert [failure["line"] for failure in failures(run)] == [5]
    assert len(answered(run)) == 4


async def test_a_server_that_comes_later_and_is_too_small_is_not_used(tmp_path: Path) -> None:
    async with ScriptedSglang() as wide, ScriptedSglang() as narrow:
        narrow.server_info = {"version": "0.5.23", "max_req_input_len": 10}
        await narrow.close()
        prompts = [*prompt_lines(40), {"sample_id": "long", "input_ids": list(range(1, 12))}]
        run = make_run(tmp_path, [wide.url, narrow.url], {"B1": prompts}, concurrency=1)
        async with running(run) as work:
            await until(lambda: wide.seen)
            work.session.pause("to let the other come")
            await narrow.start()
            await until(lambda: work.session.pool.slots[1].state == "refused")
            assert "takes prompts below 10 tokens" in str(work.session.pool.slots[1].reason)
            work.session.resume()
            assert await work.end() is False
    assert narrow.seen == []
    assert len(answered(run)) == 41


async def test_a_prompt_file_that_changes_under_the_run_stops_its_data_set(tmp_path: Path) -> None:
    async with ScriptedSglang() as server:
        run = make_run(tmp_path, [server.url], {"B1": prompt_lines(200), "B2": prompt_lines(3)}, concurrency=1)
        prompts = run / "prepared/B1/prompts.jsonl"
        async with running(run) as work:
            await until(lambda: server.seen)
            work.session.pause("to change the file")
            prompts.write_bytes(prompts.read_bytes()[:40])
            work.session.resume()
            await until(lambda: work.dataset("B1").stage == "halted")
            await until(lambda: work.dataset("B2").done == 3)
    (event,) = events(run, "dataset.halted")
    assert "prompts.jsonl" in event["message"]
    assert len([failure for failure in failures(run) if failure["error"] == "contract_drift"]) == 1
