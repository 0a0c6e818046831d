"""What works on every screen: help, palette, copying, files of the view, colours, the way back."""

from __future__ import annotations

import base64
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from textual.pilot import Pilot

from contracts.records import Severity
from eagle3_tui.app import Eagle3App
from eagle3_tui.keys import HISTORY_KEYS
from eagle3_tui.screens.causes import screen_for
from eagle3_tui.terminal import Capabilities
from eagle3_tui.widgets.look import look_for
from eagle3_tui.widgets.plot import HistoryPlot
from eagle3_tui.widgets.target import Target
from tests.eagle3_tui.conftest import AppMaker
from tests.eagle3_tui.samples import LENGTH_ALERT, FakeMonitor, FakeSender, alert, running
from tests.eagle3_tui.screens.support import part_text, shown, text_of, until


class Unreadable(FakeMonitor):
    """A folder whose files cannot be read when a screen asks for more."""

    def ask(self, question: Callable[..., Any], /) -> Any:
        raise OSError(5, "Input/output error", "/data/run")


def app_of(make_app: AppMaker, **more: Any) -> Eagle3App:
    status = running(alerts=[LENGTH_ALERT])
    return make_app(status, source=Unreadable(status), **more)


async def pressed(pilot: Pilot[int], *keys: str) -> str:
    await pilot.press(*keys)
    await pilot.pause()
    await pilot.pause()
    assert isinstance(pilot.app, Eagle3App)
    return "\n".join(text_of(pilot.app))


async def searched(pilot: Pilot[int], text: str, found: str) -> None:
    """Type into the palette, wait for what is found, and take it."""
    app = pilot.app
    assert isinstance(app, Eagle3App)
    await pilot.press(*text)
    await until(pilot, lambda: "? " not in (shown := "\n".join(text_of(app))) and found in shown)
    await pilot.press("enter")


async def test_every_screen_opens_helps_and_goes_back(make_app: AppMaker) -> None:
    app = app_of(make_app)
    async with app.run_test(size=(80, 24)) as pilot:
        await shown(pilot)
        for key, name in (("f", "Failures"), ("e", "Journal"), ("v", "Servers"), ("enter", "Dataset")):
            await pressed(pilot, key)
            assert type(app.screen).__name__ == f"{name}Screen"
            await until(pilot, lambda: "can't read /data/run" in "".join(part_text(app, "footer")))
            assert "back to where you came from" in await pressed(pilot, "question_mark")
            await pressed(pilot, "escape")
            await pressed(pilot, "escape")
            assert app.screen is app._run_screen
        await pressed(pilot, "g", *"s-1", "enter")
        assert type(app.screen).__name__ == "SampleScreen"
        await pressed(pilot, "escape")
        assert app.screen is app._run_screen


@pytest.mark.parametrize(
    ("target", "name"),
    [
        (Target("B1"), "Dataset"),
        (Target("B2_magicoder", LENGTH_ALERT), "Dataset"),
        (Target("B1", alert("quarantined", Severity.WARNING, "")), "Failures"),
        (Target(None, alert("server_down", Severity.CRITICAL, "")), "Servers"),
        (Target(None, alert("store_trouble", Severity.CRITICAL, "")), "Journal"),
        (Target(None, alert("heartbeat_stale", Severity.CRITICAL, "")), "Journal"),
    ],
)
def test_enter_goes_to_the_cause(make_app: AppMaker, target: Target, name: str) -> None:
    app = app_of(make_app)
    assert type(screen_for(target, app.look, app.feed, None)).__name__ == f"{name}Screen"


async def test_the_palette_finds_actions_by_their_words_and_does_them(make_app: AppMaker) -> None:
    sender = FakeSender()
    app = app_of(make_app, sender=sender)
    async with app.run_test(size=(80, 24)) as pilot:
        await shown(pilot)
        assert "pause: send nothing new" in await pressed(pilot, "colon")
        await searched(pilot, "servers", "servers, arguments, versions")
        await until(pilot, lambda: type(app.screen).__name__ == "ServersScreen")
        # What the main screen's keys do can be found from everywhere.
        await pressed(pilot, "ctrl+p")
        await searched(pilot, "drain", "drain: finish, end the daemon")
        await until(pilot, lambda: "Drain the run" in "\n".join(text_of(app)))
    assert sender.sent == []


