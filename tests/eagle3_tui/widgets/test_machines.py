"""GPUs, servers and the host: figures that are missing, wrong or worrying, and as much as the width holds."""

from __future__ import annotations

import re
from typing import Any

import pytest
from rich.cells import cell_len
from textual.strip import Strip

from contracts.details.servers import ServerDetail, ServersDetail
from contracts.records import DiskReading, GpuReading, ServerReading
from contracts.status import RunState, RunStatus
from eagle3_tui.screens.servers import server_facts
from eagle3_tui.terminal import Capabilities
from eagle3_tui.widgets.gpu_history import KEPT, STEP_S, GpuHistory
from eagle3_tui.widgets.gpus import gpu_grid, gpu_line, grid_height, most_columns
from eagle3_tui.widgets.look import look_for
from eagle3_tui.widgets.servers import full_height, host_line, server_line, servers_height, servers_line
from tests.eagle3_tui.samples import NOW, gpus, hidden, host, running, server, storing

LOOK = look_for(Capabilities())


def texts(lines: list[Strip]) -> list[str]:
    return [line.text for line in lines]


def line_of(found: list[GpuReading] | None, state: str | None = "ok", width: int = 80) -> str:
    return gpu_line(running(gpus=found, gpu_state=state), width, LOOK).text


def grid(found: list[GpuReading], columns: int, width: int, history: GpuHistory | None = None) -> list[str]:
    return texts(gpu_grid(found, columns, width, LOOK, history or GpuHistory()))


def test_no_telemetry_and_no_gpu_are_different_things() -> None:
    assert "unknown: no readings" in line_of(None, None)
    assert "none (no NVIDIA driver)" in line_of([], "no NVIDIA driver")


def test_memory_that_is_not_reported_is_not_a_zero() -> None:
    """Case 40."""
    gpu = GpuReading(index=0, utilization_pct=37.0, temperature_c=54.0)
    line = line_of([gpu])
    for needed in ("37 %", "54 °C", "memory n/a"):
        assert needed in line
    (drawn,) = grid([gpu], 1, 120)
    for needed in ("37 %", "54 °C", "memory n/a", "-/- W"):
        assert needed in drawn
    assert " 0 %" not in drawn


def test_a_lost_gpu_is_named_and_does_not_count_as_idle() -> None:
    found = gpus(4)
    found[2] = GpuReading(index=2, state="lost", reason="GPU is lost; see dmesg")
    line = line_of(found)
    assert "▲" not in line
    assert "██✗█" in line.replace("▇", "█")
    assert "#2 lost" in line
    assert "96 % (90-99)" in line or "95 % (90-99)" in line
    assert "✗ lost: GPU is lost" in grid(found, 1, 62)[2]


def test_mig_is_said_and_hides_what_it_hides() -> None:
    found = gpus(2)
    found[1] = GpuReading(index=1, mig=True, state="mig", memory_used_bytes=10**10, memory_total_bytes=96 * 10**9)
    one, other = grid(found, 1, 62)
    assert "MIG" in other
    assert "- %" in other
    assert "MIG" not in one
    assert "1 mig" in line_of(found)


