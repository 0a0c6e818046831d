"""Servers that dump, requests to them, and transformers' hidden states to compare with."""

from __future__ import annotations

import concurrent.futures
import json
import random
import subprocess
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from contracts.run_config import parse_run_config
from daemon.capture.final_norm import LastRows, norm_fault
from daemon.server_args import server_args
from daemon.store.norms import NormWeight
from tests.daemon.sglang_plugin.dumps import Dump
from tests.sglang import environment
from tests.sglang.conftest import StartSglang
from tests.sglang.server import SglangServer

LAYERS = [1, 3, 5]
CHUNK = 64


@dataclass(frozen=True)
class Asked:
    """A request that was answered."""

    rid: str
    prompt: list[int]
    output: list[int]

    @property
    def fed(self) -> list[int]:
        """The tokens of which there are rows: all but the last, which nothing was predicted from."""
        return [*self.prompt, *self.output[:-1]]


def start_dumping(
    start: StartSglang, model: Path, folder: Path, *more: str, layout: str = "safetensors", **options: Any
) -> SglangServer:
    """Start a server as `eagle3 server-args` says, with 64-token chunks."""
    config = parse_run_config(
        f'[run]\nname = "r"\nstages = ["generate", "extract"]\n[extract]\nlayers = {LAYERS}\nlayout = "{layout}"\n'
        f'dump_dir = "{folder}"\n[[servers]]\nurl = "http://127.0.0.1:1"\n[[datasets]]\nname = "d"\n'
    )
    made = server_args(config, str(model))
    env = {name: value for name, value in made.env.items() if name != "PYTHONPATH"}
    return start(
        model=model,
        extra_args=[*made.flags, "--chunked-prefill-size", str(CHUNK), *more],
        extra_path=[Path(made.env["PYTHONPATH"])],
        env={**env, **options.pop("env", {})},
        **options,
    )


def prompts(count: int, seed: int) -> list[list[int]]:
    """Prompts of 2 to 301 tokens, the shortest and the longest among them."""
    chance = random.Random(seed)
    lengths = [2, 301, 64, 65, *(chance.randint(2, 301) for _ in range(count - 4))]
    return [[chance.randrange(1000) for _ in range(length)] for length in lengths]


def ask_all(
    server: SglangServer, todo: Sequence[tuple[str, list[int], int]], *, at_once: int = 24, temperature: float = 0.8
) -> list[Asked]:
    """Send (rid, prompt, new tokens), many at once."""

    def ask(one: tuple[str, list[int], int]) -> Asked:
        rid, prompt, tokens = one
        sampling = {"temperature": temperature, "max_new_tokens": tokens, "ignore_eos": True}
        response = server.post("/generate", {"rid": rid, "input_ids": prompt, "sampling_params": sampling})
        assert response.status_code == 200, response.text
        answer = response.json()
        assert answer["meta_info"]["cached_tokens"] == 0
        assert len(answer["output_ids"]) == tokens
        return Asked(rid, prompt, answer["output_ids"])

    with concurrent.futures.ThreadPoolExecutor(at_once) as pool:
        return list(pool.map(ask, todo))


def reference(model: Path, sequences: Sequence[list[int]], folder: Path, dtype: str = "float32") -> list[Tensor]:
    """Return transformers' states of each sequence, [layers, tokens, hidden]; the last is after the final norm."""
    given, made = folder / "sequences.json", folder / "states.npy"
    given.write_text(json.dumps(list(sequences)))
    script = Path(__file__).with_name("reference_states.py")
    command = [str(environment.PYTHON), str(script), str(model), dtype, str(given), str(made)]
    subprocess.run(command, env=environment.process_env(), check=True, capture_output=True, timeout=200)
    states = torch.from_numpy(np.load(made))
    return list(torch.split(states, [len(sequence) for sequence in sequences], 1))


def wait_dump(server: SglangServer, folder: Path, rid: str, count: int) -> Dump:
    """Return the dump once the writer's thread has put `count` rows into it.

    The answer may come before the last row: each pass over HTTP gives the thread time enough.
    """
    for _ in range(100):
        dump = Dump(folder, rid)
        if len(dump.rows) >= count:
            return dump
        server.get("/model_info")
    raise AssertionError(f"{rid}: {len(dump.rows)} rows of {count}")


def about(folder: Path) -> dict[str, Any]:
    """The one self-description there."""
    (path,) = folder.glob("about.*.json")
    found: dict[str, Any] = json.loads(path.read_text())
    return found


def norm_weight(folder: Path) -> Tensor:
    (path,) = folder.glob("norm.*.f32")
    return torch.frombuffer(bytearray(path.read_bytes()), dtype=torch.float32)


def norm_objection(dump: Dump, folder: Path, last: Tensor | None = None, norm: str | None = None) -> str | None:
    """Return what the daemon has against the final norm of a dump.

    Args:
        dump: Of a request.
        folder: The dump folder.
        last: Instead of its last slot, [tokens, hidden].
        norm: Instead of what the server says.
    """
    said = about(folder)
    rows = slots(dump).transpose(0, 1).contiguous().numpy().copy()
    if last is not None:
        rows[:, -1] = last.numpy()
    weight = NormWeight(norm_weight(folder).numpy(), said["norm_eps"])
    return norm_fault(LastRows.of(rows, said["dtype"], norm or said["norm"]), weight)


def slots(dump: Dump) -> Tensor:
    """[slots, tokens, hidden], float32."""
    return dump.rows.float().reshape(len(dump.rows), len(LAYERS) + 1, -1).transpose(0, 1)


def distances(slot: Tensor, states: Tensor) -> Tensor:
    """Largest absolute difference of one slot to each layer, [layers]."""
    return (states - slot).abs().amax((1, 2))
