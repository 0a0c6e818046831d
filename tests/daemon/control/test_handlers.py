"""What commands are answered."""

from __future__ import annotations

from pathlib import Path

from contracts.commands import Pause
from contracts.fold.run import RunFold
from daemon.control.handlers import Handlers
from tests.support.records import make_run


class Paused:
    """As much of a daemon as a pause needs."""

    def __init__(self, fold: RunFold) -> None:
        self.fold = fold

    def pause(self, reason: str) -> bool:
        return bool(reason)


async def test_the_way_back_from_a_pause_names_the_run(tmp_path: Path) -> None:
    """It is typed where the reply is read, which need not be the run's folder."""
    run = make_run(tmp_path / "my run")
    reply = await Handlers(Paused(RunFold(run.path))).handle(Pause())  # type: ignore[arg-type]
    assert reply.message.endswith(f"Go on with: eagle3 resume '{run.path}'")
