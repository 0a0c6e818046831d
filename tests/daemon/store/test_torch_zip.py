"""Files of torch.save without torch: torch reads ours, we read torch's, and nothing else is believed."""

from __future__ import annotations

import pickle
import zipfile
from pathlib import Path

import numpy as np
import pytest
import torch

from daemon.store.layout import StoreError
from daemon.store.torch_pickle import PickleError, Storage, View, decode_pickle, encode_pickle
from daemon.store.torch_zip import read_archive, write_archive
from daemon.store.writing import new_file


def write(path: Path, *args, **kwargs) -> Path:
    with new_file(path) as output:
        write_archive(output, *args, **kwargs)
    return path


def load_both(path: Path):
    safe = torch.load(path, weights_only=True)
    torch.load(path, mmap=True, weights_only=False)
    return safe


def test_texts_and_numbers(tmp_path: Path) -> None:
    values = {"é": "漢 \ud800", "small": -1, "byte": 255, "large": 1 << 40, "negative": -(1 << 63), "huge": 1 << 2000}
    assert load_both(write(tmp_path / "f.pt", values)) == values
    assert read_archive(tmp_path / "f.pt").values == values


def test_counts_by_id(tmp_path: Path) -> None:
    counts = {token: token * token for token in range(0, 200_000, 7)}
    assert load_both(write(tmp_path / "f.pt", counts)) == counts
    assert load_both(write(tmp_path / "empty.pt", {})) == {}


def test_every_dtype(tmp_path: Path) -> None:
    arrays = {
        "int64": np.arange(5, dtype=np.int64),
        "float32": np.arange(5, dtype=np.float32),
        "float16": np.arange(5, dtype=np.float16).view(np.uint16),
        "bfloat16": torch.arange(5, dtype=torch.bfloat16).view(torch.uint16).numpy(),
        "uint8": np.arange(5, dtype=np.uint8),
        "bool": np.array([True, False, True, True, False]),
    }
    storages = {name: Storage(str(place), name, 5) for place, name in enumerate(arrays)}
    write(
        tmp_path / "f.pt",
        {name: View.whole(storage) for name, storage in storages.items()},
        [(storages[name], [array.data]) for name, array in arrays.items()],
        {"format": "x"},
    )
    for name, tensor in load_both(tmp_path / "f.pt").items():
        assert tensor.dtype == getattr(torch, name)
        assert tensor.tolist() == ([True, False, True, True, False] if name == "bool" else list(range(5)))
    found = read_archive(tmp_path / "f.pt")
    assert found.facts == {"format": "x"}
    content = (tmp_path / "f.pt").read_bytes()
    for name, storage in storages.items():
        begin = found.places[storage.key]
        assert begin % 64 == 0
        assert content[begin : begin + storage.bytes] == arrays[name].tobytes()


def test_views_of_one_storage(tmp_path: Path) -> None:
    data = torch.arange(4 * 6, dtype=torch.float32)
    storage = Storage("0", "float32", 24)
    values = {"aux": View(storage, (1, 4, 4), (24, 6, 1)), "last": View(storage, (1, 4, 2), (24, 6, 1), 4)}
    found = load_both(write(tmp_path / "f.pt", values, [(storage, [data.numpy().data])]))
    assert torch.equal(found["aux"], data.as_strided((1, 4, 4), (24, 6, 1), 0))
    assert torch.equal(found["last"], data.as_strided((1, 4, 2), (24, 6, 1), 4))
    assert found["aux"].untyped_storage().data_ptr() == found["last"].untyped_storage().data_ptr()


def test_the_zip_is_sound_and_aligned(tmp_path: Path) -> None:
    storage = Storage("0", "int64", 5)
    path = write(tmp_path / "f.pt", {"a": View.whole(storage)}, [(storage, [np.arange(5).data])])
    with zipfile.ZipFile(path) as archive:
        assert archive.testzip() is None
        assert archive.namelist() == [
            f"archive/{name}" for name in ("data.pkl", "byteorder", "data/0", "version", ".data/serialization_id")
        ]
        assert archive.read("archive/byteorder") == b"little" and archive.read("archive/version") == b"3\n"
        assert len(archive.read("archive/.data/serialization_id")) == 40


