"""`eagle3 verify`: the daemon's own code on real stores, rendered, with its exit code."""

from __future__ import annotations

import fcntl
import json
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from contracts.records import CaptureCheck, FailureClass, NextStep
from contracts.run_dir import RunDir
from daemon.store.findings import StoreReport
from daemon.verbs.verify import Reading
from tests.daemon.store.faults import drop_lines, file_of, flip_byte, index_path, records
from tests.eagle3_tui.commands.conftest import Result
from tests.support.records import write
from tests.support.stored import failed_capture
from tests.support.stored_run import make_stored_run

Eagle3 = Callable[..., Result]


def test_a_good_run(eagle3: Eagle3, tmp_path: Path) -> None:
    result = eagle3("verify", make_stored_run(tmp_path / "run", not_stored=(0,)))
    assert (result.code, result.err) == (0, "")
    lines = result.out.splitlines()
    assert "B1 (safetensors): 4 samples, 35 tokens, " in lines[0]
    assert lines[0].endswith(" kB; read 4; nothing wrong")
    assert lines[1:] == ["    not stored yet: 1", "", "all is well"]


def test_what_a_retry_puts_back_and_what_not(eagle3: Eagle3, tmp_path: Path) -> None:
    run = make_stored_run(tmp_path / "run", not_stored=(0, 2, 4))
    refused = {"error": FailureClass.INVALID_INPUT, "next": NextStep.REFUSED}
    for name, check, over in (
        ("s0", CaptureCheck.NOTHING_TO_LEARN, refused),
        ("s2", CaptureCheck.NO_IDS, refused),
        ("s4", CaptureCheck.IDS, {"next": NextStep.QUARANTINED}),
    ):
        write(RunDir(run).dataset("B1").failures, [failed_capture(name, check, **over)])
    said = "".join(eagle3("verify", run).out.split())  # lines end anywhere in a long path
    for words in (
        f"given up: 2 (eagle3 retry {run} --dataset B1 puts 1 back)",
        "left out: 1 (too long, or nothing in them to learn from)",
    ):
        assert "".join(words.split()) in said


def test_what_is_wrong_and_what_to_do(eagle3: Eagle3, tmp_path: Path) -> None:
    run = make_stored_run(tmp_path / "run", "specforge")
    flip_byte(file_of(run, records(run)["s1"]), 500)
    (RunDir(run).store("B1") / "odd \x1b[2J.ckpt").write_bytes(b"x")
    result = eagle3("verify", run)
    assert result.code == 1
    assert "    bytes changed          1\n        s1 (rows_0-2000/data_1.ckpt): its bytes have\n" in result.out
    assert "    no record              1\n        odd ^[[2J.ckpt: no record accounts for it\n" in result.out
    assert "\x1b" not in result.out
    assert "wrong 2\n> give up what is wrong, so that it is made again: eagle3 verify" in result.out
    assert all(len(line) <= 80 for line in result.out.splitlines() if str(run) not in line)


def test_repair_and_then_all_is_well(eagle3: Eagle3, tmp_path: Path) -> None:
    run = make_stored_run(tmp_path / "run", "specforge")
    path = file_of(run, records(run)["s1"])
    flip_byte(path, 500)
    result = eagle3("verify", run, "--repair", "--json")
    assert result.code == 0
    assert len(result.json["repaired"]) == 2
    assert str(path) in result.json["repaired"][1]
    assert not path.exists()
    result = eagle3("verify", run, "--repair")
    assert result.code == 0
    assert "nothing to repair" in result.out
    result = eagle3("verify", run, "--json")
    assert (result.code, result.json["left"], result.json["stores"][0]["not_stored"]) == (0, 0, 1)


def test_a_repair_is_an_event_of_the_run(eagle3: Eagle3, tmp_path: Path) -> None:
    run = make_stored_run(tmp_path / "run", "specforge")
    eagle3("verify", run, "--repair")
    assert eagle3("events", run, "--json").out == "", "nothing was done"
    flip_byte(file_of(run, records(run)["s1"]), 500)
    drop_lines(index_path(run), lambda line: line["sample_id"] == "s2")
    assert eagle3("verify", run, "--repair").code == 0
    (event,) = map(json.loads, eagle3("events", run, "--json").out.splitlines())
    assert (event["kind"], event["dataset"], event["severity"]) == ("store.repaired", "B1", "warning")
    assert event["message"] == (
        "B1 was repaired by eagle3 verify --repair: 1 sample given up, 1 sample recorded again, 1 removal of what no "
        "record accounts for"
    )
    assert any("'s1' is given up" in sentence for sentence in event["data"]["said"])


