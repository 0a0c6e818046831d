"""A journal whose run folder is moved away: nothing is made at the old place, and nothing is lost."""

import logging
from pathlib import Path

import pytest

from contracts.journal.append import Journal
from contracts.run_place import RunAwayError, RunPlace
from tests.support.records import bare_run

LINE, SECOND = b'{"a":1}\n', b'{"a":2}\n'


@pytest.fixture
def run(tmp_path: Path) -> Path:
    return bare_run(tmp_path / "run")


def file(run: Path) -> Path:
    return run / "prepared/B1/raw_responses.jsonl"


def test_nothing_is_made_until_it_is_back(run: Path) -> None:
    place, moved = RunPlace(run), run.with_name("moved")
    journal = Journal(file(run), place=place)
    journal.append(LINE)
    run.rename(moved)
    with pytest.raises(RunAwayError, match="was moved to"):
        journal.append(SECOND)
    with pytest.raises(RunAwayError):
        Journal(run / "events.jsonl", place=place)
    assert not run.exists() and file(moved).read_bytes() == LINE
    moved.rename(run)
    journal.append(SECOND)
    assert file(run).read_bytes() == LINE + SECOND
    journal.close()


def test_another_run_at_the_path_gets_nothing(run: Path) -> None:
    journal = Journal(file(run), place=RunPlace(run))
    run.rename(run.with_name("moved"))
    bare_run(run)
    file(run).parent.mkdir(parents=True)
    file(run).write_bytes(b'{"torn')
    with pytest.raises(RunAwayError):
        journal.append(LINE)
    assert [path.name for path in file(run).parent.iterdir()] == [file(run).name]
    assert file(run).read_bytes() == b'{"torn'
    journal.close()


def test_the_last_lines_go_along_with_the_folder_but_not_into_a_deleted_file(run: Path) -> None:
    place, moved = RunPlace(run), run.with_name("moved")
    journal = Journal(file(run), place=place)
    run.rename(moved)
    place.ending = True
    journal.append(LINE)
    assert file(moved).read_bytes() == LINE
    file(moved).unlink()
    with pytest.raises(RunAwayError):
        journal.append(SECOND)
    assert not run.exists()
    journal.close()


def test_a_data_set_folder_that_is_deleted_in_a_run_that_is_there_is_made_again(
    run: Path, caplog: pytest.LogCaptureFixture
) -> None:
    journal = Journal(file(run), place=RunPlace(run))
    file(run).unlink()
    file(run).parent.rmdir()
    with caplog.at_level(logging.WARNING):
        journal.append(LINE)
    assert file(run).read_bytes() == LINE and "was moved, deleted or replaced" in caplog.text
    journal.close()