@pytest.mark.parametrize(
    "opened",
    ["colon", "colon p", "question_mark", "c", "S", "slash a", "e slash a", "f g a"],
)
async def test_ctrl_c_leaves_from_everywhere(make_app: AppMaker, opened: str) -> None:
    sender = FakeSender()
    app = app_of(make_app, sender=sender)
    async with app.run_test(size=(80, 24)) as pilot:
        await shown(pilot)
        await pressed(pilot, *opened.split())
        await pilot.press("ctrl+c")
        await pilot.pause()
    assert app.return_code == 0
    assert sender.sent == []


async def test_esc_closes_and_letters_are_typed_where_a_person_types(make_app: AppMaker) -> None:
    app = app_of(make_app)
    async with app.run_test(size=(80, 24)) as pilot:
        await shown(pilot)
        for opened in (("colon",), ("g",), ("question_mark",), ("S",), ("t",)):
            await pressed(pilot, *opened)
            assert app.screen is not app._run_screen
            if opened in (("colon",), ("g",)):
                await pressed(pilot, "q")
                assert app.screen is not app._run_screen  # it is a letter there
            await pressed(pilot, "escape")
            assert app.screen is app._run_screen
        for closing in ("q", "question_mark"):
            await pressed(pilot, "question_mark")
            await pressed(pilot, closing)
            assert app.screen is app._run_screen
    assert app.return_code is None


async def test_the_selected_record_is_copied_as_clean_text(make_app: AppMaker, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("TMUX", raising=False)
    monkeypatch.setenv("TERM", "xterm")
    app = app_of(make_app)
    async with app.run_test(size=(80, 24)) as pilot:
        await shown(pilot)
        assert app._driver is not None
        written: list[str] = []
        monkeypatch.setattr(app._driver, "write", written.append)
        await pressed(pilot, "down", "y")
        await until(pilot, lambda: any("\x1b]52;c;" in text for text in written))
        sequence = next(text for text in written if "\x1b]52;c;" in text)
        copied = base64.b64decode(sequence.removeprefix("\x1b]52;c;").removesuffix("\x07")).decode()
        assert copied.startswith('{"name":"A2_openmathreasoning"')
        await pressed(pilot, "up", "up")
        assert app._run_screen.copied() == f"{LENGTH_ALERT.message}\n{LENGTH_ALERT.advice}"


async def test_the_view_is_written_as_files_here(
    make_app: AppMaker, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    app = app_of(make_app)
    async with app.run_test(size=(120, 36)) as pilot:
        await shown(pilot)
        await pressed(pilot, "x")
        await until(pilot, lambda: "written: " in "".join(part_text(app, "footer")))
        assert sorted(path.suffix for path in tmp_path.iterdir()) == [".json", ".svg", ".txt"]
        assert "synth_100k" in next(tmp_path.glob("*.txt")).read_text()
        monkeypatch.chdir("/proc")
        await pressed(pilot, "x")
        await until(pilot, lambda: "cannot be written" in "".join(part_text(app, "footer")))


async def test_colours_change_for_every_part_at_once(make_app: AppMaker) -> None:
    app = app_of(make_app)
    light = look_for(Capabilities(light=True))
    async with app.run_test(size=(120, 36)) as pilot:
        await shown(pilot)
        await pressed(pilot, "T")
        await until(pilot, lambda: app.theme == "ansi-light")
        await pilot.pause()
        colors = {
            segment.style.color.name
            for line in app.screen._compositor.render_strips()
            for segment in line
            if segment.style and segment.style.color
        }
        assert light.warn.color is not None
        assert light.warn.color.name in colors
        assert "yellow" not in colors
        await pressed(pilot, "T")
        assert app.theme == "ansi-dark"


async def test_a_long_answer_is_shown_whole_and_gives_its_lines_back(make_app: AppMaker) -> None:
    app = app_of(make_app)
    async with app.run_test(size=(80, 24)) as pilot:
        await shown(pilot)
        app.say("no daemon is running for this run; " * 4, Severity.WARNING)
        await pilot.pause()
        await pilot.pause()
        assert len(part_text(app, "footer")) == 2
        assert text_of(app)[-1].strip().endswith("no daemon is running for this run;")
        app.say("short")
        await pilot.pause()
        await pilot.pause()
        assert len(part_text(app, "footer")) == 1


async def test_the_history_has_its_keys_only_where_it_is_drawn() -> None:
    status = running()
    app = Eagle3App(Unreadable(status), FakeSender(), capabilities=Capabilities(), history=True)
    async with app.run_test(size=(120, 36)) as pilot:
        await shown(pilot)
        plot = app.screen.query_one(HistoryPlot)
        before = plot.span
        await pressed(pilot, "w")
        assert plot.span == before + 1
        text = await pressed(pilot, "question_mark")
        assert all(key.help in text for key in HISTORY_KEYS)
