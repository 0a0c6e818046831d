from __future__ import annotations

import sys
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest

from eagle3_tui.token_text import BYTES, ByteText, FolderText, NoTokenizer, Piece, load_token_text


def test_bytes_over_several_ids_make_one_character() -> None:
    assert ByteText().pieces(list("漢é".encode())) == [Piece("漢é", False)]
    assert ByteText().pieces([]) == []


def test_without_a_tokenizer_it_says_why(tmp_path: Path) -> None:
    with pytest.raises(NoTokenizer, match="names no \\[tokenizer\\]"):
        load_token_text(None, tmp_path)
    with pytest.raises(NoTokenizer, match=r"no tokenizer\.json"):
        load_token_text("folder", tmp_path)
    assert isinstance(load_token_text(BYTES, tmp_path), ByteText)


def test_a_missing_package_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "tokenizer.json").write_text("{}")
    monkeypatch.setitem(sys.modules, "tokenizers", None)
    with pytest.raises(NoTokenizer, match="pip install tokenizers"):
        FolderText(tmp_path)


class Stub:
    """As far as the package ``tokenizers`` is used."""

    @staticmethod
    def from_file(path: str) -> Stub:
        if Path(path).read_text() != "{}":
            raise Exception("expected value at line 1")
        return Stub()

    def get_added_tokens_decoder(self) -> dict[int, Any]:
        return {9: SimpleNamespace(content="<|im_end|>")}

    def decode(self, ids: list[int], *, skip_special_tokens: bool) -> str:
        assert not skip_special_tokens
        return "-".join(map(str, ids))


@pytest.fixture
def package(monkeypatch: pytest.MonkeyPatch) -> None:
    module = ModuleType("tokenizers")
    module.Tokenizer = Stub  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "tokenizers", module)


@pytest.mark.usefixtures("package")
def test_special_tokens_by_name(tmp_path: Path) -> None:
    (tmp_path / "model").mkdir()
    (tmp_path / "model" / "tokenizer.json").write_text("{}")
    pieces = load_token_text("model", tmp_path).pieces([1, 2, 9, 9, 3])
    assert pieces == [
        Piece("1-2", False), Piece("<|im_end|>", True), Piece("<|im_end|>", True), Piece("3", False),
    ]  # fmt: skip


@pytest.mark.usefixtures("package")
def test_a_file_that_cannot_be_used(tmp_path: Path) -> None:
    (tmp_path / "tokenizer.json").write_text("garbage")
    with pytest.raises(NoTokenizer, match="cannot be used: expected value"):
        FolderText(tmp_path)
