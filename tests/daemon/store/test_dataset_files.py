"""The files beside the samples, read as the trainers read them."""

from __future__ import annotations

import json
import sys
from collections import Counter
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
import torch

from daemon.store import arrow_dataset
from daemon.store.dataset_files import MissingPackageError, write_dataset_files
from daemon.store.layout import StoreError
from daemon.store.layouts import make_layout, norm_of
from daemon.store.norm_file import NORM_FILE, read_norm, write_norm
from daemon.store.norms import NormWeight
from daemon.store.vocabulary import TokenCounts, vocabulary_maps
from tests.daemon.store.store_samples import NAMES, files_in, make_sample, place, place_many

NORM = NormWeight(np.linspace(0.5, 2, 8, dtype=np.float32), 1e-6)


@pytest.fixture(params=NAMES)
def name(request: pytest.FixtureRequest) -> str:
    return str(request.param)


def write(layout, folder: Path, records, draft: int | None = 12, vocab: int | None = 50, norm=NORM) -> list[str]:
    return write_dataset_files(layout, folder, records, draft_vocab_size=draft, vocab_size=vocab, norm=norm)


def learned(layout, records) -> Counter[int]:
    counts: Counter[int] = Counter()
    for record in records:
        loaded = layout.load(record)
        counts.update(loaded.ids[loaded.loss_mask == 1].tolist())
    return counts


def test_no_file_is_taken_for_a_sample(name: str, tmp_path: Path) -> None:
    layout = make_layout(name, tmp_path)
    records = place_many(layout, 3)
    samples = set(files_in(tmp_path))
    said = write(layout, tmp_path, records)
    beside = set(files_in(tmp_path)) - samples
    assert layout.strays(records) == []
    endings = {"specforge": (".ckpt", ".ckpt.gz"), "modelopt": (".pt",)}.get(name, ())
    assert not [file for file in beside if endings and file.endswith(endings)]
    assert beside == {"norm.safetensors", "eagle3-store.json"} | {
        "specforge": {"vocab_mapping/vocab_mapping.pt"},
        "speculators": {
            "data-00000-of-00001.arrow",
            "dataset_info.json",
            "state.json",
            "token_freq.pt",
            "d2t-12.npy",
            "t2d-12.npy",
        },
    }.get(name, set())
    for file in beside:
        assert Path(file).name in " ".join(said)


def test_what_the_store_is(name: str, tmp_path: Path) -> None:
    layout = make_layout(name, tmp_path)
    records = place_many(layout, 3)
    write(layout, tmp_path, records)
    found = json.loads((tmp_path / "eagle3-store.json").read_text())
    assert found["layers"] == [2, 5, 9] and found["norm"] == norm_of(name) and found["dtype"] == "bfloat16"
    assert (found["samples"], found["tokens"], found["hidden_size"]) == (3, 5 + 6 + 7, 8)
    norm = read_norm(tmp_path)
    assert norm is not None and norm.eps == 1e-6 and np.array_equal(norm.weight, NORM.weight)


def test_again_with_more_samples(name: str, tmp_path: Path) -> None:
    layout = make_layout(name, tmp_path)
    records = place_many(layout, 2)
    write(layout, tmp_path, records, norm=None)
    assert read_norm(tmp_path) is None
    write(layout, tmp_path, records)
    records.append(place(layout, make_sample("more", tokens=40, norm=layout.norm), 2))
    write(layout, tmp_path, records, norm=None)
    assert json.loads((tmp_path / "eagle3-store.json").read_text())["samples"] == 3
    assert read_norm(tmp_path) is not None
    if name == "speculators":
        assert torch.load(tmp_path / "token_freq.pt", weights_only=True) == learned(layout, records)


def test_a_store_without_samples(name: str, tmp_path: Path) -> None:
    write(make_layout(name, tmp_path / "s"), tmp_path / "s", [])
    assert json.loads((tmp_path / "s" / "eagle3-store.json").read_text())["layers"] is None


