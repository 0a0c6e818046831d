"""Shapes of other tools that hold several generations in one object: datatrove's rollouts and distilabel's steps."""

from __future__ import annotations

from typing import Any, Final

import msgspec
from msgspec import UNSET, Raw

from contracts.shapes.answer import metadata_of, read_answer, verdict
from contracts.shapes.facts import Outcome, ResponseFact
from contracts.shapes.line import Line, Statistics, read_field, read_items, read_line
from contracts.shapes.values import count, given

_FIELDS: Final = msgspec.json.Decoder(dict[str, Raw])
_STATISTICS: Final = msgspec.json.Decoder(Statistics)


def read_rollouts(line: Line, key: bytes | None) -> list[ResponseFact] | None:
    """Read ``metadata.rollout_results`` of datatrove. The document's own ``text`` is its prompt.

    Returns:
        One fact for each rollout, a single `Outcome.EMPTY` when there is none; None when the line is of another shape.
    """
    metadata = metadata_of(line)
    if metadata is None or metadata.rollout_results is UNSET:
        return None
    rollouts = bytes(metadata.rollout_results)
    if rollouts[:1] != b"[":
        return [ResponseFact(key, Outcome.EMPTY)]
    facts = []
    for item in read_items(rollouts):
        if item == b"null":
            facts.append(ResponseFact(key, Outcome.FAILED, message="the rollout is null"))
        else:
            facts.append(read_answer(read_line(item), key) or ResponseFact(key, Outcome.EMPTY))
    return facts or [ResponseFact(key, Outcome.EMPTY)]


def read_distilabel(line: Line, key: bytes | None) -> list[ResponseFact] | None:
    """Read ``generation`` or ``generations`` with distilabel's statistics.

    The counts are those of the only step that has any: with several steps nobody can say which one made the text.

    Returns:
        One fact for each generation; None when the line is of another shape.
    """
    if line.distilabel_metadata is UNSET and line.generations is UNSET:
        return None
    if line.generations is not UNSET and bytes(line.generations)[:1] == b"[":
        texts = read_items(bytes(line.generations))
    elif line.generation is not UNSET:
        texts = [bytes(line.generation)]
    else:
        return None
    stated = verdict(line, None)
    if stated is not None:
        return [ResponseFact(key, stated[0], message=stated[1])]
    prompts, completions = _statistics(line, len(texts))
    facts = []
    for text, prompt, completion in zip(texts, prompts, completions, strict=True):
        if text == b"null":
            facts.append(ResponseFact(key, Outcome.FAILED, message="generation is null"))
            continue
        if completion == 0 and given(Raw(text)):
            prompt, completion = prompt or None, None
        facts.append(ResponseFact(key, Outcome.COMPLETE, prompt, completion))
    return facts or [ResponseFact(key, Outcome.EMPTY)]


def _statistics(line: Line, generations: int) -> tuple[list[int | None], list[int | None]]:
    """Return input and output tokens of each generation."""
    fields = read_field(line.distilabel_metadata, _FIELDS) or {}
    steps = [raw for name, raw in fields.items() if name.startswith("statistics_")]
    statistics = read_field(steps[0], _STATISTICS) if len(steps) == 1 else None
    if statistics is None:
        return [None] * generations, [None] * generations
    prompts = _spread(statistics.input_tokens, "input_tokens", generations)
    if type(statistics.input_tokens) is list and len(statistics.input_tokens) == 1:
        prompts = [count(statistics.input_tokens[0], "input_tokens")] * generations  # one prompt, several generations
    return prompts, _spread(statistics.output_tokens, "output_tokens", generations)


def _spread(value: Any, name: str, generations: int) -> list[int | None]:
    values = value if type(value) is list else [value]
    if len(values) != generations:
        return [None] * generations
    return [count(item, name) for item in values]
