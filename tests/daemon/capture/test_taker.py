from __future__ import annotations

import errno
import os
import random
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from contracts.clock import Clock
from contracts.records import CaptureCheck, StoredSample, encode_line
from daemon.capture.fault import CaptureFault
from daemon.capture.order import TakeOrder
from daemon.capture.row_numbers import RowNumbers
from daemon.capture.taker import take
from daemon.sglang_plugin.eagle3_sglang.dump_files import DumpFiles
from daemon.store.layout import Placed
from daemon.store.sample import RowForm, Sample
from tests.daemon.capture.dumps import (
    FORM,
    MODEL,
    MemoryLayout,
    make_about,
    make_header,
    make_order,
    make_rid,
    make_rows,
    mark_offset,
    poke,
    row_offset,
    write_dump,
)

RID = make_rid(1)
PROMPT, OUTPUT = [5, 6, 7], [8, 9, 2]
FED = [5, 6, 7, 8, 9]


class Place:
    """A dump folder and a store."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.layout = MemoryLayout(folder / "store")
        self.numbers = RowNumbers()

    def take(self, order: TakeOrder) -> StoredSample:
        clock = Clock(wall=lambda: 1234.5, monotonic=lambda: 0.0)
        return take(order, self.folder, self.layout, FORM, MODEL, self.numbers, clock)

    def refuse(self, order: TakeOrder) -> CaptureFault:
        """Take what must be refused; nothing of it is in the store, and its number is free again."""
        before = len(self.layout.rows)
        with pytest.raises(CaptureFault) as raised:
            self.take(order)
        assert len(self.layout.rows) == before
        number = self.numbers.take()
        assert number == before
        self.numbers.give_back(number)
        return raised.value


@pytest.fixture
def place(tmp_path: Path) -> Place:
    return Place(tmp_path)


def test_a_sample_is_stored_with_its_record(place: Place) -> None:
    path = write_dump(place.folder, RID, FED, passes=[1, 1, 1, 2, 3])
    record = place.take(make_order(RID, PROMPT, OUTPUT))
    assert record == StoredSample(
        sample_id=RID,
        file="0.bin",
        row=0,
        bytes=5 * FORM.row_bytes,
        checksum="xxh3_128:0",
        tokens=5,
        loss_tokens=2,
        layers=[1, 3, 4],
        hidden_size=8,
        dtype="float32",
        norm="post",
        layout="memory",
        model=MODEL,
        capture="generating",
        server="http://127.0.0.1:30000",
        rid=RID,
        at=1234.5,
    )
    assert encode_line(record).endswith(b"}\n")
    assert (place.layout.stored(record) == make_rows(FED)).all()
    sample = place.layout.samples[0]
    assert (sample.ids.tolist(), sample.loss_mask.tolist()) == (FED, [0, 0, 0, 1, 1])
    assert path.exists()  # until the record is on the disk


def test_a_pretokenized_sample(place: Place) -> None:
    write_dump(place.folder, RID, FED)
    record = place.take(make_order(RID, FED))
    assert (record.tokens, record.loss_tokens, record.capture) == (5, 2, "afterwards")


def test_what_the_plugin_writes_is_what_is_taken(place: Place) -> None:
    """In chunks, and again from the beginning after a retraction."""
    files = DumpFiles(place.folder, make_about())
    rows = make_rows(FED)

    def write(first: int, end: int, number: int) -> None:
        marks = np.array([FED[first:end], [number] * (end - first)], "<u4").T.tobytes()
        assert files.write(RID, first, [memoryview(marks)], [memoryview(rows[first:end].tobytes())])

    for number, (first, end) in enumerate([(0, 2), (2, 3), (3, 4), (0, 4), (4, 5)], start=1):
        write(first, end, number)
    record = place.take(make_order(RID, PROMPT, OUTPUT))
    files.close()
    assert (place.layout.stored(record) == rows).all()


def test_a_row_too_many_is_left(place: Place) -> None:
    """A scheduler that overlaps runs one step more for a finished request."""
    write_dump(place.folder, RID, [*FED, 2])
    assert place.take(make_order(RID, PROMPT, OUTPUT)).tokens == 5


@pytest.mark.parametrize("capture", ["generating", "afterwards"])
def test_a_sample_that_is_cut(place: Place, capture: str) -> None:
    write_dump(place.folder, RID, FED if capture == "generating" else FED[:4])
    record = place.take(make_order(RID, PROMPT, OUTPUT, limit=4, capture=capture))
    assert (record.tokens, record.loss_tokens, record.truncated_from) == (4, 1, 5)
    assert (place.layout.stored(record) == make_rows(FED[:4])).all()


def test_what_is_cut_off_must_be_right_too(place: Place) -> None:
    write_dump(place.folder, RID, [*FED[:4], 77])
    fault = place.refuse(make_order(RID, PROMPT, OUTPUT, limit=4))
    assert fault.check is CaptureCheck.IDS


def test_rows_from_the_cache_were_never_computed(place: Place) -> None:
    fault = place.refuse(make_order(RID, PROMPT, OUTPUT, cached_tokens=2))
    assert (fault.check, fault.systematic) == (CaptureCheck.CACHED, True)
    assert "--disable-radix-cache" in str(fault)


def test_a_server_that_says_nothing_of_its_cache(place: Place) -> None:
    write_dump(place.folder, RID, FED)
    assert place.take(make_order(RID, PROMPT, OUTPUT, cached_tokens=None)).tokens == 5


def test_case_17_rows_are_matched_by_rid_alone(place: Place) -> None:
    """16 in flight, two rounds, dumps written and taken in any order: row i is that of the sample's own id i."""
    chance = random.Random(17)
    for first in (0, 16):
        samples = {
            make_rid(first + number, sample=number): [chance.randrange(1000) for _ in range(chance.randrange(2, 90))]
            for number in range(16)
        }
        for rid in chance.sample(list(samples), 16):
            write_dump(place.folder, rid, samples[rid])
        shuffled = chance.sample(list(samples.items()), 16)
        with ThreadPoolExecutor(8) as threads:
            records = list(threads.map(lambda item: place.take(make_order(*item)), shuffled))
        for (rid, ids), record in zip(shuffled, records, strict=True):
            assert (record.rid, record.tokens) == (rid, len(ids))
            assert (place.layout.stored(record)[:, 0, 0] == 1 + np.array(ids, np.float32)).all()
    assert sorted(place.layout.rows) == list(range(32))


