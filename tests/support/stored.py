"""Records of stored samples, and runs that extract, for tests of the fold and what is built on it."""

from __future__ import annotations

from typing import Any, Final

from contracts.records import CaptureCheck, Failure, FailureClass, Stage, StoredSample
from tests.support.records import NOW, failure

EXTRACT: Final = "[extract]\nlayers = [2, 30, 58]\n"


def stages(*names: str, extra: str = "") -> str:
    """What `make_run` takes as ``extra`` for a run with these stages."""
    named = ", ".join(f'"{name}"' for name in names)
    return f"stages = [{named}]\n{EXTRACT}{extra}"


def stored(sample_id: str | int = "s1", row: int = 0, **over: Any) -> StoredSample:
    """The record of a sample of 10 tokens in 1,000 bytes."""
    values: dict[str, Any] = {
        "sample_id": sample_id,
        "file": "shard-00000.safetensors",
        "row": row,
        "bytes": 1000,
        "checksum": "xxh3_128:00",
        "tokens": 10,
        "loss_tokens": 4,
        "layers": [2, 30, 58],
        "hidden_size": 8,
        "dtype": "bfloat16",
        "norm": "post",
        "layout": "safetensors",
        "model": "m",
        "capture": "generating",
        "at": NOW - 5,
    }
    return StoredSample(**(values | over))


def failed_capture(sample_id: str | int = "s1", check: CaptureCheck = CaptureCheck.IDS, **over: Any) -> Failure:
    """A capture that failed a check and will be tried again."""
    values: dict[str, Any] = {"stage": Stage.EXTRACT, "error": FailureClass.CAPTURE, "check": check}
    return failure(sample_id, **(values | {"message": "row 3 is wrong"} | over))
