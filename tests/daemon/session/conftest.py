import pytest


@pytest.fixture
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    """The daemon's patience with servers, scaled down."""
    monkeypatch.setattr("daemon.servers.pool.DEATH_VERDICT_S", 0.3)
    monkeypatch.setattr("daemon.servers.pool.REFUSED_VERDICT_S", 0.1)
    monkeypatch.setattr("daemon.servers.pool.CHECK_EVERY_S", 0.05)
    monkeypatch.setattr("daemon.servers.pool.PROBE_EVERY_S", 0.2)
    monkeypatch.setattr("daemon.generate.scheduler.TRIAL_S", 0.3)
    monkeypatch.setattr("daemon.session.ALERTS_EVERY_S", 0.05)
