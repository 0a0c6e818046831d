"""Tokens a second of the real SGLang on the CPU while the plugin dumps, against the same server without it."""

from __future__ import annotations

import random
import statistics
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from pathlib import Path
from typing import NamedTuple

from contracts.run_config import parse_run_config
from daemon.server_args import server_args
from tests.sglang import environment
from tests.sglang.server import SglangServer

AT_ONCE = 16
REQUESTS = 32
NEW_TOKENS = 64
ROUNDS = 5


class Measured(NamedTuple):
    """One round."""

    tokens_per_s: float
    cpu_ms: float
    """Of all the server's processes, for one token: what else the machine does touches it little."""


def cpu_s(server: SglangServer) -> float:
    return sum(sum(process.cpu_times()[:2]) for process in server.processes())


def configured(model: Path, folder: Path) -> tuple[list[str], Path, dict[str, str]]:
    """Flags, folder for PYTHONPATH and environment of a server that dumps."""
    config = parse_run_config(
        '[run]\nname = "bench"\nstages = ["generate", "extract"]\n[extract]\nlayers = [1, 3, 5]\n'
        f'dump_dir = "{folder}"\n[[servers]]\nurl = "http://127.0.0.1:1"\n[[datasets]]\nname = "d"\n'
    )
    made = server_args(config, str(model))
    env = {name: value for name, value in made.env.items() if name != "PYTHONPATH"}
    return made.flags, Path(made.env["PYTHONPATH"]), env


def measure(server: SglangServer, prompts: list[list[int]], mark: str) -> Measured:
    """Answer all prompts, some at once."""

    def ask(number: int) -> int:
        body = {
            "rid": f"e3.bench.{mark}.1.{number}",
            "input_ids": prompts[number],
            "sampling_params": {"temperature": 0, "max_new_tokens": NEW_TOKENS, "ignore_eos": True},
        }
        response = server.post("/generate", body)
        response.raise_for_status()
        return len(response.json()["output_ids"])

    began, cpu_began = time.perf_counter(), cpu_s(server)
    with ThreadPoolExecutor(AT_ONCE) as pool:
        tokens = sum(pool.map(ask, range(len(prompts))))
    return Measured(tokens / (time.perf_counter() - began), 1000 * (cpu_s(server) - cpu_began) / tokens)


def report() -> str:
    reason = environment.missing()
    if reason is not None:
        return f"Not measured: {reason}; `make test-sglang` builds the environment."
    model, chance = environment.model_path(), random.Random(4)
    prompts = [[chance.randrange(1000) for _ in range(chance.randint(16, 200))] for _ in range(REQUESTS)]
    with tempfile.TemporaryDirectory(dir="/dev/shm") as name, ExitStack() as stack:
        folder = Path(name) / "dumps"
        flags, path, env = configured(model, folder)
        servers = {
            "without hidden states": SglangServer(model, extra_args=["--disable-radix-cache"]),
            "SGLang captures, no plugin": SglangServer(model, extra_args=flags),
            "the plugin dumps": SglangServer(model, extra_args=flags, extra_path=[path], env=env),
        }
        for server in servers.values():
            stack.enter_context(server)
        rounds: dict[str, list[Measured]] = {kind: [] for kind in servers}
        for turn in range(-1, ROUNDS):
            for kind, server in servers.items():  # in turn: what else the machine does befalls all alike
                measured = measure(server, prompts, f"r{turn + 1}")
                if turn >= 0:
                    rounds[kind].append(measured)
        written = sum(1 for _ in folder.glob("*.dump"))
    base = rounds["SGLang captures, no plugin"]
    lines = ["| server | tok/s | of the second | CPU ms for a token | of the second |", "|---|---|---|---|---|"]
    for kind, found in rounds.items():
        speed = statistics.median(
            mine.tokens_per_s / other.tokens_per_s for mine, other in zip(found, base, strict=True)
        )
        cpu = statistics.median(mine.cpu_ms / other.cpu_ms for mine, other in zip(found, base, strict=True))
        lines.append(
            f"| {kind} | {statistics.median(each.tokens_per_s for each in found):.0f} | {speed:.3f} | "
            f"{statistics.median(each.cpu_ms for each in found):.3f} | {cpu:.3f} |"
        )
    return "\n".join([*lines, "", f"{written} dumps of {REQUESTS * (ROUNDS + 1)} written."])


if __name__ == "__main__":
    print(report())
