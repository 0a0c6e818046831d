"""The clock of a replay, with times handed in."""

import pytest

from contracts.replay.player import MOST_SPEED, SPEEDS, Player


def player(**more: float) -> Player:
    return Player(100.0, 0.0, begin=100.0, end=1100.0, **more)  # type: ignore[arg-type]


def test_it_goes_at_its_speed_and_stays_at_the_end() -> None:
    played = player(speed=60.0)
    assert [played.at(wall) for wall in (0.0, 1.0, 2.5)] == [100.0, 160.0, 250.0]
    assert played.at(1000.0) == 1100.0
    assert played.is_at_end(1000.0)


def test_a_pause_takes_no_time_and_play_goes_on_from_there() -> None:
    played = player(speed=10.0)
    played.toggle(5.0)
    assert played.paused
    assert played.at(50.0) == 150.0
    played.toggle(50.0)
    assert played.at(51.0) == 160.0


def test_play_at_the_end_begins_anew() -> None:
    played = player(speed=1000.0)
    played.toggle(9.0)
    assert not played.paused
    assert played.at(9.0) == 100.0


def test_jumps_stay_within_the_recording() -> None:
    played = player(speed=1.0)
    played.move(60.0, 1.0)
    assert played.at(1.0) == 161.0
    played.move(-600.0, 2.0)
    assert played.at(2.0) == 100.0
    played.jump(9e9, 3.0)
    assert played.at(3.0) == 1100.0


def test_a_change_of_speed_does_not_move_it() -> None:
    played = player(speed=60.0)
    played.faster(1, 1.0)
    assert (played.speed, played.at(1.0), played.at(2.0)) == (120.0, 160.0, 280.0)
    played.faster(-1, 2.0)
    assert (played.speed, played.at(2.0)) == (60.0, 280.0)


@pytest.mark.parametrize(("speed", "kept"), [(0.0, SPEEDS[0]), (1e9, MOST_SPEED), (7.0, 7.0)])
def test_speeds_have_bounds(speed: float, kept: float) -> None:
    assert player(speed=speed).speed == kept


def test_faster_and_slower_end_at_the_last_speed() -> None:
    played = player(speed=7.0)
    played.faster(1, 0.0)
    assert played.speed == 10.0
    for _ in range(20):
        played.faster(1, 0.0)
    assert played.speed == SPEEDS[-1]
    for _ in range(20):
        played.faster(-1, 0.0)
    assert played.speed == SPEEDS[0]


def test_notes_are_gone_through_one_by_one() -> None:
    notes = [120.0, 300.0, 900.0]
    played = player(paused=True)  # type: ignore[arg-type]
    assert played.to_note(notes, 1, 0.0)
    assert played.to_note(notes, 1, 0.0)
    assert played.at(0.0) == 300.0
    assert played.to_note(notes, -1, 0.0)
    assert played.at(0.0) == 120.0
    assert not played.to_note(notes, -1, 0.0)
    assert played.at(0.0) == 120.0


def test_the_end_may_move_on() -> None:
    played = player(speed=1000.0)
    assert played.at(10.0) == 1100.0
    played.end = 2000.0
    assert played.at(10.0) == 2000.0
