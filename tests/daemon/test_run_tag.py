"""The tag of a run: kept over starts and moves, never shared by two directories."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from contracts.run_dir import RunDir
from daemon.run_tag import keep_tag, kept_tag, run_tag


@pytest.fixture
def run(tmp_path: Path) -> Path:
    folder = tmp_path / "run"
    folder.mkdir()
    return folder


def test_a_run_has_one_tag_by_whatever_path(run: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "link").symlink_to("run")
    monkeypatch.chdir(tmp_path)
    assert run_tag(Path("run")) == run_tag(tmp_path / "link") == run_tag(run) != run_tag(tmp_path)
    assert run_tag(tmp_path / "none") == run_tag(tmp_path / "none") != run_tag(run)


def test_it_is_the_same_before_and_after_the_first_start(run: Path) -> None:
    before = run_tag(run)
    assert len(before) == 8 and kept_tag(run) is None
    keep_tag(run)
    kept = kept_tag(run)
    assert kept is not None and kept.tag == run_tag(run) == before
    assert (kept.former_tag, kept.path) == (None, str(run))
    written = RunDir(run).run_tag.stat()
    keep_tag(run)
    assert RunDir(run).run_tag.stat().st_ino == written.st_ino, "written only when it changes"


def test_a_moved_run_keeps_it_and_another_at_its_place_gets_its_own(run: Path, tmp_path: Path) -> None:
    keep_tag(run)
    tag = run_tag(run)
    moved = run.rename(tmp_path / "moved")
    assert run_tag(moved) == tag
    keep_tag(moved)
    kept = kept_tag(moved)
    assert kept is not None and (kept.tag, kept.path, kept.former_tag) == (tag, str(moved), None)
    run.mkdir()
    assert run_tag(run) != tag


@pytest.mark.parametrize("is_gone", [True, False])
def test_a_copy_gets_its_own_and_knows_of_the_other(is_gone: bool, run: Path, tmp_path: Path) -> None:
    """Also when the original is gone by now: it may have been moved, and works on."""
    keep_tag(run)
    tag = run_tag(run)
    copy = tmp_path / "copy"
    shutil.copytree(run, copy)
    if is_gone:
        run.rename(tmp_path / "moved")
    assert run_tag(copy) != tag and kept_tag(copy) is None
    for _ in range(2):
        keep_tag(copy)
        kept = kept_tag(copy)
        assert kept is not None and (kept.former_tag, kept.former_path) == (tag, str(run))
        assert kept.tag == run_tag(copy) != tag


def test_a_directory_that_was_put_back_in_its_place_keeps_it(run: Path, tmp_path: Path) -> None:
    """From a backup: its inode is another one, the dumps are its own."""
    keep_tag(run)
    tag = run_tag(run)
    run.rename(tmp_path / "away")
    shutil.copytree(tmp_path / "away", run)
    assert run_tag(run) == tag


@pytest.mark.parametrize("content", [b"", b"{}", b"[1]", b"\xff"])
def test_a_record_that_cannot_be_read_is_made_anew(content: bytes, run: Path) -> None:
    before = run_tag(run)
    RunDir(run).run_tag.write_bytes(content)
    assert run_tag(run) == before
    keep_tag(run)
    assert kept_tag(run) is not None


def test_a_name_that_is_no_text(tmp_path: Path) -> None:
    run = tmp_path / "r\udcff"
    run.mkdir()
    keep_tag(run)
    assert kept_tag(run) is not None
