"""The event log: written, kept, followed; a follower that does not read costs nobody anything."""

import asyncio
from collections.abc import AsyncIterator

import msgspec
import pytest

from contracts.clock import Clock
from contracts.records import Event, Severity
from daemon.events import EventLog


def decode(line: bytes) -> Event:
    assert line.endswith(b"\n") and line.count(b"\n") == 1
    return msgspec.json.decode(line, type=Event)


def log_with(lines: list[bytes], earlier: list[Event] | None = None) -> EventLog:
    return EventLog(lines.append, Clock(), earlier or [])


def event(message: str) -> Event:
    return Event(at=1.0, severity=Severity.INFO, kind="k", message=message)


async def take(events: AsyncIterator[Event], count: int) -> list[str]:
    return [(await asyncio.wait_for(anext(events), 1.0)).message for _ in range(count)]


async def test_each_event_is_a_line() -> None:
    lines: list[bytes] = []
    log_with(lines).emit(Severity.WARNING, "a.b", "said", dataset="B1", data={"n": 1})
    (found,) = map(decode, lines)
    assert (found.severity, found.kind, found.message, found.dataset, found.data) == (
        Severity.WARNING, "a.b", "said", "B1", {"n": 1},
    )  # fmt: skip


async def test_after_the_journals_are_closed_the_log_still_tells(caplog: pytest.LogCaptureFixture) -> None:
    lines: list[bytes] = []
    log = log_with(lines)
    log.close()
    with caplog.at_level("INFO", "eagle3"):
        log.emit(Severity.WARNING, "daemon.note", "the last words")
    assert lines == []
    assert "the last words" in caplog.text and "too late for events.jsonl" in caplog.text


async def test_text_that_is_no_utf8_is_escaped() -> None:
    lines: list[bytes] = []
    log_with(lines).emit(Severity.INFO, "k", "name \udcff and \ud835 half")
    assert decode(lines[0]).message == "name \\udcff and \\ud835 half"


async def test_following_gives_the_last_then_all_that_come_each_once() -> None:
    log = log_with([], [event("old 1"), event("old 2")])
    log.emit(Severity.INFO, "k", "one")
    following = log.follow(2)
    assert await take(following, 1) == ["old 2"]
    log.emit(Severity.INFO, "k", "two")
    assert await take(following, 2) == ["one", "two"]
    log.emit(Severity.INFO, "k", "three")
    assert await take(following, 1) == ["three"]
    assert [each.message for each in log.last(2)] == ["two", "three"]
    assert log.last(0) == []
    await following.aclose()  # type: ignore[attr-defined]
    assert not log._followers


async def test_a_follower_that_does_not_read_loses_its_oldest() -> None:
    log = log_with([])
    following = log.follow(0)
    waiting = asyncio.ensure_future(anext(following))
    await asyncio.sleep(0)
    for number in range(3000):
        log.emit(Severity.INFO, "k", str(number))
    assert (await waiting).message == "2000"
    assert (await take(following, 999))[-1] == "2999"
    await following.aclose()  # type: ignore[attr-defined]
