"""The extract stage of a session: its servers' rows known, its stores opened, its queues made, its stores completed."""

from __future__ import annotations

import asyncio
import shutil
from collections.abc import Awaitable, Callable
from contextlib import suppress
from functools import partial
from typing import Final

from contracts.clock import Clock
from contracts.fold.run import RunFold
from contracts.records import NextStep, Severity
from contracts.run_config import RunConfig
from contracts.run_dir import RunDir
from contracts.wording import counted
from daemon.capture.budget import LengthEstimate
from daemon.capture.leftovers import Leftover, leftovers, sweep
from daemon.condition import Condition
from daemon.events import EventLog
from daemon.extract.adopting import LeftDumps
from daemon.extract.captures import Captures
from daemon.extract.completing import Completing, is_described
from daemon.extract.fitting import Fitting, SampleLimits, may_fit_now
from daemon.extract.orders import Orders
from daemon.extract.places import ResponsePlaces
from daemon.extract.queue import ExtractQueue
from daemon.extract.room import room_report, still_to_store, totals_of
from daemon.extract.rows_of_servers import RowsOfServers
from daemon.extract.settling import Settling
from daemon.extract.stores import Opened, open_store
from daemon.prompts.index import PromptIndex, PromptLimits
from daemon.request_ids import CAPTURED, RequestIds, is_probe, parse_rid
from daemon.run_tag import kept_tag
from daemon.servers.probe import Probe
from daemon.store.norm_file import NORM_FILE, write_norm
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
        self._servers = RowsOfServers(run, config, next((form for form in stored if form is not None), None))
        seen = [dataset.responses.lengths for dataset in fold.datasets.values()]
        lengths = LengthEstimate(config.max_new_tokens, seen)
        self.captures = Captures(config, self._servers, rids, writer, clock, events, condition, lengths)
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
        self._say_former()
        for name, dataset in self._fold.datasets.items():
            work = partial(open_store, self._run, dataset, self._config.extract, self._clock.now(), self._writer.append)
            opened = self._opened[name] = await in_thread(work, "store-open")
            for said in opened.said:
                self._events.emit(Severity.WARNING, "store.repaired", f"{name}: {said}", dataset=name)

    async def objection(self, probe: Probe) -> str | None:
        """Return why rows of a server that answers as agreed cannot be used, or None."""
        found = await self._servers.objection(probe)
        if found is None:
            # Not only at the end: a daemon that starts again must know of which checkpoint the rows are.
            await in_thread(self._keep_norm, "norm-write")
        return found

    def _keep_norm(self) -> None:
        """Write the final norm into the stores that have none. Blocking."""
        norm = self._servers.norm
        for opened in self._opened.values():
            folder = opened.store.folder
            if norm is not None and not (folder / NORM_FILE).exists():
                with suppress(OSError):  # the end of the work writes it too, and says why it cannot
                    write_norm(folder, norm)

    async def make_queues(
        self, indexes: dict[str, PromptIndex], limits: PromptLimits, on_room: Callable[[], None]
    ) -> dict[str, ExtractQueue]:
        """Return the queues of all data sets; whole dumps of an earlier session are taken, the others removed.

        Args:
            indexes: Prompts, by data set.
            limits: Of the servers.
            on_room: Called when there is room again for samples that had none.
        """
        self.captures.on_room = on_room
        folder, tag = self.captures.folder, self._rids.tag
        found = await in_thread(partial(leftovers, folder, tag), "dumps-look")
        left = LeftDumps(folder, found)
        for name, index in indexes.items():
            places = ResponsePlaces(self._fold.datasets[name].folder.responses)
            with suppress(OSError):  # the queue says so, and tries again
                await in_thread(places.read_all, "responses-read")
            queue = self._queues[name] = self._make_queue(name, index, places, limits)
            while queue.fill(left):  # noqa: ASYNC110 - it is work, in slices
                await asyncio.sleep(0)  # there may be 100,000 samples
        removed = await in_thread(
            partial(sweep, folder, tag, lambda rid: rid in left.taken or self._is_of_now(rid)), "dumps-sweep"
        )
        self.captures.tidies = True
        if left.taken or removed:
            self._events.emit(
                Severity.INFO,
                "dumps.adopted",
                f"{folder}: {len(left.taken)} whole dumps of an earlier session are taken, "
                f"{len(removed)} others were removed",
            )
        return dict(self._queues)

    def _make_queue(self, name: str, index: PromptIndex, places: ResponsePlaces, limits: PromptLimits) -> ExtractQueue:
        longest = None if limits.max_input_len is None else limits.max_input_len - 1
        if limits.context_length is not None:
            room = limits.context_length - _FREE_IDS
            longest = room if longest is None else min(longest, room)
        return ExtractQueue(
            self._fold.datasets[name],
            index,
            places,
            self._opened[name].store,
            self.captures,
            Orders(name, index, places.path, limits.vocab_size),
            Fitting(self._limits(name, longest), self.captures),
            self._settling,
            self._writer,
            while_generating=self._config.captures_generating,
        )

    def _limits(self, name: str, longest_prefill: int | None) -> SampleLimits:
        dataset = next(dataset for dataset in self._config.datasets if dataset.name == name)
        return SampleLimits(
            self._config.longest_sample(dataset), self._config.extract.over_long == "truncate", longest_prefill
        )

    def may_store_more(self) -> bool:
        """Whether samples that were left out for their length may fit by now: run.toml or the folder has changed."""
        return any(
            may_fit_now(failure, self._limits(name, None), self.captures)
            for name, dataset in self._fold.datasets.items()
            for key, failure in dataset.failures.extract.items()
            if failure.next is NextStep.REFUSED and key not in dataset.hidden.stored
        )

    def _is_of_now(self, rid: str) -> bool:
        """Whether a request is one of this session: a server may be being probed."""
        parsed = parse_rid(rid)
        return parsed is not None and parsed.session == self._rids.session

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
        resume = f"eagle3 resume {self._run.quoted}"
        return f"the hidden states will not fit: {report.text}. Make room, then: {resume} (or: all the same)"

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

    def _say_former(self) -> None:
        """Say what lies in the dump folder of a directory that this one was copied from: nobody else might."""
        kept = kept_tag(self._run.path)
        if kept is None or kept.former_tag is None:
            return
        folder, left = self.captures.folder, leftovers(self.captures.folder, kept.former_tag)
        if left:
            self._events.emit(
                Severity.WARNING,
                "dumps.foreign",
                f"{_sizes(left)} lie in {folder} that are of the run in {kept.former_path}, of which this one is a "
                f"copy. They are left alone; should that run be no more: rm {folder}/{CAPTURED}{kept.former_tag}.*",
            )

    async def stop(self, *, finished: bool) -> None:
        """Let what is being stored finish, for a while, and say what is left in the dump folder.

        Args:
            finished: Nothing is left to be stored: no dump is wanted any more, whatever it is of.
        """
        for queue in self._queues.values():
            queue.close()
        await self.captures.stop(STOP_S)
        folder, tag = self.captures.folder, self._rids.tag
        try:
            if finished:
                await in_thread(partial(sweep, folder, tag), "dumps-sweep")
            found = await in_thread(partial(leftovers, folder, tag), "dumps-look")
        except OSError as error:
            where = error.filename or folder
            self._events.emit(Severity.WARNING, "dumps.left", f"{where}: cannot be tidied: {error.strerror or error}")
            return
        left = [each for each in found if not is_probe(each.rid)]
        if left:
            self._events.emit(
                Severity.INFO,
                "dumps.left",
                f"{_sizes(left)} of samples that are not stored yet lie in {folder}. The next start takes those that "
                f"are whole, and removes the others; without one: rm {folder}/{CAPTURED}{tag}.*",
            )


def _sizes(left: list[Leftover]) -> str:
    return f"{counted(len(left), 'dump')} ({sum(each.rows_bytes for each in left) / 1e9:,.3f} GB)"
