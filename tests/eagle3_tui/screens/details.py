"""A run with something of everything, and an app that shows one screen about it."""

from __future__ import annotations

import json
import random
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

import msgspec
from textual.app import App
from textual.pilot import Pilot

from contracts.commands import Command
from contracts.fold.run import RunFold
from contracts.records import (
    CaptureCheck,
    Event,
    FailureClass,
    NextStep,
    ServerReading,
    ServerSample,
    Severity,
    Stage,
    StoredSample,
)
from contracts.run_dir import RunDir
from contracts.status import RunStatus
from eagle3_tui.feed.state import Feed
from eagle3_tui.screens.detail import Ask, DetailScreen
from eagle3_tui.terminal import Capabilities
from eagle3_tui.widgets.look import Look, look_for
from tests.eagle3_tui.conftest import standing_clock
from tests.eagle3_tui.samples import NOW, dataset, hidden, running, server
from tests.eagle3_tui.screens.support import until
from tests.support.records import event, failure, make_run, response, write

Answer = TypeVar("Answer")
URL = "http://127.0.0.1:30000"
NAME = "B1_opencode"
PROMPT = "user: 漢字を数えて [bold]please[/]\n\tand \x1b[31mred\x1b[0m\nassistant:"
EXTRA = """stages = ["generate", "extract"]
[sampling]
max_new_tokens = 8192
[extract]
layers = [2, 30, 58]
dump_dir = "dumps"
[tokenizer]
path = "bytes"
"""


def rich_run(folder: Path) -> RunDir:
    """Write a run: answers, failures of both stages, stored samples, events, a log, telemetry, a dump folder."""
    chance = random.Random(7)
    run = make_run(folder, datasets=(NAME, "B2_magicoder"), extra=EXTRA, prompts=0)
    own = run.dataset(NAME)
    ids = json.dumps(list(PROMPT.encode())).encode()
    write(own.prompts, [b'{"sample_id":"q-%d","input_ids":%s}\n' % (number, ids) for number in range(80)])
    for number in range(60):
        tokens = max(int(chance.lognormvariate(5, 0.7)), 1)
        text = [*(f"<think>{number}</think>\n" + "The quick brown fox. " * 60).encode()[: tokens - 1], 151_645]
        write(
            own.responses,
            [
                response(
                    f"q-{number}", len(text), output_ids=msgspec.Raw(json.dumps(text).encode()), prompt_tokens=70,
                    finish_reason="length" if number % 20 == 7 else "stop", finished_at=NOW - 590 + 10 * number,
                    started_at=NOW - 600 + 10 * number, rid=f"e3.ab.{number:08x}.1.{number}", server=URL,
                    matched=151_645,
                )
            ],
        )  # fmt: skip
    busy = [failure(f"q-{n}", message=f"HTTP 503: busy, {n} queued", at=NOW - n, server=URL) for n in range(50, 75)]
    too_long = failure(
        "q-75", error=FailureClass.REJECTED, next=NextStep.QUARANTINED, at=NOW - 3, http_status=400,
        message="Input length exceeds 漢字 \x1b]52;c;aGk=\x07 the limit",
    )  # fmt: skip
    ids_differ = failure(
        "q-3", stage=Stage.EXTRACT, error=FailureClass.CAPTURE, check=CaptureCheck.IDS, at=NOW - 9,
        message="position 3 was computed from id 9",
    )  # fmt: skip
    write(own.failures, [*busy, too_long, ids_differ])
    write(
        own.hidden_states,
        [
            StoredSample(
                sample_id=f"q-{number}", file="shard-0.safetensors", row=number, offset=1000 * number, bytes=8_000_000,
                checksum="xxh3_128:00ff", tokens=170, loss_tokens=100, layers=[2, 30, 58], hidden_size=4096,
                dtype="bfloat16", norm="post", layout="safetensors", model="GLM-4.6", capture="generating", server=URL,
                at=NOW - 500 + number,
            )
            for number in range(10, 50)
        ],
    )  # fmt: skip
    write(run.events, rich_events())
    run.log.write_text("2023-11-14 22:00:00,123 ERROR eagle3: broken\nTraceback (most recent call last):\n  \x1b[2J\n")
    run.telemetry.mkdir()
    write(
        run.telemetry_file("server"),
        [
            ServerSample(
                at=NOW - 300 + number,
                servers=[
                    server(tokens_per_s=2_000.0 + 10 * (number % 90), last_answer_s=3.0, silent_s=3.0),
                    ServerReading(url="http://127.0.0.1:30001", state="refused", reason="serves llama"),
                ],
            )
            for number in range(300)
        ],
    )
    dumps = folder.parent / "dumps"
    dumps.mkdir(exist_ok=True)
    about = {
        "instance": "1", "port": 30000, "dp_rank": 0, "sglang": "0.5.23", "model": "GLM-4.6", "layers": [2, 30, 58],
        "server_layers": [3, 31, 59], "hidden_size": 4096, "dtype": "bfloat16", "norm": "post",
        "started_at": NOW - 9_000,
        "architecture": "Glm4MoeForCausalLM", "context_length": 32_768,
    }  # fmt: skip
    (dumps / "about.1.json").write_text(json.dumps(about))
    return run


