"""The launch command for a run: ids of the architecture, norm of the layout, and clear errors."""

from __future__ import annotations

import json
import os
import shlex
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from contracts.run_config import RunConfig, parse_run_config
from daemon.server_args import ServerArgsError, plugin_folder, server_args


def config(more: str = "", *, layers: str = "[2, 30, 58]", layout: str = "specforge") -> RunConfig:
    return parse_run_config(
        f'[run]\nname = "r"\nstages = ["generate", "extract"]\n[extract]\nlayers = {layers}\nlayout = "{layout}"\n'
        f'{more}\n[[servers]]\nurl = "http://127.0.0.1:31000"\n[[datasets]]\nname = "d"\n'
    )


def model(folder: Path, **content: Any) -> str:
    folder.mkdir()
    (folder / "config.json").write_text(json.dumps(content))
    return str(folder)


def flag(command: list[str], name: str) -> list[str]:
    rest = command[command.index(name) + 1 :]
    return rest[: next((place for place, word in enumerate(rest) if word.startswith("--")), len(rest))]


def test_whole_command(tmp_path: Path) -> None:
    folder = model(tmp_path / "kimi", architectures=["DeepseekV3ForCausalLM"], num_hidden_layers=61)
    made = server_args(config(), folder)
    assert made.command == [
        *("python", "-m", "sglang.launch_server", "--model-path", folder, "--host", "127.0.0.1", "--port", "31000"),
        *("--enable-return-aux-hidden-states", "--speculative-algorithm", "EAGLE3"),
        *("--return-aux-hidden-state-layer-ids", "3", "31", "59", "--disable-radix-cache"),
    ]
    assert made.env == {
        "PYTHONPATH": str(plugin_folder()),
        "SGLANG_PLUGINS": "eagle3",
        "EAGLE3_DUMP_DIR": "/dev/shm/sglang_hs",
        "EAGLE3_NORM": "post",
    }
    assert {each.what for each in made.turned_off} == {
        "radix cache",
        "mixed chunk",
        "speculative decoding",
        "pipeline parallel",
    }
    assert made.flags[0] == "--enable-return-aux-hidden-states"


def test_shell_text_is_the_same_command(tmp_path: Path) -> None:
    folder = model(tmp_path / "a model", architectures=["LlamaForCausalLM"], num_hidden_layers=80)
    made = server_args(config(), folder, port=1234)
    script = made.shell().replace("python -m sglang.launch_server", f"{shlex.quote(sys.executable)} -c 'PROGRAM'")
    program = "import json, os, sys; print(json.dumps([sys.argv[1:], os.environ['PYTHONPATH']]))"
    done = subprocess.run(
        ["sh", "-c", script.replace("PROGRAM", program.replace("'", '"'))],
        env={**os.environ, "PYTHONPATH": "before"},
        capture_output=True,
        text=True,
        check=True,
    )
    words, path = json.loads(done.stdout)
    assert words == made.command[3:]
    assert path == f"{plugin_folder()}:before"


@pytest.mark.parametrize(
    ("layout", "norm"),
    [("safetensors", "post"), ("specforge", "post"), ("modelopt", "post"), ("speculators", "over_weight")],
)
def test_norm_is_the_layouts(layout: str, norm: str) -> None:
    made = server_args(config(layout=layout), "org/model", architecture="LlamaForCausalLM")
    assert made.env["EAGLE3_NORM"] == norm


def test_architecture_may_be_told_and_then_the_number_of_layers_is_unknown() -> None:
    made = server_args(config(), "org/model", architecture="Qwen3ForCausalLM")
    assert flag(made.command, "--return-aux-hidden-state-layer-ids") == ["2", "30", "58"]
    assert any("number of layers is not known" in note for note in made.notes)


def test_model_may_stand_in_the_run() -> None:
    made = server_args(config('model = "org/model"'), architecture="Qwen3ForCausalLM")
    assert flag(made.command, "--model-path") == ["org/model"]


def test_multimodal_models_count_the_layers_of_their_text_part(tmp_path: Path) -> None:
    folder = model(
        tmp_path / "vl", architectures=["Qwen3VLForConditionalGeneration"], text_config={"num_hidden_layers": 36}
    )
    with pytest.raises(ServerArgsError, match="layer 58 of a model with 36 layers"):
        server_args(config(), folder)


@pytest.mark.parametrize(
    ("content", "said"),
    [
        ("{", r"config\.json: is not valid JSON"),
        ("[]", r"config\.json: holds no object"),
        ("{}", "its architecture is not known"),
        ('{"architectures": ["MysteryLM"]}', "for the architecture 'MysteryLM'"),
    ],
)
def test_model_folder_that_does_not_tell(tmp_path: Path, content: str, said: str) -> None:
    (tmp_path / "config.json").write_text(content)
    with pytest.raises(ServerArgsError, match=said):
        server_args(config(), str(tmp_path))


def test_what_is_missing_is_said(tmp_path: Path) -> None:
    with pytest.raises(ServerArgsError, match=r"Give --model, or set \[extract\] model"):
        server_args(config())
    with pytest.raises(ServerArgsError, match=r"org/model is no local folder .* give --architecture"):
        server_args(config(), "org/model")
    generate = parse_run_config('[run]\nname = "r"\n[[servers]]\nurl = "http://h:1"\n[[datasets]]\nname = "d"\n')
    with pytest.raises(ServerArgsError, match=r"\[extract\] layers is empty"):
        server_args(generate, "org/model")
    with pytest.raises(ServerArgsError, match=r"dump_dir must be an absolute path, not 'dumps'"):
        server_args(config('dump_dir = "dumps"'), "org/model", architecture="LlamaForCausalLM")


def test_architecture_that_contradicts_the_model_is_refused(tmp_path: Path) -> None:
    folder = model(tmp_path / "m", architectures=["LlamaForCausalLM"], num_hidden_layers=80)
    with pytest.raises(ServerArgsError, match="says LlamaForCausalLM, not Qwen3ForCausalLM"):
        server_args(config(), folder, architecture="Qwen3ForCausalLM")


def test_notes_name_key_and_further_servers() -> None:
    several = config()
    several.servers = [*several.servers, *several.servers]
    several.servers[0].api_key_env = "KEY"
    notes = server_args(several, "org/model", architecture="LlamaForCausalLM").notes
    assert any("--api-key" in note for note in notes)
    assert any("its own --port" in note for note in notes)
