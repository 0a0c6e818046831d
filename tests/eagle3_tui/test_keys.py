"""Keys send the right commands, say what came of them, and never hold up the screen."""

from __future__ import annotations

import re
import threading
from pathlib import Path

import pytest
from textual.pilot import Pilot

from contracts.commands import Command, Pause, Reply, Resume, Set
from contracts.control_client import ControlTimeout, DaemonNotRunning
from contracts.status import RunState
from eagle3_tui.app import Eagle3App
from eagle3_tui.control import stepped
from eagle3_tui.keys import APP_KEYS, MAIN_KEYS
from tests.eagle3_tui.conftest import AppMaker
from tests.eagle3_tui.samples import FakeSender, many_datasets, running, stopped
from tests.eagle3_tui.screens.support import part_text, shown, text_of, until
from tests.eagle3_tui.waiting import eventually


async def answered(pilot: Pilot[int], app: Eagle3App) -> None:
    await until(pilot, lambda: not any(worker.group == "control" for worker in app.workers))
    await pilot.pause()


@pytest.mark.parametrize(("key", "command"), [("p", Pause()), ("r", Resume())])
async def test_pause_and_resume(make_app: AppMaker, key: str, command: Command) -> None:
    sender = FakeSender(Reply(ok=True, message="paused: 248 requests finish"))
    app = make_app(running(), sender=sender)
    async with app.run_test(size=(80, 24)) as pilot:
        await shown(pilot)
        await pilot.press(key)
        await answered(pilot, app)
        assert sender.sent == [command]
        assert "paused: 248 requests finish" in part_text(app, "footer")[0]


@pytest.mark.parametrize(
    ("concurrency", "direction", "wanted"),
    [(256, 1, 282), (256, -1, 230), (1, 1, 2), (1, -1, 1), (10, 1, 11), (9, -1, 8), (2, -1, 1), (65_000, 1, 65_536)],
)
def test_concurrency_by_a_tenth(concurrency: int, direction: int, wanted: int) -> None:
    assert stepped(concurrency, direction) == wanted


async def test_plus_and_minus(make_app: AppMaker) -> None:
    sender = FakeSender()
    app = make_app(running(concurrency=256), sender=sender)
    async with app.run_test(size=(80, 24)) as pilot:
        await shown(pilot)
        for key in ("plus", "minus", "equals_sign"):
            await pilot.press(key)
            await answered(pilot, app)
    # Each counts on from what the daemon has just accepted, though the status shown still says 256.
    assert sender.sent == [Set(concurrency=282), Set(concurrency=254), Set(concurrency=279)]


async def test_quick_presses_add_up_and_only_the_last_number_is_needed(make_app: AppMaker) -> None:
    hold = threading.Event()
    sent: list[Command] = []

    def slow(command: Command) -> Reply:
        sent.append(command)
        hold.wait(10)
        return Reply(ok=True, message="set")

    app = make_app(running(concurrency=100))
    app.control.sender = slow
    async with app.run_test(size=(80, 24)) as pilot:
        await shown(pilot)
        await pilot.press("plus")
        await until(pilot, lambda: len(sent) == 1)
        await pilot.press("plus", "plus")
        hold.set()
        await answered(pilot, app)
    assert sent == [Set(concurrency=110), Set(concurrency=133)]


async def test_concurrency_without_a_daemon_is_not_guessed(make_app: AppMaker) -> None:
    sender = FakeSender()
    app = make_app(stopped(), sender=sender)
    async with app.run_test(size=(80, 24)) as pilot:
        await shown(pilot)
        await pilot.press("plus")
        await pilot.pause()
        assert sender.sent == []
        assert "not known" in part_text(app, "footer")[0]


@pytest.mark.parametrize(
    ("error", "said"),
    [
        (DaemonNotRunning(Path("/data/run")), "no daemon is running"),
        (ControlTimeout("no answer within 5 s"), "no answer within 5 s"),
    ],
)
async def test_what_went_wrong_is_said(make_app: AppMaker, error: Exception, said: str) -> None:
    sender = FakeSender()
    sender.error = error
    app = make_app(running(), sender=sender)
    async with app.run_test(size=(120, 36)) as pilot:
        await shown(pilot)
        await pilot.press("p")
        await answered(pilot, app)
        assert said in part_text(app, "footer")[0]
        assert "▲" in part_text(app, "footer")[0]
    assert app.return_code is None


async def test_a_refusal_is_shown_as_one(make_app: AppMaker) -> None:
    app = make_app(running(), sender=FakeSender(Reply(ok=False, message="it is draining; wait, or stop it")))
    async with app.run_test(size=(80, 24)) as pilot:
        await shown(pilot)
        await pilot.press("r")
        await answered(pilot, app)
        assert "▲ it is draining" in part_text(app, "footer")[0]


async def test_read_only_sends_nothing(make_app: AppMaker) -> None:
    sender = FakeSender()
    app = make_app(running(), sender=sender, read_only=True)
    async with app.run_test(size=(80, 24)) as pilot:
        await shown(pilot)
        assert "read only" in part_text(app, "footer")[0]
        assert "pause" not in part_text(app, "footer")[0]
        for key in ("p", "r", "plus", "minus"):
            app._run_screen.say(None)
            await pilot.press(key)
            await pilot.pause()
            assert "read only: this key" in part_text(app, "footer")[0]
    assert sender.sent == []


async def test_a_daemon_that_hangs_holds_up_neither_the_screen_nor_leaving(make_app: AppMaker) -> None:
    hold = threading.Event()
    app = make_app(running())
    app.control.sender = lambda command: Reply(ok=hold.wait(30))
    async with app.run_test(size=(80, 24)) as pilot:
        await shown(pilot)
        await pilot.press("p")
        await until(pilot, lambda: "asking the daemon" in part_text(app, "footer")[0])
        await pilot.press("q")
        await pilot.pause()
    hold.set()
    assert app.return_code == 0


