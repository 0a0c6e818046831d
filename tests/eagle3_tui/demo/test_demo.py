"""The demo's folder, its data, its recount, and the whole of it without a screen."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from collections.abc import Callable
from importlib import resources
from pathlib import Path

import psutil
import pytest

from contracts.monitor import Monitor
from contracts.run_config import load_run_config
from contracts.run_dir import RunDir
from eagle3_tui.demo.folder import PRETOKENIZED, TEXTS, Found, look_at, make, write_config
from eagle3_tui.demo.recount import Recount, differences, recount
from eagle3_tui.failure import CommandFailed
from tests.eagle3_tui.commands.conftest import FakeDaemon, Result, response


def test_the_shipped_data_is_sound() -> None:
    data = resources.files("eagle3_tui") / "demo_data"
    for name in TEXTS:
        records = [json.loads(line) for line in (data / f"{name}.jsonl").read_text(encoding="utf-8").splitlines()]
        assert len({record["sample_id"] for record in records}) == len(records) == 60
    records = [json.loads(line) for line in (data / f"{PRETOKENIZED}.jsonl").read_text().splitlines()]
    assert len({record["sample_id"] for record in records}) == 60
    for record in records:
        assert len(record["input_ids"]) == len(record["loss_mask"])
        assert set(record["loss_mask"]) == {0, 1}


def test_a_new_demo_is_a_valid_run_with_its_data(tmp_path: Path) -> None:
    assert look_at(tmp_path / "demo") is Found.NOTHING
    run = make(tmp_path / "demo")
    write_config(run, "http://127.0.0.1:1234")
    config = load_run_config(run.config)
    assert [dataset.name for dataset in config.datasets] == [PRETOKENIZED, *TEXTS]
    assert all((run.path / dataset.prompts).is_file() for dataset in config.datasets if dataset.prompts)
    assert run.dataset(PRETOKENIZED).prompts.is_file()
    assert look_at(run.path) is Found.UNFINISHED


def test_an_empty_folder_will_do(tmp_path: Path) -> None:
    assert look_at(tmp_path) is Found.NOTHING


@pytest.mark.parametrize("kind", ["folder with a file", "file", "another run"])
def test_what_is_not_a_demo_is_left_alone(tmp_path: Path, kind: str) -> None:
    path = tmp_path / "there"
    if kind == "file":
        path.write_text("mine")
    else:
        path.mkdir()
        (path / ("run.toml" if kind == "another run" else "thesis.txt")).write_text("mine")
    with pytest.raises(CommandFailed, match="is not a demo; choose another folder with --dir"):
        look_at(path)


def test_a_demo_with_a_daemon_is_left_alone(tmp_path: Path) -> None:
    run = make(tmp_path / "demo")
    write_config(run, "http://127.0.0.1:1234")
    fake = FakeDaemon(run, lambda _: [])
    with pytest.raises(CommandFailed, match="stop it first"):
        look_at(run.path)
    fake.close()


def test_making_it_anew_removes_what_an_earlier_one_left_and_follows_no_links(tmp_path: Path) -> None:
    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / "precious").touch()
    run = make(tmp_path / "demo")
    (run.path / "link").symlink_to(outside)
    run.dataset("B1_questions").path.mkdir()
    run.dataset("B1_questions").responses.write_text(response("a"))
    make(run.path)
    assert (outside / "precious").exists()
    assert not (run.path / "link").exists()
    assert not run.dataset("B1_questions").path.exists()


def counted(tmp_path: Path) -> Path:
    folder = tmp_path / "prepared" / "B1"
    folder.mkdir(parents=True)
    (folder / "prompts.jsonl").write_text("".join(f'{{"sample_id":{one},"input_ids":[1]}}\n' for one in range(3)))
    (folder / "raw_responses.jsonl").write_text(response("0", 4) + response("1", 2) + response("1", 2))
    return folder


def test_the_recount_counts(tmp_path: Path) -> None:
    folder = counted(tmp_path)
    (folder / "hidden_states.jsonl").write_text(
        '{"sample_id": "0", "tokens": 4, "bytes": 900}\n{"sample_id": 7, "tokens": 5, "bytes": 950}\n'
    )
    assert recount(folder) == Recount(
        prompts=3, done=2, prompt_tokens=9, completion_tokens=8, twice=1, stored=2, stored_tokens=9, stored_bytes=1850
    )


def test_a_sample_stored_twice_is_found(tmp_path: Path) -> None:
    folder = counted(tmp_path)
    (folder / "hidden_states.jsonl").write_text('{"sample_id": "0", "tokens": 4, "bytes": 900}\n' * 2)
    with pytest.raises(ValueError, match="stored twice"):
        recount(folder)


def test_a_recount_that_differs_is_named(tmp_path: Path) -> None:
    folder = counted(tmp_path)
    (folder / "raw_responses.jsonl").write_text(response("0", 4))
    status = Monitor(tmp_path).refresh()
    assert differences(status, tmp_path / "prepared") == []
    status.datasets[0].completion_tokens = 5
    assert differences(status, tmp_path / "prepared") == ["B1: the status says 5 completion tokens, the files hold 4"]


def test_a_record_that_contradicts_itself_is_found(tmp_path: Path) -> None:
    folder = counted(tmp_path)
    record = json.loads(response("0", 4)) | {"completion_tokens": 5}
    (folder / "raw_responses.jsonl").write_text(json.dumps(record) + "\n")
    with pytest.raises(ValueError, match="counts other ids than it holds"):
        recount(folder)


def test_a_finished_demo_is_kept_when_asked(eagle3: Callable[..., Result], tmp_path: Path) -> None:
    run = make(tmp_path / "demo")
    write_config(run, "http://127.0.0.1:1234")
    # What is stored is another test's matter: here the answers are all there is.
    run.config.write_text(run.config.read_text().replace('["generate", "extract"]', '["generate"]'))
    run.dataset(PRETOKENIZED).prompts.write_text('{"sample_id":"a","input_ids":[1],"loss_mask":[1]}\n')
    for name in TEXTS:
        run.dataset(name).path.mkdir()
        run.dataset(name).prompts.write_text('{"sample_id":"a","input_ids":[1]}\n')
        run.dataset(name).responses.write_text(response("a"))
    assert look_at(run.path) is Found.FINISHED
    result = eagle3("demo", "--headless", "--keep", "--dir", run.path)
    assert result.code == 0
    assert result.json["state"] == "finished"
    run.dataset(TEXTS[0]).responses.write_text(
        response("a").replace('"completion_tokens": 2', '"completion_tokens": 3')
    )
    assert eagle3("demo", "--headless", "--keep", "--dir", run.path).code == 1


PROGRAM = [sys.executable, "-m", "eagle3_tui", "demo", "--headless", "--dir"]


def ours(path: Path) -> list[psutil.Process]:
    """Processes that have the demo's folder in their command line."""
    found = []
    for process in psutil.process_iter():
        try:
            if any(str(path) in word for word in process.cmdline()):
                found.append(process)
        except psutil.Error:
            continue
    return found


@pytest.mark.timeout(180)
def test_the_whole_demo_and_then_a_stop_in_the_middle_of_another(tmp_path: Path) -> None:
    path = tmp_path / "demo"
    with subprocess.Popen([*PROGRAM, path], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as first:
        assert first.stdout is not None
        for line in first.stdout:
            if "/120 done" in line:
                break
        first.terminate()
        first.communicate()
    assert first.returncode == 143
    assert ours(path) == []
    assert look_at(path) is Found.UNFINISHED
    second = subprocess.run([*PROGRAM, path], capture_output=True, text=True, check=False)
    assert second.returncode == 0, second.stdout + second.stderr
    assert "an earlier demo with work left, which goes on" in second.stdout
    assert re.search(r" [\d,.]+ tok/s  ETA \d+s ", second.stdout), "it is over before there is a speed and an ETA"
    status = json.loads(second.stdout.splitlines()[-1])
    assert status["state"] == "finished"
    assert [one["name"] for one in status["datasets"]] == [PRETOKENIZED, *TEXTS]
    assert status["datasets"][1]["done"] == 60
    assert ours(path) == []
    assert RunDir(path).lock.exists()
