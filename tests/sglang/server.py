"""Starts and stops a real SGLang server on the CPU, for the tests."""

from __future__ import annotations

import json as json_module
import os
import random
import re
import signal
import socket
import subprocess
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import psutil
import requests

from tests.sglang import environment

HOST = "127.0.0.1"

# Linux hands out 32768 and above for outgoing connections; SGLang binds its port only when the model is loaded,
# half a minute after it was picked here.
_PORTS = range(20000, 32000)

# From the first byte of the process on: the server dies with the tests, however those end. The flag stays over
# execv; SGLang's own subprocesses do the same with respect to their parent.
_DIE_WITH_PARENT = (
    "import ctypes, os, signal, sys; ctypes.CDLL(None).prctl(1, signal.SIGKILL); "
    "os.execv(sys.executable, [sys.executable, *sys.argv[1:]])"
)

# What Triton's bindings print when a process ends: hundreds of lines after the ones that matter.
_NOISE = re.compile(r"nanobind: | - leaked | - \.\.\. skipped|See https?://nanobind")

_BASE_ARGS = (
    *("--device", "cpu", "--dtype", "float32", "--attention-backend", "torch_native"),
    *("--sampling-backend", "pytorch", "--grammar-backend", "none"),
    *("--mem-fraction-static", "0.1", "--max-total-tokens", "16384"),
    "--sleep-on-idle",  # an idle scheduler would keep one of the cores busy
)


class ServerError(Exception):
    """The server did not start or did not stop as it should; the message ends with the end of its log."""


