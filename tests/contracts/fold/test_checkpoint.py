"""A saved fold is used exactly as it was, or not at all."""

from __future__ import annotations

import errno
import hashlib
import os
from collections.abc import Callable
from pathlib import Path

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import contracts.fold.checkpoint as checkpoint_module
from contracts.fold.dataset import DatasetFold, DatasetState
from contracts.fold.failures import SampleFailure
from contracts.fold.hidden import StoredForm, StoredSize
from contracts.fold.history import Bucket
from contracts.fold.lengths import Lengths
from contracts.fold.pace import Pace, Stretch
from contracts.fold.run import RunFold
from contracts.journal.tail import Position, Tail
from contracts.records import CaptureCheck, DroppedSample, FailureClass, NextStep
from contracts.run_dir import RunDir
from tests.support.records import NOW, failure, folded, make_run, prompt_line, response, write
from tests.support.stored import failed_capture, stored


@pytest.fixture
def run(tmp_path: Path) -> RunDir:
    """A run of which everything that a fold can hold is in the files."""
    run = make_run(tmp_path / "run", datasets=("d", "e"))
    records: list[msgspec.Struct | bytes] = [
        *(response(f"d-{number}", 4, finished_at=NOW + 7 * number, think_end=number % 2 == 0) for number in range(300)),
        response("d-1", 9),
        response("é", 4, completion_tokens=5),
        b"garbage\n",
        b'{"sample_id":"x","error":"HTTP 503"}\n',
        b'{"sample_id":"y","text":"cut","meta_info":{"finish_reason":null,"prompt_tokens":1,"completion_tokens":1}}\n',
        b'{"sample_id":"z","status":"success","conversations":[{"role":"assistant","content":"x"}]}\n',
        b'{"sample_id":"torn',
    ]
    write(run.dataset("d").responses, records)
    refused = {"error": FailureClass.INVALID_INPUT, "next": NextStep.REFUSED, "line": 3}
    write(run.dataset("d").failures, [failure("f"), failure(None, **refused), b"no\n"])
    write(run.dataset("d").failures, [failed_capture("f"), failed_capture("g", CaptureCheck.NO_ROOM)])
    kept = [stored("d-1", 0), stored("é", 1, truncated_from=99), stored("d-2", 2), stored("d-3", 1, norm="over_weight")]
    write(run.dataset("d").hidden_states, [*kept, DroppedSample(sample_id="d-2", why="x", at=NOW), b"no\n"])
    write(run.dataset("e").responses, [response("e-0", 2)])
    return run


def states(fold: RunFold) -> dict[str, DatasetState]:
    return {name: dataset.state for name, dataset in fold.datasets.items()}


def saved(run: RunDir) -> RunFold:
    fold = folded(run)
    fold.save_checkpoint()
    return fold


