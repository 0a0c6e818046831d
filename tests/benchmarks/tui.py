"""The screen in a terminal of 120x36: first paint, memory, bytes and CPU, how soon a record is seen, a large run.

Beside it in the same run: Textual's own DataTable with the same table and reader, and btop where it is installed.
"""

from __future__ import annotations

import math
import os
import random
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

from contracts.fold.run import RunFold
from contracts.run_dir import RunDir
from tests.benchmarks.tui_load import DATASETS, answer, make_run, name_of, readings, some_ids
from tests.benchmarks.tui_watched import Watched, done_in
from tests.support.terminal import ROOT

STARTS = 5
IDLE_S = 15.0
RATE = 500.0
WARM_UP_S = 6.0
MEASURED_S = 20.0
LARGE = 1_000_000
DAY_S = 86_400
DAY_STEP_S = 10


def ours(run: Path) -> list[str]:
    """The command of our screen."""
    return [sys.executable, "-m", "eagle3_tui", "tui", str(run)]


def plain(run: Path) -> list[str]:
    """The command of the plain table."""
    return [sys.executable, "-m", "tests.benchmarks.tui_datatable", str(run)]


def still(folder: Path) -> RunDir:
    """A run at rest: some answers, nobody at work."""
    run = make_run(folder, 1000)
    chance = random.Random(2)
    ids = some_ids(chance, 100)
    for number in range(DATASETS):
        lines = [answer(index, ids, 100, time.time() - 60) for index in range(200)]
        run.dataset(name_of(number)).responses.write_bytes(b"".join(lines))
    return run


def btop(home: Path) -> list[str] | None:
    """The command of btop, with a home of its own: it writes its settings there; None: it is not installed."""
    program = shutil.which("btop")
    return None if program is None else ["env", f"HOME={home}", program]


def starting(command: Sequence[str], answers: int | None) -> tuple[float, float, float]:
    """Return medians of seconds until the first frame, until the counts are there, and to leave.

    Args:
        command: Program and arguments.
        answers: What it is to count; None: it counts nothing.
    """
    first, counts, leaving = [], [], []
    for _ in range(STARTS):
        watched = Watched(command)
        # The first thing with letters in it: what comes before asks the terminal what it can do.
        first.append(watched.until(lambda text: any(character.isalpha() for character in text)) - watched.began)
        if answers is None:
            counts.append(math.nan)
        else:
            counts.append(watched.until(lambda text: done_in(text) == answers) - watched.began)
        leaving.append(watched.quit())
    return statistics.median(first), statistics.median(counts), statistics.median(leaving)


def idle(command: Sequence[str], settle_s: float = 4.0) -> tuple[float, float, float]:
    """Return bytes a second, per cent of a core, and MB, with nothing to show but what is there."""
    watched = Watched(command)
    time.sleep(settle_s)
    sent, cpu = watched.sent, watched.cpu_s
    time.sleep(IDLE_S)
    figures = (watched.sent - sent) / IDLE_S, 100 * (watched.cpu_s - cpu) / IDLE_S, watched.memory_mb
    watched.quit()
    return figures


def under_load(command: Sequence[str], run: RunDir, log: Path) -> tuple[float, float, float, float, float]:
    """Return bytes a second, per cent of a core, MB, and median and p99 of ms until a record is on the screen."""
    seconds = WARM_UP_S + MEASURED_S + 2.0
    load = [sys.executable, "-m", "tests.benchmarks.tui_load", str(run.path), str(RATE), str(seconds), str(log)]
    with subprocess.Popen(load, cwd=ROOT) as writer:
        watched = Watched(command)
        time.sleep(WARM_UP_S)
        begun, sent, cpu = time.monotonic(), watched.sent, watched.cpu_s
        time.sleep(MEASURED_S)
        took = time.monotonic() - begun
        rate, share, memory = (watched.sent - sent) / took, 100 * (watched.cpu_s - cpu) / took, watched.memory_mb
        ended = time.monotonic()
        time.sleep(1.5)
        watched.quit()
        writer.wait()
    late = sorted(waits(log, watched.shown(), begun, ended))
    return rate, share, memory, 1e3 * statistics.median(late), 1e3 * late[int(0.99 * len(late))]


