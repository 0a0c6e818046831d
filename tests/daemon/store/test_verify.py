"""Verify finds every fault that trainers' loaders do not notice, in every layout, and names the sample."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from contracts.records import CaptureCheck, Failure, FailureClass, NextStep, Stage
from contracts.run_dir import RunDir
from daemon.store.layout import StoreError
from daemon.store.layouts import make_layout
from daemon.store.repair import repair_store
from daemon.store.sample import Sample
from daemon.store.verify import verify_run
from daemon.store.writing import checksum_of
from tests.daemon.store.faults import (
    drop_lines,
    file_of,
    flip_byte,
    found,
    index_path,
    records,
    replace_record,
    verify,
)
from tests.support.stored_run import (
    MemoryRows,
    append,
    bits_of,
    form_for,
    make_sample,
    make_stored_run,
    record_of,
    with_rows,
)

NAN, ZERO = 0x7FC0, 0


def test_a_good_run(tmp_path: Path, layout: str) -> None:
    run = make_stored_run(tmp_path, layout, datasets=("B1", "B2"))
    report = verify(run)
    assert [store.dataset for store in report.stores] == ["B1", "B2"]
    assert report.left == 0
    for store in report.stores:
        assert (store.samples, store.examined, store.counts, store.not_stored) == (5, 5, {}, 0)
        assert store.tokens == sum(record.tokens for record in records(run).values()) == 41
        assert store.bytes == store.examined_bytes > 41 * 4 * 8 * 2


# What a faulty producer could store, with records and checksums that fit it.


def mask_ends_early(sample: Sample) -> Sample:
    mask = sample.loss_mask.copy()
    mask[-1] = 0
    return replace(sample, loss_mask=mask)


def mask_shifted(sample: Sample) -> Sample:
    return replace(sample, loss_mask=np.roll(sample.loss_mask, 1))


def one_token_short(sample: Sample) -> Sample:
    rows = MemoryRows(bits_of(sample)[:-1])
    return replace(sample, ids=sample.ids[:-1], loss_mask=sample.loss_mask[:-1], rows=rows)


def padded(sample: Sample) -> Sample:
    """Padding stored as tokens."""
    bits = bits_of(sample)
    ids = np.concatenate([sample.ids, [0, 0]])
    mask = np.concatenate([sample.loss_mask, [0, 0]]).astype(np.uint8)
    return replace(sample, ids=ids, loss_mask=mask, rows=MemoryRows(np.concatenate([bits, bits[:2]])))


def other_ids(sample: Sample) -> Sample:
    """Tokenized again: as many, one of them another."""
    ids = sample.ids.copy()
    ids[2] += 1
    return replace(sample, ids=ids)


def a_nan(sample: Sample) -> Sample:
    bits = bits_of(sample)
    bits[4, 1, 3] = NAN
    return with_rows(sample, bits)


def a_zero_row(sample: Sample) -> Sample:
    bits = bits_of(sample)
    bits[5] = ZERO
    return with_rows(sample, bits)


def a_zero_slot(sample: Sample) -> Sample:
    bits = bits_of(sample)
    bits[5, 3] = ZERO
    return with_rows(sample, bits)


def a_row_left_out(sample: Sample) -> Sample:
    """NaN rows skipped with a print: rows, ids and mask are one fewer."""
    keep = np.arange(len(sample.ids)) != 3
    return replace(
        sample, ids=sample.ids[keep], loss_mask=sample.loss_mask[keep], rows=MemoryRows(bits_of(sample)[keep])
    )


def float32(sample: Sample) -> Sample:
    form = replace(sample.form, dtype="float32")
    return replace(make_sample(1, form), form=form)


def other_layers(sample: Sample) -> Sample:
    return replace(sample, form=replace(sample.form, layers=(1, 4, 7)))


@pytest.mark.parametrize(
    ("forge", "kinds"),
    [
        (mask_ends_early, {"mask"}),
        (mask_shifted, {"mask"}),
        (one_token_short, {"ids"}),
        (padded, {"ids"}),
        (other_ids, {"ids"}),
        (a_row_left_out, {"ids"}),
        (a_nan, {"non_finite"}),
        (a_zero_row, {"zero_row"}),
        (a_zero_slot, {"zero_row"}),
        (float32, {"shape"}),
        (other_layers, {"shape"}),
    ],
)
def test_faults_of_a_producer(tmp_path: Path, layout: str, forge: object, kinds: set[str]) -> None:
    run = make_stored_run(tmp_path, layout, forge={1: forge})  # type: ignore[dict-item]
    kinds_found = found(run)
    assert kinds_found.keys() == kinds
    assert all(samples == ["s1"] for samples in kinds_found.values())


def test_a_fault_is_placed(tmp_path: Path, layout: str) -> None:
    (store,) = verify(make_stored_run(tmp_path, layout, forge={1: a_nan})).stores
    assert store.first[0].what == "row 4, the output of layer 4: not finite"


@pytest.mark.parametrize("short", ["ids", "loss_mask"])
def test_arrays_of_other_lengths_are_refused_before_they_are_stored(tmp_path: Path, layout: str, short: str) -> None:
    store = make_layout(layout, tmp_path / "hidden_states" / "B1")
    sample = make_sample(0, form_for(store))
    with pytest.raises((StoreError, ValueError)):
        store.place(replace(sample, **{short: getattr(sample, short)[:-1]}), 0)
    assert not [path for path in tmp_path.rglob("*") if path.is_file() and path.stat().st_size]


# What can happen to what was stored.


def test_one_flipped_byte_anywhere(tmp_path: Path, layout: str) -> None:
    run = make_stored_run(tmp_path, layout)
    record = records(run)["s2"]
    path = file_of(run, record)
    for place in np.linspace(record.offset, record.offset + record.bytes - 1, 40).astype(int):
        flip_byte(path, int(place))
        assert found(run) == {"checksum": ["s2"]}, place
        flip_byte(path, int(place))
    assert found(run) == {}


def test_a_file_that_is_gone(tmp_path: Path, layout: str) -> None:
    run = make_stored_run(tmp_path, layout)
    held = records(run)
    (RunDir(run).store("B1") / "notes.txt").write_text("a file that is nobody's")
    file_of(run, held["s2"]).unlink()
    lost = [name for name, record in held.items() if record.file == held["s2"].file]
    assert found(run) == {"missing": lost}


def test_a_file_that_is_cut(tmp_path: Path, layout: str) -> None:
    run = make_stored_run(tmp_path, layout)
    record = records(run)["s4"]  # the last of a shared file
    path = file_of(run, record)
    with path.open("r+b") as file:
        file.truncate(record.offset + record.bytes - 1)
    assert found(run) == {"truncated": ["s4"]}


def test_a_file_that_goes_on(tmp_path: Path, layout: str) -> None:
    run = make_stored_run(tmp_path, layout)
    with file_of(run, records(run)["s4"]).open("ab") as file:
        file.write(b"x")
    assert "tail" in found(run)


def test_two_samples_swapped_in_the_index(tmp_path: Path, layout: str) -> None:
    run = make_stored_run(tmp_path, layout)
    one, other = records(run)["s1"], records(run)["s2"]
    for name, source in (("s1", other), ("s2", one)):
        replace_record(run, name, file=source.file, offset=source.offset, bytes=source.bytes, checksum=source.checksum)
    assert {name for names in found(run).values() for name in names} == {"s1", "s2"}


def test_two_records_of_one_place(tmp_path: Path, layout: str) -> None:
    """Two writers of one name: the second one's bytes are there."""
    run = make_stored_run(tmp_path, layout)
    one = records(run)["s1"]
    replace_record(run, "s2", file=one.file, offset=one.offset, bytes=one.bytes)
    assert sorted(found(run, sample=0)["conflict"]) == ["s1", "s2"]  # type: ignore[type-var]


