"""``eagle3 check``: everything that can be known before the start, each finding with what to do."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Final

from contracts.fold.run import RunFold
from contracts.liveness import look
from contracts.run_config import Dataset, RunConfig, load_run_config
from contracts.run_dir import RunDir
from contracts.wording import counted, human_bytes
from daemon.extract.checking import CheckedExtraction
from daemon.extract.room import PromptTotals, totals_of
from daemon.findings import ERROR, OK, WARNING, Finding, Findings
from daemon.fingerprint import fingerprint_difference
from daemon.open_files import most_connections, reserved
from daemon.preparation import import_dataset, limits_of, tokenizer_of
from daemon.prompts.index import PromptIndex
from daemon.prompts.refusals import PromptError
from daemon.prompts.response_import import check_responses
from daemon.prompts.tokenizer import Tokenizer
from daemon.server_check import check_servers
from daemon.servers.probe import Probe
from daemon.telemetry.gpu import GpuCollector
from daemon.threads import in_thread
from daemon.to_capture import to_capture
from daemon.wishes import overrides

BYTES_PER_TOKEN: Final = 6.5
"""Of a response record: digits and comma of an id, with the record's other keys spread over it."""


async def check_run(path: Path) -> Findings:
    """Look at configuration, files, servers, disk and GPUs of a run; imports prompts, sends one tiny request.

    Raises:
        ConfigError: run.toml itself cannot be used.
    """
    run, found = RunDir(path), list[Finding]()
    try:
        config = load_run_config(run.config)
        fold = RunFold(path)
        fold.poll()
    except OSError as error:
        return Findings([Finding(level=ERROR, what=f"{error.filename or path}: {error.strerror or error}")])
    found.append(
        Finding(level=OK, what=f"{run.config}: data sets: {len(config.datasets)}, servers: {len(config.servers)}")
    )
    found += [Finding(level=WARNING, what=said) for said in overrides(fold)]
    found += _fingerprint(run, config, fold)
    extraction = CheckedExtraction(run, config, fold) if config.extracts else None
    of_servers, probes = await check_servers(run, config, fold, extraction)
    found += of_servers
    found += await in_thread(lambda: _prompts(run, config, probes, fold, extraction))
    fold.poll()  # what was imported just now
    found += _machine(run, config, fold)
    if extraction is not None:
        found += [Finding(level=each.level, what=each.what, advice=each.advice) for each in extraction.findings()]
    return Findings(found)


def _fingerprint(run: RunDir, config: RunConfig, fold: RunFold) -> list[Finding]:
    if not any(dataset.responses.done for dataset in fold.datasets.values()):
        return []
    try:
        difference = fingerprint_difference(run.fingerprint, config)
    except OSError as error:
        return [Finding(level=ERROR, what=f"{run.fingerprint}: {error.strerror or error}")]
    if difference is not None:
        return [Finding(level=ERROR, what=difference)]
    return [Finding(level=OK, what="run.toml makes the same data as the responses that are there")]


def _prompts(
    run: RunDir, config: RunConfig, probes: list[Probe], fold: RunFold, extraction: CheckedExtraction | None
) -> list[Finding]:
    limits, found = limits_of(config, probes), list[Finding]()
    if limits.vocab_size is None:
        found.append(
            Finding(
                level=WARNING,
                what="the vocabulary size is not known: token ids beyond it cannot be refused, and one kills a server",
                advice="Set [generate] vocab_size.",
            )
        )
    try:
        tokenizer = tokenizer_of(run, config)
    except PromptError as error:
        return [*found, Finding(level=ERROR, what=str(error))]
    # A living daemon has imported what it works on, or is doing so.
    importing = look(run).alive is not True
    for dataset in config.datasets:
        found += _dataset(run, config, dataset, tokenizer, probes, fold, extraction, importing=importing)
    return found


