"""One stored sample for a person's quick look: its facts, and what its hidden states are like."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Final

import msgspec

from contracts.journal.tail import Tail
from contracts.records import Failure, StoredSample
from contracts.run_config import RunConfig, load_run_config
from contracts.run_dir import DatasetDir, RunDir
from contracts.sample_id import SampleId, sample_key
from contracts.shapes.output_ids import AcceptedResponses, Answer
from daemon.prompts.reader import numbered_lines
from daemon.prompts.refusals import PromptError
from daemon.store.cheap_checks import FileSizes, file_fault
from daemon.store.examine import examine, form_of
from daemon.store.findings import Finding
from daemon.store.index import read_index
from daemon.store.layout import StoreError
from daemon.store.layouts import make_layout
from daemon.store.sequences import expected_sequences, open_prompts
from daemon.store.slot_statistics import SlotStatistics, slot_statistics

_SHOWN_IDS: Final = 16
_FAILURE: Final = msgspec.json.Decoder(Failure)


class NoSuchSampleError(Exception):
    """No data set has the sample, or several have; the message says which and what to do."""


class Shown(msgspec.Struct, kw_only=True):
    """What ``python -m daemon show --json`` prints."""

    dataset: str
    sample_id: SampleId
    prompt_tokens: int | None = None
    """Of the prompt as it is in ``prompts.jsonl``; None: it is not there."""
    pretokenized: bool = False
    completion_tokens: int | None = None
    """None: no response, or it does not say."""
    finish_reason: str | None = None
    first_ids: list[int] = []
    """Of the prompt, or of the stored sample where there is no prompt."""
    failures: list[Failure] = []
    """Every failed attempt, of both stages, in the order of the file."""
    stored: StoredSample | None = None
    dropped: str | None = None
    """Why what was stored of it holds no longer."""
    slots: list[SlotStatistics] = []
    findings: list[Finding] = []
    """What is wrong with it, as verify says."""
    trouble: str | None = None
    """Why its hidden states could not be read."""


def show_sample(path: Path, sample: str, dataset: str | None = None) -> Shown:
    """Return all that a run knows of one sample.

    Args:
        path: The run directory.
        sample: Its id, as text.
        dataset: Its data set; None: whichever has it.

    Raises:
        ConfigError: run.toml cannot be used.
        NoSuchSampleError: See there.
        OSError: A journal cannot be read.
    """
    run, config, key = RunDir(path), load_run_config(RunDir(path).config), sample_key(sample)
    names = [one.name for one in config.datasets]
    if dataset is not None and dataset not in names:
        raise NoSuchSampleError(f"{path}: no data set {dataset!r}; there are: {', '.join(names)}")
    found = [
        one for name in names if dataset in (None, name) and (one := _Search(run, config, name, key).look()) is not None
    ]
    if len(found) > 1:
        where = ", ".join(one.dataset for one in found)
        raise NoSuchSampleError(f"{path}: several data sets have a sample {sample!r}: {where}; name one with --dataset")
    if not found:
        where = f"data set {dataset!r}" if dataset is not None else "any data set"
        raise NoSuchSampleError(f"{path}: no sample {sample!r} in {where}: neither a prompt nor anything else")
    return found[0]


@dataclass(frozen=True)
class _Search:
    """One sample in one data set."""

    run: RunDir
    config: RunConfig
    name: str
    key: bytes

    @property
    def _folder(self) -> DatasetDir:
        return self.run.dataset(self.name)

    def look(self) -> Shown | None:
        """Return what the data set knows; None when it never heard of the sample."""
        index = read_index(self._folder.hidden_states)
        record, dropped = index.records.get(self.key), index.dropped.get(self.key)
        prompt, answer, failures = self._prompt(), self._answer(), self._failures()
        if prompt is None and answer is None and record is None and not failures:
            return None
        shown = Shown(
            dataset=self.name, sample_id=self.key.decode("utf-8", "replace"), failures=failures, stored=record
        )
        shown.dropped = None if dropped is None else dropped.why
        if prompt is not None:
            shown.sample_id, shown.pretokenized, shown.prompt_tokens, shown.first_ids = prompt
        if answer is not None:
            shown.completion_tokens, shown.finish_reason = answer.completion_tokens, answer.finish_reason
        if record is not None:
            self._states(record, shown)
        return shown

    def _prompt(self) -> tuple[SampleId, bool, int, list[int]] | None:
        try:
            with open_prompts(self.run, self.name) as prompts:
                for entry in prompts.entries:
                    if entry.key == self.key:
                        ids = msgspec.json.decode(prompts.read_ids(entry), type=list[int])
                        return entry.sample_id, entry.pretokenized, len(ids), ids[:_SHOWN_IDS]
        except PromptError:
            pass  # no prompts: what else there is of the sample is shown all the same
        return None

    def _answer(self) -> Answer | None:
        try:
            stream = self._folder.responses.open("rb")
        except FileNotFoundError:
            return None
        accepted = AcceptedResponses()
        with stream:
            for _, _, line in numbered_lines(stream):
                for answer in accepted.of_line(line):
                    if answer.key == self.key:
                        return answer
        return None

    def _failures(self) -> list[Failure]:
        sink = _FailuresOf(self.key)
        Tail(self._folder.failures).poll(sink)
        return sink.found

    def _states(self, record: StoredSample, shown: Shown) -> None:
        folder = self.run.store(self.name)
        try:
            fault = file_fault(record, FileSizes(folder))
            if fault is not None:
                shown.findings = [fault]
                return
            layout = make_layout(record.layout, folder)
            expected = next(iter(expected_sequences(self.run, self.name, {self.key})), None)
            shown.findings = list(examine(folder, layout, record, expected))
            loaded = layout.load(record)
            shown.first_ids = shown.first_ids or loaded.ids[:_SHOWN_IDS].tolist()
            shown.slots = slot_statistics(form_of(record), loaded.rows)
        except (StoreError, PromptError, ValueError) as error:
            shown.trouble = str(error)
        except OSError as error:
            shown.trouble = f"{folder / record.file}: cannot be read: {error.strerror or error}"


class _FailuresOf:
    """Failures of one sample; a `contracts.journal.tail.LineSink`."""

    def __init__(self, key: bytes) -> None:
        self._key = key
        self.found: list[Failure] = []

    def reset(self, why: str) -> None:
        """Start again."""
        self.found.clear()

    def feed(self, block: bytearray, end: int, offset: int, bulk: bool) -> None:
        """Take whole lines."""
        for line in bytes(block[:end]).split(b"\n"):
            try:
                record = _FAILURE.decode(line)
            except (msgspec.DecodeError, UnicodeDecodeError):
                continue  # a requeue, or damage: counted and shown by the status
            if record.sample_id is not None and sample_key(record.sample_id) == self._key:
                self.found.append(record)
