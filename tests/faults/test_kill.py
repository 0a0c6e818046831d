"""kill -9 of the daemon, again and again: nothing lost, nothing twice, nothing torn, nothing asked for without need."""

import asyncio
import json
import os
import random
import signal
import sys
import time
from collections import Counter
from pathlib import Path

import pytest
from aiohttp import web

from daemon.request_ids import is_probe
from tests.support.counting_server import counting_server
from tests.support.runs import answered, make_run, prompt_lines, responses, until
from tests.support.scripted_sglang import Request, ScriptedSglang, answer_well
from tests.support.zygote import Zygote

KILLS = 50
SAMPLES = 900
CONCURRENCY = 16
CASES = Path(__file__).parents[1] / "fixtures" / "cases"
ROOT = Path(__file__).parents[2]


@pytest.mark.timeout(180)
def test_fifty_kills_at_random_moments(tmp_path: Path) -> None:
    seed = int(os.environ.get("EAGLE3_SEED", "0")) or random.SystemRandom().randrange(1, 1 << 32)
    print(f"again with: EAGLE3_SEED={seed}")
    chance = random.Random(seed)
    rids = tmp_path / "rids"
    with counting_server(rids, 0.02, 0.3) as url, Zygote() as zygote:
        run = make_run(
            tmp_path / "run", [url], {"B1": prompt_lines(SAMPLES - 50), "B2": prompt_lines(50)},
            concurrency=CONCURRENCY, generate={"vocab_size": 1000},
        )  # fmt: skip
        for number in range(KILLS):
            pid = zygote.start(run)
            if number % 2:  # at any moment of its work; else at any moment, most often of its start
                _until_grown(rids)
            time.sleep(chance.uniform(0.0, 0.25))
            os.kill(pid, signal.SIGKILL)
            assert zygote.wait() == -signal.SIGKILL, f"it had ended by itself (seed {seed})"
        before_last = len(responses(run, "B1") + responses(run, "B2"))
        zygote.start(run)
        assert zygote.wait() == 0, f"seed {seed}"
    assert 0 < before_last < SAMPLES, f"the kills fell into the run (seed {seed})"
    for dataset, number in (("B1", SAMPLES - 50), ("B2", 50)):
        ids = answered(run, dataset)
        assert sorted(ids) == sorted(f"p{index}" for index in range(number)), f"lost or twice (seed {seed})"
        assert (run / "prepared" / dataset / "failures.jsonl").read_bytes() == b"", f"seed {seed}"
    _check_requests(run, rids, seed)


def _until_grown(rids: Path) -> None:
    """Wait for the server to see a sample of this daemon, not only its probe."""
    before = rids.stat().st_size if rids.exists() else 0
    deadline = time.monotonic() + 20.0
    while time.monotonic() < deadline:
        new = rids.read_bytes()[before:] if rids.exists() else b""
        if any(not is_probe(line.decode()) for line in new.splitlines()):
            return
        time.sleep(0.002)
    raise AssertionError("the daemon sends nothing")


def _check_requests(run: Path, rids: Path, seed: int) -> None:
    """Compare what the server saw with what was written, life by life; a life's rids have one session."""
    seen = [rid.split(".") for rid in rids.read_text().splitlines() if not is_probe(rid)]
    sent = Counter(life for _, _, _, life, _ in seen)
    written = Counter(record["rid"].split(".")[3] for name in ("B1", "B2") for record in responses(run, name))
    in_flight = {life: sent[life] - written[life] for life in sent}
    assert max(in_flight.values()) <= CONCURRENCY, f"more repeated than were in flight (seed {seed}): {in_flight}"
    assert len(sent) > KILLS // 2, f"half of the daemons and the last got to work (seed {seed})"
    samples = Counter(sample for _, _, sample, _, _ in seen)
    assert len(samples) == SAMPLES
    assert len(seen) - SAMPLES == sum(in_flight.values()), f"seed {seed}"


async def test_after_a_kill_exactly_the_unanswered_are_sent_again(tmp_path: Path) -> None:
    case = json.loads((CASES / "12-out-of-order.json").read_text())
    finished = [samples.index(sample) for samples in [case["samples"]] for sample in case["finished_before_kill"]]

    async def answer(request: Request) -> web.StreamResponse:
        index = request.ids[1]
        if index not in finished:
            await asyncio.Event().wait()
        await asyncio.sleep(0.02 * finished.index(index))
        return web.json_response(request.good())

    async with ScriptedSglang(answer) as server:
        prompts = [{"sample_id": sample, "input_ids": [1, index]} for index, sample in enumerate(case["samples"])]
        run = make_run(tmp_path / "run", [server.url], {"B1": prompts}, concurrency=10)
        daemon = await _daemon(run)
        await until(lambda: len(server.seen) == 10 and answered(run) == case["finished_before_kill"], 20)
        daemon.kill()
        await daemon.wait()
        server.seen.clear()
        server.answer = answer_well
        daemon = await _daemon(run)
        assert await asyncio.wait_for(daemon.wait(), 20) == 0
        assert sorted(case["samples"][ids[1]] for ids in server.prompts()) == [1, 2, 4, 6, 7, 9, 10]
    assert sorted(answered(run)) == case["samples"]


async def _daemon(run: Path) -> asyncio.subprocess.Process:
    return await asyncio.create_subprocess_exec(sys.executable, "-m", "daemon", "run", str(run), cwd=ROOT)
