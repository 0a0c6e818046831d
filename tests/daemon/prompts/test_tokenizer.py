"""Byte tokenizer; Hugging Face folders through a stand-in module, and through the real one where it is installed."""

from __future__ import annotations

import json
import sys
import types
from pathlib import Path
from typing import Any

import pytest

from daemon.prompts.tokenizer import ByteTokenizer, HfTokenizer, NotEncodable, TokenizerError, load_tokenizer

USER = [{"role": "user", "content": "hé"}]


def test_bytes() -> None:
    tokenizer = load_tokenizer("bytes")
    assert bytes(tokenizer.encode_chat(USER)).decode() == "user: hé\nassistant:"
    assert tokenizer.encode_text("é", preformatted=False) == [0xC3, 0xA9]
    assert tokenizer.encode_text("\ud800", preformatted=True) == [0xED, 0xA0, 0x80]


def test_system_prompt_unless_there_is_one() -> None:
    tokenizer = ByteTokenizer("Be kind.")
    assert bytes(tokenizer.encode_chat(USER)).decode().startswith("system: Be kind.\nuser: ")
    own = [{"role": "system", "content": "mine"}, *USER]
    assert tokenizer.encode_chat(own) == ByteTokenizer().encode_chat(own)


def test_fingerprint_changes_with_the_system_prompt() -> None:
    assert ByteTokenizer("a").fingerprint != ByteTokenizer().fingerprint
    assert ByteTokenizer().fingerprint == ByteTokenizer().fingerprint


def folder(tmp_path: Path, template: str = "t") -> Path:
    path = tmp_path / "tok"
    path.mkdir(exist_ok=True)
    (path / "tokenizer_config.json").write_text(json.dumps({"chat_template": template}))
    return path


class FakeTokenizer:
    """Ids are code points; 1 is the BOS that special tokens add."""

    bos_token = "<s>"

    def __init__(self, chat_template: str | None) -> None:
        self.chat_template = chat_template

    def apply_chat_template(self, turns: list[dict[str, str]], *, tokenize: bool, add_generation_prompt: bool) -> str:
        assert (tokenize, add_generation_prompt) == (False, True)
        from jinja2.exceptions import TemplateError

        if self.chat_template == "raise":
            raise TemplateError("roles must alternate")
        return "<s>" + "".join(turn["content"] for turn in turns) + ">"

    def __call__(self, text: str, *, add_special_tokens: bool) -> dict[str, list[int]]:
        text.encode("utf-8")
        ids = [1 if piece == "<s>" else ord(piece) for piece in ("<s>", *text) if piece]
        body = [1, *map(ord, text.removeprefix("<s>"))] if text.startswith("<s>") else ids[1:]
        return {"input_ids": [1, *body] if add_special_tokens else body}


@pytest.fixture
def fake(monkeypatch: pytest.MonkeyPatch) -> None:
    class AutoTokenizer:
        @staticmethod
        def from_pretrained(path: str, *, local_files_only: bool, trust_remote_code: bool) -> FakeTokenizer:
            assert (local_files_only, trust_remote_code) == (True, False)
            template = json.loads((Path(path) / "tokenizer_config.json").read_text())["chat_template"]
            if template == "broken":
                raise ValueError("unknown tokenizer class")
            return FakeTokenizer(template)

    module: Any = types.ModuleType("transformers")
    module.AutoTokenizer = AutoTokenizer
    errors: Any = types.ModuleType("jinja2.exceptions")
    errors.TemplateError = type("TemplateError", (Exception,), {})
    package: Any = types.ModuleType("jinja2")
    package.exceptions = errors
    monkeypatch.setitem(sys.modules, "transformers", module)
    monkeypatch.setitem(sys.modules, "jinja2", package)
    monkeypatch.setitem(sys.modules, "jinja2.exceptions", errors)


@pytest.mark.usefixtures("fake")
def test_the_template_s_text_gets_no_second_bos(tmp_path: Path) -> None:
    tokenizer = HfTokenizer(folder(tmp_path))
    assert tokenizer.encode_chat([{"role": "user", "content": "a"}]) == [1, ord("a"), ord(">")]
    assert tokenizer.encode_text("a", preformatted=False) == [1, ord("a")]
    assert tokenizer.encode_text("a", preformatted=True) == [ord("a")]
    assert tokenizer.encode_text("<s>a", preformatted=False) == [1, ord("a")]


