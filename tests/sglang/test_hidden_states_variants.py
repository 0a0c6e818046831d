"""The plugin under two tensor-parallel ranks, in bf16, and where it must refuse."""

from __future__ import annotations

import json
from pathlib import Path

import torch

from daemon.server_args import plugin_folder
from tests.sglang.conftest import StartSglang
from tests.sglang.hidden_states import (
    LAYERS,
    about,
    ask_all,
    norm_objection,
    prompts,
    reference,
    slots,
    start_dumping,
    wait_dump,
)


def test_two_ranks_write_each_row_once(start_sglang: StartSglang, tiny_llama: Path, tmp_path: Path) -> None:
    folder = tmp_path / "dumps"
    server = start_dumping(
        start_sglang, tiny_llama, folder, "--tp-size", "2", env={"SGLANG_CPU_OMP_THREADS_BIND": "0|1"}
    )
    asked = ask_all(server, [(f"e3.r.p{n}.1.{n}", ids, 1 + n) for n, ids in enumerate(prompts(8, seed=5))])
    for one, states in zip(asked, reference(tiny_llama, [each.fed for each in asked], tmp_path), strict=True):
        dump = wait_dump(server, folder, one.rid, len(one.fed))
        assert dump.ids == one.fed
        assert (slots(dump) - states[[*LAYERS, -1]]).abs().max() < 5e-4
    assert about(folder)["refusal"] is None
    assert list(folder.glob("*.error")) == []


def test_bfloat16(start_sglang: StartSglang, tiny_llama: Path, tmp_path: Path) -> None:
    folder = tmp_path / "dumps"
    server = start_dumping(start_sglang, tiny_llama, folder, "--dtype", "bfloat16")
    asked = ask_all(server, [(f"e3.r.p{n}.1.{n}", ids, 1 + n) for n, ids in enumerate(prompts(8, seed=6))])
    assert about(folder)["dtype"] == "bfloat16"
    for one, states in zip(asked, reference(tiny_llama, [each.fed for each in asked], tmp_path), strict=True):
        dump = wait_dump(server, folder, one.rid, len(one.fed))
        assert (dump.rows.dtype, dump.ids) == (torch.bfloat16, one.fed)
        assert norm_objection(dump, folder) is None
        assert "before the norm" in str(norm_objection(dump, folder, last=states[6]))
        for slot, layer in enumerate([*LAYERS, 7]):
            errors = (states - slots(dump)[slot]).norm(dim=(1, 2)) / states.norm(dim=(1, 2))
            others = torch.cat([errors[:layer], errors[layer + 1 :]]).min()
            assert errors[layer] < 0.12
            assert others > max(0.2, 2 * float(errors[layer]))


def test_what_is_wrong_is_said_in_log_and_folder_and_serving_goes_on(
    start_sglang: StartSglang, tiny_llama: Path, tmp_path: Path
) -> None:
    folder = tmp_path / "dumps"
    left = folder / "about.1-1-0.json"
    folder.mkdir()
    left.write_text("{}")
    left.with_name("norm.1-1-0.f32").write_bytes(b"")
    server = start_sglang(
        model=tiny_llama,
        extra_args=["--enable-mixed-chunk", "--chunked-prefill-size", "64"],
        extra_path=[plugin_folder()],
        env={"EAGLE3_DUMP_DIR": str(folder), "SGLANG_PLUGINS": "eagle3"},
    )
    (one,) = ask_all(server, [("e3.r.p.1.1", [5, 6, 7], 4)])
    assert len(one.output) == 4
    (path,) = folder.iterdir()  # no dump; what a dead server left is gone
    found = json.loads(path.read_text())
    assert found["refusal"] == (
        "--enable-return-aux-hidden-states is missing; --return-aux-hidden-state-layer-ids is missing; "
        "--return-hidden-states-mode must be full; the radix cache is on: cached rows are never computed; "
        "mixed chunk is on. `eagle3 server-args` prints a launch command that is right"
    )
    log = server.log_path.read_text(errors="replace")
    assert f"no hidden states are dumped: {found['refusal']}" in log
    assert log.count("no hidden states are dumped") == 1
