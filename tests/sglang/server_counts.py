"""What a real server counts itself: requests and tokens in /metrics, open requests in /v1/loads."""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import Self

from prometheus_client.parser import text_string_to_metric_families

from tests.sglang.server import SglangServer

_LATE_S = 10.0
"""An answer may leave a moment before it is counted, and /v1/loads is up to a second old."""
_TOTALS = {
    "sglang:num_requests_total": "requests",
    "sglang:prompt_tokens_total": "prompt_tokens",
    "sglang:generation_tokens_total": "completion_tokens",
}


@dataclass(frozen=True)
class ServerCounts:
    """Totals since the server's start. Health checks are not among them."""

    requests: int
    prompt_tokens: int
    completion_tokens: int

    @classmethod
    def of(cls, server: SglangServer) -> Self:
        """The totals now, of a server with --enable-metrics."""
        found = dict.fromkeys(_TOTALS.values(), 0)
        for family in text_string_to_metric_families(server.get("/metrics").text):
            for sample in family.samples:
                if sample.name in _TOTALS:
                    found[_TOTALS[sample.name]] += int(sample.value)
        return cls(**found)

    @classmethod
    def reaching(cls, server: SglangServer, expected: ServerCounts) -> Self:
        """The totals, as soon as they are as expected or else after some seconds."""
        deadline = time.monotonic() + _LATE_S
        while True:
            counts = cls.of(server)
            if counts == expected or time.monotonic() > deadline:
                return counts
            time.sleep(0.1)


def open_requests(server: SglangServer) -> int:
    """Requests that the server runs or has in its queue."""
    loads = server.get("/v1/loads").json()["loads"]
    return sum(load["num_running_reqs"] + load["num_waiting_reqs"] for load in loads)


def wait_idle(server: SglangServer) -> None:
    """Wait until it has no open request; what was dropped or aborted goes within some seconds."""
    deadline = time.monotonic() + _LATE_S
    while left := open_requests(server):
        assert time.monotonic() < deadline, f"the server still has {left} requests after {_LATE_S:.0f} s"
        time.sleep(0.1)
