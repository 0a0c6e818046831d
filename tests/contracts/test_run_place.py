"""A run folder is known by what it is, not by its name."""

from pathlib import Path

import pytest

from contracts.run_place import RunAwayError, RunPlace
from tests.support.records import bare_run


@pytest.fixture
def run(tmp_path: Path) -> Path:
    return bare_run(tmp_path / "my run")


def test_a_folder_that_is_there_under_any_name_is_no_trouble(run: Path) -> None:
    link = run.with_name("link")
    link.symlink_to(run)
    place, through_link = RunPlace(run), RunPlace(link)
    assert place.trouble() is None and through_link.trouble() is None
    place.check()
    run.rename(run.with_name("elsewhere"))
    run.symlink_to("elsewhere")
    assert place.trouble() is None, "it is reached by its path all the same"


def test_a_moved_folder_is_named_with_where_it_is_and_is_well_once_it_is_back(run: Path) -> None:
    place, moved = RunPlace(run), run.with_name("my moved run")
    run.rename(moved)
    trouble = place.trouble()
    assert trouble is not None and f"{run} was moved to {moved}" in trouble
    assert trouble.endswith(f"or stop with: eagle3 stop '{moved}'")
    with pytest.raises(RunAwayError, match="move it back"):
        place.check()
    assert (place.inside / "run.toml").samefile(moved / "run.toml")
    moved.rename(run)
    assert place.trouble() is None


def test_another_run_at_the_path_is_not_this_one(run: Path) -> None:
    place = RunPlace(run)
    run.rename(run.with_name("old"))
    bare_run(run)
    assert "was moved to" in str(place.trouble())
    assert not place.is_deleted


def test_a_deleted_folder_is_known_as_that_whatever_is_at_its_path_then(run: Path) -> None:
    place = RunPlace(run)
    (run / "run.toml").unlink()
    assert "Put them back" in str(place.trouble())
    run.rmdir()
    assert place.is_deleted and "was deleted" in str(place.trouble())
    bare_run(run)
    assert place.is_deleted and "was deleted" in str(place.trouble())
