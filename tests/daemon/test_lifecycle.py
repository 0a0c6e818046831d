"""The daemon as a process: its exit codes, its signals, its limits; and what it makes of damaged state."""

import asyncio
import gc
import json
import logging
import resource
import shutil
import signal
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from aiohttp import web

from contracts.exit_codes import ExitCode
from daemon.lifecycle import run_daemon
from daemon.servers.info import ServerUnreachable
from daemon.writer import Writer
from tests.support.runs import answered, events, make_run, prompt_lines, run_to_end, running, until
from tests.support.scripted_sglang import Request, ScriptedSglang, answer_well

ROOT = Path(__file__).parents[2]


async def daemon(run: Path, **how: Any) -> asyncio.subprocess.Process:
    return await asyncio.create_subprocess_exec(
        sys.executable, "-m", "daemon", "run", str(run), cwd=ROOT, stderr=asyncio.subprocess.PIPE, **how
    )


async def test_sigterm_drains_and_the_exit_code_says_that_work_is_left(tmp_path: Path) -> None:
    gate = asyncio.Event()

    async def answer(request: Request) -> web.StreamResponse:
        await gate.wait()
        return web.json_response(request.good())

    async with ScriptedSglang(answer) as server:
        run = make_run(tmp_path, [server.url], {"B1": prompt_lines(20)})
        process = await daemon(run)
        await until(lambda: server.open == 4, 20)
        process.send_signal(signal.SIGHUP)
        process.send_signal(signal.SIGTERM)
        await until(lambda: events(run, "run.draining"))
        gate.set()
        assert await asyncio.wait_for(process.wait(), 20) == ExitCode.STOPPED
        assert len(server.seen) == 4
    assert len(answered(run)) == 4


async def test_a_second_sigterm_stops_at_once(tmp_path: Path) -> None:
    async def hang(request: Request) -> web.StreamResponse:
        await asyncio.Event().wait()
        return web.Response()

    async with ScriptedSglang(hang) as server:
        run = make_run(tmp_path, [server.url], {"B1": prompt_lines(20)})
        process = await daemon(run)
        await until(lambda: server.open == 4, 20)
        process.send_signal(signal.SIGTERM)
        await until(lambda: events(run, "run.draining"))
        process.send_signal(signal.SIGTERM)
        assert await asyncio.wait_for(process.wait(), 8) == ExitCode.STOPPED
        assert len(server.aborts) == 4


async def test_more_connections_than_the_limit_of_open_files_allows(tmp_path: Path) -> None:
    async def answer(request: Request) -> web.StreamResponse:
        await asyncio.sleep(0.01)
        return web.json_response(request.good())

    async with ScriptedSglang(answer) as server:
        run = make_run(tmp_path, [server.url], {"B1": prompt_lines(400)}, concurrency=200)
        process = await daemon(run, preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_NOFILE, (64, 64)))
        assert await asyncio.wait_for(process.wait(), 30) == ExitCode.OK
        assert server.most_open < 60
        assert len(server.seen) == 400
    assert len(set(answered(run))) == 400
    (note,) = [event["message"] for event in events(run, "daemon.note") if "limit of open files" in event["message"]]
    assert "lowered from 200 to" in note and "ulimit -n" in note


async def test_the_soft_limit_of_open_files_is_raised(tmp_path: Path) -> None:
    gate = asyncio.Event()

    async def answer(request: Request) -> web.StreamResponse:
        await gate.wait()
        return await answer_well(request)

    async with ScriptedSglang(answer) as server:
        run = make_run(tmp_path, [server.url], {"B1": prompt_lines(150)}, concurrency=150)
        process = await daemon(run, preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_NOFILE, (64, 400)))
        await until(lambda: server.open == 150, 20)
        gate.set()
        assert await asyncio.wait_for(process.wait(), 20) == ExitCode.OK
    assert not events(run, "daemon.note")


@pytest.fixture
def in_process() -> Iterator[None]:
    """`run_daemon` changes its process; put that back."""
    root, hook, threshold = logging.getLogger(), threading.excepthook, gc.get_threshold()
    handlers, level, raises = list(root.handlers), root.level, logging.raiseExceptions
    handled = {number: signal.getsignal(number) for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP)}
    yield
    for handler in set(root.handlers) - set(handlers):
        root.removeHandler(handler)
        handler.close()
    root.setLevel(level)
    logging.raiseExceptions, threading.excepthook = raises, hook
    gc.set_threshold(*threshold)
    for number, handler in handled.items():
        signal.signal(number, handler)