def test_arrow_data_set(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(arrow_dataset, "_BATCH_TOKENS", 12)
    layout = make_layout("speculators", tmp_path)
    records = place_many(layout, 7)
    write(layout, tmp_path, records)
    with (tmp_path / "data-00000-of-00001.arrow").open("rb") as stream:
        reader = pa.ipc.open_stream(stream)
        batches = list(reader)
    assert len(batches) > 2
    rows = [row for batch in batches for row in batch.to_pylist()]
    for row, record in zip(rows, records, strict=True):
        loaded = layout.load(record)
        assert row == {
            "input_ids": loaded.ids.tolist(),
            "loss_mask": loaded.loss_mask.tolist(),
            "seq_len": record.tokens,
        }
    assert reader.schema.field("input_ids").type == reader.schema.field("loss_mask").type == pa.list_(pa.int64())
    features = json.loads((tmp_path / "dataset_info.json").read_text())["features"]
    assert json.loads(reader.schema.metadata[b"huggingface"])["info"]["features"] == features
    assert list(features) == ["input_ids", "loss_mask", "seq_len"]
    state = json.loads((tmp_path / "state.json").read_text())
    assert state["_format_type"] == "torch" and state["_data_files"] == [{"filename": "data-00000-of-00001.arrow"}]
    assert len(state["_fingerprint"]) == 16


def test_fingerprint_follows_the_data(tmp_path: Path) -> None:
    prints = []
    layout = make_layout("speculators", tmp_path)
    records = place_many(layout, 3)
    for some in (records[:2], records, records):
        write(layout, tmp_path, some)
        prints.append(json.loads((tmp_path / "state.json").read_text())["_fingerprint"])
    assert prints[0] != prints[1] == prints[2]


def test_maps_as_the_trainers_make_them(tmp_path: Path) -> None:
    for name in ("speculators", "specforge"):
        layout = make_layout(name, tmp_path / name)
        records = place_many(layout, 6)
        counts = learned(layout, records)
        write(layout, tmp_path / name, records)
        # As speculators' build_vocab_mappings_from_distribution selects them.
        wanted = sorted(sorted(counts, key=lambda token: (-counts[token], token))[:12])
        if name == "speculators":
            d2t, t2d = (np.load(tmp_path / name / f"{which}-12.npy") for which in ("d2t", "t2d"))
        else:
            found = torch.load(tmp_path / name / "vocab_mapping/vocab_mapping.pt", weights_only=True)
            d2t, t2d = found["d2t"].numpy(), found["t2d"].numpy()
        assert d2t.dtype == np.int64 and t2d.dtype == np.bool_ and t2d.shape == (50,)
        assert (d2t + np.arange(12)).tolist() == wanted == np.flatnonzero(t2d).tolist()


def test_few_tokens_are_filled_up_with_the_lowest_others() -> None:
    counts = TokenCounts()
    counts.add(np.array([9, 9, 1, 5, 30]), np.array([1, 1, 1, 1, 0], np.uint8))
    counts.add(np.array([40]), np.array([1], np.uint8))
    assert counts.frequencies() == {1: 1, 5: 1, 9: 2, 40: 1}
    assert counts.most_frequent(2).tolist() == [1, 9]
    assert counts.most_frequent(6).tolist() == [0, 1, 2, 5, 9, 40]
    d2t, t2d = vocabulary_maps(counts, 41, 41)
    assert d2t.tolist() == [0] * 41 and t2d.all()
    with pytest.raises(StoreError, match="lower draft_vocab_size"):
        vocabulary_maps(counts, 42, 41)
    with pytest.raises(StoreError, match="token id 40 occurs"):
        vocabulary_maps(counts, 4, 40)


def test_both_sizes_are_needed(tmp_path: Path) -> None:
    layout = make_layout("specforge", tmp_path)
    records = place_many(layout, 2)
    assert any("no maps of the draft" in sentence for sentence in write(layout, tmp_path, records, vocab=None))
    assert not any("draft vocabulary" in sentence for sentence in write(layout, tmp_path, records, draft=None))
    assert not (tmp_path / "vocab_mapping").exists()


def test_holes_in_the_rows_of_speculators(tmp_path: Path) -> None:
    layout = make_layout("speculators", tmp_path)
    records = place_many(layout, 3)
    with pytest.raises(StoreError, match="row 2, where row 1 is expected"):
        write(layout, tmp_path, [records[0], records[2]])
    assert any("2 samples at least" in sentence for sentence in write(layout, tmp_path, records[:1]))


def test_samples_of_two_forms(tmp_path: Path) -> None:
    layout = make_layout("modelopt", tmp_path)
    one, other = place_many(layout, 2)
    other.layers = [1, 5, 9]
    with pytest.raises(StoreError, match="cannot be one data set"):
        write(layout, tmp_path, [one, other])


def test_a_damaged_sample_leaves_what_was_there(tmp_path: Path) -> None:
    layout = make_layout("speculators", tmp_path)
    records = place_many(layout, 3)
    write(layout, tmp_path, records)
    before = {file: (tmp_path / file).read_bytes() for file in files_in(tmp_path) if "hs_" not in file}
    (tmp_path / records[2].file).write_bytes(b"")
    with pytest.raises(StoreError, match="hs_2"):
        write(layout, tmp_path, records)
    assert {file: (tmp_path / file).read_bytes() for file in files_in(tmp_path) if "hs_" not in file} == before


def test_without_pyarrow(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    layout = make_layout("speculators", tmp_path)
    with pytest.raises(MissingPackageError, match=r"eagle3-tui\[speculators\]"):
        write(layout, tmp_path, place_many(layout, 2))
    other = make_layout("specforge", tmp_path / "other")
    write(other, tmp_path / "other", place_many(other, 2))


def test_damaged_norm_file(tmp_path: Path) -> None:
    path = write_norm(tmp_path, NORM)
    whole = path.read_bytes()
    for content, words in (
        (whole[:-1], "cut short"),
        (whole.replace(b"weight", b"waight"), "no weight"),
        (whole.replace(b'"1e-06"', b'"1e-xx"'), "eps"),
    ):
        (tmp_path / NORM_FILE).write_bytes(content)
        with pytest.raises(StoreError, match=words):
            read_norm(tmp_path)
