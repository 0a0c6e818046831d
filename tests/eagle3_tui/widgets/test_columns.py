from __future__ import annotations

import pytest

from contracts.status import DatasetStage, DatasetStatus, RunState
from eagle3_tui.terminal import Capabilities
from eagle3_tui.widgets.cells import Row
from eagle3_tui.widgets.columns import Column, choose_columns
from eagle3_tui.widgets.look import look_for
from tests.eagle3_tui.samples import NOW, dataset, hidden, running, storing

LOOK = look_for(Capabilities())


def titles(columns: list[Column]) -> list[str]:
    return [column.title.strip() for column in columns]


def drawn(data: DatasetStatus, run: RunState = RunState.RUNNING) -> dict[str, str]:
    columns = choose_columns(running(datasets=[data]), 200)
    return {column.title.strip(): column.draw(Row(data, NOW, run), column.width, LOOK)[0].strip() for column in columns}


@pytest.mark.parametrize("width", range(1, 220, 7))
def test_the_columns_fit(width: int) -> None:
    columns = choose_columns(running(), width)
    assert sum(column.width for column in columns) + len(columns) - 1 <= max(width, columns[0].width)
    assert titles(columns)[0] == "data set"


def test_which_columns_stay_on_a_narrow_screen() -> None:
    calm = running(datasets=[dataset("B2_magicoder_and_more")])
    assert titles(choose_columns(calm, 78)) == [
        "data set", "stage", "done/prompts", "to target", "tok/s", "failed", "ETA",
    ]  # fmt: skip
    assert len(choose_columns(calm, 118)) == 10


def test_a_count_that_calls_for_attention_stays() -> None:
    troubled = running(datasets=[dataset("B2_magicoder", unreadable=2)])
    assert "unread" in titles(choose_columns(troubled, 50))
    assert "unread" not in titles(choose_columns(running(datasets=[dataset("B2_magicoder")]), 158))


def test_a_wide_screen_shows_more_and_longer_names_and_bars() -> None:
    found = titles(choose_columns(running(), 198))
    assert {"in flight", "run tok/s", "left", "unread"} <= set(found)
    (bar,) = (column for column in choose_columns(running(), 198) if column.title == "to target")
    assert bar.width > 24 + 6


def test_missing_is_a_dash_and_never_a_zero() -> None:
    cells = drawn(
        dataset(
            "x", None, prompts=None, done=5, completion_tokens=None, avg_completion_tokens=None, target_tokens=None,
            tokens_per_s=None, eta_s=None, length_pct=None,
        )
    )  # fmt: skip
    assert cells == {
        "data set": "x", "stage": "-", "done/prompts": "5/-", "to target": "-", "tokens": "-", "mean": "-",
        "in flight": "62", "tok/s": "-", "run tok/s": "1,390", "length": "-", "failed": "0", "unread": "0",
        "left": "-", "ETA": "-",
    }  # fmt: skip


def test_zero_is_a_zero() -> None:
    cells = drawn(dataset("x", done=0, completion_tokens=0, tokens_per_s=0.0))
    assert (cells["done/prompts"], cells["tokens"], cells["tok/s"]) == ("0/9,000", "0", "0.0")
    assert cells["to target"].endswith("0 %")


def test_without_a_target_the_bar_is_of_the_prompts() -> None:
    assert drawn(dataset("x", target_tokens=None, done=4_500))["to target"].endswith("50 %")


@pytest.mark.parametrize("state", [RunState.STALLED, RunState.PAUSED, RunState.STOPPED])
def test_no_time_of_arrival_where_nothing_moves(state: RunState) -> None:
    assert drawn(dataset("x"))["ETA"] == "22:34"
    assert drawn(dataset("x"), state)["ETA"] == "-"


def test_stages_are_words_and_shapes() -> None:
    seen = {drawn(dataset("x", stage))["stage"] for stage in DatasetStage}
    assert len(seen) == len(DatasetStage)
    signs = {drawn(dataset("x", stage))["data set"][0] for stage in DatasetStage}
    assert len(signs) == len(DatasetStage)


@pytest.mark.parametrize("width", [38, 78, 118])
def test_short_names_do_not_cut_the_title(width: int) -> None:
    assert titles(choose_columns(running(datasets=[dataset("B1")]), width))[0] == "data set"
    assert choose_columns(running(datasets=[dataset("B1")]), width)[0].width >= len("  data set")


def test_what_is_done_has_no_time_left() -> None:
    assert (drawn(dataset("x"))["left"], drawn(dataset("x", DatasetStage.FINISHED))["left"]) == ("21m 25s", "-")


def test_a_finished_data_set_with_prompts_given_up_has_the_sign_of_a_warning() -> None:
    assert drawn(dataset("B1", DatasetStage.FINISHED))["data set"] == "✓ B1"
    assert drawn(dataset("B1", DatasetStage.FINISHED, quarantined=3))["data set"] == "▲ B1"


def test_what_is_stored_has_a_column_where_anything_is() -> None:
    assert "stored" not in titles(choose_columns(running(), 200))
    columns = {width: {c.title: c for c in choose_columns(storing(), width)} for width in (78, 118, 198)}
    assert all("stored" in found for found in columns.values())
    one = dataset("x", hidden=hidden(to_store=7_412, stored=5_930))
    for width, shown in ((78, "80 %"), (118, "5,930/7,412"), (198, "5,930/7,412")):
        column = columns[width]["stored"]
        assert column.draw(Row(one, NOW, RunState.RUNNING), column.width, LOOK)[0].strip() == shown


def test_a_data_set_with_samples_that_were_not_stored_is_no_plain_success() -> None:
    part = dataset("B1", DatasetStage.FINISHED, hidden=hidden(given_up=1))
    assert drawn(part)["data set"] == "▲ B1"
    part.hidden = hidden(skipped=5)
    assert drawn(part)["data set"] == "✓ B1"
