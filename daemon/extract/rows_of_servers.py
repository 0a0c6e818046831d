"""What rows the servers of a run deliver: asked of each with its probe, before any work is sent there."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Final
from urllib.parse import urlsplit

import numpy as np
import numpy.typing as npt
import xxhash

from contracts.fold.hidden import StoredForm
from contracts.run_config import RunConfig
from contracts.run_dir import RunDir
from daemon.capture.final_norm import norm_fault
from daemon.capture.forms import Asked, difference, form_of
from daemon.capture.servers import norm_weight, objection, probe_fault
from daemon.servers.probe import PROBE_IDS, Probe
from daemon.sglang_plugin.eagle3_sglang.dump_format import About, DumpFormatError
from daemon.store.layout import StoreError
from daemon.store.layouts import norm_of
from daemon.store.norm_file import NORM_FILE, read_norm
from daemon.store.norms import NormWeight
from daemon.store.sample import RowForm
from daemon.threads import in_thread

PROBE_DUMP_S: Final = 10.0
"""How long after its answer the rows of a probe may take to appear."""


class RowsOfServers:
    """Judges the dumps of servers. The first one that is right decides what rows are; the others must agree.

    Args:
        run: The run directory, for the final norm that its stores hold.
        config: The run's configuration.
        stored: Form of what is stored already; None: nothing is.
    """

    def __init__(self, run: RunDir, config: RunConfig, stored: StoredForm | None) -> None:
        self.folder = Path(config.extract.dump_dir)
        self._layers = tuple(config.extract.layers)
        self._norm = norm_of(config.extract.layout)
        self.form: RowForm | None = None
        """Of all rows of this run; None until a server or the index has told."""
        self.model: str | None = None
        """As the servers name it among their rows."""
        if stored is not None:
            self.form = RowForm(stored.layers, stored.hidden_size, stored.dtype, stored.norm)
            self.model = stored.model
        self.norm: NormWeight | None = None
        """The model's final norm; None until a server was probed or a store told."""
        self._norm_from = ""
        """Who told."""
        self._unread: list[str] = []
        """Why what a store holds of it cannot be compared."""
        if stored is not None:
            self._read_stored_norm([run.store(dataset.name) for dataset in config.datasets])
        self.vocab_size: int | None = None

    async def objection(self, probe: Probe) -> str | None:
        """Return why rows of a server that answers as agreed cannot be used, or None."""
        if probe.radix_cache:
            return (
                "has its radix cache on: cached prefix rows are never computed, so they cannot be captured. Start it "
                "as eagle3 server-args says (--disable-radix-cache)"
            )
        probe.notes += self._unread
        try:
            found = await self._fault(probe)
        except (DumpFormatError, OSError) as error:
            found = str(error)
        return None if found is None else f"its hidden states cannot be used: {found}"

    async def _fault(self, probe: Probe) -> str | None:
        """Return what is wrong with the rows of the probe; where nothing is, this server's are what the run takes.

        Raises:
            DumpFormatError: A file of the dump folder is damaged.
            OSError: It cannot be read.
        """
        folder = self.folder
        probed = await probe_fault(folder, probe.rid, PROBE_IDS, PROBE_DUMP_S, urlsplit(probe.url).port)
        if isinstance(probed, str):
            return probed
        probe.rows_seen = True
        about, header = probed.about, probed.header
        found = objection(about, self._asked(), self.model)
        if found is not None:
            return found
        if (odd := difference(header, self._asked(), self.model)) is not None:
            return odd[1]  # it says so of itself, and writes something else
        norm = await in_thread(lambda: norm_weight(folder, about), "norm-read")
        found = (
            objection(about, self._asked(), self.model)  # another server may have told meanwhile
            or norm_fault(probed.rows, norm)
            or self._other_norm(norm)
        )
        if found is None:
            self._learn(about, norm, probe.url)
            self.vocab_size = self.vocab_size or probe.vocab_size
        return found

    def _asked(self) -> Asked:
        form = self.form
        if form is None:
            return Asked(self._layers, self._norm)
        return Asked(self._layers, self._norm, form.hidden_size, form.dtype)

    def _learn(self, about: About, norm: NormWeight, url: str) -> None:
        if self.form is None:
            self.form = form_of(about)
        if self.model is None:
            self.model = about.model
        if self.norm is None:
            self.norm, self._norm_from = norm, url

    def _other_norm(self, norm: NormWeight) -> str | None:
        """Return in what a server's final norm is not the run's: under one name there may be two checkpoints."""
        if self.norm is None:
            return None
        weight, known = norm.weight, self.norm.weight
        if norm.eps == self.norm.eps and np.array_equal(weight, known):
            return None
        return (
            f"the weight of its final norm is {_sum_of(weight)}, eps {norm.eps:g}; that of {self._norm_from} is "
            f"{_sum_of(known)}, eps {self.norm.eps:g} ({_apart(weight, known)}): another checkpoint under the same "
            f"name. All rows of a run come from one: start this server with it, or take it out of [[servers]]"
        )

    def _read_stored_norm(self, folders: Iterable[Path]) -> None:
        """Take the norm that a store holds for the run's; a damaged one tells nothing, and is written anew at the end.

        Blocking: it reads one small file.
        """
        for folder in folders:
            try:
                stored = read_norm(folder)
            except (StoreError, OSError) as error:
                self._unread.append(f"final norms are not compared with the stored one: {error}")
                continue
            if stored is not None:
                self.norm, self._norm_from = stored, f"{folder / NORM_FILE}"
                return


def _sum_of(weight: npt.NDArray[np.float32]) -> str:
    return f"xxh3_64:{xxhash.xxh3_64_hexdigest(np.ascontiguousarray(weight, dtype='<f4').data)}"


def _apart(one: npt.NDArray[np.float32], other: npt.NDArray[np.float32]) -> str:
    """Say by how much two weights differ."""
    if one.shape != other.shape:
        return f"{one.size} values against {other.size}"
    difference = np.abs(one - other)
    return f"{np.count_nonzero(difference)} of {one.size} values differ, by up to {difference.max():.3g}"