def _dataset(
    run: RunDir,
    config: RunConfig,
    dataset: Dataset,
    tokenizer: Tokenizer | None,
    probes: list[Probe],
    fold: RunFold,
    extraction: CheckedExtraction | None,
    *,
    importing: bool,
) -> list[Finding]:
    try:
        imported = import_dataset(run, dataset, tokenizer) if importing else None
        if dataset.responses is not None:
            check_responses(run.path / dataset.responses, run.dataset(dataset.name))
        with PromptIndex.build(run.dataset(dataset.name).prompts, limits_of(config, probes)) as index:
            refusals = [*(imported.refusals if imported else []), *index.refusals]
            total, usable = totals_of(index), len(index.entries)
        wanted = f"{total.to_answer:,} of them to be answered"
        if extraction is not None:
            extraction.totals[dataset.name] = total
            if not config.generates:
                wanted = _to_capture(run, dataset, fold, extraction, total, usable - total.to_answer)
    except PromptError as error:
        return [Finding(level=ERROR, what=f"{dataset.name}: {error}")]
    what = f"{dataset.name}: {counted(usable, 'prompt')} usable, {wanted}, {len(refusals):,} refused"
    advice = f"The first: line {refusals[0].line}: {refusals[0].why}" if refusals else None
    found = [Finding(level=(WARNING if refusals else OK) if usable else ERROR, what=what, advice=advice)]
    if dataset.target_tokens is not None and usable and not total.to_answer:
        what = f"{dataset.name}: target_tokens = {dataset.target_tokens:,}, but every prompt brings its own answer"
        advice = "Nothing is generated there to count: take target_tokens out of its [[datasets]] entry."
        found.append(Finding(level=ERROR, what=f"{what} (loss_mask)", advice=advice))
    return found


def _to_capture(
    run: RunDir, dataset: Dataset, fold: RunFold, extraction: CheckedExtraction, total: PromptTotals, pretokenized: int
) -> str:
    """Say what of a data set is to be captured and how much that is; note what no fold knows yet.

    Raises:
        PromptError: The file of responses cannot be read.
    """
    try:
        found = to_capture(run, dataset, fold.datasets[dataset.name], total, pretokenized)
    except OSError as error:
        raise PromptError(f"{error.filename or dataset.responses}: {error.strerror or error}") from error
    extraction.coming[dataset.name] = found.coming_samples, found.coming_tokens
    row_bytes = extraction.row_bytes
    size = "" if row_bytes is None else f", about {human_bytes(found.tokens * row_bytes)}"
    return f"{found.samples:,} of them to be captured ({counted(found.tokens, 'token')}{size})"


def _most_tokens(fold: RunFold, config: RunConfig, name: str) -> int:
    """Return the completion tokens that a data set can come to: its target, or every prompt at full length."""
    target, dataset = fold.target_of(name), fold.datasets[name]
    at_full_length = (dataset.prompts.prompts - dataset.prompts.pretokenized) * config.max_new_tokens
    return at_full_length if target is None else min(target, at_full_length)


def _machine(run: RunDir, config: RunConfig, fold: RunFold) -> list[Finding]:
    found: list[Finding] = []
    datasets = config.datasets if config.generates else []
    known = any(fold.datasets[dataset.name].prompts.prompts for dataset in datasets)
    needed = sum(_most_tokens(fold, config, dataset.name) for dataset in datasets) * BYTES_PER_TOKEN
    free = shutil.disk_usage(run.path).free
    what = f"{human_bytes(free)} free on the run's disk"
    if config.generates:
        what += f"; the responses need {human_bytes(needed)} at most" if known else "; no prompts are known yet"
    short = free < needed + config.alerts.disk_free_min_gb * 1e9
    advice = "Make room: a full disk pauses the run." if short else None
    found.append(Finding(level=WARNING if short else OK, what=what, advice=advice))
    _, lowered = most_connections(
        fold.concurrency or config.generate.concurrency, reserved(len(config.datasets), len(config.servers))
    )
    if lowered:
        found.append(Finding(level=WARNING, what=lowered))
    if config.telemetry.gpus:
        sample = GpuCollector().sample(0.0)
        seen = counted(len(sample.gpus), "GPU") if sample.gpus else f"no GPU readings: {sample.reason or sample.state}"
        found.append(Finding(level=OK if sample.gpus else WARNING, what=seen))
    return found