def test_case_17_swapped_dumps_of_two_requests(place: Place) -> None:
    rids = [make_rid(1), make_rid(2)]
    paths = [write_dump(place.folder, rid, FED) for rid in rids]
    paths[0].rename(place.folder / "aside")
    paths[1].rename(paths[0])
    (place.folder / "aside").rename(paths[1])
    for rid in rids:
        assert place.refuse(make_order(rid, PROMPT, OUTPUT)).check is CaptureCheck.IDS


def test_case_17_rows_of_another_sample(place: Place) -> None:
    write_dump(place.folder, RID, [5, 6, 7, 8, 3])
    fault = place.refuse(make_order(RID, PROMPT, OUTPUT))
    assert fault.check is CaptureCheck.IDS
    assert "position 4 was computed from token id 3, sent and received was 9" in str(fault)


def test_case_18_short_by_one(place: Place) -> None:
    write_dump(place.folder, RID, [1, 2, 3, 4, 5, 11, 12])
    fault = place.refuse(make_order(RID, [1, 2, 3, 4, 5], [11, 12, 13, 2]))
    assert fault.check is CaptureCheck.ROWS
    assert str(fault).startswith("7 rows for 8 tokens in ")


def test_case_19_another_number_of_layers(place: Place) -> None:
    header = make_header(RID, layers=(1, 3), server_layers=(1, 3))
    write_dump(place.folder, RID, FED, np.ones((5, 3, 8), np.float32), header=header)
    fault = place.refuse(make_order(RID, PROMPT, OUTPUT))
    assert (fault.check, fault.systematic) == (CaptureCheck.LAYERS, True)
    assert "expected 32 values a row, got 24" in str(fault)


def _cut(path: Path) -> None:
    os.truncate(path, row_offset(5) - 1)


def _zero_bytes(path: Path) -> None:
    os.truncate(path, 0)


def _trailing(path: Path) -> None:
    poke(path, row_offset(5), b"beyond the last row")


def _rows_past_the_end(path: Path) -> None:
    poke(path, 0, make_header(RID, context_length=1 << 20).encode())


def _hole(path: Path) -> None:
    poke(path, mark_offset(2), bytes(8))


def _nan(path: Path) -> None:
    poke(path, row_offset(3) + 4, np.float32(np.nan).tobytes())


def _zero_row(path: Path) -> None:
    poke(path, row_offset(3), bytes(4 * FORM.hidden_size))


@pytest.mark.parametrize(
    ("damage", "check", "words"),
    [
        (_cut, CaptureCheck.ROWS, "4 rows for 5 tokens"),
        (_zero_bytes, CaptureCheck.MISSING, "0 of the header's 4096 bytes"),
        (_rows_past_the_end, CaptureCheck.ROWS, "0 rows for 5 tokens"),
        (_hole, CaptureCheck.POSITIONS, "position 2 was never written"),
        (_nan, CaptureCheck.NON_FINITE, "position 3, the output of layer 1: not finite"),
        (_zero_row, CaptureCheck.ZERO_ROW, "position 3, the output of layer 1: nothing but zeros"),
        (Path.unlink, CaptureCheck.MISSING, "no dump: No such file"),
    ],
)
def test_case_21_damaged_dumps(place: Place, damage: object, check: CaptureCheck, words: str) -> None:
    assert callable(damage)
    damage(write_dump(place.folder, RID, FED))
    fault = place.refuse(make_order(RID, PROMPT, OUTPUT))
    assert fault.check is check
    assert words in str(fault)
    write_dump(place.folder, make_rid(2), FED)
    assert place.take(make_order(make_rid(2), PROMPT, OUTPUT)).row == 0  # the other samples go on


