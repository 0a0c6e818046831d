from __future__ import annotations

import time
from pathlib import Path

import pytest

from contracts.details import journal, windows
from contracts.details.journal import EVENTS, LOG, Page, find, page_after, page_before
from contracts.fold.run import RunFold
from contracts.records import Severity
from contracts.replay.past import Past
from tests.support.records import NOW, event, folded, make_run, write

INFO, WARNING, CRITICAL = Severity.INFO, Severity.WARNING, Severity.CRITICAL


@pytest.fixture
def fold(tmp_path: Path) -> RunFold:
    """1,000 events, one a second, the last one now; every hundredth a warning."""
    run = make_run(tmp_path / "r")
    write(
        run.events,
        [
            event("k", NOW - 999 + n, message=f"event {n}", severity=WARNING if n % 100 == 0 else INFO)
            for n in range(1000)
        ],
    )
    return folded(run)


def numbers(page: Page) -> list[int]:
    return [int(entry.text.split()[-1]) for entry in page.entries]


def test_pages_back_to_the_first_and_forth_again(fold: RunFold) -> None:
    page = page_before(fold, NOW, EVENTS, None, 300, INFO)
    assert numbers(page) == list(range(700, 1000))
    seen = numbers(page)
    while not page.is_first:
        page = page_before(fold, NOW, EVENTS, page.start, 300, INFO)
        seen = numbers(page) + seen
    assert seen == list(range(1000))
    page = page_after(fold, NOW, EVENTS, 0, 300, INFO)
    seen = numbers(page)
    while page.entries:
        page = page_after(fold, NOW, EVENTS, page.end, 300, INFO)
        seen += numbers(page)
    assert seen == list(range(1000))


def test_a_least_severity(fold: RunFold) -> None:
    page = page_before(fold, NOW, EVENTS, None, 4, WARNING)
    assert numbers(page) == [600, 700, 800, 900]
    assert numbers(page_before(fold, NOW, EVENTS, page.start, 4, WARNING)) == [200, 300, 400, 500]
    after = page_after(fold, NOW, EVENTS, 0, 4, WARNING)
    assert numbers(after) == [0, 100, 200, 300]
    assert numbers(page_after(fold, NOW, EVENTS, after.end, 2, WARNING)) == [400, 500]
    assert page_before(fold, NOW, EVENTS, None, 4, CRITICAL).entries == ()


def test_a_page_reads_no_more_than_its_bound(fold: RunFold, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(journal, "MOST", 1)
    monkeypatch.setattr(windows, "BLOCK", 1024)
    page = page_before(fold, NOW, EVENTS, None, 3, CRITICAL)
    assert page.entries == ()
    assert 0 < page.start < page.end


@pytest.mark.parametrize("moment", [0, 1, 499, 500, 998])
def test_at_a_moment_of_the_past_later_events_are_not_there(
    fold: RunFold, moment: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(journal, "BLOCK", 256)
    page = page_before(fold, NOW - 999 + moment - 1, EVENTS, None, 5, INFO)
    assert numbers(page) == list(range(max(moment - 4, 0), moment + 1))
    assert numbers(page_after(fold, NOW - 999 + moment - 1, EVENTS, page.start, 50, INFO))[-1] == moment


def test_search_both_ways_whatever_the_case(fold: RunFold) -> None:
    raw = fold.run.events.read_bytes()
    match = find(fold, NOW, EVENTS, "EVENT 77", len(raw), True, INFO)
    assert match.offset is not None
    assert b'"event 779"' in raw[match.offset :].partition(b"\n")[0]
    older = find(fold, NOW, EVENTS, "EVENT 77", match.offset, True, INFO)
    assert older.offset is not None
    assert b'"event 778"' in raw[older.offset :].partition(b"\n")[0]
    behind = older.offset + raw[older.offset :].index(b"\n") + 1
    assert find(fold, NOW, EVENTS, "event 77", behind, False, INFO).offset == match.offset
    nothing = find(fold, NOW, EVENTS, "no such thing", len(raw), True, INFO)
    assert (nothing.offset, nothing.done) == (None, True)


def test_search_passes_over_what_is_not_shown(fold: RunFold) -> None:
    raw = fold.run.events.read_bytes()
    match = find(fold, NOW, EVENTS, "event", len(raw), True, WARNING)
    assert match.offset is not None
    assert b'"event 900"' in raw[match.offset :].partition(b"\n")[0]
    assert find(fold, NOW, EVENTS, "schema", len(raw), True, INFO).offset is None


def test_search_for_what_json_writes_otherwise(tmp_path: Path) -> None:
    run = make_run(tmp_path / "r")
    write(run.events, [event("k", message='said "漢字 x" twice'), event("k", message="other")])
    match = find(folded(run), NOW, EVENTS, '"漢字 x"', run.events.stat().st_size, True, INFO)
    assert match.offset == 0


def test_the_log_with_its_tracebacks(tmp_path: Path) -> None:
    run = make_run(tmp_path / "r")
    run.log.write_text(
        "2026-01-02 03:04:05,678 INFO eagle3: fine\n"
        "2026-01-02 03:04:06,678 ERROR eagle3: broken\nTraceback\n  ValueError: \x1b[31m\n"
        "2026-01-02 03:04:07,678 WARNING eagle3: hm\n"
    )
    fold = folded(run)
    entries = page_before(fold, NOW, LOG, None, 10, INFO).entries
    assert [(entry.severity, entry.continues) for entry in entries] == [
        (INFO, False), (CRITICAL, False), (CRITICAL, True), (CRITICAL, True), (WARNING, False),
    ]  # fmt: skip
    assert [entry.text for entry in page_before(fold, NOW, LOG, None, 10, CRITICAL).entries] == [
        "eagle3: broken", "Traceback", "  ValueError: \x1b[31m",
    ]  # fmt: skip
    assert entries[0].at is not None


def test_at_a_moment_of_the_past_the_log_ends_there(tmp_path: Path) -> None:
    run = make_run(tmp_path / "r")

    def line(at: float, text: str) -> str:
        return f"{time.strftime('%Y-%m-%d %H:%M:%S', time.localtime(at))},250 INFO eagle3: {text}\n"

    run.log.write_text(line(NOW - 60, "first") + "  the rest of it\n" + line(NOW - 30, "second") + "more\n")

    def texts(at: float) -> list[str]:
        fold = RunFold(run.path, Past(at))
        fold.poll()
        page = page_before(fold, at, LOG, None, 10, INFO)
        assert page_after(fold, at, LOG, 0, 10, INFO).entries == page.entries
        return [entry.text for entry in page.entries]

    assert texts(NOW - 90) == []
    assert texts(NOW - 31) == ["eagle3: first", "  the rest of it"]
    assert texts(NOW - 29) == ["eagle3: first", "  the rest of it", "eagle3: second", "more"]
    run.log.write_text("no time\nat all\n")
    assert texts(NOW - 90) == ["no time", "at all"]


def test_an_unreadable_line_is_shown_as_one(tmp_path: Path) -> None:
    run = make_run(tmp_path / "r")
    write(run.events, [b"not json\n"])
    (entry,) = page_before(folded(run), NOW, EVENTS, None, 10, INFO).entries
    assert (entry.severity, entry.text) == (WARNING, "unreadable line: not json")
