"""What can be known of the extract stage before a start: the servers' rows, the dump folder, the room for the store."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from dataclasses import dataclass, replace

from contracts.fold.run import RunFold
from contracts.run_config import RunConfig
from contracts.run_dir import RunDir
from contracts.wording import human_bytes
from daemon.capture.budget import dump_bytes
from daemon.capture.dump_folder import DumpFolder, look_at
from daemon.extract.room import PromptTotals, room_report, still_to_store
from daemon.extract.rows_of_servers import RowsOfServers
from daemon.fingerprint import store_difference
from daemon.run_tag import run_tag
from daemon.servers.probe import Probe
from daemon.store.sample import RowForm


@dataclass(frozen=True)
class Checked:
    """One thing that was looked at."""

    level: str
    """``ok``, ``warning`` or ``error``."""
    what: str
    advice: str | None = None


class CheckedExtraction:
    """Looks at the extract stage of a run; makes the dump folder, changes nothing else.

    Args:
        run: The run directory.
        config: Its run.toml.
        fold: Its fold, up to date.
    """

    def __init__(self, run: RunDir, config: RunConfig, fold: RunFold) -> None:
        self._run = run
        self._config = config
        self._fold = fold
        self.totals: dict[str, PromptTotals] = {}
        """Of the data sets' prompts; filled in by whoever reads them."""
        self.coming: dict[str, tuple[int, int]] = {}
        """By data set: samples, and their tokens, whose answers are taken over at the start; filled in likewise."""
        stored = (dataset.hidden.form for dataset in fold.datasets.values())
        self._servers = RowsOfServers(run, config, next((form for form in stored if form is not None), None))

    async def objection(self, probe: Probe) -> str | None:
        """Return why rows of a server that answers as agreed cannot be used, or None."""
        return await self._servers.objection(probe)

    @property
    def row_bytes(self) -> int | None:
        """Bytes that one token takes in the store; None while no server has told."""
        return None if self._servers.form is None else self._servers.form.row_bytes

    def findings(self) -> Iterator[Checked]:
        """Yield what was found, once the servers were asked."""
        difference = store_difference(self._fold, self._config)
        if difference is not None:
            yield Checked("error", difference)
        folder, form = self._servers.folder, self._servers.form
        try:
            folder.mkdir(parents=True, exist_ok=True, mode=0o700)
            found = look_at(folder, run_tag(self._run.path), self._config.extract.dump_budget_gb)
        except OSError as error:
            yield Checked("error", f"{folder}: cannot be used as dump folder: {error.strerror or error}")
            return
        if not os.access(folder, os.W_OK | os.X_OK):
            yield Checked("error", f"{folder}: cannot be written to: servers and daemon must run as the same user")
        if form is None:
            budget = human_bytes(found.budget_bytes)
            yield Checked("warning", f"{folder}: {budget} for dumps; what a row takes no server has told")
            return
        yield self._budget(found, form)
        yield self._store(form)

    def _budget(self, found: DumpFolder, form: RowForm) -> Checked:
        budget = found.budget_bytes
        rows = budget // (form.row_bytes or 1)
        longest = self._config.extract.max_tokens or self._config.max_new_tokens
        what = (
            f"{self._servers.folder}: {human_bytes(budget)} for dumps, {rows:,} rows of {form.row_bytes:,} bytes "
            f"(layers {', '.join(map(str, form.layers))} and the last, {form.hidden_size} x {form.dtype})"
        )
        needed = dump_bytes(longest, form.row_bytes)
        if needed > found.capacity_bytes:
            advice = f"A sample of {longest} tokens does not fit and would be left out: give it more room."
            return Checked("warning", what, advice)
        if needed > budget:
            advice = f"Other files lie there: a sample of {longest} tokens would wait until they are gone. Make room."
            return Checked("warning", what, advice)
        if rows < self._config.generate.concurrency * longest and self._config.captures_generating:
            advice = "When it is full, answers are made without capture and their rows taken in a second pass."
            return Checked("ok", what, advice)
        return Checked("ok", what)

    def _store(self, form: RowForm) -> Checked:
        if not self.totals:
            return Checked("warning", f"{self._run.stores}: what it will take is not known: no prompts could be read")
        where = self._run.stores if self._run.stores.exists() else self._run.path  # they may be on a disk of their own
        free = shutil.disk_usage(where).free - int(self._config.alerts.disk_free_min_gb * 1e9)
        known = still_to_store(self._fold, self._config, self.totals)
        samples, tokens = (sum(part) for part in zip((0, 0), *self.coming.values(), strict=True))
        wanted = replace(known, samples=known.samples + samples, tokens=known.tokens + tokens)
        report = room_report(wanted, self._fold, form, free)
        what = f"{self._run.stores}: {report.text}"
        if report.fits:
            return Checked("ok", what)
        if wanted.assumed:
            return Checked("warning", what, "Answers may be shorter than assumed. A full disk pauses the run.")
        return Checked(
            "error",
            what,
            "Make room, or lower the targets or max_tokens. A started run pauses at once; "
            f"eagle3 resume {self._run.quoted} starts it all the same, until the disk is full.",
        )
