"""The table of `eagle3 status` against golden files; UPDATE_GOLDEN=1 writes them anew."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import pytest
from rich.cells import cell_len

from contracts.status import DatasetStage, RunState, RunStatus
from eagle3_tui.status_table import status_lines, summary_line
from eagle3_tui.terminal import ASCII_SIGNS, UNICODE_SIGNS, Signs
from tests.eagle3_tui.statuses import (
    dataset,
    elsewhere,
    run_status,
    running,
    stalled,
    stopped,
    storing,
    with_losses,
)

GOLDEN = Path(__file__).parent / "golden"
STATUSES: dict[str, Callable[[], RunStatus]] = {
    "running": running,
    "stopped": stopped,
    "watching": run_status,
    "storing": storing,
    "elsewhere": elsewhere,
    "with-losses": with_losses,
    "stalled": stalled,
}


@pytest.mark.parametrize("name", STATUSES)
@pytest.mark.parametrize(("form", "width", "signs"), [("80", 80, UNICODE_SIGNS), ("120-ascii", 120, ASCII_SIGNS)])
def test_the_table_is_as_agreed(name: str, form: str, width: int, signs: Signs) -> None:
    lines = status_lines(STATUSES[name](), width=width, signs=signs)
    text = "\n".join(line.rstrip() for line in lines) + "\n"
    path = GOLDEN / f"status-{name}-{form}.txt"
    if os.environ.get("UPDATE_GOLDEN"):
        path.write_text(text, encoding="utf-8")
    assert text == path.read_text(encoding="utf-8")


@pytest.mark.parametrize("name", STATUSES)
@pytest.mark.parametrize("width", [1, 10, 40, 80, 200])
def test_no_line_is_wider_than_asked(name: str, width: int) -> None:
    for line in status_lines(STATUSES[name](), width=width, signs=UNICODE_SIGNS):
        assert cell_len(line) <= width
        assert line.isprintable()


def test_case_49_all_rows_of_the_table_end_in_the_same_cell() -> None:
    lines = status_lines(running(), width=80, signs=UNICODE_SIGNS)
    start = next(index for index, line in enumerate(lines) if line.startswith("data set"))
    assert len({cell_len(line) for line in lines[start : start + 6]}) == 1


def test_with_ascii_signs_only_data_is_not_ascii() -> None:
    assert all(line.isascii() for line in status_lines(stopped(), width=80, signs=ASCII_SIGNS))


def test_what_is_unknown_is_a_dash() -> None:
    lines = status_lines(run_status(), width=80, signs=UNICODE_SIGNS)
    row = next(line for line in lines if line.startswith("B1"))
    assert row.split() == ["B1", "waiting", "0", "-", "-", "-", "-", "-", "0", "-"]


def test_more_unreadable_lines_than_are_listed_are_counted() -> None:
    status = running()
    status.totals.unreadable = 1_000
    assert "unreadable  999 more: see eagle3 status --json" in status_lines(status, width=80, signs=UNICODE_SIGNS)


def test_the_summary_is_one_line_with_the_alerts() -> None:
    line = summary_line(running())
    assert line.isprintable()
    assert "running  10,532/26,400 done  41,234,567 tokens  2,841 tok/s  ETA 13h 05m  failed 12  unreadable 2" in line
    assert line.endswith("critical server_down  warning unreadable_lines")


def test_the_summary_of_the_unknown() -> None:
    status = run_status(totals=dataset("total", stage=None, done=3))
    assert "watching  3/- done  - tokens  - tok/s  ETA -  failed 0" in summary_line(status)


def test_the_age_of_the_oldest_request_is_shown_once_it_is_a_minute() -> None:
    status = running()
    status.oldest_request_s = 359.0
    assert "in flight 248/256, oldest 5m   failed" in "\n".join(status_lines(status, width=120, signs=UNICODE_SIGNS))
    status.oldest_request_s = 59.0
    assert "oldest" not in "\n".join(status_lines(status, width=120, signs=UNICODE_SIGNS))


def test_finished_with_prompts_given_up_is_no_plain_success() -> None:
    status = run_status(state=RunState.FINISHED, totals=dataset("total", stage=None, prompts=120, quarantined=10))
    assert "▲ finished, 10 given up" in status_lines(status, width=80, signs=UNICODE_SIGNS)[0]
    assert "  finished, 10 given up  " in summary_line(status)
    status.totals.quarantined = 0
    assert "✓ finished " in status_lines(status, width=80, signs=UNICODE_SIGNS)[0]


def test_the_summary_says_what_is_stored() -> None:
    assert "stored 10,640/20,332" in summary_line(storing())
    assert "stored" not in summary_line(running())


def test_finished_counts_what_was_not_stored_as_given_up() -> None:
    status = storing()
    status.state = RunState.FINISHED
    assert "finished, 3 given up" in status_lines(status, width=80, signs=UNICODE_SIGNS)[0]


def test_why_nobody_can_say_when_it_is_done() -> None:
    status = running()
    status.totals.eta_s, status.totals.eta_why = None, "no answer yet"
    assert "ETA unknown: no answer yet" in "\n".join(status_lines(status, width=80, signs=UNICODE_SIGNS))


@pytest.mark.parametrize(
    ("reason", "why", "said"),
    [
        ("by command", "paused: by command", "ETA unknown: paused"),
        (
            "no server can be used: http://a down",
            "no server can be used: http://a down",
            "ETA unknown: no server can be used",
        ),
        ("starting", "the daemon is starting", "ETA unknown: the daemon is starting"),
        ("reading prompts", "no server can be used", "ETA unknown: no server can be used"),
    ],
)
def test_a_reason_that_is_said_above_is_not_said_twice(reason: str, why: str, said: str) -> None:
    status = running()
    status.totals.eta_s, status.totals.eta_why, status.reason = None, why, reason
    assert said in [
        part.strip() for line in status_lines(status, width=120, signs=UNICODE_SIGNS) for part in line.split("   ")
    ]


def test_of_a_folder_of_other_tools_no_eta_is_said() -> None:
    status = run_status(totals=dataset("total", stage=None, done=3, eta_why="a folder of other tools, read only"))
    lines = status_lines(status, width=80, signs=UNICODE_SIGNS)
    assert not any("ETA" in line for line in lines if "data set" not in line)
    assert [line for line in lines if not line.strip()] == ["", ""], "and no line for it"


def test_a_finished_run_says_what_ended_it_and_that_it_is_done() -> None:
    status = run_status(
        state=RunState.FINISHED,
        reason="target reached",
        totals=dataset("total", stage=None, done=107, prompts=120, eta_s=0.0),
        datasets=[dataset(name, stage=DatasetStage.FINISHED, eta_s=0.0) for name in ("B1", "B2")],
    )
    assert "  finished: target reached  107/120 done" in summary_line(status)
    assert "ETA done" in summary_line(status)
    rows = [line.split() for line in status_lines(status, width=80, signs=UNICODE_SIGNS)]
    assert [row[-1] for row in rows if row and row[0] in ("B1", "B2", "total")] == ["done"] * 3


def test_speeds_of_a_large_cluster_keep_their_column() -> None:
    status = running()
    status.totals.tokens_per_s = 1_234_567.0
    lines = status_lines(status, width=80, signs=UNICODE_SIGNS)
    assert next(line for line in lines if line.startswith("total")).split()[-5:-2] == ["1.2", "M", "12"]
