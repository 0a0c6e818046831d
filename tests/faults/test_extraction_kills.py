"""kill -9 of the daemon, and of the server, in the middle of extraction: nothing lost, nothing twice, nothing wrong."""

import asyncio
import os
import random
import signal
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from contracts.records import Requeue, encode_line
from tests.support.extracting import (
    ServerProcess,
    ServerZygote,
    check_stored,
    extract,
    in_memory,
    indexed,
    left_in,
    pretokenized,
    prompts,
    stored_ids,
)
from tests.support.runs import answered, events, failures, make_run, records, run_to_end, running, until
from tests.support.zygote import Zygote

DAEMON_KILLS = 20
"""In both modes together."""
SERVER_KILLS = 5
"""In each mode."""
SAMPLES = 60
PRETOKENIZED = 10


@pytest.fixture
def memory() -> Iterator[Path]:
    with in_memory() as folder:
        yield folder


@pytest.fixture(scope="module")
def zygote() -> Iterator[ServerZygote]:
    with ServerZygote() as zygote:
        yield zygote


def seed() -> int:
    """Of the moments; printed, to be given again."""
    number = int(os.environ.get("EAGLE3_SEED", "0")) or random.SystemRandom().randrange(1, 1 << 32)
    print(f"again with: EAGLE3_SEED={number}")
    return number


def a_run(folder: Path, url: str, dumps: Path, capture: str, layout: str) -> Path:
    return make_run(
        folder,
        [url],
        {"B1": prompts(SAMPLES), "A1": pretokenized(PRETOKENIZED)},
        concurrency=8,
        sampling={"temperature": 0.8, "max_new_tokens": 10},
        extract=extract(dumps, capture=capture, layout=layout, concurrency=4, dump_wait_s=20.0),
    )


def check_whole(run: Path, dumps: Path, layout: str) -> None:
    """Everything is there once, right, and the dump folder is empty."""
    assert sorted(answered(run)) == sorted(f"p{index}" for index in range(SAMPLES)), "an answer lost or twice"
    assert stored_ids(run) == sorted(f"p{index}" for index in range(SAMPLES))
    assert stored_ids(run, "A1") == sorted(f"a{index}" for index in range(PRETOKENIZED))
    assert check_stored(run, layout=layout) == SAMPLES + PRETOKENIZED
    assert left_in(dumps) == []


@pytest.mark.timeout(120)
@pytest.mark.parametrize(("capture", "layout"), [("generating", "safetensors"), ("afterwards", "speculators")])
def test_kills_of_the_daemon_at_random_moments(memory: Path, zygote: ServerZygote, capture: str, layout: str) -> None:
    chance = random.Random(seed())
    dumps = memory / "dumps"
    norm = {"speculators": "over_weight"}.get(layout, "post")
    with ServerProcess(zygote, dumps, dump_norm=norm, latency=0.02) as server, Zygote() as daemons:
        run = a_run(memory / "run", server.url, dumps, capture, layout)
        index = run / "prepared" / "B1" / "hidden_states.jsonl"
        for _ in range(DAEMON_KILLS // 2):
            before = index.stat().st_size if index.exists() else 0
            pid = daemons.start(run)
            if chance.random() < 0.7:
                _until_grown(index, before)
            _pass(chance.uniform(0.0, 0.12), index)
            os.kill(pid, signal.SIGKILL)
            assert daemons.wait() == -signal.SIGKILL, "it had ended by itself"
        stored = len(indexed(run))
        daemons.start(run)
        assert daemons.wait() == 0
    assert 0 < stored < SAMPLES, "the kills fell into the extraction"
    check_whole(run, dumps, layout)
    assert [each for name in ("B1", "A1") for each in failures(run, name)] == [], "a killed daemon charges nobody"
    assert events(run, "dumps.adopted"), "what was left was adopted or removed"


def _until_grown(index: Path, before: int) -> None:
    """Wait for a sample that this daemon stored."""
    deadline = time.monotonic() + 20.0
    while time.monotonic() < deadline:
        if index.exists() and index.stat().st_size > before:
            return
        time.sleep(0.002)
    raise AssertionError("the daemon stores nothing")


def _pass(seconds: float, index: Path) -> None:
    """Let time pass, but not until this daemon has stored a good part: so work is left for the kills to come."""
    most = len(index.read_bytes().splitlines()) + 3 if index.exists() else 3
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline and not (index.exists() and len(index.read_bytes().splitlines()) >= most):
        time.sleep(0.002)


@pytest.fixture
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    """The daemon's patience with servers, scaled down."""
    monkeypatch.setattr("daemon.servers.pool.DEATH_VERDICT_S", 0.3)
    monkeypatch.setattr("daemon.servers.pool.REFUSED_VERDICT_S", 0.1)
    monkeypatch.setattr("daemon.servers.pool.CHECK_EVERY_S", 0.05)
    monkeypatch.setattr("daemon.servers.pool.PROBE_EVERY_S", 0.2)
    monkeypatch.setattr("daemon.generate.scheduler.TRIAL_S", 0.3)
    monkeypatch.setattr("daemon.extract.settling.RETRY_S", 0.05)


@pytest.mark.timeout(120)
@pytest.mark.usefixtures("quick")
@pytest.mark.parametrize("capture", ["generating", "afterwards"])
async def test_kills_of_the_server_at_random_moments(memory: Path, zygote: ServerZygote, capture: str) -> None:
    chance = random.Random(seed())
    dumps = memory / "dumps"
    with ServerProcess(zygote, dumps) as server:
        run = a_run(memory / "run", server.url, dumps, capture, "safetensors")
        async with running(run) as work:
            for _ in range(SERVER_KILLS):
                wanted = len(indexed(run)) + chance.randrange(1, 7)
                await until(lambda wanted=wanted: len(indexed(run)) >= wanted, 30)
                server.kill()
                await asyncio.to_thread(server.start)
            assert await work.end(60) is False
        if _given_up(run):  # whom two deaths met alone is taken for their cause, until a person says no
            for name in ("B1", "A1"):
                with (run / "prepared" / name / "failures.jsonl").open("ab") as file:
                    file.write(encode_line(Requeue(at=1.0)))
            assert await run_to_end(run, 60) is False
    check_whole(run, dumps, "safetensors")
    for failure in (each for name in ("B1", "A1") for each in failures(run, name) if each["type"] == "failure"):
        assert failure["error"] in ("server_down", "poison", "capture", "transient"), failure


def _given_up(run: Path) -> bool:
    """Whether any sample is quarantined since a person last asked."""
    for name in ("B1", "A1"):
        asked = 0
        for line in records(run / "prepared" / name / "failures.jsonl"):
            asked = 0 if line["type"] == "requeue" else asked + (line["next"] == "quarantined")
        if asked:
            return True
    return False
