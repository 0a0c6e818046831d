"""The extract stage of a session: its servers' rows known, its stores opened, its queues made, its stores completed."""

from __future__ import annotations

import shutil
from collections.abc import Awaitable, Callable
from contextlib import suppress
from functools import partial
from typing import Final

from contracts.clock import Clock
from contracts.fold.run import RunFold
from contracts.records import Severity
from contracts.run_config import AFTERWARDS, RunConfig
from contracts.run_dir import RunDir
from daemon.capture.dump import Dump
from daemon.capture.fault import CaptureFault
from daemon.capture.leftovers import leftovers, sweep
from daemon.condition import Condition
from daemon.events import EventLog
from daemon.extract.captures import Captures
from daemon.extract.completing import Completing, is_described
from daemon.extract.entry import ExtractEntry
from daemon.extract.fitting import Fitting, SampleLimits
from daemon.extract.orders import Orders
from daemon.extract.places import ResponsePlaces
from daemon.extract.queue import ExtractQueue
from daemon.extract.room import room_report, still_to_store, totals_of
from daemon.extract.rows_of_servers import RowsOfServers
from daemon.extract.settling import Settling
from daemon.extract.stores import Opened, open_store
from daemon.prompts.index import PromptIndex, PromptLimits
from daemon.request_ids import RequestIds, parse_rid, sample_hash
from daemon.servers.probe import Probe
from daemon.threads import in_thread
from daemon.writer import Writer

STOP_S: Final = 5.0
"""How long an end waits for samples that are just being stored."""
_FREE_IDS: Final = 1
"""Tokens that a prefill pass generates."""


