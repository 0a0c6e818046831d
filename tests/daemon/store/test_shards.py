"""Small samples of our own layout: appended, cut back, by several threads."""

from __future__ import annotations

import itertools
import os
import threading
from pathlib import Path

import pytest
from safetensors.numpy import load

from daemon.store import shards
from daemon.store.layouts import make_layout
from daemon.store.safetensors_ import SafetensorsLayout
from tests.daemon.store.store_samples import files_in, make_sample, place, place_many


def test_each_is_a_document_of_its_own(tmp_path: Path) -> None:
    layout = make_layout("safetensors", tmp_path)
    records = [place(layout, make_sample(f"s{row}", tokens=5 + row, dtype="float32")) for row in range(4)]
    assert files_in(tmp_path) == ["shard-0.e3s"]
    shard = (tmp_path / "shard-0.e3s").read_bytes()
    end = 0
    for record in records:
        assert record.offset % 64 == 0 and record.offset >= end
        end = record.offset + record.bytes
        found = load(shard[record.offset : end])
        assert found["input_ids"].tolist() == layout.load(record).ids.tolist()
        assert found["hidden_states"].shape == (record.tokens, 4, 8)
    assert end == len(shard)


def test_large_samples_have_their_own_file(tmp_path: Path) -> None:
    layout = make_layout("safetensors", tmp_path)
    rows = 4 * 2048 * 4  # bytes of a row at 2,048 float32
    for name, tokens in (("small", (4 << 20) // rows - 1), ("large", (4 << 20) // rows)):
        record = place(layout, make_sample(name, tokens=tokens, hidden=2048, dtype="float32"))
        assert (record.file == "shard-0.e3s") == (name == "small")
        assert layout.load(record).rows.tokens == tokens


def test_full_shards_are_followed_by_the_next(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    layout = make_layout("safetensors", tmp_path)
    monkeypatch.setattr(shards, "SHARD_BYTES", 3000)
    records = place_many(layout, 6)
    assert {record.file for record in records} > {"shard-0.e3s", "shard-1.e3s"}
    assert all(path.stat().st_size <= 3000 for path in tmp_path.iterdir())
    again = make_layout("safetensors", tmp_path)
    assert place(again, make_sample("more")).file >= records[-1].file
    for record in records:
        assert again.load(record).ids.size
    # A sample larger than a shard still gets one.
    assert place(again, make_sample("huge", tokens=200)).bytes > 3000


def test_several_threads(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shards, "SHARD_BYTES", 20_000)
    layout = make_layout("safetensors", tmp_path)
    samples = [make_sample(f"s{row}", tokens=3 + row % 17, seed=row) for row in range(80)]
    records = {}

    def work(first: int) -> None:
        for sample in samples[first::4]:
            records[sample.sample_id] = place(layout, sample)

    threads = [threading.Thread(target=work, args=(first,)) for first in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    spans = sorted((record.file, record.offset, record.offset + record.bytes) for record in records.values())
    assert len(spans) == 80
    for (file, _, end), (next_file, begin, _) in itertools.pairwise(spans):
        assert file != next_file or end <= begin
    for sample in samples:
        assert layout.load(records[sample.sample_id]).ids.tolist() == sample.ids.tolist()


def test_threads_whose_rows_fail_or_disk_is_full_harm_no_other(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    layout = make_layout("safetensors", tmp_path)
    kept = place_many(layout, 2)
    size = (tmp_path / "shard-0.e3s").stat().st_size
    fdatasync = os.fdatasync

    def fail(_: int) -> None:
        raise OSError(28, "no space")

    monkeypatch.setattr(os, "fdatasync", fail)
    with pytest.raises(OSError, match="no space"):
        layout.place(make_sample("late"), 2)
    assert (tmp_path / "shard-0.e3s").stat().st_size == size
    monkeypatch.setattr(os, "fdatasync", fdatasync)
    kept.append(place(layout, make_sample("late")))
    assert all(layout.load(record).ids.size for record in kept)


def test_cut_back_to_the_last_indexed_sample(tmp_path: Path) -> None:
    layout = make_layout("safetensors", tmp_path)
    kept, *_, lost = place_many(layout, 4)
    with (tmp_path / "shard-0.e3s").open("ab") as stream:
        stream.write(b"half a docu")
    again = make_layout("safetensors", tmp_path)
    (said,) = again.cut_back([kept])
    assert "shard-0.e3s" in said and f"{lost.offset + lost.bytes + 11 - kept.bytes:,} bytes" in said
    assert (tmp_path / "shard-0.e3s").stat().st_size == kept.bytes
    assert again.cut_back([kept]) == []
    following = place(again, make_sample("following"))
    assert following.offset == -(-kept.bytes // 64) * 64
    assert again.load(kept).ids.size and again.load(following).ids.size


def test_cut_back_while_in_use_goes_on_behind_the_index(tmp_path: Path) -> None:
    layout = make_layout("safetensors", tmp_path)
    kept, _ = place_many(layout, 2)
    layout.cut_back([kept])
    assert place(layout, make_sample("next")).offset == -(-kept.bytes // 64) * 64


def test_without_cut_back_nothing_is_written_over(tmp_path: Path) -> None:
    layout = make_layout("safetensors", tmp_path)
    records = place_many(layout, 2)
    again = make_layout("safetensors", tmp_path)
    records.append(place(again, make_sample("more")))
    assert all(again.load(record).ids.size for record in records)


def test_shards_that_no_record_names_are_strays_and_missing_ones_no_reason_to_stop(tmp_path: Path) -> None:
    layout = make_layout("safetensors", tmp_path)
    record = place(layout, make_sample("a"))
    assert layout.strays([]) == [tmp_path / "shard-0.e3s"]
    (tmp_path / "shard-0.e3s").unlink()
    assert layout.cut_back([record]) == []
    assert isinstance(layout, SafetensorsLayout)


def test_a_shard_that_was_moved_away_does_not_begin_again_with_a_hole(tmp_path: Path) -> None:
    layout = SafetensorsLayout(tmp_path)
    first = place(layout, make_sample("a", tokens=3))
    (tmp_path / first.file).rename(tmp_path / "elsewhere")
    with pytest.raises(FileNotFoundError, match=r"shard-0\.e3s"):
        place(layout, make_sample("b", tokens=3))
    (tmp_path / "elsewhere").rename(tmp_path / first.file)
    assert place(layout, make_sample("b", tokens=3)).offset >= first.bytes
