"""What is left, and how long it takes."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from contracts.eta import Work, is_finished, remaining_tokens
from contracts.liveness import Liveness
from contracts.report import build_status
from contracts.status import RunState, RunStatus
from tests.support.records import NOW, PID, event, folded, heartbeat, make_run, response, write


def work(**over: Any) -> Work:
    values = {"prompts": 100, "settled": 40, "completion_tokens": 4000, "known": 40, "target_tokens": None}
    return Work(**(values | over))


@pytest.mark.parametrize(
    ("over", "finished", "remaining"),
    [
        ({}, False, 6000.0),
        ({"target_tokens": 5000}, False, 1000.0),
        ({"target_tokens": 50_000}, False, 6000.0),
        ({"target_tokens": 4000}, True, 0.0),
        ({"target_tokens": 0, "settled": 0, "known": 0, "completion_tokens": None}, True, 0.0),
        ({"settled": 100}, True, 0.0),
        ({"settled": 110}, True, 0.0),
        ({"prompts": None}, False, None),
        ({"prompts": None, "target_tokens": 5000}, False, 1000.0),
        ({"settled": 0, "known": 0, "completion_tokens": 0}, False, None),
        ({"settled": 3, "known": 0, "completion_tokens": None}, False, None),
        ({"settled": 3, "known": 0, "completion_tokens": None, "target_tokens": 70}, False, 70.0),
        ({"settled": 80, "completion_tokens": 4000, "known": 40}, False, 2000.0),
    ],
)
def test_work_left(over: dict[str, Any], finished: bool, remaining: float | None) -> None:
    assert is_finished(work(**over)) is finished
    assert remaining_tokens(work(**over)) == remaining


class TestAfterResume:
    """Case 37: 1,000 prompts, 900 of them done before, then one every 10 s."""

    def status(self, folder: Path, seconds: float, start: float, **beat: Any) -> RunStatus:
        run = make_run(folder, prompts=1000)
        before = [response(f"d-{number}", 40, finished_at=start - 1.5 - number % 7) for number in range(900)]
        count = int(seconds // 10)
        after = [
            response(f"d-{900 + each}", 40, started_at=start + 10 * each, finished_at=start + 10 * (each + 1))
            for each in range(count)
        ]
        write(run.dataset("d").responses, before + after)
        write(run.events, [event("daemon.started", start)])
        now = start + seconds
        write(run.telemetry_file("daemon"), [heartbeat(now, in_flight={"d": 1}, concurrency=1, **beat)])
        return build_status(folded(run), Liveness(True, PID, start), now, now)

    @pytest.mark.parametrize("start", [NOW, NOW + 0.4, NOW + 3, NOW + 9.99])
    def test_after_a_minute(self, tmp_path: Path, start: float) -> None:
        status = self.status(tmp_path, 60, start)
        (dataset,) = status.datasets
        assert dataset.prompts is not None
        assert 100 * dataset.done / dataset.prompts == pytest.approx(90.6)
        assert dataset.tokens_per_s == pytest.approx(40 * 0.1, rel=0.02)
        assert dataset.eta_s == pytest.approx(940, rel=0.06)
        assert dataset.eta_low_s is not None
        assert dataset.eta_high_s is not None
        assert dataset.eta_low_s < 940 < dataset.eta_high_s
        assert status.totals.eta_s == dataset.eta_s
        assert status.state is RunState.RUNNING

    def test_nothing_is_finished_within_the_first_second(self, tmp_path: Path) -> None:
        status = self.status(tmp_path, 1, NOW)
        assert (status.datasets[0].eta_s, status.totals.eta_s, status.datasets[0].tokens_per_s) == (None, None, None)
        assert status.state is RunState.RUNNING
        assert (status.totals.done, status.totals.prompts) == (900, 1000)
        assert status.totals.eta_why == "it has only begun"

    def test_stalled_is_unknown(self, tmp_path: Path) -> None:
        status = self.status(tmp_path, 60, NOW, since_progress_s=400.0)
        assert status.state is RunState.STALLED
        assert (status.datasets[0].eta_s, status.totals.eta_s) == (None, None)
        assert status.totals.eta_why == "stalled: nothing for 400 s, 1 request open"

    def test_paused_is_unknown(self, tmp_path: Path) -> None:
        status = self.status(tmp_path, 60, NOW, state="paused")
        assert status.state is RunState.PAUSED
        assert (status.datasets[0].eta_s, status.totals.eta_s, status.totals.eta_low_s) == (None, None, None)
        assert status.totals.eta_why == "paused"
