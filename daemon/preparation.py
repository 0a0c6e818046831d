"""From run.toml's data sets to usable prompts: import them, check every line, record every refusal."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Final

from contracts.clock import Clock
from contracts.fold.dataset import DatasetFold
from contracts.fold.events import PROMPTS_FAILED, PROMPTS_READY, STRANGERS
from contracts.fold.run import RunFold
from contracts.records import Failure, FailureClass, Requeue, Severity, encode_line
from contracts.run_config import Dataset, RunConfig
from contracts.run_dir import RunDir
from daemon.events import EventLog
from daemon.fold_keeper import catch_up
from daemon.prompts.importer import ImportReport, import_prompts
from daemon.prompts.index import PromptIndex, PromptLimits
from daemon.prompts.refusals import PromptError, PromptRefusal, refusal_record
from daemon.prompts.response_import import import_responses
from daemon.prompts.tokenizer import Tokenizer, load_tokenizer
from daemon.servers.probe import Probe
from daemon.threads import in_thread
from daemon.writer import Writer


def source_of(run: RunDir, dataset: Dataset) -> Path | None:
    """Return the file that a data set is imported from, or None when ``prompts.jsonl`` is the person's own."""
    if dataset.prompts is None:
        return None
    source = run.path / dataset.prompts
    return None if source.resolve() == run.dataset(dataset.name).prompts.resolve() else source


def tokenizer_of(run: RunDir, config: RunConfig) -> Tokenizer | None:
    """Return the tokenizer that run.toml names, or None.

    Raises:
        PromptError: It cannot be loaded.
    """
    if config.tokenizer is None:
        return None
    path = config.tokenizer.path
    if path != "bytes" and (run.path / path).exists():
        path = str(run.path / path)
    return load_tokenizer(path, config.tokenizer.system_prompt)


def import_dataset(run: RunDir, dataset: Dataset, tokenizer: Tokenizer | None) -> ImportReport | None:
    """Import a data set's prompts if they come from elsewhere; None when they don't.

    Raises:
        PromptError: The file as a whole cannot be used.
    """
    source = source_of(run, dataset)
    if source is not None and not run.is_run:
        raise PromptError(f"{run.path}: was moved or deleted; start the daemon again where the run is now")
    return None if source is None else import_prompts(source, run.dataset(dataset.name), tokenizer)


ROOM_BEYOND_INPUT: Final = 4
"""SGLang cuts an answer silently where prompt + answer exceed ``max_req_input_len`` + 4 (measured on 0.5.23): that is
below the context when the KV pool is the smaller of the two."""


def limits_of(config: RunConfig, probes: list[Probe]) -> PromptLimits:
    """Return what prompts must fit: what run.toml says, else the narrowest server."""
    generate = config.generate
    whole_limits = [
        None if probe.max_input_len is None else probe.max_input_len + ROOM_BEYOND_INPUT for probe in probes
    ]
    return PromptLimits(
        vocab_size=generate.vocab_size or _least([probe.vocab_size for probe in probes]),
        max_input_len=_least([probe.max_input_len for probe in probes]),
        context_length=_least(
            [generate.context_length or _least([probe.context_length for probe in probes]), *whole_limits]
        ),
        max_new_tokens=config.max_new_tokens,
        over_long="clip" if generate.over_long == "clip" else "refuse",
    )


def _least(values: list[int | None]) -> int | None:
    return min((value for value in values if value is not None), default=None)


NO_LIMITS: Final = PromptLimits(None, None, None, 0)
"""For a look at the samples' names alone."""


