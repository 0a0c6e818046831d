"""`eagle3 export`: the daemon's own code at work, its words and exit codes passed on."""

from __future__ import annotations

import fcntl
import json
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from contracts.records import encode_line
from contracts.run_dir import RunDir
from tests.eagle3_tui.commands.conftest import Result
from tests.support.known_samples import known_samples, write_store

Eagle3 = Callable[..., Result]


@pytest.fixture
def stored(run_path: Path) -> Path:
    """The stopped run, with three samples stored in our own layout."""
    run = RunDir(run_path)
    records = write_store("safetensors", run.store("B1"), known_samples(lengths=(4, 9, 2)))
    run.dataset("B1").hidden_states.write_bytes(b"".join(map(encode_line, records)))
    return run_path


def test_a_run_is_exported_while_its_daemon_is_at_work(eagle3: Eagle3, stored: Path, tmp_path: Path) -> None:
    with (stored / "daemon.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        result = eagle3("export", stored, "--to", "specforge", tmp_path / "out")
    assert result.code == 0
    first, second = result.err.splitlines()
    assert first.startswith("B1: not written: norm.safetensors: the run's store has none. ")
    assert second.startswith("B1: not written: the maps of a draft vocabulary: run.toml has no [extract] draft_vocab")
    assert "B1: exported 3 samples, 15 tokens, " in result.out
    assert result.out.endswith("; 2 things beside them not written, see above\n")
    assert len(list((tmp_path / "out" / "B1").rglob("*.ckpt"))) == 3
    description = json.loads((tmp_path / "out" / "B1" / "eagle3-store.json").read_bytes())
    assert (description["layout"], description["samples"]) == ("specforge", 3)
    again = eagle3("export", stored, "--to", "specforge", tmp_path / "out", "--dataset", "B1")
    assert again.code == 0
    assert "exported 0 samples" in again.out
    assert "3 were there already" in again.out


def test_samples_that_were_left_out_are_named_and_exit_1(eagle3: Eagle3, stored: Path, tmp_path: Path) -> None:
    (shard,) = (stored / "hidden_states" / "B1").glob("*.e3s")
    content = bytearray(shard.read_bytes())
    content[-20] ^= 1
    shard.write_bytes(content)
    result = eagle3("export", stored, "--to", "modelopt", tmp_path / "out")
    assert result.code == 1
    assert "B1: not exported: sample" in result.out
    assert "B1: exported 2 samples" in result.out
    assert "1 left out" in result.out
    assert "eagle3 verify" in result.out.splitlines()[-1]
    report = eagle3("export", stored, "--to", "modelopt", tmp_path / "out", "--json")
    assert report.code == 1
    assert [(one["samples"], one["already"], one["failed"]) for one in report.json["datasets"]] == [(0, 2, 1)]


@pytest.mark.parametrize(
    ("arguments", "code", "words"),
    [
        (["--to", "gguf", "out"], 2, "unknown layout 'gguf'; known: safetensors, specforge"),
        (["--to", "specforge"], 2, "expected 2 arguments"),
        ([], 2, "--to"),
        (["--to", "specforge", "out", "--dataset", "B9"], 1, "the data set 'B9' has no hidden states"),
        (["--to", "speculators", "out"], 1, "norm.safetensors"),
    ],
)
def test_what_cannot_be_done_is_one_sentence(
    eagle3: Eagle3,
    stored: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    arguments: list[str],
    code: int,
    words: str,
) -> None:
    monkeypatch.chdir(tmp_path)
    result = eagle3("export", stored, *arguments)
    assert (result.code, result.out) == (code, "")
    assert words in result.err
    assert result.err.count("\n") == 1
    assert not (tmp_path / "out").exists()


def test_a_run_toml_that_cannot_be_used_is_exit_2(eagle3: Eagle3, stored: Path, tmp_path: Path) -> None:
    (stored / "run.toml").write_text("[run]\nnmae = 'x'\n")
    result = eagle3("export", stored, "--to", "specforge", tmp_path / "out")
    assert result.code == 2
    assert "nmae" in result.err


def test_a_folder_that_is_no_run_is_exit_5(eagle3: Eagle3, tmp_path: Path) -> None:
    assert eagle3("export", tmp_path / "none", "--to", "specforge", tmp_path / "out").code == 5


def test_a_target_that_cannot_be_written_says_what_to_do(eagle3: Eagle3, stored: Path, tmp_path: Path) -> None:
    (tmp_path / "out").write_text("a file")
    result = eagle3("export", stored, "--to", "specforge", tmp_path / "out")
    assert result.code == 1
    assert "the same command goes on where it ended" in result.err


def test_control_characters_never_reach_the_terminal(
    eagle3: Eagle3, stored: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    words = {"notes": ["a \x1b[2J"], "missing": ["b \x1b[2J"]}
    done = {"dataset": "B1", "folder": "out", "already": 12000, "samples": 0, "tokens": 0, "bytes": 0, "removed": 3}
    report = {"layout": "x", "datasets": [{**done, "failed": 12, "first_failed": ["\x1b[2J"], **words}]}
    program = f"print({json.dumps(report)!r}); raise SystemExit(1)"
    monkeypatch.setattr("eagle3_tui.commands.export.program", lambda *_: [sys.executable, "-c", program])
    result = eagle3("export", stored, "--to", "specforge", tmp_path / "out")
    assert (result.code, result.err) == (1, "B1: not written: b ^[[2J\n")
    assert result.out.splitlines()[:4] == [
        "a ^[[2J",
        "B1: not exported: ^[[2J",
        "B1: not exported: 11 more",
        "B1: exported 0 samples, 0 tokens, 0 B to out, 12,000 were there already, 3 were removed that the run has no "
        "longer, 12 left out; 1 thing beside them not written, see above",
    ]
