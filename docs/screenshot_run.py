"""The run that the screenshots show: a folder with journals, and a status of a run on eight GPUs that fits them.

Nothing of it was measured. What the screens of one data set (`NAME`) show comes from the journals, the rest is made.
"""

from __future__ import annotations

import json
import random
from collections.abc import Callable, Iterator
from itertools import accumulate
from pathlib import Path
from typing import Any, Final, TypeVar

import msgspec

from contracts.fold.run import RunFold
from contracts.records import (
    CaptureCheck,
    Event,
    FailureClass,
    NextStep,
    Response,
    ServerSample,
    Severity,
    Stage,
    StoredSample,
)
from contracts.run_dir import RunDir
from contracts.status import RunStatus
from tests.eagle3_tui.samples import NOW, server, storing, ten_datasets
from tests.support.records import event, failure, heartbeat, make_run, response, write

Answer = TypeVar("Answer")

NAME: Final = "B2_magicoder"
BESIDE: Final = "B1_opencodeinstruct"
URL: Final = "http://127.0.0.1:30000"
MODEL: Final = "GLM-4.6"
RUN: Final = "synth_100k"
_PAUSED: Final = (NOW - 560, NOW - 505)
_PROMPT: Final = "<|user|>\nWrite a function that tells whether a word reads the same from both ends.\n<|assistant|>\n"
_ANSWER: Final = """<think>
Both ends: compare with the reversed word. Upper and lower case should not matter; say so.
</think>
def is_palindrome(word: str) -> bool:
    \"\"\"Tell whether a word reads the same from both ends, whatever its case.\"\"\"
    folded = word.casefold()
    return folded == folded[::-1]
"""
_END: Final = 151_336
_EXTRA: Final = """stages = ["generate", "extract"]
[sampling]
temperature = 0.6
max_new_tokens = 8192
[extract]
layers = [2, 45, 89]
dump_dir = "dumps"
[tokenizer]
path = "bytes"
"""


def write_run(folder: Path) -> RunDir:
    """Write the folder as it would be at `NOW`, and beside it the one of the dumps."""
    run = make_run(folder, datasets=[data.name for data in ten_datasets()], extra=_EXTRA, prompts=0)
    chance = random.Random(11)
    own, beside = run.dataset(NAME), run.dataset(BESIDE)
    ids = json.dumps(list(_PROMPT.encode()), separators=(",", ":")).encode()
    write(own.prompts, (b'{"sample_id":"mc-%05d","input_ids":%s}\n' % (number, ids) for number in range(9_000)))
    answers = [*_answers("mc", 3_119, 1_089, 1_439, chance), _last("mc-03119")]
    write(own.responses, answers)
    write(beside.responses, _answers("oc", 760, 1_106, 1_402, chance))
    write(own.hidden_states, _stored([*answers[:-13], answers[-1]]))
    write(own.failures, _failures())
    write(run.events, events())
    write(run.telemetry_file("daemon"), _heartbeats())
    write(run.telemetry_file("server"), _servers())
    _write_about(folder.parent / "dumps")
    return run


def status() -> RunStatus:
    """Return the status of that run."""
    made = storing(servers=[server(model=MODEL, cache_hit_pct=0.0)])
    made.totals.eta_low_s, made.totals.eta_high_s = 43_800.0, 51_600.0
    own = next(data for data in made.datasets if data.name == NAME)
    own.finish_reasons = {"stop": 3_092, "length": 28}
    return made


def events() -> list[Event]:
    """Return what happened."""
    warning, critical = Severity.WARNING, Severity.CRITICAL
    about, arguments = {"server": URL}, {"tp_size": 8, "disable_radix_cache": True, "context_length": 131_072}
    return [
        event("daemon.started", NOW - 15_120, message="daemon 0.1.0 started, pid 4242", data={"pid": 4242}),
        event(
            "server.up", NOW - 15_118, message=f"{URL} is ready: SGLang 0.5.23, {MODEL}",
            data=about | {"version": "0.5.23", "arguments": arguments},
        ),
        event("control.set", NOW - 9_000, message="concurrency: 256"),
        event("dataset.finished", NOW - 7_320, message="target reached: 10,004,120 tokens", dataset="B3_metamath"),
        event("server.down", NOW - 4_000, message=f"{URL} is down: Connection refused", severity=critical, data=about),
        event("server.up", NOW - 3_650, message=f"{URL} is back: SGLang 0.5.23, {MODEL}; 251 samples are sent again",
              data=about | {"version": "0.5.23", "arguments": arguments}),
        event("run.paused", _PAUSED[0], message="paused: driver update"),
        event("run.resumed", _PAUSED[1], message="running again"),
        event(
            "alert.raised", NOW - 240, severity=warning, dataset=NAME, data={"code": "length_share"},
            message="64 of 500 recent outcomes (12.8 %) end by length, limit 10 %",
        ),
    ]  # fmt: skip


