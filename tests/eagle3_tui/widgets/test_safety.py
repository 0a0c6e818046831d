"""Cases 47 and 49: text from data neither steers the terminal nor moves a column."""

from __future__ import annotations

import json
from typing import Any

import pytest

from contracts.records import Event, Severity
from eagle3_tui.terminal import Capabilities
from eagle3_tui.text import cell_width
from tests.eagle3_tui.conftest import CASES, AppMaker
from tests.eagle3_tui.samples import NOW, FakeMonitor, alert, dataset, running, server
from tests.eagle3_tui.screens.support import shown


def texts_of(case: str) -> list[str]:
    lines = (CASES / case).read_text(encoding="utf-8").splitlines()
    return [value for line in lines for value in json.loads(line).values()]


def poisoned(texts: list[str]) -> FakeMonitor:
    """Every text wherever data can be shown."""
    status = running(
        run=texts[1],
        reason=" ".join(texts),
        datasets=[dataset(text) for text in texts],
        servers=[server(url=texts[1], model=texts[3]), server(state=texts[5], reason=texts[7])],
        alerts=[alert("x", Severity.WARNING, text, dataset=text, advice=text) for text in texts],
        gpus=[],
        gpu_state=texts[1],
    )
    shown_events = [Event(at=NOW, severity=Severity.INFO, kind="x", message=text, dataset=text) for text in texts]
    return FakeMonitor(status, shown_events)


@pytest.mark.parametrize("unicode", [True, False])
async def test_nothing_that_a_terminal_obeys(make_app: AppMaker, unicode: bool) -> None:
    texts = texts_of("47-escapes.jsonl")
    source = poisoned(texts)
    app = make_app(source.status, source=source, capabilities=Capabilities(unicode=unicode))
    async with app.run_test(size=(80, 24)) as pilot:
        await shown(pilot)
        app.say(texts[1], Severity.WARNING)
        for size in ((80, 24), (120, 60), (40, 12)):
            await pilot.resize_terminal(*size)
            await pilot.pause()
            screen = [segment for strip in app.screen._compositor.render_strips() for segment in strip]
            drawn = "".join(segment.text for segment in screen)
            assert all(character.isprintable() for character in drawn)
            assert not any("\x7f" <= character <= "\x9f" for character in drawn)
            assert not any(segment.control for segment in screen)
            assert "^[" in drawn
            assert unicode or drawn.isascii()


@pytest.mark.parametrize("unicode", [True, False])
async def test_wide_text_at_40_columns(make_app: AppMaker, unicode: bool) -> None:
    texts = texts_of("49-wide.jsonl")
    app = make_app(running(datasets=[dataset(text) for text in texts]), capabilities=Capabilities(unicode=unicode))
    async with app.run_test(size=(40, 40)) as pilot:
        await shown(pilot)
        table: Any = app.screen.query_one("#table")
        lines = [table.render_line(y).text for y in range(1, len(texts) + 1)]
    assert {cell_width(line) for line in lines} == {40}
    ends = {cell_width(line[: line.index("/9,000")]) for line in lines}
    assert len(ends) == 1
    if unicode:
        assert any("漢字とemoji" in line for line in lines)
        assert any("e\u0301" in line or "é" in line for line in lines)


async def test_brackets_are_not_markup(make_app: AppMaker) -> None:
    app = make_app(running(datasets=[dataset("[bold red]x[/]"), dataset("[/nothing]")]))
    async with app.run_test(size=(120, 36)) as pilot:
        await shown(pilot)
        table: Any = app.screen.query_one("#table")
        assert "[bold red]x[/]" in table.render_line(1).text
        assert "[/nothing]" in table.render_line(2).text
