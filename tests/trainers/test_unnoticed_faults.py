"""What the trainers' own loaders do not notice: the reason for our checks before storing, checksums and `verify`.

Each fault is put into one sample of a good store, and the loader's answer is held to what stands here. When a trainer
begins to notice one, its test fails, and the list of docs gets shorter.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any, Final

import pytest

from daemon.store.dataset_files import write_dataset_files
from daemon.store.layouts import make_layout
from tests.support.known_samples import known_samples, write_store
from tests.trainers.trainer_process import LoaderRefused, Trainer

SILENT: Final = "silent"
"""Every sample is handed out, nothing is warned of."""
FEWER: Final = "fewer samples"
"""Silent, with a sample less."""
DROPPED: Final = "dropped"
"""The sample is left out with a warning; training goes on."""
REFUSED: Final = "refused"

FAULTS: Final = (
    "mask short",
    "float32",
    "token short",
    "row short",
    "nan",
    "zero row",
    "int32 ids",
    "flipped byte",
    "swapped",
    "missing",
    "truncated",
)
NOTICED: Final[dict[str, dict[str, str]]] = {
    "specforge": {"missing": FEWER, "truncated": REFUSED},
    "modelopt": {"missing": FEWER, "truncated": REFUSED},
    "speculators": {
        "token short": DROPPED,
        "swapped": DROPPED,
        "missing": REFUSED,
        "truncated": REFUSED,
    },
}
"""All others are silent."""


@pytest.mark.parametrize("fault", FAULTS)
@pytest.mark.parametrize("layout", NOTICED)
def test_what_a_loader_makes_of_a_fault(
    request: pytest.FixtureRequest, tmp_path: Path, layout: str, fault: str
) -> None:
    trainer: Trainer = request.getfixturevalue(layout)
    samples = known_samples(norm="over_weight" if layout == "speculators" else "post")
    records = write_store(layout, tmp_path, samples)
    if layout == "speculators":
        write_dataset_files(
            make_layout(layout, tmp_path), tmp_path, records, draft_vocab_size=None, vocab_size=None, norm=None
        )
    good = trainer.load(tmp_path)
    put_in(trainer, layout, tmp_path, [tmp_path / record.file for record in records], fault)
    assert answer(trainer, tmp_path, good) == NOTICED[layout].get(fault, SILENT)


def put_in(trainer: Trainer, layout: str, folder: Path, files: list[Path], fault: str) -> None:
    """Put a fault into the third sample."""
    one, other = files[2], files[3]
    if fault == "missing":
        one.unlink()
    elif fault == "truncated":
        one.write_bytes(one.read_bytes()[:-100])
    elif fault == "flipped byte":
        content = bytearray(one.read_bytes())
        content[len(content) // 2] ^= 0x10
        one.write_bytes(content)
    elif fault == "swapped":
        content = one.read_bytes()
        one.write_bytes(other.read_bytes())
        other.write_bytes(content)
    elif layout != "speculators":
        trainer.ask("spoil_torch", file=str(one), fault=fault)
    elif fault == "mask short":
        trainer.ask("spoil_arrow", folder=str(folder), row=2)
    else:
        trainer.ask("spoil_safetensors", file=str(one), fault=fault)


def answer(trainer: Trainer, folder: Path, good: list[dict[str, Any]]) -> str:
    """Load a store and say in a word what its loader noticed.

    Args:
        trainer: Whose loader.
        folder: The store.
        good: What it handed out before the fault was put in.
    """
    try:
        found = trainer.load(folder)
    except LoaderRefused:
        return REFUSED
    if any("dropped" in one for one in found):
        assert trainer.warnings
        return DROPPED
    assert trainer.warnings == []
    assert found != good  # the fault is there
    return SILENT if len(found) == len(good) else FEWER
