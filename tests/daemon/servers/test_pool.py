"""The pool: who is used, what counts as a death, when a server is back."""

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from aiohttp import web

from contracts.run_config import ConfigError, RunConfig, Server, load_run_config
from daemon.request_ids import RequestIds
from daemon.servers.pool import SICK_AFTER, ServerPool
from daemon.servers.probe import Probe
from daemon.servers.slot import ServerSlot, api_key_of
from tests.support.runs import make_run, until
from tests.support.scripted_sglang import Request, ScriptedSglang


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("daemon.servers.pool.DEATH_VERDICT_S", 0.4)
    monkeypatch.setattr("daemon.servers.pool.REFUSED_VERDICT_S", 0.1)
    monkeypatch.setattr("daemon.servers.pool.CHECK_EVERY_S", 0.05)
    monkeypatch.setattr("daemon.servers.pool.PROBE_EVERY_S", 0.2)
    monkeypatch.setattr("daemon.servers.pool.PROBE_EVERY_MOST_S", 0.2)


@pytest.fixture
async def server() -> AsyncIterator[ScriptedSglang]:
    async with ScriptedSglang() as server:
        yield server


def config_for(path: Path, *urls: str) -> RunConfig:
    return load_run_config(make_run(path, list(urls), {"B1": []}) / "run.toml")


class Opened:
    """A pool with its news."""

    def __init__(self, config: RunConfig, objections: list[str] | None = None) -> None:
        self.news: list[tuple[str, str]] = []
        self.objections = objections if objections is not None else []
        self.pool = ServerPool(
            config, self._changed, lambda: RequestIds(Path("run"), "s").probe(captured=False), self._objection
        )

    async def _objection(self, probe: Probe) -> str | None:
        return self.objections[0] if self.objections else None

    def _changed(self, slot: ServerSlot, before: str) -> None:
        self.news.append((before, slot.state))

    def course(self) -> list[str]:
        """The states one after the other, but for ``unready``: a probe may fall into the moment of a server's start."""
        states = [state for _, state in self.news if state != "unready"]
        return [state for place, state in enumerate(states) if not place or state != states[place - 1]]

    async def __aenter__(self) -> ServerPool:
        await self.pool.open()
        return self.pool

    async def __aexit__(self, *_: object) -> None:
        await self.pool.close()


async def test_the_least_busy_usable_server_is_picked(server: ScriptedSglang, tmp_path: Path) -> None:
    opened = Opened(config_for(tmp_path, server.url, f"http://localhost:{server.port}", "http://127.0.0.1:9"))
    async with opened as pool:
        assert pool.pick() is None and not pool.all_tried
        await until(lambda: pool.all_tried and len(pool.probes) == 2)
        pool.slots[0].outstanding = 3
        assert pool.pick() is pool.slots[1]
        pool.slots[1].outstanding = 4
        assert pool.pick() is pool.slots[0]
        assert pool.standing(pool.slots[1].url).outstanding == 4
        assert pool.slots[2].state == "down"


async def test_a_lost_connection_to_a_living_server_is_no_death(server: ScriptedSglang, tmp_path: Path) -> None:
    async with Opened(config_for(tmp_path, server.url)) as pool:
        slot = pool.slots[0]
        await until(lambda: slot.state == "ok")
        assert await pool.died(slot, slot.life, refused=False) is False
        assert (slot.state, slot.life) == ("ok", 0)


async def test_a_server_that_goes_some_seconds_after_its_connections_died(
    server: ScriptedSglang, tmp_path: Path
) -> None:
    opened = Opened(config_for(tmp_path, server.url))
    async with opened as pool:
        slot = pool.slots[0]
        await until(lambda: slot.state == "ok")
        verdicts = [asyncio.create_task(pool.died(slot, slot.life, refused=False)) for _ in range(50)]
        for _ in range(2):
            checked_at = slot.checked_at
            await until(lambda: slot.checked_at > checked_at)  # noqa: B023 - awaited within its round
        assert not any(verdict.done() for verdict in verdicts), "it still answers"
        await server.close()
        assert await asyncio.gather(*verdicts) == [True] * 50
        assert (slot.state, slot.life) == ("down", 1)
        await server.start()
        await until(lambda: slot.state == "ok")
        assert await pool.died(slot, 0, refused=False) is True, "what was sent in its first life is lost with it"
        assert await pool.died(slot, 1, refused=False) is False
    assert opened.course() == ["ok", "down", "ok"]


