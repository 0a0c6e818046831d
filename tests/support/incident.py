"""The folder of the founding incident, made anew: a producer changed its records' shape in the middle of its files.

Ten data sets without run.toml: A1..A4 are pre-tokenized prompts without responses, B1..B6 hold responses of which the
first are of the old shape (``usage`` nested in ``response``) and the rest of the new one. One file ends in half a line,
two hold a line of garbage.
"""

from __future__ import annotations

import json
import random
from dataclasses import dataclass
from pathlib import Path

PRETOKENIZED = ("A1_ultrachat", "A2_magpie", "A3_tulu", "A4_openhermes")
GENERATED = ("B1_math", "B2_opencodeinstruct", "B3_science", "B4_tools", "B5_chat", "B6_agents")
GARBAGE = (b"Traceback (most recent call last):", b'{"sample_id":"B4_tools-17","prompt_tokens":12,"comp')
TORN = b'{"sample_id":"B6_agents-torn","prompt_tokens":31,"completion_tokens":5,"finish_reason":"stop","output_ids":[1'


@dataclass
class Truth:
    """What the folder holds, counted while it was made."""

    prompts: dict[str, int]
    done: dict[str, int]
    prompt_tokens: dict[str, int]
    completion_tokens: dict[str, int]
    unreadable: int = 2


def make_incident(folder: Path, seed: int = 7) -> Truth:
    """Make the folder's ``prepared/`` and return what is in it."""
    chance = random.Random(seed)
    truth = Truth({}, {}, {}, {})
    for name in PRETOKENIZED:
        prompts = folder / "prepared" / name
        prompts.mkdir(parents=True)
        count = truth.prompts[name] = chance.randrange(5, 15)
        lines = [
            _compact({"sample_id": f"{name}-{number}", "input_ids": [1, 2, 3, 4], "loss_mask": [0, 0, 1, 1]})
            for number in range(count)
        ]
        (prompts / "prompts.jsonl").write_bytes(b"".join(line + b"\n" for line in lines))
        truth.done[name] = truth.prompt_tokens[name] = truth.completion_tokens[name] = 0
    for name in GENERATED:
        responses = folder / "prepared" / name
        responses.mkdir(parents=True)
        lines = _responses(name, chance, truth)
        if name == "B2_opencodeinstruct":
            lines.insert(11, GARBAGE[0])
        if name == "B4_tools":
            lines.insert(len(lines) // 2, GARBAGE[1])
        content = b"".join(line + b"\n" for line in lines)
        (responses / "raw_responses.jsonl").write_bytes(content + (TORN if name == "B6_agents" else b""))
    return truth


def _responses(name: str, chance: random.Random, truth: Truth) -> list[bytes]:
    old, new = chance.randrange(20, 40), chance.randrange(20, 40)
    lines = []
    truth.done[name] = old + new
    truth.prompt_tokens[name] = truth.completion_tokens[name] = 0
    for number in range(old + new):
        sample_id = f"{name}-{number}"
        prompt, completion = chance.randrange(10, 900), chance.randrange(1, 60)
        ids = [chance.randrange(150_000) for _ in range(completion)]
        truth.prompt_tokens[name] += prompt
        truth.completion_tokens[name] += completion
        if number < old:
            usage = {"prompt_tokens": prompt, "completion_tokens": completion, "total_tokens": prompt + completion}
            choices = [{"index": 0, "message": {"role": "assistant", "content": "x"}, "finish_reason": "stop"}]
            lines.append(
                json.dumps({"sample_id": sample_id, "response": {"choices": choices, "usage": usage}}).encode()
            )
        else:
            record = {
                "sample_id": sample_id,
                "output_ids": ids,
                "prompt_tokens": prompt,
                "completion_tokens": completion,
                "finish_reason": "length" if number % 9 == 0 else "stop",
            }
            lines.append(_compact(record))
    return lines


def _compact(value: object) -> bytes:
    return json.dumps(value, separators=(",", ":")).encode()
