"""Files appear whole or not at all; the checksum is that of what was written."""

from __future__ import annotations

import os
from pathlib import Path

import numpy as np
import pytest
import xxhash

from daemon.store import writing
from daemon.store.naming import file_stem
from daemon.store.writing import Folders, checksum_of, new_file


def test_writes_hashes_and_counts_in_one_pass(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(writing, "_SEND_BYTES", 10)
    values = np.arange(7, dtype=np.int64)
    with new_file(tmp_path / "f") as output:
        output.write(b"abc")
        output.write(b"")
        output.write(values.data)
        output.write(np.zeros((2, 0), np.int64).data)
        assert not (tmp_path / "f").exists()
    content = (tmp_path / "f").read_bytes()
    assert content == b"abc" + values.tobytes()
    assert output.count == len(content)
    assert output.checksum() == f"xxh3_128:{xxhash.xxh3_128_hexdigest(content)}" == checksum_of(tmp_path / "f", 0, 59)
    assert checksum_of(tmp_path / "f", 3, 56) == f"xxh3_128:{xxhash.xxh3_128_hexdigest(values.tobytes())}"


def test_short_writes_are_gone_on_with(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write = os.write
    monkeypatch.setattr(os, "write", lambda descriptor, data: write(descriptor, memoryview(data)[:3]))
    with new_file(tmp_path / "f") as output:
        output.write(b"0123456789")
    monkeypatch.undo()
    assert (tmp_path / "f").read_bytes() == b"0123456789"


def test_a_failure_leaves_what_was_there(tmp_path: Path) -> None:
    (tmp_path / "f").write_bytes(b"before")
    with pytest.raises(RuntimeError), new_file(tmp_path / "f") as output:
        output.write(b"half")
        raise RuntimeError
    assert (tmp_path / "f").read_bytes() == b"before"
    assert list(tmp_path.iterdir()) == [tmp_path / "f"]


def test_a_failed_sync_leaves_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(_: int) -> None:
        raise OSError(28, "no space")

    monkeypatch.setattr(os, "fdatasync", fail)
    with pytest.raises(OSError, match="no space"), new_file(tmp_path / "f") as output:
        output.write(b"x")
    assert list(tmp_path.iterdir()) == []


def test_what_a_crash_left_is_written_over(tmp_path: Path) -> None:
    (tmp_path / ".f.part").write_bytes(b"a long rest of a killed process")
    with new_file(tmp_path / "f") as output:
        output.write(b"x")
    assert (tmp_path / "f").read_bytes() == b"x"
    assert list(tmp_path.iterdir()) == [tmp_path / "f"]


def test_synced_before_renamed_and_the_folder_after(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    order: list[str] = []
    fdatasync, rename = os.fdatasync, Path.rename
    monkeypatch.setattr(os, "fdatasync", lambda fd: (order.append("data"), fdatasync(fd)))
    monkeypatch.setattr(Path, "rename", lambda self, to: (order.append("rename"), rename(self, to))[1])
    monkeypatch.setattr(writing, "sync_folder", lambda folder: order.append(f"folder {folder.name}"))
    with new_file(tmp_path / "f") as output:
        output.write(b"x")
    assert order == ["data", "rename", f"folder {tmp_path.name}"]


def test_new_folders_are_synced_up_to_the_one_that_was_there(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    synced: list[Path] = []
    monkeypatch.setattr(writing, "sync_folder", synced.append)
    root = tmp_path / "hidden_states" / "data"
    folders = Folders(root)
    folders.ready(root / "rows_0-2000")
    assert sorted(synced) == [tmp_path, tmp_path / "hidden_states", root]
    synced.clear()
    folders.ready(root / "rows_0-2000")
    assert synced == []
    Folders(root).ready(root / "rows_0-2000")
    assert sorted(synced) == [tmp_path / "hidden_states", root]


def test_names_are_safe_and_different() -> None:
    ids = ["a/b", "a_b", "a b", "..", "", "x" * 500, "x" * 501, "é", "è", "A", "a"]
    stems = [file_stem(name, name.encode()) for name in ids]
    assert len({stem.lower() for stem in stems}) == len(ids)
    for stem in stems:
        assert len(stem) <= 113 and stem.isascii() and "/" not in stem and not stem.startswith((".", "-"))
    assert stems[0].startswith("a_b-")
    assert file_stem(7, b"7") == file_stem("7", b"7")


def test_a_store_that_was_moved_is_not_begun_a_second_time(tmp_path: Path) -> None:
    root = tmp_path / "hidden_states" / "data"
    root.mkdir(parents=True)
    folders, used = Folders(root), Folders(tmp_path / "other")
    used.ready(tmp_path / "other")
    root.parent.rename(tmp_path / "moved")
    (tmp_path / "other").rmdir()
    for moved, folder in ((folders, root / "rows_0-2000"), (used, tmp_path / "other")):
        with pytest.raises(FileNotFoundError, match="put it back"):
            moved.ready(folder)
        assert not folder.exists()
    (tmp_path / "moved").rename(root.parent)
    assert folders.ready(root / "rows_0-2000").is_dir()
