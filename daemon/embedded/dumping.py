"""Hidden states of the embedded server's passes into a dump folder, through the writer that runs inside SGLang.

The rows are the tiny model's own, or (without a model) cheap ones made from token id and position.
"""

from __future__ import annotations

import os
import sys
import threading
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import torch  # noqa: TID251
from torch import Tensor  # noqa: TID251

from daemon.capture.forms import form_of
from daemon.embedded.config import ModelConfig
from daemon.embedded.dump_faults import OTHER_FORM, Alteration, DumpFaults, FilesWithHoles, Part
from daemon.embedded.dump_form import spoilt, told_by
from daemon.embedded.dump_states import ModelStates, States, TableStates
from daemon.embedded.model import TinyLlama, limit_threads
from daemon.request_ids import is_probe
from daemon.sglang_plugin.eagle3_sglang.dump_format import RID, About
from daemon.sglang_plugin.eagle3_sglang.final_norm import FinalNorm
from daemon.sglang_plugin.eagle3_sglang.instance_files import write_instance
from daemon.sglang_plugin.eagle3_sglang.rows import RowBatch
from daemon.sglang_plugin.eagle3_sglang.writer import DumpWriter
from daemon.store.sample import RowForm

MOST_PENDING_BYTES: Final = 256 << 20


@dataclass(slots=True)
class _Request:
    """A request whose rows are wanted, from its first row to its answer."""

    alteration: Alteration | None
    form: RowForm
    name: str
    """The rid that its rows go to: its own, but for a swap."""
    plain: bool
    """Its rows go to the writer as those of the whole pass do."""
    exchanged: bool = False


class Dumper:
    """Takes the hidden states of forward passes; what is done with them never holds an answer back.

    Args:
        folder: of the dumps; made when it is missing.
        about: what the server says of its rows. `about.refusal`: nothing is dumped.
        config: of the model.
        seed: of its weights.
        faults: may be changed at any time.
        token_rows: rows (but of probes) that hold their token's id and nothing else, exact in bfloat16 up to id 256.

    Raises:
        OSError: the folder cannot be written.
    """

    def __init__(
        self, folder: Path, about: About, config: ModelConfig, *, seed: int, faults: DumpFaults,
        token_rows: bool = False,
    ) -> None:  # fmt: skip
        limit_threads()
        self.about = about
        self._folder, self._config, self._faults, self._token_rows = folder, config, faults, token_rows
        self.norm = FinalNorm(TinyLlama(config, seed).norm.weight.detach(), config.rms_norm_eps)
        self._form = form_of(about)
        others = spoilt(self._form, "wrong_layers").layers
        self.capture: tuple[int, ...] = tuple(sorted({*about.layers, *others}))
        """The layers whose outputs `put` needs: 0-based output ids."""
        self._lock = threading.Lock()
        self._closed = False
        self._requests: dict[str, _Request] = {}
        self._unpaired: _Request | None = None
        self._holes: dict[str, int] = {}
        self._timers: list[threading.Timer] = []
        self._writers: dict[RowForm, DumpWriter] = {}
        weight = None if about.refusal is not None else self.norm.weight.numpy().astype("<f4").tobytes()
        self._lock_file = write_instance(folder, about, weight)
        self._writer(self._form)

    def wants(self, rid: str) -> bool:
        """Whether a request's rows are dumped."""
        return self.about.refusal is None and RID.fullmatch(rid) is not None

    def put(self, rids: list[str], counts: list[int], states: States) -> None:
        """Take the rows of one pass: `counts` of each rid, one after the other. What is given is kept, not copied."""
        with self._lock:
            requests = [self._requests.get(rid) or self._request(rid) for rid in rids]
            if all(request is not None and request.plain for request in requests):  # the pass as it is
                self._send(self._form, rids, counts, self._part(self._form, states, None, self._token_rows))
                return
            plain_rids: list[str] = []
            plain_counts: list[int] = []
            plain: list[int] = []
            begin = 0
            for rid, count, request in zip(rids, counts, requests, strict=True):
                places = list(range(begin, begin + count))
                begin += count
                if request is None:
                    continue
                if request.plain:
                    plain_rids.append(rid)
                    plain_counts.append(count)
                    plain.extend(places)
                elif request.alteration is None:
                    self._send(self._form, [rid], [count], self._part(self._form, states, places, token_rows=False))
                else:
                    part = self._part(request.form, states, places, self._token_rows)
                    self._write(request, request.alteration.take(part))
            if plain:
                part = self._part(self._form, states, plain, self._token_rows)
                self._send(self._form, plain_rids, plain_counts, part)

    def finished(self, rid: str, output_ids: Sequence[int]) -> None:
        """Learn that a request's answer goes out now, and what it was."""
        with self._lock:
            request = self._requests.pop(rid, None)
            if request is None or request.alteration is None:
                return
            if request.alteration.fault == "late":
                timer = threading.Timer(self._faults.late_s, self._write_late, (request,))
                timer.daemon = True
                self._timers = [*(each for each in self._timers if each.is_alive()), timer]
                timer.start()
                return
            if request is self._unpaired:  # nobody to exchange with came
                self._unpaired = None
            if request.alteration.fault == "swap":
                self._write(request, request.alteration.release())
            if output_ids:
                self._write(request, request.alteration.one_more(output_ids[-1]))

    def pause(self) -> None:
        """Learn that no request runs any more: what is held is written now."""
        with self._lock:
            for writer in self._writers.values():
                writer.pause()

    def flush(self) -> None:
        """Return when what was taken so far is written; for tests."""
        with self._lock:
            writers = list(self._writers.values())
        for writer in writers:
            writer.flush()

    def close(self) -> None:
        """Write what was taken; what was to come late never comes. The dumps and the self-description stay."""
        with self._lock:
            self._closed = True
            for timer in self._timers:
                timer.cancel()
            for writer in self._writers.values():
                writer.close()
            os.close(self._lock_file)
            self._requests.clear()

    def _request(self, rid: str) -> _Request | None:
        """A new request, which draws its fault; None when its rows are not wanted."""
        if not self.wants(rid):
            return None
        fault = self._faults.next_kind()
        alteration = None if fault is None else Alteration(fault, self._faults)
        request = _Request(alteration, self._form, rid, fault is None and not (self._token_rows and is_probe(rid)))
        self._requests[rid] = request
        if fault in OTHER_FORM:
            request.form = spoilt(self._form, fault)
        elif fault == "error_file":
            self._writer(self._form).refuse([rid], "asked for: the embedded server's fault error_file")
        elif fault == "swap":
            self._pair(request)
        return request

    def _pair(self, request: _Request) -> None:
        """Exchange the names of this request and the one that waits for it, or have this one wait."""
        other = self._unpaired
        if other is None:
            self._unpaired = request
            return
        self._unpaired = None
        request.name, other.name = other.name, request.name
        request.exchanged = other.exchanged = True
        assert other.alteration is not None
        self._write(other, other.alteration.release())

    def _write(self, request: _Request, parts: list[Part]) -> None:
        """Give parts of a request with a fault to the writer of its form."""
        assert request.alteration is not None
        if request.exchanged:
            parts = [*parts, *request.alteration.release()]
        if request.alteration.hole is not None:
            self._holes[request.name] = request.alteration.hole
        for part in parts:
            self._send(request.form, [request.name], [len(part.ids)], part)

    def _write_late(self, request: _Request) -> None:
        with self._lock:
            if not self._closed:
                assert request.alteration is not None
                self._write(request, request.alteration.release())

    def _send(self, form: RowForm, rids: list[str], counts: list[int], part: Part) -> None:
        self._writer(form).put(RowBatch(rids, counts, part.rows, part.ids, part.positions, None))

    def _writer(self, form: RowForm) -> DumpWriter:
        """The writer of a form; one beside the server's own for each fault of the whole form."""
        if form not in self._writers:
            about = told_by(form, self.about)
            files = FilesWithHoles(self._folder, about, self._holes)
            self._writers[form] = DumpWriter(
                self._folder, about, most_pending_bytes=MOST_PENDING_BYTES, log=_log, files=files
            )
        return self._writers[form]

    def _part(self, form: RowForm, states: States, places: list[int] | None, token_rows: bool) -> Part:
        """The rows of a pass at these places, or all."""
        rows = states.rows(form, places)
        ids, positions = states.ids, states.positions
        if places is not None:
            ids, positions = ids[places], positions[places]
        if token_rows:
            rows = ids.to(rows.dtype)[:, None].expand_as(rows).clone()
        return Part(rows, ids, positions)


