"""The run folder is moved under its daemon: no second run begins at the old place, and nothing is lost."""

import asyncio
import sys
from pathlib import Path

from aiohttp import web

from contracts.commands import Stop
from contracts.control_client import send, socket_of
from contracts.daemon_info import read_daemon_info
from contracts.liveness import look
from contracts.monitor import Monitor
from contracts.run_dir import RunDir
from tests.support.runs import answered, events, make_run, prompt_lines, until
from tests.support.scripted_sglang import Request, ScriptedSglang

ROOT = Path(__file__).parents[2]


async def test_a_run_that_is_moved_waits_for_its_return_and_ends_when_told(tmp_path: Path) -> None:
    gate = asyncio.Event()

    async def answer(request: Request) -> web.StreamResponse:
        if len(server.seen) > 20:
            await gate.wait()
        return web.json_response(request.good())

    path, moved = tmp_path / "k", tmp_path / "k_moved"
    async with ScriptedSglang(answer) as server:
        run = make_run(path, [server.url], {"B1": prompt_lines(400)}, concurrency=4)
        daemon = await asyncio.create_subprocess_exec(
            sys.executable, "-m", "daemon", "run", str(run), cwd=ROOT, stderr=asyncio.subprocess.PIPE
        )
        await until(lambda: server.open == 4 and len(answered(run)) == 20, 20)
        run.rename(moved)
        gate.set()
        await until(lambda: server.open == 0)
        await until(lambda: Monitor(moved).refresh().state == "paused")
        status = Monitor(moved).refresh()
        assert f"the run folder {path} was moved to {moved}: move it back" in str(status.reason)
        assert len(server.seen) == 24 and len(answered(moved)) == 20
        assert not path.exists()
        moved.rename(path)
        await until(lambda: len(answered(path)) > 24)
        gate.clear()
        await until(lambda: Monitor(path).refresh().state == "running")
        await until(lambda: server.open == 4)
        path.rename(moved)
        make_run(path, [server.url], {"B1": prompt_lines(3)})
        (path / "prepared/B1/raw_responses.jsonl").touch()
        before = _tree(path)
        gate.set()
        await until(lambda: server.open == 0 and Monitor(moved).refresh().state == "paused")
        assert send(socket_of(RunDir(moved)), Stop()).ok
        _, said = await asyncio.wait_for(daemon.communicate(), 20)
        sent = len(server.seen)
    assert _tree(path) == before and said == b""
    ids = answered(moved)
    assert len(ids) == len(set(ids)) == sent, "what was answered meanwhile went along with the folder"
    kinds = [event["kind"] for event in events(moved)]
    assert kinds.count("run.paused") == 2 and kinds[-1] == "daemon.stopped"
    info = read_daemon_info(RunDir(moved).daemon_info)
    assert info is not None and info.ended_at is not None and look(RunDir(moved)).alive is False


def _tree(path: Path) -> dict[str, int]:
    return {str(each): each.stat().st_size for each in path.rglob("*")}
