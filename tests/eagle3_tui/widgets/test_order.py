from __future__ import annotations

import pytest

from contracts.status import DatasetStage, DatasetStatus
from eagle3_tui.terminal import Capabilities
from eagle3_tui.widgets.columns import choose_columns
from eagle3_tui.widgets.look import look_for
from eagle3_tui.widgets.order import Sort, arranged, next_sort, sort_by
from tests.eagle3_tui.samples import dataset, storing

LOOK = look_for(Capabilities())
SOME = [
    dataset("b", done=1, tokens_per_s=None, eta_s=50.0),
    dataset("漢字", DatasetStage.HALTED, done=3, tokens_per_s=2.0, eta_s=None),
    dataset("A", DatasetStage.FINISHED, done=2, tokens_per_s=9.0, eta_s=0.0),
]


def names(sort: Sort, wanted: str = "", datasets: list[DatasetStatus] | None = None) -> list[str]:
    return [data.name for data in arranged(SOME if datasets is None else datasets, sort, wanted, LOOK)]


@pytest.mark.parametrize(
    ("title", "expected"),
    [
        (None, ["b", "漢字", "A"]),
        ("data set", ["A", "b", "漢字"]),
        ("stage", ["漢字", "b", "A"]),
        ("done/prompts", ["漢字", "A", "b"]),
        ("tok/s", ["A", "漢字", "b"]),
        ("ETA", ["b", "A", "漢字"]),
    ],
)
def test_by_a_column_the_way_one_wants_it(title: str | None, expected: list[str]) -> None:
    assert names(sort_by(title)) == expected


def test_unknown_comes_last_both_ways() -> None:
    assert names(Sort("tok/s", descending=True))[-1] == names(Sort("tok/s", descending=False))[-1] == "b"
    assert names(Sort("tok/s", descending=False)) == ["漢字", "A", "b"]
    assert names(Sort(None, descending=True)) == ["A", "漢字", "b"]


def test_every_column_can_be_sorted_by_and_the_last_one_leads_back() -> None:
    status = storing()
    titles = [column.title for column in choose_columns(status, 300)]
    assert len(titles) == 15
    sort = Sort()
    seen = []
    for _ in titles:
        sort = next_sort(sort, titles)
        assert len(arranged(status.datasets, sort, "", LOOK)) == len(status.datasets)
        seen.append(sort.title)
    assert seen == titles
    assert next_sort(sort, titles) == Sort()
    assert next_sort(Sort("a column that went with the width"), titles).title == titles[0]


@pytest.mark.parametrize(
    ("wanted", "expected"),
    [
        ("", ["b", "漢字", "A"]),
        ("a", ["漢字", "A"]),
        ("halted", ["漢字"]),
        ("字 HALT", ["漢字"]),
        ("b finished", []),
        ("[", []),
    ],
)
def test_every_word_in_name_or_stage(wanted: str, expected: list[str]) -> None:
    assert names(Sort(), wanted) == expected


def test_the_arrow_is_ascii_where_it_has_to_be() -> None:
    plain = look_for(Capabilities(unicode=False))
    assert [Sort("x", descending).arrow(plain) for descending in (True, False)] == ["v", "^"]
    assert [Sort("x", descending).arrow(LOOK) for descending in (True, False)] == ["▼", "▲"]
