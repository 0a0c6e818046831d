"""The daemon at work on the real server: every prompt answered once, whatever ends the daemon meanwhile.

The server's own counters are the third opinion: what it was asked is what the files hold, and nothing beside.
"""

from __future__ import annotations

import json
import signal
from pathlib import Path

import pytest

from contracts.run_dir import RunDir
from tests.sglang.server import SglangServer
from tests.sglang.server_counts import ServerCounts, open_requests, wait_idle
from tests.whole_run import WholeRun, records_in, shared_sources

SECONDS = 120
GOOD = 60
CONTEXT = 2048
MAX_NEW = 12
# SGLang ends an answer so many tokens before the context is full, without saying so.
CUT = 2
# What a line of the file is, and what is said of it. Two of them would end the server.
BAD: list[tuple[object, str]] = [
    ({"id": "negative", "input_ids": [71, -5, 72]}, "-5"),
    ({"id": "beyond", "input_ids": [71, 1024]}, "1024"),
    ({"id": "nothing", "input_ids": []}, "empty"),
    ({"id": "blank", "prompt": " "}, "blank"),
    ({"id": "too long", "input_ids": [5] * 3000}, "has 3000 tokens"),
    ({"id": "no room", "input_ids": [5] * (CONTEXT - MAX_NEW + 1)}, 'over_long = "clip"'),
    (f'{{"id": "q{GOOD - 1}", "prompt": "Again?"}}', "again"),
    ('{"id": "torn", "prompt": "Wha', "broken JSON"),
]


@pytest.fixture
def own_prompts(tmp_path: Path) -> Path:
    """A prompt file of our own: good lines, then bad ones, then the longest prompt whose answer has room."""
    lines: list[object] = [{"id": f"q{number}", "prompt": f"What is {number} times 7?"} for number in range(GOOD)]
    lines += [line for line, _ in BAD]
    lines.append({"id": "fits", "input_ids": [5] * (CONTEXT - MAX_NEW - CUT)})
    path = tmp_path / "own.jsonl"
    path.write_text("".join(f"{line if isinstance(line, str) else json.dumps(line)}\n" for line in lines))
    return path


@pytest.fixture
def questions(tmp_path: Path) -> dict[str, Path]:
    """A data set that takes the server some seconds."""
    path = tmp_path / "questions.jsonl"
    path.write_text("".join(f'{{"id": {number}, "prompt": "Count to {number}."}}\n' for number in range(GOOD)))
    return {"B1_questions": path}


def test_public_prompts_are_answered_once(sglang_server: SglangServer, tmp_path: Path) -> None:
    sources = shared_sources()
    if sources is None:
        pytest.skip("no ../shared/data beside the repository; test_own_prompts... runs the same")
    run = WholeRun(tmp_path / "run", sglang_server.url, sources, concurrency=24, max_new_tokens=8)
    before = ServerCounts.of(sglang_server)
    run.finish(seconds=250)
    run.assert_all_done_once()
    assert {name: len(run.responses(name)) for name in run.names} == {
        name: records_in(source) for name, source in sources.items()
    }
    assert not any(run.failures(name) for name in run.names)
    assert_asked_once(sglang_server, before, run)


def test_own_prompts_are_answered_once_and_bad_ones_never_sent(
    sglang_server: SglangServer, tmp_path: Path, own_prompts: Path
) -> None:
    sources = {"B1_own": own_prompts}
    run = WholeRun(tmp_path / "run", sglang_server.url, sources, concurrency=24, max_new_tokens=MAX_NEW)
    before = ServerCounts.of(sglang_server)
    run.finish(seconds=SECONDS)
    run.assert_all_done_once()
    refused = run.refused("B1_own")
    assert sorted(refused) == [GOOD + 1 + index for index in range(len(BAD))]
    for (_, why), line in zip(BAD, sorted(refused), strict=True):
        assert why in refused[line]
    answered = {each["sample_id"] for each in run.responses("B1_own")}
    assert answered == {f"q{number}" for number in range(GOOD)} | {"fits"}
    assert_asked_once(sglang_server, before, run)

    # Once more: all is done, so nothing is sent, not even to see whether the server is there.
    after = ServerCounts.of(sglang_server)
    run.finish(seconds=SECONDS)
    run.assert_all_done_once()
    assert run.refused("B1_own") == refused
    assert ServerCounts.of(sglang_server).requests - after.requests <= 1