def reading(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The files of which anything is read by a tail, from now on."""
    seen: list[str] = []
    real = Tail._read

    def noted(self: Tail, *arguments: object) -> bool:
        seen.append(f"{self.path.parent.name}/{self.path.name}")
        return real(self, *arguments)  # type: ignore[arg-type]

    monkeypatch.setattr(Tail, "_read", noted)
    return seen


def test_what_is_loaded_is_what_was_saved(run: RunDir, monkeypatch: pytest.MonkeyPatch) -> None:
    before = saved(run)
    seen = reading(monkeypatch)
    after = RunFold(run.path)
    assert states(after) == states(before)
    assert after.notes == []
    after.poll()
    assert states(after) == states(before)
    assert seen == ["d/raw_responses.jsonl"]  # which ends in half a line


def test_only_what_is_new_is_read(run: RunDir) -> None:
    saved(run)
    write(run.dataset("d").responses, [b'","error":"x"}\n', response("d-999", 7), response("d-2", 7)])
    write(run.dataset("e").prompts, [prompt_line("e-10")])
    fold = folded(run)
    run.checkpoint.unlink()
    assert states(fold) == states(folded(run))
    assert fold.datasets["d"].responses.duplicates == 2


@pytest.mark.parametrize("records", [1, 2, 5, 20, 200])
def test_a_file_that_only_grew_is_not_called_changed(run: RunDir, records: int) -> None:
    """Also a short one, of which the samples overlap and reach to its end."""
    path = run.dataset("d").responses
    path.unlink()
    write(path, [response(f"x{number}", 3) for number in range(records)])
    saved(run)
    write(path, [response(f"y{number}", 3) for number in range(3)])
    fold = RunFold(run.path)
    assert fold.notes == []
    fold.poll()
    assert len(fold.datasets["d"].responses.done) == records + 3


def test_a_record_without_newline_at_the_end_is_not_counted_again(run: RunDir) -> None:
    write(run.dataset("e").responses, [b'{"sample_id":"last","completion_tokens":1}'])
    saved(run)
    write(run.dataset("e").responses, [b"\n", response("e-7", 1)])
    fold = folded(run)
    assert (fold.datasets["e"].responses.duplicates, fold.datasets["e"].responses.lines) == (0, 3)


def in_place(path: Path, find: bytes, put: bytes) -> None:
    content = path.read_bytes()
    assert len(find) == len(put)
    assert find in content
    with path.open("r+b") as file:
        file.seek(content.index(find))
        file.write(put)
    later = path.stat().st_mtime_ns + 1_000_000
    os.utime(path, ns=(later, later))


def truncated(path: Path) -> None:
    os.truncate(path, 5000)


def edited(path: Path) -> None:
    in_place(path, b'"prompt_tokens":5', b'"prompt_tokens":7')


def edited_between_the_samples(path: Path) -> None:
    """The size is that of before, and nobody looks at the bytes: only the time tells."""
    size = path.stat().st_size
    with path.open("r+b") as file:
        file.seek(size // 32)
        place = size // 32 + file.read().index(b'"prompt_tokens":5') + 16
        assert all(not size * each // 16 <= place < size * each // 16 + 256 for each in range(16))
        file.seek(place)
        file.write(b"7")
    later = path.stat().st_mtime_ns + 1_000_000
    os.utime(path, ns=(later, later))


def edited_and_grown(path: Path) -> None:
    edited(path)
    write(path, [b"\n", response("new", 1)])


def replaced(path: Path) -> None:
    other = path.with_name("other")
    other.write_bytes(path.read_bytes())
    other.replace(path)


def emptied(path: Path) -> None:
    path.write_bytes(b"")


@pytest.mark.parametrize("change", [truncated, edited, edited_between_the_samples, edited_and_grown, replaced, emptied])
def test_a_changed_file_is_counted_again_and_it_is_said(run: RunDir, change: Callable[[Path], None]) -> None:
    saved(run)
    path = run.dataset("d").responses
    change(path)
    fold = folded(run)
    assert len(fold.notes) == 1
    assert str(path) in fold.notes[0]
    assert "since the checkpoint; counted again" in fold.notes[0]
    run.checkpoint.unlink()
    assert states(fold) == states(folded(run))


def test_only_the_changed_file_is_counted_again(run: RunDir, monkeypatch: pytest.MonkeyPatch) -> None:
    saved(run)
    edited(run.dataset("e").responses)
    seen = reading(monkeypatch)
    fold = folded(run)
    assert "e/raw_responses.jsonl" in seen
    assert "d/prompts.jsonl" not in seen
    assert fold.datasets["e"].responses.prompt_tokens == 7


def test_a_deleted_file_is_forgotten(run: RunDir) -> None:
    saved(run)
    run.dataset("d").responses.unlink()
    fold = folded(run)
    assert fold.datasets["d"].responses.done == set()
    assert "cannot be read" in fold.notes[0]


def test_a_data_set_that_run_toml_no_longer_names_is_dropped(run: RunDir) -> None:
    saved(run)
    text = run.config.read_text(encoding="utf-8").replace('[[datasets]]\nname = "e"\n', "")
    run.config.write_text(text, encoding="utf-8")
    fold = folded(run)
    assert list(fold.datasets) == ["d"]
    assert len(fold.datasets["d"].responses.done) == 302


def sealed(body: bytes) -> bytes:
    return hashlib.blake2b(body, digest_size=32).digest() + body


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (b"", "is damaged or empty"),
        (b"\0" * 4096, "is damaged or empty"),
        (b"{}", "is damaged or empty"),
        (sealed(b""), "another version"),
        (sealed(b"\xc1"), "another version"),
        (sealed(msgspec.msgpack.encode({"version": 1})), "another version"),
        (sealed(msgspec.msgpack.encode({"version": 1, "datasets": {}})), "another version"),
        (sealed(msgspec.msgpack.encode({"version": 999, "datasets": {}})), "another version"),
    ],
)
def test_a_damaged_or_other_checkpoint_is_rebuilt(run: RunDir, content: bytes, said: str) -> None:
    """Case 52 too: a full disk leaves files of 0 bytes."""
    expected = states(saved(run))
    run.checkpoint.write_bytes(content)
    fold = folded(run)
    assert states(fold) == expected
    assert len(fold.notes) == 1
    assert str(run.checkpoint) in fold.notes[0]
    assert said in fold.notes[0]
    assert "counted again" in fold.notes[0]


def test_a_checkpoint_cut_short_anywhere_is_rebuilt(run: RunDir) -> None:
    expected = states(saved(run))
    content = run.checkpoint.read_bytes()
    for length in (1, 31, 32, 33, len(content) // 2, len(content) - 1):
        run.checkpoint.write_bytes(content[:length])
        fold = folded(run)
        assert states(fold) == expected
        assert "damaged" in fold.notes[0]


def test_a_checkpoint_that_cannot_be_read_is_named(run: RunDir) -> None:
    expected = states(saved(run))
    run.checkpoint.unlink()
    run.checkpoint.mkdir()
    fold = folded(run)
    assert states(fold) == expected
    assert "cannot be read" in fold.notes[0]


def test_a_full_disk_leaves_the_old_checkpoint_and_no_half_one(run: RunDir, monkeypatch: pytest.MonkeyPatch) -> None:
    fold = saved(run)
    before = run.checkpoint.read_bytes()
    real = Path.write_bytes

    def full(self: Path, data: bytes) -> int:
        real(self, data[:100])
        raise OSError(errno.ENOSPC, "full", str(self))

    monkeypatch.setattr(Path, "write_bytes", full)
    with pytest.raises(OSError, match="full"):
        fold.save_checkpoint()
    assert run.checkpoint.read_bytes() == before
    assert [path.name for path in run.path.iterdir() if "tmp" in path.name] == []


def test_the_version_is_raised_when_folds_change() -> None:
    """A saved fold has the fields of today's; who changes them has to think of those that are saved already."""
    fields = [
        ".".join((each.__name__, *each.__struct_fields__))
        for each in (
            checkpoint_module.FileMark,
            Position,
            type(DatasetState().prompts),
            type(DatasetState().responses),
            type(DatasetState().failures),
            type(DatasetState().hidden),
            Bucket,
            Lengths,
            Pace,
            Stretch,
            SampleFailure,
            StoredForm,
            StoredSize,
        )
    ]
    digest = hashlib.sha256("\n".join(fields).encode()).hexdigest()[:12]
    assert (checkpoint_module.VERSION, digest) == (8, "31c80941b3df")


@settings(max_examples=25, deadline=None)
@given(cuts=st.lists(st.integers(0, 60), min_size=1, max_size=5))
def test_saving_and_loading_at_any_time_changes_no_count(
    tmp_path_factory: pytest.TempPathFactory, cuts: list[int]
) -> None:
    """A reader that is killed and started again between any two writes counts what one that lives on counts."""
    run = make_run(tmp_path_factory.mktemp("checkpoint"))
    content = b"".join([b'{"sample_id":"a%d","completion_tokens":%d}\n' % (number % 7, number) for number in range(12)])
    path = run.dataset("d").responses
    position = 0
    for cut in [*cuts, len(content)]:
        write(path, [content[position : position + cut]])
        position += cut
        saved(run)
    fold = RunFold(run.path)
    fold.poll()
    once = DatasetFold(run.dataset("d"))
    once.poll()
    assert fold.datasets["d"].state == once.state
