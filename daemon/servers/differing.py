"""In what servers of one run compute differently, though each is right by itself."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from daemon.servers.probe import Probe

_NUMBERS: Final = ("dtype", "quantization", "kv_cache_dtype")
"""Arguments that change what a model computes. Others differ without harm: limits are those of the narrowest server,
parallelism and versions change no more than rounding."""


def differences(probe: Probe, others: Iterable[Probe]) -> list[str]:
    """Return a sentence for each argument in which a server differs from another one; each argument once.

    Who does not tell its arguments is compared with nobody.
    """
    said: dict[str, str] = {}
    for other in others:
        if not probe.arguments or not other.arguments:
            continue
        for name in _NUMBERS:
            own, its = probe.arguments.get(name), other.arguments.get(name)
            if own != its and name not in said:
                said[name] = (
                    f"{probe.url} runs with {name} {own or 'none'}, {other.url} with {its or 'none'}: they compute "
                    f"other numbers, and the run mixes them. Start all servers of a run with the same arguments"
                )
    return list(said.values())