@pytest.fixture(scope="module")
def finished(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A finished run with everything in it: an imported data set, one of the person's own, failures, settings."""
    path = tmp_path_factory.mktemp("finished") / "run"

    async def refuse_one(request: Request) -> web.StreamResponse:
        if request.ids == [1, 2]:
            return web.json_response({"error": {"message": "odd"}}, status=400)
        return await answer_well(request)

    async def make() -> None:
        source = path / "source.jsonl"
        async with ScriptedSglang(refuse_one) as server:
            make_run(path, [server.url], {"B1": prompt_lines(6), "B2": []}, prompts={"B2": "source.jsonl"})
            source.write_text("".join(json.dumps(line) + "\n" for line in prompt_lines(4, ids=lambda i: [2, i])))
            assert await run_to_end(path) is False
            (path / "daemon.lock").touch()
            (path / "daemon.json").write_text("{}")

    asyncio.run(make())
    return path


STATE_FILES = [
    "run.toml",
    "events.jsonl",
    "fingerprint.json",
    "fold.checkpoint",
    "daemon.json",
    "daemon.lock",
    "prepared/B1/prompts.jsonl",
    "prepared/B1/failures.jsonl",
    "prepared/B2/prompts.jsonl",
    "prepared/B2/import.json",
    "prepared/B2/failures.jsonl",
    "telemetry/daemon.jsonl",
]


@pytest.mark.parametrize("name", STATE_FILES)
def test_a_zero_byte_state_file_is_made_again_or_named(
    name: str, finished: Path, tmp_path: Path, in_process: None, capfd: pytest.CaptureFixture[str]
) -> None:
    run = tmp_path / "run"
    shutil.copytree(finished, run)
    before = {data: (run / "prepared" / data / "raw_responses.jsonl").read_bytes() for data in ("B1", "B2")}
    assert (run / name).exists()
    (run / name).write_bytes(b"")
    # Where there is work now, or a file that a person must repair, it waits for its server, which is not there.
    waits = name in ("prepared/B1/prompts.jsonl", "prepared/B1/failures.jsonl")
    code = _drained(run) if waits else run_daemon(run)
    printed = capfd.readouterr().err
    assert "Traceback" not in printed + ((run / "daemon.log").read_text() if (run / "daemon.log").exists() else "")
    for data, content in before.items():
        assert (run / "prepared" / data / "raw_responses.jsonl").read_bytes() == content, "the data is as it was"
    said = printed + (run / "events.jsonl").read_text()
    if name == "run.toml":
        assert code == ExitCode.USAGE and "run.toml" in printed and len(printed.splitlines()) == 1
    elif name == "prepared/B1/prompts.jsonl":
        assert code == ExitCode.STOPPED and "prompts.jsonl: is empty" in printed
    elif name == "prepared/B1/failures.jsonl":
        assert code == ExitCode.STOPPED, "that p2 was given up is forgotten: it is to be tried again"
        assert "failures.jsonl" in said
    else:
        assert code == ExitCode.OK, said
    if name.endswith(("import.json", "B2/prompts.jsonl")):
        assert (run / name).stat().st_size > 0, "made again"
    if name in ("fingerprint.json", "fold.checkpoint", "events.jsonl"):
        assert name in said


def _drained(run: Path) -> int:
    """Be its daemon until it waits for its server, then drain."""
    timer = threading.Timer(1.0, lambda: signal.raise_signal(signal.SIGTERM))
    timer.start()
    try:
        return run_daemon(run)
    finally:
        timer.cancel()


def test_a_changed_sampling_is_refused_with_the_difference(
    finished: Path, tmp_path: Path, in_process: None, capfd: pytest.CaptureFixture[str]
) -> None:
    run = tmp_path / "run"
    shutil.copytree(finished, run)
    text = (run / "run.toml").read_text()
    (run / "run.toml").write_text(text.replace("max_new_tokens = 64", "max_new_tokens = 65\ntemperature = 0.5"))
    assert run_daemon(run) == ExitCode.USAGE
    printed = capfd.readouterr().err
    assert "max_new_tokens was 64, is 65" in printed and "temperature was 'not set', is 0.5" in printed


def test_a_second_daemon_is_turned_away(
    finished: Path, tmp_path: Path, in_process: None, capfd: pytest.CaptureFixture[str]
) -> None:
    from contracts.run_dir import RunDir
    from daemon.single import SingleInstance

    run = tmp_path / "run"
    shutil.copytree(finished, run)
    first = SingleInstance(RunDir(run))
    first.acquire()
    try:
        assert run_daemon(run) == ExitCode.FAILED
    finally:
        first.release()
    assert "runs here already" in capfd.readouterr().err


def test_a_fault_of_the_daemon_itself_is_in_its_log(
    finished: Path, tmp_path: Path, in_process: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = tmp_path / "run"
    shutil.copytree(finished, run)
    monkeypatch.setattr("daemon.course.nothing_left", lambda status: 1 / 0)
    with pytest.raises(ZeroDivisionError):
        run_daemon(run)
    assert "ZeroDivisionError" in (run / "daemon.log").read_text()
    assert [event["kind"] for event in events(run)][-1] == "daemon.stopped"


async def test_a_stop_does_not_wait_for_a_call_that_hangs(tmp_path: Path) -> None:
    """A control call may take as long as it likes: it is in nobody's way."""
    never = threading.Event()

    def hang() -> None:
        never.wait(30)
        raise ServerUnreachable("http://there", "gone", timed_out=True)

    async with ScriptedSglang() as server:
        run = make_run(tmp_path, [server.url], {"B1": prompt_lines(3)})
        async with running(run) as work:
            work.session.pool.slots[0].control.model_info = hang  # type: ignore[assignment,method-assign]
            await asyncio.sleep(0.05)
            work.session.stop()
            assert await work.end(3.0) is True
    never.set()


def test_lost_records_are_said_on_stderr_and_by_the_exit_code(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    run = make_run(tmp_path, ["http://127.0.0.1:9"], {"B1": prompt_lines(1)})
    record = {"sample_id": "p0", "prompt_tokens": 2, "completion_tokens": 1, "finish_reason": "stop", "output_ids": [1]}
    (run / "prepared" / "B1" / "raw_responses.jsonl").write_text(json.dumps(record) + "\n")
    assert run_daemon(run) == ExitCode.OK
    close = Writer.close
    monkeypatch.setattr(Writer, "close", lambda writer, timeout_s: close(writer, timeout_s) + 3)
    capsys.readouterr()
    assert run_daemon(run) == ExitCode.STOPPED
    assert capsys.readouterr().err == f"{run}: 3 records could not be written; samples among them are sent again\n"