async def test_many_lost_connections_ask_little(server: ScriptedSglang, tmp_path: Path) -> None:
    asked = list[int]()

    async def model_info() -> web.Response:
        asked.append(1)
        return web.json_response({"model_path": "m", "is_generation": True})

    server.model_info = model_info
    async with Opened(config_for(tmp_path, server.url)) as pool:
        slot = pool.slots[0]
        await until(lambda: slot.state == "ok")
        asked.clear()
        verdicts = []
        for _ in range(40):
            verdicts.append(asyncio.create_task(pool.died(slot, 0, refused=False)))
            await asyncio.sleep(0.005)
        assert await asyncio.gather(*verdicts) == [False] * 40
        assert len(asked) < 40, "not one by one, each some ten times"
        await until(lambda: slot.sure)
        assert server.probes == 2, "one more for all of them"


async def test_a_server_that_fails_at_everything_is_taken_out_and_comes_back(
    server: ScriptedSglang, tmp_path: Path
) -> None:
    async def broken(request: Request) -> web.Response:
        return web.Response(status=500, text="CUDA error")

    well = server.probe
    opened = Opened(config_for(tmp_path, server.url))
    async with opened as pool:
        slot = pool.slots[0]
        await until(lambda: slot.state == "ok")
        slot.failed_in_a_row = SICK_AFTER
        assert await pool.is_sick(slot) is False
        assert slot.failed_in_a_row == 0, "the next question only after as many failures again"
        server.probe = broken
        assert await asyncio.gather(*(pool.is_sick(slot) for _ in range(5))) == [True] * 5
        assert slot.state == "unready" and "CUDA error" in str(slot.reason)
        assert slot.life == 0, "it did not die"
        assert pool.standing(slot.url).held == ("unready", slot.reason), "the status says what its reason says"
        server.probe = well
        await until(lambda: slot.state == "ok")
    assert opened.news == [("untried", "ok"), ("ok", "unready"), ("unready", "ok")]


async def test_a_server_that_starts_gets_nothing_before_its_warm_up_is_over(
    server: ScriptedSglang, tmp_path: Path
) -> None:
    """Work that fills its queue first would have its own warm-up refused, and that ends it."""
    server.health = 503
    opened = Opened(config_for(tmp_path, server.url))
    async with opened as pool:
        slot = pool.slots[0]
        await until(lambda: server.health_checks >= 3)
        assert slot.state == "starting" and "503" in str(slot.reason) and server.probes == 0
        assert pool.pick() is None
        assert pool.standing(slot.url).held == ("starting", slot.reason)
        server.health = 200
        await until(lambda: slot.state == "ok")
        assert server.probes == 1 and pool.standing(slot.url).held is None
    assert opened.news == [("untried", "starting"), ("starting", "ok")]


async def test_health_is_asked_once_in_each_life(server: ScriptedSglang, tmp_path: Path) -> None:
    """A busy one may say 503 in a long prefill: then its answers decide."""
    opened = Opened(config_for(tmp_path, server.url))
    async with opened as pool:
        slot = pool.slots[0]
        await until(lambda: slot.state == "ok")
        assert server.health_checks == 1
        server.health = 503
        assert await pool.is_sick(slot) is False
        pool.recheck(slot.url)
        await until(lambda: server.probes == 3)
        assert (slot.state, server.health_checks) == ("ok", 1)
        await server.close()
        assert await pool.died(slot, 0, refused=True) is True
        await server.start()
        await until(lambda: slot.state == "starting")
        server.health = 200
        await until(lambda: slot.state == "ok")
    assert opened.course() == ["ok", "down", "starting", "ok"]