def test_killed_daemon_loses_nothing_and_repeats_only_what_was_open(
    sglang_server: SglangServer, tmp_path: Path, questions: dict[str, Path]
) -> None:
    concurrency, kill_at = 8, (5, 20, 40)
    run = WholeRun(
        tmp_path / "run",
        sglang_server.url,
        questions,
        concurrency=concurrency,
        max_new_tokens=24,
        sampling={"ignore_eos": True},
    )
    before = ServerCounts.of(sglang_server)
    for lines in kill_at:
        with run.daemon() as process:
            run.wait_responses(process, lines, seconds=SECONDS)
            process.kill()
            run.wait_end(process, -signal.SIGKILL, seconds=SECONDS)
    assert run.answered() < GOOD, "the last kill came too late to be one"
    run.finish(seconds=SECONDS)
    run.assert_all_done_once()
    starts = len(kill_at) + 1
    wait_idle(sglang_server)
    sent = ServerCounts.of(sglang_server).requests - before.requests - starts
    assert sent <= GOOD + concurrency * len(kill_at)


def test_sigterm_drains_what_is_open(sglang_server: SglangServer, tmp_path: Path, questions: dict[str, Path]) -> None:
    run = WholeRun(
        tmp_path / "run",
        sglang_server.url,
        questions,
        concurrency=16,
        max_new_tokens=24,
        sampling={"ignore_eos": True},
    )
    before = ServerCounts.of(sglang_server)
    with run.daemon() as process:
        run.wait_responses(process, 5, seconds=SECONDS)
        answered = run.answered()
        process.terminate()
        run.wait_end(process, 3, seconds=SECONDS)
    wait_idle(sglang_server)
    assert answered < run.answered() < GOOD
    assert run.failures("B1_questions") == []
    assert_asked_once(sglang_server, before, run)
    code, status = run.status()
    assert (code, status["state"]) == (3, "stopped")
    assert status["totals"]["done"] == run.answered()

    run.finish(seconds=SECONDS)
    run.assert_all_done_once()


def test_second_sigterm_aborts_what_is_open(
    sglang_server: SglangServer, tmp_path: Path, questions: dict[str, Path]
) -> None:
    run = WholeRun(
        tmp_path / "run",
        sglang_server.url,
        questions,
        concurrency=4,
        max_new_tokens=1800,
        sampling={"ignore_eos": True},
    )
    with run.daemon() as process:
        run.wait(process, "requests on the server", lambda: open_requests(sglang_server) >= 4, seconds=SECONDS)
        process.terminate()
        run.wait(process, "the drain", lambda: run.said("run.draining"), seconds=SECONDS)
        process.terminate()
        run.wait_end(process, 3, seconds=SECONDS)
    wait_idle(sglang_server)
    assert (run.answered(), run.failures("B1_questions")) == (0, [])
    assert not RunDir(run.dir.path).socket.exists()


def assert_asked_once(server: SglangServer, before: ServerCounts, run: WholeRun) -> None:
    """The server counted the requests and tokens that the files hold, and one probe (3 tokens, 1 new)."""
    responses = [each for name in run.names for each in run.responses(name)]
    expected = ServerCounts(
        requests=before.requests + len(responses) + 1,
        prompt_tokens=before.prompt_tokens + sum(each["prompt_tokens"] for each in responses) + 3,
        completion_tokens=before.completion_tokens + sum(each["completion_tokens"] for each in responses) + 1,
    )
    assert ServerCounts.reaching(server, expected) == expected
