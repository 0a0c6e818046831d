"""Lines of a block, decoded, with the places of those that cannot be."""

from __future__ import annotations

import msgspec

from contracts.fold.lines import decoded_lines
from contracts.fold.places import Places


def test_records_in_order_and_where_the_others_are() -> None:
    content = b"1\n\n2\nx\n \r\n\xff\n3\n"
    places = Places()
    block = bytearray(content + b"4\n")  # behind the end that counts
    found = list(decoded_lines(block, len(content), 100, 10, msgspec.json.Decoder(int), places))
    assert found == [1, 2, 3]
    assert [(place.offset, place.line) for place in places.first] == [(105, 14), (110, 16)]
    assert places.count == 2