def test_two_records_of_one_row(tmp_path: Path, layout: str) -> None:
    run = make_stored_run(tmp_path, layout)
    replace_record(run, "s2", row=1)
    assert found(run)["conflict"] == ["s1", "s2"]


@pytest.mark.parametrize(
    "over",
    [{"dtype": "float16"}, {"hidden_size": 16}, {"layers": [1, 4]}, {"norm": "none"}, {"layout": "x"}, {"tokens": 3}],
)
def test_a_record_that_is_not_like_the_others(tmp_path: Path, layout: str, over: dict[str, object]) -> None:
    run = make_stored_run(tmp_path, layout, over={1: over})
    assert found(run)["shape"][:1] == ["s1"]


def test_loss_tokens_of_a_record(tmp_path: Path, layout: str) -> None:
    assert found(make_stored_run(tmp_path, layout, over={1: {"loss_tokens": 2}})) == {"mask": ["s1"]}


def test_a_store_of_other_layers_than_run_toml(tmp_path: Path, layout: str) -> None:
    """Said once of the store: no sample is at fault."""
    run = make_stored_run(tmp_path, layout)
    toml = RunDir(run).config
    toml.write_text(toml.read_text().replace("[1, 4, 6]", "[1, 4, 5]"))
    (store,) = verify(run).stores
    assert store.counts == {"shape": 1}
    assert store.first[0].sample_id is None
    assert "layers 1,4,6 instead of 1,4,5" in store.first[0].what


