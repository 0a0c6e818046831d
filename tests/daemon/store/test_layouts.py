"""Every layout: what goes in comes out, whole or not at all, and damage is named."""

from __future__ import annotations

import errno
import os
from pathlib import Path

import msgspec
import numpy as np
import pytest
import torch
from safetensors.torch import load as safetensors_load

from daemon.store import safetensors_
from daemon.store.layout import StoreError
from daemon.store.layouts import LAYOUTS, Renumbering, make_layout, norm_of
from daemon.store.writing import checksum_of
from tests.daemon.store.store_samples import (
    LAYERS,
    NAMES,
    RowsGone,
    files_in,
    make_sample,
    place,
    place_many,
    raw,
)

TORCH = {"bfloat16": torch.bfloat16, "float16": torch.float16, "float32": torch.float32}
HOSTILE = [
    "../../etc/passwd",
    "/abs/path",
    "a/b",
    "a_b",
    "a b",
    ".",
    "..",
    "",
    "-rf",
    ".hidden.part",
    "x" * 500,
    "x" * 499 + "y",
    "é漢字",
    "漢é字",
    "line\nbreak\0null",
    "\ud800 lone",
    7,
    -1,
    10**30,
]


@pytest.fixture(params=NAMES)
def name(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture(params=["small", "large"])
def size(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    """Whether samples of our own layout are large enough for a file of their own."""
    if request.param == "large":
        monkeypatch.setattr(safetensors_, "OWN_FILE_BYTES", 1)
    return str(request.param)


def tensors_of(name: str, folder: Path, record) -> dict[str, torch.Tensor]:
    """Read a sample as its trainer would: aux [L, K, H], last [L, H], ids, mask."""
    path = folder / record.file
    slots = len(LAYERS)
    if name in ("safetensors", "speculators"):
        found = safetensors_load(path.read_bytes()[record.offset :][: record.bytes])
        ids = found["input_ids" if name == "safetensors" else "token_ids"]
        states = found["hidden_states"]
        return {"aux": states[:, :-1], "last": states[:, -1], "ids": ids, "mask": found["loss_mask"]}
    by_name = {"specforge": ("aux_hidden_state", "hidden_state"), "modelopt": ("aux_hidden_states", "hidden_states")}
    aux_name, last_name = by_name[name]
    found = torch.load(path, mmap=True, weights_only=False)
    safe = torch.load(path, weights_only=True)
    for key in (aux_name, last_name, "input_ids", "loss_mask"):
        assert torch.equal(found[key], safe[key])
    assert found[aux_name].untyped_storage().data_ptr() == found[last_name].untyped_storage().data_ptr()
    aux, last = found[aux_name], found[last_name]
    if name == "specforge":
        assert aux.shape[0] == last.shape[0] == 1
        aux, last = aux[0], last[0]
    assert found["loss_mask"].dtype == torch.int64
    return {
        "aux": aux.unflatten(1, (slots, -1)),
        "last": last,
        "ids": found["input_ids"],
        "mask": found["loss_mask"],
    }


@pytest.mark.parametrize("dtype", ["bfloat16", "float16", "float32"])
def test_comes_out_as_it_went_in(name: str, size: str, dtype: str, tmp_path: Path) -> None:
    layout = make_layout(name, tmp_path / "store")
    sample = make_sample("a", dtype=dtype, norm=layout.norm)
    record = place(layout, sample)

    loaded = layout.load(record)
    assert b"".join(loaded.rows.blocks()) == raw(sample)
    assert loaded.rows.tokens == len(sample.ids)
    assert loaded.ids.tolist() == sample.ids.tolist()
    assert loaded.loss_mask is not None and loaded.loss_mask.tolist() == sample.loss_mask.tolist()
    assert loaded.ids.dtype == np.int64 and loaded.loss_mask.dtype == np.uint8
    assert loaded.form == sample.form

    seen = tensors_of(name, tmp_path / "store", record)
    rows = torch.frombuffer(bytearray(raw(sample)), dtype=TORCH[dtype]).view(len(sample.ids), len(LAYERS) + 1, -1)
    assert seen["aux"].dtype == TORCH[dtype]
    assert torch.equal(seen["aux"], rows[:, :-1])
    assert torch.equal(seen["last"], rows[:, -1])
    assert seen["ids"].tolist() == sample.ids.tolist() and seen["ids"].dtype == torch.int64
    assert seen["mask"].tolist() == sample.loss_mask.tolist()


def test_checksum_and_size_are_those_of_the_bytes(name: str, size: str, tmp_path: Path) -> None:
    layout = make_layout(name, tmp_path)
    for record in place_many(layout, 3):
        path = tmp_path / record.file
        assert checksum_of(path, record.offset, record.bytes) == record.checksum
        damaged = bytearray(path.read_bytes())
        damaged[record.offset + record.bytes // 2] ^= 1
        path.write_bytes(damaged)
        assert checksum_of(path, record.offset, record.bytes) != record.checksum
        with pytest.raises(StoreError, match="too early"):
            checksum_of(path, record.offset, path.stat().st_size - record.offset + 1)


def test_file_is_about_as_large_as_its_rows(name: str, tmp_path: Path) -> None:
    layout = make_layout(name, tmp_path)
    sample = make_sample("a", tokens=300, hidden=256, norm=layout.norm)
    assert place(layout, sample).bytes < len(raw(sample)) + 300 * 16 + 4096


def test_same_sample_gives_the_same_bytes(name: str, tmp_path: Path) -> None:
    first, second = (
        place(make_layout(name, tmp_path / folder), make_sample("a", norm=norm_of(name))) for folder in ("one", "two")
    )
    assert first == second


def test_rows_that_raise_leave_nothing(name: str, size: str, tmp_path: Path) -> None:
    layout = make_layout(name, tmp_path)
    kept = place(layout, make_sample("kept", norm=layout.norm), 0)
    before = files_in(tmp_path)
    sizes = [(tmp_path / file).stat().st_size for file in before]
    with pytest.raises(RowsGone):
        layout.place(make_sample("broken", norm=layout.norm, fail_at=6), 1)
    assert files_in(tmp_path) == before
    assert [(tmp_path / file).stat().st_size for file in before] == sizes
    assert layout.load(kept).ids.size


@pytest.mark.parametrize("fault", ["short", "long", "ids", "mask"])
def test_what_does_not_fit_together_is_not_stored(name: str, size: str, fault: str, tmp_path: Path) -> None:
    layout = make_layout(name, tmp_path)
    sample = make_sample("a", norm=layout.norm)
    if fault in ("short", "long"):
        blocks = list(sample.rows.blocks())
        changed = blocks[:-1] if fault == "short" else [*blocks, blocks[0]]
        sample.rows.blocks = lambda: iter(changed)
    elif fault == "ids":
        sample = type(sample)(**{**vars(sample), "ids": sample.ids[:-1]})
    else:
        sample = type(sample)(**{**vars(sample), "loss_mask": sample.loss_mask[:-1]})
    with pytest.raises(StoreError, match="'a'"):
        layout.place(sample, 0)
    assert files_in(tmp_path) == []


def test_full_disk_leaves_nothing(name: str, size: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    layout = make_layout(name, tmp_path)
    kept = place(layout, make_sample("kept", norm=layout.norm), 0)
    before = {file: (tmp_path / file).read_bytes() for file in files_in(tmp_path)}
    room = [400]

    def fill(function):
        def write(descriptor: int, data, *rest: int) -> int:
            if not Path(f"/proc/self/fd/{descriptor}").readlink().is_relative_to(tmp_path):
                return int(function(descriptor, data, *rest))
            if not room[0]:
                raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
            count = function(descriptor, memoryview(data)[: room[0]], *rest)
            room[0] -= count
            return int(count)

        return write

    with monkeypatch.context() as patch:
        patch.setattr(os, "write", fill(os.write))
        patch.setattr(os, "pwrite", fill(os.pwrite))
        with pytest.raises(OSError) as failed:
            layout.place(make_sample("late", norm=layout.norm), 1)
    assert failed.value.errno == errno.ENOSPC
    assert {file: (tmp_path / file).read_bytes() for file in files_in(tmp_path)} == before

    late = place(layout, make_sample("late", norm=layout.norm), 1)
    assert layout.load(late).ids.size and layout.load(kept).ids.size
    assert layout.strays([kept, late]) == []


def test_killed_before_the_name_is_final_leaves_a_stray(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(safetensors_, "OWN_FILE_BYTES", 1)
    layout = make_layout(name, tmp_path)
    kept = place(layout, make_sample("kept", norm=layout.norm), 0)
    with monkeypatch.context() as patch:
        # As after SIGKILL: the name stays temporary, and nobody cleans up.
        patch.setattr(Path, "rename", lambda *_: (_ for _ in ()).throw(KeyboardInterrupt))
        patch.setattr(Path, "unlink", lambda *_, **__: None)
        with pytest.raises(KeyboardInterrupt):
            layout.place(make_sample("killed", norm=layout.norm), 1)
    (stray,) = layout.strays([kept])
    assert stray.name.startswith(".") and stray.name.endswith(".part")
    if name == "modelopt":
        assert len(list(tmp_path.rglob("*.pt"))) == 1
    if name == "specforge":
        assert len([path for path in tmp_path.rglob("*") if path.name.endswith((".ckpt", ".ckpt.gz"))]) == 1


def test_killed_before_the_record_leaves_a_stray(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(safetensors_, "OWN_FILE_BYTES", 1)
    layout = make_layout(name, tmp_path)
    kept, lost = place_many(layout, 2)
    assert layout.strays([kept]) == [tmp_path / lost.file]
    assert layout.strays([kept, lost]) == []
    assert layout.cut_back([kept, lost]) == []


def test_only_what_a_trainer_would_read_is_a_stray(name: str, tmp_path: Path) -> None:
    layout = make_layout(name, tmp_path)
    record = place(layout, make_sample("a", norm=layout.norm))
    others = ["README.md", "norm.safetensors", "eagle3-store.json", "token_freq.npy", "cache-1.arrow"]
    for file in others + (["model.safetensors"] if name == "safetensors" else []):
        (tmp_path / file).write_bytes(b"x")
    assert layout.strays([record]) == []
    odd = {
        "safetensors": [f"b-{32 * '0'}.safetensors", "shard-9.e3s"],
        "specforge": ["deep/er/x.ckpt", "y.ckpt.gz"],
        "speculators": ["hidden_states/hs_9.safetensors", "hidden_states/hs_x.safetensors"],
        "modelopt": ["deep/b.pt", "z.pt"],
    }[name]
    for file in odd:
        (tmp_path / file).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / file).write_bytes(b"x")
    assert [path.relative_to(tmp_path).as_posix() for path in layout.strays([record])] == sorted(odd)


def test_strays_of_a_store_that_is_not_there(name: str, tmp_path: Path) -> None:
    layout = make_layout(name, tmp_path / "nothing")
    assert layout.strays([]) == [] and layout.cut_back([]) == []
    assert not (tmp_path / "nothing").exists()


def test_hostile_ids(name: str, size: str, tmp_path: Path) -> None:
    folder = tmp_path / "run" / "store"
    layout = make_layout(name, folder)
    samples = [make_sample(sample_id, norm=layout.norm, seed=row) for row, sample_id in enumerate(HOSTILE)]
    records = [place(layout, sample, row) for row, sample in enumerate(samples)]
    assert len({(record.file, record.offset) for record in records}) == len(HOSTILE)
    for sample, record in zip(samples, records, strict=True):
        assert layout.load(record).ids.tolist() == sample.ids.tolist()
        tensors_of(name, folder, record)
    assert [path.name for path in tmp_path.iterdir()] == ["run"]
    assert [path.name for path in (tmp_path / "run").iterdir()] == ["store"]
    assert layout.strays(records) == []


def test_number_and_text_are_one_sample(name: str, tmp_path: Path) -> None:
    layout = make_layout(name, tmp_path)
    record = place(layout, make_sample(7, norm=layout.norm))
    record.sample_id = "7"
    assert layout.load(record).ids.size


def test_missing_file(name: str, tmp_path: Path) -> None:
    layout = make_layout(name, tmp_path)
    record = place(layout, make_sample("a", norm=layout.norm))
    (tmp_path / record.file).unlink()
    with pytest.raises(StoreError, match="is missing"):
        layout.load(record)
    (tmp_path / record.file).mkdir()
    with pytest.raises(StoreError, match="is no file"):
        layout.load(record)
    record.file = "../outside"
    with pytest.raises(StoreError, match="not in"):
        layout.load(record)


def test_cut_at_every_length(name: str, size: str, tmp_path: Path) -> None:
    layout = make_layout(name, tmp_path)
    record = place(layout, make_sample("a", tokens=3, hidden=4, norm=layout.norm))
    path = tmp_path / record.file
    whole = path.read_bytes()
    for length in range(0, len(whole), 13):
        path.write_bytes(whole[:length])
        with pytest.raises(StoreError, match="cut short") as failed:
            layout.load(record)
        assert str(path) in str(failed.value)
        # Told that this is all there should be, the form itself still shows that it is not.
        shorter = msgspec.structs.replace(record, bytes=length)
        with pytest.raises(StoreError, match=str(path)):
            layout.load(shorter)


def test_bytes_behind_the_end(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(safetensors_, "OWN_FILE_BYTES", 1)
    layout = make_layout(name, tmp_path)
    record = place(layout, make_sample("a", norm=layout.norm))
    with (tmp_path / record.file).open("ab") as stream:
        stream.write(b"\0")
    with pytest.raises(StoreError, match="more than"):
        layout.load(record)


def test_a_damaged_byte_is_named_or_harmless_to_the_reader(name: str, tmp_path: Path) -> None:
    layout = make_layout(name, tmp_path)
    record = place(layout, make_sample("a", tokens=3, hidden=4, norm=layout.norm))
    path = tmp_path / record.file
    whole = path.read_bytes()
    refused = 0
    for number, where in enumerate(range(0, len(whole), 5)):
        damaged = bytearray(whole)
        damaged[where] ^= (0x01, 0x80, 0xFF)[number % 3]
        path.write_bytes(damaged)
        try:
            loaded = layout.load(record)
            assert len(b"".join(loaded.rows.blocks())) == 3 * 4 * 4 * 2
        except StoreError as error:
            assert str(path) in str(error)
            refused += 1
    assert refused > len(whole) / 50


def test_record_of_another_shape(name: str, tmp_path: Path) -> None:
    layout = make_layout(name, tmp_path)
    sample = make_sample("a", norm=layout.norm)
    for change, words in (
        ({"tokens": 12}, "11 rows, its index record says 12"),
        ({"layers": [1, 2]}, "4 slots a row, its index record says 3"),
        ({"hidden_size": 9}, "8 values a slot, its index record says 9"),
        ({"dtype": "float16"}, "bfloat16, its index record says float16"),
    ):
        record = place(layout, sample)
        for field, value in change.items():
            setattr(record, field, value)
        with pytest.raises(StoreError, match=words):
            layout.load(record)


def test_another_samples_file(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(safetensors_, "OWN_FILE_BYTES", 1)
    layout = make_layout(name, tmp_path)
    one, other = (place(layout, make_sample(name_, norm=layout.norm), row) for row, name_ in enumerate("xy"))
    here, there = tmp_path / one.file, tmp_path / other.file
    here.rename(tmp_path / "aside")
    there.rename(here)
    (tmp_path / "aside").rename(there)
    with pytest.raises(StoreError, match="holds the sample 'y', not 'x'"):
        layout.load(one)


def test_rows_cut_while_they_are_read(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("daemon.store.reading.BLOCK_BYTES", 64)
    layout = make_layout(name, tmp_path)
    record = place(layout, make_sample("a", norm=layout.norm))
    blocks = layout.load(record).rows.blocks()
    next(blocks)
    os.truncate(tmp_path / record.file, 600)
    with pytest.raises(StoreError, match="too early"):
        list(blocks)


def test_many_rows_in_one_folder_of_specforge(tmp_path: Path) -> None:
    layout = make_layout("specforge", tmp_path)
    files = [place(layout, make_sample(f"s{row}"), row).file for row in (0, 1999, 2000, 4001)]
    assert files == [
        "rows_0-2000/data_0.ckpt",
        "rows_0-2000/data_1999.ckpt",
        "rows_2000-4000/data_2000.ckpt",
        "rows_4000-6000/data_4001.ckpt",
    ]


def test_modelopt_holds_the_id(tmp_path: Path) -> None:
    layout = make_layout("modelopt", tmp_path)
    record = place(layout, make_sample("\ud800 x"))
    assert torch.load(tmp_path / record.file, weights_only=True)["conversation_id"] == "\ud800 x"


def test_names() -> None:
    assert list(LAYOUTS) == NAMES
    assert {name: norm_of(name) for name in NAMES} == {
        "safetensors": "post",
        "specforge": "post",
        "speculators": "over_weight",
        "modelopt": "post",
    }
    assert [isinstance(make_layout(name, Path("x")), Renumbering) for name in NAMES] == [False, False, True, False]
    with pytest.raises(ValueError, match="known: safetensors"):
        make_layout("csv", Path("x"))
