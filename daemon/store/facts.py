"""What a stored file says of itself beside its tensors: whose rows they are, of which layers, in which form."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Final

from contracts.records import StoredSample
from contracts.sample_id import SampleId, sample_key
from daemon.store.layout import StoreError
from daemon.store.sample import RowForm, Sample

FORMAT: Final = "eagle3-store/1"


def facts_of(sample: Sample) -> dict[str, str]:
    """Return the facts of a sample, each as ASCII text: the metadata of a safetensors header takes nothing else.

    The id is JSON in that text, so that ``7`` and ``"7"`` stay what they were and any character passes.
    """
    return {
        "format": FORMAT,
        "sample_id": json.dumps(sample.sample_id),
        "layers": json.dumps(list(sample.form.layers)),
        "norm": sample.form.norm,
    }


def check_owner(path: Path, facts: Mapping[str, str], record: StoredSample) -> None:
    """See that a file holds the sample that its index record names; a file without facts is not judged.

    Raises:
        StoreError: It holds another sample, or says in no readable way which.
    """
    if facts.get("format") != FORMAT:
        return
    owner = owner_of(path, facts)
    if sample_key(owner) != sample_key(record.sample_id):
        raise StoreError(f"{path} holds the sample {owner!r}, not {record.sample_id!r} as its index record says")


def owner_of(path: Path, facts: Mapping[str, str]) -> SampleId:
    """Return whose sample a file says it holds.

    Raises:
        StoreError: It does not say.
    """
    if facts.get("format") != FORMAT:
        raise StoreError(f"{path} does not say whose rows it holds: it was not written by eagle3")
    try:
        owner = json.loads(facts["sample_id"])
    except (KeyError, ValueError) as error:
        raise StoreError(f"{path} does not say whose rows it holds: {error}") from error
    if isinstance(owner, bool) or not isinstance(owner, str | int):
        raise StoreError(f"{path} does not say whose rows it holds: {owner!r}")
    return owner


def form_from(path: Path, facts: Mapping[str, str], hidden_size: int, dtype: str) -> RowForm | None:
    """Return the form of rows that a file states; None where it states none.

    Raises:
        StoreError: What it states cannot be read.
    """
    if facts.get("format") != FORMAT:
        return None
    try:
        layers = json.loads(facts["layers"])
        norm = facts["norm"]
    except (KeyError, ValueError) as error:
        raise StoreError(f"{path} does not say what its rows are: {error}") from error
    if not isinstance(layers, list) or not all(isinstance(layer, int) for layer in layers):
        raise StoreError(f"{path} does not say of which layers its rows are: {layers!r}")
    return RowForm(layers=tuple(layers), hidden_size=hidden_size, dtype=dtype, norm=norm)
