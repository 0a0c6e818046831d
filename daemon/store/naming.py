"""File names of samples: readable where that is possible, safe and different for every sample always."""

from __future__ import annotations

import re
from typing import Final

import xxhash

from contracts.sample_id import SampleId

_READABLE_LENGTH: Final = 80
_STEM: Final = re.compile(r"[A-Za-z0-9._-]+-[0-9a-f]{32}")
_UNSAFE: Final = re.compile(r"[^A-Za-z0-9._-]+")


def file_stem(sample_id: SampleId, key: bytes) -> str:
    """Return ``<readable part of the id>-<digest of its key>``: at most 113 ASCII characters, no dot in front.

    Args:
        sample_id: Any text, or an integer.
        key: ``contracts.sample_id.sample_key`` of it: two samples have different keys, hence different digests.
    """
    readable = _UNSAFE.sub("_", str(sample_id)[: 4 * _READABLE_LENGTH]).lstrip(".-_")[:_READABLE_LENGTH]
    return f"{readable or 'sample'}-{xxhash.xxh3_128_hexdigest(key)}"


def is_file_stem(stem: str) -> bool:
    """Whether `file_stem` could have made it: what has another name is somebody else's."""
    return _STEM.fullmatch(stem) is not None
