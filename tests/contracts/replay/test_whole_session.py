"""A session that runs, looked at again and again; what was seen each time is what the replay shows of that time."""

from __future__ import annotations

import json
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import msgspec
import pytest
from aiohttp import web

from contracts.commands import Pause, Resume, Set
from contracts.fold.run import RunFold
from contracts.liveness import Liveness
from contracts.replay.source import ReplaySource
from contracts.report import build_status
from contracts.status import RunState
from daemon.session import Session
from tests.support.runs import make_run, prompt_lines, running, until
from tests.support.scripted_sglang import Request, ScriptedSglang


@dataclass
class Look:
    """A status as it was read while the session ran, and what was in the files then."""

    at: float
    status: dict[str, Any]
    sizes: dict[Path, int]
    ended: bool
    """Whether the journals hold the end of the session already: the replay calls the daemon gone from that line on,
    while its process takes some milliseconds more to go."""


def journals(run: Path) -> list[Path]:
    return sorted([run / "events.jsonl", *run.glob("telemetry/*.jsonl"), *run.glob("prepared/*/[!p]*.jsonl")])


def look(run: Path, session: Session) -> Look:
    at = session.clock.now()
    monotonic = session.clock.mono()
    fold = RunFold(run)
    sizes = {path: path.stat().st_size for path in journals(run)}
    fold.poll()
    status = build_status(fold, Liveness(True, session.pid, session.since), at, monotonic)
    return Look(at, msgspec.to_builtins(status), sizes, fold.events.session_stopped_at is not None)


def size_at(path: Path, at: float) -> int:
    """Bytes of the lines before the first one that is later: a second opinion, line by line with json."""
    size = 0
    for line in path.read_bytes().splitlines(keepends=True):
        record = json.loads(line)
        if record.get("finished_at", record.get("at")) > at:
            break
        size += len(line)
    return size


async def telemetry_round(run: Path) -> None:
    """Until each kind of telemetry that there is has one line more: nothing is being read then."""
    for path in sorted(run.glob("telemetry/*.jsonl")):
        size = path.stat().st_size
        await until(partial(lambda path, size: path.stat().st_size > size, path, size))


def was_all_there(look: Look) -> bool:
    """Whether every record made by then was in its file: the daemon writes what it has some milliseconds later."""
    return all(size_at(path, look.at) == size for path, size in look.sizes.items())


def comparable(status: dict[str, Any]) -> dict[str, Any]:
    """Without the two things that the journals do not hold to the millisecond: the moment at which the lock was taken
    (in daemon.json; the first event comes a little later), and the age of the heartbeat by the clock of the machine
    (the replay has it by the time of day, which is read a little apart)."""
    return {**status, "daemon": {**status["daemon"], "since": None, "heartbeat_age_s": None}}


@pytest.mark.usefixtures("quick")
async def test_every_look_at_a_running_session_is_seen_again(tmp_path: Path) -> None:
    looks: list[Look] = []
    fails = [3]

    async def answer(request: Request) -> web.StreamResponse:
        if len(server.seen) % 7 == 0 and fails[0]:
            fails[0] -= 1
            return web.Response(status=503)
        return web.json_response(request.good(list(range(1, 12))))

    async with ScriptedSglang(answer) as server:
        run = make_run(
            tmp_path / "run", [server.url], {"B1": prompt_lines(40), "B2": prompt_lines(25)}, targets={"B1": 300}
        )
        config = run / "run.toml"
        config.write_text(config.read_text("utf-8").replace("interval_s = 0.05", "interval_s = 0.15"), "utf-8")
        async with running(run) as work:
            await until(lambda: work.dataset("B1").done >= 5)
            looks.append(look(run, work.session))
            assert (await work.handlers.handle(Pause(reason="to look"))).ok
            await until(lambda: work.session.status().state == "paused")
            for _ in range(6):
                await telemetry_round(run)
                looks.append(look(run, work.session))
            assert (await work.handlers.handle(Set(concurrency=2, targets={"B2": 200}))).ok
            await until(lambda: work.session.status().totals.target_tokens == 500)
            looks.append(look(run, work.session))
            assert (await work.handlers.handle(Resume())).ok
            done = work.dataset("B1").done
            await until(lambda: work.dataset("B1").done > done or work.task.done())
            looks.append(look(run, work.session))
            assert await work.end() is False

    usable = [each for each in looks if was_all_there(each) and not each.ended]
    assert len(usable) >= 3
    assert {each.status["state"] for each in usable} >= {"paused"}
    source = ReplaySource(run)
    for each in (*usable, *reversed(usable)):
        source.seek(each.at)
        replayed = msgspec.to_builtins(source.refresh())
        assert comparable(replayed) == comparable(each.status)
        for key, apart in (("since", 1.0), ("heartbeat_age_s", 0.1)):
            assert replayed["daemon"][key] == pytest.approx(each.status["daemon"][key], abs=apart, rel=0.0)
    source.seek(source.end)
    assert source.refresh().state is RunState.FINISHED
