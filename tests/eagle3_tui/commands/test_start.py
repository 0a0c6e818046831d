"""`eagle3 start` with the real daemon: it answers or says why; known failures 59, 62 and 63 as a person meets them."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path

import pytest

from contracts.commands import Ping
from contracts.control_client import DaemonNotRunning, send
from contracts.daemon_info import read_daemon_info
from contracts.liveness import look
from contracts.run_dir import SOCKET_PATH_LIMIT, RunDir
from eagle3_tui.commands.start import start_detached
from eagle3_tui.failure import CommandFailed
from tests.eagle3_tui.commands.conftest import Result, response

Eagle3 = Callable[..., Result]


@pytest.fixture(autouse=True)
def nothing_left_running(tmp_path: Path) -> Iterator[None]:
    """End daemons that a failed test left, by the pid in their own daemon.json while they hold their lock."""
    yield
    for config in tmp_path.rglob("run.toml"):
        found = look(RunDir(config.parent))
        if found.alive and found.pid is not None and found.pid != os.getpid():
            os.kill(found.pid, signal.SIGKILL)


@pytest.fixture
def idle(run_path: Path) -> RunDir:
    """A run whose server does not answer: its daemon stays, and waits."""
    return RunDir(run_path)


def kill(run: RunDir) -> None:
    """Kill -9 the daemon and wait until it is gone."""
    found = look(run)
    assert found.pid is not None
    os.kill(found.pid, signal.SIGKILL)
    os.waitpid(found.pid, 0)


def test_start_answers_then_status_sees_it_then_stop_ends_it(eagle3: Eagle3, idle: RunDir) -> None:
    started = eagle3("start", idle.path)
    assert (started.code, started.err) == (0, "")
    pid = look(idle).pid
    assert f"(pid {pid})" in started.out
    status = eagle3("status", idle.path, "--json").json
    assert (status["daemon"]["alive"], status["daemon"]["pid"]) == (True, pid)
    again = eagle3("start", idle.path)
    assert (again.code, again.out) == (1, "")
    assert f"(pid {pid}) runs here already" in again.err
    assert look(idle).pid == pid
    stopped = eagle3("stop", idle.path)
    assert stopped.code == 0
    assert look(idle).alive is False
    assert not idle.socket.exists()


@pytest.mark.parametrize(("content", "words"), [("", "is empty"), ('[run]\nnam = "x"\n', "unknown key 'nam'")])
def test_a_wrong_run_toml_is_told_in_one_sentence_with_code_2(
    eagle3: Eagle3, idle: RunDir, content: str, words: str
) -> None:
    idle.config.write_text(content)
    result = eagle3("start", idle.path)
    assert (result.code, result.out) == (2, "")
    assert words in result.err
    assert result.err.count("\n") == 1


def test_only_the_words_of_this_start_are_told(eagle3: Eagle3, idle: RunDir) -> None:
    (idle.path / "daemon.stderr").write_text("an old error\n")
    idle.config.write_text("")
    assert "an old error" not in eagle3("start", idle.path).err


def test_a_daemon_that_dies_without_a_word_is_told(idle: RunDir, monkeypatch: pytest.MonkeyPatch) -> None:
    code = "import os; os.kill(os.getpid(), 9)"
    monkeypatch.setattr("eagle3_tui.commands.start.program", lambda *_: [sys.executable, "-c", code])
    with pytest.raises(CommandFailed, match="ended by signal 9"):
        start_detached(idle)


def test_a_daemon_that_does_not_answer_in_time_is_told(idle: RunDir, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("eagle3_tui.commands.start.program", lambda *_: ["sleep", "60"])
    with pytest.raises(CommandFailed, match=r"pid (\d+)\) has not answered within 0 s") as caught:
        start_detached(idle, 0.2)
    pid = int(str(caught.value).partition("pid ")[2].partition(")")[0])
    os.kill(pid, signal.SIGKILL)
    os.waitpid(pid, 0)


def test_a_daemon_with_nothing_to_do_is_no_failure(
    eagle3: Eagle3, idle: RunDir, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("eagle3_tui.commands.start.program", lambda *_: ["true"])
    result = eagle3("start", idle.path)
    assert result.code == 0
    assert "nothing left to do" in result.out


def test_a_run_whose_work_is_done_is_not_said_to_be_running(eagle3: Eagle3, idle: RunDir) -> None:
    idle.dataset("B1").responses.write_text("".join(map(response, "abc")))
    result = eagle3("start", idle.path)
    assert (result.code, result.err) == (0, "")
    assert result.out.startswith(f"the daemon of {idle.path} has nothing left to do and is ending")


def test_a_run_of_which_no_prompt_file_can_be_used_is_not_said_to_be_running(eagle3: Eagle3, idle: RunDir) -> None:
    """The tokenizer is the placeholder that `eagle3 init` writes."""
    (idle.path / "text.jsonl").write_text('{"sample_id": "a", "prompt": "Hello"}\n')
    config = idle.config.read_text() + 'prompts = "text.jsonl"\n[[datasets]]\nname = "B2"\nprompts = "text.jsonl"\n'
    idle.config.write_text(config + '[tokenizer]\npath = "FOLDER-OF-THE-MODELS-TOKENIZER"\n')
    result = eagle3("start", idle.path)
    assert (result.code, result.out) == (1, "")
    assert "ended, for nothing can be sent: B1: [tokenizer] path = 'FOLDER-OF" in result.err
    assert "and 1 more like this; see: eagle3 events" in result.err and result.err.count("\n") == 1
    assert look(idle).alive is False


def test_the_foreground_becomes_the_daemon(idle: RunDir) -> None:
    command = [sys.executable, "-m", "eagle3_tui", "start", "--foreground", idle.path]
    with subprocess.Popen(command, stderr=subprocess.PIPE) as process:
        try:
            answer = None
            while answer is None:
                assert process.poll() is None
                with suppress(DaemonNotRunning):  # the socket has its name before somebody listens
                    answer = send(idle.socket, Ping())
            assert answer.result["pid"] == process.pid
        finally:
            process.terminate()
        process.wait()
    assert look(idle).alive is False


def test_case_59_a_foreign_pid_in_daemon_json_is_left_alone(eagle3: Eagle3, idle: RunDir) -> None:
    with subprocess.Popen(["sleep", "60"]) as sleeper:
        idle.daemon_info.write_text(f'{{"pid": {sleeper.pid}}}')
        assert eagle3("start", idle.path).code == 0
        assert "took over" in idle.log.read_text()
        assert eagle3("stop", idle.path).code == 0
        assert sleeper.poll() is None
        sleeper.kill()


def test_case_63_after_kill_9_the_next_start_works(eagle3: Eagle3, idle: RunDir) -> None:
    assert eagle3("start", idle.path).code == 0
    kill(idle)
    assert idle.socket.is_socket()
    assert eagle3("pause", idle.path).code == 3
    assert eagle3("start", idle.path).code == 0
    assert eagle3("stop", idle.path).code == 0


@pytest.mark.parametrize("kind", ["folder", "plain file"])
def test_case_63_something_else_at_the_socket_is_one_sentence(eagle3: Eagle3, idle: RunDir, kind: str) -> None:
    if kind == "folder":
        idle.socket.mkdir()
    else:
        idle.socket.write_text("mine")
    result = eagle3("start", idle.path)
    assert (result.code, result.out) == (1, "")
    assert "stands where the control socket belongs; move it away" in result.err
    assert result.err.count("\n") == 1
    assert idle.socket.exists()


def test_case_62_two_long_runs_that_differ_in_the_last_byte(
    eagle3: Eagle3, idle: RunDir, tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(tmp_path_factory.mktemp("r")))
    folder = idle.path.parent
    length = 150 - len(str(folder)) - 1
    runs = [RunDir(folder / ("d" * (length - 1) + last)) for last in "ab"]
    for run in runs:
        assert len(str(run.path)) == 150 > SOCKET_PATH_LIMIT
        shutil.copytree(idle.path, run.path)
        assert eagle3("start", run.path).code == 0
    for run in runs:
        info = read_daemon_info(run.daemon_info)
        assert info is not None
        assert send(run.socket, Ping()).result["pid"] == info.pid
    # A client with another runtime folder finds them by what they wrote.
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(tmp_path_factory.mktemp("other")))
    assert eagle3("stop", runs[0].path).code == 0
    assert [look(run).alive for run in runs] == [False, True]
    assert eagle3("stop", runs[1].path).code == 0
