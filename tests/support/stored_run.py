"""A small finished run with a store: prompts, responses, an index, and samples in any layout.

Samples are named s0, s1, ...; prompt, answer and rows follow from the number alone, so that tests can say what each
must hold. The last ``pretokenized`` of them are pre-tokenized.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import msgspec
import numpy as np

from contracts.records import Prompt, Response, StoredSample, encode_line
from contracts.run_dir import RunDir
from contracts.sample_id import sample_key
from daemon.store.layout import Layout
from daemon.store.layouts import make_layout
from daemon.store.sample import RowForm, Sample

LAYERS = (1, 4, 6)
WIDTH = 8
NOW = 1_800_000_000.0
_BITS = {"bfloat16": ("<u2", 0x3F80), "float16": ("<u2", 0x3C00), "float32": ("<u4", 0x3F800000)}
"""Of each type the integer of its width, and the bits of 1.0."""

Forge = Callable[[Sample], Sample]


@dataclass
class MemoryRows:
    """Rows in memory, [tokens, K+1, H], as the bits of their type; a `daemon.store.sample.Rows`."""

    bits: np.ndarray
    block_rows: int = 3

    @property
    def tokens(self) -> int:
        return len(self.bits)

    def blocks(self) -> Iterator[memoryview]:
        for first in range(0, len(self.bits), self.block_rows):
            yield memoryview(np.ascontiguousarray(self.bits[first : first + self.block_rows])).cast("B")


def prompt_ids(number: int) -> list[int]:
    return [100 + number, 7, 9]


def output_ids(number: int) -> list[int]:
    return [1000 * (number + 1) + place for place in range(4 + number)]


def make_sample(
    number: int, form: RowForm, *, pretokenized: bool = False, sample_id: str | int | None = None
) -> Sample:
    """What must be stored of sample ``number``: finite rows, each different, no zeros."""
    output = output_ids(number)
    ids = prompt_ids(number) + (output if pretokenized else output[:-1])
    mask = [0] * 3 + [1] * (len(ids) - 3)
    kind, one = _BITS[form.dtype]
    values = np.random.default_rng(number).integers(one - 500, one + 500, (len(ids), form.slots, form.hidden_size))
    name = f"s{number}" if sample_id is None else sample_id
    rows = MemoryRows(values.astype(kind))
    return Sample(name, sample_key(name), np.array(ids, np.int64), np.array(mask, np.uint8), form, rows)


def form_for(layout: Layout, dtype: str = "bfloat16", width: int = WIDTH) -> RowForm:
    return RowForm(LAYERS, width, dtype, layout.norm)


def record_of(store: Layout, sample: Sample, row: int, **over: Any) -> StoredSample:
    """Place a sample and return its index record."""
    placed = store.place(sample, row)
    values: dict[str, Any] = {
        "sample_id": sample.sample_id,
        "file": placed.file,
        "row": row,
        "offset": placed.offset,
        "bytes": placed.bytes,
        "checksum": placed.checksum,
        "tokens": len(sample.ids),
        "loss_tokens": int(sample.loss_mask.sum()),
        "layers": list(sample.form.layers),
        "hidden_size": sample.form.hidden_size,
        "dtype": sample.form.dtype,
        "norm": sample.form.norm,
        "layout": store.name,
        "model": "tiny",
        "capture": "generating",
        "at": NOW,
    }
    return StoredSample(**(values | over))


def make_stored_run(
    path: Path,
    layout: str = "safetensors",
    samples: int = 5,
    *,
    pretokenized: int = 1,
    datasets: tuple[str, ...] = ("B1",),
    dtype: str = "bfloat16",
    width: int = WIDTH,
    forge: Mapping[int, Forge] | None = None,
    over: Mapping[int, Mapping[str, Any]] | None = None,
    not_stored: tuple[int, ...] = (),
) -> Path:
    """Make the run and return its folder.

    Args:
        path: An empty or missing folder.
        layout: Of the store.
        samples: Of each data set.
        pretokenized: How many of them are.
        datasets: Their names; all hold the same.
        dtype: Of the rows.
        width: Hidden size.
        forge: By sample number: what a faulty producer stores instead, with a record and a checksum that fit it.
        over: By sample number: what its record says instead.
        not_stored: Numbers of samples that have a response and nothing else.
    """
    run = RunDir(path)
    path.mkdir(parents=True, exist_ok=True)
    named = "".join(f'[[datasets]]\nname = "{name}"\n' for name in datasets)
    run.config.write_text(
        f'[run]\nname = "stored"\nstages = ["generate", "extract"]\n[extract]\nlayers = {json.dumps(LAYERS)}\n'
        f'layout = "{layout}"\n[[servers]]\nurl = "http://127.0.0.1:9"\n{named}'
    )
    for name in datasets:
        _write_dataset(run, name, samples, pretokenized)
        store = make_layout(layout, run.store(name))
        row = 0
        for number in range(samples):
            if number in not_stored:
                continue
            sample = make_sample(number, form_for(store, dtype, width), pretokenized=number >= samples - pretokenized)
            sample = (forge or {}).get(number, lambda one: one)(sample)
            how = {"capture": "afterwards"} if number >= samples - pretokenized else {}
            append(
                run.dataset(name).hidden_states, record_of(store, sample, row, **how, **(over or {}).get(number, {}))
            )
            row += 1
    return path


def append(path: Path, *records: Any) -> None:
    """Append records to a journal."""
    with path.open("ab") as file:
        for record in records:
            file.write(encode_line(record))


def _write_dataset(run: RunDir, name: str, samples: int, pretokenized: int) -> None:
    folder = run.dataset(name)
    folder.path.mkdir(parents=True)
    for number in range(samples):
        prompt, output = prompt_ids(number), output_ids(number)
        if number >= samples - pretokenized:
            mask = [0] * len(prompt) + [1] * len(output)
            line = {"sample_id": f"s{number}", "input_ids": prompt + output, "loss_mask": mask}
            append(folder.prompts, _raw(Prompt, line))
            continue
        append(folder.prompts, _raw(Prompt, {"sample_id": f"s{number}", "input_ids": prompt}))
        answer = {
            "sample_id": f"s{number}",
            "prompt_tokens": len(prompt),
            "completion_tokens": len(output),
            "finish_reason": "stop",
            "output_ids": output,
            "finished_at": NOW - 1,
            "started_at": NOW - 2,
            "rid": f"e3.x.{number}",
            "server": "http://127.0.0.1:9",
            "attempt": 1,
        }
        append(folder.responses, _raw(Response, answer))


def _raw(kind: Any, values: dict[str, Any]) -> Any:
    """Return a record, its lists as JSON text where it keeps them so."""
    raws = {"input_ids", "output_ids", "loss_mask"}
    return kind(
        **{key: msgspec.Raw(msgspec.json.encode(value)) if key in raws else value for key, value in values.items()}
    )


def with_rows(sample: Sample, bits: np.ndarray) -> Sample:
    """The sample with other rows."""
    return replace(sample, rows=MemoryRows(bits))


def bits_of(sample: Sample) -> np.ndarray:
    """A copy of the rows of a sample made here."""
    assert isinstance(sample.rows, MemoryRows)
    return sample.rows.bits.copy()
