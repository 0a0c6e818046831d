"""The servers of a run: which one is used next, which ones cannot be used, when they are back."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Awaitable, Callable
from typing import Any, Final

from contracts.run_config import RunConfig
from daemon.servers.client import ConnectionLostError
from daemon.servers.differing import differences
from daemon.servers.info import ServerUnreachable
from daemon.servers.probe import DOWN, OK, REFUSED, STARTING, UNREADY, Probe, probe_server
from daemon.servers.slot import UNTRIED, ServerSlot, slot_of
from daemon.servers.standing import Standing
from daemon.threads import in_thread

PROBE_EVERY_S: Final = 2.0
PROBE_EVERY_MOST_S: Final = 15.0
CHECK_EVERY_S: Final = 0.5
DEATH_VERDICT_S: Final = 6.0
"""How long after a lost connection a dying server may still seem alive: SGLang's processes take five seconds to go."""
REFUSED_VERDICT_S: Final = 1.0
"""The same after a connection that was not even taken."""
SICK_AFTER: Final = 8
"""Failed requests to one server with no answer in between, before it is asked whether anything works there."""
IDLE_S: Final = 5.0
"""A server that had nothing of ours to do for so long is probed again before it gets anything: behind a proxy another
one may have taken its place, and no connection tells."""
DOUBT_WAIT_S: Final = 1.0
"""How long the others wait for the least busy server's probe: else the one that is probed first would get all."""
SHORT_LINE_S: Final = 2.0
SHORT_LINES: Final = 3
"""Lines in a row that lasted no longer than that, though the server was well: then it is left without one."""
_LOG: Final = logging.getLogger(__name__)


