"""Which GPUs ``CUDA_VISIBLE_DEVICES`` shows, by CUDA's own rules."""

from __future__ import annotations

from collections.abc import Sequence


def select(visible: str | None, uuids: Sequence[str | None]) -> list[int | str]:
    """Return what is visible, in the order named: NVML indices, and ids of MIG slices as they stand.

    Entries are indices, GPU UUIDs or unambiguous beginnings of them, or ids of MIG slices. As in CUDA, the first entry
    that names nothing (-1, too large, unknown, ambiguous) hides itself and all that follow; a card named twice is
    shown once. Indices count in PCI order, which is NVML's order and CUDA's under ``CUDA_DEVICE_ORDER=PCI_BUS_ID``;
    CUDA's default puts the fastest card first, which differs only where the cards do.

    Args:
        visible: The variable's value; None when it is not set: all GPUs. Empty: none.
        uuids: The UUID of each GPU by NVML index; None where it is not known.
    """
    if visible is None:
        return list(range(len(uuids)))
    chosen: list[int | str] = []
    for entry in visible.split(","):
        found = _named_by(entry.strip(), uuids)
        if found is None:
            break
        if found not in chosen:
            chosen.append(found)
    return chosen


def _named_by(entry: str, uuids: Sequence[str | None]) -> int | str | None:
    if entry.startswith("MIG-"):
        return entry
    if entry.startswith("GPU-"):
        matches = [index for index, uuid in enumerate(uuids) if uuid is not None and uuid.startswith(entry)]
        return matches[0] if len(matches) == 1 else None
    if entry.isascii() and entry.isdigit() and int(entry) < len(uuids):
        return int(entry)
    return None
