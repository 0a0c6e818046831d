from __future__ import annotations

from eagle3_tui.dialogs.fields import Field, Form


def typed(form: Form, text: str) -> Form:
    for character in text:
        assert form.press(character, character)
    return form


def test_text_is_typed_mended_and_pasted() -> None:
    form = typed(Form([Field("tokens")]), "1O")
    form.press("backspace", "\x7f")
    form.paste("0\x1b[2J0\nsecond line")
    assert form.values == ["10[2J0"]
    form.press("ctrl+u", "\x15")
    assert form.values == [""]


def test_a_choice_is_stepped_through_and_found_by_typing() -> None:
    form = Form([Field("tokens"), Field("data set", ("all", "B1_code", "B2_math", "B3_mathbooks"))])
    assert form.values == ["", "all"]
    form.press("tab", "\t")
    form.press("left", None)
    assert form.values[1] == "B3_mathbooks"
    form.press("right", None)
    assert form.values[1] == "all"
    assert typed(form, "MATH").values[1] == "B2_math"
    assert typed(form, "b").values[1] == "B3_mathbooks"
    # A letter that fits nothing is not taken, so the next one still counts.
    assert typed(form, "xo").values[1] == "B3_mathbooks"
    form.press("up", None)
    assert form.at == 0


def test_other_keys_mean_nothing() -> None:
    assert not Form([Field("tokens")]).press("f5", None)
