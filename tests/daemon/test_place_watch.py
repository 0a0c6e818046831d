"""A run whose folder is away is paused, and goes on when it is back."""

import shutil
from pathlib import Path

import pytest

from contracts.clock import Clock
from contracts.run_place import RunPlace
from daemon.condition import JOURNALS, Condition
from daemon.events import EventLog
from daemon.place_watch import PlaceWatch
from tests.support.records import bare_run


class Scene:
    def __init__(self, run: Path) -> None:
        self.events: list[bytes] = []
        self.condition = Condition(EventLog(self.events.append, Clock(), []))
        self.woken = self.stopped = 0
        self.watch = PlaceWatch(RunPlace(run), self.condition, self._wake, self._stop)

    def _wake(self) -> None:
        self.woken += 1

    def _stop(self) -> None:
        self.stopped += 1


@pytest.fixture
def run(tmp_path: Path) -> Path:
    return bare_run(tmp_path / "run")


def test_it_pauses_while_the_folder_is_away_and_no_store_is_blamed(run: Path) -> None:
    scene, moved = Scene(run), run.with_name("moved")
    scene.watch.look()
    assert scene.condition.may_send and not scene.woken
    run.rename(moved)
    scene.watch.look()
    scene.watch.look()
    scene.watch.look()
    assert scene.condition.state == "paused" and str(moved) in str(scene.condition.disk_trouble)
    assert scene.condition.store_trouble is None
    scene.condition.set_trouble(JOURNALS, scene.condition.away)
    moved.rename(run)
    scene.watch.look()
    assert scene.condition.away is None and not scene.condition.may_send, "the journals have not been tried yet"
    scene.condition.set_trouble(JOURNALS, None)
    assert scene.condition.may_send and scene.woken == 2 and not scene.stopped
    assert len(scene.events) == 2


def test_an_editor_that_takes_run_toml_away_for_a_moment_pauses_nothing(run: Path) -> None:
    scene = Scene(run)
    for _ in range(3):
        (run / "run.toml").unlink()
        scene.watch.look()
        (run / "run.toml").write_text("")
        scene.watch.look()
    assert scene.events == []


def test_a_deleted_run_ends_its_daemon(run: Path) -> None:
    scene = Scene(run)
    shutil.rmtree(run)
    scene.watch.look()
    assert not scene.stopped
    scene.watch.look()
    assert scene.stopped == 1
