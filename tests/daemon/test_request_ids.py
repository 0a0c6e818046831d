"""Request ids: used once, tied to their sample, told apart from others'."""

from __future__ import annotations

from pathlib import Path

import pytest

from daemon.request_ids import RequestIds, is_probe, parse_rid, sample_hash
from daemon.run_tag import run_tag
from daemon.sglang_plugin.eagle3_sglang.dump_format import RID


def test_a_captured_request_names_run_sample_and_session(tmp_path: Path) -> None:
    rids = RequestIds(tmp_path, "5e55")
    first, second = rids.captured("B1", b"a"), rids.captured("B1", b"a")
    assert first != second
    assert RID.fullmatch(first) and RID.fullmatch(second), "the plugin takes it"
    parsed = parse_rid(first)
    assert parsed is not None
    assert (parsed.run, parsed.sample, parsed.session, parsed.number) == (
        run_tag(tmp_path), sample_hash("B1", b"a"), "5e55", "0",
    )  # fmt: skip


def test_a_plain_request_is_none_of_the_plugins(tmp_path: Path) -> None:
    plain = RequestIds(tmp_path, "5e55").plain("B1", b"a")
    assert parse_rid(plain) is None and RID.fullmatch(plain) is None


def test_probes(tmp_path: Path) -> None:
    rids = RequestIds(tmp_path, "5e55")
    captured, plain = rids.probe(captured=True), rids.probe(captured=False)
    assert is_probe(captured) and is_probe(plain)
    assert RID.fullmatch(captured) and not RID.fullmatch(plain)
    assert not is_probe(rids.captured("B1", b"a")) and not is_probe(rids.plain("B1", b"probe"))


@pytest.mark.parametrize(
    "rid", ["", "e3.", "e3.a.b.c", "e3.a.b.c.d.e", "e3.a..c.d", "x.a.b.c.d", "e3g.a.b.c.d", "probe"]
)
def test_ids_of_others(rid: str) -> None:
    assert parse_rid(rid) is None and not is_probe(rid)


def test_samples_of_one_name_in_two_data_sets_are_two() -> None:
    hashes = {sample_hash(dataset, key) for dataset, key in [("B1", b"a"), ("B2", b"a"), ("B1", b"b"), ("B", b"1a")]}
    assert len(hashes) == 4
    assert all(len(each) == 16 for each in hashes)
