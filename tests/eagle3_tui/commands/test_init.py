"""`eagle3 init`: a run.toml that is valid, complete and made from the declaration."""

from __future__ import annotations

import os
import re
import tomllib
from collections.abc import Callable
from pathlib import Path

import msgspec
import pytest

from contracts import run_config
from contracts.run_config import RunConfig, load_run_config, parse_run_config
from eagle3_tui.run_template import NewDataset, run_toml, toml_value
from tests.eagle3_tui.commands.conftest import Result

Eagle3 = Callable[..., Result]
DECLARED: dict[str, type[msgspec.Struct]] = {
    "run": run_config.Run,
    "servers": run_config.Server,
    "datasets": run_config.Dataset,
    "generate": run_config.Generate,
    "extract": run_config.Extract,
    "tokenizer": run_config.Tokenizer,
    "alerts": run_config.Alerts,
    "telemetry": run_config.Telemetry,
}


def test_what_it_prints_is_valid_as_it_is(eagle3: Eagle3) -> None:
    result = eagle3("init", "--print")
    assert result.code == 0
    config = parse_run_config(result.out)
    assert [dataset.name for dataset in config.datasets] == ["my_dataset"]


def uncommented(text: str) -> str:
    """The template with every commented key and table in force, where it has a value."""
    lines = []
    for line in text.splitlines():
        found = re.match(r"# (\[+\w+\]+|\w+ = .*|\w+ =)", line)
        key = found.group(1) if found else None
        if key is not None and not re.match(r"\w+ = *(#|$)", key):
            line = key
        lines.append(line)
    return "\n".join(lines)


def test_the_commented_defaults_are_the_defaults() -> None:
    text = run_toml("r", [NewDataset("d")])
    plain, full = parse_run_config(text), tomllib.loads(uncommented(text))
    full.pop("tokenizer")
    assert msgspec.convert(full, RunConfig) == plain


def _tables(text: str) -> list[tuple[str, set[str]]]:
    """Return each table of the template with the keys that stand in it, commented or not."""
    found: list[tuple[str, set[str]]] = []
    for line in text.splitlines():
        if table := re.match(r"(?:# )?\[+(\w+)\]+", line):
            found.append((table.group(1), set()))
        elif key := re.match(r"(?:# )?(\w+) =", line):
            found[-1][1].add(key.group(1))
    return found


def test_every_key_of_every_table_is_there() -> None:
    tables = _tables(run_toml("r", [NewDataset("d")]))
    for name, struct in DECLARED.items():
        assert [keys for table, keys in tables if table == name] == [set(struct.__struct_fields__)], name
    assert sorted([*DECLARED, "sampling"]) == sorted(RunConfig.__struct_fields__)


def test_it_makes_the_folders_and_refuses_to_overwrite(eagle3: Eagle3, tmp_path: Path) -> None:
    path = tmp_path / "new" / "run_1"
    assert eagle3("init", path).code == 0
    assert load_run_config(path / "run.toml").run.name == "run_1"
    assert (path / "prepared" / "my_dataset").is_dir()
    (path / "run.toml").write_text("mine")
    result = eagle3("init", path)
    assert result.code == 1
    assert "is there already" in result.err
    assert (path / "run.toml").read_text() == "mine"


def test_prompt_files_become_data_sets(eagle3: Eagle3, tmp_path: Path) -> None:
    runs = tmp_path / "runs"
    inside, beside, elsewhere = runs / "run" / "a b.v1.jsonl", runs / "prompts" / "C.jsonl", tmp_path / "D.jsonl"
    for file in (inside, beside, elsewhere):
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text('{"sample_id":1,"input_ids":[1]}\n')
    (tmp_path / "link").symlink_to(runs / "run")
    assert eagle3("init", tmp_path / "link", "--from", inside, beside, elsewhere).code == 0
    config = load_run_config(runs / "run" / "run.toml")
    assert [(one.name, one.prompts) for one in config.datasets] == [
        ("a_b", "a b.v1.jsonl"), ("C", "../prompts/C.jsonl"), ("D", str(elsewhere)),
    ]  # fmt: skip
    assert (tmp_path / "link" / "../prompts/C.jsonl").samefile(beside)
    assert config.tokenizer is None


def test_layers_make_a_run_with_both_stages(eagle3: Eagle3, tmp_path: Path) -> None:
    assert eagle3("init", tmp_path, "--layers", 2, 30, 58, "--layout", "specforge").code == 0
    config = load_run_config(tmp_path / "run.toml")
    assert (config.generates, config.extracts) == (True, True)
    assert (config.extract.layers, config.extract.layout) == ([2, 30, 58], "specforge")
    tables = _tables((tmp_path / "run.toml").read_text())
    assert dict(tables)["extract"] == set(run_config.Extract.__struct_fields__)


def test_without_layers_answers_alone_are_made(eagle3: Eagle3) -> None:
    assert not parse_run_config(eagle3("init", "--print").out).extracts


@pytest.mark.parametrize(
    ("given", "said"),
    [
        (["--layers", 30, 2, 58], "must ascend"),
        (["--layers", 2, 58, "--layout", "specforge"], "SpecForge takes 3, not 2"),
        (["--layers", -1], "--layers"),
        (["--layout", "specforge"], "name their layers with --layers"),
        (["--layers", 2, "--layout", "torch"], "invalid choice"),
    ],
)
def test_layers_that_a_start_would_refuse_are_refused_here(
    eagle3: Eagle3, tmp_path: Path, given: list[object], said: str
) -> None:
    result = eagle3("init", tmp_path / "run", *given)
    assert result.code == 2
    assert said in result.err
    assert not (tmp_path / "run").exists()


def test_files_of_text_ask_for_a_tokenizer(eagle3: Eagle3, tmp_path: Path) -> None:
    (tmp_path / "t.jsonl").write_text('{"prompt":"hello"}\n')
    result = eagle3("init", tmp_path, "--from", tmp_path / "t.jsonl")
    assert result.code == 0
    assert "[tokenizer] path: the model's local folder instead of FOLDER-OF-" in result.out
    assert "[[servers]] url: " in result.out and "[[datasets]]" not in result.out
    assert load_run_config(tmp_path / "run.toml").tokenizer is not None


@pytest.mark.parametrize("names", [["gone.jsonl"], ["x.jsonl", "sub/x.json"]])
def test_files_that_cannot_be_data_sets_are_refused(eagle3: Eagle3, tmp_path: Path, names: list[str]) -> None:
    if len(names) == 2:
        (tmp_path / "sub").mkdir()
        for name in names:
            (tmp_path / name).write_text("")
    result = eagle3("init", tmp_path, "--from", *(tmp_path / name for name in names))
    assert result.code == 1
    assert not (tmp_path / "run.toml").exists()


def test_a_file_whose_name_toml_cannot_hold_is_refused(eagle3: Eagle3, tmp_path: Path) -> None:
    path = Path(os.fsdecode(os.fsencode(tmp_path) + b"/\xff.jsonl"))
    path.write_text("")
    result = eagle3("init", tmp_path, "--from", path)
    assert (result.code, result.out) == (1, "")


@pytest.mark.parametrize("value", ['é漢 " \\ \x7f \n', 1.5, 7, True, ["a", "b"], [2, 30]])
def test_values_come_back_from_toml(value: object) -> None:
    assert tomllib.loads(f"key = {toml_value(value)}")["key"] == value