def test_a_truncated_sample(tmp_path: Path, layout: str) -> None:
    def cut(sample: Sample) -> Sample:
        rows = MemoryRows(bits_of(sample)[:4])
        return replace(sample, ids=sample.ids[:4], loss_mask=sample.loss_mask[:4], rows=rows)

    whole = len(make_sample(1, form_for(make_layout(layout, tmp_path))).ids)
    good = make_stored_run(tmp_path / "good", layout, forge={1: cut}, over={1: {"truncated_from": whole}})
    assert found(good) == {}
    bad = make_stored_run(tmp_path / "bad", layout, forge={1: cut}, over={1: {"truncated_from": whole + 1}})
    assert found(bad) == {"ids": ["s1"]}


# Files, index, responses: what accounts for what.


def test_files_that_no_record_accounts_for(tmp_path: Path, layout: str) -> None:
    run = make_stored_run(tmp_path, layout)
    store = make_layout(layout, RunDir(run).store("B1"))
    extra = record_of(store, make_sample(7, form_for(store)), 7)
    (file_of(run, extra).parent / ".half.part").write_bytes(b"x")
    shared = extra.offset > 0
    kinds = found(run)
    assert kinds.keys() == ({"stray", "tail"} if shared else {"stray"})
    assert len(kinds["stray"]) == 2


def test_files_of_others_are_named_and_left_alone(tmp_path: Path, layout: str) -> None:
    """A trainer may read what lies there, and it has no name that a sample of ours can have."""
    run = make_stored_run(tmp_path, layout)
    folder = RunDir(run).store("B1")
    name = {"safetensors": "foo.safetensors", "modelopt": "foo.ckpt"}.get(layout, "foo.pt")
    for other in (name, f"mine/{name}", "notes.txt"):
        (folder / other).parent.mkdir(exist_ok=True)
        (folder / other).write_bytes(b"x")
    report = verify(run)
    note = f"not of this store, neither read nor removed: 2 files, {name}, mine/{name}"
    assert (report.left, report.stores[0].notes) == (0, [note])
    (store,) = verify_run(run, holding_lock=True)[1]
    assert repair_store(store).said == []
    assert (folder / name).exists()