def _answers(prefix: str, count: int, mean: int, rate: float, chance: random.Random) -> Iterator[Response]:
    """Answers with spread lengths, the last one just now, at a rate of tokens a second; none while it was paused."""
    ids = [str(chance.randrange(1_000, 60_000)) for _ in range(8_192)]
    text, ends = ",".join(ids), list(accumulate(len(one) + 1 for one in ids))
    at = NOW - count * mean / rate - (_PAUSED[1] - _PAUSED[0])
    for number in range(count):
        tokens = min(max(int(chance.lognormvariate(6.75, 0.7)), 4), 8_192)
        at += mean / rate * (1 + 0.3 * (chance.random() - 0.5))
        if _PAUSED[0] < at < _PAUSED[1]:
            at = _PAUSED[1] + 1
        took = tokens / 11.6
        yield response(
            f"{prefix}-{number:05}", tokens, output_ids=msgspec.Raw(f"[{text[: ends[tokens - 1] - 1]}]".encode()),
            prompt_tokens=len(_PROMPT), finished_at=min(at, NOW - 1), started_at=min(at, NOW - 1) - took, server=URL,
            finish_reason="length" if number % 111 == 7 else "stop", rid=f"e3.9f.{number:08x}.1.{number}",
        )  # fmt: skip


def _last(name: str) -> Response:
    """The newest answer, which is text."""
    ids = [*_ANSWER.encode(), _END]
    return response(
        name, len(ids), output_ids=msgspec.Raw(json.dumps(ids).encode()), prompt_tokens=len(_PROMPT), matched=_END,
        finished_at=NOW - 0.4, started_at=NOW - 31.2, server=URL, rid="e3.9f.00000c2f.1.3119", think_end=True,
        e2e_latency_s=30.7,
    )  # fmt: skip


def _stored(answers: list[Response]) -> Iterator[StoredSample]:
    for number, answer in enumerate(answers):
        rows = len(_PROMPT) + (answer.completion_tokens or 1) - 1
        yield StoredSample(
            sample_id=answer.sample_id, file=f"shard-{number // 400:05}.safetensors", row=number, offset=0,
            bytes=rows * 40_960, checksum="xxh3_128:6e0f", tokens=rows, loss_tokens=rows - len(_PROMPT),
            layers=[2, 45, 89], hidden_size=5_120, dtype="bfloat16", norm="post", layout="safetensors", model=MODEL,
            capture="generating", server=URL, at=(answer.finished_at or NOW) + 0.3,
        )  # fmt: skip


def _failures() -> Iterator[Any]:
    for number in range(251):
        yield failure(
            f"mc-{number + 600:05}", error=FailureClass.SERVER_DOWN, message=f"{URL}: Connection refused",
            at=NOW - 4_000, server=URL,
        )  # fmt: skip
    for number in range(3):
        yield failure(
            f"mc-{number + 900:05}", stage=Stage.EXTRACT, error=FailureClass.CAPTURE, server=URL,
            check=CaptureCheck.IDS if number < 2 else CaptureCheck.ZERO_ROW, at=NOW - 1_300 + number,
            message="position 212 was computed from id 311, not 2044" if number < 2 else "row 96 is all zeros",
        )  # fmt: skip
    for number in range(7):
        yield failure(
            f"mc-{number + 4_000:05}", message="HTTP 503: the queue is full, 512 requests wait",
            at=NOW - 9 * number - 5, server=URL, http_status=503, retry_in_s=4.0, attempt=1 + number % 2,
        )  # fmt: skip
    yield failure(
        "mc-04242", error=FailureClass.REJECTED, next=NextStep.QUARANTINED, at=NOW - 811, http_status=400, server=URL,
        message="HTTP 400: Input length (131,090 tokens) exceeds the maximum allowed length (131,066 tokens)",
    )  # fmt: skip


def _heartbeats() -> Iterator[Any]:
    for second in range(1_200):
        at = NOW - 1_200 + second
        held = _PAUSED[0] < at < _PAUSED[1]
        yield heartbeat(at, state="paused" if held else "running", concurrency=256, in_flight={NAME: 186, BESIDE: 62})


def _servers() -> Iterator[ServerSample]:
    chance = random.Random(3)
    for second in range(600):
        at = NOW - 600 + second
        held = _PAUSED[0] < at < _PAUSED[1]
        speed = 0.0 if held else chance.gauss(2_840.0, 260.0)
        yield ServerSample(at=at, servers=[server(model=MODEL, tokens_per_s=speed, cache_hit_pct=0.0)])


def _write_about(folder: Path) -> None:
    """What the plugin says of the server."""
    folder.mkdir()
    about = {
        "instance": "1", "port": 30000, "dp_rank": 0, "sglang": "0.5.23", "model": MODEL, "layers": [2, 45, 89],
        "server_layers": [3, 46, 90], "hidden_size": 5_120, "dtype": "bfloat16", "norm": "post",
        "started_at": NOW - 3_700, "architecture": "Glm4MoeForCausalLM", "context_length": 131_072,
    }  # fmt: skip
    (folder / "about.1.json").write_text(json.dumps(about), encoding="utf-8")


class MadeRun:
    """A source over the folder, at a moment that stands still, with a made status."""

    def __init__(self, folder: Path, shown: RunStatus) -> None:
        self._fold, self._status = RunFold(folder), shown

    def refresh(self) -> RunStatus:
        """Read the journals; return the made status."""
        self._fold.poll()
        return self._status

    def ask(self, question: Callable[[RunFold, float], Answer], /) -> Answer:
        """Ask the fold."""
        return question(self._fold, NOW)

    def last_events(self, count: int, /) -> list[Event]:
        """Return the last events."""
        return list(self._fold.events.last)[-count:]

    def watch_paths(self) -> list[Path]:
        """Nothing changes."""
        return []