def waits(log: Path, shown: Sequence[tuple[float, int]], begun: float, ended: float) -> list[float]:
    """Seconds from the write of each record in a time to the first screen that counts it."""
    found, place, before = [], 0, 0
    for line in log.read_text().splitlines():
        at, written = float(line.split()[0]), int(line.split()[1])
        while place < len(shown) and shown[place][1] < written:
            place += 1
        if begun <= at <= ended:
            assert place < len(shown), "a record was never counted on the screen"
            found += [shown[place][0] - at] * (written - before)
        before = written
    return found


def large(folder: Path) -> tuple[RunDir, float]:
    """A run of `LARGE` records with 24 h of telemetry and a checkpoint; and its GB."""
    each = -(-LARGE // DATASETS)
    run = make_run(folder, each)
    chance = random.Random(3)
    now = time.time()
    bodies = [some_ids(chance, 30) for _ in range(20)]
    for number in range(DATASETS):
        count = min(each, LARGE - number * each)
        with run.dataset(name_of(number)).responses.open("wb") as file:
            for index in range(count):
                file.write(answer(index, bodies[index % 20], 30, now - DAY_S + DAY_S * index / each))
    in_flight = {name_of(number): 0 for number in range(DATASETS)}
    for second in range(0, DAY_S, DAY_STEP_S):
        readings(run, now - DAY_S + second, float(second), chance, in_flight)
    fold = RunFold(run.path)
    fold.poll()
    fold.save_checkpoint()
    return run, sum(file.stat().st_size for file in folder.rglob("*") if file.is_file()) / 1e9


def opening(run: RunDir) -> tuple[float, float, float, float]:
    """Return seconds until all is counted on the screen, until the day is drawn after `w w`, to leave; and MB."""
    watched = Watched(ours(run.path))
    counted = watched.until(lambda text: done_in(text) == LARGE) - watched.began
    time.sleep(2.0)
    pressed = time.monotonic()
    watched.type("ww")
    drawn = watched.until(lambda text: "[all]" in text) - pressed
    memory = watched.memory_mb
    return counted, drawn, watched.quit(), memory


def report() -> str:
    """Return the tables."""
    loads = [os.getloadavg()[0]]
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        run = still(folder / "still")
        answers = DATASETS * 200
        screens = {"eagle3 tui": ours, "DataTable": plain}
        lines = [
            "| | first frame s | counts on it s | quit s | idle B/s | idle CPU % | memory MB |",
            "|---|---|---|---|---|---|---|",
        ]
        for title, command in screens.items():
            first, counts, leaving = starting(command(run.path), answers)
            rate, share, memory = idle(command(run.path))
            lines.append(
                f"| {title} | {first:.2f} | {counts:.2f} | {leaving:.2f} | {rate:.0f} | {share:.2f} | {memory:.0f} |"
            )
        other = btop(folder)
        if other is None:
            lines.append("| btop | not installed | | | | | |")
        else:
            first, _, leaving = starting(other, None)
            rate, share, memory = idle(other)
            lines.append(
                f"| btop, as always | {first:.2f} | - | {leaving:.2f} | {rate:.0f} | {share:.2f} | {memory:.0f} |"
            )
        loads.append(os.getloadavg()[0])
        lines += [
            "",
            f"{RATE:.0f} records/s over {DATASETS} files, 8 GPUs, 2 servers:",
            "",
            "| | kB/s | CPU % | memory MB | on screen after ms, median | p99 |",
            "|---|---|---|---|---|---|",
        ]
        for title, command in screens.items():
            busy = make_run(folder / f"busy-{len(title)}", 2000)
            rate, share, memory, median, worst = under_load(command(busy.path), busy, folder / "log")
            lines.append(f"| {title} | {rate / 1e3:.1f} | {share:.1f} | {memory:.0f} | {median:.0f} | {worst:.0f} |")
            shutil.rmtree(busy.path)
        loads.append(os.getloadavg()[0])
        big, size = large(folder / "large")
        counted, drawn, leaving, memory = opening(big)
        lines += [
            "",
            f"{LARGE:,} records ({size:.1f} GB) with a checkpoint, 24 h of telemetry every {DAY_STEP_S} s: "
            f"counted on the screen after {counted:.2f} s, the whole day drawn {drawn:.2f} s after the key, "
            f"left in {leaving:.2f} s, {memory:.0f} MB.",
            f"Load of the machine: {', '.join(f'{load:.1f}' for load in (*loads, os.getloadavg()[0]))}.",
        ]
    return "\n".join(lines)


if __name__ == "__main__":
    print(report())
