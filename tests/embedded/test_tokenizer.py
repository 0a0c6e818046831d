"""Text and ids; the recorded texts are checked in test_replay."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from daemon.embedded.config import load_config
from daemon.embedded.tokenizer import ByteTokenizer

TOKENIZER = ByteTokenizer(load_config())


@pytest.mark.parametrize(
    ("text", "ids"),
    [
        ("hi", [71, 72]),
        ("!", [0]),
        (" \n", [220, 198]),
        ("<f300>x<f1020>", [300, 87, 1020]),
        ("<f1022>", [27, 69, 16, 15, 17, 17, 29]),  # a special id has no text, so its name is bytes
        ("<f12>", [27, 69, 16, 17, 29]),
    ],
)
def test_known(text: str, ids: list[int]) -> None:
    assert TOKENIZER.encode(text) == ids
    assert TOKENIZER.decode(ids) == text


@settings(max_examples=40, deadline=None)
@given(st.text(max_size=40))
def test_text_survives(text: str) -> None:
    assert TOKENIZER.decode(TOKENIZER.encode(text)) == text


def test_specials_and_broken_utf8() -> None:
    assert TOKENIZER.decode([71, 1021, 1022, 1023, 72]) == "hi"
    assert TOKENIZER.decode([71, 1022], skip_special=False) == "h</s>"
    assert TOKENIZER.decode([160, 71]) == "\N{REPLACEMENT CHARACTER}h"
