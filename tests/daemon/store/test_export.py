"""A run's stores in another layout: every bit, whatever ends the export, whatever has become of the run since."""

from __future__ import annotations

import fcntl
import os
import shutil
import signal
import subprocess
import sys
from collections import namedtuple
from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import pytest

from contracts.records import DroppedSample, StoredSample, encode_line
from contracts.run_config import LAYOUTS
from contracts.run_dir import RunDir
from contracts.sample_id import sample_key
from daemon.store.dataset_files import write_dataset_files
from daemon.store.export import Exported, ExportError, export_run
from daemon.store.export_target import EXPORT
from daemon.store.floats import from_float32
from daemon.store.index import read_index
from daemon.store.layouts import make_layout, norm_of
from daemon.store.norm_file import write_norm
from daemon.store.norms import NormWeight, divide, multiply
from tests.support.known_samples import HIDDEN, Known, known_samples, write_store

RUN_TOML = """\
[run]
name = "small"
stages = ["extract"]
[generate]
vocab_size = 256
[extract]
layers = [1, 3, 5]
layout = "{layout}"
draft_vocab_size = 16
[[servers]]
url = "http://127.0.0.1:9"
[[datasets]]
name = "B1"
[[datasets]]
name = "B2"
"""
NORM = NormWeight(np.linspace(0.5, 3.0, HIDDEN, dtype=np.float32), 1e-5)


class StoredRun:
    """A run with a store, and what was put into it."""

    def __init__(self, path: Path, layout: str, samples: list[Known], dataset: str = "B1") -> None:
        self.run = RunDir(path)
        self.layout = layout
        self.samples = samples
        self.store = self.run.store(dataset)
        self.index = self.run.dataset(dataset).hidden_states
        self.index.parent.mkdir(parents=True)
        self.run.config.write_text(RUN_TOML.format(layout=layout))
        self.records = write_store(layout, self.store, samples)
        self.append(self.records)

    def append(self, records: Iterable[StoredSample | DroppedSample]) -> None:
        """Append to the index."""
        with self.index.open("ab") as stream:
            stream.write(b"".join(map(encode_line, records)))

    def drop(self, number: int) -> None:
        """Say that a sample holds no longer."""
        self.append([DroppedSample(sample_id=self.samples[number].sample_id, why="test", at=9.0)])

    def export(self, layout: str, target: Path, **options: Any) -> Exported:
        """Export the one data set."""
        (found,) = export_run(self.run.path, layout, target, **options)
        return found


@pytest.fixture
def stored(tmp_path: Path) -> StoredRun:
    """Five samples in our own layout."""
    return StoredRun(tmp_path / "run", "safetensors", known_samples())


def exported(folder: Path, layout: str) -> dict[bytes, StoredSample]:
    """Return what an export holds, each sample seen to be on the disk, and nothing else that a trainer would read."""
    records = read_index(folder / EXPORT).records
    store = make_layout(layout, folder)
    assert store.strays(list(records.values())) == []
    rows = [record.row for record in records.values()]
    assert len(set(rows)) == len(rows)
    if layout == "speculators":
        assert sorted(rows) == list(range(len(rows)))
    return records


def bits_in(folder: Path, record: StoredSample) -> bytes:
    return b"".join(make_layout(record.layout, folder).load(record).rows.blocks())


def holds(folder: Path, layout: str, samples: list[Known]) -> None:
    """See that an export holds exactly these samples, every bit."""
    records = exported(folder, layout)
    assert set(records) == {sample_key(known.sample_id) for known in samples}
    for known in samples:
        record = records[sample_key(known.sample_id)]
        loaded = make_layout(layout, folder).load(record)
        assert loaded.ids.tolist() == known.ids.tolist()
        assert loaded.loss_mask is not None
        assert loaded.loss_mask.tolist() == known.mask.tolist()
        assert b"".join(loaded.rows.blocks()) == known.bits.tobytes()


