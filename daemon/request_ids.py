"""Request ids of our own: each names its sample and is used once; those whose rows are captured have their own prefix.

``e3.<run>.<sample>.<session>.<n>``: the plugin inside SGLang writes the rows of these (``dump_format.RID``).
``e3g.<run>.<sample>.<session>.<n>``: answers alone; no plugin looks at them.
"""

from __future__ import annotations

import hashlib
import itertools
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from daemon.run_tag import run_tag

CAPTURED: Final = "e3."
PLAIN: Final = "e3g."
_PROBE: Final = "probe"


@dataclass(frozen=True)
class ParsedRid:
    """The parts of a request id."""

    run: str
    sample: str
    """Of `sample_hash`, or ``probe``."""
    session: str
    number: str


def sample_hash(dataset: str, key: bytes) -> str:
    """Return sixteen digits for a sample of a run."""
    return hashlib.blake2b(dataset.encode() + b"\0" + key, digest_size=8).hexdigest()


def parse_rid(rid: str) -> ParsedRid | None:
    """Return the parts of a request id whose rows are captured; None when it is another's."""
    parts = rid.removeprefix(CAPTURED).split(".")
    return ParsedRid(*parts) if rid.startswith(CAPTURED) and len(parts) == 4 and all(parts) else None


def is_probe(rid: str) -> bool:
    """Whether a request id of ours is that of a probe, captured or not."""
    parts = rid.split(".")
    return len(parts) == 5 and f"{parts[0]}." in (CAPTURED, PLAIN) and parts[2] == _PROBE


class RequestIds:
    """Names the requests of one session of a run.

    Args:
        run: The run directory.
        session: Differs from that of every session before.
    """

    def __init__(self, run: Path, session: str) -> None:
        self.tag = run_tag(run)
        self.session = session
        self._numbers = itertools.count()

    def captured(self, dataset: str, key: bytes) -> str:
        """Return the id of a request whose rows are wanted."""
        return f"{CAPTURED}{self._rest(sample_hash(dataset, key))}"

    def plain(self, dataset: str, key: bytes) -> str:
        """Return the id of a request of which only the answer is wanted."""
        return f"{PLAIN}{self._rest(sample_hash(dataset, key))}"

    def probe(self, *, captured: bool) -> str:
        """Return the id of a probe."""
        return f"{CAPTURED if captured else PLAIN}{self._rest(_PROBE)}"

    def _rest(self, sample: str) -> str:
        return f"{self.tag}.{sample}.{self.session}.{next(self._numbers):x}"
