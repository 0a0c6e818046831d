"""Header pages are the same, made at once or one by one."""

from __future__ import annotations

import dataclasses

import pytest

from daemon.sglang_plugin.eagle3_sglang.dump_format import DumpFormatError, DumpHeader, header_pages

HEADER = DumpHeader(
    rid="",
    instance="1-2-0",
    layers=(1, 2),
    server_layers=(2, 3),
    hidden_size=4,
    dtype="float32",
    norm="post",
    model='models/Schön "8B" \\u0000',
    sglang="0.5.23",
    context_length=64,
)


@pytest.mark.parametrize("rid", ["e3.a", "e3.run_1-x.9f.1.2", "e3." + "z" * 200])
def test_page_is_the_header_with_this_rid(rid: str) -> None:
    page = header_pages(HEADER)(rid)
    assert page == dataclasses.replace(HEADER, rid=rid).encode()
    assert DumpHeader.decode(page) == dataclasses.replace(HEADER, rid=rid)


def test_rid_of_somebody_else_is_refused() -> None:
    with pytest.raises(DumpFormatError, match="no request id of ours"):
        header_pages(HEADER)('e3.a", "x": "')


def test_header_without_room_for_the_longest_rid_is_refused() -> None:
    with pytest.raises(DumpFormatError, match="has 4"):
        header_pages(dataclasses.replace(HEADER, model="m" * 3800))
