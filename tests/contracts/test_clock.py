"""Case 65: time that does not jump, for the daemon and for those who read what it wrote."""

from __future__ import annotations

import pytest

from contracts.clock import Clock, boot_id
from contracts.liveness import Liveness, current_heartbeat, heartbeat_age, reader_now
from tests.support.records import NOW, PID, heartbeat


class Machine:
    """Two clocks, of which the wall one can be set."""

    def __init__(self) -> None:
        self.wall, self.mono = NOW, 500.0

    def sleep(self, seconds: float) -> None:
        self.wall += seconds
        self.mono += seconds


@pytest.mark.parametrize("step", [-3600.0, 7200.0])
def test_durations_are_right_when_the_wall_clock_is_set(step: float) -> None:
    machine = Machine()
    clock = Clock(lambda: machine.wall, lambda: machine.mono)
    assert clock.now() == NOW
    machine.sleep(10)
    machine.wall += step
    assert (clock.now(), clock.mono()) == (NOW + 10, 510.0)
    machine.sleep(5)
    assert clock.now() == NOW + 15


@pytest.mark.parametrize("step", [-3600.0, 0.0, 7200.0])
def test_a_heartbeat_of_this_boot_has_its_true_age(step: float) -> None:
    beat = heartbeat(NOW, mono=500.0)
    assert heartbeat_age(beat, 503.5, NOW + 3.5 + step) == 3.5
    assert reader_now(beat, 503.5, NOW + 3.5 + step) == NOW + 3.5


def test_a_heartbeat_of_another_boot_or_machine_is_judged_by_the_wall_clock() -> None:
    beat = heartbeat(NOW, mono=9e9, boot_id="another")
    assert heartbeat_age(beat, 1.0, NOW + 4) == 4.0
    assert heartbeat_age(heartbeat(NOW, mono=9e9, boot_id=""), 1.0, NOW + 4) == 4.0


def test_ages_are_never_negative() -> None:
    assert heartbeat_age(heartbeat(NOW, mono=500.0), 499.0, NOW) == 0.0
    assert heartbeat_age(heartbeat(NOW, boot_id="another"), 0.0, NOW - 3600) == 0.0


def test_without_a_heartbeat_the_wall_clock_is_the_present() -> None:
    assert reader_now(None, 1.0, NOW) == NOW


@pytest.mark.parametrize(
    ("liveness", "current"),
    [
        (Liveness(True, PID, NOW - 10), True),
        (Liveness(True, PID, None), True),
        (Liveness(True), True),
        (Liveness(True, PID + 1, NOW - 10), False),
        (Liveness(True, PID, NOW + 1), False),
        (Liveness(False), False),
        (Liveness(None), False),
    ],
)
def test_a_heartbeat_of_the_daemon_before_is_not_this_ones(liveness: Liveness, current: bool) -> None:
    beat = heartbeat(NOW)
    assert current_heartbeat(beat, liveness) is (beat if current else None)
    assert current_heartbeat(None, liveness) is None


def test_the_boot_has_an_id_here() -> None:
    assert len(boot_id()) == 36
