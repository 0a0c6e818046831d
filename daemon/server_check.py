"""The servers' part of ``eagle3 check``: each is asked as a start would ask it, and judged by the same rules."""

from __future__ import annotations

import asyncio
import time

from contracts.fold.run import RunFold
from contracts.liveness import Liveness, look
from contracts.run_config import ConfigError, RunConfig
from contracts.run_dir import RunDir
from daemon.extract.checking import CheckedExtraction
from daemon.findings import ERROR, OK, WARNING, Finding
from daemon.fingerprint import Fingerprint, check_model, fingerprint_of, read_fingerprint
from daemon.judging import Judging
from daemon.request_ids import RequestIds
from daemon.servers.differing import differences
from daemon.servers.info import proxy_note
from daemon.servers.pool import ServerPool
from daemon.servers.probe import DOWN, REFUSED, STARTING, UNREADY, Probe
from daemon.servers.probe import OK as USABLE
from daemon.servers.slot import ServerSlot


async def check_servers(
    run: RunDir, config: RunConfig, fold: RunFold, extraction: CheckedExtraction | None
) -> tuple[list[Finding], list[Probe]]:
    """Send each server one tiny request.

    Args:
        run: The run directory; nothing is written there.
        config: Its run.toml.
        fold: Its fold, up to date.
        extraction: Judges the rows of servers; None: the run wants none.

    Returns:
        What was found, and what the servers that can be used say of themselves.
    """
    note = proxy_note([server.url for server in config.servers])
    found = [Finding(level=WARNING, what=note)] if note else []
    liveness = look(run)
    try:
        fingerprint = _fingerprint(run, config, fold, liveness)
        judging = Judging(config, lambda probe: check_model(fingerprint, run.fingerprint, probe.model, keep=False))
        judging.rows = None if extraction is None else extraction.objection
        rids = RequestIds(run.path, f"{time.time_ns() // 1_000_000:x}")
        pool = ServerPool(
            config,
            lambda slot, before: None,
            lambda: rids.probe(captured=extraction is not None),
            judging.objection,
            judging.probed,
        )
    except ConfigError as error:
        return [*found, Finding(level=ERROR, what=str(error))], []
    except OSError as error:
        what = f"{error.filename or run.fingerprint}: {error.strerror or error}"
        return [*found, Finding(level=ERROR, what=what)], []
    probes = await asyncio.gather(*(_probe(pool, slot) for slot in pool.slots))
    await judging.settle()
    refused = _refused_by_daemon(fold, liveness)
    for number, probe in enumerate(probes):
        probe.notes += differences(probe, [other for other in probes[:number] if other.state == USABLE])
        found += _of_probe(probe)
        if probe.state == USABLE and probe.url in refused:
            found.append(
                Finding(
                    level=ERROR,
                    what=f"{probe.url}: the daemon that runs sends nothing there: {refused[probe.url]}",
                    advice="What it says holds for this run of the daemon; a start looks anew.",
                )
            )
    return found, [probe for probe in probes if probe.state == USABLE]


def _fingerprint(run: RunDir, config: RunConfig, fold: RunFold, liveness: Liveness) -> Fingerprint:
    """Return what a daemon compares servers with. A start without responses begins with any model.

    Raises:
        OSError: The file cannot be read.
    """
    fresh = fingerprint_of(config)
    if liveness.alive is True or any(dataset.responses.done for dataset in fold.datasets.values()):
        kept = read_fingerprint(run.fingerprint)
        fresh.model = None if kept is None else kept.model
    return fresh


def _refused_by_daemon(fold: RunFold, liveness: Liveness) -> dict[str, str | None]:
    """Return by URL why the daemon that runs refuses a server, by its newest reading: it knows its prompts."""
    sample = fold.telemetry.server
    if liveness.alive is not True or sample is None or sample.at < (liveness.since or 0.0):
        return {}
    return {server.url.rstrip("/"): server.reason for server in sample.servers if server.state == REFUSED}


async def _probe(pool: ServerPool, slot: ServerSlot) -> Probe:
    await slot.client.open()
    try:
        return await pool.probe(slot)
    finally:
        await slot.client.close()


def _of_probe(probe: Probe) -> list[Finding]:
    url = probe.url
    if probe.state == DOWN:
        return [
            Finding(
                level=ERROR,
                what=f"{url} does not answer: {probe.refusal}",
                advice="Start it, or correct [[servers]]. A started daemon waits for it.",
            )
        ]
    if probe.state in (STARTING, UNREADY):
        return [
            Finding(
                level=ERROR,
                what=f"{url} is not ready: {probe.refusal}",
                advice="It may still be loading, or hang: look at its log. A started daemon waits for it.",
            )
        ]
    if probe.state != USABLE:
        return [Finding(level=ERROR, what=f"{url}: {probe.refusal}", advice="No work is sent to such a server.")]
    found = [
        Finding(
            level=OK,
            what=f"{url}: SGLang {probe.version or '(version unknown)'}, {probe.model or '(model unknown)'}, prompts "
            f"below {probe.max_input_len or '?'} tokens, vocabulary {probe.vocab_size or '?'}; a tiny request agreed",
        )
    ]
    found += [Finding(level=WARNING, what=note) for note in probe.notes]
    if probe.speculative is not None:
        found.append(
            Finding(
                level=WARNING,
                what=f"{url} runs speculative decoding ({probe.speculative})",
                advice="Right for answers; hidden states cannot be captured from it.",
            )
        )
    return found
