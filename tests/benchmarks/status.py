"""``eagle3 status --json`` on a finished run of 100,000 records, with and without its checkpoint."""

from __future__ import annotations

import json
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from contracts.fold.run import RunFold
from tests.benchmarks.reading import write_responses

RECORDS = 100_000
ROUNDS = 9


def make_run(folder: Path) -> None:
    """Write a finished run of one data set."""
    data = folder / "prepared" / "B1"
    data.mkdir(parents=True)
    with (data / "prompts.jsonl").open("w") as file:
        for index in range(RECORDS):
            file.write(f'{{"sample_id":"oci-{index:07d}","input_ids":[1,2,3]}}\n')
    write_responses(data / "raw_responses.jsonl", RECORDS)
    (folder / "run.toml").write_text(
        '[run]\nname = "bench"\n[[servers]]\nurl = "http://127.0.0.1:1"\n[[datasets]]\nname = "B1"\n'
    )


def seconds(command: list[str], rounds: int = ROUNDS) -> float:
    """Return the median of some runs of a command."""
    took = []
    for _ in range(rounds):
        began = time.perf_counter()
        subprocess.run(command, check=True, capture_output=True)
        took.append(time.perf_counter() - began)
    return statistics.median(took)


def report() -> str:
    """Return the table."""
    eagle3 = str(Path(sys.executable).with_name("eagle3"))
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        make_run(folder)
        command = [eagle3, "status", str(folder), "--json"]
        without = seconds(command, 3)
        fold = RunFold(folder)
        fold.poll()
        fold.save_checkpoint()
        with_checkpoint = seconds(command)
        said = json.loads(subprocess.run(command, check=True, capture_output=True).stdout)
        assert said["totals"]["done"] == RECORDS and said["state"] == "finished"
    nothing = seconds([sys.executable, "-c", "pass"])
    bare_json = seconds([sys.executable, "-c", "import json"])
    return "\n".join(
        [
            "| command | seconds |",
            "|---|---|",
            f"| python -c pass | {nothing:.3f} |",
            f"| python -c 'import json' | {bare_json:.3f} |",
            f"| eagle3 status --json, checkpoint | {with_checkpoint:.3f} |",
            f"| eagle3 status --json, no checkpoint (1 GB counted) | {without:.3f} |",
        ]
    )


if __name__ == "__main__":
    print(report())
