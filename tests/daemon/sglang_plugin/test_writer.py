"""Rows come out of the files as they were put, whatever happens to disk, daemon and requests meanwhile."""

from __future__ import annotations

import errno
import os
import queue
import random
import stat
import subprocess
import threading
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest
import torch

from daemon.sglang_plugin.eagle3_sglang.dump_files import DumpFiles
from daemon.sglang_plugin.eagle3_sglang.dump_format import DumpFormatError, DumpHeader
from daemon.sglang_plugin.eagle3_sglang.writer import DumpWriter
from tests.daemon.sglang_plugin.dumps import CONTEXT, WIDTH, Dump, about, assert_whole, batch

A, B, C = "e3.run.a.1.1", "e3.run.b.1.2", "e3.run.c.1.3"


class Disk:
    """Stands between the files and the kernel: writes short, fails, or waits."""

    def __init__(self) -> None:
        self.fault: OSError | None = None
        self.most_bytes: int | None = None
        self.calls: list[int] = []
        self.open = threading.Event()
        self.open.set()

    def pwritev(self, descriptor: int, parts: Sequence[memoryview], offset: int) -> int:
        self.open.wait()
        if self.fault is not None:
            raise self.fault
        self.calls.append(len(parts))
        if self.most_bytes is None:
            return os.pwritev(descriptor, parts, offset)
        return os.pwrite(descriptor, b"".join(parts)[: self.most_bytes], offset)


@pytest.fixture
def disk() -> Disk:
    return Disk()


@pytest.fixture
def log() -> list[str]:
    return []


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return tmp_path / "dumps"


@pytest.fixture
def writer(folder: Path, disk: Disk, log: list[str]) -> Iterator[DumpWriter]:
    files = DumpFiles(folder, about(), pwritev=disk.pwritev)
    made = DumpWriter(folder, about(), most_pending_bytes=20 * WIDTH * 4, log=log.append, files=files)
    yield made
    disk.open.set()
    made.close()


def open_descriptors() -> int:
    return len(list(Path("/proc/self/fd").iterdir()))


def names(folder: Path) -> set[str]:
    return {path.name for path in folder.iterdir()}


def test_rows_of_many_requests_come_out_as_they_were_put(writer: DumpWriter, folder: Path, log: list[str]) -> None:
    writer.put(batch((A, 0, 5), (B, 0, 1)))
    writer.put(batch((B, 1, 1), (A, 5, 1), (C, 0, CONTEXT)))
    writer.put(batch((A, 6, 1), (B, 2, 1)))
    writer.flush()
    for rid, count in ((A, 7), (B, 3), (C, CONTEXT)):
        header = assert_whole(folder, rid, count).header
        assert (header["rid"], header["layers"], header["server_layers"]) == (rid, [1, 2], [1, 2])
        assert DumpHeader.decode((folder / f"{rid}.dump").read_bytes()[:4096]).row_bytes == WIDTH * 4
    assert Dump(folder, A).passes == [1, 1, 1, 1, 1, 2, 3]
    assert log == []


def test_folder_and_files_are_for_their_owner_alone(writer: DumpWriter, folder: Path) -> None:
    writer.put(batch((A, 0, 1)))
    writer.flush()
    assert stat.S_IMODE(folder.stat().st_mode) == 0o700
    assert stat.S_IMODE((folder / f"{A}.dump").stat().st_mode) == 0o600


def test_any_order_of_passes(folder: Path) -> None:
    random.seed(5)
    writer = DumpWriter(folder, about(), log=print, files=DumpFiles(folder, about(), most_open=2))
    todo = {f"e3.r.{number}.1.1": random.randint(1, CONTEXT) for number in range(9)}
    done = dict.fromkeys(todo, 0)
    while open_ := [rid for rid in todo if done[rid] < todo[rid]]:
        segments = []
        for rid in random.sample(open_, random.randint(1, len(open_))):
            count = random.choice([1, 1, min(5, todo[rid] - done[rid])])
            segments.append((rid, done[rid], count))
            done[rid] += count
        writer.put(batch(*segments))
    writer.close()
    for rid, count in todo.items():
        assert_whole(folder, rid, count)


