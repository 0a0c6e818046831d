"""What is said of servers that are each right, and not the same."""

from __future__ import annotations

from typing import Any

from daemon.servers.differing import differences
from daemon.servers.probe import Probe


def probe(url: str, **arguments: Any) -> Probe:
    return Probe(url, arguments=arguments)


def test_what_changes_the_numbers_is_named_once() -> None:
    one, two = probe("http://a", dtype="bfloat16", tp_size=8), probe("http://b", dtype="bfloat16", tp_size=4)
    assert differences(one, [two]) == []
    other = probe("http://c", dtype="bfloat16", quantization="fp8", kv_cache_dtype="fp8_e4m3")
    said = differences(other, [one, two])
    assert len(said) == 2
    assert "http://c runs with quantization fp8, http://a with none" in said[0] and "kv_cache_dtype fp8_e4m3" in said[1]


def test_limits_versions_and_the_unknown_are_no_difference() -> None:
    one = probe("http://a", context_length=4096, version="0.5.23", max_running_requests=8, random_seed=1)
    two = probe("http://b", context_length=8192, version="0.5.24", max_running_requests=9, random_seed=2)
    assert differences(one, [two, probe("http://c")]) == []
    assert differences(probe("http://c"), [one, probe("http://d", dtype="float16")]) == []
