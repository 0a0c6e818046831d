from __future__ import annotations

import pytest

from eagle3_tui.terminal import ASCII_SIGNS, THEMES, UNICODE_SIGNS, Capabilities, detect, refusal, with_theme
from eagle3_tui.text import cell_width
from eagle3_tui.widgets.look import look_for


class Stream:
    def __init__(self, terminal: bool) -> None:
        self.terminal = terminal

    def isatty(self) -> bool:
        return self.terminal


@pytest.mark.parametrize(
    ("environ", "encoding", "unicode"),
    [
        ({"LANG": "en_US.UTF-8"}, "utf-8", True),
        ({"LANG": "C.utf8"}, "UTF-8", True),
        ({"LC_ALL": "C", "LANG": "en_US.UTF-8"}, "utf-8", False),
        ({"LC_CTYPE": "de_DE.ISO-8859-1", "LANG": "en_US.UTF-8"}, "utf-8", False),
        ({"LC_ALL": "", "LANG": "en_US.UTF-8"}, "utf-8", True),
        ({}, "utf-8", False),
        ({"LANG": "en_US.UTF-8"}, "ascii", False),
    ],
)
def test_signs_follow_the_locale(environ: dict[str, str], encoding: str, unicode: bool) -> None:
    assert detect(environ, encoding).unicode is unicode


@pytest.mark.parametrize(("value", "color"), [(None, True), ("", True), ("1", False), ("0", False)])
def test_no_color(value: str | None, color: bool) -> None:
    environ = {} if value is None else {"NO_COLOR": value}
    assert detect(environ, "utf-8").color is color


@pytest.mark.parametrize(
    ("value", "light"),
    [("15;0", False), ("0;15", True), ("0;default;7", True), ("12;8", False), ("default;default", False), ("", False)],
)
def test_the_background_as_the_terminal_says(value: str, light: bool) -> None:
    assert detect({"COLORFGBG": value}, "utf-8").light is light


def test_a_theme_that_was_asked_for_holds_against_what_was_detected() -> None:
    light = Capabilities(light=True)
    assert with_theme(light, "auto") == light
    assert with_theme(light, "dark") == Capabilities(light=False)
    assert with_theme(Capabilities(), "light-exact") == Capabilities(light=True, exact=True)
    looks = [look_for(with_theme(Capabilities(), theme)) for theme in THEMES]
    # Three colours of their own each, except that the sixteen of a light background share one with the dark one.
    assert len({(look.warn, look.active) for look in looks}) == len(THEMES) - 1


def test_without_colour_no_theme_has_any() -> None:
    for theme in THEMES:
        look = look_for(with_theme(Capabilities(color=False), theme))
        assert all(style.color is None for style in (look.good, look.active, look.warn, look.bad, look.bad_badge))


def test_every_stream_must_be_a_terminal() -> None:
    environ = {"TERM": "xterm"}
    assert refusal({"standard input": Stream(True), "standard output": Stream(True)}, environ) is None
    said = refusal({"standard input": Stream(True), "standard output": Stream(False)}, environ)
    assert said is not None
    assert said.startswith("standard output is not a terminal")
    assert "eagle3 status" in said
    assert refusal({"standard input": None}, environ) is not None


@pytest.mark.parametrize("term", ["dumb", "", "unknown", None])
def test_a_dumb_terminal_is_refused(term: str | None) -> None:
    environ = {} if term is None else {"TERM": term}
    assert "TERM is" in (refusal({"standard input": Stream(True)}, environ) or "")


def test_signs_are_one_cell_each_and_the_plain_ones_ascii() -> None:
    for signs in (UNICODE_SIGNS, ASCII_SIGNS):
        for name in signs.__dataclass_fields__:
            value = getattr(signs, name)
            assert all(cell_width(sign) == 1 for sign in value), name
            assert not any(ord(sign) >= 0x1F000 or ord(sign) in (0xFE0E, 0xFE0F) for sign in value), name
    assert Capabilities(unicode=False).signs is ASCII_SIGNS
    assert all(getattr(ASCII_SIGNS, name).isascii() for name in ASCII_SIGNS.__dataclass_fields__)