def test_strays_are_not_looked_for_beside_a_daemon(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    run = make_stored_run(tmp_path, "specforge")
    (RunDir(run).store("B1") / "stray.ckpt").write_bytes(b"x")
    assert found(run) == {"stray": [None]}
    from contracts.liveness import Liveness

    monkeypatch.setattr("daemon.store.verify.look", lambda _: Liveness(True))
    report = verify(run)
    assert (report.daemon, report.left) == (True, 0)
    assert "a daemon is at work" in report.stores[0].notes[0]
    assert found(run, holding_lock=True) == {"stray": [None]}


def test_damage_of_the_index(tmp_path: Path) -> None:
    run = make_stored_run(tmp_path)
    path = index_path(run)
    whole = path.read_bytes()
    path.write_bytes(b"\0" * 20 + b"\n" + whole + whole.splitlines(keepends=True)[0] + b'{"type":"sto')
    (store,) = verify(run).stores
    assert store.counts == {"index": 3}
    assert [finding.what.split(":")[0] for finding in store.first][:2] == [
        "hidden_states.jsonl line 1 (byte 0)",
        "hidden_states.jsonl",
    ]
    assert "cut short (12 bytes" in store.first[2].what


def test_samples_without_prompt_or_response(tmp_path: Path, layout: str) -> None:
    run = make_stored_run(tmp_path, layout)
    folder = RunDir(run).dataset("B1")
    drop_lines(folder.responses, lambda line: line["sample_id"] == "s1")
    drop_lines(folder.prompts, lambda line: line["sample_id"] in ("s2", "s4"))
    assert {kind: sorted(map(str, names)) for kind, names in found(run).items()} == {"unwanted": ["s1", "s2", "s4"]}


def test_exchanged_prompts_are_said_once(tmp_path: Path) -> None:
    run = make_stored_run(tmp_path)
    prompts = RunDir(run).dataset("B1").prompts
    prompts.write_text(prompts.read_text().replace('"sample_id":"s', '"sample_id":"other-'))
    assert found(run) == {"unwanted": [None]}


def test_responses_that_are_gone_are_said_once_also_beside_samples_that_need_none(tmp_path: Path) -> None:
    run = make_stored_run(tmp_path)
    assert any('"loss_mask"' in line for line in RunDir(run).dataset("B1").prompts.read_text().splitlines())
    RunDir(run).dataset("B1").responses.unlink()
    assert found(run) == {"unwanted": [None]}


def test_no_prompts_file(tmp_path: Path) -> None:
    run = make_stored_run(tmp_path, forge={1: a_nan})
    RunDir(run).dataset("B1").prompts.unlink()
    assert found(run) == {"prompts": [None], "non_finite": ["s1"]}


def test_a_response_that_lost_its_ids(tmp_path: Path) -> None:
    run = make_stored_run(tmp_path)
    responses = RunDir(run).dataset("B1").responses
    responses.write_text(responses.read_text().replace('"completion_tokens":5', '"completion_tokens":6'))
    assert found(run) == {"ids": ["s1"]}


def test_a_store_that_is_not_there(tmp_path: Path) -> None:
    """A disk that is not mounted is no reason to call each sample missing."""
    run = make_stored_run(tmp_path)
    store = RunDir(run).store("B1")
    store.rename(tmp_path / "elsewhere")
    store.mkdir()
    (said,) = verify(run).stores[0].first
    assert (said.kind, said.sample_id) == ("missing", None)
    assert "mount its disk" in said.what


def test_what_is_not_stored_yet(tmp_path: Path) -> None:
    """Information: the daemon will see to it, or has given it up."""
    run = make_stored_run(tmp_path, not_stored=(0, 2, 4))
    given_up = Failure(
        sample_id="s2",
        error=FailureClass.CAPTURE,
        message="non_finite",
        next=NextStep.QUARANTINED,
        at=1.0,
        stage=Stage.EXTRACT,
    )
    append(RunDir(run).dataset("B1").failures, given_up)
    report = verify(run)
    assert report.left == 0
    assert (report.stores[0].not_stored, report.stores[0].given_up, report.stores[0].retried) == (2, 1, 1)
    one_token = Failure(
        sample_id="s4",
        error=FailureClass.INVALID_INPUT,
        message="its answer has one token",
        next=NextStep.REFUSED,
        at=1.0,
        stage=Stage.EXTRACT,
        check=CaptureCheck.NOTHING_TO_LEARN,
    )
    append(RunDir(run).dataset("B1").failures, one_token)
    (store,) = verify(run).stores
    assert (store.not_stored, store.given_up, store.retried, store.left_out) == (1, 1, 1, 1)


def test_a_finished_run_lacks_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A share of the samples never written is no information but a fault, once the run says that it is done."""
    from contracts.monitor import Monitor
    from contracts.status import RunState, RunStatus

    class Finished(Monitor):
        def refresh(self) -> RunStatus:
            status = super().refresh()
            status.state = RunState.FINISHED
            return status

    run = make_stored_run(tmp_path, not_stored=(0, 4))
    monkeypatch.setattr("daemon.store.verify.Monitor", Finished)
    assert found(run) == {"not_stored": ["s0", "s4"]}


def test_a_sample_of_the_samples(tmp_path: Path, layout: str) -> None:
    """What needs no reading is looked at for all, the rest for so many."""
    run = make_stored_run(tmp_path, layout, samples=12, forge=dict.fromkeys(range(12), a_nan))
    report = verify(run, sample=4)
    assert report.stores[0].examined == 4
    assert report.stores[0].counts == {"non_finite": 4}
    assert verify(run, sample=100).stores[0].examined == 12
    last = records(run)["s11"]
    with file_of(run, last).open("r+b") as file:
        file.truncate(last.offset + last.bytes - 1)
    assert found(run, sample=0) == {"truncated": ["s11"]}


def test_findings_are_counted_beyond_those_that_are_told(tmp_path: Path) -> None:
    run = make_stored_run(tmp_path, samples=15, forge=dict.fromkeys(range(15), a_nan))
    (store,) = verify(run).stores
    assert store.counts == {"non_finite": 15}
    assert len(store.first) == 10


def test_progress_is_told_for_each_sample(tmp_path: Path) -> None:
    told: list[tuple[str, int, int]] = []
    run = make_stored_run(tmp_path)
    verify(run, progress=lambda name, report, wanted: told.append((name, report.examined, wanted)))
    assert told == [("B1", number, 5) for number in range(1, 6)]


def test_ids_as_int32(tmp_path: Path, layout: str) -> None:
    """A file that another tool wrote anew, with a record that fits it: its ids are right, their type is not."""
    import torch
    from safetensors import safe_open
    from safetensors.numpy import save

    run = make_stored_run(tmp_path, layout)
    record = records(run)["s4"]
    path = file_of(run, record)
    content = path.read_bytes()[record.offset : record.offset + record.bytes]
    if path.suffix in (".ckpt", ".pt"):
        values = torch.load(path)
        values["input_ids"] = values["input_ids"].to(torch.int32)
        torch.save(values, path)
        whole = path.read_bytes()
    else:
        one = tmp_path / "one.safetensors"
        one.write_bytes(content)
        name = "token_ids" if layout == "speculators" else "input_ids"
        with safe_open(one, "pt") as opened:
            facts, bits = opened.metadata(), opened.get_tensor("hidden_states").view(torch.uint16).numpy()
            ids, mask = opened.get_tensor(name).numpy(), opened.get_tensor("loss_mask").numpy()
        whole = save({name: ids.astype(np.int32), "hidden_states": bits, "loss_mask": mask}, facts)
        whole = whole.replace(b'"dtype":"U16"', b'"dtype":"BF16"')
        whole = (int.from_bytes(whole[:8], "little") + 1).to_bytes(8, "little") + whole[8:]
        path.write_bytes(path.read_bytes()[: record.offset] + whole)
    (tmp_path / "other").write_bytes(whole)
    replace_record(run, "s4", bytes=len(whole), checksum=checksum_of(tmp_path / "other", 0, len(whole)))
    (store,) = verify(run).stores
    assert store.counts == {"shape": 1}
    assert "int32" in store.first[0].what or "I32" in store.first[0].what