class CannedDumps:
    """Hidden states without a model: cheap, the same for the same ids and positions, none of them zero.

    They are rows of a table, one for each id. The last ones are of root mean square 1 times the norm's weight, as if
    they came out of the norm.
    """

    def __init__(self, dumper: Dumper, config: ModelConfig, seed: int) -> None:
        self._dumper = dumper
        draw = torch.Generator().manual_seed(seed)
        shape = (config.vocab_size, config.hidden_size)
        aux = {layer: torch.rand(shape, generator=draw) + 0.5 for layer in dumper.capture}
        last = torch.randn(shape, generator=draw)
        last *= last.pow(2).mean(dim=1, keepdim=True).rsqrt()
        table = torch.arange(config.vocab_size)
        self._all = ModelStates(table, table, aux, last * dumper.norm.weight, dumper.norm)
        self._tables: dict[RowForm, Tensor] = {}

    def put(self, rid: str, ids: Sequence[int], first: int) -> None:
        """Dump the rows of `ids`, as if they had been fed at positions `first` and on."""
        if ids and self._dumper.wants(rid):
            fed = torch.tensor(ids)
            states = TableStates(self._table, fed, torch.arange(first, first + len(fed)))
            self._dumper.put([rid], [len(fed)], states)

    def finished(self, rid: str, output_ids: Sequence[int]) -> None:
        """As `Dumper.finished`."""
        self._dumper.finished(rid, output_ids)

    def _table(self, form: RowForm) -> Tensor:
        if form not in self._tables:
            self._tables[form] = self._all.rows(form, None)
        return self._tables[form]


def _log(line: str) -> None:
    print(f"embedded server: {line}", file=sys.stderr, flush=True)
