"""How much of the dump folder there is for a run: with others' files, with its own, and of an empty one."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from daemon.capture.budget import dump_bytes
from daemon.capture.dump_folder import look_at
from tests.daemon.capture.dumps import FORM, TAG, make_rid, row_offset, write_dump

BLOCK = 4096


def a_disk(monkeypatch: pytest.MonkeyPatch, folder: Path, **fields: int) -> None:
    """Have every file system be so large."""
    names = ["f_bsize", "f_frsize", "f_blocks", "f_bfree", "f_bavail", "f_files", "f_ffree", "f_favail"]
    real = list(os.statvfs(folder))
    given = {"f_frsize": BLOCK, "f_files": 1000, "f_ffree": 500, "f_favail": 500} | fields
    found = [given.get(name, value) for name, value in zip(names, real, strict=False)] + real[len(names) :]
    monkeypatch.setattr(os, "statvfs", lambda _: os.statvfs_result(found))


def test_a_share_of_what_is_free_and_of_what_there_is(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    a_disk(monkeypatch, tmp_path, f_blocks=110_000, f_bfree=60_000, f_bavail=50_000)  # 10,000 are root's
    found = look_at(tmp_path, TAG, None)
    assert found.free_bytes == 50_000 * BLOCK
    assert found.budget_bytes == int(0.8 * 50_000 * BLOCK)
    assert found.capacity_bytes == int(0.8 * 100_000 * BLOCK), "others' files may go"


def test_a_configured_budget_is_no_more_than_there_is(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    a_disk(monkeypatch, tmp_path, f_blocks=100_000, f_bfree=50_000, f_bavail=50_000)
    for configured, budget, capacity in (
        (0.064, 64_000_000, 64_000_000),
        (0.3, 50_000 * BLOCK, 300_000_000),
        (5000.0, 50_000 * BLOCK, 100_000 * BLOCK),
    ):
        found = look_at(tmp_path, TAG, configured)
        assert (found.budget_bytes, found.capacity_bytes) == (budget, capacity)


def test_what_the_run_has_there_itself_is_free_to_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    own = make_rid(1)
    path = write_dump(tmp_path, own, [1, 2])
    os.truncate(path, row_offset(500))  # a hole takes nothing
    write_dump(tmp_path, make_rid(1, tag="ffff0000"), [1])
    (tmp_path / f"{own}.error").write_text("x")
    (tmp_path / "about.1-1-0.json").write_text("{}")
    a_disk(monkeypatch, tmp_path, f_blocks=20, f_bfree=10, f_bavail=10)
    found = look_at(tmp_path, TAG, 1.0)
    (left,) = found.left
    assert left.rid == own and 2 * FORM.row_bytes < left.rows_bytes <= dump_bytes(2, FORM.row_bytes)
    assert found.budget_bytes == 10 * BLOCK + left.rows_bytes and found.free_bytes == 10 * BLOCK


def test_without_room_for_a_file_nothing_is_free(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    a_disk(monkeypatch, tmp_path, f_blocks=20, f_bfree=10, f_bavail=10, f_favail=0)
    assert look_at(tmp_path, TAG, None).free_bytes == 0
    a_disk(monkeypatch, tmp_path, f_blocks=20, f_bfree=10, f_bavail=10, f_files=0, f_favail=0)  # it counts no files
    assert look_at(tmp_path, TAG, None).free_bytes == 10 * BLOCK
