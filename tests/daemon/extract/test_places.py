"""Where responses are: through growth, replacement, and a bound on what is read at a time."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from contracts.records import encode_line
from daemon.extract.places import ResponsePlaces
from tests.daemon.extract.support import response

MOST = 1 << 20


def lines(*samples: str, ids: int = 2) -> bytes:
    return b"".join(encode_line(response(each, [7] * ids)) for each in samples)


def test_each_line_is_where_it_is_said_to_be(tmp_path: Path) -> None:
    path = tmp_path / "raw_responses.jsonl"
    foreign = json.dumps({"id": "f", "output_ids": [1, 2, 3], "text": "ü"}, ensure_ascii=False).encode() + b"\r\n"
    path.write_bytes(lines("a") + b"damaged\n" + foreign + b"\n" + lines("a", "b", ids=4))
    found = ResponsePlaces(path).poll(MOST)
    assert [(place.key, place.n_output_ids) for place in found] == [(b"a", 2), (b"f", 3), (b"b", 4)]
    content = path.read_bytes()
    for place in found:
        line = content[place.offset : place.offset + place.length]
        assert json.loads(line).get("sample_id", "f").encode() == place.key


def test_a_file_that_comes_later_and_grows(tmp_path: Path) -> None:
    path = tmp_path / "raw_responses.jsonl"
    places = ResponsePlaces(path)
    assert places.poll(MOST) == []
    path.write_bytes(lines("a") + lines("b")[:30])
    assert [place.key for place in places.poll(MOST)] == [b"a"]
    path.write_bytes(lines("a", "b"))
    assert [place.key for place in places.poll(MOST)] == [b"b"]
    assert not places.take_reset()


def test_ids_that_contradict_their_count(tmp_path: Path) -> None:
    path = tmp_path / "raw_responses.jsonl"
    path.write_bytes(encode_line(response("a", [1, 2], completion_tokens=3)) + lines("a"))
    assert [(place.key, place.n_output_ids) for place in ResponsePlaces(path).poll(MOST)] == [(b"a", None)]


def test_another_file_in_its_place_is_read_whole(tmp_path: Path) -> None:
    path = tmp_path / "raw_responses.jsonl"
    path.write_bytes(lines("a", "b"))
    places = ResponsePlaces(path)
    places.poll(MOST)
    (tmp_path / "other").write_bytes(lines("b", "c"))
    (tmp_path / "other").rename(path)
    found = places.poll(MOST)
    assert [(place.key, place.offset) for place in found] == [(b"b", 0), (b"c", len(lines("b")))]
    assert places.take_reset() and not places.take_reset()


def test_no_more_is_read_at_a_time_than_was_asked_for(tmp_path: Path) -> None:
    path = tmp_path / "raw_responses.jsonl"
    samples = [f"s{number}" for number in range(3000)]
    path.write_bytes(lines(*samples, ids=100))
    places, found, looks = ResponsePlaces(path), [], 0
    while places.behind or not looks:
        new = places.poll(MOST // 4)
        assert len(new) < 2000
        found += new
        looks += 1
    assert [place.key.decode() for place in found] == samples
    assert looks >= 3


def test_what_was_read_beforehand_comes_with_the_first_look(tmp_path: Path) -> None:
    path = tmp_path / "raw_responses.jsonl"
    path.write_bytes(lines("a"))
    places = ResponsePlaces(path)
    places.read_all()
    path.write_bytes(lines("a", "b"))
    assert [place.key for place in places.poll(MOST)] == [b"a", b"b"]


def test_a_file_that_cannot_be_read_loses_nothing(tmp_path: Path) -> None:
    path = tmp_path / "raw_responses.jsonl"
    places = ResponsePlaces(path)
    path.mkdir()
    with pytest.raises(OSError, match="directory"):
        places.poll(MOST)
    path.rmdir()
    path.write_bytes(lines("a"))
    assert [place.key for place in places.poll(MOST)] == [b"a"]