@pytest.mark.parametrize("most_bytes", [1, 7, 48, 100, 5000])
def test_short_writes_are_continued(writer: DumpWriter, folder: Path, disk: Disk, most_bytes: int) -> None:
    disk.most_bytes = most_bytes
    writer.put(batch((A, 0, 3), (B, 0, 9)))
    writer.put(batch((A, 3, 2)))
    writer.flush()
    assert_whole(folder, A, 5)
    assert_whole(folder, B, 9)


def test_more_pieces_than_the_kernel_takes_in_one_call(folder: Path) -> None:
    held = threading.Event()
    form = about(context_length=4000)
    writer = DumpWriter(folder, form, log=print)
    first = batch((A, 0, 1))
    first.wait = lambda: (held.wait(), None)[1]
    writer.put(first)
    for position in range(1, 3000):
        writer.put(batch((A, position, 1)))
    held.set()
    writer.close()
    assert_whole(folder, A, 3000)


def test_retracted_request_starts_again_and_overwrites(writer: DumpWriter, folder: Path, log: list[str]) -> None:
    writer.put(batch((A, 0, 6)))
    writer.put(batch((A, 6, 1)))
    writer.flush()
    writer.put(batch((A, 0, 4), salt=1))
    writer.put(batch((A, 4, 4), salt=1))
    writer.flush()
    dump = assert_whole(folder, A, 8, salt=1)
    assert dump.passes == [3, 3, 3, 3, 4, 4, 4, 4]
    assert log == []


def test_retracted_while_its_rows_still_wait(writer: DumpWriter, folder: Path, disk: Disk) -> None:
    disk.open.clear()
    writer.put(batch((A, 0, 3)))
    writer.put(batch((A, 3, 1)))
    writer.put(batch((A, 0, 4), salt=1))
    writer.put(batch((A, 4, 1), salt=1))
    disk.open.set()
    writer.flush()
    assert_whole(folder, A, 5, salt=1)


def test_retracted_after_its_file_was_closed_to_make_room(folder: Path) -> None:
    writer = DumpWriter(folder, about(), log=print, files=DumpFiles(folder, about(), most_open=1))
    writer.put(batch((A, 0, 6)))
    writer.put(batch((B, 0, 2)))
    writer.flush()
    writer.put(batch((A, 0, 7), salt=1))
    writer.close()
    assert_whole(folder, A, 7, salt=1)


def test_taken_file_is_forgotten(writer: DumpWriter, folder: Path, log: list[str]) -> None:
    """The daemon has what it wanted, or wants it no more: one row that comes late makes no file."""
    writer.put(batch((A, 0, 6)))
    writer.flush()
    os.truncate(folder / f"{A}.dump", 0)
    (folder / f"{A}.dump").unlink()
    for again in (batch((A, 6, 1)), batch((A, 7, 1)), batch((A, 0, 9))):
        writer.put(again)
        writer.flush()
    assert names(folder) == set()
    assert (writer.dropped_rows, writer.failed_requests, log) == (11, 0, [])


def test_rows_of_a_request_whose_first_never_came_make_no_file(writer: DumpWriter, folder: Path) -> None:
    writer.put(batch((A, 3, 2), (B, 0, 1)))
    writer.flush()
    assert names(folder) == {f"{B}.dump"}
    assert writer.dropped_rows == 2


def test_hole_is_refused(writer: DumpWriter, folder: Path, log: list[str]) -> None:
    writer.put(batch((A, 0, 3), (B, 0, 1)))
    writer.put(batch((A, 4, 2), (B, 1, 1)))
    writer.put(batch((A, 6, 1), (B, 2, 1)))
    writer.flush()
    assert names(folder) == {f"{A}.error", f"{B}.dump"}
    assert (folder / f"{A}.error").read_text() == "rows from position 4 on came, but only the first 3 are there"
    assert_whole(folder, B, 3)
    assert len(log) == 1
    assert A in log[0]


