"""The end of a run's stores in a session: completed once all is stored, also when an earlier end was cut short."""

from __future__ import annotations

from pathlib import Path

import pytest

from contracts.run_dir import RunDir
from daemon.embedded.faults import Faults
from daemon.request_ids import is_probe
from daemon.store.index import read_index
from daemon.store.torch_zip import read_archive
from daemon.store.verify import verify_run
from tests.support.extracting import check_stored, dumping, extract, pretokenized, prompts
from tests.support.runs import events, failures, make_run, run_to_end, running, until

pytestmark = pytest.mark.usefixtures("quick")


async def test_an_end_that_was_cut_short_is_made_up_for(tmp_path: Path) -> None:
    """All samples are stored: without a look at the files beside them the next start would have nothing to do."""
    dumps = tmp_path / "dumps"
    async with dumping(dumps) as server:
        run = make_run(
            tmp_path / "run", [server.url], {"B1": prompts(4), "A1": pretokenized(3)},
            extract=extract(dumps, layout="specforge", draft_vocab_size=20),
        )  # fmt: skip
        assert await run_to_end(run) is False
        store = RunDir(run).store("A1")
        content = (store / "eagle3-store.json").read_bytes()
        (store / "eagle3-store.json").unlink()
        assert await run_to_end(run) is False
        assert (store / "eagle3-store.json").read_bytes() == content
        assert len(events(run, "store.completed")) == 4
        assert await run_to_end(run) is False
        assert sum(not is_probe(rid) for rid in server.requests_seen.rids) == 4 + 3
        assert len(events(run, "store.completed")) == 4
    maps = [
        (folder / "vocab_mapping" / "vocab_mapping.pt").read_bytes()
        for folder in (store, RunDir(run).store("B1"), RunDir(run).stores)
    ]
    assert len(set(maps)) == 1
    assert set(read_archive(store / "vocab_mapping" / "vocab_mapping.pt").values) == {"d2t", "t2d"}


async def test_what_is_found_missing_at_a_start_is_made_in_that_session(tmp_path: Path) -> None:
    dumps = tmp_path / "dumps"
    async with dumping(dumps) as server:
        run = make_run(
            tmp_path / "run", [server.url], {"B1": prompts(5)}, extract=extract(dumps, layout="specforge")
        )  # fmt: skip
        assert await run_to_end(run) is False
        record = read_index(RunDir(run).dataset("B1").hidden_states).records[b"p2"]
        (RunDir(run).store("B1") / record.file).unlink()
        assert await run_to_end(run) is False
    assert check_stored(run, layout="specforge") == 5
    assert "store.repaired" in [event["kind"] for event in events(run)]


async def test_answers_of_one_token_are_left_out_and_counted(tmp_path: Path) -> None:
    dumps = tmp_path / "dumps"
    async with dumping(dumps) as server:
        run = make_run(
            tmp_path / "run", [server.url], {"B1": prompts(3)},
            extract=extract(dumps), sampling={"max_new_tokens": 1, "min_new_tokens": 0},
        )  # fmt: skip
        assert await run_to_end(run) is False, "what is refused holds nobody up"
        assert sum(not is_probe(rid) for rid in server.requests_seen.rids) == 3
    assert {(each["check"], each["next"]) for each in failures(run)} == {("nothing_to_learn", "refused")}
    assert len(failures(run)) == 3
    assert read_index(RunDir(run).dataset("B1").hidden_states).records == {}


async def test_files_beside_the_samples_that_were_lost_are_made_again(tmp_path: Path) -> None:
    dumps = tmp_path / "dumps"
    async with dumping(dumps) as server:
        run = make_run(
            tmp_path / "run", [server.url], {"A1": pretokenized(3)},
            extract=extract(dumps, layout="specforge", draft_vocab_size=20),
        )  # fmt: skip
        assert await run_to_end(run) is False
        store = RunDir(run).store("A1")
        maps = (store / "vocab_mapping" / "vocab_mapping.pt").read_bytes()
        (store / "vocab_mapping" / "vocab_mapping.pt").write_bytes(maps[:2])
        (store / "norm.safetensors").unlink()
        report, _ = verify_run(run)
        assert report.stores[0].counts == {"beside": 2}
        assert await run_to_end(run) is False
        report, _ = verify_run(run)
        assert report.stores[0].counts == {}
    assert (store / "vocab_mapping" / "vocab_mapping.pt").read_bytes() == maps
    assert (store / "norm.safetensors").exists()


async def test_a_drain_that_lets_the_last_samples_finish_completes_the_store(tmp_path: Path) -> None:
    dumps = tmp_path / "dumps"
    async with dumping(dumps, faults=Faults(latency=0.3)) as server:
        run = make_run(
            tmp_path / "run", [server.url], {"B1": prompts(2)}, concurrency=2, extract=extract(dumps)
        )  # fmt: skip
        async with running(run) as work:
            await until(lambda: work.session.scheduler.in_flight == 2)
            work.session.drain()
            assert await work.end() is False
    assert (RunDir(run).store("B1") / "eagle3-store.json").exists()
