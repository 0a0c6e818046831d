"""What `eagle3 check` says of the extract stage: the dump folder, its room, the store's, before anything is sent."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from contracts.fold.run import RunFold
from contracts.records import encode_line
from contracts.run_config import load_run_config
from contracts.run_dir import RunDir
from daemon.capture.dump_folder import DumpFolder
from daemon.extract.checking import Checked, CheckedExtraction
from daemon.extract.room import PromptTotals
from daemon.findings import ERROR
from daemon.preflight import check_run
from tests.daemon.capture.dumps import FORM
from tests.daemon.extract.support import prompt
from tests.support.runs import make_run
from tests.support.stored import stored


def checked(path: Path, *, known: bool = True, **extract: Any) -> CheckedExtraction:
    given = {"layers": list(FORM.layers), "dump_dir": str(path / "dumps"), "dump_budget_gb": 0.01, **extract}
    run = make_run(path / "run", ["http://h:1"], {"B1": [prompt("a")]}, extract=given)
    fold = RunFold(run)
    fold.poll()
    found = CheckedExtraction(RunDir(run), load_run_config(run / "run.toml"), fold)
    found.totals = {"B1": PromptTotals(1, 3, 0, 0)}
    if known:
        servers: Any = found._servers
        servers.form = FORM
    return found


def levels(found: CheckedExtraction) -> list[str]:
    return [each.level for each in found.findings()]


def test_all_well(tmp_path: Path) -> None:
    budget, store = checked(tmp_path).findings()
    assert budget.level == "ok" and "10.0 MB for dumps" in budget.what and "layers 1, 3, 4" in budget.what
    assert store.level == "ok" and "needed for 1 sample of" in store.what
    assert (tmp_path / "dumps").is_dir()


def test_what_a_row_takes_is_not_known_without_a_server(tmp_path: Path) -> None:
    (found,) = checked(tmp_path, known=False).findings()
    assert found.level == "warning" and "what a row takes no server has told" in found.what


def test_a_folder_too_small_for_the_longest_sample(tmp_path: Path) -> None:
    budget = next(iter(checked(tmp_path, max_tokens=100_000).findings()))
    assert budget.level == "warning" and "A sample of 100000 tokens does not fit" in (budget.advice or "")


def test_a_folder_in_which_other_files_lie(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A sample that does not fit now is not left out: it waits."""
    looked = DumpFolder([], 1_000, 1_000, 10**9)
    monkeypatch.setattr("daemon.extract.checking.look_at", lambda folder, tag, configured: looked)
    budget = next(iter(checked(tmp_path, max_tokens=1000).findings()))
    assert budget.level == "warning" and "would wait until they are gone" in (budget.advice or "")


def test_a_folder_too_small_for_all_at_once_is_fine_and_said(tmp_path: Path) -> None:
    budget = next(iter(checked(tmp_path, dump_budget_gb=0.0001, max_tokens=300).findings()))
    assert budget == Checked("ok", budget.what, budget.advice) and "second pass" in (budget.advice or "")


def test_a_folder_that_cannot_be_made(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    (found,) = checked(tmp_path, dump_dir=str(tmp_path / "file" / "dumps")).findings()
    assert found.level == "error" and "cannot be used as dump folder" in found.what


def test_a_disk_too_small_for_the_store(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    found = checked(tmp_path)
    found.totals = {"B1": PromptTotals(0, 0, 1, 10**12)}
    assert levels(found) == ["ok", "error"]
    found.totals = {"B1": PromptTotals(10**11, 10**11, 0, 0)}
    assert levels(found) == ["ok", "warning"], "answers may be shorter than assumed"


def test_what_a_store_will_take_is_not_known_without_prompts(tmp_path: Path) -> None:
    found = checked(tmp_path)
    found.totals = {}
    *_, store = found.findings()
    assert store.level == "warning" and "what it will take is not known" in store.what


def test_another_form_than_what_is_stored(tmp_path: Path) -> None:
    found = checked(tmp_path)
    index = tmp_path / "run" / "prepared" / "B1" / "hidden_states.jsonl"
    index.write_bytes(encode_line(stored("a", layers=[2, 30, 58])))
    found._fold.poll()
    first = next(iter(found.findings()))
    assert first.level == "error" and "layers" in first.what


async def test_responses_to_take_over_that_are_not_there(tmp_path: Path) -> None:
    run = make_run(tmp_path / "run", ["http://127.0.0.1:9"], {"B1": [prompt("a")]})
    text = (run / "run.toml").read_text()
    (run / "run.toml").write_text(text.replace('name = "B1"\n', 'name = "B1"\nresponses = "../missing.jsonl"\n'))
    found = [finding.what for finding in (await check_run(run)).findings if finding.level == ERROR]
    assert any("missing.jsonl: no such response file: check `responses` in run.toml" in what for what in found)