def test_row_beyond_the_context_is_refused(writer: DumpWriter, folder: Path) -> None:
    writer.put(batch((A, 0, CONTEXT)))
    writer.put(batch((A, CONTEXT, 1)))
    writer.flush()
    assert (folder / f"{A}.error").read_text() == f"a row for position {CONTEXT}: the context has {CONTEXT}"
    assert names(folder) == {f"{A}.error"}


def test_positions_that_jump_within_a_segment_are_refused(writer: DumpWriter, folder: Path) -> None:
    wrong = batch((A, 0, 3))
    wrong.positions[2] = 5
    writer.put(wrong)
    writer.flush()
    assert "do not follow each other: [0, 1, 5]" in (folder / f"{A}.error").read_text()


def test_batch_of_another_shape_or_dtype_is_refused(writer: DumpWriter, folder: Path) -> None:
    narrow, half, short = batch((A, 0, 3)), batch((B, 0, 3)), batch((C, 0, 3))
    narrow.rows = narrow.rows[:, :-1].contiguous()
    half.rows = half.rows.to(torch.bfloat16)
    short.ids = short.ids[:2]
    for wrong in (narrow, half, short):
        writer.put(wrong)
    writer.flush()
    assert names(folder) == {f"{rid}.error" for rid in (A, B, C)}
    assert f"expected 3 rows of {WIDTH}" in (folder / f"{A}.error").read_text()
    assert (folder / f"{B}.error").read_text() == "rows of torch.bfloat16, not torch.float32"


def test_refusal_says_why_and_takes_the_dump_away(writer: DumpWriter, folder: Path) -> None:
    writer.put(batch((A, 0, 3), (B, 0, 1)))
    writer.refuse([A], "the runner gave no hidden states")
    writer.put(batch((A, 3, 1), (B, 1, 1)))
    writer.flush()
    assert names(folder) == {f"{A}.error", f"{B}.dump"}
    assert (folder / f"{A}.error").read_text() == "the runner gave no hidden states"


def test_what_cannot_be_captured_at_any_pass_is_said_once(writer: DumpWriter, folder: Path, log: list[str]) -> None:
    """A kind of pass without hidden states: every step of every request, for as long as the server runs."""
    for _ in range(50):
        writer.refuse([A, B], "the pass gave no hidden states")
    writer.flush()
    assert names(folder) == {f"{A}.error", f"{B}.error"}
    assert len(log) == 2
    (folder / f"{A}.error").unlink()  # the daemon knows by now
    writer.refuse([A, B], "the pass gave no hidden states")
    writer.flush()
    assert names(folder) == {f"{B}.error"} and len(log) == 2


def test_refusals_that_wait_are_bounded_as_rows_are(folder: Path, log: list[str]) -> None:
    """The thread that computes must not fill the memory of a server whose disk hangs."""
    going_on = threading.Event()

    class Hanging(DumpFiles):
        def give_up(self, rid: str, why: str) -> bool:
            going_on.wait(30)
            return super().give_up(rid, why)

    writer = DumpWriter(folder, about(), most_pending_bytes=10_000, log=log.append, files=Hanging(folder, about()))
    refusing = threading.Thread(target=lambda: [writer.refuse([A], "no") for _ in range(200)])
    refusing.start()
    refusing.join(0.2)
    assert refusing.is_alive(), "it waits"
    going_on.set()
    refusing.join(30)
    writer.close()
    assert log == [f"no hidden states of {A}: no"]


def test_disk_full_fails_the_request_and_only_it(writer: DumpWriter, folder: Path, disk: Disk, log: list[str]) -> None:
    writer.put(batch((A, 0, 3), (B, 0, 1)))
    writer.flush()
    disk.fault = OSError(errno.ENOSPC, "No space left on device")
    writer.put(batch((A, 3, 1)))
    writer.flush()
    disk.fault = None
    writer.put(batch((A, 4, 1), (B, 1, 1)))
    writer.put(batch((A, 0, 5)))  # retracted meanwhile: it stays given up
    writer.flush()
    assert names(folder) == {f"{A}.error", f"{B}.dump"}
    assert (folder / f"{A}.error").read_text() == "the dump folder: No space left on device"
    assert_whole(folder, B, 2)
    assert writer.failed_requests == 1
    assert log == [f"no hidden states of {A}: the dump folder: No space left on device"]


