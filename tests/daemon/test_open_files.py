"""How many connections fit into the limit of open files."""

import resource

import pytest

from daemon.open_files import ConnectionLimit, most_connections, reserved


class Limits:
    def __init__(self, soft: int, hard: int) -> None:
        self.soft, self.hard = soft, hard
        self.raised = 0

    def get(self, _: int) -> tuple[int, int]:
        return self.soft, self.hard

    def set(self, _: int, limits: tuple[int, int]) -> None:
        self.soft, self.hard = limits
        self.raised += 1


def limited(monkeypatch: pytest.MonkeyPatch, soft: int, hard: int) -> Limits:
    limits = Limits(soft, hard)
    monkeypatch.setattr(resource, "getrlimit", limits.get)
    monkeypatch.setattr(resource, "setrlimit", limits.set)
    return limits


def test_enough_is_left_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    limits = limited(monkeypatch, 1024, 4096)
    assert most_connections(256, 50) == (256, None)
    assert limits.raised == 0


def test_the_soft_limit_is_raised_as_far_as_needed(monkeypatch: pytest.MonkeyPatch) -> None:
    limits = limited(monkeypatch, 256, 4096)
    assert most_connections(512, 50) == (512, None)
    assert limits.soft == 562


def test_what_does_not_fit_is_lowered_and_said(monkeypatch: pytest.MonkeyPatch) -> None:
    limits = limited(monkeypatch, 64, 128)
    fit, said = most_connections(200, 50)
    assert (fit, limits.soft) == (78, 128)
    assert said is not None and "from 200 to 78" in said and "ulimit -n 250" in said


def test_there_is_always_one(monkeypatch: pytest.MonkeyPatch) -> None:
    limited(monkeypatch, 20, 20)
    assert most_connections(5, 50)[0] == 1


def test_no_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    limited(monkeypatch, resource.RLIM_INFINITY, resource.RLIM_INFINITY)
    assert most_connections(10**6, 50) == (10**6, None)


def test_a_wish_that_does_not_fit_is_said_once(monkeypatch: pytest.MonkeyPatch) -> None:
    limited(monkeypatch, 100, 100)
    said: list[str] = []
    limit = ConnectionLimit(50, said.append)
    assert [limit.fit(wanted) for wanted in (10, 200, 200, 10, 200)] == [10, 50, 50, 10, 50]
    assert len(said) == 1


def test_data_sets_and_servers_need_theirs() -> None:
    assert reserved(10, 8) - reserved(1, 1) == 9 * 3 + 7 * 3
    assert reserved(1, 1) < 64, "under ulimit -n 64 something is left"
