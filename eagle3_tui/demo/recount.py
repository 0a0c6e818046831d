"""A second opinion on a finished run: its files counted with plain json.loads, by nothing that counted before."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from contracts.status import DatasetStatus, RunStatus


@dataclass(frozen=True)
class Recount:
    """What the files of one data set hold."""

    prompts: int
    done: int
    prompt_tokens: int
    completion_tokens: int
    twice: int
    stored: int
    stored_tokens: int
    stored_bytes: int


def differences(status: RunStatus, prepared: Path) -> list[str]:
    """Return a sentence for every count of a status that the files contradict; empty: all agree."""
    found = []
    total = Recount(*(0 for _ in Recount.__dataclass_fields__))
    for dataset in status.datasets:
        counted = recount(prepared / dataset.name)
        found += _compare(dataset, counted)
        total = Recount(*(getattr(total, name) + getattr(counted, name) for name in Recount.__dataclass_fields__))
    return found + _compare(status.totals, total)


def recount(folder: Path) -> Recount:
    """Count the files of one data set.

    Raises:
        ValueError: A line is not JSON, its ids and its count differ, or a sample is stored twice.
    """
    prompts = [record["sample_id"] for record in _records(folder / "prompts.jsonl")]
    ids: list[str] = []
    prompt_tokens = completion_tokens = 0
    for record in _records(folder / "raw_responses.jsonl"):
        if len(record["output_ids"]) != record["completion_tokens"]:
            raise ValueError(f"{folder.name}: sample {record['sample_id']!r} counts other ids than it holds")
        ids.append(str(record["sample_id"]))
        prompt_tokens += record["prompt_tokens"]
        completion_tokens += record["completion_tokens"]
    done = len(set(ids))
    stored = _records(folder / "hidden_states.jsonl")
    if len({str(record["sample_id"]) for record in stored}) != len(stored):
        raise ValueError(f"{folder.name}: hidden states of a sample are stored twice")
    sizes = sum(record["tokens"] for record in stored), sum(record["bytes"] for record in stored)
    return Recount(len(prompts), done, prompt_tokens, completion_tokens, len(ids) - done, len(stored), *sizes)


def _records(path: Path) -> list[dict[str, Any]]:
    if not path.exists():
        return []
    with path.open(encoding="utf-8") as file:
        return [json.loads(line) for line in file]


def _compare(dataset: DatasetStatus, counted: Recount) -> list[str]:
    # Where every prompt brings its answer there are no tokens to count, rather than none yet.
    is_counted = counted.done > 0 or dataset.pretokenized != dataset.prompts
    pairs = (
        ("prompts", dataset.prompts, counted.prompts),
        ("done", dataset.done, counted.done),
        ("prompt tokens", dataset.prompt_tokens, counted.prompt_tokens if is_counted else None),
        ("completion tokens", dataset.completion_tokens, counted.completion_tokens if is_counted else None),
        ("duplicates", dataset.duplicates, counted.twice),
        ("stored samples", dataset.hidden.stored if dataset.hidden else 0, counted.stored),
        ("stored tokens", dataset.hidden.tokens if dataset.hidden else 0, counted.stored_tokens),
        ("stored bytes", dataset.hidden.bytes if dataset.hidden else 0, counted.stored_bytes),
    )
    return [
        f"{dataset.name}: the status says {shown} {name}, the files hold {held}"
        for name, shown, held in pairs
        if shown != held
    ]