def test_reason_that_cannot_be_written_either(
    writer: DumpWriter, folder: Path, disk: Disk, log: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    writer.put(batch((A, 0, 3), (B, 0, 1)))
    writer.flush()
    disk.fault = OSError(errno.ENOSPC, "No space left on device")
    monkeypatch.setattr(os, "write", lambda *_: (_ for _ in ()).throw(OSError(errno.ENOSPC, "full")))
    writer.put(batch((A, 3, 1)))
    writer.flush()
    monkeypatch.undo()
    assert names(folder) == {f"{A}.error", f"{B}.dump"}
    assert (folder / f"{A}.error").read_text() == ""


def test_real_full_tmpfs(tmp_path: Path, log: list[str]) -> None:
    folder = tmp_path / "small"
    folder.mkdir()
    mounted = subprocess.run(["mount", "-t", "tmpfs", "-o", "size=64k", "none", folder], capture_output=True)
    if mounted.returncode != 0:
        pytest.skip("a tmpfs can be mounted by root only")
    try:
        writer = DumpWriter(folder, about(context_length=1000), log=log.append)
        writer.put(batch((A, 0, 10)))
        writer.put(batch((B, 0, 2)))
        for position in range(10, 1000, 30):
            writer.put(batch((A, position, 30)))
        writer.flush()
        assert names(folder) == {f"{A}.error", f"{B}.dump"}
        assert (folder / f"{A}.error").read_text() == "the dump folder: No space left on device"
        writer.put(batch((B, 2, 99), (C, 0, 100)))  # what it held is free again
        writer.close()
        assert_whole(folder, B, 101)
        assert_whole(folder, C, 100)
        assert len(log) == 1
    finally:
        subprocess.run(["umount", folder], check=True)


def test_leftover_of_another_server_is_replaced(folder: Path) -> None:
    old = DumpWriter(folder, about(instance="0-0-0"), log=print)
    old.put(batch((A, 0, 20), (B, 0, 20)))
    old.close()
    writer = DumpWriter(folder, about(), log=print)
    writer.put(batch((A, 0, 3), (B, 20, 1)))  # B is not continued: half of it would be another model's
    writer.close()
    assert assert_whole(folder, A, 3).header["instance"] == "1-2-0"
    assert assert_whole(folder, B, 20).header["instance"] == "0-0-0"


def test_no_dump_where_an_error_stands(folder: Path) -> None:
    folder.mkdir()
    (folder / f"{A}.error").write_text("why")
    writer = DumpWriter(folder, about(), log=print)
    writer.put(batch((A, 0, 3)))
    writer.close()
    assert names(folder) == {f"{A}.error"}


def test_folder_that_was_removed_is_made_again(writer: DumpWriter, folder: Path) -> None:
    folder.rmdir()
    writer.put(batch((A, 0, 3)))
    writer.flush()
    assert_whole(folder, A, 3)


def test_symbolic_link_is_not_followed(writer: DumpWriter, folder: Path, tmp_path: Path) -> None:
    (tmp_path / "precious").write_text("as it was")
    (folder / f"{A}.dump").symlink_to(tmp_path / "precious")
    writer.put(batch((A, 0, 3)))
    writer.flush()
    assert (folder / f"{A}.error").exists()
    assert (tmp_path / "precious").read_text() == "as it was"


def test_put_waits_while_too_much_is_pending(writer: DumpWriter, folder: Path, disk: Disk) -> None:
    disk.open.clear()
    pending: queue.SimpleQueue[int] = queue.SimpleQueue()

    def put_all() -> None:
        for position in range(0, 50, 10):
            writer.put(batch((A, position, 10)))
            pending.put(writer._pending_bytes // (WIDTH * 4))

    thread = threading.Thread(target=put_all)
    thread.start()
    assert [pending.get(timeout=10) for _ in range(2)] == [10, 20]  # twenty rows are the bound
    disk.open.set()
    assert max(pending.get(timeout=10) for _ in range(3)) <= 20
    thread.join(10)
    writer.flush()
    assert_whole(folder, A, 50)


def test_batch_larger_than_the_bound_passes_alone(writer: DumpWriter, folder: Path) -> None:
    writer.put(batch((A, 0, 1)))
    writer.put(batch((B, 0, 60)))
    writer.put(batch((A, 1, 1)))
    writer.flush()
    assert_whole(folder, A, 2)
    assert_whole(folder, B, 60)


def test_copies_are_awaited_by_the_thread_and_a_failing_one_fails_its_requests(
    writer: DumpWriter, folder: Path
) -> None:
    good, bad = batch((A, 0, 2)), batch((B, 0, 2), (C, 0, 1))
    threads = []
    good.wait = lambda: threads.append(threading.current_thread().name)

    def fail() -> None:
        raise RuntimeError("an illegal memory access was encountered")

    bad.wait = fail
    writer.put(bad)
    writer.put(good)
    writer.put(batch((B, 2, 1)))
    writer.flush()
    assert names(folder) == {f"{A}.dump", f"{B}.error", f"{C}.error"}
    assert "illegal memory access" in (folder / f"{B}.error").read_text()
    assert threads == ["eagle3-dump"]


def test_thread_outlives_a_log_that_fails(folder: Path) -> None:
    def log(line: str) -> None:
        raise OSError(errno.EPIPE, line)

    writer = DumpWriter(folder, about(), log=log)
    writer.refuse([A], "x")
    writer.put(batch((B, 0, 1)))
    writer.close()
    assert names(folder) == {f"{A}.error", f"{B}.dump"}


def test_thread_outlives_a_fault_of_its_own(folder: Path, log: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    writer = DumpWriter(folder, about(), log=log.append)
    with monkeypatch.context() as patch:
        patch.setattr(writer, "_take", lambda *_: (_ for _ in ()).throw(KeyError("bug")))
        patch.setattr(writer, "_give_up", lambda *_: (_ for _ in ()).throw(KeyError("bug")))
        writer.put(batch((A, 0, 1)))
        writer.flush()
    writer.put(batch((B, 0, 1)))
    writer.close()
    assert names(folder) == {f"{B}.dump"}
    assert log == ["dumping hidden states: KeyError: 'bug'"]


def test_nothing_grows_over_days_of_requests_that_end_without_a_word(folder: Path) -> None:
    files = DumpFiles(folder, about(), most_open=4)
    writer = DumpWriter(folder, about(), log=print, files=files)
    before = open_descriptors()
    for number in range(300):
        writer.put(batch((f"e3.r.{number}.1.1", 0, 1)))
        writer.flush()
        assert files.open_count <= 4
        assert open_descriptors() <= before + 4
    writer.close()
    assert open_descriptors() <= before


def test_files_that_were_taken_are_closed(writer: DumpWriter, folder: Path) -> None:
    files = writer._files
    writer.put(batch((A, 0, 1), (B, 0, 1)))
    writer.flush()
    (folder / f"{A}.dump").unlink()
    assert files.open_count == 2
    files.close_taken()
    assert files.open_count == 1


def test_header_that_does_not_fit_is_refused_at_the_start(folder: Path) -> None:
    with pytest.raises(DumpFormatError, match="has 42"):
        DumpWriter(folder, about(model="m" * 3800), log=print)


def test_bfloat16(folder: Path) -> None:
    writer = DumpWriter(folder, about(dtype="bfloat16"), log=print)
    sent = batch((A, 0, 9))
    sent.rows = sent.rows.to(torch.bfloat16)
    writer.put(sent)
    writer.close()
    assert torch.equal(Dump(folder, A).rows, sent.rows)


def test_closed_writer_takes_nothing(folder: Path) -> None:
    writer = DumpWriter(folder, about(), log=print)
    writer.close()
    with pytest.raises(ValueError, match="closed"):
        writer.put(batch((A, 0, 1)))