@pytest.mark.parametrize("key", ["q", "ctrl+c", "ctrl+q"])
async def test_leaving_is_not_an_error_and_sends_nothing(make_app: AppMaker, key: str) -> None:
    sender = FakeSender()
    app = make_app(running(), sender=sender)
    async with app.run_test(size=(80, 24)) as pilot:
        await shown(pilot)
        await pilot.press(key)
        await pilot.pause()
    assert app.return_code == 0
    assert sender.sent == []


@pytest.mark.parametrize("size", [(80, 24), (120, 36)])
async def test_help_lists_every_key_and_any_key_only_closes_it(make_app: AppMaker, size: tuple[int, int]) -> None:
    sender = FakeSender()
    app = make_app(running(), sender=sender)
    async with app.run_test(size=size) as pilot:
        await shown(pilot)
        await pilot.press("question_mark")
        await pilot.pause()
        text = "\n".join(text_of(app))
        for key in (*MAIN_KEYS, *APP_KEYS):
            assert f"{key.shown} " in text
            assert key.help in text
        assert "any key closes this" in text
        await pilot.press("p")
        await pilot.pause()
        assert "synth_100k" in text_of(app)[0]
    assert sender.sent == []


async def test_help_scrolls_where_it_does_not_fit(make_app: AppMaker) -> None:
    """On 40x12 nine lines are in sight: every key can be read all the same, and only the others close."""
    app = make_app(running())
    async with app.run_test(size=(40, 12)) as pilot:

        async def text(key: str) -> str:
            await pilot.press(key)
            await pilot.pause()
            return "\n".join(text_of(app))

        await shown(pilot)
        first = await text("question_mark")
        assert re.search(r" down \d+ more; other keys close ", first)
        assert re.search(r" up 1, down \d+ more; other keys clo", await text("down"))
        assert await text("k") == first
        seen = first
        for _ in MAIN_KEYS:
            seen += await text("pagedown")
        for key in (*MAIN_KEYS, *APP_KEYS):
            assert f"{key.shown} " in seen
            assert key.help[:28] in seen
        last = "\n".join(text_of(app))
        assert re.search(r" up \d+ more; other keys close ", last)
        assert await text("home") == first
        assert await text("end") == last
        await pilot.resize_terminal(120, 60)
        await pilot.pause()
        assert "any key closes this" in "\n".join(text_of(app))
        assert "keys of this screen" not in await text("down")


async def test_no_key_of_a_screen_is_in_its_table_twice_and_every_action_is_there(make_app: AppMaker) -> None:
    app = make_app(running())
    async with app.run_test(size=(80, 24)) as pilot:
        await shown(pilot)
        for keys, owner in ((APP_KEYS, app), (MAIN_KEYS, app.screen)):
            names = [name for key in keys for name in key.keys]
            assert len(names) == len(set(names))
            for key in keys:
                node = app if key.action.startswith("app.") else owner
                assert hasattr(node, "action_" + key.action.removeprefix("app.").partition("(")[0]), key.action


async def test_the_bottom_line_has_the_keys_of_the_state(make_app: AppMaker) -> None:
    for state, has, lacks in ((RunState.RUNNING, "p pause", "r resume"), (RunState.PAUSED, "r resume", "p pause")):
        app = make_app(running(state=state))
        async with app.run_test(size=(120, 36)) as pilot:
            await shown(pilot)
            line = part_text(app, "footer")[0]
            assert has in line
            assert lacks not in line
            assert "? help" in line
            assert "q leave" in line


async def test_the_moving_keys_move_the_cursor_and_titles_and_total_stay(make_app: AppMaker) -> None:
    app = make_app(many_datasets())
    async with app.run_test(size=(80, 24)) as pilot:
        await shown(pilot)
        table = app._run_screen.table
        rows = table.page_rows

        async def row_after(*keys: str) -> int:
            await pilot.press(*keys)
            await pilot.pause()
            lines = part_text(app, "table")
            assert lines[0].strip().startswith("data set")
            assert lines[-1].strip().startswith("total")
            assert table.selected is not None
            return int(table.selected.rpartition("_")[2])

        assert await row_after("down") == 1
        assert await row_after("k", "up") == 0
        assert await row_after("pagedown") == rows
        assert await row_after("end") == 29
        assert f"{30 - rows + 1}-30/30" in part_text(app, "table")[0]
        assert await row_after("home") == 0


async def test_sorting_and_filtering(make_app: AppMaker) -> None:
    app = make_app(running())
    async with app.run_test(size=(120, 36)) as pilot:
        await shown(pilot)
        await pilot.press("slash", "m", "a", "g", "enter")
        await pilot.pause()
        assert app._run_screen.table.count == (1, 10)
        assert app._run_screen.selected is not None
        assert app._run_screen.selected.dataset == "B2_magicoder"
        await pilot.press("escape", "s")
        await pilot.pause()
        assert app._run_screen.table.count == (10, 10)
        assert app._run_screen.table.sort.title is not None
    assert app.return_code is None


async def test_a_message_gives_way_to_the_keys(make_app: AppMaker, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("eagle3_tui.app.SAY_S", 0.01)
    app = make_app(running())
    async with app.run_test(size=(80, 24)) as pilot:
        await shown(pilot)
        app.say("something")
        assert "something" in part_text(app, "footer")[0]
        await eventually(lambda: "q leave" in part_text(app, "footer")[0])