def content(folder: Path) -> dict[str, bytes]:
    return {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


@pytest.mark.parametrize("source", ["safetensors", "specforge", "modelopt"])
@pytest.mark.parametrize("target", ["safetensors", "specforge", "modelopt"])
@pytest.mark.parametrize("dtype", ["bfloat16", "float32"])
def test_what_is_written_is_what_the_layout_itself_would_have_stored(
    tmp_path: Path, source: str, target: str, dtype: str
) -> None:
    samples = known_samples(dtype)
    run = StoredRun(tmp_path / "run", source, samples)
    before = content(run.run.path)
    done = run.export(target, tmp_path / "out")
    assert (done.wanted, done.samples, done.already, done.failed) == (5, 5, 0, 0)
    assert done.tokens == sum(len(known.ids) for known in samples)
    folder = tmp_path / "out" / "B1"
    holds(folder, target, samples)
    direct = write_store(target, tmp_path / "direct", samples)
    assert [one.checksum for one in exported(folder, target).values()] == [one.checksum for one in direct]
    assert content(run.run.path) == before


@pytest.mark.parametrize("source", ["safetensors", "specforge", "modelopt"])
def test_the_norm_is_converted_where_the_layouts_differ(tmp_path: Path, source: str) -> None:
    samples = known_samples()
    run = StoredRun(tmp_path / "run", source, samples)
    write_norm(run.store, NORM)
    run.export("speculators", tmp_path / "out")
    folder = tmp_path / "out" / "B1"
    records = exported(folder, "speculators")
    for known in samples:
        record = records[sample_key(known.sample_id)]
        assert record.norm == "over_weight"
        wanted = b"".join(divide(known.sample().rows, known.form, NORM).blocks())
        assert bits_in(folder, record) == wanted
        assert wanted != known.bits.tobytes()
    assert {"norm.safetensors", "state.json", "token_freq.pt", "d2t-16.npy"} <= {one.name for one in folder.iterdir()}


def test_and_back(tmp_path: Path) -> None:
    samples = known_samples(norm="over_weight")
    run = StoredRun(tmp_path / "run", "speculators", samples)
    write_norm(run.store, NORM)
    run.export("safetensors", tmp_path / "out")
    records = exported(tmp_path / "out" / "B1", "safetensors")
    for known in samples:
        record = records[sample_key(known.sample_id)]
        assert record.norm == "post"
        assert bits_in(tmp_path / "out" / "B1", record) == b"".join(
            multiply(known.sample().rows, known.form, NORM).blocks()
        )


def test_without_the_norms_weight_it_refuses_before_it_writes(stored: StoredRun, tmp_path: Path) -> None:
    with pytest.raises(ExportError, match=r"'post', speculators wants it as 'over_weight', and .*norm\.safetensors"):
        stored.export("speculators", tmp_path / "out")
    assert not (tmp_path / "out").exists()


def test_the_norm_travels_on(stored: StoredRun, tmp_path: Path) -> None:
    write_norm(stored.store, NORM)
    stored.export("specforge", tmp_path / "out")
    assert (tmp_path / "out" / "B1" / "norm.safetensors").read_bytes() == (
        stored.store / "norm.safetensors"
    ).read_bytes()
    assert (tmp_path / "out" / "B1" / "vocab_mapping" / "vocab_mapping.pt").exists()


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("after", range(1, 6))
def test_ended_early_the_same_call_goes_on(tmp_path: Path, layout: str, after: int) -> None:
    samples = known_samples(norm=norm_of(layout))
    run = StoredRun(tmp_path / "run", "specforge" if layout != "speculators" else layout, samples)
    seen = 0

    def end(_: Exported) -> None:
        nonlocal seen
        seen += 1
        if seen == after:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        run.export(layout, tmp_path / "out", progress=end)
    done = run.export(layout, tmp_path / "out")
    assert (done.already, done.samples) == (after, 5 - after)
    holds(tmp_path / "out" / "B1", layout, samples)
    run.export(layout, tmp_path / "once")
    assert content(tmp_path / "out") == content(tmp_path / "once")


@pytest.mark.parametrize("layout", LAYOUTS)
def test_what_a_killed_export_left_half_done_is_cleared(tmp_path: Path, layout: str) -> None:
    """A temporary; a sample whose record was never appended; half a record."""
    samples = known_samples(norm=norm_of(layout))
    run = StoredRun(tmp_path / "run", layout, samples)
    folder = tmp_path / "out" / "B1"
    run.export(layout, tmp_path / "out")
    wanted = content(folder)
    lines = (folder / EXPORT).read_bytes().splitlines(keepends=True)
    (folder / EXPORT).write_bytes(b"".join(lines[:3]) + lines[3][:50])
    (folder / ".data_9.ckpt.part").write_bytes(b"half")
    done = run.export(layout, tmp_path / "out")
    assert (done.already, done.samples) == (3, 2)
    found = content(folder)
    torn = [name for name in found if name.startswith(f"{EXPORT}.torn-")]
    assert len(torn) == 1  # what was cut off is kept beside it, as for every journal
    assert {name: value for name, value in found.items() if name not in torn} == wanted


def test_a_sample_whose_bytes_changed_is_named_and_left_out(tmp_path: Path) -> None:
    run = StoredRun(tmp_path / "run", "specforge", known_samples())
    path = run.store / run.records[1].file
    good = path.read_bytes()
    path.write_bytes(good[:-300] + bytes([good[-300] ^ 1]) + good[-299:])
    done = run.export("modelopt", tmp_path / "out")
    assert done.samples == 4
    assert [sentence.split(":")[0] for sentence in done.first_failed] == ["sample 7"]
    holds(tmp_path / "out" / "B1", "modelopt", [one for one in run.samples if one.sample_id != 7])
    path.write_bytes(good)
    again = run.export("modelopt", tmp_path / "out")
    assert (again.already, again.samples, again.failed) == (4, 1, 0)
    holds(tmp_path / "out" / "B1", "modelopt", run.samples)


def test_a_sample_whose_file_is_gone_is_named(tmp_path: Path) -> None:
    run = StoredRun(tmp_path / "run", "modelopt", known_samples())
    (run.store / run.records[0].file).unlink()
    done = run.export("specforge", tmp_path / "out")
    assert done.samples == 4
    assert "is missing" in done.first_failed[0]


@pytest.mark.parametrize("layout", LAYOUTS)
def test_a_later_call_takes_over_what_the_run_dropped_and_stored_anew(tmp_path: Path, layout: str) -> None:
    samples = known_samples(norm=norm_of(layout))
    run = StoredRun(tmp_path / "run", layout, samples)
    folder = tmp_path / "out" / "B1"
    run.export(layout, tmp_path / "out")
    run.drop(0)
    run.drop(2)
    values = np.random.default_rng(9).standard_normal(samples[2].bits.shape, dtype=np.float32)
    anew = replace(samples[2], bits=from_float32(values, "bfloat16"))
    fresh = make_layout(layout, run.store).place(anew.sample(), 7)
    changed = msgspec.structs.replace(
        run.records[2], row=7, file=fresh.file, offset=fresh.offset, checksum=fresh.checksum, at=10.0
    )
    run.append([changed])
    done = run.export(layout, tmp_path / "out")
    assert (done.already, done.samples, done.removed) == (3, 1, 1)
    holds(folder, layout, [samples[1], anew, samples[3], samples[4]])


def test_what_comes_while_the_run_goes_on_is_added(stored: StoredRun, tmp_path: Path) -> None:
    lines = stored.index.read_bytes().splitlines(keepends=True)
    stored.index.write_bytes(b"".join(lines[:2]) + lines[2][:40])
    first = stored.export("modelopt", tmp_path / "out")
    assert (first.wanted, first.samples) == (2, 2)
    stored.index.write_bytes(b"".join(lines))
    second = stored.export("modelopt", tmp_path / "out")
    assert (second.already, second.samples) == (2, 3)
    holds(tmp_path / "out" / "B1", "modelopt", stored.samples)


def test_each_data_set_has_its_folder(stored: StoredRun, tmp_path: Path) -> None:
    other = StoredRun(stored.run.path, "safetensors", known_samples(lengths=(4, 9)), "B2")
    done = export_run(stored.run.path, "specforge", tmp_path / "out")
    assert [(one.dataset, one.samples) for one in done] == [("B1", 5), ("B2", 2)]
    holds(tmp_path / "out" / "B2", "specforge", other.samples)
    (one,) = export_run(stored.run.path, "specforge", tmp_path / "alone", datasets=["B2"])
    assert one.samples == 2
    assert sorted(path.name for path in (tmp_path / "alone").iterdir()) == ["B2", "vocab_mapping"]


def test_all_that_is_exported_has_one_vocabulary(stored: StoredRun, tmp_path: Path) -> None:
    StoredRun(stored.run.path, "safetensors", known_samples(lengths=(4, 9)), "B2")
    export_run(stored.run.path, "specforge", tmp_path / "out")
    export_run(stored.run.path, "specforge", tmp_path / "alone", datasets=["B2"])
    name = Path("vocab_mapping", "vocab_mapping.pt")
    together = {(tmp_path / "out" / folder / name).read_bytes() for folder in (".", "B1", "B2")}
    alone = {(tmp_path / "alone" / folder / name).read_bytes() for folder in (".", "B2")}
    assert len(together) == len(alone) == 1 and together != alone


def test_a_folder_with_samples_of_something_else_is_left_alone(stored: StoredRun, tmp_path: Path) -> None:
    folder = tmp_path / "out" / "B1" / "rows_0-5000"
    folder.mkdir(parents=True)
    (folder / "data_0.ckpt").write_bytes(b"somebody's")
    with pytest.raises(ExportError, match=r"holds 1 file that a reader of the layout specforge takes for samples"):
        stored.export("specforge", tmp_path / "out")
    assert content(tmp_path / "out") == {"B1/rows_0-5000/data_0.ckpt": b"somebody's"}


def test_one_folder_takes_one_layout(stored: StoredRun, tmp_path: Path) -> None:
    stored.export("specforge", tmp_path / "out")
    before = content(tmp_path / "out")
    with pytest.raises(ExportError, match="holds an export in the layout specforge"):
        stored.export("modelopt", tmp_path / "out")
    assert content(tmp_path / "out") == before


def test_two_exports_do_not_write_into_one_folder(stored: StoredRun, tmp_path: Path) -> None:
    stored.export("specforge", tmp_path / "out")
    with (tmp_path / "out" / "B1" / EXPORT).open() as other:
        fcntl.flock(other, fcntl.LOCK_EX)
        with pytest.raises(ExportError, match="another export is at work there"):
            stored.export("specforge", tmp_path / "out")


@pytest.mark.parametrize("inside", ["hidden_states", "prepared/B1", "hidden_states/B1/deeper"])
def test_the_runs_own_folders_are_no_target(stored: StoredRun, inside: str) -> None:
    before = content(stored.run.path)
    with pytest.raises(ExportError, match="belongs to the run"):
        stored.export("specforge", stored.run.path / inside)
    assert content(stored.run.path) == before


def test_what_does_not_fit_is_not_begun(stored: StoredRun, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    usage = namedtuple("usage", "total used free")
    monkeypatch.setattr(shutil, "disk_usage", lambda _: usage(10**9, 10**9 - 5000, 5000))
    with pytest.raises(ExportError, match=r"5\.0 kB are free: make room"):
        stored.export("specforge", tmp_path / "out")
    assert list(content(tmp_path / "out")) == [f"B1/{EXPORT}"]


def test_a_full_disk_ends_it_and_room_lets_it_go_on(
    stored: StoredRun, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write, written = os.write, 0

    def full(descriptor: int, data: Any) -> int:
        nonlocal written
        written += len(data)
        if written > 40_000:
            raise OSError(28, "No space left on device")
        return write(descriptor, data)

    with monkeypatch.context() as patched:
        patched.setattr(os, "write", full)
        with pytest.raises(OSError, match="No space left"):
            stored.export("specforge", tmp_path / "out")
    records = exported(tmp_path / "out" / "B1", "specforge")
    assert 0 < len(records) < 5
    stored.export("specforge", tmp_path / "out")
    holds(tmp_path / "out" / "B1", "specforge", stored.samples)


def test_specforge_takes_three_layers(tmp_path: Path) -> None:
    samples = known_samples()
    form = replace(samples[0].form, layers=(1, 2, 3, 5))
    wide = [replace(one, form=form, bits=np.concatenate((one.bits, one.bits[:, :1]), axis=1)) for one in samples]
    run = StoredRun(tmp_path / "run", "safetensors", wide)
    with pytest.raises(ExportError, match="SpecForge takes 3 layers, sample 'plain' has 4"):
        run.export("specforge", tmp_path / "out")
    assert run.export("modelopt", tmp_path / "out").samples == 5


def test_what_is_not_there_is_said(stored: StoredRun, tmp_path: Path) -> None:
    with pytest.raises(ExportError, match="the data set 'B7' has no hidden states"):
        stored.export("specforge", tmp_path / "out", datasets=["B7"])
    with pytest.raises(ExportError, match="layout 'gguf' is not known"):
        stored.export("gguf", tmp_path / "out")
    stored.index.unlink()
    with pytest.raises(ExportError, match="no hidden states are stored yet"):
        stored.export("specforge", tmp_path / "out")


def test_lines_of_the_index_that_cannot_be_read_are_said(stored: StoredRun, tmp_path: Path) -> None:
    with stored.index.open("ab") as stream:
        stream.write(b"garbage\n")
    done = stored.export("specforge", tmp_path / "out")
    assert any("1 line cannot be read" in note for note in done.notes)
    assert done.samples == 5


@pytest.mark.parametrize("layout", LAYOUTS)
def test_lines_that_the_exports_index_lost(tmp_path: Path, layout: str) -> None:
    """The run has the samples: they are exported again, whatever their number, and nothing is left twice."""
    samples = known_samples(norm=norm_of(layout))
    run = StoredRun(tmp_path / "run", layout, samples)
    run.export(layout, tmp_path / "out")
    journal = tmp_path / "out" / "B1" / EXPORT
    journal.write_bytes(journal.read_bytes().splitlines(keepends=True)[0])
    done = run.export(layout, tmp_path / "out")
    assert (done.already, done.samples) == (1, 4)
    holds(tmp_path / "out" / "B1", layout, samples)


def test_files_of_somebody_else_are_left_alone_when_they_are_many(
    stored: StoredRun, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("daemon.store.unrecorded.MOST_LEFT", 1)
    stored.export("modelopt", tmp_path / "out")
    others = [tmp_path / "out" / "B1" / f"other-{number}.pt" for number in range(2)]
    for path in others:
        path.write_bytes(b"somebody's")
    with pytest.raises(ExportError, match=r"2 files and documents .* choose another folder"):
        stored.export("modelopt", tmp_path / "out")
    assert all(path.exists() for path in others)


def test_what_is_missing_beside_the_samples_is_said(stored: StoredRun, tmp_path: Path) -> None:
    config = stored.run.config
    config.write_text(config.read_text().replace("vocab_size = 256\n", "", 1))
    done = stored.export("specforge", tmp_path / "out")
    norm, maps = done.missing
    assert norm.startswith("norm.safetensors: ") and "--vocab-size N" in maps
    write_norm(stored.store, NORM)
    again = stored.export("specforge", tmp_path / "out", vocab_size=256)
    assert again.missing == [] and (tmp_path / "out" / "B1" / "vocab_mapping" / "vocab_mapping.pt").exists()


def test_the_runs_own_store_tells_the_vocabulary(stored: StoredRun, tmp_path: Path) -> None:
    config = stored.run.config
    config.write_text(config.read_text().replace("vocab_size = 256\n", "", 1))
    layout = make_layout("safetensors", stored.store)
    write_norm(stored.store, NORM)
    write_dataset_files(layout, stored.store, stored.records, draft_vocab_size=None, vocab_size=256, norm=NORM)
    assert stored.export("specforge", tmp_path / "out").missing == []


def test_without_a_draft_vocabulary_that_is_said(stored: StoredRun, tmp_path: Path) -> None:
    config = stored.run.config
    config.write_text(config.read_text().replace("draft_vocab_size = 16\n", ""))
    write_norm(stored.store, NORM)
    (maps,) = stored.export("specforge", tmp_path / "out").missing
    assert "no [extract] draft_vocab_size" in maps
    assert stored.export("modelopt", tmp_path / "other").missing == []


_KILLED_AT_A_SYNC = """
import os, signal, sys
from daemon.__main__ import main
left = int(sys.argv.pop(1))
def counting(real):
    def sync(descriptor):
        global left
        left -= 1
        if left == 0:
            os.kill(os.getpid(), signal.SIGKILL)
        real(descriptor)
    return sync
os.fdatasync, os.fsync = counting(os.fdatasync), counting(os.fsync)
sys.exit(main())
"""


@pytest.mark.parametrize("layout", ["safetensors", "specforge", "speculators"])
def test_killed_anywhere_the_same_command_goes_on(tmp_path: Path, layout: str) -> None:
    """kill -9 at one sync after the other, in one target: before and behind the renaming of each file."""
    samples = known_samples(norm=norm_of(layout))
    run = StoredRun(tmp_path / "run", layout, samples)
    command = [sys.executable, "-c", _KILLED_AT_A_SYNC]
    arguments = ["export", str(run.run.path), layout, str(tmp_path / "out")]
    killed = 0
    for sync in range(2, 60, 5):
        done = subprocess.run([*command, str(sync), *arguments], capture_output=True, check=False)
        if done.returncode == 0:
            break
        assert done.returncode == -signal.SIGKILL, done.stderr
        killed += 1
    assert killed >= 2
    assert run.export(layout, tmp_path / "out").already == 5
    holds(tmp_path / "out" / "B1", layout, samples)
