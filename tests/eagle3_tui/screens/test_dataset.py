"""The screen of a data set whose prompts bring their answers: not empty, though nothing is answered there."""

from __future__ import annotations

from pathlib import Path

import pytest

from contracts.details import prompts, windows
from contracts.records import FailureClass, Stage
from contracts.status import DatasetStage
from eagle3_tui.screens.dataset import DatasetScreen
from tests.eagle3_tui.samples import NOW, dataset, hidden, running
from tests.eagle3_tui.screens.details import EXTRA, OneScreen, press, screen_text, settled
from tests.support.records import failure, make_run, prompt_line, write
from tests.support.stored import stored

NAME = "A1_brought"


@pytest.fixture
def app(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> OneScreen:
    """200 prompts of 3 to 40 tokens with their answers, 30 of them stored, one that failed."""
    monkeypatch.chdir(tmp_path)
    run = make_run(tmp_path / "run", datasets=(NAME,), extra=EXTRA, prompts=0)
    own = run.dataset(NAME)
    ids = [",".join(["5"] * (3 + number % 38)) for number in range(200)]
    write(
        own.prompts,
        [f'{{"sample_id":"a-{n}","input_ids":[{i}],"loss_mask":[{i}]}}\n'.encode() for n, i in enumerate(ids)],
    )
    write(own.hidden_states, [stored(f"a-{n}", row=n, at=NOW - 300 + 10 * n, capture="afterwards") for n in range(30)])
    failed = failure("a-40", stage=Stage.EXTRACT, error=FailureClass.CAPTURE, message="no rows came", at=NOW - 4)
    write(own.failures, [failed])
    made = OneScreen(Path("run"), lambda look, feed, ask: DatasetScreen(look, feed, NAME, ask))
    made.source.status = running(
        datasets=[
            dataset(
                NAME, DatasetStage.EXTRACTING, prompts=200, pretokenized=200, done=0, completion_tokens=0,
                prompt_tokens=0, avg_completion_tokens=None, target_tokens=None, tokens_per_s=None, length_pct=None,
                in_flight=0, hidden=hidden(to_store=200, stored=30, tokens=5_100, failed=1, in_work=16),
            )
        ]
    )  # fmt: skip
    return made


NEEDED = (
    NAME, "extract", "30/200 stored", "200 bring their answer", "3 to 4", "median", "p99", "16 in work",
    "afterwards 30", "extract: capture 1 open", "prompts with answers by length, tokens", "rows stored/s, 10 min",
    "a-29",
)  # fmt: skip


@pytest.mark.parametrize("size", [(80, 24), (120, 36)])
async def test_it_shows_what_there_is(app: OneScreen, size: tuple[int, int]) -> None:
    async with app.run_test(size=size) as pilot:
        await settled(pilot)
        text = screen_text(pilot)
        for needed in NEEDED:
            assert needed in text, (needed, text)
        for absent in ("no answer", "0/0 answers"):
            assert absent not in text
        assert "no record yet" in await press(pilot, "l")
        assert "a-29" in await press(pilot, "l")
        assert "sample a-28" in " ".join((await press(pilot, "down", "enter")).split())


async def test_lengths_that_were_not_all_counted_are_said_to_be_some(
    app: OneScreen, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(prompts, "WINDOW", 200)
    monkeypatch.setattr(windows, "BLOCK", 200)
    async with app.run_test(size=(120, 36)) as pilot:
        await settled(pilot)
        text = screen_text(pilot)
        assert "of 200" in text
        assert "looked at)" in text


async def test_prompts_that_bring_only_ids_are_to_be_answered(app: OneScreen) -> None:
    write(Path("run/prepared") / NAME / "prompts.jsonl", [prompt_line("a-more")])
    async with app.run_test(size=(120, 36)) as pilot:
        await settled(pilot)
        text = screen_text(pilot)
        assert "answers by length" in text
        assert "no record yet" in text
        assert "a-29" in await press(pilot, "l")
