"""A form in a box: every key shows at once what Enter would do."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Generic, TypeVar

from rich.style import Style
from textual.events import Key, Paste

from eagle3_tui.dialogs.dialog import Dialog
from eagle3_tui.dialogs.fields import Field, Form
from eagle3_tui.text import cell_width
from eagle3_tui.widgets.line import Part, safe
from eagle3_tui.widgets.look import Look

Made = TypeVar("Made")

_CURSOR = Style(reverse=True)
_LABEL = 14


@dataclass(frozen=True)
class Preview(Generic[Made]):
    """What the values mean."""

    made: Made | None
    """What Enter gives; None: the values mean nothing yet, and ``said`` tells why."""
    said: tuple[str, ...] = ()
    """What will happen, a sentence each."""


class FormDialog(Dialog[Made | None], Generic[Made]):
    """Fields to be filled in.

    Args:
        look: Signs and styles.
        title: Its first line.
        fields: From top to bottom.
        preview: What values mean; called with every key, so it must be quick.
        does: A word or two for Enter.
    """

    def __init__(
        self,
        look: Look,
        title: str,
        fields: Sequence[Field],
        preview: Callable[[Sequence[str]], Preview[Made]],
        does: str,
    ) -> None:
        super().__init__(look, title)
        self.form = Form(fields)
        self._preview = preview
        self._does = does

    def rows(self, width: int) -> list[list[Part]]:
        """Return the fields, what they mean and the keys."""
        preview = self._preview(self.form.values)
        style = self.look.plain if preview.made is not None else self.look.warn
        lines = [self._field(index, width) for index in range(len(self.form.fields))]
        lines.append([])
        for sentence in preview.said:
            lines += [[(row, style)] for [(row, _)] in self.paragraph(sentence, width)]
        keys = [("Enter", self._does)] if preview.made is not None else []
        if len(self.form.fields) > 1:
            keys.append(("Tab", "next field"))
        if self.form.fields[self.form.at].choices:
            arrows = "←→" if self.look.unicode else "left, right"
            keys.append((f"{arrows} or type", "choose"))
        return [*lines, [], self.keys([*keys, ("Esc", "leave it as it is")])]

    def press(self, event: Key) -> None:
        """Fill in, take, or leave."""
        if event.key == "escape":
            self.dismiss(None)
        elif event.key == "enter":
            made = self._preview(self.form.values).made
            if made is not None:
                self.dismiss(made)
        elif self.form.press(event.key, event.character):
            self.redraw()

    def on_paste(self, event: Paste) -> None:
        """Take pasted text."""
        event.stop()
        self.form.paste(event.text)
        self.redraw()

    def _field(self, index: int, width: int) -> list[Part]:
        look, field, here = self.look, self.form.fields[index], index == self.form.at
        text = safe(self.form.values[index], look)
        room = max(width - _LABEL - 2, 1)
        while cell_width(text) > room:
            text = text[1:]
        label: Part = (f"{field.label:<{_LABEL}}", look.bold if here else look.dim)
        if field.choices:
            return [label, (text, look.plain + _CURSOR if here else look.plain)]
        end: list[Part] = [(" ", _CURSOR)] if here else []
        return [label, (text, look.plain), *end, (f"  {field.hint}" if field.hint else "", look.dim)]
