"""Documents in shards are found without any table, and taken out one by one."""

from __future__ import annotations

from pathlib import Path

from hypothesis import given, settings
from hypothesis import strategies as st

from daemon.store.layouts import make_layout
from daemon.store.shard_gaps import stretches, void
from tests.daemon.store.store_samples import make_sample, place, place_many


def test_documents_without_a_record(tmp_path: Path) -> None:
    layout = make_layout("safetensors", tmp_path)
    records = place_many(layout, 5)
    assert list(stretches(tmp_path, records)) == []
    found = list(stretches(tmp_path, [records[1], records[3]]))
    assert [(one.offset, one.length, one.whole) for one in found] == [
        (record.offset, record.bytes, True) for record in (records[0], records[2], records[4])
    ]
    assert len(list(stretches(tmp_path, []))) == 5


def test_behind_damage_the_next_one_is_found(tmp_path: Path) -> None:
    layout = make_layout("safetensors", tmp_path)
    records = place_many(layout, 4)
    shard = tmp_path / "shard-0.e3s"
    content = bytearray(shard.read_bytes())
    content[records[1].offset : records[1].offset + 8] = b"\xff" * 8
    shard.write_bytes(content + b"half a docu")
    first, damage, third, fourth, tail = stretches(tmp_path, [])
    assert [one.offset for one in (first, third, fourth)] == [records[n].offset for n in (0, 2, 3)]
    assert (damage.whole, tail.whole, tail.length) == (False, False, 11)
    assert [one.offset for one in stretches(tmp_path, [records[3]]) if one.whole] == [0, records[2].offset]


def test_what_was_taken_out_is_not_found_again(tmp_path: Path) -> None:
    layout = make_layout("safetensors", tmp_path)
    records = place_many(layout, 3)
    (found,) = stretches(tmp_path, [records[0], records[2]])
    void(found)
    assert list(stretches(tmp_path, [records[0], records[2]])) == []
    assert all(layout.load(record).ids.size for record in (records[0], records[2]))


@given(junk=st.lists(st.binary(max_size=300), max_size=5), sizes=st.lists(st.integers(1, 40), min_size=5, max_size=5))
@settings(max_examples=60, deadline=None)
def test_every_whole_document_is_found_between_any_bytes(
    junk: list[bytes], sizes: list[int], tmp_path_factory: object
) -> None:
    folder = tmp_path_factory.mktemp("gaps")  # type: ignore[attr-defined]
    records = []
    for number, tokens in enumerate(sizes):
        with (folder / "shard-0.e3s").open("ab") as shard:
            shard.write(junk[number] if number < len(junk) else b"")
        # A layout of its own each time: it goes on behind what is there.
        records.append(place(make_layout("safetensors", folder), make_sample(f"s{number}", tokens=tokens, seed=number)))
    found = {(one.offset, one.length) for one in stretches(folder, []) if one.whole}
    assert found >= {(record.offset, record.bytes) for record in records}
