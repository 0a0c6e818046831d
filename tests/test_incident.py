"""The founding incident through the command and on the screen: exact counts, and the two garbage lines are seen."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

from tests.support.incident import GENERATED, PRETOKENIZED, make_incident
from tests.support.terminal import Terminal


def test_the_command_counts_exactly(tmp_path: Path) -> None:
    truth = make_incident(tmp_path)
    done = subprocess.run(
        [sys.executable, "-m", "eagle3_tui", "status", str(tmp_path), "--json"], check=False, capture_output=True
    )
    assert done.returncode == 0, done.stderr
    status = json.loads(done.stdout)
    assert status["state"] == "watching"
    assert status["totals"]["unreadable"] == truth.unreadable == 2
    found = {dataset["name"]: dataset for dataset in status["datasets"]}
    assert list(found) == sorted([*PRETOKENIZED, *GENERATED])
    for name in GENERATED:
        counts = (found[name]["done"], found[name]["prompt_tokens"], found[name]["completion_tokens"])
        assert counts == (truth.done[name], truth.prompt_tokens[name], truth.completion_tokens[name]), name
    for name in PRETOKENIZED:
        assert (found[name]["stage"], found[name]["prompts"]) == ("pretokenized", truth.prompts[name])
    assert status["totals"]["completion_tokens"] == sum(truth.completion_tokens.values())
    assert {(line["line"] > 0, line["why"] != "") for line in status["unreadable"]} == {(True, True)}
    assert (
        sorted(path.name for path in tmp_path.rglob("*") if path.is_file())
        == ["prompts.jsonl"] * 4 + ["raw_responses.jsonl"] * 6
    ), "a foreign folder is left as it is"


def test_the_screen_shows_the_same(tmp_path: Path) -> None:
    truth = make_incident(tmp_path)
    terminal = Terminal(tmp_path, rows=36, columns=120)
    try:
        terminal.until("watching", "unreadable 2", "B2_opencodeinstruct", "B4_tools")
        rows = {line.split()[1]: line for line in terminal.screen.display if "_" in line and len(line.split()) > 2}
        for name in GENERATED:
            row = next(line for key, line in rows.items() if key.startswith(name[:12]))
            assert f"{truth.completion_tokens[name]:,}" in row, row
            assert f"{truth.done[name]}/" in row.replace(" ", ""), row
        terminal.child.send("q")
        assert terminal.ended() == 0
    finally:
        terminal.child.close(force=True)
