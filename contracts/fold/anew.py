"""A fold that starts again: its file was cut, replaced or deleted."""

from __future__ import annotations

from collections.abc import Collection

import msgspec


def start_again(fold: msgspec.Struct, keep: Collection[str] = ("notes",)) -> None:
    """Give every field of a fold its default but those to ``keep``; each of them has one."""
    fresh = type(fold)()
    for name in fold.__struct_fields__:
        if name not in keep:
            setattr(fold, name, getattr(fresh, name))