class Preparation:
    """Makes ready what a session works on, telling of everything that was refused.

    Args:
        run: The run directory.
        config: Its run.toml.
        fold: Its fold; brought up to date after an import.
        events: Takes what a person should read.
        clock: Gives the times.
        writer: Takes the records of refused lines.
    """

    def __init__(
        self, run: RunDir, config: RunConfig, fold: RunFold, events: EventLog, clock: Clock, writer: Writer
    ) -> None:
        self._run = run
        self._config = config
        self._fold = fold
        self._events = events
        self._clock = clock
        self._writer = writer
        self._imported: dict[str, ImportReport] = {}
        self._unusable: set[str] = set()
        self.failed: list[str] = []
        """Why data sets cannot be used, in sentences."""

    @property
    def is_in_vain(self) -> bool:
        """Whether no data set at all can be used."""
        return len(self._unusable) == len(self._config.datasets)

    async def import_prompts(self) -> None:
        """Import what comes from elsewhere. A data set that cannot be imported is named; the others run."""
        tokenizer, trouble = None, None
        try:
            tokenizer = await in_thread(lambda: tokenizer_of(self._run, self._config))
        except PromptError as error:
            trouble = error
        for dataset in self._config.datasets:
            if source_of(self._run, dataset) is None:
                self._look_at(dataset)
                continue
            if trouble is not None:
                self._failed(trouble, dataset.name)
                continue
            try:
                report = await in_thread(partial(import_dataset, self._run, dataset, tokenizer))
            except PromptError as error:
                self._failed(error, dataset.name)
                continue
            if report is not None:
                self._imported[dataset.name] = report
                self._events.emit(
                    Severity.WARNING if report.refused else Severity.INFO,
                    "prompts.imported",
                    f"{dataset.name}: {report.accepted} accepted + {report.refused} refused + {report.blank} blank = "
                    f"{report.lines} {report.unit} of {report.source.name}",
                    dataset=dataset.name,
                )
        await self._import_responses()
        await catch_up(self._fold)

    async def _import_responses(self) -> None:
        """Take over responses of other runs, where run.toml names some and the data set has none yet."""
        for dataset in self._config.datasets:
            if dataset.responses is None or dataset.name in self._unusable:
                continue
            source, target = self._run.path / dataset.responses, self._run.dataset(dataset.name)
            if source.resolve() == target.responses.resolve():
                continue
            try:
                found = await in_thread(partial(import_responses, source, target, self._clock.now()))
            except PromptError as error:
                self._failed(error, dataset.name)
                continue
            if found.refusal is not None:
                said = f"{dataset.name}: {found.refusal}"
                self._events.emit(Severity.WARNING, "responses.kept", said, dataset=dataset.name)
            elif found.done_now and found.report is not None:
                self._events.emit(
                    Severity.WARNING if found.report.refused else Severity.INFO,
                    "responses.imported",
                    f"{dataset.name}: {found.report}",
                    dataset=dataset.name,
                )

    async def read_prompts(self, limits: PromptLimits) -> dict[str, PromptIndex]:
        """Check every prompt and return the prompts of the data sets that can be used."""
        indexes: dict[str, PromptIndex] = {}
        if limits.vocab_size is None:
            self._events.emit(
                Severity.WARNING,
                "prompts.vocabulary",
                "no server tells its vocabulary size: only negative ids are refused, and an id beyond the vocabulary "
                "kills a server. Set [generate] vocab_size",
            )
        for dataset in self._config.datasets:
            if dataset.name in self._unusable:
                continue  # also when prompts of an earlier import are there: run.toml asks for others
            fold = self._fold.datasets[dataset.name]
            try:
                index = await in_thread(partial(PromptIndex.build, fold.folder.prompts, limits))
            except PromptError as error:
                self._failed(error, dataset.name)
                continue
            refused = record_refusals(fold, self._imported.get(dataset.name), index, self._clock, self._writer.append)
            generated = self._compare(fold, index)
            self._events.emit(
                Severity.WARNING if refused else Severity.INFO,
                PROMPTS_READY,
                f"{dataset.name}: {len(index.entries)} prompts usable, {generated} of them to be answered, "
                f"{refused} refused" + (f"; {index.mixed}" if index.mixed else ""),
                dataset=dataset.name,
            )
            indexes[dataset.name] = index
        return indexes

    async def compare_responses(self) -> None:
        """Find responses that belong to no prompt, before any server is needed; see `STRANGERS`."""
        for dataset in self._fold.datasets.values():
            try:
                with await in_thread(partial(PromptIndex.build, dataset.folder.prompts, NO_LIMITS)) as index:
                    self._compare(dataset, index)
            except PromptError as error:
                self._failed(error, dataset.name)

    def _compare(self, dataset: DatasetFold, index: PromptIndex) -> int:
        """Say how many responses and stored samples belong to no prompt, when that changed; return the prompts that
        need an answer."""
        keys = {entry.key for entry in index.entries if not entry.pretokenized}
        given_up = {key for key, _ in dataset.given_up()}
        count = len((dataset.responses.done | given_up) - keys)
        settled = dataset.hidden.stored.keys() | {key for key, _ in dataset.extract_given_up_samples()}
        stored = len(settled - {entry.key for entry in index.entries})
        known = self._fold.events
        if (count, stored) != (known.strangers.get(dataset.name, 0), known.stored_strangers.get(dataset.name, 0)):
            self._events.emit(
                Severity.WARNING if count or stored else Severity.INFO,
                STRANGERS,
                f"{dataset.name}: {count} responses or given-up samples belong to no usable prompt of "
                f"{index.path.name} (was it replaced?); they count as done, and settle no prompt"
                + (f"; so do {stored} stored samples: eagle3 verify names them" if stored else ""),
                dataset=dataset.name,
                data={"count": count, "stored": stored},
            )
        return len(keys)

    def _look_at(self, dataset: Dataset) -> None:
        """Say at once that a person's own prompts are missing or empty: it takes no server to know that."""
        path = self._run.dataset(dataset.name).prompts
        if not path.exists() or path.stat().st_size == 0:
            try:
                PromptIndex.build(path, limits_of(self._config, [])).close()
            except PromptError as error:
                self._failed(error, dataset.name)

    def _failed(self, error: PromptError, dataset: str) -> None:
        self._unusable.add(dataset)
        said = f"{dataset}: {error}"
        if said not in self.failed:
            self.failed.append(said)
            self._events.emit(Severity.CRITICAL, PROMPTS_FAILED, str(error), dataset=dataset)


def record_refusals(
    dataset: DatasetFold,
    imported: ImportReport | None,
    index: PromptIndex,
    clock: Clock,
    append: Callable[[Path, bytes], None],
) -> int:
    """Bring the refused lines in ``failures.jsonl`` up to what they are now; return how many there are.

    A line is recorded once. When a line is no longer refused (another server, a corrected file), all earlier refusals
    are taken back and the present ones written.
    """
    source = [] if imported is None else imported.refusals
    source_name = None if imported is None else imported.source.name
    known, known_source = dataset.failures.refused_lines, dataset.failures.refused_source_lines
    path = dataset.folder.failures
    if known.keys() - {refusal.line for refusal in index.refusals} or known_source.keys() - {
        refusal.line for refusal in source
    }:
        append(path, encode_line(Requeue(at=clock.now(), error=FailureClass.INVALID_INPUT)))
        known, known_source = {}, {}
    for refusal in index.refusals:
        if refusal.line not in known:
            append(path, encode_line(_record(dataset.name, refusal, clock, None)))
    for refusal in source:
        if refusal.line not in known_source:
            append(path, encode_line(_record(dataset.name, refusal, clock, source_name)))
    return len(index.refusals) + len(source)


def _record(dataset: str, refusal: PromptRefusal, clock: Clock, source: str | None) -> Failure:
    record = refusal_record(dataset, refusal, clock.now())
    record.source = source
    return record