class ServerPool:
    """All servers. Work goes to the least busy one that is ``ok``, and only to a process that was probed.

    The line to a server is made before its probe, and tells of the death of the process that answers; who has been idle
    is probed again all the same. Until then a server keeps its state, and gets nothing.

    Args:
        config: The run's configuration.
        on_change: Called with a slot whose state changed, and with the state it had.
        new_rid: Gives the request id of each probe.
        objection: Asked about every server that speaks as agreed: why it is not to be used all the same, or None.
        on_probed: Called after each probe, whatever came of it, with its request id.
        on_sure: Called when a server that was doubted can be sent to again.
    """

    def __init__(
        self,
        config: RunConfig,
        on_change: Callable[[ServerSlot, str], None],
        new_rid: Callable[[], str],
        objection: Callable[[Probe], Awaitable[str | None]],
        on_probed: Callable[[str], None] = lambda rid: None,
        on_sure: Callable[[], None] = lambda: None,
    ) -> None:
        self._sampling: dict[str, Any] = config.sampling
        self._on_change = on_change
        self._new_rid = new_rid
        self._objection = objection
        self._on_probed = on_probed
        self._on_sure = on_sure
        self._closed = False
        self.slots = [slot_of(server, config.generate.connect_timeout_s, self._line_lost) for server in config.servers]

    async def open(self) -> None:
        """Open the clients and begin to probe; returns at once."""
        for slot in self.slots:
            await slot.client.open()
            self._watch(slot)

    async def close(self) -> None:
        """Stop probing and close all connections."""
        self._closed = True
        tasks = [
            task for slot in self.slots for task in (slot.watcher, slot.lost_check, slot.sick_check) if task is not None
        ]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        for slot in self.slots:
            slot.line.close()
            await slot.client.close()

    def pick(self) -> ServerSlot | None:
        """Return the usable server with the fewest open requests, or None; one that was idle is probed first."""
        now = time.monotonic()
        usable = [slot for slot in self.slots if slot.state == OK]
        for slot in usable:
            if slot.sure and slot.idle_s(now) > IDLE_S:
                self._doubt(slot)
        least = min(usable, key=_load, default=None)
        if least is None or least.sure or now - least.doubted_at < DOUBT_WAIT_S:
            return least if least is not None and least.sure else None
        return min((slot for slot in usable if slot.sure), key=_load, default=None)

    @property
    def probes(self) -> list[Probe]:
        """What the usable servers say of themselves."""
        return [slot.probe for slot in self.slots if slot.probe is not None and slot.state == OK]

    @property
    def all_tried(self) -> bool:
        """Whether every server has been probed at least once."""
        return all(slot.state != UNTRIED for slot in self.slots)

    def standing(self, url: str) -> Standing:
        """Return what the daemon itself knows of a server; from any thread."""
        slot = next(slot for slot in self.slots if slot.url == url)
        now, outstanding, answered_at = time.monotonic(), slot.outstanding, slot.answered_at
        return Standing(
            outstanding,
            last_answer_s=None if answered_at is None else now - answered_at,
            silent_s=now - max(slot.busy_since, answered_at or 0.0) if outstanding else None,
            held=(slot.state, slot.reason) if slot.state in (REFUSED, STARTING, UNREADY) else None,
        )

    async def died(self, slot: ServerSlot, life: int, *, refused: bool) -> bool:
        """Return whether a lost connection meant the death of the server; marks it as down if so.

        Args:
            slot: The server.
            life: Its ``life`` when the request was sent.
            refused: The connection was not even taken.
        """
        loop, lost_at = asyncio.get_running_loop(), time.monotonic()
        deadline = loop.time() + (REFUSED_VERDICT_S if refused else DEATH_VERDICT_S)
        while True:
            if slot.life != life or await self._is_gone(slot):
                return True
            if loop.time() >= deadline:
                if slot.asked_at < lost_at:
                    self._doubt(slot)  # behind a proxy another one may be there by now
                return False
            await asyncio.sleep(CHECK_EVERY_S)

    async def is_sick(self, slot: ServerSlot) -> bool:
        """Return whether a server that failed request after request fails a tiny one too; takes it out of use if so.

        One check serves all that ask meanwhile.
        """
        if slot.state != OK:
            return True
        if slot.sick_check is None or slot.sick_check.done():
            slot.sick_check = self._task(self._check_sick(slot))
        return await asyncio.shield(slot.sick_check)

    def recheck(self, url: str) -> None:
        """Probe a server again whose answers were good and whose work was not; out of use if the probe says so."""
        for slot in self.slots:
            if slot.url == url:
                self._recheck(slot)

    def mark_down(self, slot: ServerSlot, why: str) -> None:
        """Its process is gone: send nothing more there until a probe succeeds."""
        if slot.state == OK:
            slot.life += 1
        self._take_out(slot, DOWN, why)

    def _recheck(self, slot: ServerSlot) -> None:
        if slot.state == OK and not self._closed and (slot.sick_check is None or slot.sick_check.done()):
            slot.sick_check = self._task(self._check_sick(slot))

    def _doubt(self, slot: ServerSlot) -> None:
        """Send nothing there until another probe went well: it may be another process."""
        if slot.state == OK and slot.sure:
            slot.sure, slot.doubted_at = False, time.monotonic()
        self._recheck(slot)

    def _line_lost(self, slot: ServerSlot, lasted_s: float) -> None:
        """The process at the other end is gone; or something between, or in, it closes connections that say nothing."""
        slot.short_lines = slot.short_lines + 1 if lasted_s < SHORT_LINE_S else 0
        self._doubt(slot)

    async def _is_gone(self, slot: ServerSlot) -> bool:
        """Ask once whether the server is there; one call serves all that ask meanwhile and shortly after."""
        if slot.state == DOWN:
            return True
        now = asyncio.get_running_loop().time()
        if slot.lost_check is None or slot.lost_check.done():
            if slot.checked_at and now - slot.checked_at < CHECK_EVERY_S / 2:
                return False
            slot.lost_check = self._task(self._ask_if_there(slot))
        return await asyncio.shield(slot.lost_check)

    async def _ask_if_there(self, slot: ServerSlot) -> bool:
        try:
            await in_thread(slot.control.model_info, "server-check")
        except ServerUnreachable as error:
            if not error.timed_out:
                self.mark_down(slot, error.why)
                return True
        finally:
            slot.checked_at = asyncio.get_running_loop().time()
        return False

    async def _check_sick(self, slot: ServerSlot) -> bool:
        probe = await self._probe_on_line(slot)
        slot.failed_in_a_row = 0
        if probe.state == OK:
            slot.probe = probe
            self._on_sure()
            return False
        if probe.state == DOWN:
            self.mark_down(slot, probe.refusal or "")
        else:
            self._take_out(slot, probe.state, probe.refusal)
        return True

    def _take_out(self, slot: ServerSlot, state: str, why: str | None) -> None:
        self._change(slot, state, why)
        if not self._closed and (slot.watcher is None or slot.watcher.done()):
            self._watch(slot)

    def _watch(self, slot: ServerSlot) -> None:
        slot.watcher = self._task(self._probe_until_ok(slot))

    async def _probe_until_ok(self, slot: ServerSlot) -> None:
        wait = PROBE_EVERY_S / 8
        while True:
            probe = slot.probe = await self._probe_on_line(slot)
            slot.healthy = slot.healthy or probe.healthy
            slot.failed_in_a_row = 0
            self._change(slot, probe.state, probe.refusal)
            if probe.state == OK:
                return
            await asyncio.sleep(wait)
            wait = min(wait * 2, PROBE_EVERY_S if probe.state in (DOWN, UNREADY, STARTING) else PROBE_EVERY_MOST_S)

    async def _probe_on_line(self, slot: ServerSlot) -> Probe:
        """Probe a server, and note that it is sure when its line was there all the while: then it was one process."""
        began_at = time.monotonic()
        trouble = "the connection ended while it was probed: another process may have answered"
        number, has_line = None, slot.short_lines < SHORT_LINES
        try:
            number = await slot.line.open() if has_line else None
        except ConnectionLostError as error:
            trouble = str(error)
        probe = await self.probe(slot)
        if probe.state == OK and has_line and (number is None or slot.line.number != number):
            probe.state, probe.refusal = UNREADY, trouble
        if probe.state == OK:
            slot.sure, slot.asked_at, slot.probed_at = True, began_at, time.monotonic()
        return probe

    async def probe(self, slot: ServerSlot) -> Probe:
        """Ask a server everything that is asked before work is sent to it; changes nothing."""
        rid = self._new_rid()
        try:
            return await self._probe(slot, rid)
        finally:
            self._on_probed(rid)

    async def _probe(self, slot: ServerSlot, rid: str) -> Probe:
        probe = await probe_server(slot.control, slot.client, self._sampling, rid, ask_health=not slot.healthy)
        if probe.state == OK:
            objection = await self._objection(probe)
            if objection is not None:
                probe.state, probe.refusal = REFUSED, objection
            others = [other.probe for other in self.slots if other is not slot and other.state == OK and other.probe]
            probe.notes += differences(probe, others)
        return probe

    def _change(self, slot: ServerSlot, state: str, reason: str | None) -> None:
        before = slot.state
        if state == DOWN:
            slot.healthy = False  # what comes back is another process
        if state != OK:
            slot.short_lines = 0
        slot.state, slot.reason = state, reason
        if state != before:  # reasons hold request ids and the like: each probe would have news
            self._on_change(slot, before)

    def _task(self, work: Any) -> asyncio.Task[Any]:
        task: asyncio.Task[Any] = asyncio.get_running_loop().create_task(work)
        task.add_done_callback(_report)
        return task


def _report(task: asyncio.Task[Any]) -> None:
    """Leave no fault of a check unseen."""
    if not task.cancelled() and task.exception() is not None:
        _LOG.error("a check of a server broke", exc_info=task.exception())


def _load(slot: ServerSlot) -> int:
    return slot.outstanding
