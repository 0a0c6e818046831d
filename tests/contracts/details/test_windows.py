from __future__ import annotations

import re
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from contracts.details import windows
from contracts.details.windows import Line, line_at, lines_after, lines_before, matching, search, search_back


def write(path: Path, lines: list[bytes], rest: bytes = b"") -> list[Line]:
    """Write lines and return them with their places."""
    path.write_bytes(b"".join(line + b"\n" for line in lines) + rest)
    places, offset = [], 0
    for line in lines:
        places.append(Line(offset, line))
        offset += len(line) + 1
    return places


@given(
    lines=st.lists(st.binary(max_size=30).filter(lambda line: b"\n" not in line), max_size=30),
    rest=st.sampled_from([b"", b"torn"]),
    count=st.integers(0, 40),
    block=st.integers(1, 50),
)
def test_pages_of_any_size_join_to_the_whole_file(
    tmp_path_factory: pytest.TempPathFactory, lines: list[bytes], rest: bytes, count: int, block: int
) -> None:
    path = tmp_path_factory.mktemp("w") / "f"
    placed = write(path, lines, rest)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(windows, "BLOCK", block)
        whole = lines_before(path, None, 1000)
        assert list(whole.lines) == placed
        last = lines_before(path, None, count)
        assert list(last.lines) == (placed[-count:] if count else [])
        if placed and count:
            found: list[Line] = []
            place = 0
            while (window := lines_after(path, place, count)).lines:
                found += window.lines
                place = window.end
            assert found == placed
            found, place = [], whole.end
            while (window := lines_before(path, place, count)).lines:
                found = [*window.lines, *found]
                place = window.start
            assert found == placed


def test_a_window_is_bounded_but_holds_one_line_at_least(tmp_path: Path) -> None:
    path = tmp_path / "f"
    write(path, [b"x" * 300_000, b"y" * 300_000, b"z" * 300_000])
    assert [line.text[:1] for line in lines_before(path, None, 3, most_bytes=1000).lines] == [b"z"]
    assert [line.text[:1] for line in lines_after(path, 0, 3, most_bytes=1000).lines] == [b"x"]


def test_a_missing_file_has_no_lines(tmp_path: Path) -> None:
    missing = tmp_path / "none"
    assert lines_before(missing, None, 5).lines == ()
    assert lines_after(missing, 0, 5).lines == ()
    assert search(missing, matching(re.compile(b"x")), 0, None, 1).done
    assert search_back(missing, matching(re.compile(b"x")), None).done
    assert line_at(missing, 0) is None


def test_a_search_goes_on_where_it_stopped(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(windows, "BLOCK", 16)
    path = tmp_path / "f"
    placed = write(path, [b"line %d" % number for number in range(500)])
    wanted = [line for line in placed if line.text.endswith(b"7")]
    finder, found, place, calls = matching(re.compile(rb"7(?=\n)")), [], 0, 0
    while True:
        result = search(path, finder, place, None, 1 << 30, most_bytes=600)
        found += result.hits
        calls += 1
        if result.done:
            break
        place = result.next
    assert found == wanted
    assert calls > 5


def test_a_search_backwards_finds_the_last_one_first(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(windows, "WINDOW", 200)
    path = tmp_path / "f"
    placed = write(path, [b"line %d" % number for number in range(500)])
    finder = matching(re.compile(b"line 1?7\n"))
    first = search_back(path, finder, None)
    assert [line.text for line in first.hits] == [b"line 17"]
    second = search_back(path, finder, first.next)
    assert second.hits == (placed[7],)
    assert search_back(path, finder, second.next).done


def test_what_is_behind_the_end_is_not_found(tmp_path: Path) -> None:
    path = tmp_path / "f"
    placed = write(path, [b"a", b"b", b"a"])
    finder = matching(re.compile(b"a"))
    assert search(path, finder, 0, placed[2].offset, 10).hits == (placed[0],)
