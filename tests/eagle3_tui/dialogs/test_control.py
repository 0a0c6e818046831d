"""Dialogs in the app: what they show, what they send, and that nothing is sent by mistake."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from textual.pilot import Pilot

from contracts.commands import DEFAULT, Command, Drain, Reply, Retry, Set, Stop
from contracts.control_client import DaemonNotRunning
from contracts.records import FailureClass
from contracts.status import RunStatus
from eagle3_tui.app import Eagle3App
from eagle3_tui.dialogs.dialog import Dialog
from eagle3_tui.dialogs.retryable import GivenUp, Retryable
from eagle3_tui.terminal import Capabilities
from tests.eagle3_tui.conftest import AppMaker
from tests.eagle3_tui.samples import FakeMonitor, FakeSender, extracting, foreign, running, stopped, storing
from tests.eagle3_tui.screens.support import part_text, shown, text_of, until


class Asked(FakeMonitor):
    """Twelve transient failures were given up in one data set."""

    def ask(self, question: Callable[..., Any], /) -> Any:
        return Retryable((GivenUp("B1_opencodeinstruct", "transient", 12),))


async def opened(pilot: Pilot[int], *keys: str) -> str:
    """Press keys, wait for the dialog and return the screen."""
    await pilot.press(keys[0])
    await until(pilot, lambda: isinstance(pilot.app.screen, Dialog))
    await pilot.press(*keys[1:])
    await pilot.pause()
    await pilot.pause()
    assert isinstance(pilot.app, Eagle3App)
    return "\n".join(text_of(pilot.app))


async def closed(pilot: Pilot[int], key: str) -> None:
    await pilot.press(key)
    await until(pilot, lambda: not any(worker.group in ("dialog", "control") for worker in pilot.app.workers))


@pytest.mark.parametrize(("key", "command", "says"), [("S", Stop(), "248 open"), ("D", Drain(), "248 open requests")])
async def test_ending_the_daemon_is_asked_first(make_app: AppMaker, key: str, command: Command, says: str) -> None:
    sender = FakeSender(Reply(ok=True, message="stopping"))
    app = make_app(running(), sender=sender)
    async with app.run_test(size=(80, 24)) as pilot:
        await shown(pilot)
        for no in ("n", "escape"):
            assert says in await opened(pilot, key)
            await pilot.press("enter")  # means nothing: a tired hand presses it
            assert isinstance(app.screen, Dialog)
            await closed(pilot, no)
        assert sender.sent == []
        await opened(pilot, key)
        await closed(pilot, "y")
        await pilot.pause()
        assert sender.sent == [command]
        assert "stopping" in part_text(app, "footer")[0]


async def test_where_no_daemon_is_nothing_is_asked_but_what_the_socket_says_is_said(make_app: AppMaker) -> None:
    sender = FakeSender()
    sender.error = DaemonNotRunning(Path("/data/synth_100k"))
    app = make_app(stopped(), sender=sender)
    async with app.run_test(size=(120, 36)) as pilot:
        await shown(pilot)
        await closed(pilot, "S")
        await pilot.pause()
        assert "start it with: eagle3 start" in part_text(app, "footer")[0]
        assert not isinstance(app.screen, Dialog)


async def test_concurrency_by_number(make_app: AppMaker) -> None:
    sender = FakeSender()
    app = make_app(running(), sender=sender)
    async with app.run_test(size=(80, 24)) as pilot:
        await shown(pilot)
        assert "from 1 to 65,536 is needed" in await opened(pilot, "c", "0")
        await pilot.press("enter")
        assert isinstance(app.screen, Dialog)
        await pilot.press("backspace", *"512")
        await pilot.pause()
        assert "256 more" in "\n".join(text_of(app))
        await closed(pilot, "enter")
        await opened(pilot, "c", *"default")
        await closed(pilot, "enter")
    assert sender.sent == [Set(concurrency=512), Set(concurrency=DEFAULT)]


async def test_a_target_for_one_data_set_and_for_all_that_generate(make_app: AppMaker) -> None:
    sender = FakeSender()
    app = make_app(running(), sender=sender)
    async with app.run_test(size=(80, 24)) as pilot:
        await shown(pilot)
        text = await opened(pilot, "t", *"9M", "tab", *"opencode")
        assert "802,328 tokens are then still to come" in text
        assert "A1_openthoughts" not in text
        await closed(pilot, "enter")
        await opened(pilot, "t", *"9M", "tab", "left")
        await closed(pilot, "enter")
    assert sender.sent[0] == Set(targets={"B1_opencodeinstruct": 9_000_000})
    assert isinstance(sender.sent[1], Set)
    assert len(sender.sent[1].targets) == 6


async def test_retry_says_how_many_and_refuses_what_does_nothing(make_app: AppMaker) -> None:
    sender = FakeSender()
    app = make_app(running(), source=Asked(running()), sender=sender)
    async with app.run_test(size=(80, 24)) as pilot:
        await shown(pilot)
        assert "12 samples" in await opened(pilot, "a")
        await pilot.press(*"poison", "enter")
        await pilot.pause()
        assert "nothing to try again" in "\n".join(text_of(app))
        await pilot.press("backspace", "backspace", "backspace", "backspace", "backspace", "backspace", *"trans")
        await closed(pilot, "enter")
    assert sender.sent == [Retry(error=FailureClass.TRANSIENT)]


async def test_a_screens_question_carries_the_numbers(make_app: AppMaker) -> None:
    sender = FakeSender()
    app = make_app(running(), source=Asked(running()), sender=sender)
    async with app.run_test(size=(80, 24)) as pilot:
        await shown(pilot)
        app.control.ask("retry", Retry(), confirm="Put all back?")
        await until(pilot, lambda: isinstance(app.screen, Dialog))
        await pilot.pause()
        assert "Put all back?" in "\n".join(text_of(app))
        assert "12 samples" in "\n".join(text_of(app))
        await closed(pilot, "y")
    assert sender.sent == [Retry()]


@pytest.mark.parametrize(
    ("status", "read_only", "says"),
    [(foreign(), False, "nothing to control"), (running(), True, "read only: this key")],
    ids=["foreign", "read_only"],
)
async def test_where_nothing_is_controlled(make_app: AppMaker, status: RunStatus, read_only: bool, says: str) -> None:
    sender = FakeSender()
    app = make_app(status, sender=sender, read_only=read_only)
    async with app.run_test(size=(120, 36)) as pilot:
        await shown(pilot)
        for key in ("c", "t", "a", "D", "S", "plus", "p"):
            app._run_screen.say(None)
            await pilot.press(key)
            await pilot.pause()
            assert says in part_text(app, "footer")[0], key
            assert not isinstance(app.screen, Dialog)
    assert sender.sent == []


async def test_control_c_leaves_from_a_dialog(make_app: AppMaker) -> None:
    app = make_app(running())
    async with app.run_test(size=(80, 24)) as pilot:
        await shown(pilot)
        await opened(pilot, "S")
        await pilot.press("ctrl+c")
        await pilot.pause()
    assert app.return_code == 0


@pytest.mark.parametrize("size", [(20, 5), (40, 12), (120, 36)])
async def test_every_dialog_at_any_size_in_ascii(make_app: AppMaker, size: tuple[int, int]) -> None:
    app = make_app(running(), capabilities=Capabilities(unicode=False))
    async with app.run_test(size=size) as pilot:
        await shown(pilot)
        for key in ("S", "t", "question_mark", "colon"):
            await pilot.press(key)
            await until(pilot, lambda: len(app.screen_stack) > 2)
            await pilot.pause()
            await pilot.pause()
            text = "\n".join(text_of(app))
            assert text.isascii(), text
            await pilot.press("escape")
            await until(pilot, lambda: len(app.screen_stack) == 2)


async def test_there_is_no_target_where_nothing_is_generated(make_app: AppMaker) -> None:
    app = make_app(extracting(), sender=FakeSender())
    async with app.run_test(size=(120, 36)) as pilot:
        await shown(pilot)
        app.control.target_dialog("B1_opencodeinstruct")
        await pilot.pause()
        assert "nothing is generated in this run" in part_text(app, "footer")[0]
        assert not isinstance(app.screen, Dialog)
    # In a run that extracts, a pre-tokenized data set is in the stage of any other.
    app = make_app(storing(), sender=FakeSender())
    async with app.run_test(size=(120, 36)) as pilot:
        await shown(pilot)
        app.control.target_dialog("A2_openmathreasoning")
        await until(pilot, lambda: isinstance(pilot.app.screen, Dialog))
        assert "A2_openmathreasoning" not in app.control._generated() and len(app.control._generated()) == 6
        await closed(pilot, "escape")
        await pilot.pause()
        assert "A2_openmathreasoning: its prompts bring their own answers" in part_text(app, "footer")[0]
