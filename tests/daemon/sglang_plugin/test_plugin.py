"""The plugin in a stand-in for SGLang: what it dumps and says, and when it refuses. The real one: tests/sglang."""

from __future__ import annotations

import json
import logging
import multiprocessing
from collections.abc import Iterator
from importlib.metadata import distributions
from pathlib import Path
from typing import Any

import pytest
import torch

from contracts.version import version
from daemon.server_args import PLUGIN, plugin_folder
from daemon.sglang_plugin.eagle3_sglang.capture import Capture
from daemon.sglang_plugin.eagle3_sglang.dump_format import About
from daemon.sglang_plugin.eagle3_sglang.plugin import TARGET, Hook, register, version_tuple
from tests.daemon.sglang_plugin.dumps import HIDDEN, Dump, assert_whole, row
from tests.daemon.sglang_plugin.stand_in import EPS, Sglang

A, B = "e3.run.a.1.1", "e3.run.b.1.2"


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("EAGLE3_DUMP_DIR", str(tmp_path / "dumps"))
    monkeypatch.delenv("EAGLE3_NORM", raising=False)
    monkeypatch.delenv("EAGLE3_PENDING_MB", raising=False)
    return tmp_path / "dumps"


@pytest.fixture
def sglang(monkeypatch: pytest.MonkeyPatch) -> Iterator[Sglang]:
    made = Sglang(monkeypatch)
    made.install()
    yield made
    made.close()


def about(folder: Path) -> About:
    (path,) = folder.glob("about.*.json")
    return About.decode(path.read_bytes())


def errors(caplog: pytest.LogCaptureFixture) -> list[str]:
    return [record.getMessage() for record in caplog.records if record.levelno >= logging.ERROR]


def test_folder_of_the_plugin_is_all_that_sglang_needs() -> None:
    (found,) = [each for each in distributions(path=[str(plugin_folder())]) if each.name == "eagle3-sglang"]
    (entry,) = found.entry_points
    assert (entry.group, entry.name, entry.value) == ("sglang.srt.plugins", PLUGIN, "eagle3_sglang.plugin:register")
    assert version() in ("unknown", found.version)


