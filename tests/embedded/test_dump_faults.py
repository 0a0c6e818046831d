"""Every fault of dumps, as a reader of the dump folder meets it."""

import asyncio
from collections.abc import Callable
from pathlib import Path
from typing import Any

import aiohttp
import numpy as np
import pytest

from daemon.embedded.arguments import build_parser, options_from
from daemon.embedded.dump_faults import DUMP_FAULTS, DumpFaults
from daemon.embedded.server import EmbeddedServer
from daemon.sglang_plugin.eagle3_sglang.dump_format import dump_path, error_path
from tests.embedded.dumps import CLOSE, ask, check, dumped, dumping, fed, prompt
from tests.embedded.helpers import until
from tests.support.hidden_states import ReadDump, reference_rows

Client = aiohttp.ClientSession
IDS = prompt(21)
MIDDLE = 10
"""The position that is spoilt: the middle of the prompt, which comes in one pass."""


async def faulty(client: Client, server: EmbeddedServer, fault: Any, rid: str = "e3.a") -> tuple[ReadDump, list[int]]:
    """The dump of a request with a fault, and the ids that were fed."""
    server.dump_faults.force(fault)
    answer = await ask(client, server, rid, IDS)
    return await dumped(server, rid), fed(IDS, answer)


def differing(dump: ReadDump, ids: list[int]) -> list[int]:
    """Positions whose rows are not the model's."""
    expected = reference_rows(0, ids[: len(dump.ids)], (1, 3, 4), "post")
    same = np.isclose(dump.rows, expected, **CLOSE).all(axis=(1, 2))
    return [int(at) for at in np.flatnonzero(~same)]


async def test_a_request_with_a_fault_leaves_all_others_whole(client: Client, tmp_path: Path) -> None:
    async with dumping(tmp_path) as server:
        for fault in DUMP_FAULTS:
            if fault not in ("swap", "late"):
                server.dump_faults.force(fault, None)
        rids = [f"e3.{number}" for number in range(2 * (len(DUMP_FAULTS) - 2))]
        answers = await asyncio.gather(*(ask(client, server, rid, IDS) for rid in rids))
        for rid, answer in list(zip(rids, answers, strict=True))[1::2]:
            check(await dumped(server, rid), fed(IDS, answer))
        assert sum(server.dump_faults.injected.values()) == len(DUMP_FAULTS) - 2


@pytest.mark.parametrize(
    ("fault", "seen"),
    [
        ("nan_row", lambda row: np.isnan(row).sum() == 1),
        ("inf_row", lambda row: np.isinf(row).sum() == 1),
        ("zero_row", lambda row: (row == 0).all()),
    ],
)
@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
async def test_one_bad_row(client: Client, tmp_path: Path, fault: str, seen: Callable[[Any], bool], dtype: str) -> None:
    async with dumping(tmp_path, dump_dtype=dtype) as server:
        dump, ids = await faulty(client, server, fault)
        assert dump.ids == ids
        assert [at for at, row in enumerate(dump.rows) if seen(row)] == [MIDDLE]
        if dtype == "float32":
            assert differing(dump, ids) == [MIDDLE]


async def test_wrong_ids(client: Client, tmp_path: Path) -> None:
    async with dumping(tmp_path) as server:
        dump, ids = await faulty(client, server, "wrong_ids")
        assert [at for at, (one, other) in enumerate(zip(dump.ids, ids, strict=True)) if one != other] == [MIDDLE]
        assert differing(dump, ids) == []


async def test_a_hole(client: Client, tmp_path: Path) -> None:
    async with dumping(tmp_path) as server:
        dump, ids = await faulty(client, server, "hole")
        assert [at for at, batch in enumerate(dump.batches) if batch == 0] == [MIDDLE]
        assert dump.ids[MIDDLE] == 0 and (dump.rows[MIDDLE] == 0).all()
        assert differing(dump, ids) == [MIDDLE]
        assert not error_path(tmp_path, "e3.a").exists()


@pytest.mark.parametrize("rows", [1, 3, 12])
async def test_rows_missing_at_the_end(client: Client, tmp_path: Path, rows: int) -> None:
    async with dumping(tmp_path, dump_faults=DumpFaults(short_rows=rows)) as server:
        dump, ids = await faulty(client, server, "short")
        assert dump.ids == ids[:-rows]
        assert differing(dump, ids) == []


async def test_a_row_too_many(client: Client, tmp_path: Path) -> None:
    async with dumping(tmp_path) as server:
        server.dump_faults.force("extra")
        answer = await ask(client, server, "e3.a", IDS)
        dump = await dumped(server, "e3.a")
        assert dump.ids == [*IDS, *answer["output_ids"]]
        assert len(dump.ids) == len(fed(IDS, answer)) + 1


@pytest.mark.parametrize(
    ("fault", "layers", "hidden_size", "dtype", "norm"),
    [
        ("wrong_layers", (2, 4, 5), 64, "float32", "post"),
        ("missing_layer", (1, 3), 64, "float32", "post"),
        ("wrong_hidden_size", (1, 3, 4), 32, "float32", "post"),
        ("wrong_dtype", (1, 3, 4), 64, "bfloat16", "post"),
        ("wrong_norm", (1, 3, 4), 64, "float32", "over_weight"),
    ],
)
async def test_another_form(
    client: Client, tmp_path: Path, fault: str, layers: tuple[int, ...], hidden_size: int, dtype: str, norm: str
) -> None:
    async with dumping(tmp_path) as server:
        dump, ids = await faulty(client, server, fault)
        header = dump.header
        assert (header.layers, header.hidden_size, header.dtype, header.norm) == (layers, hidden_size, dtype, norm)
        assert header.instance == server.dumper.about.instance  # whose self-description says otherwise
        assert dump.ids == ids
        expected = reference_rows(0, ids, layers, norm)[:, :, :hidden_size]
        loose = {"rtol": 1 / 256, "atol": 1e-3} if dtype == "bfloat16" else CLOSE
        np.testing.assert_allclose(dump.rows, expected, **loose)