def test_many_findings_are_shortened(eagle3: Eagle3, tmp_path: Path) -> None:
    run = make_stored_run(tmp_path / "run", "specforge", samples=8)
    for number in range(6):
        file_of(run, records(run)[f"s{number}"]).unlink()
    result = eagle3("verify", run)
    assert result.code == 1
    assert "    file missing           6\n" in result.out
    assert "        and 3 more\n" in result.out


def test_a_sample_of_the_samples(eagle3: Eagle3, tmp_path: Path) -> None:
    result = eagle3("verify", make_stored_run(tmp_path / "run"), "--sample", "2", "--json")
    assert (result.code, result.json["stores"][0]["examined"]) == (0, 2)


def test_repair_beside_a_daemon_is_refused(eagle3: Eagle3, tmp_path: Path) -> None:
    run = make_stored_run(tmp_path / "run")
    with RunDir(run).lock.open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        result = eagle3("verify", run, "--repair")
        assert (result.code, result.out) == (1, "")
        assert "a daemon runs here already" in result.err
        assert "eagle3 drain" in result.err
        result = eagle3("verify", run)
        assert result.code == 0
        assert "a daemon is at work here" in result.out


def test_a_run_without_extraction(eagle3: Eagle3, run_path: Path) -> None:
    result = eagle3("verify", run_path)
    assert result.code == 0
    assert "nothing is stored" in result.out


def test_not_a_run(eagle3: Eagle3, tmp_path: Path) -> None:
    assert eagle3("verify", tmp_path).code == 5
    assert not list(tmp_path.iterdir())


def test_a_broken_run_toml(eagle3: Eagle3, tmp_path: Path) -> None:
    run = make_stored_run(tmp_path / "run")
    RunDir(run).config.write_text("[run]\nname = 7\n")
    result = eagle3("verify", run)
    assert result.code == 2
    assert "run.toml" in result.err


@pytest.fixture
def verifier(monkeypatch: pytest.MonkeyPatch) -> Callable[[str, str, int], None]:
    """Replace the daemon's verify by one that prints what is given."""

    def replace(out: str, err: str, code: int) -> None:
        program = f"import sys; sys.stdout.write({out!r}); sys.stderr.write({err!r}); sys.exit({code})"
        monkeypatch.setattr("eagle3_tui.commands.verify.program", lambda *_: [sys.executable, "-c", program])

    return replace


def test_progress_is_passed_on(eagle3: Eagle3, tmp_path: Path, verifier: Callable[[str, str, int], None]) -> None:
    report = '{"run":"r","daemon":false,"stores":[],"repaired":null,"left":0}'
    verifier(report, "progress: B1: 3 of 7 \x1b[2J\na note\n", 0)
    result = eagle3("verify", make_stored_run(tmp_path / "run"))
    assert (result.code, result.err) == (0, "B1: 3 of 7 ^[[2J\n")


def test_a_verify_that_breaks_is_told(
    eagle3: Eagle3, tmp_path: Path, verifier: Callable[[str, str, int], None]
) -> None:
    verifier("", "Traceback ...\nValueError: it broke\n", 1)
    result = eagle3("verify", make_stored_run(tmp_path / "run"))
    assert (result.code, result.out, result.err) == (1, "", "eagle3: ValueError: it broke\n")


def test_how_far_it_is(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setattr("daemon.verbs.telling.TELL_EVERY_S", 0.0)
    telling = Reading()
    telling("B1", StoreReport(dataset="B1", layout="x", examined=1200, examined_bytes=2_000_000_000), 5000)
    telling("B2", StoreReport(dataset="B2", layout="x", examined=1, examined_bytes=500_000_000), 5000)
    first, second = capsys.readouterr().err.splitlines()
    assert first.startswith("progress: B1: 1,200 of 5,000 samples read, 2.0 GB in all, ")
    assert second.startswith("progress: B2: 1 of 5,000 samples read, 2.5 GB in all, ")
