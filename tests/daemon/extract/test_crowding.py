"""Others' files in the dump folder: said once, and a pause only when nothing fits any more."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from daemon.capture.dump_folder import DumpFolder
from daemon.extract.crowding import NO_ROOM_MOST, Crowding
from tests.daemon.extract.support import Events


def crowding() -> tuple[Crowding, Events]:
    events = Events()
    given: Any = events
    return Crowding(Path("/dumps"), given), events


def folder(free: int, budget: int = 0) -> DumpFolder:
    return DumpFolder([], free, budget, 10**12)


def test_passes_in_vain_pause_until_there_is_room() -> None:
    found, events = crowding()
    for _ in range(NO_ROOM_MOST - 1):
        found.passed_in_vain(5_000_000)
    assert found.trouble(folder(1_000)) is None
    found.passed_in_vain(2_000_000)
    said = found.trouble(folder(1_000))
    assert said is not None and said.startswith("/dumps is full: 1.0 kB free") and "need 5.0 MB" in said
    assert found.trouble(folder(4_999_999)) is not None
    assert found.trouble(folder(5_000_000)) is None
    assert found.trouble(folder(0)) is None, "nobody has found it full again"
    assert events.kinds == []


def test_room_that_the_server_does_not_see_pauses_nothing() -> None:
    """Its folder may be another one; else it would pause and go on twice a second."""
    found, _ = crowding()
    for _ in range(3 * NO_ROOM_MOST):
        found.passed_in_vain(5_000_000)
        assert found.trouble(folder(10**9)) is None


def test_a_good_one_between_starts_the_count_again() -> None:
    found, _ = crowding()
    for _ in range(3):
        for _ in range(NO_ROOM_MOST - 1):
            found.passed_in_vain(5_000_000)
        found.captured()
        assert found.trouble(folder(0)) is None


def test_what_waits_for_others_is_said_once_until_there_is_room() -> None:
    found, events = crowding()
    for needed in (3_000_000, 4_000_000):
        found.put_off(needed, 26_000)
        assert found.trouble(folder(10**9, budget=26_000)) is None
    ((_, kind, said),) = events.said
    assert kind == "dumps.crowded" and "26.0 kB" in said and "3.0 MB" in said
    assert found.trouble(folder(10**9, budget=3_000_000)) is None
    found.put_off(4_000_000, 26_000)
    assert events.kinds == ["dumps.crowded"] * 2