class Extraction:
    """Everything that a session does for hidden states.

    Args:
        run: The run directory.
        config: Its run.toml.
        fold: Its fold, kept up to date by others.
        rids: Names the requests.
        writer: Takes the records.
        events: Takes what a person should read.
        clock: Gives the times.
        condition: Told when a store cannot be written.
        recheck: Called with the URL of a server to be probed again.
        until_written: Returns when all records that were handed over are in their files.
    """

    def __init__(
        self,
        run: RunDir,
        config: RunConfig,
        fold: RunFold,
        rids: RequestIds,
        writer: Writer,
        events: EventLog,
        clock: Clock,
        condition: Condition,
        recheck: Callable[[str], None],
        until_written: Callable[[], Awaitable[None]],
    ) -> None:
        self._run = run
        self._config = config
        self._fold = fold
        self._rids = rids
        self._writer = writer
        self._events = events
        self._clock = clock
        stored = (dataset.hidden.form for dataset in fold.datasets.values())
        self._servers = RowsOfServers(config, next((form for form in stored if form is not None), None))
        self.captures = Captures(config, self._servers, rids, writer, clock, events, condition)
        self._settling = Settling(writer, events, clock, recheck)
        self._opened: dict[str, Opened] = {}
        self._queues: dict[str, ExtractQueue] = {}
        self._completing = Completing(run, config, writer, events, clock, until_written)

    async def open(self) -> None:
        """Open the dump folder and the stores, before any server is asked.

        Raises:
            OSError: One of them cannot be used.
        """
        self.captures.open_folder()
        for name, dataset in self._fold.datasets.items():
            work = partial(
                open_store, self._run, dataset, self._config.extract.layout, self._clock.now(), self._writer.append
            )
            opened = self._opened[name] = await in_thread(work, "store-open")
            for said in opened.said:
                self._events.emit(Severity.WARNING, "store.repaired", f"{name}: {said}", dataset=name)

    async def objection(self, probe: Probe) -> str | None:
        """Return why rows of a server that answers as agreed cannot be used, or None."""
        return await self._servers.objection(probe)

    async def make_queues(self, indexes: dict[str, PromptIndex], limits: PromptLimits) -> dict[str, ExtractQueue]:
        """Return the queues of all data sets, after what an earlier session left in the dump folder was looked at."""
        for name, index in indexes.items():
            places = ResponsePlaces(self._fold.datasets[name].folder.responses)
            with suppress(OSError):  # the queue says so, and tries again
                await in_thread(places.read_all, "responses-read")
            self._queues[name] = self._make_queue(name, index, places, limits)
        self._adopt(list(self._queues.values()))
        return dict(self._queues)

    def _make_queue(self, name: str, index: PromptIndex, places: ResponsePlaces, limits: PromptLimits) -> ExtractQueue:
        dataset = next(dataset for dataset in self._config.datasets if dataset.name == name)
        longest = None if limits.max_input_len is None else limits.max_input_len - 1
        if limits.context_length is not None:
            room = limits.context_length - _FREE_IDS
            longest = room if longest is None else min(longest, room)
        how_long = SampleLimits(
            self._config.longest_sample(dataset), self._config.extract.over_long == "truncate", longest
        )
        return ExtractQueue(
            self._fold.datasets[name],
            index,
            places,
            self._opened[name].store,
            self.captures,
            Orders(name, index, places.path, limits.vocab_size),
            Fitting(how_long, self.captures),
            self._settling,
            self._writer,
            while_generating=self._config.captures_generating,
        )

    def _adopt(self, queues: list[ExtractQueue]) -> None:
        """Take whole dumps of samples that are still wanted; remove the others."""
        left = leftovers(self.captures.folder, self._rids.tag)
        rids = [each.rid for each in left]
        by_hash: dict[str, list[str]] = {}
        for each in left:
            if each.sample_hash is not None and each.rows_bytes:
                by_hash.setdefault(each.sample_hash, []).append(each.rid)
        adopted: set[str] = set()
        for queue in queues if by_hash else []:
            adopted |= self._adopt_into(queue, by_hash)
        removed = sweep(self.captures.folder, self._rids.tag, adopted | set(filter(self._is_of_now, rids)))
        self.captures.tidies = True
        if adopted or removed:
            self._events.emit(
                Severity.INFO,
                "dumps.adopted",
                f"{self.captures.folder}: {len(adopted)} whole dumps of an earlier session are taken, "
                f"{len(removed)} others were removed",
            )

    def _is_of_now(self, rid: str) -> bool:
        """Whether a request is one of this session: a server may be being probed."""
        parsed = parse_rid(rid)
        return parsed is not None and parsed.session == self._rids.session

    def _adopt_into(self, queue: ExtractQueue, by_hash: dict[str, list[str]]) -> set[str]:
        adopted: dict[bytes, str] = {}
        for key, entry in queue.waiting_entries().items():
            rids = by_hash.get(sample_hash(queue.name, key), [])
            rid = next((rid for rid in rids if self._adopt_sample(queue, entry, rid)), None)
            if rid is not None:
                adopted[key] = rid
        queue.remove_waiting(set(adopted))
        return set(adopted.values())

    def _adopt_sample(self, queue: ExtractQueue, entry: ExtractEntry, rid: str) -> bool:
        rows = self._rows_written(rid)
        if rows < entry.tokens:
            return False
        # A pass of its own has just the rows that are stored; before a cut there were more.
        generated = rows >= entry.whole_tokens and not entry.prompt.pretokenized
        return queue.adopt(entry, rid, generated=generated and self._config.extract.capture != AFTERWARDS)

    def _rows_written(self, rid: str) -> int:
        try:
            with Dump.open(self.captures.folder, rid) as dump:
                return dump.rows_written
        except CaptureFault:
            return 0

    def no_room(self, indexes: dict[str, PromptIndex]) -> str | None:
        """Return why the store cannot be expected to fit on its disk, or None; an assumption is no reason."""
        form = self._servers.form
        if form is None:
            return None
        totals = {name: totals_of(index) for name, index in indexes.items()}
        wanted = still_to_store(self._fold, self._config, totals)
        free = shutil.disk_usage(self._run.stores).free - int(self._config.alerts.disk_free_min_gb * 1e9)
        report = room_report(wanted, self._fold, form, free)
        severity = Severity.INFO if report.fits else Severity.WARNING
        self._events.emit(severity, "store.estimate", f"hidden states: {report.text}")
        if report.fits or wanted.assumed:
            return None
        return f"the hidden states will not fit: {report.text}. Make room, then: eagle3 resume (or: all the same)"

    def is_complete(self) -> bool:
        """Whether what belongs beside the tensors is there for all that is stored. Blocking: it reads files."""
        return all(
            is_described(opened.store.folder, self._fold.datasets[name].hidden, self._config.extract)
            for name, opened in self._opened.items()
        )

    async def complete(self) -> None:
        """Write what belongs beside the tensors of every data set."""
        stores = {name: opened.store for name, opened in self._opened.items()}
        await self._completing.complete(stores, self._servers.norm, self._servers.vocab_size)

    async def stop(self) -> None:
        """Let what is being stored finish, for a while."""
        for queue in self._queues.values():
            queue.close()
        await self.captures.stop(STOP_S)
