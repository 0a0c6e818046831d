"""The values of a Prometheus text that matter here."""

from __future__ import annotations

import math
from typing import Final

from contracts.sglang import METRICS

_AVERAGED: Final = frozenset({"kv_usage", "cache_hit"})
"""Metrics that are shares: averaged over DP ranks, where counts and rates are summed."""
_METRIC_NAMES: Final = tuple(METRICS)


def read_metrics(text: str) -> dict[str, float]:
    """Return the known values of a Prometheus text, over all ranks; a broken line costs that line.

    TP ranks of one DP rank report the same requests (with metrics for all schedulers on): the largest counts once.
    """
    from prometheus_client.parser import text_string_to_metric_families  # 0.1 s of imports, rarely needed

    by_rank: dict[str, dict[str, float]] = {}
    for line in text.splitlines():
        # Of some 80 kB a second, half a dozen lines matter: only those are parsed.
        name = METRICS.get(line.partition("{")[0].partition(" ")[0]) if line.startswith(_METRIC_NAMES) else None
        if name is None:
            continue
        try:
            samples = [sample for family in text_string_to_metric_families(line) for sample in family.samples]
        except (ValueError, LookupError):  # the parser raises both on broken lines
            continue
        for sample in samples:
            if math.isfinite(sample.value):
                ranks = by_rank.setdefault(name, {})
                rank = sample.labels.get("dp_rank", "")
                ranks[rank] = max(sample.value, ranks.get(rank, sample.value))
    return {name: sum(ranks.values()) / (len(ranks) if name in _AVERAGED else 1) for name, ranks in by_rank.items()}
