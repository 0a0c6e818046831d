"""A form that is filled in with keys alone: a pure model, drawn and fed by `eagle3_tui.dialogs.form`."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from eagle3_tui.text import visible

_LONGEST: Final = 4096


@dataclass(frozen=True)
class Field:
    """One line of a form."""

    label: str
    choices: tuple[str, ...] = ()
    """One of these is taken; none: free text."""
    value: str = ""
    """At the beginning."""
    hint: str = ""
    """What may be typed."""


class Form:
    """The values of some fields and which one the keys go to."""

    def __init__(self, fields: Sequence[Field]) -> None:
        self.fields = tuple(fields)
        self.values = [each.value or next(iter(each.choices), "") for each in self.fields]
        self.at = 0
        self._wanted = ""
        """Typed to find a choice."""

    def press(self, key: str, character: str | None) -> bool:
        """Take a key; False: it means nothing here."""
        field = self.fields[self.at]
        if key in ("down", "tab", "up", "shift+tab"):
            self.at = (self.at + (1 if key in ("down", "tab") else -1)) % len(self.fields)
            self._wanted = ""
        elif field.choices and key in ("left", "right"):
            place = field.choices.index(self.values[self.at]) + (1 if key == "right" else -1)
            self.values[self.at] = field.choices[place % len(field.choices)]
            self._wanted = ""
        elif key in ("backspace", "ctrl+h"):
            self._type("", cut=1)
        elif key == "ctrl+u":
            self._type("", cut=_LONGEST)
        elif character is not None and character.isprintable():
            self._type(character)
        else:
            return False
        return True

    def paste(self, text: str) -> None:
        """Take pasted text, up to its first line break."""
        self._type("".join(filter(str.isprintable, next(iter(text.splitlines()), ""))))

    def _type(self, more: str, *, cut: int = 0) -> None:
        field = self.fields[self.at]
        before = self._wanted if field.choices else self.values[self.at]
        text = (before[: max(len(before) - cut, 0)] + more)[:_LONGEST]
        if not field.choices:
            self.values[self.at] = text
            return
        found = [choice for choice in field.choices if text.casefold() in visible(choice).casefold()]
        if found:
            self._wanted = text
            self.values[self.at] = found[0]
