"""What a run that only extracts will take hidden states of, known before its start: for ``eagle3 check``."""

from __future__ import annotations

from dataclasses import dataclass

from contracts.fold.dataset import DatasetFold
from contracts.fold.responses import ResponseFold
from contracts.journal.tail import Tail
from contracts.run_config import Dataset
from contracts.run_dir import RunDir
from daemon.extract.room import PromptTotals


@dataclass(frozen=True)
class ToCapture:
    """Of one data set, without what is stored already."""

    samples: int
    tokens: int
    """About: the prompts of answers are counted at their mean length."""
    coming_samples: int
    """Those of them whose answers are taken over at the start; no fold knows them yet."""
    coming_tokens: int


def to_capture(run: RunDir, dataset: Dataset, fold: DatasetFold, total: PromptTotals, pretokenized: int) -> ToCapture:
    """Return what there is to capture of a data set: answered samples and pre-tokenized ones.

    Args:
        run: The run directory.
        dataset: Its entry in run.toml.
        fold: Of its folder.
        total: Of its usable prompts.
        pretokenized: Those of them that bring their own answer.

    Raises:
        OSError: The file of responses cannot be read.
    """
    answers, coming = fold.responses, False
    if dataset.responses is not None and not answers.done:
        answers, coming = ResponseFold(), True
        Tail(run.path / dataset.responses).poll(answers)
    answered = min(len(answers.done), total.to_answer)
    prompt = total.tokens_to_answer / total.to_answer if total.to_answer else 0.0
    tokens = round(answered * prompt) + answers.completion_tokens
    return ToCapture(
        samples=max(answered + pretokenized - fold.extract_settled, 0),
        tokens=max(tokens + total.pretokenized_tokens - fold.hidden.tokens, 0),
        coming_samples=answered if coming else 0,
        coming_tokens=tokens if coming else 0,
    )
