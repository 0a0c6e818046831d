"""What rows the servers of a run deliver: asked of each with its probe, before any work is sent there."""

from __future__ import annotations

from pathlib import Path
from typing import Final
from urllib.parse import urlsplit

import numpy as np
import numpy.typing as npt

from contracts.fold.hidden import StoredForm
from contracts.run_config import RunConfig
from daemon.capture.forms import Asked, difference, form_of
from daemon.capture.servers import norm_weight, objection, probe_fault
from daemon.servers.probe import PROBE_IDS, Probe
from daemon.sglang_plugin.eagle3_sglang.dump_format import About, DumpFormatError
from daemon.store.layouts import norm_of
from daemon.store.norms import NormWeight
from daemon.store.sample import RowForm
from daemon.threads import in_thread

PROBE_DUMP_S: Final = 10.0
"""How long after its answer the rows of a probe may take to appear."""


class RowsOfServers:
    """Judges the dumps of servers. The first one that is right decides what rows are; the others must agree.

    Args:
        config: The run's configuration.
        stored: Form of what is stored already; None: nothing is.
    """

    def __init__(self, config: RunConfig, stored: StoredForm | None) -> None:
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
        """The model's final norm; None until a server was probed."""
        self.vocab_size: int | None = None

    async def objection(self, probe: Probe) -> str | None:
        """Return why rows of a server that answers as agreed cannot be used, or None."""
        if probe.radix_cache:
            return (
                "has its radix cache on: cached prefix rows are never computed, so they cannot be captured. Start it "
                "as eagle3 server-args says (--disable-radix-cache)"
            )
        folder = self.folder
        try:
            port = urlsplit(probe.url).port
            probed = await probe_fault(folder, probe.rid, PROBE_IDS, PROBE_DUMP_S, port)
            if isinstance(probed, str):
                return f"its hidden states cannot be used: {probed}"
            about, header = probed
            found = objection(about, self._asked(), self.model)
            if found is None and (odd := difference(header, self._asked(), self.model)) is not None:
                found = odd[1]  # it says so of itself, and writes something else
            if found is None:
                norm = await in_thread(lambda: norm_weight(folder, about), "norm-read")
                found = objection(about, self._asked(), self.model)  # another server may have told meanwhile
            if found is None:
                self._learn(about, norm)
                self.vocab_size = self.vocab_size or probe.vocab_size
        except (DumpFormatError, OSError) as error:
            return f"its hidden states cannot be used: {error}"
        return None if found is None else f"its hidden states cannot be used: {found}"

    def _asked(self) -> Asked:
        form = self.form
        if form is None:
            return Asked(self._layers, self._norm)
        return Asked(self._layers, self._norm, form.hidden_size, form.dtype)

    def _learn(self, about: About, norm: tuple[npt.NDArray[np.float32], float]) -> None:
        weight, eps = norm
        if self.form is None:
            self.form = form_of(about)
        if self.model is None:
            self.model = about.model
        if self.norm is None:
            self.norm = NormWeight(weight, eps)
