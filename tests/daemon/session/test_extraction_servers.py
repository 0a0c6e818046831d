"""Servers whose rows are not those of the run: refused by the probe, or found at the first samples."""

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from contracts.records import FailureClass, Requeue, Stage
from daemon.embedded.dumping import ModelStates
from daemon.embedded.prefix_cache import PrefixCache
from daemon.request_ids import is_probe
from daemon.servers.probe import PROBE_IDS
from daemon.store.sample import RowForm
from tests.support.extracting import SHORT, check_stored, dumping, extract, in_memory, left_in, prompts, stored_ids
from tests.support.runs import Running, events, failures, make_run, responses, running, until

pytestmark = pytest.mark.usefixtures("quick")

MANY = 30


@pytest.fixture
def memory() -> Iterator[Path]:
    with in_memory() as folder:
        yield folder


@pytest.fixture(autouse=True)
def soon(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("daemon.extract.settling.RETRY_S", 0.02)
    monkeypatch.setattr("daemon.servers.pool.PROBE_EVERY_MOST_S", 0.2)


def alike(number: int) -> list[dict[str, Any]]:
    """Prompts that begin alike, as those with one system prompt do."""
    return [{"sample_id": f"p{index}", "input_ids": [5] * 10 + [20 + index]} for index in range(number)]


def go_on(work: Running) -> None:
    """As ``eagle3 retry RUN --error capture`` does."""
    work.session.requeue(Requeue(at=work.session.clock.now(), error=FailureClass.CAPTURE, stage=Stage.EXTRACT), None)


async def test_a_server_with_its_radix_cache_on_is_refused(memory: Path) -> None:
    dumps = memory / "dumps"
    async with dumping(dumps, radix_cache=True) as server:
        run = make_run(memory / "run", [server.url], {"B1": alike(4)}, sampling=SHORT, extract=extract(dumps))
        async with running(run) as work:
            await until(lambda: events(run, "server.refused"))
            assert "radix cache on" in events(run, "server.refused")[0]["message"]
            assert "--disable-radix-cache" in str(work.session.heartbeat().blocked)
        assert [rid for rid in server.requests_seen.rids if not is_probe(rid)] == []
    assert responses(run) == [] and stored_ids(run) == []


@pytest.mark.parametrize("capture", ["generating", "afterwards"])
async def test_a_server_that_lies_about_its_cache_stops_the_extraction_and_not_the_answers(
    memory: Path, capture: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    cached = PrefixCache.cached
    monkeypatch.setattr(  # else the next probe would tell
        PrefixCache, "cached", lambda cache, ids, key="": 0 if tuple(ids) == PROBE_IDS else cached(cache, ids, key)
    )
    dumps = memory / "dumps"
    async with dumping(dumps, radix_cache=True) as server:
        server.options.radix_cache = False  # it says so; it has the cache all the same
        run = make_run(
            memory / "run",
            [server.url],
            {"B1": alike(MANY)},
            sampling=SHORT,
            extract=extract(dumps, capture=capture, dump_wait_s=60.0),
        )
        async with running(run) as work:
            await until(lambda: events(run, "extract.halted"))
            assert "prompt tokens from its cache" in events(run, "extract.halted")[0]["message"]
            await until(lambda: len(responses(run)) == MANY, 20)
            await until(lambda: work.dataset().stage == "halted")
            await until(lambda: any(alert.code == "extract_halted" for alert in work.session.status().alerts))
            await until(lambda: work.session.heartbeat().blocked == "only stopped data sets are left", 20)
            found = failures(run)
            assert 3 <= len(found) <= 24, "a few, whatever was open at that moment; not one for each sample"
            assert {(each["stage"], each["check"]) for each in found} == {("extract", "cached")}
            await until(lambda: left_in(dumps) == [])
    assert check_stored(run) < 10
    # The next daemon finds it stopped, and an honest server, and goes on when a person says so.
    async with dumping(dumps) as server:
        text = (run / "run.toml").read_text()
        (run / "run.toml").write_text(text.replace(text.split('url = "')[1].split('"')[0], server.url))
        async with running(run) as work:
            await until(lambda: work.session.heartbeat().blocked == "only stopped data sets are left", 20)
            go_on(work)
            assert await work.end() is False
        assert len(responses(run)) == MANY
    assert check_stored(run) == MANY
    assert left_in(dumps) == []


async def test_a_server_restarted_with_other_layers_is_refused_until_it_is_right(memory: Path) -> None:
    dumps = memory / "dumps"
    async with dumping(dumps) as server:
        port = server.port
        run = make_run(memory / "run", [server.url], {"B1": prompts(MANY)}, sampling=SHORT, extract=extract(dumps))
        async with running(run) as work:
            await until(lambda: len(stored_ids(run)) > 5)
            await server.close()
            await until(lambda: events(run, "server.down"))
            async with dumping(dumps, port=port, dump_layers=(0, 2, 5)) as other:
                await until(lambda: events(run, "server.refused"))
                said = events(run, "server.refused")[0]["message"]
                assert "outputs of layers 0, 2, 5" in said and "instead of 1, 3, 4" in said
                assert [rid for rid in other.requests_seen.rids if not is_probe(rid)] == []
            async with dumping(dumps, port=port):
                assert await work.end() is False
    assert {each["error"] for each in failures(run)} <= {"server_down", "transient"}
    assert check_stored(run) == MANY
    assert left_in(dumps) == []


async def test_a_server_replaced_during_a_pause_is_probed_before_it_gets_anything(memory: Path) -> None:
    """By one of another model: no request fails of it, and its probes leave nothing."""
    dumps = memory / "dumps"
    async with dumping(dumps) as server:
        port = server.port
        run = make_run(memory / "run", [server.url], {"B1": prompts(MANY)}, sampling=SHORT, extract=extract(dumps))
        async with running(run) as work:
            await until(lambda: len(stored_ids(run)) > 2)
            work.session.pause("tested")
            await until(lambda: not work.session.scheduler.in_flight and not work.session.heartbeat().taking)
            await server.close()
            async with dumping(dumps, port=port, served_model_name="Other", seed=9) as other:
                work.session.resume()
                await until(lambda: events(run, "server.refused"))
                assert "'Other'" in events(run, "server.refused")[0]["message"]
                seen = len(other.requests_seen.rids)
                await until(lambda: len(other.requests_seen.rids) >= seen + 2)
                assert [rid for rid in other.requests_seen.rids if not is_probe(rid)] == []
                await until(lambda: len(left_in(dumps)) <= 1)
            work.session.stop()
            assert await work.end() is True
    assert left_in(dumps) == [] and events(run, "dumps.left") == []
    assert check_stored(run) < MANY


async def test_another_checkpoint_under_the_same_name_is_refused_also_by_the_next_daemon(memory: Path) -> None:
    dumps = memory / "dumps"
    async with dumping(dumps) as server:
        port = server.port
        run = make_run(memory / "run", [server.url], {"B1": prompts(MANY)}, sampling=SHORT, extract=extract(dumps))
        async with running(run):
            await until(lambda: len(stored_ids(run)) > 2)
    assert len(stored_ids(run)) < MANY, "so that what belongs beside a complete store is not there yet"
    async with running(run) as work:
        async with dumping(dumps, port=port, seed=5) as other:
            await until(lambda: events(run, "server.refused"))
            said = events(run, "server.refused")[0]["message"]
            assert "another checkpoint under the same name" in said and "norm.safetensors" in said
            assert [rid for rid in other.requests_seen.rids if not is_probe(rid)] == []
        async with dumping(dumps, port=port):
            assert await work.end() is False
    assert check_stored(run) == MANY


async def test_a_server_whose_last_slot_is_not_what_it_says_is_refused(
    memory: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its header and its self-description are right."""
    rows = ModelStates.rows

    def before_the_norm(states: ModelStates, form: RowForm, places: list[int] | None) -> Any:
        return rows(replace(states, last=3 * states.last), form, places)

    monkeypatch.setattr(ModelStates, "rows", before_the_norm)
    dumps = memory / "dumps"
    async with dumping(dumps) as server:
        run = make_run(memory / "run", [server.url], {"B1": prompts(3)}, sampling=SHORT, extract=extract(dumps))
        async with running(run):
            await until(lambda: events(run, "server.refused"))
            assert "has a mean square of 9, 9, 9 (rows 0 to 2)" in events(run, "server.refused")[0]["message"]
    assert stored_ids(run) == []


@pytest.mark.parametrize("fault", ["missing_layer", "wrong_dtype", "wrong_norm"])
async def test_dumps_of_another_form_in_the_middle_of_a_run(memory: Path, fault: str) -> None:
    """Case 19: a few failures, not one for each sample; and it goes on once the server is right again."""
    check, words = {
        "missing_layer": ("layers", "expected 256 values a row, got 192"),
        "wrong_dtype": ("dtype", "the store holds float32"),
        "wrong_norm": ("norm", "'over_weight', the store takes 'post'"),
    }[fault]
    dumps = memory / "dumps"
    async with dumping(dumps) as server:
        run = make_run(
            memory / "run", [server.url], {"B1": prompts(MANY)}, concurrency=2, sampling=SHORT, extract=extract(dumps)
        )
        async with running(run) as work:
            await until(lambda: len(stored_ids(run)) > 2)
            setattr(server.options.dump_faults, fault, 1.0)
            await until(lambda: events(run, "server.refused"), 20)
            await until(lambda: work.session.scheduler.in_flight == 0 and not work.session.extraction.captures.taking)  # type: ignore[union-attr]
            await until(lambda: not work.session.writer.unwritten)
            found = failures(run)
            assert 1 <= len(found) <= 8 and {each["check"] for each in found} == {check}
            assert all(words in each["message"] for each in found), found[0]["message"]
            setattr(server.options.dump_faults, fault, 0.0)
            await until(lambda: len(events(run, "server.up")) == 2)
            go_on(work)  # where it was three in a row
            assert await work.end() is False
    assert check_stored(run) == MANY
    assert len(failures(run)) <= 9
    assert left_in(dumps) == []
