"""A full disk pauses the run, which goes on by itself; nothing that was answered is lost."""

import errno
import os
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
from aiohttp import web

from contracts.journal.append import Journal
from daemon.writer import Writer
from tests.support.runs import answered, events, make_run, prompt_lines, run_to_end, running, until
from tests.support.scripted_sglang import Request, ScriptedSglang

pytestmark = pytest.mark.usefixtures("quick")


class Disk:
    """Full or not."""

    def __init__(self) -> None:
        self.full = False

    def write(self, descriptor: int, data: bytes) -> int:
        if self.full:
            if len(data) > 10:
                return os.write(descriptor, data[:10])
            raise OSError(errno.ENOSPC, "No space left on device")
        return os.write(descriptor, data)


@pytest.fixture
def disk(monkeypatch: pytest.MonkeyPatch) -> Disk:
    disk = Disk()
    monkeypatch.setattr("daemon.writer.ROOM_RETRY_S", 0.05)
    monkeypatch.setattr(
        "daemon.session.Writer",
        lambda written, trouble, _open, **more: Writer(
            written, trouble, lambda path: Journal(path, write=disk.write), **more
        ),
    )
    return disk


async def test_a_full_disk_pauses_and_the_run_goes_on_by_itself(tmp_path: Path, disk: Disk) -> None:
    async with ScriptedSglang() as server:
        run = make_run(tmp_path, [server.url], {"B1": prompt_lines(600)}, concurrency=8)
        async with running(run) as work:
            await until(lambda: len(server.seen) > 50)
            disk.full = True
            await until(lambda: work.session.status().state == "paused")
            assert "disk is full" in str(work.session.status().reason)
            await until(lambda: work.session.scheduler.in_flight == 0)
            sent = len(server.seen)
            assert work.session.writer.unwritten > 0
            disk.full = False
            assert await work.end() is False
        assert len(server.seen) == 600, "what was answered meanwhile was kept, not asked for again"
        assert sent < 600
    assert sorted(answered(run)) == sorted(f"p{index}" for index in range(600))
    assert [event["kind"] for event in events(run) if event["kind"].startswith("run.")] == ["run.paused", "run.resumed"]


async def test_a_persons_pause_outlasts_the_disks(tmp_path: Path, disk: Disk) -> None:
    async with ScriptedSglang() as server:
        run = make_run(tmp_path, [server.url], {"B1": prompt_lines(500)}, concurrency=8)
        async with running(run) as work:
            await until(lambda: len(server.seen) > 20)
            disk.full = True
            await until(lambda: work.session.heartbeat().state == "paused")
            work.session.pause("by hand")
            disk.full = False
            await until(lambda: work.session.writer.unwritten == 0)
            assert work.session.heartbeat().state == "paused"
            assert work.session.heartbeat().reason == "by hand"
            work.session.resume()
            assert await work.end() is False
    kinds = [event["kind"] for event in events(run) if event["kind"] in ("run.paused", "run.resumed")]
    assert kinds[-1] == "run.resumed" and kinds.count("run.resumed") == 1


async def test_a_drain_on_a_full_disk_waits_for_room(tmp_path: Path, disk: Disk) -> None:
    async with ScriptedSglang() as server:
        run = make_run(tmp_path, [server.url], {"B1": prompt_lines(500)}, concurrency=8)
        async with running(run) as work:
            await until(lambda: len(server.seen) > 20)
            disk.full = True
            await until(lambda: work.session.heartbeat().state == "paused")
            work.session.drain()
            await until(lambda: work.session.scheduler.in_flight == 0)
            disk.full = False
            assert await work.end() is True
            sent = len(server.seen)
        assert len(answered(run)) == sent


async def test_a_disk_that_failed_is_kept_in_view_until_the_end(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("daemon.writer.ROOM_RETRY_S", 0.05)
    sync, broken = Journal.sync, [True]

    def failing(journal: Journal) -> None:
        if broken[0] and journal.path.name == "raw_responses.jsonl":
            raise OSError(errno.EIO, "Input/output error", str(journal.path))
        sync(journal)

    monkeypatch.setattr(Journal, "sync", failing)
    async with ScriptedSglang() as server:
        run = make_run(tmp_path, [server.url], {"B1": prompt_lines(5000)}, concurrency=8)
        async with running(run) as work:
            await until(lambda: work.session.heartbeat().state == "paused")
            broken[0] = False
            await until(lambda: work.session.heartbeat().state == "running")
            await until(lambda: "may not be on it" in str(work.session.heartbeat().reason))
            assert work.session.heartbeat().blocked is None
            await until(lambda: events(run, "disk.doubtful"))
            assert events(run, "disk.doubtful")[0]["severity"] == "warning"


async def test_a_stop_on_a_full_disk_ends_and_nothing_is_in_a_file_by_half(
    tmp_path: Path, disk: Disk, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("daemon.session.CLOSE_WRITER_S", 0.3)
    async with ScriptedSglang() as server:
        run = make_run(tmp_path, [server.url], {"B1": prompt_lines(300)}, concurrency=8)
        async with running(run) as work:
            await until(lambda: len(server.seen) > 20)
            disk.full = True
            await until(lambda: work.session.heartbeat().state == "paused")
            work.session.stop()
            assert await work.end(5.0) is True
            assert work.session.lost > 0
        answered(run)
        disk.full = False
        assert await run_to_end(run) is False
    assert len(set(answered(run))) == len(answered(run)) == 300


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    folder = tmp_path / "small"
    folder.mkdir()
    mounted = subprocess.run(["mount", "-t", "tmpfs", "-o", "size=600k", "tmpfs", folder], capture_output=True)
    if mounted.returncode != 0:
        pytest.skip("a small file system cannot be mounted here")
    try:
        yield folder
    finally:
        subprocess.run(["umount", "--lazy", folder], check=True)


async def test_on_a_really_full_file_system(small_disk: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("daemon.writer.ROOM_RETRY_S", 0.05)

    async def answer(request: Request) -> web.StreamResponse:
        return web.json_response(request.good(list(range(100_000, 100_064))))

    ballast = small_disk / "ballast"
    ballast.write_bytes(b"x" * 350_000)
    async with ScriptedSglang(answer) as server:
        run = make_run(small_disk / "run", [server.url], {"B1": prompt_lines(400)}, concurrency=8)
        async with running(run) as work:
            await until(lambda: work.session.heartbeat().state == "paused")
            await until(lambda: work.session.scheduler.in_flight == 0)
            ballast.unlink()
            assert await work.end() is False
        assert len(server.seen) == 400
    assert len(set(answered(run))) == len(answered(run)) == 400
