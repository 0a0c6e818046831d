"""The parts of the extract stage together: queues from the files, dumps of an earlier session, what is complete."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import pytest

from contracts.clock import Clock
from contracts.fold.run import RunFold
from contracts.records import CaptureCheck, FailureClass, NextStep, encode_line
from contracts.run_config import load_run_config
from contracts.run_dir import RunDir
from daemon.condition import Condition
from daemon.extract.extraction import Extraction
from daemon.extract.queue import ExtractQueue
from daemon.prompts.index import PromptIndex, PromptLimits
from daemon.request_ids import RequestIds, sample_hash
from daemon.run_tag import keep_tag
from tests.daemon.capture.dumps import FORM, make_header, write_dump
from tests.daemon.extract.support import LIMITS, Events, Journals, entries, prompt, response, waiting
from tests.support.runs import make_run, until
from tests.support.stored import failed_capture

PROMPTS = [prompt("a"), prompt("b"), prompt("c"), prompt("m", loss_mask=[0, 1, 1])]


class Started:
    def __init__(self, path: Path, **extract: Any) -> None:
        self.dumps = path / "dumps"
        given = {"layers": list(FORM.layers), "dump_dir": str(self.dumps), **extract}
        self.run = RunDir(make_run(path / "run", ["http://h:1"], {"B1": PROMPTS}, extract=given))
        self.dumps.mkdir()
        self.events = Events()
        self.rids = RequestIds(self.run.path, "5e55")

    def answer(self, *responses: Any) -> None:
        for each in responses:
            Journals().append(self.run.dataset("B1").responses, encode_line(each))

    def left(self, sample: str, ids: list[int]) -> str:
        """A dump of an earlier session."""
        rid = f"e3.{self.rids.tag}.{sample_hash('B1', sample.encode())}.01d.0"
        write_dump(self.dumps, rid, ids, header=make_header(rid))
        return rid

    async def start(self, limits: PromptLimits = LIMITS) -> ExtractQueue:
        fold = RunFold(self.run.path)
        fold.poll()
        config = load_run_config(self.run.config)
        events: Any = self.events
        journals: Any = Journals()

        async def until_written() -> None:
            pass

        self.extraction = Extraction(
            self.run,
            config,
            fold,
            self.rids,
            journals,
            events,
            Clock(),
            Condition(events),
            lambda url: None,
            until_written,
        )
        await self.extraction.open()
        servers: Any = self.extraction._servers
        servers.form = FORM
        self.index = PromptIndex.build(self.run.dataset("B1").prompts, LIMITS)
        queues = await self.extraction.make_queues({"B1": self.index}, limits, lambda: None)
        self.fold = fold
        return queues["B1"]

    async def settle(self, queue: ExtractQueue) -> None:
        await until(lambda: not self.extraction.captures.taking)
        self.fold.poll()
        queue.refresh()
        await self.extraction.captures._removals.end(10.0)


async def test_whole_dumps_of_wanted_samples_are_taken_and_others_removed(tmp_path: Path) -> None:
    started = Started(tmp_path)
    came_with_it = started.left("a", [1, 2, 3, 4])
    started.answer(response("a", [4, 5], came_with_it), response("b", [6, 7, 8]), response("c", [4, 5]))
    started.left("m", [1, 2, 3])
    started.left("c", [1, 2, 3, 4])
    short = started.left("b", [1, 2, 3])
    stranger = started.left("nobody", [1, 2, 3])
    foreign = tmp_path / "dumps" / "e3.ffffffff.0000000000000000.s.0.dump"
    foreign.write_bytes(b"another run's")
    queue = await started.start()
    assert waiting(queue) == ["b"] and queue.busy
    assert not any((tmp_path / "dumps" / f"{rid}.dump").exists() for rid in (short, stranger))
    await started.settle(queue)
    hidden = started.fold.datasets["B1"].hidden
    assert {key: size.capture for key, size in hidden.sizes.items()} == {
        b"a": "generating", b"c": "afterwards", b"m": "afterwards",
    }, "as they were made"  # fmt: skip
    assert [path.name for path in (tmp_path / "dumps").iterdir()] == [foreign.name]
    assert "dumps.adopted" in started.events.kinds
    await started.extraction.stop(finished=False)
    assert "dumps.left" not in started.events.kinds


@pytest.mark.parametrize("finished", [True, False])
async def test_what_an_end_leaves_is_said_and_a_finished_run_leaves_nothing(finished: bool, tmp_path: Path) -> None:
    started = Started(tmp_path)
    await started.start()
    rids = [started.left("a", [1, 2]), started.left("b", [1, 2])]
    foreign = started.dumps / "e3.ffffffff.0000000000000000.s.0.dump"
    foreign.write_bytes(b"another run's")
    await started.extraction.stop(finished=finished)
    left = sorted(path.name for path in started.dumps.iterdir())
    said = [message for _, kind, message in started.events.said if kind == "dumps.left"]
    if finished:
        assert (left, said) == ([foreign.name], [])
    else:
        assert left == sorted([*(f"{rid}.dump" for rid in rids), foreign.name])
        assert len(said) == 1 and said[0].startswith("2 dumps (0.000 GB) of samples")
        assert f"rm {started.dumps}/e3.{started.rids.tag}.*" in said[0]


async def test_dumps_of_a_moved_run_are_taken_and_those_of_the_original_of_a_copy_named(tmp_path: Path) -> None:
    started = Started(tmp_path)
    keep_tag(started.run.path)
    rid = started.left("m", [1, 2, 3])
    copy = tmp_path / "copy"
    shutil.copytree(started.run.path, copy)
    original, started.run = started.run, RunDir(copy)
    keep_tag(copy)
    started.rids = RequestIds(copy, "5e55")
    queue = await started.start()
    assert waiting(queue) == ["m"] and (started.dumps / f"{rid}.dump").exists()
    (said,) = [message for _, kind, message in started.events.said if kind == "dumps.foreign"]
    assert str(original.path) in said and said.endswith(f"rm {started.dumps}/{rid[:12]}*")
    started.run = RunDir(original.path.rename(tmp_path / "moved"))
    keep_tag(started.run.path)
    started.rids = RequestIds(started.run.path, "5e56")
    queue = await started.start()
    assert waiting(queue) == [] and queue.busy, "it is its own"
    await started.settle(queue)


@pytest.mark.parametrize("over_long", ["truncate", "skip"])
async def test_what_limits_a_pass_limits_no_rows_that_are_there(over_long: str, tmp_path: Path) -> None:
    started = Started(tmp_path, over_long=over_long)
    rid = started.left("a", [1, 2, 3, 4, 5, 6])
    started.answer(response("a", [4, 5, 6, 7], rid), response("b", [4, 5, 6, 7]), response("c", [4, 5, 6, 7]))
    started.left("c", [1, 2, 3, 4, 5])
    queue = await started.start(PromptLimits(None, None, 6, 64))
    await started.settle(queue)
    sizes = started.fold.datasets["B1"].hidden.sizes
    assert sizes[b"a"].tokens == 6
    if over_long == "truncate":  # what is left of c is of a pass that was limited as one would be now
        assert (sizes[b"c"].tokens, entries(queue)[b"b"].tokens) == (5, 5)
    else:
        assert waiting(queue) == ["m"] and b"c" not in sizes


async def test_a_sample_that_is_given_up_is_not_taken_from_what_was_left(tmp_path: Path) -> None:
    started = Started(tmp_path)
    started.left("m", [1, 2, 3])
    given_up = failed_capture("m", attempt=3, next=NextStep.QUARANTINED)
    Journals().append(started.run.dataset("B1").failures, encode_line(given_up))
    queue = await started.start()
    assert waiting(queue) == [] and not queue.busy and list(started.dumps.iterdir()) == []


async def test_a_dump_of_another_answer_is_not_taken_for_this_one(tmp_path: Path) -> None:
    started = Started(tmp_path)
    started.answer(response("a", [4, 5]))
    started.left("a", [1, 2, 3, 9])
    queue = await started.start()
    await started.settle(queue)
    assert sorted(waiting(queue)) == ["a", "m"] and not queue.busy
    assert not started.run.dataset("B1").failures.exists() and list((tmp_path / "dumps").iterdir()) == []


async def test_a_response_that_cannot_be_read_does_not_end_the_start(tmp_path: Path) -> None:
    started = Started(tmp_path)
    line = encode_line(response("a", [4, 5])).replace(b"[4,5]", b"[4,-5]")
    Journals().append(started.run.dataset("B1").responses, line)
    started.left("a", [1, 2, 3, 4])
    queue = await started.start()
    assert sorted(waiting(queue)) == ["a", "m"] and not queue.busy
    assert list((tmp_path / "dumps").iterdir()) == []


@pytest.mark.parametrize(
    ("limits", "rows"),
    [
        (PromptLimits(None, None, None, 64), 6),
        (PromptLimits(None, 6, None, 64), 5),
        (PromptLimits(None, None, 6, 64), 5),
        (PromptLimits(None, 6, 5, 64), 4),
    ],
)
async def test_what_a_server_takes_bounds_a_pass(limits: PromptLimits, rows: int, tmp_path: Path) -> None:
    started = Started(tmp_path, over_long="truncate")
    started.answer(response("a", [4, 5, 6, 7]))
    queue = await started.start(limits)
    assert entries(queue)[b"a"].tokens == rows


async def test_room_is_reserved_by_the_answers_of_earlier_sessions(tmp_path: Path) -> None:
    started = Started(tmp_path)
    started.answer(response("a", [4, 5]), response("b", [4, 5]))
    await started.start()
    assert started.extraction.captures.lengths.tokens == 2, "not max_new_tokens"


@pytest.mark.parametrize(("tokens", "limit", "more"), [(9, None, True), (9, 8, False), (9, 9, True), (None, 9, False)])
async def test_a_start_takes_what_was_left_out_and_fits_by_now(
    tokens: int | None, limit: int | None, more: bool, tmp_path: Path
) -> None:
    """Also where the counts say that all is done."""
    started = Started(tmp_path, **({} if limit is None else {"max_tokens": limit}))
    refused = {"next": NextStep.REFUSED, "error": FailureClass.INVALID_INPUT, "tokens": tokens}
    Journals().append(
        started.run.dataset("B1").failures, encode_line(failed_capture("a", CaptureCheck.TOO_LONG, **refused))
    )
    await started.start()
    assert started.extraction.may_store_more() is more


async def test_nothing_stored_is_complete(tmp_path: Path) -> None:
    started = Started(tmp_path)
    started.left("m", [1, 2, 3])
    queue = await started.start()
    assert started.extraction.is_complete()
    await started.settle(queue)
    assert not started.extraction.is_complete()
    await started.extraction.complete()
    assert started.extraction.is_complete() and "store.completed" in started.events.kinds
