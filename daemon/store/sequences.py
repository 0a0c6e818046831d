"""The token ids and the loss mask that each stored sample must have, from prompts and responses alone."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from typing import Final, NamedTuple

import msgspec
import numpy as np
import numpy.typing as npt

from contracts.run_dir import DatasetDir, RunDir
from contracts.sample_id import SampleId
from contracts.shapes.output_ids import AcceptedResponses
from daemon.prompts.index import PromptEntry, PromptIndex, PromptLimits
from daemon.prompts.reader import numbered_lines

_NO_LIMITS: Final = PromptLimits(vocab_size=None, max_input_len=None, context_length=None, max_new_tokens=0)
_NUMBERS: Final = msgspec.json.Decoder(list[int])


class Expected(NamedTuple):
    """What a sample must be, before it is cut to a limit."""

    key: bytes
    sample_id: SampleId
    ids: npt.NDArray[np.int64]
    """[tokens]."""
    mask: npt.NDArray[np.uint8]
    """[tokens]: 1 where the trainer learns from the token."""
    pretokenized: bool = False


def open_prompts(run: RunDir, dataset: str) -> PromptIndex:
    """Return the prompts of a data set, whatever their lengths and ids; to be closed.

    Raises:
        PromptError: ``prompts.jsonl`` is missing, empty or cannot be read.
    """
    return PromptIndex.build(run.dataset(dataset).prompts, _NO_LIMITS)


def expected_sequences(
    run: RunDir, dataset: str, keys: Collection[bytes], prompts: PromptIndex | None = None
) -> Iterator[Expected]:
    """Yield what is to be stored of samples: pre-tokenized ones first, then in the order of the responses.

    Reads each file once; of prompts only places are kept. What has no prompt, no accepted response, or a response
    without usable ids, is not yielded.

    Args:
        run: The run.
        dataset: Its data set.
        keys: ``sample_key`` of the samples that are wanted; something quick to look into, as a set.
        prompts: From `open_prompts`, where they are open already.

    Raises:
        PromptError: ``prompts.jsonl`` is missing, empty, changed meanwhile or cannot be read.
        OSError: Another file cannot be read.
    """
    if not keys:
        return
    if prompts is None:
        with open_prompts(run, dataset) as opened:
            yield from expected_sequences(run, dataset, keys, opened)
        return
    folder = run.dataset(dataset)
    entries = {entry.key: entry for entry in prompts.entries if entry.key in keys}
    for entry in entries.values():
        mask = prompts.read_mask(entry)
        if mask is not None:
            ids, values = _ids(prompts, entry), np.array(_NUMBERS.decode(mask), np.uint8)
            yield Expected(entry.key, entry.sample_id, ids, values, pretokenized=True)
    yield from _answered(folder, prompts, {key: one for key, one in entries.items() if not one.pretokenized})


def sequence_of_response(
    prompt_ids: npt.NDArray[np.int64], output_ids: npt.NDArray[np.int64]
) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.uint8]]:
    """Return ids and loss mask of prompt and answer without its last token, which is never fed to the model."""
    ids = np.concatenate((prompt_ids, output_ids))
    mask = np.zeros(len(ids), np.uint8)
    mask[len(prompt_ids) :] = 1
    return ids[:-1], mask[:-1]


def _answered(folder: DatasetDir, prompts: PromptIndex, open_: dict[bytes, PromptEntry]) -> Iterator[Expected]:
    """Yield prompts with the first accepted response of each; takes them out of ``open_``."""
    try:
        stream = folder.responses.open("rb")
    except FileNotFoundError:
        return
    accepted = AcceptedResponses()
    with stream:
        for _, _, line in numbered_lines(stream):
            for answer in accepted.of_line(line):
                entry = open_.pop(answer.key, None)
                answer_ids = None if entry is None or answer.output_ids is None else _decoded(answer.output_ids)
                if entry is None or answer_ids is None:
                    continue
                ids, mask = sequence_of_response(_ids(prompts, entry), answer_ids)
                yield Expected(entry.key, entry.sample_id, ids, mask)
            if not open_:
                return


def _decoded(text: bytes) -> npt.NDArray[np.int64] | None:
    """Return ids as an array when they are whole numbers, else None."""
    try:
        return np.array(_NUMBERS.decode(text), np.int64)
    except (msgspec.DecodeError, UnicodeDecodeError, OverflowError):
        return None


def _ids(prompts: PromptIndex, entry: PromptEntry) -> npt.NDArray[np.int64]:
    return np.array(_NUMBERS.decode(prompts.read_ids(entry)), np.int64)