def test_without_dump_folder_it_does_nothing(
    sglang: Sglang, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.delenv("EAGLE3_DUMP_DIR", raising=False)
    register()
    assert sglang.registered == []
    assert [record.getMessage() for record in caplog.records] == [
        "eagle3: EAGLE3_DUMP_DIR is not set, so no hidden states are dumped"
    ]


def test_it_hooks_the_runner(sglang: Sglang, folder: Path) -> None:
    register()
    ((target, hook, kind),) = sglang.registered
    assert (target, kind) == (TARGET, "after")
    assert isinstance(hook, Hook)
    assert not folder.exists()  # it may be one of SGLang's other processes


@pytest.mark.parametrize(
    ("name", "value", "said"),
    [
        ("EAGLE3_DUMP_DIR", "dumps", "EAGLE3_DUMP_DIR must be an absolute path, not 'dumps'"),
        ("EAGLE3_NORM", "pre", "EAGLE3_NORM must be post or over_weight, not 'pre'"),
        ("EAGLE3_PENDING_MB", "0", "EAGLE3_PENDING_MB must be a number of megabytes, not '0'"),
        ("EAGLE3_PENDING_MB", "1.5", "EAGLE3_PENDING_MB must be a number of megabytes, not '1.5'"),
    ],
)
def test_wrong_environment_is_said(
    sglang: Sglang,
    folder: Path,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
    name: str,
    value: str,
    said: str,
) -> None:
    monkeypatch.setenv(name, value)
    register()
    assert errors(caplog) == [f"eagle3: no hidden states are dumped: {said}"]
    assert sglang.registered == []


@pytest.mark.parametrize("found", ["0.5.22", "0.5.22.post3", "0.4.9", "unknown"])
def test_older_sglang_is_refused_in_log_and_folder(
    sglang: Sglang, folder: Path, caplog: pytest.LogCaptureFixture, found: str
) -> None:
    sglang.install(version=found)
    register()
    said = f"SGLang {found} is older than 0.5.23, the first that hands over what is needed"
    assert errors(caplog) == [f"eagle3: no hidden states are dumped: {said}"]
    assert about(folder).refusal == said
    assert sglang.registered == []


def test_other_processes_leave_that_to_the_first(sglang: Sglang, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    sglang.install(version="0.5.22")
    monkeypatch.setattr(multiprocessing, "parent_process", lambda: object())
    register()
    assert not folder.exists()


def test_unknown_signature_is_refused(sglang: Sglang, folder: Path) -> None:
    def forward(self: Any, batch: Any) -> None: ...

    sglang.install(forward=forward)
    register()
    assert "ModelRunner.forward('self', 'batch') that this plugin does not know" in (about(folder).refusal or "")
    assert sglang.registered == []


@pytest.mark.parametrize(
    ("text", "numbers"),
    [("0.5.23", (0, 5, 23)), ("0.6.0rc1", (0, 6, 0)), ("0.5.23.post1", (0, 5, 23)), ("0.5", (0, 5)), ("x", ())],
)
def test_versions(text: str, numbers: tuple[int, ...]) -> None:
    assert version_tuple(text) == numbers


def test_rows_norm_and_self_description(sglang: Sglang, folder: Path) -> None:
    hook = sglang.hook()
    sglang.feed(hook, "EXTEND", (A, 0, 5), ("someone", 0, 2))
    sglang.feed(hook, "DECODE", (A, 5, 1), ("someone", 2, 1))
    header = assert_whole(folder, A, 6).header
    found = about(folder)
    assert found.refusal is None
    assert (found.layers, found.server_layers, found.norm, found.norm_eps) == ((1, 2), (1, 2), "post", EPS)
    assert (found.port, found.model, found.architecture) == (30000, "some/model", "LlamaForCausalLM")
    assert header["instance"] == found.instance
    weight = torch.frombuffer(bytearray((folder / found.norm_file_name).read_bytes()), dtype=torch.float32)
    assert weight.tolist() == [0.5, 1.0, 2.0, 4.0]
    assert {path.name for path in folder.iterdir()} == {f"{A}.dump", found.file_name, found.norm_file_name}


def test_over_weight(sglang: Sglang, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("EAGLE3_NORM", "over_weight")
    sglang.feed(sglang.hook(), "EXTEND", (A, 0, 5))
    rows = Dump(folder, A).rows
    whole = torch.stack([row(A, position) for position in range(5)])
    assert torch.equal(rows[:, :-HIDDEN], whole[:, :-HIDDEN])
    assert torch.equal(rows[:, -HIDDEN:], whole[:, -HIDDEN:] / torch.tensor([0.5, 1.0, 2.0, 4.0]))


@pytest.mark.parametrize("rank", ["attn_tp_rank", "attn_cp_rank"])
def test_other_ranks_write_nothing(sglang: Sglang, folder: Path, rank: str) -> None:
    setattr(sglang.parallel, rank, 1)
    sglang.feed(sglang.hook(), "EXTEND", (A, 0, 5))
    assert not folder.exists()


def test_each_rank_of_dp_attention_names_itself(sglang: Sglang, folder: Path) -> None:
    sglang.parallel.attn_dp_size, sglang.parallel.attn_dp_rank = 4, 3
    sglang.feed(sglang.hook(), "EXTEND", (A, 0, 5))
    assert about(folder).dp_rank == 3
    assert about(folder).instance.endswith("-3")


def test_draft_models_passes_are_not_taken(sglang: Sglang, folder: Path) -> None:
    sglang.runner.is_draft_worker = True
    sglang.feed(sglang.hook(), "EXTEND", (A, 0, 5))
    assert not folder.exists()


def test_another_sglang_that_hands_over_something_else_goes_on_serving(
    sglang: Sglang, folder: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """What is read of runner and batch may have another name there: a line in the log, not the server's end."""
    hook = sglang.hook()
    hook(object(), object(), object())
    assert "has no attribute" in caplog.text
    assert not folder.exists()


REFUSED = [
    ("features", "aux_hidden_state_capture", None, "--enable-return-aux-hidden-states is missing"),
    ("features", "return_aux_hidden_state_layer_ids", None, "--return-aux-hidden-state-layer-ids is missing"),
    ("features", "return_hidden_states_mode", "last", "--return-hidden-states-mode must be full"),
    ("parallel", "pp_size", 2, r"pipeline parallel \(pp_size > 1\) is on"),
    ("memory", "disable_radix_cache", False, "the radix cache is on"),
    ("schedule", "enable_mixed_chunk", True, "mixed chunk is on"),
]


@pytest.mark.parametrize(("part", "name", "value", "said"), REFUSED, ids=[case[1] for case in REFUSED])
def test_setting_that_makes_rows_wrong_is_refused(
    sglang: Sglang, folder: Path, caplog: pytest.LogCaptureFixture, part: str, name: str, value: object, said: str
) -> None:
    setattr(getattr(sglang, part), name, value)
    assert_refused(sglang, folder, caplog, said)


def test_speculative_decoding_is_refused(sglang: Sglang, folder: Path, caplog: pytest.LogCaptureFixture) -> None:
    sglang.runner.spec_algorithm.is_none = lambda: False
    assert_refused(sglang, folder, caplog, "decodes speculatively")


def test_disaggregation_is_refused(sglang: Sglang, folder: Path, caplog: pytest.LogCaptureFixture) -> None:
    sglang.runner.server_args.disaggregation_mode = "decode"
    assert_refused(sglang, folder, caplog, "on different servers")


def test_model_that_captures_something_else_than_the_table_says_is_refused(
    sglang: Sglang, folder: Path, caplog: pytest.LogCaptureFixture
) -> None:
    sglang.runner.model.layers_to_capture = [1, 2]
    assert_refused(
        sglang, folder, caplog, r"outputs of layers \[0, 1\] for the ids \[1, 2\], and not of \[1, 2\] as it did"
    )


def test_unknown_architecture_is_refused(sglang: Sglang, folder: Path, caplog: pytest.LogCaptureFixture) -> None:
    sglang.runner.model_config.hf_config.architectures = ["MysteryForCausalLM"]
    assert_refused(sglang, folder, caplog, "not known which layers .* 'MysteryForCausalLM'")


def test_norm_that_is_not_found_is_refused(sglang: Sglang, folder: Path, caplog: pytest.LogCaptureFixture) -> None:
    sglang.runner.model.norm = torch.nn.Identity()
    assert_refused(sglang, folder, caplog, "the final norm is a Identity")


def test_zero_in_the_norm_is_refused_where_it_is_divided_by(
    sglang: Sglang, folder: Path, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    with torch.no_grad():
        sglang.runner.model.norm.weight[1] = 0
    monkeypatch.setenv("EAGLE3_NORM", "over_weight")
    assert_refused(sglang, folder, caplog, "the final norm has a weight of zero")


def test_zero_in_the_norm_is_no_matter_otherwise(sglang: Sglang, folder: Path) -> None:
    with torch.no_grad():
        sglang.runner.model.norm.weight[1] = 0
    sglang.feed(sglang.hook(), "EXTEND", (A, 0, 5))
    assert (about(folder).refusal, about(folder).norm_has_zero) == (None, True)


def assert_refused(sglang: Sglang, folder: Path, caplog: pytest.LogCaptureFixture, said: str) -> None:
    hook = sglang.hook()
    for position in range(3):
        sglang.feed(hook, "DECODE", (A, position, 1))
    found = about(folder)
    assert {path.name for path in folder.iterdir()} == {found.file_name}
    with pytest.raises(AssertionError, match=said):
        raise AssertionError(found.refusal)
    assert (found.refusal or "").endswith("`eagle3 server-args` prints a launch command that is right")
    assert errors(caplog) == [f"eagle3: no hidden states are dumped: {found.refusal}"]


def test_dump_folder_that_cannot_be_made_does_not_end_the_server(
    sglang: Sglang, folder: Path, caplog: pytest.LogCaptureFixture
) -> None:
    folder.write_text("a file")
    hook = sglang.hook()
    sglang.feed(hook, "EXTEND", (A, 0, 5))
    sglang.feed(hook, "DECODE", (A, 5, 1))
    (said,) = errors(caplog)
    assert said.startswith(f"eagle3: no hidden states are dumped: {folder}: ")


def test_pass_that_cannot_be_taken_fails_its_requests_alone(
    sglang: Sglang, folder: Path, caplog: pytest.LogCaptureFixture
) -> None:
    hook = sglang.hook()
    sglang.feed(hook, "EXTEND", (A, 0, 5), (B, 0, 2))
    for _ in range(3):
        sglang.feed(hook, "MIXED", (A, 5, 1), ("someone", 0, 1))
    sglang.feed(hook, "DECODE", (B, 2, 1))
    assert (folder / f"{A}.error").read_text() == "the rows of a MIXED pass are not understood"
    assert not (folder / f"{A}.dump").exists()
    assert_whole(folder, B, 3)
    assert errors(caplog) == ["eagle3: no hidden states of a pass: the rows of a MIXED pass are not understood"]


def test_fault_of_our_own_does_not_reach_the_server(
    sglang: Sglang, folder: Path, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    hook = sglang.hook()
    sglang.feed(hook, "EXTEND", (A, 0, 5))
    monkeypatch.setattr(Capture, "batches", lambda *_: [None])
    sglang.feed(hook, "DECODE", (A, 5, 1), ("someone else", 0, 1))
    assert "AttributeError" in (folder / f"{A}.error").read_text()
    assert len(errors(caplog)) == 1


def test_fault_at_the_start_is_said_once(sglang: Sglang, folder: Path, caplog: pytest.LogCaptureFixture) -> None:
    del sglang.runner.model_config
    hook = sglang.hook()
    for position in range(3):
        sglang.feed(hook, "DECODE", (A, position, 1))
    (said,) = errors(caplog)
    assert "AttributeError" in said


def test_what_dead_servers_left_is_removed_and_what_living_ones_hold_is_not(sglang: Sglang, folder: Path) -> None:
    sglang.feed(sglang.hook(), "EXTEND", (A, 0, 5))
    living = about(folder)
    dead = json.loads((folder / living.file_name).read_bytes()) | {"instance": "1-2-0"}
    (folder / "about.1-2-0.json").write_text(json.dumps(dead))
    (folder / "norm.1-2-0.f32").write_bytes(b"")
    sglang.parallel.attn_dp_size, sglang.parallel.attn_dp_rank = 2, 1
    sglang.feed(sglang.hook(), "EXTEND", (B, 0, 5))
    names = {path.name for path in folder.iterdir()}
    assert {living.file_name, living.norm_file_name} <= names
    assert len([name for name in names if name.startswith("about.")]) == 2
    assert not any("1-2-0" in name for name in names)
