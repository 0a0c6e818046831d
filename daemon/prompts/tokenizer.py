"""Text and messages to token ids, for prompt files that hold text: bytes, or a model's own tokenizer folder."""

from __future__ import annotations

import hashlib
from pathlib import Path
from typing import Any, Final, Protocol

from daemon.prompts.conversation import Message
from daemon.prompts.refusals import PromptError

BYTES: Final = "bytes"
"""The `path` in ``[tokenizer]`` that asks for `ByteTokenizer`."""

_HF_FILES: Final = (
    "added_tokens.json",
    "chat_template.jinja",
    "chat_template.json",
    "config.json",
    "merges.txt",
    "special_tokens_map.json",
    "spiece.model",
    "tokenizer.json",
    "tokenizer.model",
    "tokenizer_config.json",
    "vocab.json",
    "vocab.txt",
)
"""Files that decide what a tokenizer folder gives; weights beside them don't."""


class TokenizerError(PromptError):
    """``[tokenizer]`` cannot be used as a whole; the message says what to change."""


class NotEncodable(Exception):
    """This one prompt cannot be encoded (the chat template refuses it); the message says why."""


class Tokenizer(Protocol):
    """What the importer needs of a tokenizer."""

    @property
    def fingerprint(self) -> str:
        """Changes whenever the ids of some prompt may change."""

    def encode_chat(self, messages: list[Message]) -> list[int]:
        """Return the ids of a conversation, up to where the assistant's answer begins.

        Raises:
            NotEncodable: The template refuses these messages.
        """

    def encode_text(self, text: str, preformatted: bool) -> list[int]:
        """Return the ids of text that is sent as it is; special tokens are added only when not `preformatted`.

        Raises:
            NotEncodable: The text cannot be encoded.
        """


def load_tokenizer(path: str, system_prompt: str | None = None) -> Tokenizer:
    """Return the tokenizer that ``[tokenizer]`` names.

    Args:
        path: ``bytes``, or an existing local folder with a Hugging Face tokenizer (extra ``tokenize``).
        system_prompt: Put before conversations that have no system turn.

    Raises:
        TokenizerError: The folder or the extra is missing, or the folder holds no tokenizer.
    """
    return ByteTokenizer(system_prompt) if path == BYTES else HfTokenizer(Path(path), system_prompt)


class ByteTokenizer:
    """UTF-8 bytes as ids 0 to 255; half a surrogate pair is its three raw bytes.

    A conversation is ``role: content`` for each message, a newline after each, and ``assistant:`` at the end.
    """

    def __init__(self, system_prompt: str | None = None) -> None:
        self._system_prompt = system_prompt
        self.fingerprint = _fingerprint(BYTES, [], system_prompt)

    def encode_chat(self, messages: list[Message]) -> list[int]:
        """See `Tokenizer.encode_chat`."""
        turns = with_system_prompt(messages, self._system_prompt)
        lines = "".join(f"{message['role']}: {message['content']}\n" for message in turns)
        return self.encode_text(f"{lines}assistant:", preformatted=True)

    def encode_text(self, text: str, preformatted: bool) -> list[int]:
        """See `Tokenizer.encode_text`; there are no special tokens here."""
        return list(text.encode("utf-8", "surrogatepass"))


class HfTokenizer:
    """A tokenizer folder through transformers, never from a network and never with the folder's own code.

    Half a surrogate pair becomes U+FFFD, since no such tokenizer takes it.
    """

    def __init__(self, folder: Path, system_prompt: str | None = None) -> None:
        files = [folder / name for name in _HF_FILES if (folder / name).is_file()]
        if not files:
            what = "no folder with a tokenizer (tokenizer.json, ...)" if folder.is_dir() else "is no folder"
            raise TokenizerError(
                f"[tokenizer] path = {str(folder)!r}: {what}: put the model's local folder there, or {BYTES!r}"
            )
        try:
            from transformers import AutoTokenizer
        except ImportError as error:
            raise TokenizerError(
                f"[tokenizer] path = {str(folder)!r} needs transformers ({error}): pip install 'eagle3-tui[tokenize]'"
            ) from error
        try:
            self._tokenizer: Any = AutoTokenizer.from_pretrained(
                str(folder), local_files_only=True, trust_remote_code=False
            )
        except (OSError, ValueError, ImportError, KeyError) as error:
            raise TokenizerError(f"{folder}: transformers cannot load this tokenizer: {error}") from error
        self._folder = folder
        self._system_prompt = system_prompt
        self.fingerprint = _fingerprint("hf", files, system_prompt)

    def encode_chat(self, messages: list[Message]) -> list[int]:
        """See `Tokenizer.encode_chat`. The template writes the special tokens itself, so none are added to its text."""
        if not self._tokenizer.chat_template:
            raise TokenizerError(
                f"{self._folder}: this tokenizer has no chat template, and the prompts are conversations: add "
                f"chat_template.jinja to the folder"
            )
        turns = [
            {"role": message["role"], "content": _whole_pairs(message["content"])}
            for message in with_system_prompt(messages, self._system_prompt)
        ]
        # jinja2 cannot be missing: transformers needs it to render, and says so with an ImportError.
        from jinja2.exceptions import TemplateError

        try:
            text = self._tokenizer.apply_chat_template(turns, tokenize=False, add_generation_prompt=True)
        except (TemplateError, TypeError, ValueError) as error:
            raise NotEncodable(f"the chat template refuses it: {error}") from error
        return self._ids(text, add_special_tokens=False)

    def encode_text(self, text: str, preformatted: bool) -> list[int]:
        """See `Tokenizer.encode_text`. Text that begins with the BOS token doesn't get a second one."""
        whole = _whole_pairs(text)
        bos = self._tokenizer.bos_token
        has_bos = isinstance(bos, str) and bool(bos) and whole.startswith(bos)
        return self._ids(whole, add_special_tokens=not preformatted and not has_bos)

    def _ids(self, text: str, *, add_special_tokens: bool) -> list[int]:
        return [int(number) for number in self._tokenizer(text, add_special_tokens=add_special_tokens)["input_ids"]]


def with_system_prompt(messages: list[Message], system_prompt: str | None) -> list[Message]:
    """Return the messages with the configured system prompt first, unless they have one of their own."""
    if not system_prompt or (messages and messages[0]["role"] == "system"):
        return messages
    return [{"role": "system", "content": system_prompt}, *messages]


def _whole_pairs(text: str) -> str:
    return text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")


def _fingerprint(kind: str, files: list[Path], system_prompt: str | None) -> str:
    digest = hashlib.sha256((system_prompt or "").encode("utf-8", "surrogatepass"))
    for file in files:
        content = hashlib.sha256(file.read_bytes()).hexdigest()
        digest.update(f"\n{file.name} {content}".encode())
    return f"{kind}:{digest.hexdigest()[:16]}"