class SglangServer:
    """A real SGLang server: `with SglangServer(...) as server: server.post("/generate", {...})`.

    Start it in the main thread: the server is killed when the thread that started it ends.

    Attributes:
        url: Base URL, without a slash at the end.
        port: Its port; give it to another SglangServer to come back at the same address.
        api_key: As given.
        log_path: Standard output and error of all its processes.
        started_in: Seconds from start to ready, once it is.
    """

    def __init__(
        self,
        model: Path | None = None,
        *,
        metrics: bool = False,
        api_key: str | None = None,
        max_running_requests: int = 16,
        max_queued_requests: int | None = None,
        skip_tokenizer_init: bool = False,
        extra_args: Sequence[str] = (),
        extra_path: Sequence[Path] = (),
        env: Mapping[str, str] | None = None,
        port: int | None = None,
        log_path: Path | None = None,
        ready_timeout: float = 180,
    ) -> None:
        """Prepare a server; nothing runs before `start`.

        Args:
            model: A model folder; the tiny Llama when None.
            metrics: Start with --enable-metrics.
            api_key: Key it demands; `request` sends it.
            max_running_requests: Requests in one batch.
            max_queued_requests: Bound of the queue behind that; unbounded when None.
            skip_tokenizer_init: Answers carry no `text`, and only `input_ids` are accepted.
            extra_args: More command line arguments; they win over the ones from here.
            extra_path: Folders for its PYTHONPATH: that of a plugin with a *.dist-info beside it, say.
            env: More environment variables.
            port: A free one is picked when None.
            log_path: A new temporary file when None.
            ready_timeout: Seconds until it must answer /health.
        """
        self.model = model or environment.model_path()
        self.port = port or _free_port()
        self.url = f"http://{HOST}:{self.port}"
        self.api_key = api_key
        self.log_path = log_path or _temporary_log()
        self.started_in: float | None = None
        self._ready_timeout = ready_timeout
        self._env = {**environment.process_env(extra_path=tuple(extra_path)), **(env or {})}
        self._args = [
            *("--model-path", str(self.model), "--host", HOST, "--port", str(self.port), *_BASE_ARGS),
            *("--max-running-requests", str(max_running_requests)),
            *(["--enable-metrics"] if metrics else []),
            *(["--api-key", api_key] if api_key is not None else []),
            *(["--max-queued-requests", str(max_queued_requests)] if max_queued_requests is not None else []),
            *(["--skip-tokenizer-init"] if skip_tokenizer_init else []),
            *extra_args,
        ]
        self._process: subprocess.Popen[bytes] | None = None
        self._seen: dict[int, psutil.Process] = {}

    def start(self) -> Self:
        """Launch it and wait until it generates.

        Raises:
            ServerError: It ended, or was not ready in time. Nothing is left running.
        """
        if self._process is not None:
            raise ServerError("start: this server was started before; make another one")
        begun = time.monotonic()
        with self.log_path.open("wb") as log:
            self._process = subprocess.Popen(
                [environment.PYTHON, "-c", _DIE_WITH_PARENT, "-m", "sglang.launch_server", *self._args],
                env=self._env,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )
        try:
            self._wait_ready(begun + self._ready_timeout)
        except BaseException:
            self.kill()
            raise
        self.started_in = time.monotonic() - begun
        return self

    def stop(self, *, grace: float = 10) -> None:
        """End it: SIGTERM to the main process, which ends the others; SIGKILL for those left after the grace period.

        Raises:
            ServerError: Something of it is still there, or its port is still taken.
        """
        # Not to the whole group: a scheduler that ends first counts as a crash, with a pause of 5 s for diagnosis.
        self.terminate()
        self._wait_gone(grace)
        self.kill()

    def kill(self, *, timeout: float = 10) -> None:
        """End all its processes by SIGKILL, as `kill -9` would.

        Raises:
            ServerError: Something of it is still there, or its port is still taken.
        """
        self._signal(signal.SIGKILL)
        if not self._wait_gone(timeout):
            left = ", ".join(f"{p.pid} {p.name()}" for p in self.processes())
            raise ServerError(f"port {self.port}: still running after SIGKILL: {left}")
        if self._process is not None:
            self._process.wait()  # seen as a zombie, it is still to be reaped
        deadline = time.monotonic() + timeout
        while not _is_free(self.port):
            if time.monotonic() > deadline:
                raise ServerError(f"port {self.port}: still taken after its server was killed\n{self.log_tail()}")
            time.sleep(0.1)

    def terminate(self) -> None:
        """Send SIGTERM to the main process alone, which then drains; do not wait."""
        if self._process is not None:
            self._process.terminate()

    def running(self) -> bool:
        """Whether any process of it is left."""
        return bool(self.processes())

    def processes(self) -> list[psutil.Process]:
        """Its processes that live now, the main one included."""
        if self._process is None:
            return []
        self._process.poll()  # reaps the main one
        session = self._process.pid
        for pid in psutil.pids():
            # By session, not by parent: when the main process dies, the others get a new parent.
            try:
                if pid not in self._seen and os.getsid(pid) == session:
                    self._seen[pid] = psutil.Process(pid)
            except (ProcessLookupError, psutil.NoSuchProcess):
                continue
        return [process for process in self._seen.values() if _lives(process)]

    def log_tail(self, lines: int = 30) -> str:
        """The last lines of its log, under a line that names the file."""
        try:
            text = self.log_path.read_text(errors="replace")
        except FileNotFoundError:
            text = ""
        kept = [line for line in text.splitlines() if not _NOISE.match(line)]
        return "\n".join([f"--- end of {self.log_path} ---", *kept[-lines:]])

    def request(
        self,
        method: str,
        path: str,
        *,
        json: Any = None,
        data: bytes | None = None,
        headers: Mapping[str, str] | None = None,
        authorized: bool = True,
        timeout: float = 60,
    ) -> requests.Response:
        """One HTTP exchange, on a connection of its own (the server closes idle ones after 5 s)."""
        sent = {"Connection": "close", **(headers or {})}
        if authorized and self.api_key is not None:
            sent.setdefault("Authorization", f"Bearer {self.api_key}")
        with requests.Session() as session:
            session.trust_env = False  # no proxy between here and this machine
            return session.request(method, self.url + path, json=json, data=data, headers=sent, timeout=timeout)

    def get(self, path: str, **options: Any) -> requests.Response:
        """`request("GET", path, ...)`."""
        return self.request("GET", path, **options)

    def post(self, path: str, json: Any = None, **options: Any) -> requests.Response:
        """`request("POST", path, json=json, ...)`."""
        return self.request("POST", path, json=json, **options)

    @contextmanager
    def stream(self, path: str, json: Any, *, timeout: float = 60) -> Iterator[Iterator[Any]]:
        """POST with "stream": true in the body; gives the events as they come, up to [DONE].

        Leaving early drops the connection, which aborts the request on the server.
        """
        headers = {"Connection": "close"}
        if self.api_key is not None:
            headers["Authorization"] = f"Bearer {self.api_key}"
        with requests.Session() as session:
            session.trust_env = False
            with session.post(self.url + path, json=json, headers=headers, timeout=timeout, stream=True) as response:
                response.raise_for_status()
                yield _events(response)

    def __enter__(self) -> Self:
        return self.start()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()

    def _wait_ready(self, deadline: float) -> None:
        assert self._process is not None
        while True:
            status = self._process.poll()
            if status is not None:
                raise ServerError(f"SGLang ended with status {status} before it was ready\n{self.log_tail()}")
            try:
                # 200 only after a forward pass of one token; 503 during warm-up.
                if self.get("/health", timeout=25).status_code == 200:
                    return
            except requests.RequestException:
                pass
            if time.monotonic() > deadline:
                raise ServerError(f"SGLang was not ready after {self._ready_timeout:.0f} s\n{self.log_tail()}")
            time.sleep(0.3)

    def _signal(self, number: signal.Signals) -> None:
        if not self.running():
            return
        assert self._process is not None
        try:
            os.killpg(self._process.pid, number)
        except ProcessLookupError:
            pass
        for process in self.processes():
            # One that left the group: still ours.
            try:
                if os.getpgid(process.pid) != self._process.pid:
                    process.send_signal(number)
            except (ProcessLookupError, psutil.NoSuchProcess):
                continue

    def _wait_gone(self, timeout: float) -> bool:
        deadline = time.monotonic() + timeout
        while self.running():
            if time.monotonic() > deadline:
                return False
            time.sleep(0.05)
        return True


def _events(response: requests.Response) -> Iterator[Any]:
    for line in response.iter_lines():
        if not line:
            continue
        data = line.removeprefix(b"data: ")
        if data == b"[DONE]":
            return
        yield json_module.loads(data)
    raise ServerError("the stream ended without [DONE]")


def _lives(process: psutil.Process) -> bool:
    try:
        return process.is_running() and process.status() != psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return False


def _is_free(port: int) -> bool:
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)  # connections in TIME_WAIT do not count
        try:
            probe.bind((HOST, port))
        except OSError:
            return False
    return True


def _free_port() -> int:
    for port in random.sample(_PORTS, 200):
        if _is_free(port):
            return port
    raise ServerError(f"no free port among 200 tried in {_PORTS.start}..{_PORTS.stop - 1}")


def _temporary_log() -> Path:
    handle, name = tempfile.mkstemp(prefix="sglang-", suffix=".log")
    os.close(handle)
    return Path(name)
