"""The screens beyond the main one: what they show, where their keys lead, and that Esc always goes back."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import msgspec
import pytest
from textual.widget import Widget

from contracts.commands import Retry
from contracts.details.sample import SampleRef
from contracts.records import CaptureCheck, FailureClass, NextStep, Stage
from eagle3_tui.feed.state import View
from eagle3_tui.screens.attempts import AttemptsScreen
from eagle3_tui.screens.dataset import DatasetScreen
from eagle3_tui.screens.detail import DetailScreen
from eagle3_tui.screens.failures import FailuresScreen
from eagle3_tui.screens.journal import JournalScreen
from eagle3_tui.screens.sample import SampleScreen
from eagle3_tui.screens.servers import ServersScreen
from eagle3_tui.terminal import Capabilities
from eagle3_tui.text import cell_width
from eagle3_tui.widgets.times import stamp
from tests.eagle3_tui.samples import NOW, stopped
from tests.eagle3_tui.screens.details import NAME, OneScreen, ScreenMaker, press, rich_run, screen_text, settled
from tests.eagle3_tui.screens.support import until
from tests.support.records import event, failure, write

SCREENS: dict[str, ScreenMaker] = {
    "dataset": lambda look, feed, ask: DatasetScreen(look, feed, NAME, ask),
    "failures": lambda look, feed, ask: FailuresScreen(look, feed, None, ask),
    "sample": lambda look, feed, ask: SampleScreen(look, feed, SampleRef(None, "q-30"), ask),
    "journal": lambda look, feed, ask: JournalScreen(look, feed),
    "servers": lambda look, feed, ask: ServersScreen(look, feed),
}
Opener = Callable[..., OneScreen]


@pytest.fixture
def opened(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Opener:
    """An app with one of the screens, over a run named ``run`` in the current folder."""
    monkeypatch.chdir(tmp_path)
    rich_run(tmp_path / "run")

    def make(name: str, capabilities: Capabilities | None = None, *, read_only: bool = False) -> OneScreen:
        return OneScreen(Path("run"), SCREENS[name], capabilities, read_only=read_only)

    return make


NEEDED = {
    "dataset": (
        "B1_opencode", "60/80 answers", "11,700 of 20,000", "median", "p99", "stop 57 (95 %)", "length 3 (5.0 %)",
        "transient", "rejected 1 open", "extract: capture 1 open", "40 of 60", "layers 2, 30, 58", "4096 wide",
        "answers by length", "tokens/s, 10 min", "q-59", "esc back",
    ),
    "failures": (
        "17 open", "10 solved", "transient 25", "checks     ids 1", "HTTP 503: busy", "rejected", "capture", "extract",
        "enter attempts",
    ),
    "sample": (
        "q-30", "answered, hidden states stored", "ended by stop", "tok/s", "http://127.0.0.1:30000",
        "e3.ab.0000001e.1.30",
        "shard-0.safetensors", "row 30", "漢字を数えて [bold]please[/]", "^[[31mred", "<think>30</think>", "<151645>",
    ),
    "journal": ("events", "following", "event 249", "server.refused", "serves llama", "/ search", "n N next"),
    "servers": (
        "2 servers", "1 not ok", "127.0.0.1:30000", "✗ refused", "tokens/s of", "it names no vocabulary", "tp_size 8",
        "SGLang 0.5.23", "layers 2, 30, 58", "3, 31, 59", "max_new_tokens 8192", "last answer 3s ago",
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", SCREENS)
async def test_all_that_matters_is_on_80x24(opened: Opener, name: str) -> None:
    app = opened(name)
    async with app.run_test(size=(80, 24)) as pilot:
        await settled(pilot)
        text = screen_text(pilot)
        for needed in NEEDED[name]:
            assert needed in text, needed
        await pilot.press("escape")
        await pilot.pause()
        assert not isinstance(app.screen, DetailScreen)


@pytest.mark.parametrize(
    ("name", "unicode"), [*((name, True) for name in SCREENS), ("dataset", False), ("sample", False)]
)
async def test_any_size_and_nothing_that_a_terminal_obeys(opened: Opener, name: str, unicode: bool) -> None:
    """Cases 47 and 49: control sequences are shown, wide text moves nothing; a resize sweep raises nothing."""
    app = opened(name, Capabilities(unicode=unicode))
    async with app.run_test(size=(80, 24)) as pilot:
        await settled(pilot)
        for size in ((80, 24), (1, 1), (20, 5), (120, 36), (40, 12), (300, 100), (0, 0), (79, 23)):
            await pilot.resize_terminal(*size)
            await settled(pilot)
            strips = app.screen._compositor.render_strips()
            drawn = "".join(segment.text for strip in strips for segment in strip)
            assert all(character.isprintable() for character in drawn)
            assert not any(segment.control for strip in strips for segment in strip)
            assert unicode or drawn.isascii()
            assert not size[0] or {cell_width(strip.text) for strip in strips} == {size[0]}


async def test_from_the_data_set_to_a_failed_attempt_and_back(opened: Opener) -> None:
    app = opened("dataset")
    async with app.run_test(size=(120, 36)) as pilot:
        await settled(pilot)
        text = await press(pilot, "f")
        assert isinstance(app.screen, FailuresScreen)
        assert f"of {NAME}" in text
        text = await press(pilot, "enter")
        assert isinstance(app.screen, AttemptsScreen)
        assert "last 25 attempts" in text
        text = await press(pilot, "down", "enter")
        assert isinstance(app.screen, SampleScreen)
        assert "q-51" in text
        assert "busy, 51 queued" in text
        await press(pilot, "escape", "escape", "escape")
        assert app.screen is app.first


async def test_the_newest_record_opens_its_sample(opened: Opener) -> None:
    app = opened("dataset")
    async with app.run_test(size=(120, 36)) as pilot:
        await settled(pilot)
        assert "<think>59</think>" in await press(pilot, "enter")


async def test_a_sample_is_found_by_its_id(opened: Opener) -> None:
    app = opened("failures")
    async with app.run_test(size=(120, 36)) as pilot:
        await settled(pilot)
        text = await press(pilot, "g", "q", "minus", "9", "backspace", "1", "2")
        assert "sample id: q-12" in text
        assert "answered, hidden states stored" in await press(pilot, "enter")
        text = await press(pilot, "g", "n", "o", "enter")
        assert "no sample no in any of 2 data sets" in text
        await press(pilot, "escape", "g", "x", "escape")
        assert isinstance(app.screen, SampleScreen)
        assert "answered, hidden states stored" in screen_text(pilot)


async def test_servers_that_nobody_reads_have_no_present(opened: Opener) -> None:
    """The daemon has ended: its last readings say "ok, running 16" for ever."""
    app = opened("servers")
    app.source.status = stopped()
    async with app.run_test(size=(120, 36)) as pilot:
        await settled(pilot)
        text = screen_text(pilot)
        row = next(line for line in text.splitlines() if line.startswith(" 127.0.0.1:30000"))
        assert set(row.split()[1:]) == {"-"}
        assert f"not read since {stamp(NOW - 1, NOW)}" in text
        assert "nobody reads it now" in text
        assert f"at {stamp(NOW - 1, NOW)} it was ok" in text
        assert "last answer" not in text
        assert "none is bad" not in text
        assert "SGLang 0.5.23" in text


async def test_ids_and_text(opened: Opener) -> None:
    app = opened("sample")
    async with app.run_test(size=(120, 36)) as pilot:
        await settled(pilot)
        text = await press(pilot, "i")
        assert "─ ids" in text
        assert "117 115 101 114" in text
        assert "assistant" not in text
        assert "assistant" in await press(pilot, "i")


async def test_trying_again_asks_with_the_command(opened: Opener) -> None:
    app = opened("failures")
    async with app.run_test(size=(120, 36)) as pilot:
        await settled(pilot)
        await press(pilot, "a", "enter", "a")
    asked = [(command, bool(confirm)) for _, command, confirm in app.asked]
    assert asked == [
        (Retry(dataset=NAME, error=FailureClass.TRANSIENT), True),
        (Retry(dataset=NAME, sample_id="q-50"), True),
    ]


async def test_what_a_rule_leaves_out_is_not_open_and_not_tried_again(opened: Opener) -> None:
    app = opened("failures")
    refused = {"stage": Stage.EXTRACT, "error": FailureClass.INVALID_INPUT, "next": NextStep.REFUSED}
    one_token = failure("q-2", check=CaptureCheck.NOTHING_TO_LEARN, message="its answer has one token", **refused)
    write(app.source.fold.run.dataset(NAME).failures, [one_token])
    async with app.run_test(size=(120, 36)) as pilot:
        await settled(pilot)
        text = await press(pilot, "end", "a")
        assert "1 left out" in text
        assert "nothing to try again: no token of it would be learnt from" in text
    assert app.asked == []


async def test_read_only_offers_no_retry(opened: Opener) -> None:
    app = opened("failures", read_only=True)
    async with app.run_test(size=(120, 36)) as pilot:
        await settled(pilot)
        assert "try again" not in await press(pilot, "a")
        assert "a" not in {name for key in app.detail.usable_keys for name in key.keys}
    assert app.asked == []


async def test_the_journal_follows_until_one_looks_back(opened: Opener) -> None:
    app = opened("journal")
    async with app.run_test(size=(120, 36)) as pilot:
        await settled(pilot)
        write(app.source.fold.run.events, [event("x", NOW, message="fresh one")])
        app.detail.reread()
        await settled(pilot)
        assert "fresh one" in screen_text(pilot)
        await press(pilot, "up")
        write(app.source.fold.run.events, [event("x", NOW, message="fresh two")])
        app.detail.show(app.feed.view())
        await settled(pilot)
        assert "fresh two" not in screen_text(pilot)
        assert "fresh two" in await press(pilot, "f")


async def test_the_journal_back_to_the_first_line_and_on(opened: Opener) -> None:
    app = opened("journal")
    async with app.run_test(size=(120, 36)) as pilot:
        await settled(pilot)
        for _ in range(12):
            await press(pilot, "pageup")
        assert "is ready: SGLang" in screen_text(pilot)
        assert "is ready: SGLang" in await press(pilot, "home")
        for _ in range(12):
            await press(pilot, "pagedown")
        assert "serves llama" in screen_text(pilot)


async def test_the_journal_searches_filters_and_changes_the_file(opened: Opener) -> None:
    app = opened("journal")
    async with app.run_test(size=(120, 36)) as pilot:
        await settled(pilot)
        text = await press(pilot, "slash", "E", "v", "e", "n", "t", "space", "1", "1", "enter")
        assert 'data       {"n":119}' in text
        assert 'data       {"n":118}' in await press(pilot, "n")
        assert 'data       {"n":119}' in await press(pilot, "N")
        assert "no newer line holds" in await press(pilot, "N")
        text = await press(pilot, "s")
        assert "warnings and worse" in text
        assert "event 150" in text
        assert "event 149" not in text
        text = await press(pilot, "s", "s", "l")
        assert "daemon.log" in text
        assert "Traceback" in text


async def test_an_unreadable_file_is_said_not_raised(opened: Opener, monkeypatch: pytest.MonkeyPatch) -> None:
    app = opened("dataset")
    async with app.run_test(size=(120, 36)) as pilot:
        await settled(pilot)

        async def refuse(question: object) -> object:
            raise PermissionError(13, "Permission denied", "raw_responses.jsonl")

        monkeypatch.setattr(app.feed, "ask", refuse)
        app.detail.reread()
        await settled(pilot)
        assert "can't read raw_responses.jsonl: Permission denied" in screen_text(pilot)


@pytest.mark.parametrize("name", SCREENS)
async def test_the_same_again_sends_nothing(opened: Opener, name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    app = opened(name)
    async with app.run_test(size=(80, 24)) as pilot:
        await settled(pilot)
        sent: list[object] = []
        monkeypatch.setattr(Widget, "refresh", lambda self, *regions, **more: sent.append(regions) or self)
        app.detail.reread()
        await settled(pilot)
        assert sent == []


async def test_below_another_screen_nothing_is_read(opened: Opener, monkeypatch: pytest.MonkeyPatch) -> None:
    app = opened("dataset")
    async with app.run_test(size=(80, 24)) as pilot:
        await settled(pilot)
        await press(pilot, "f")
        read: list[object] = []
        monkeypatch.setattr(app.first, "reread", lambda: read.append(1))
        app.first.show(View())
        assert read == []
        app.source.status = msgspec.structs.replace(app.source.status, concurrency=1)
        await app.feed.read()
        await pilot.press("escape")
        await until(pilot, lambda: bool(read))