@pytest.mark.usefixtures("fake")
def test_half_a_surrogate_pair_is_replaced(tmp_path: Path) -> None:
    tokenizer = HfTokenizer(folder(tmp_path))
    assert tokenizer.encode_text("a\ud800\U0001f642", preformatted=True) == [ord("a"), 0xFFFD, 0x1F642]
    assert 0xFFFD in tokenizer.encode_chat([{"role": "user", "content": "\udc00"}])


@pytest.mark.usefixtures("fake")
def test_a_template_that_refuses_refuses_one_prompt(tmp_path: Path) -> None:
    with pytest.raises(NotEncodable, match="the chat template refuses it: roles must alternate"):
        HfTokenizer(folder(tmp_path, "raise")).encode_chat(USER)


@pytest.mark.usefixtures("fake")
def test_no_template_and_broken_folders_are_errors_of_the_configuration(tmp_path: Path) -> None:
    with pytest.raises(TokenizerError, match="no chat template"):
        HfTokenizer(folder(tmp_path, "")).encode_chat(USER)
    with pytest.raises(TokenizerError, match="unknown tokenizer class"):
        HfTokenizer(folder(tmp_path, "broken"))
    with pytest.raises(TokenizerError, match="no folder with a tokenizer"):
        HfTokenizer(tmp_path)


@pytest.mark.usefixtures("fake")
def test_fingerprint_follows_the_files(tmp_path: Path) -> None:
    before = HfTokenizer(folder(tmp_path)).fingerprint
    (tmp_path / "tok" / "model.safetensors").write_bytes(b"weights don't count")
    assert HfTokenizer(tmp_path / "tok").fingerprint == before
    assert HfTokenizer(folder(tmp_path, "other")).fingerprint != before
    assert before.startswith("hf:")


def test_missing_extra_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "transformers", None)
    with pytest.raises(TokenizerError, match=r"pip install 'eagle3-tui\[tokenize\]'"):
        load_tokenizer(str(folder(tmp_path)))


def test_a_path_that_is_no_folder_is_the_fault_whatever_is_installed(monkeypatch: pytest.MonkeyPatch) -> None:
    """It is what `eagle3 init` writes for a person to replace."""
    monkeypatch.setitem(sys.modules, "transformers", None)
    with pytest.raises(TokenizerError, match=r"path = 'FOLDER-OF-.*': is no folder: put the model's local"):
        load_tokenizer("FOLDER-OF-THE-MODELS-TOKENIZER")


def real_folder(tmp_path: Path) -> Path:
    """A word tokenizer that adds <s> itself, with a template that writes <s> too."""
    tokenizers = pytest.importorskip("tokenizers")
    words = ["<s>", "<unk>", "user", "assistant", "system", ":", "hi", "there", "rules"]
    made = tokenizers.Tokenizer(
        tokenizers.models.WordLevel({word: number for number, word in enumerate(words)}, unk_token="<unk>")
    )
    made.pre_tokenizer = tokenizers.pre_tokenizers.Whitespace()
    made.add_special_tokens(["<s>"])
    made.post_processor = tokenizers.processors.TemplateProcessing(single="<s> $A", special_tokens=[("<s>", 0)])
    path = tmp_path / "real"
    path.mkdir()
    made.save(str(path / "tokenizer.json"))
    template = (
        "{% if messages[0].content == 'there' %}{{ raise_exception('not like this') }}{% endif %}"
        "<s>{% for m in messages %}{{ m.role }} : {{ m.content }} {% endfor %}"
        "{% if add_generation_prompt %}assistant :{% endif %}"
    )
    config = {"tokenizer_class": "PreTrainedTokenizerFast", "bos_token": "<s>", "unk_token": "<unk>"}
    (path / "tokenizer_config.json").write_text(json.dumps(config | {"chat_template": template}))
    return path


@pytest.mark.filterwarnings("default")
def test_with_the_real_transformers(tmp_path: Path) -> None:
    pytest.importorskip("transformers")
    tokenizer = HfTokenizer(real_folder(tmp_path), "rules")
    assert tokenizer.encode_chat([{"role": "user", "content": "hi"}]) == [0, 4, 5, 8, 2, 5, 6, 3, 5]
    assert tokenizer.encode_text("hi there", preformatted=False) == [0, 6, 7]
    assert tokenizer.encode_text("<s>hi", preformatted=False) == [0, 6]
    assert tokenizer.encode_text("hi", preformatted=True) == [6]
    assert tokenizer.encode_text("\ud800", preformatted=True) == [1]
    with pytest.raises(NotEncodable, match="not like this"):
        tokenizer.encode_chat([{"role": "system", "content": "there"}, {"role": "user", "content": "hi"}])