async def test_a_swap_exchanges_two_requests(client: Client, tmp_path: Path) -> None:
    async with dumping(tmp_path) as server:
        server.dump_faults.force("swap", None, "swap")
        prompts = {f"e3.{number}": prompt(10 + number, number) for number in range(3)}
        answers = await asyncio.gather(*(ask(client, server, rid, ids, 30) for rid, ids in prompts.items()))
        fed_ids = [fed(ids, answer) for ids, answer in zip(prompts.values(), answers, strict=True)]
        check(await dumped(server, "e3.0"), fed_ids[2])
        check(await dumped(server, "e3.1"), fed_ids[1])
        check(await dumped(server, "e3.2"), fed_ids[0])
        assert (await dumped(server, "e3.0")).header.rid == "e3.0"


async def test_a_swap_with_nobody_changes_nothing(client: Client, tmp_path: Path) -> None:
    async with dumping(tmp_path) as server:
        for number in range(2):  # one after the other: not in flight together
            dump, ids = await faulty(client, server, "swap", f"e3.{number}")
            check(dump, ids)


async def test_late_rows_come_after_the_answer(client: Client, tmp_path: Path) -> None:
    async with dumping(tmp_path, dump_faults=DumpFaults(late=1.0, late_s=60.0)) as server:
        await ask(client, server, "e3.a", IDS)
        await asyncio.to_thread(server.dumper.flush)
        assert not dump_path(tmp_path, "e3.a").exists()
        server.dump_faults.late_s = 0.01
        answer = await ask(client, server, "e3.b", IDS)
        await until(dump_path(tmp_path, "e3.b").exists)
        check(await dumped(server, "e3.b"), fed(IDS, answer))
    assert not dump_path(tmp_path, "e3.a").exists()  # what was to come late never comes from a server that ended


async def test_no_dump_and_a_reason_instead(client: Client, tmp_path: Path) -> None:
    async with dumping(tmp_path) as server:
        server.dump_faults.force("never", "error_file")
        await ask(client, server, "e3.never", IDS)
        await ask(client, server, "e3.error", IDS)
        await asyncio.to_thread(server.dumper.flush)
        assert list(tmp_path.glob("*.dump")) == []
        assert [path.name for path in tmp_path.glob("*.error")] == ["e3.error.error"]
        assert "error_file" in error_path(tmp_path, "e3.error").read_text()


@pytest.mark.parametrize("fault", ["nan_row", "short", "extra", "wrong_layers", "hole", "never"])
async def test_faults_without_a_model(client: Client, tmp_path: Path, fault: Any) -> None:
    async with dumping(tmp_path, no_model=True, fixed_length=8) as server:
        server.dump_faults.force(fault)
        await ask(client, server, "e3.a", IDS)
        if fault == "never":
            await asyncio.to_thread(server.dumper.flush)
            assert not dump_path(tmp_path, "e3.a").exists()
            return
        dump = await dumped(server, "e3.a")
        assert len(dump.ids) == 28 + {"short": -2, "extra": 1}.get(fault, 0)
        assert bool(np.isnan(dump.rows).any()) == (fault == "nan_row")
        assert (0 in dump.batches) == (fault == "hole")
        assert (dump.header.layers == (1, 3, 4)) == (fault != "wrong_layers")


def test_probabilities_depend_on_the_seed_alone() -> None:
    first, again, other = (DumpFaults(nan_row=0.2, late=0.3, seed=seed) for seed in (1, 1, 2))
    drawn = [[switches.next_kind() for _ in range(500)] for switches in (first, again, other)]
    assert drawn[0] == drawn[1] != drawn[2]
    assert set(drawn[0]) == {None, "nan_row", "late"}
    assert 60 < first.injected["nan_row"] < 140


def test_switches_that_cannot_be() -> None:
    with pytest.raises(ValueError, match="sum to at most 1"):
        DumpFaults(nan_row=0.6, late=0.6)
    with pytest.raises(ValueError, match="no fault 'reset'; there are wrong_layers"):
        DumpFaults().force("reset")  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="short_rows"):
        DumpFaults(short_rows=0)


def test_the_command_line_has_every_switch(tmp_path: Path) -> None:
    words = [f"--dump-{name.replace('_', '-')}=0.01" for name in DUMP_FAULTS]
    words += ["--dump-late-s", "3", "--dump-short-rows", "4", "--seed", "9", "--radix-cache", "--retract-every", "5"]
    words += ["--dump-dir", str(tmp_path), "--dump-layers", "2", "0", "6", "--dump-norm", "over_weight"]
    words += ["--dump-dtype", "bfloat16", "--dump-token-rows", "--chunked-prefill-size", "64", "--dump-refusal", "no"]
    options = options_from(build_parser().parse_args(words))
    faults = options.dump_faults
    assert {getattr(faults, name) for name in DUMP_FAULTS} == {0.01}
    assert (faults.late_s, faults.short_rows, faults.seed) == (3.0, 4, 9)
    assert (options.dump_dir, options.dump_layers, options.dump_norm) == (tmp_path, (2, 0, 6), "over_weight")
    assert (options.dump_dtype, options.dump_token_rows, options.dump_refusal) == ("bfloat16", True, "no")
    assert (options.radix_cache, options.retract_every, options.chunked_prefill_size) == (True, 5, 64)
    plain = options_from(build_parser().parse_args([]))
    assert (plain.dump_dir, plain.dump_layers, plain.dump_faults) == (None, (1, 3, 4), DumpFaults())
