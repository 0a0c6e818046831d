"""The extract stage of one data set without a daemon: files, a queue over them, and captures that are only noted."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import msgspec

from contracts.clock import Clock
from contracts.fold.dataset import DatasetFold
from contracts.records import CaptureCheck, Response, Severity, StoredSample, encode_line
from contracts.run_dir import RunDir
from contracts.sample_id import sample_key
from daemon.capture.fault import CaptureFault
from daemon.capture.order import TakeOrder
from daemon.extract.adopting import LeftDumps
from daemon.extract.entry import ExtractEntry
from daemon.extract.fitting import Fitting, SampleLimits
from daemon.extract.orders import Orders
from daemon.extract.places import ResponsePlaces
from daemon.extract.queue import ExtractQueue
from daemon.extract.settling import Settling
from daemon.prompts.index import PromptIndex, PromptLimits
from tests.support.stored import stored

LIMITS = PromptLimits(None, None, None, 64)
URL = "http://127.0.0.1:1"
Settle = Callable[[StoredSample | CaptureFault], None]


def response(sample_id: str | int, ids: list[int], rid: str = "e3g.x", **over: Any) -> Response:
    values: dict[str, Any] = {
        "sample_id": sample_id,
        "prompt_tokens": 3,
        "completion_tokens": len(ids),
        "finish_reason": "stop",
        "output_ids": msgspec.Raw(msgspec.json.encode(ids)),
        "finished_at": 2.0,
        "started_at": 1.0,
        "rid": rid,
        "server": URL,
        "attempt": 1,
    }
    return Response(**(values | over))


def prompt(sample_id: str | int, ids: list[int] | None = None, **more: Any) -> dict[str, Any]:
    return {"sample_id": sample_id, "input_ids": [1, 2, 3] if ids is None else ids, **more}


class Journals:
    """A writer whose lines are in their files at once."""

    unwritten = 0

    def append(self, path: Path, line: bytes) -> None:
        with path.open("ab") as file:
            file.write(line)


class Events:
    def __init__(self) -> None:
        self.said: list[tuple[Severity, str, str]] = []

    def emit(self, severity: Severity, kind: str, message: str, dataset: str | None = None, data: Any = None) -> None:
        self.said.append((severity, kind, message))

    @property
    def kinds(self) -> list[str]:
        return [kind for _, kind, _ in self.said]


class NotedCaptures:
    """Stands in for `Captures`: room as the test says, and takes that the test settles."""

    def __init__(self) -> None:
        self.room = 10_000
        """Rows."""
        self.open: dict[str, int] = {}
        self.takes: list[tuple[TakeOrder, Settle]] = []
        self.lengths = SimpleNamespace(tokens=8, add=lambda tokens: None)
        self.folder = Path("dumps")
        self._number = 0

    def too_large(self, tokens: int) -> CaptureFault | None:
        return CaptureFault(CaptureCheck.TOO_LARGE, f"{tokens} rows") if tokens > self.room else None

    def has_room(self, tokens: int) -> bool:
        return sum(self.open.values()) + tokens <= self.room

    def is_crowded_out(self, tokens: int) -> bool:
        return tokens > self.room

    def begin(self, dataset: str, key: bytes, tokens: int, at_least: int | None = None) -> str | None:
        if not self.has_room(tokens):
            return None
        self._number += 1
        rid = f"e3.tag.{key.decode()}.s.{self._number}"
        self.open[rid] = tokens
        return rid

    def adopt(self, rid: str) -> None:
        self.open[rid] = 0

    def is_open(self, rid: str) -> bool:
        return rid in self.open

    def close(self, rid: str) -> None:
        self.open.pop(rid, None)

    def take(self, order: TakeOrder, store: Any, settle: Settle) -> None:
        self.takes.append((order, settle))

    def fail(self, check: CaptureCheck = CaptureCheck.IDS, message: str = "wrong") -> TakeOrder:
        """Settle the oldest take with a fault, as `Captures` does."""
        order, settle = self.takes.pop(0)
        self.close(order.rid)
        settle(CaptureFault(check, message))
        return order


class Extracting:
    """One data set, its queue, and what happens to it."""

    def __init__(
        self,
        path: Path,
        prompts: list[dict[str, Any]],
        limits: SampleLimits | None = None,
        vocab_size: int | None = None,
    ) -> None:
        self.folder = RunDir(path).dataset("B1")
        self.folder.path.mkdir(parents=True)
        self.folder.prompts.write_text("".join(json.dumps(each) + "\n" for each in prompts))
        self.folder.responses.touch()
        self.fold = DatasetFold(self.folder)
        self.captures, self.events, self.journals = NotedCaptures(), Events(), Journals()
        self.rechecked: list[str] = []
        self.limits = limits or SampleLimits(None, False, None)
        self.vocab_size = vocab_size
        self._rows = 0

    def make(self, *, while_generating: bool = True, left: LeftDumps | None = None) -> ExtractQueue:
        """Return a queue as a session's start makes it."""
        self.fold.poll()
        index = PromptIndex.build(self.folder.prompts, LIMITS)
        places = ResponsePlaces(self.folder.responses)
        places.read_all()
        captures: Any = self.captures
        journals: Any = self.journals
        events: Any = self.events
        settling = Settling(journals, events, Clock(), self.rechecked.append)
        queue = ExtractQueue(
            self.fold,
            index,
            places,
            None,  # type: ignore[arg-type] - only handed on
            captures,
            Orders("B1", index, self.folder.responses, self.vocab_size),
            Fitting(self.limits, captures),
            settling,
            journals,
            while_generating=while_generating,
        )
        while queue.fill(left):
            pass
        return queue

    def answer(self, *responses: Response | dict[str, Any] | bytes) -> None:
        """Append to the response file."""
        for each in responses:
            line = each if isinstance(each, bytes) else encode_line(each) if isinstance(each, Response) else None
            self.journals.append(self.folder.responses, line or json.dumps(each).encode() + b"\n")
        self.fold.poll()

    def replace_responses(self, *responses: Response) -> None:
        """Put another file in the place of the response file."""
        beside = self.folder.path / "other"
        beside.write_bytes(b"".join(map(encode_line, responses)))
        beside.rename(self.folder.responses)
        self.fold.poll()

    def store(self, order: TakeOrder, settle: Settle) -> None:
        """Settle a take with success; its record is in the index and read."""
        record = stored(order.sample_id, self._rows, tokens=int(order.ids.size))
        self._rows += 1
        self.journals.append(self.folder.hidden_states, encode_line(record))
        settle(record)
        self.fold.poll()

    def failures(self) -> list[dict[str, Any]]:
        return [json.loads(line) for line in self.folder.failures.read_bytes().splitlines()]


def send(queue: ExtractQueue, now: float = 1e12) -> SimpleNamespace | None:
    """Open a prefill pass as the scheduler does; None when nothing is ready."""
    if not queue.has_ready(now, True):
        return None
    entry = queue.take(True)
    assert entry is not None
    return SimpleNamespace(entry=entry, rid=queue.rid(entry), queue=queue)


def land(queue: ExtractQueue, attempt: Any, *, cached: int = 0) -> None:
    """End a pass with a good answer."""
    job = queue.job(attempt)
    assert job is not None
    entry: ExtractEntry = attempt.entry
    queue.accept(attempt, response(entry.sample_id, [9], attempt.rid, cached_tokens=cached))
    queue.landed()


def drop(queue: ExtractQueue, attempt: Any) -> None:
    """End a pass without one."""
    queue.landed()
    queue.fruitless(attempt)


def entries(queue: ExtractQueue) -> dict[bytes, ExtractEntry]:
    """What waits and was never tried in this session."""
    return {entry.key: entry for entry in (*queue._fresh, *queue._suspects)}


def waiting(queue: ExtractQueue) -> list[Any]:
    return [entry.sample_id for entry in entries(queue).values()]


def key(sample_id: str | int) -> bytes:
    return sample_key(sample_id)