def rich_events() -> list[Event]:
    """250 events, every fiftieth a warning; one server is refused."""
    mine = {"server": URL}
    up = event(
        "server.up", NOW - 900, message=f"{URL} is ready: SGLang 0.5.23", data=mine | {"arguments": {"tp_size": 8}}
    )
    note = event("server.note", NOW - 899, message="it names no vocabulary", data=mine, severity=Severity.WARNING)
    many = [
        event(
            "alert.raised" if number % 50 == 0 else "control.set", NOW - 800 + number,
            severity=Severity.WARNING if number % 50 == 0 else Severity.INFO, data={"n": number},
            message=f"event {number} \x1b[2J 漢字", dataset=NAME if number % 3 == 0 else None,
        )
        for number in range(250)
    ]  # fmt: skip
    refused = event(
        "server.refused", NOW - 60, message="http://127.0.0.1:30001 is refused: serves llama",
        severity=Severity.CRITICAL, data={"server": "http://127.0.0.1:30001"},
    )  # fmt: skip
    return [up, note, *many, refused]


class FoldSource:
    """A folder as it is, at a moment that stands still, with a status that was made."""

    def __init__(self, folder: Path) -> None:
        self.fold = RunFold(folder)
        own = dataset(
            NAME, prompts=80, done=60, completion_tokens=11_700, prompt_tokens=4_200, avg_completion_tokens=195.0,
            target_tokens=20_000, finish_reasons={"stop": 57, "length": 3}, failed=16,
            hidden=hidden(to_store=60, stored=40, bytes=320_000_000, tokens=6_800),
        )  # fmt: skip
        self.status = running(datasets=[own])

    def refresh(self) -> RunStatus:
        self.fold.poll()
        return self.status

    def ask(self, question: Callable[[RunFold, float], Answer], /) -> Answer:
        return question(self.fold, NOW)

    def last_events(self, count: int, /) -> list[Event]:
        return list(self.fold.events.last)[-count:]

    def watch_paths(self) -> list[Path]:
        return []


ScreenMaker = Callable[[Look, Feed, Ask | None], DetailScreen]


class OneScreen(App[None], inherit_bindings=False):
    """Shows one screen; what it wants to be sent is kept."""

    ENABLE_COMMAND_PALETTE = False

    def __init__(
        self, folder: Path, make: ScreenMaker, capabilities: Capabilities | None = None, *, read_only: bool = False
    ) -> None:
        super().__init__(ansi_color=True)
        self.theme = "ansi-dark"
        self.animation_level = "none"
        self.source = FoldSource(folder)
        self.feed = Feed(self.source, standing_clock())
        self.asked: list[tuple[str, Command, str | None]] = []
        look = look_for(capabilities or Capabilities())
        self.first = make(look, self.feed, None if read_only else self.ask)

    async def on_mount(self) -> None:
        await self.feed.read()
        await self.push_screen(self.first)

    def ask(self, what: str, command: Command, *, confirm: str | None = None) -> None:
        self.asked.append((what, command, confirm))

    @property
    def detail(self) -> DetailScreen:
        """The topmost screen."""
        assert isinstance(self.screen, DetailScreen)
        return self.screen


async def settled(pilot: Pilot[Any]) -> None:
    """Wait until nothing is being read and everything that was is shown."""
    app = pilot.app
    assert isinstance(app, OneScreen)
    await until(pilot, lambda: not isinstance(app.screen, DetailScreen) or app.screen.has_read)
    for _ in range(3):
        await until(pilot, lambda: not any(worker.group in GROUPS for worker in app.workers))
        await pilot.pause()


GROUPS = ("detail", "body", "moving")


async def press(pilot: Pilot[Any], *keys: str) -> str:
    """Press keys, each after what came of the one before; return the text of the screen."""
    for key in keys:
        await pilot.press(key)
        await settled(pilot)
    return screen_text(pilot)


def screen_text(pilot: Pilot[Any]) -> str:
    return "\n".join(strip.text for strip in pilot.app.screen._compositor.render_strips())
