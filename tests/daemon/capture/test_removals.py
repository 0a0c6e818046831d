"""Dumps are removed in a thread, and each is told of once."""

from __future__ import annotations

import asyncio
import threading
from pathlib import Path

import pytest

from daemon.capture.removals import Removals
from daemon.sglang_plugin.eagle3_sglang.dump_format import dump_path
from tests.daemon.capture.dumps import make_rid, write_dump


async def test_they_go_off_the_loop_and_are_told_of_when_they_are_gone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Four dumps of 235 MB held the loop up for a fifth of a second."""
    gone: list[tuple[str, bool, object]] = []
    threads: set[int] = set()
    unlink = Path.unlink

    def watched(self: Path, missing_ok: bool = False) -> None:
        threads.add(threading.get_ident())
        unlink(self, missing_ok)

    monkeypatch.setattr(Path, "unlink", watched)
    removals = Removals(tmp_path, lambda rid, why: gone.append((rid, dump_path(tmp_path, rid).exists(), why)))
    rids = [make_rid(number) for number in range(3)]
    for rid in rids:
        write_dump(tmp_path, rid, [1, 2])
        removals.add(rid)
    assert all(rid in removals for rid in rids) and gone == []
    await removals.end(10.0)
    assert gone == [(rid, False, None) for rid in rids] and rids[0] not in removals
    assert threading.get_ident() not in threads
    removals.add(rids[0])
    await removals.end(10.0)
    assert len(gone) == 4, "it goes on after a pause"


async def test_one_that_cannot_be_removed_holds_up_none(tmp_path: Path) -> None:
    gone: dict[str, object] = {}
    removals = Removals(tmp_path, gone.__setitem__)
    stubborn, other = make_rid(1), make_rid(2)
    dump_path(tmp_path, stubborn).mkdir()
    write_dump(tmp_path, other, [1])
    removals.add(stubborn)
    removals.add(other)
    await removals.end(10.0)
    assert isinstance(gone[stubborn], OSError) and gone[other] is None
    assert not dump_path(tmp_path, other).exists()


async def test_an_end_waits_only_so_long(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    free = threading.Event()
    monkeypatch.setattr("daemon.capture.removals.remove_dump", lambda folder, rid: free.wait())
    removals = Removals(tmp_path, lambda rid, why: None)
    removals.add(make_rid(1))
    await asyncio.wait_for(removals.end(0.01), 10)
    free.set()
    await Removals(tmp_path, lambda rid, why: None).end(0.01)