@pytest.mark.parametrize("count", [1, 2, 3, 5, 8, 16])
@pytest.mark.parametrize("width", [40, 62, 80, 85, 120, 300])
def test_every_gpu_has_its_place_and_no_line_is_too_wide(count: int, width: int) -> None:
    status = running(gpus=gpus(count))
    rows = grid_height(status, width, 8)
    columns = -(-count // rows)
    assert columns <= most_columns(width)
    lines = grid(gpus(count), columns, width)
    assert len(lines) == rows
    assert {cell_len(line) for line in lines} == {width}
    for index in range(count):
        assert any(f" {index:>2} " in line for line in lines)
    assert all("°C" in line for line in lines)


def test_columns_of_figures_stand_below_each_other() -> None:
    found = gpus(4)
    found[1].power_w, found[2].memory_used_bytes, found[3].utilization_pct = 97.0, None, 100.0
    for width in (32, 62, 104):
        assert len({line.index("°C") for line in grid(found, 1, width)}) == 1


def test_processes_are_shown_where_anybody_tells_them() -> None:
    found = gpus(2)
    assert "proc" not in "".join(grid(found, 1, 80))
    found[1].processes = 3
    assert [("- proc" in line, "3 proc" in line) for line in grid(found, 1, 80)] == [(True, False), (False, True)]


class TestHistory:
    def test_a_cell_is_the_mean_of_a_step_that_is_over(self) -> None:
        history = GpuHistory()
        start = NOW - NOW % STEP_S
        for second in range(int(2 * STEP_S)):
            history.add(start + second, [GpuReading(index=3, utilization_pct=10.0 * second)])
        assert history.last(3, 2) == [None, 20.0]
        history.add(start + 2 * STEP_S, [GpuReading(index=3)])
        assert history.last(3, 3) == [None, 20.0, 70.0]

    def test_the_same_moment_counts_once(self) -> None:
        history = GpuHistory()
        for use in (50.0, 90.0):
            history.add(NOW, [GpuReading(index=0, utilization_pct=use)])
        history.add(NOW + STEP_S, [])
        assert history.last(0, 1) == [50.0]

    def test_a_gap_is_a_gap_and_old_steps_go(self) -> None:
        history = GpuHistory()
        for step in range(KEPT + 20):
            if step != KEPT + 15:
                history.add(NOW + step * STEP_S, [GpuReading(index=0, utilization_pct=1.0 * step)])
        last = history.last(0, KEPT + 5)
        assert last[-1] == KEPT + 18
        assert last[-4] is None
        assert last[:5] == [None] * 5

    def test_what_was_before_the_first_reading_is_filled_in(self) -> None:
        history = GpuHistory()
        assert history.lacks(NOW)
        history.add(NOW, [GpuReading(index=0, utilization_pct=50.0)])
        history.put(NOW, {0: (10.0, None, 30.0), 1: (1.0, 2.0, 3.0)})
        assert history.last(0, 4) == [None, 10.0, None, 30.0]
        assert history.last(1, 2) == [2.0, 3.0]
        assert not history.lacks(NOW + STEP_S)
        history.add(NOW + STEP_S, [GpuReading(index=0, utilization_pct=60.0)])
        assert history.last(0, 2) == [30.0, 50.0]

    def test_an_earlier_moment_and_a_later_one_are_other_stretches(self) -> None:
        history = GpuHistory()
        history.add(NOW, [GpuReading(index=0, utilization_pct=50.0)])
        assert history.lacks(NOW - 1)
        assert history.lacks(NOW + 2 * STEP_S)
        history.add(NOW - 600, [GpuReading(index=0, utilization_pct=7.0)])
        history.add(NOW - 600 + STEP_S, [])
        assert history.last(0, 2) == [None, 7.0]

    def test_it_is_drawn_between_use_and_memory(self) -> None:
        history = GpuHistory()
        for step, use in enumerate([0.0, 50.0, 100.0, None, 100.0, 0.0]):
            history.add(NOW + step * STEP_S, [GpuReading(index=0, utilization_pct=use)])
        (line,) = grid(gpus(1), 1, 62, history)
        assert re.search(r" 99 % +▁▅█ █  88/96 GB", line)


def of(one: ServerReading, width: int = 120, **over: Any) -> str:
    return server_line(one, running(**over), width, LOOK).text


def test_a_server_that_is_down_says_why() -> None:
    down = server(30001, state="down", reason="connection refused", running=None)
    assert "✗ down: connection refused" in of(down)
    both = servers_line(running(servers=[server(30000), down]), 80, LOOK).text
    assert "127.0.0.1:30001 down" in both
    assert "running 248" in both


def test_a_server_that_tells_nothing_shows_dashes() -> None:
    silent = server(running=None, queued=None, kv_usage_pct=None, tokens_per_s=None, model=None, retracted=None)
    assert "running -  queued -  KV -  tok/s -  cache -  retracted -" in of(silent)


def test_a_server_shows_cache_hits_and_retractions() -> None:
    assert "cache 43 %  retracted 5" in of(server(cache_hit_pct=43.0, retracted=5))
    assert "retracted 5" in of(server(cache_hit_pct=43.0, retracted=5), 70)


def test_a_health_check_alone_is_no_health() -> None:
    """Case 23: it says that all is well, and nothing comes back."""
    assert "✓ ok" in of(server())
    assert "▲ no progress" in of(server(), state=RunState.STALLED)
    assert "✓ ok" in of(server(running=0, outstanding=0), state=RunState.STALLED)
    silent = running(servers=[server(30000, tokens_per_s=0.0), server(30001, tokens_per_s=0.0)])
    silent.totals.tokens_per_s = 0.0
    assert "▲ no progress" in server_line(silent.servers[0], silent, 120, LOOK).text
    assert "✗ 127.0.0.1:30000 no progress" in servers_line(silent, 120, LOOK).text
    silent.totals.hidden = hidden(in_work=4)
    assert "✓ ok" in server_line(silent.servers[0], silent, 120, LOOK).text


def test_one_server_that_answers_nobody_among_others_that_do() -> None:
    """All make tokens, as far as they say, and the run goes on: only the times of the answers tell."""
    found = running(
        servers=[server(30000, silent_s=301.0, last_answer_s=301.0), server(30001, silent_s=2.0)], stall_after_s=300.0
    )
    assert "▲ no answer for 5m 01s" in server_line(found.servers[0], found, 120, LOOK).text
    assert "✓ ok" in server_line(found.servers[1], found, 120, LOOK).text
    assert "✗ 127.0.0.1:30000 no answer for 5m 01s" in servers_line(found, 120, LOOK).text
    found.stall_after_s = 600.0
    assert "✓ ok" in server_line(found.servers[0], found, 120, LOOK).text
    found.stall_after_s = None
    assert "✓ all ok" in servers_line(found, 120, LOOK).text


def test_a_server_that_warms_up_is_waited_for_and_no_emergency() -> None:
    starting = server(30001, state="starting", reason="GET /health answers 503")
    assert "▲ starting: GET /health answers 503" in of(starting)
    assert server_line(starting, running(), 120, LOOK)._segments[-1].style != LOOK.bad
    text = servers_line(running(servers=[server(30000), starting]), 120, LOOK).text
    assert "▲ 127.0.0.1:30001 starting" in text and "✗" not in text and "all ok" not in text
    both = servers_line(running(servers=[server(30000, state="down"), starting]), 120, LOOK).text
    assert "✗ 127.0.0.1:30000 down" in both and "▲ 127.0.0.1:30001 starting" in both


def test_when_a_server_answered_last() -> None:
    def told(**over: Any) -> list[str]:
        facts = server_facts(
            ServerDetail("http://a", server(**over), server(**over), True, {}, (), (), (), ()),
            ServersDetail((), NOW, {}, None, None, ()), NOW, LOOK, 300.0,
        )  # fmt: skip
        return [text for fact in facts if fact.label == "answers" for text, _ in fact.parts]

    assert told(last_answer_s=3.0, silent_s=3.0) == ["last answer 3s ago"]
    assert told(last_answer_s=60.0, silent_s=2.0) == ["last answer 1m 00s ago", "248 open, none answered for 2s"]
    assert told(last_answer_s=300.0, silent_s=300.0)[1] == "248 open, none answered for 5m 00s"
    assert told(last_answer_s=3_600.0, outstanding=0) == ["last answer 1h 00m ago"]
    assert told(silent_s=7.0) == ["none since the daemon's start", "248 open, none answered for 7s"]
    assert told(outstanding=0) == []


def test_the_host_says_when_its_disk_is_full() -> None:
    line = host_line(storing(), 120, LOOK).text
    for needed in ("CPU 34 %", "memory 121.0/512.0 GB", "disk free 2.3 TB  full in 11h 11m", "shm free 240.0 GB"):
        assert needed in line
    assert "full in" not in host_line(running(), 120, LOOK).text
    soon = host_line(storing(disk_full_in_s=3_000.0), 120, LOOK)
    assert any(part.text == "50m 00s" and part.style == LOOK.warn for part in soon)


def test_a_full_shm_stays_on_a_narrow_line() -> None:
    full = host()
    full.shm_free_bytes = 10**9
    assert "shm free 1.0 GB" in host_line(running(host=full), 50, LOOK).text


@pytest.mark.parametrize("width", [40, 60, 80, 120, 200])
def test_all_figures_take_two_lines_at_most(width: int) -> None:
    status: RunStatus = storing(servers=[server(30000), server(30001, state="down", reason="refused")])
    assert servers_height(status) == 3
    assert 3 <= full_height(status, width, LOOK) <= 5
    assert full_height(status, 200, LOOK) == 3


def test_a_store_on_a_disk_of_its_own_is_named_with_the_time_until_it_is_full() -> None:
    status = storing(disk_full_in_s=3_000.0, disk_full_path="/big/raid")
    assert status.host is not None
    status.host.disks = [
        DiskReading(path="/data/run", uses=["run", "dumps"], free_bytes=2 * 10**12, total_bytes=3 * 10**12),
        DiskReading(path="/big/raid", uses=["store"], free_bytes=41 * 10**9, total_bytes=7 * 10**12),
    ]
    text = host_line(status, 140, LOOK).text
    assert "disk free 2.0 TB  store free 41.0 GB (/big/raid)  full in 50m 00s" in text
    assert "shm free" not in text, "one disk is not shown twice"
