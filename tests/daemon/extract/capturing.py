"""Captures of a session over real dumps and a store in memory."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from contracts.clock import Clock
from contracts.records import StoredSample
from contracts.run_config import parse_run_config
from daemon.capture.budget import LengthEstimate
from daemon.capture.fault import CaptureFault
from daemon.capture.order import TakeOrder
from daemon.capture.row_numbers import RowNumbers
from daemon.condition import Condition
from daemon.extract.captures import Captures
from daemon.extract.stores import Store
from daemon.request_ids import RequestIds
from tests.daemon.capture.dumps import FORM, MODEL, MemoryLayout, make_header, make_order, write_dump
from tests.daemon.extract.support import Events, Journals
from tests.support.runs import until

PROMPT, OUTPUT = [1, 2, 3], [4, 5, 6]
ROWS = len(PROMPT) + len(OUTPUT) - 1


class Rows:
    """Stands for `RowsOfServers` that was told."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.form: Any = FORM
        self.model: str | None = MODEL


class Capturing:
    def __init__(self, path: Path, budget_gb: float = 0.01, wait_s: float = 5.0) -> None:
        config = parse_run_config(
            f'[run]\nname = "x"\nstages = ["generate", "extract"]\n[sampling]\nmax_new_tokens = 64\n'
            f'[extract]\nlayers = [1, 3, 4]\ndump_dir = "{path / "dumps"}"\ndump_budget_gb = {budget_gb}\n'
            f'dump_wait_s = {wait_s}\n[[servers]]\nurl = "http://h:1"\n[[datasets]]\nname = "B1"\n'
        )
        self.events, self.rows = Events(), Rows(path / "dumps")
        events: Any = self.events
        rows: Any = self.rows
        journals: Any = Journals()
        self.condition = Condition(events)
        self.rids = RequestIds(path, "5e55")
        self.captures = Captures(config, rows, self.rids, journals, Clock(), events, self.condition, LengthEstimate(64))
        self.captures.open_folder()
        (path / "store").mkdir()
        self.layout = MemoryLayout(path / "store")
        layout: Any = self.layout
        self.store = Store(path / "store", layout, path / "index.jsonl", RowNumbers())
        self.settled: list[StoredSample | CaptureFault] = []

    def begin(self, tokens: int = ROWS, at_least: int | None = None, key: bytes = b"a") -> str:
        rid = self.captures.begin("B1", key, tokens, at_least)
        assert rid is not None
        return rid

    def dump(self, rid: str, ids: list[int] | None = None) -> Path:
        return write_dump(self.rows.folder, rid, ids or [*PROMPT, *OUTPUT[:-1]], header=make_header(rid))

    def take(self, rid: str, **changes: Any) -> TakeOrder:
        order = make_order(rid, PROMPT, OUTPUT, **changes)
        self.captures.take(order, self.store, self.settled.append)
        return order

    async def until_settled(self, number: int = 1) -> None:
        await until(lambda: len(self.settled) >= number and not self.captures.taking)
        await self.until_tidied()

    async def until_tidied(self) -> None:
        """Until what was closed is removed."""
        await self.captures._removals.end(10.0)

    @property
    def left(self) -> list[str]:
        return sorted(path.name for path in self.rows.folder.iterdir())