async def test_a_server_that_computes_otherwise_than_another_is_noted(server: ScriptedSglang, tmp_path: Path) -> None:
    async with ScriptedSglang() as other:
        server.server_info = {"dtype": "bfloat16", "quantization": "fp8"}
        other.server_info = {"dtype": "bfloat16"}
        async with Opened(config_for(tmp_path, server.url, other.url)) as pool:
            await until(lambda: len(pool.probes) == 2)
            again = await pool.probe(pool.slots[0])
    assert "quantization fp8" in again.notes[-1] and other.url in again.notes[-1]


def test_how_long_a_server_has_been_silent(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    now = 1000.0
    monkeypatch.setattr("daemon.servers.pool.time.monotonic", lambda: now)
    pool = Opened(config_for(tmp_path, "http://h:1")).pool
    slot = pool.slots[0]

    def standing() -> tuple[int, float | None, float | None]:
        found = pool.standing("http://h:1")
        return found.outstanding, found.last_answer_s, found.silent_s

    assert standing() == (0, None, None)
    slot.opened(990.0)
    slot.opened(995.0)
    assert standing() == (2, None, 10.0)
    slot.answered(997.0)
    slot.outstanding -= 1
    assert standing() == (1, 3.0, 3.0)
    slot.outstanding -= 1
    now = 2000.0
    assert standing() == (0, 1003.0, None)
    slot.opened(1999.0)
    assert standing() == (1, 1003.0, 1.0), "it had nothing to answer before"


async def test_a_server_that_is_replaced_while_nothing_is_sent_is_probed_before_it_gets_anything(
    server: ScriptedSglang, tmp_path: Path
) -> None:
    """Between two readings of the telemetry, and without a request that could fail."""
    opened = Opened(config_for(tmp_path, server.url))
    async with opened as pool, ScriptedSglang() as other:
        slot = pool.slots[0]
        await until(lambda: slot.state == "ok")
        assert pool.pick() is slot
        opened.objections.append("another model")
        await server.close()
        await other.close()
        other.port = server.port
        await other.start()
        assert await refused_before_it_is_picked(pool) == "another model"
        opened.objections.clear()
        await until(lambda: pool.pick() is slot)
    assert opened.news[-1] == ("refused", "ok"), "which is told as server.up"


async def refused_before_it_is_picked(pool: ServerPool) -> str | None:
    """Ask for a server, as the scheduler does again and again; return why the only one is refused."""
    while pool.slots[0].state != "refused":
        assert pool.pick() is None
        await asyncio.sleep(0)
    assert pool.pick() is None
    return pool.slots[0].reason


async def test_who_was_idle_is_probed_before_it_gets_anything(
    server: ScriptedSglang, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Behind a proxy no connection tells that another server answers now."""
    sure = list[int]()
    async with ScriptedSglang() as busy:
        opened = Opened(config_for(tmp_path, server.url, busy.url))
        opened.pool._on_sure = lambda: sure.append(1)
        async with opened as pool:
            await until(lambda: len(pool.probes) == 2)
            assert pool.pick() is pool.slots[0], "it was probed a moment ago"
            monkeypatch.setattr("daemon.servers.pool.IDLE_S", 0.0)
            pool.slots[1].outstanding = 1
            assert pool.pick() is None, "the less busy one is waited for"
            monkeypatch.setattr("daemon.servers.pool.DOUBT_WAIT_S", 0.0)
            assert pool.pick() is pool.slots[1], "not for long"
            monkeypatch.setattr("daemon.servers.pool.IDLE_S", 1e9)
            await until(lambda: sure == [1])
            assert pool.pick() is pool.slots[0]
            assert (server.probes, busy.probes) == (2, 1)
            opened.objections.append("another model")
            monkeypatch.setattr("daemon.servers.pool.IDLE_S", 0.0)
            assert await refused_before_it_is_picked_of(pool, pool.slots[0]) == "another model"
    assert opened.news[2:] == [("ok", "refused")]


async def refused_before_it_is_picked_of(pool: ServerPool, slot: ServerSlot) -> str | None:
    while slot.state != "refused":
        assert pool.pick() is not slot
        await asyncio.sleep(0)
    return slot.reason


async def test_a_probe_that_takes_longer_than_one_may_be_idle_is_not_made_again(
    server: ScriptedSglang, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def slow(request: Request) -> web.StreamResponse:
        await asyncio.sleep(0.6)
        return web.json_response(request.good())

    monkeypatch.setattr("daemon.servers.pool.IDLE_S", 0.5)
    server.probe = slow
    async with Opened(config_for(tmp_path, server.url)) as pool:
        await until(lambda: pool.pick() is pool.slots[0])


async def test_a_lost_connection_leads_to_a_probe_though_the_server_is_there(
    server: ScriptedSglang, tmp_path: Path
) -> None:
    async with Opened(config_for(tmp_path, server.url)) as pool:
        slot = pool.slots[0]
        await until(lambda: slot.state == "ok")
        slot.outstanding = 1
        assert await pool.died(slot, 0, refused=True) is False
        assert pool.pick() is None
        await until(lambda: pool.pick() is slot)
        assert server.probes == 2


async def test_a_server_that_leaves_no_silent_connection_open_is_used_without(
    server: ScriptedSglang, tmp_path: Path
) -> None:
    """Its probes go well: it is there."""
    opened = Opened(config_for(tmp_path, server.url))
    async with opened as pool:
        slot = pool.slots[0]
        for number in range(1, 4):
            await until(lambda: slot.sure and server.probes == number)  # noqa: B023 - awaited within its round
            assert slot.line.number is not None
            server.drop_silent()
            await until(lambda: not slot.sure)
        await until(lambda: slot.sure)
        assert (slot.line.number, server.probes) == (None, 4)
    assert opened.news == [("untried", "ok")]


async def test_a_probe_is_over_whatever_came_of_it(server: ScriptedSglang, tmp_path: Path) -> None:
    over, asked = list[str](), asyncio.Event()

    async def never(request: Request) -> web.Response:
        asked.set()
        await asyncio.sleep(60)
        return web.Response()

    opened = Opened(config_for(tmp_path, server.url))
    opened.pool._on_probed = over.append
    server.probe = never
    async with opened:
        await asked.wait()
        assert over == []
    assert len(over) == 1, "the pool was closed in the middle of it"


async def test_an_objection_refuses_until_it_is_gone_and_is_told_once(server: ScriptedSglang, tmp_path: Path) -> None:
    opened = Opened(config_for(tmp_path, server.url), ["another model"])
    async with opened as pool:
        await until(lambda: server.probes >= 3)
        assert (pool.slots[0].state, pool.slots[0].reason) == ("refused", "another model")
        assert pool.probes == []
        opened.objections.clear()
        await until(lambda: pool.slots[0].state == "ok")
    assert opened.news == [("untried", "refused"), ("refused", "ok")]


async def test_close_ends_everything_at_once(server: ScriptedSglang, tmp_path: Path) -> None:
    opened = Opened(config_for(tmp_path, server.url, "http://127.0.0.1:9"))
    async with opened as pool:
        await until(lambda: pool.all_tried)
        verdict = asyncio.create_task(pool.died(pool.slots[0], 0, refused=False))
        await asyncio.sleep(0.02)
        verdict.cancel()
    others = asyncio.all_tasks() - {asyncio.current_task()}
    assert not [task for task in others if "probe" in repr(task) or "check" in repr(task)]


def test_keys_come_from_the_environment_where_it_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("THE_KEY", "secret")
    assert api_key_of(Server(url="http://h", api_key_env="THE_KEY")) == "secret"
    assert api_key_of(Server(url="http://h", api_key="plain")) == "plain"
    monkeypatch.delenv("THE_KEY")
    with pytest.raises(ConfigError, match="THE_KEY is not set"):
        api_key_of(Server(url="http://h", api_key_env="THE_KEY"))
