"""The end of the stores: one vocabulary for all data sets of a run, numbers without gaps, and whether it was done."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import pytest

from contracts.clock import Clock
from contracts.fold.dataset import DatasetFold
from contracts.records import StoredSample, encode_line
from contracts.run_config import RunConfig, parse_run_config
from contracts.run_dir import RunDir
from daemon.capture.row_numbers import RowNumbers
from daemon.extract.completing import COMPLETED, INCOMPLETE, Completing, is_described
from daemon.extract.stores import Store
from daemon.store.index import read_index
from daemon.store.layouts import make_layout
from daemon.store.torch_zip import read_archive
from tests.daemon.extract.support import Events, Journals
from tests.daemon.store.store_samples import make_sample, place

VOCAB, DRAFT = 50, 12


class Run:
    def __init__(
        self, path: Path, layout: str, draft: int | None = DRAFT, datasets: tuple[str, ...] = ("B1", "B2")
    ) -> None:
        self.run = RunDir(path)
        named = "".join(f'[[datasets]]\nname = "{name}"\n' for name in datasets)
        self.text = (
            f'[run]\nname = "x"\nstages = ["generate", "extract"]\n[extract]\nlayers = [2, 5, 9]\nlayout = "{layout}"\n'
            + ("" if draft is None else f"draft_vocab_size = {draft}\n")
            + f'[[servers]]\nurl = "http://h:1"\n{named}'
        )
        self.config: RunConfig = parse_run_config(self.text)
        self.events = Events()
        self.stores: dict[str, Store] = {}
        for name in datasets:
            folder = self.run.dataset(name)
            folder.path.mkdir(parents=True)
            folder.hidden_states.touch()
            made = make_layout(layout, self.run.store(name))
            self.stores[name] = Store(self.run.store(name), made, folder.hidden_states, RowNumbers())

    def add(self, name: str, row: int, seed: int, tokens: int = 9) -> StoredSample:
        store = self.stores[name]
        sample = make_sample(f"{name}-{row}", tokens=tokens, norm=store.layout.norm, seed=seed)
        record = place(store.layout, sample, row)
        Journals().append(store.index_path, encode_line(record))
        return record

    async def complete(self, vocab_size: int | None = VOCAB) -> list[str]:
        journals: Any = Journals()
        events: Any = self.events

        async def until_written() -> None:
            pass

        completing = Completing(self.run, self.config, journals, events, Clock(), until_written)
        before = len(self.events.said)
        await completing.complete(self.stores, None, vocab_size)
        return self.events.kinds[before:]

    def learned(self) -> Counter[int]:
        counts: Counter[int] = Counter()
        for store in self.stores.values():
            for record in read_index(store.index_path).records.values():
                loaded = store.layout.load(record)
                assert loaded.loss_mask is not None
                counts.update(loaded.ids[loaded.loss_mask == 1].tolist())
        return counts

    def is_described(self, name: str) -> bool:
        fold = DatasetFold(self.run.dataset(name))
        fold.poll()
        return is_described(self.run.store(name), fold.hidden, self.config.extract)


def chosen(counts: Counter[int]) -> list[int]:
    most = sorted(counts, key=lambda token: (-counts[token], token))[:DRAFT]
    return sorted(most)


async def test_speculators_stores_have_the_vocabulary_of_the_whole_run(tmp_path: Path) -> None:
    run = Run(tmp_path, "speculators")
    for row in range(3):
        run.add("B1", row, seed=row)
        run.add("B2", row, seed=10 + row, tokens=30)
    assert await run.complete() == [COMPLETED, COMPLETED]
    counts = run.learned()
    assert len(counts) > DRAFT
    for store in run.stores.values():
        assert read_archive(store.folder / "token_freq.pt").values == dict(counts)
        d2t, t2d = np.load(store.folder / f"d2t-{DRAFT}.npy"), np.load(store.folder / f"t2d-{DRAFT}.npy")
        assert (d2t + np.arange(DRAFT)).tolist() == np.flatnonzero(t2d).tolist() == chosen(counts)


async def test_specforge_finds_the_same_maps_at_either_root(tmp_path: Path) -> None:
    run = Run(tmp_path, "specforge")
    run.add("B1", 0, seed=1)
    run.add("B2", 0, seed=2, tokens=40)
    assert await run.complete() == [COMPLETED, COMPLETED]
    places = [run.run.stores, *(store.folder for store in run.stores.values())]
    maps = [(place / "vocab_mapping" / "vocab_mapping.pt").read_bytes() for place in places]
    assert len(set(maps)) == 1
    assert sorted(path.name for path in run.run.stores.iterdir()) == ["B1", "B2", "vocab_mapping"]
    assert not list((run.run.stores / "vocab_mapping").glob("*.ckpt*")), "no sample for a trainer"


@pytest.mark.parametrize("layout", ["safetensors", "modelopt"])
async def test_layouts_without_maps(layout: str, tmp_path: Path) -> None:
    run = Run(tmp_path, layout)
    run.add("B1", 0, seed=1)
    assert await run.complete() == [COMPLETED, COMPLETED]
    assert sorted(path.name for path in run.run.stores.iterdir()) == ["B1", "B2"]
    assert run.is_described("B1") and run.is_described("B2")


async def test_gaps_are_closed(tmp_path: Path) -> None:
    run = Run(tmp_path, "speculators", datasets=("B1",))
    for row in (0, 2, 5):
        run.add("B1", row, seed=row)
    assert await run.complete() == [COMPLETED]
    records = read_index(run.stores["B1"].index_path).records
    assert sorted(record.row for record in records.values()) == [0, 1, 2]
    assert run.is_described("B1")
    files = sorted(path.name for path in (run.run.store("B1") / "hidden_states").iterdir())
    assert files == ["hs_0.safetensors", "hs_1.safetensors", "hs_2.safetensors"]


async def test_gaps_are_not_closed_over_what_nobody_knows(tmp_path: Path) -> None:
    run = Run(tmp_path, "speculators", datasets=("B1",))
    for row in (0, 2):
        run.add("B1", row, seed=row)
    run.stores["B1"] = replace(run.stores["B1"], reserved=(1,))
    unknown = run.run.store("B1") / "hidden_states" / "hs_1.safetensors"
    unknown.write_bytes(b"somebody's")
    assert await run.complete() == [INCOMPLETE]
    assert "it is in the way: eagle3 verify" in run.events.said[-1][2]
    assert unknown.read_bytes() == b"somebody's"


async def test_only_what_the_index_gave_up_goes_at_the_end(tmp_path: Path) -> None:
    run = Run(tmp_path, "specforge", datasets=("B1",))
    run.add("B1", 0, seed=0)
    unknown = run.run.store("B1") / "rows_0-2000" / "data_7.ckpt"
    unknown.write_bytes(b"somebody's")
    assert await run.complete() == [COMPLETED]
    assert unknown.exists()


async def test_a_store_that_grew_since_is_not_complete(tmp_path: Path) -> None:
    run = Run(tmp_path, "specforge")
    run.add("B1", 0, seed=1)
    assert not run.is_described("B1") and run.is_described("B2"), "of nothing nothing is missing"
    await run.complete()
    assert run.is_described("B1") and run.is_described("B2")
    run.add("B1", 1, seed=2)
    assert not run.is_described("B1")
    await run.complete()
    assert run.is_described("B1")


async def test_maps_of_another_size_are_still_to_be_made(tmp_path: Path) -> None:
    run = Run(tmp_path, "specforge", draft=None)
    run.add("B1", 0, seed=1)
    await run.complete()
    assert run.is_described("B1")
    run.config.extract.draft_vocab_size = DRAFT
    assert not run.is_described("B1")
    await run.complete(vocab_size=None)
    assert not run.is_described("B1"), "not without the size of the vocabulary"
    await run.complete()
    assert run.is_described("B1")


async def test_a_failure_is_said_with_its_data_set_and_nothing_counts_as_complete(tmp_path: Path) -> None:
    run = Run(tmp_path, "specforge")
    run.add("B1", 0, seed=1)
    broken = run.add("B2", 0, seed=2)
    path = run.stores["B2"].folder / broken.file
    content = path.read_bytes()
    path.write_bytes(content[: len(content) // 2])
    assert await run.complete() == [INCOMPLETE]
    assert run.events.said[-1][2].startswith("B2: the files that belong beside the samples could not be written: ")
    assert not run.is_described("B1") and not run.is_described("B2")
    path.write_bytes(content)
    assert await run.complete() == [COMPLETED, COMPLETED]


async def test_an_id_beyond_the_vocabulary_is_said(tmp_path: Path) -> None:
    run = Run(tmp_path, "specforge")
    run.add("B1", 0, seed=1)
    assert await run.complete(vocab_size=13) == [INCOMPLETE]
    assert "the model's vocabulary has 13 ids" in run.events.said[-1][2]


def test_a_description_that_cannot_be_read_describes_nothing(tmp_path: Path) -> None:
    run = Run(tmp_path, "safetensors")
    run.add("B1", 0, seed=1)
    for content in (b"", b"{", b'{"samples": "1"}', b"\xff", msgspec.json.encode({"samples": 1, "tokens": 9})):
        (run.stores["B1"].folder / "eagle3-store.json").write_bytes(content)
        assert not run.is_described("B1")


@pytest.mark.parametrize("layout", ["safetensors", "specforge"])
async def test_a_store_that_was_moved_is_not_made_again_without_samples(layout: str, tmp_path: Path) -> None:
    run = Run(tmp_path, layout, datasets=("B1",))
    run.add("B1", 0, seed=1)
    run.run.stores.rename(tmp_path / "moved")
    assert await run.complete() == [INCOMPLETE]
    assert not run.run.stores.exists()