def test_case_21_whatever_follows_the_last_row_is_no_part_of_the_sample(place: Place) -> None:
    _trailing(write_dump(place.folder, RID, FED))
    record = place.take(make_order(RID, PROMPT, OUTPUT))
    assert (place.layout.stored(record) == make_rows(FED)).all()


@settings(max_examples=100, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(data=st.data())
def test_of_a_damaged_dump_only_right_rows_are_stored(tmp_path: Path, data: st.DataObject) -> None:
    """A flipped value that could be real is beyond any check; whatever is stored has the ids and the form."""
    place = Place(tmp_path)
    path = write_dump(tmp_path, RID, FED)
    offset = data.draw(st.one_of(st.integers(0, mark_offset(6)), st.integers(row_offset(0), row_offset(5))))
    poke(path, offset, data.draw(st.binary(min_size=1, max_size=64)))
    os.truncate(path, data.draw(st.one_of(st.just(row_offset(5)), st.integers(0, row_offset(6)))))
    try:
        record = place.take(make_order(RID, PROMPT, OUTPUT))
    except CaptureFault:
        assert not place.layout.rows
        assert place.numbers.take() == 0
    else:
        assert record.tokens == 5
        encode_line(record)
        assert np.isfinite(place.layout.stored(record)).all()


def test_a_full_store_may_be_tried_again_with_the_same_dump(place: Place) -> None:
    write_dump(place.folder, RID, FED)
    order = make_order(RID, PROMPT, OUTPUT)
    place.layout.trouble = OSError(errno.ENOSPC, "No space left on device")
    with pytest.raises(OSError, match="No space left"):
        place.take(order)
    assert not place.layout.rows
    assert place.take(order).row == 0


class VanishingLayout(MemoryLayout):
    """The server takes the dump away when the first block was read."""

    dump: Path

    def place(self, sample: Sample, row: int) -> Placed:
        blocks: Iterator[memoryview] = sample.rows.blocks()
        next(blocks)
        os.truncate(self.dump, 0)
        self.dump.unlink()
        list(blocks)
        raise AssertionError("rows that are gone were read")


def test_a_dump_that_vanishes_while_it_is_stored(place: Place) -> None:
    ids = list(range(40))
    wide = RowForm(FORM.layers, 1 << 12, FORM.dtype, FORM.norm)  # 64 KiB a row: more than one block
    layout = VanishingLayout(place.folder)
    layout.dump = write_dump(place.folder, RID, ids, make_rows(ids, wide), header=make_header(RID, wide))
    with pytest.raises(CaptureFault, match="cut short, or taken away") as raised:
        take(make_order(RID, ids), place.folder, layout, wide, MODEL, place.numbers, Clock())
    assert raised.value.check is CaptureCheck.MISSING
    assert place.numbers.take() == 0


def test_two_threads_at_once(place: Place) -> None:
    """Both are inside the layout at the same time, and have rows and numbers of their own."""
    meeting = threading.Barrier(2, timeout=30)

    class Meeting(MemoryLayout):
        def place(self, sample: Sample, row: int) -> Placed:
            meeting.wait()
            return super().place(sample, row)

    place.layout = Meeting(place.folder)
    rids = [make_rid(1), make_rid(2)]
    samples = dict(zip(rids, ([3, 4, 5], [6, 7, 8, 9]), strict=True))
    for rid, ids in samples.items():
        write_dump(place.folder, rid, ids)
    with ThreadPoolExecutor(2) as threads:
        records = list(threads.map(lambda item: place.take(make_order(*item)), samples.items()))
    assert sorted(record.row for record in records) == [0, 1]
    for record in records:
        assert record.rid is not None
        assert (place.layout.stored(record) == make_rows(samples[record.rid])).all()


def test_free_numbers_are_given_lowest_first() -> None:
    numbers = RowNumbers([0, 3, 4, 7])
    assert [numbers.take() for _ in range(6)] == [1, 2, 5, 6, 8, 9]
    numbers.give_back(5)
    numbers.give_back(1)
    assert [numbers.take() for _ in range(3)] == [1, 5, 10]
    assert RowNumbers().take() == 0


def test_no_number_is_given_twice() -> None:
    numbers = RowNumbers([1, 5])
    with ThreadPoolExecutor(4) as threads:
        given = list(threads.map(lambda _: numbers.take(), range(400)))
    assert len(set(given)) == 400
    assert not {1, 5} & set(given)
    assert max(given) == 401
