"""Real public prompt files, where the shared folder is there."""

from __future__ import annotations

import json

import pytest

from contracts.run_dir import DatasetDir
from daemon.prompts.importer import import_prompts
from daemon.prompts.index import PromptIndex, PromptLimits
from daemon.prompts.tokenizer import ByteTokenizer
from tests.daemon.prompts.conftest import SHARED_DATA


@pytest.mark.parametrize(
    ("name", "count", "first_id", "begin"),
    [
        ("gsm8k_test_400.jsonl", 400, None, "user: Janet’s ducks lay 16 eggs per day."),
        ("mt_bench_question.jsonl", 80, 81, "user: Compose an engaging travel blog post"),
        ("sharegpt_40.json", 40, "identity_0", "user: Who are you?\nassistant: I am Vicuna"),
    ],
)
def test_all_accepted(dataset: DatasetDir, name: str, count: int, first_id: object, begin: str) -> None:
    source = SHARED_DATA / name
    if not source.exists():
        pytest.skip(f"no {source}")
    report = import_prompts(source, dataset, ByteTokenizer())
    assert (report.accepted, report.refused, report.blank, report.lines) == (count, 0, 0, count)
    limits = PromptLimits(vocab_size=256, max_input_len=None, context_length=None, max_new_tokens=64)
    with PromptIndex.build(dataset.prompts, limits) as index:
        assert (len(index.entries), index.refusals) == (count, [])
        text = bytes(json.loads(index.read_ids(index.entries[0]))).decode("utf-8")
        assert text.startswith(begin) and text.endswith("\nassistant:")
        if first_id is not None:
            assert index.entries[0].sample_id == first_id
