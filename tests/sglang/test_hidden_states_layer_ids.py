"""The table of layer ids against the models' own code in the installed SGLang."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path

from daemon.sglang_plugin.eagle3_sglang.layer_ids import (
    ARCHITECTURES,
    Convention,
    captured_outputs,
    output_ids,
    server_ids,
)
from tests.sglang import environment

LAYERS = 61
WANTED = ([2, 30, 58], [1, 29, 57], [1], [3, 31, 59])
SERVER = ([1, 29, 57], [2, 30, 58], [3, 31, 59])
MUST_BE_SEEN = {
    "LlamaForCausalLM",
    "Qwen3ForCausalLM",
    "Qwen3MoeForCausalLM",
    "DeepseekV3ForCausalLM",
    "GptOssForCausalLM",
}


def captured(cases: list[tuple[str, tuple[int, ...]]]) -> list[list[int] | None]:
    script = Path(__file__).with_name("layer_conventions.py")
    done = subprocess.run(
        [str(environment.PYTHON), str(script)],
        input=json.dumps([[name, ids, LAYERS] for name, ids in cases]),
        env=environment.process_env(),
        capture_output=True,
        text=True,
        timeout=250,
    )
    assert done.returncode == 0, done.stderr[-2000:]
    found: list[list[int] | None] = json.loads(done.stdout.splitlines()[-1])
    return found


def test_every_architecture_of_the_table_captures_what_it_says(sglang_environment: Path) -> None:
    asked = [(name, wanted, server_ids(name, wanted, LAYERS)) for name in ARCHITECTURES for wanted in WANTED]
    given = [(name, tuple(ids)) for name in ARCHITECTURES for ids in SERVER]
    given += [
        (name, (1, 30, LAYERS)) for name, way in ARCHITECTURES.items() if way is Convention.OUTPUTS_UNLESS_BEYOND_LAST
    ]
    found = captured([(name, ids) for name, _, ids in asked] + given)
    seen = set()
    for (name, wanted, _), inputs in zip(asked, found, strict=False):
        if inputs is not None:
            seen.add(name)
            assert list(captured_outputs(inputs)) == wanted, name
    for (name, ids), inputs in zip(given, found[len(asked) :], strict=True):
        if inputs is not None:
            assert captured_outputs(inputs) == output_ids(name, ids, LAYERS), (name, ids)
    assert seen >= MUST_BE_SEEN
    assert len(seen) > 0.7 * len(ARCHITECTURES), sorted(set(ARCHITECTURES) - seen)