def test_beyond_the_limits_of_a_plain_zip(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """As with sizes and offsets over 4 GB: each goes into the 64-bit fields."""
    monkeypatch.setattr(zipfile, "ZIP64_LIMIT", 700)
    storages = [Storage(str(key), "int64", 100) for key in range(3)]
    values = {storage.key: View.whole(storage) for storage in storages}
    path = write(tmp_path / "f.pt", values, [(one, [(np.arange(100) + int(one.key)).data]) for one in storages])
    assert b"PK\x06\x06" in path.read_bytes()
    monkeypatch.undo()
    for key, tensor in load_both(path).items():
        assert tensor.tolist() == list(range(int(key), 100 + int(key)))
    with zipfile.ZipFile(path) as archive:
        assert archive.testzip() is None
    assert set(read_archive(path).places) == {"0", "1", "2"}


def test_over_four_gigabytes(tmp_path: Path) -> None:
    """A directory that points beyond 4 GB, in a sparse file: 4.1 GB of zeros that take no room."""

    class Sparse:
        """Skips over zeros instead of writing them."""

        def __init__(self, path: Path) -> None:
            self.stream = path.open("wb")
            self.count = 0

        def write(self, data) -> int:
            view = memoryview(data)
            if view.nbytes == HOLE.nbytes:
                self.stream.seek(view.nbytes, 1)
            else:
                self.stream.write(data)
            self.count += view.nbytes
            return view.nbytes

        def flush(self) -> None:
            self.stream.flush()

    HOLE = memoryview(bytes(1 << 24))
    blocks = 264
    big, small = Storage("0", "uint8", blocks << 24), Storage("1", "int64", 3)
    output = Sparse(tmp_path / "f.pt")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(zipfile, "crc32", lambda *_: 0)  # 4 GB of it would take seconds, and torch looks at none
        write_archive(
            output,  # type: ignore[arg-type]
            {"big": View.whole(big), "small": View.whole(small)},
            [(big, [HOLE] * blocks), (small, [np.array([3, 4, 5]).data])],
        )
    output.stream.close()
    assert (tmp_path / "f.pt").stat().st_size > 1 << 32
    found = torch.load(tmp_path / "f.pt", mmap=True, weights_only=True)
    assert found["big"].shape == (blocks << 24,) and found["small"].tolist() == [3, 4, 5]


def test_reads_what_torch_writes(tmp_path: Path) -> None:
    base = torch.arange(24, dtype=torch.float32).to(torch.bfloat16)
    values = {"a": base.as_strided((4, 4), (6, 1), 2), "ids": torch.arange(3), "name": "x", "n": 3}
    torch.save(values, tmp_path / "f.pt")
    found = read_archive(tmp_path / "f.pt")
    view = found.values["a"]
    assert isinstance(view, View)
    assert (view.shape, view.strides, view.offset, view.storage.dtype) == ((4, 4), (6, 1), 2, "bfloat16")
    assert found.values["name"] == "x" and found.values["n"] == 3 and found.facts == {}
    content = (tmp_path / "f.pt").read_bytes()
    begin = found.places[view.storage.key]
    assert content[begin : begin + 48] == base.view(torch.uint8).numpy().tobytes()


class Evil:
    def __reduce__(self):
        return (exec, ("raise SystemExit('ran')",))


@pytest.mark.parametrize(
    "text",
    [
        pickle.dumps({"a": Evil()}, 2),
        pickle.dumps({"a": [1]}, 2),
        pickle.dumps([1], 2),
        pickle.dumps({"a": torch.float32}, 2),
        pickle.dumps({(1,): 2}, 2),
        b"",
        b"\x80\x02}",
        b"\x80\x02}(X\xff\xff\xff\x7fa",
        b"\x80\x02h\x07.",
        b"\x80\x02Q.",
        b"\x80\x02K\x01Q.",
        encode_pickle({"a": View(Storage("0", "int64", 3), (4,), (1,))}),
        encode_pickle({"a": View(Storage("0", "int64", 3), (2,), (-1,), 2)}),
        encode_pickle({"a": View(Storage("0", "int64", 3), (2, 2), (1,))}),
    ],
)
def test_pickles_that_are_not_believed(text: bytes) -> None:
    with pytest.raises(PickleError):
        decode_pickle(text)


def test_storages_of_another_size(tmp_path: Path) -> None:
    storage = Storage("0", "int64", 5)
    with pytest.raises(ValueError, match="got 32 bytes, it should have 40"):
        write(tmp_path / "f.pt", {"a": View.whole(storage)}, [(storage, [np.arange(4).data])])
    assert list(tmp_path.iterdir()) == []
    write(tmp_path / "f.pt", {"a": View.whole(storage)})
    with pytest.raises(StoreError, match="no record of its storage 0"):
        read_archive(tmp_path / "f.pt")
    larger = Storage("0", "int64", 6)
    write(tmp_path / "g.pt", {"a": View.whole(storage)}, [(larger, [np.arange(6).data])])
    with pytest.raises(StoreError, match="48 bytes in its storage 0, its tensors need 40"):
        read_archive(tmp_path / "g.pt")


def test_other_files(tmp_path: Path) -> None:
    path = tmp_path / "f.pt"
    torch.save({"a": torch.arange(3)}, path, _use_new_zipfile_serialization=False)
    with pytest.raises(StoreError, match=r"f\.pt cannot be read"):
        read_archive(path)
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("x", b"y")
    with pytest.raises(StoreError, match=r"no data\.pkl"):
        read_archive(path)
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("a/data.pkl", encode_pickle({"a": View.whole(Storage("0", "int64", 100))}))
        archive.writestr("a/data/0", bytes(800))
    with pytest.raises(StoreError, match="storage 0"):
        read_archive(path)
