"""Dumped hidden states are the model's own, however the passes were cut."""

import asyncio
import json
import os
import time
from pathlib import Path
from typing import Any

import aiohttp
import numpy as np
import pytest

from daemon.embedded.backends import DumpFolderError
from daemon.embedded.options import Options
from daemon.embedded.server import EmbeddedServer
from daemon.sglang_plugin.eagle3_sglang import writer
from daemon.sglang_plugin.eagle3_sglang.dump_format import About, dump_path
from tests.embedded.dumps import ask, check, dumped, dumping, fed, prompt
from tests.embedded.helpers import generate, until
from tests.support.hidden_states import norm_weight, read_dump, reference_rows

Client = aiohttp.ClientSession
LENGTHS = [2, 3, 5, 17, 63, 64, 65, 128, 129, 200, 300, 301]


@pytest.mark.parametrize("norm", ["post", "over_weight"])
async def test_rows_of_concurrent_requests_in_chunks_equal_a_plain_prefill(
    client: Client, tmp_path: Path, norm: str
) -> None:
    async with dumping(tmp_path, chunked_prefill_size=64, dump_norm=norm, seed=3) as server:
        prompts = {f"e3.many.{length}": prompt(length, length) for length in LENGTHS}
        answers = await asyncio.gather(
            *(ask(client, server, rid, ids, 1 + len(ids) % 40) for rid, ids in prompts.items())
        )
        for (rid, ids), answer in zip(prompts.items(), answers, strict=True):
            dump = await dumped(server, rid)
            assert (dump.header.rid, dump.header.layers, dump.header.norm) == (rid, (1, 3, 4), norm)
            assert dump.header.instance == server.dumper.about.instance
            assert len(dump.ids) == len(ids) + len(answer["output_ids"]) - 1
            check(dump, fed(ids, answer), seed=3)
            assert len(set(dump.batches[: len(ids)])) == -(-len(ids) // 64)
            assert answer["meta_info"]["cached_tokens"] == 0


async def test_another_layer_is_far_off(client: Client, tmp_path: Path) -> None:
    """Otherwise the comparison above says nothing."""
    async with dumping(tmp_path, dump_layers=(2, 5)) as server:
        ids = prompt(20)
        dump = await dumped_whole(client, server, "e3.a", ids)
        for other in (1, 3, 4, 6):
            wrong = reference_rows(0, dump.ids, (other, other), "post")
            assert min(abs(wrong[:, slot] - dump.rows[:, slot]).max() for slot in (0, 1)) > 1


async def dumped_whole(client: Client, server: EmbeddedServer, rid: str, ids: list[int], **body: Any) -> Any:
    answer = await ask(client, server, rid, ids, **body)
    dump = await dumped(server, rid)
    check(dump, fed(ids, answer))
    return dump


async def test_layers_are_written_in_ascending_order(client: Client, tmp_path: Path) -> None:
    async with dumping(tmp_path, dump_layers=(5, 0, 2)) as server:
        dump = await dumped_whole(client, server, "e3.a", prompt(9))
        assert dump.header.layers == dump.header.server_layers == (0, 2, 5)


async def test_bfloat16(client: Client, tmp_path: Path) -> None:
    async with dumping(tmp_path, dump_dtype="bfloat16") as server:
        ids = prompt(50)
        answer = await ask(client, server, "e3.a", ids)
        dump = await dumped(server, "e3.a")
        assert dump.header.dtype == "bfloat16"
        check(dump, fed(ids, answer), tolerance={"rtol": 1 / 256, "atol": 1e-3})
        assert not np.allclose(dump.rows, reference_rows(0, dump.ids, (1, 3, 4), "post"), rtol=1e-5)


async def test_a_prefill_pass_alone_has_a_row_for_each_token(client: Client, tmp_path: Path) -> None:
    async with dumping(tmp_path) as server:
        ids = prompt(33)
        for new in (0, 1):
            answer = await ask(client, server, f"e3.{new}", ids, new)
            dump = await dumped(server, f"e3.{new}")
            assert len(answer["output_ids"]) == new
            check(dump, ids)


async def test_other_requests_are_not_dumped(client: Client, tmp_path: Path) -> None:
    async with dumping(tmp_path) as server:
        for rid in ("p1", "e3./../x", "E3.a", "HEALTH_CHECK_0", "xe3.a"):
            await ask(client, server, rid, prompt(5))
        async with client.get(f"{server.url}/health") as response:
            assert response.status == 200
        await asyncio.gather(ask(client, server, "e3.ours", prompt(5)), ask(client, server, "theirs", prompt(6)))
        await asyncio.to_thread(server.dumper.flush)
        assert [path.name for path in tmp_path.glob("*.dump")] == ["e3.ours.dump"]


async def test_batches_and_streams_are_dumped_too(client: Client, tmp_path: Path) -> None:
    async with dumping(tmp_path) as server:
        prompts, sampling = [prompt(5), prompt(9, 3)], {"max_new_tokens": 4, "ignore_eos": True}
        status, answers = await generate(
            client, server.url, input_ids=prompts, rid=["e3.a", "e3.b"], sampling_params=sampling
        )
        assert status == 200
        for ids, answer in zip(prompts, answers, strict=True):
            check(await dumped(server, answer["meta_info"]["id"]), fed(ids, answer))
        body = {"input_ids": prompts[0], "rid": "e3.c", "sampling_params": sampling, "stream": True}
        async with client.post(f"{server.url}/generate", json=body) as response:
            last = json.loads((await response.text()).split("\n\n")[-3].removeprefix("data: "))
        check(await dumped(server, "e3.c"), fed(prompts[0], last))


async def test_a_retracted_request_is_prefilled_again_and_its_rows_come_again(client: Client, tmp_path: Path) -> None:
    async with dumping(tmp_path, retract_every=3, chunked_prefill_size=16) as server:
        prompts = {f"e3.{number}": prompt(10 + 7 * number, number) for number in range(4)}
        answers = await asyncio.gather(*(ask(client, server, rid, ids, 12) for rid, ids in prompts.items()))
        retractions = [answer["meta_info"]["num_retractions"] for answer in answers]
        assert sum(retractions) > 2
        for (rid, ids), answer in zip(prompts.items(), answers, strict=True):
            dump = await dumped(server, rid)
            check(dump, fed(ids, answer))
            if answer["meta_info"]["num_retractions"]:  # the rows of the prompt are not those of its first pass
                assert dump.batches[0] > 1


async def test_retraction_changes_no_answer(client: Client, tmp_path: Path) -> None:
    said = []
    for every in (None, 2):
        async with dumping(tmp_path / str(every), retract_every=every) as server:
            said.append((await ask(client, server, "e3.same", prompt(12), 20))["output_ids"])
    assert said[0] == said[1]


async def test_a_retracted_request_can_be_aborted(client: Client, tmp_path: Path) -> None:
    async with dumping(tmp_path, retract_every=1) as server:
        held = [asyncio.create_task(ask(client, server, f"e3.{number}", prompt(8), 2000)) for number in range(3)]
        await until(lambda: server.service.load().used_tokens > 60)
        await client.post(f"{server.url}/abort_request", json={"abort_all": True})
        for answer in await asyncio.gather(*held):
            assert answer["meta_info"]["finish_reason"]["type"] == "abort"
        assert server.service.load().running == server.service.load().waiting == 0


async def test_an_aborted_request_leaves_what_was_computed(client: Client, tmp_path: Path) -> None:
    async with dumping(tmp_path) as server:
        held = asyncio.create_task(ask(client, server, "e3.a", prompt(8), 2000))
        await until(lambda: server.service.load().used_tokens > 20)
        await client.post(f"{server.url}/abort_request", json={"rid": "e3.a"})
        answer = await held
        assert 0 < len(answer["output_ids"]) < 2000
        check(await dumped(server, "e3.a"), fed(prompt(8), answer))


@pytest.mark.parametrize("no_model", [False, True])
async def test_radix_hits_are_stated_and_their_rows_missing(client: Client, tmp_path: Path, no_model: bool) -> None:
    async with dumping(tmp_path, radix_cache=True, no_model=no_model, fixed_length=8) as server:
        ids = prompt(20)
        first = await ask(client, server, "e3.first", ids)
        assert first["meta_info"]["cached_tokens"] == 0
        assert len((await dumped(server, "e3.first")).ids) == 27
        again = await ask(client, server, "e3.again", ids)
        assert again["meta_info"]["cached_tokens"] == 19
        assert again["meta_info"]["cached_tokens_details"] == {"device": 19, "host": 0}
        longer = await ask(client, server, "e3.longer", [*ids, *first["output_ids"]])
        assert longer["meta_info"]["cached_tokens"] == 27
        branched = await ask(client, server, "e3.branched", [*ids[:12], 900, 901])
        assert branched["meta_info"]["cached_tokens"] == 12
        for rid in ("e3.again", "e3.longer", "e3.branched"):  # rows from 12 on came, and there was no dump to put them
            with pytest.raises(FileNotFoundError):
                await dumped(server, rid)
        own = await ask(client, server, "e3.own", ids, extra_key="e3.own")
        assert own["meta_info"]["cached_tokens"] == 0
        assert len((await dumped(server, "e3.own")).ids) == 27
        async with client.post(f"{server.url}/flush_cache") as response:
            assert response.status == 200
        assert (await ask(client, server, "e3.flushed", ids))["meta_info"]["cached_tokens"] == 0


async def test_without_the_switch_nothing_is_cached(client: Client, tmp_path: Path) -> None:
    async with dumping(tmp_path) as server:
        for rid in ("e3.a", "e3.b"):
            assert (await ask(client, server, rid, prompt(20)))["meta_info"]["cached_tokens"] == 0
            assert len((await dumped(server, rid)).ids) == 27


async def info(client: Client, server: EmbeddedServer) -> dict[str, Any]:
    async with client.get(f"{server.url}/server_info") as response:
        found: dict[str, Any] = await response.json()
    return found


async def test_server_info_says_what_is_captured(client: Client, tmp_path: Path) -> None:
    async with dumping(tmp_path, dump_layers=(1, 2, 6), radix_cache=True, chunked_prefill_size=64) as server:
        said = await info(client, server)
    assert said["enable_return_aux_hidden_states"] is True
    assert said["aux_hidden_state_capture"] == "eagle3"
    assert said["speculative_algorithm"] is None
    assert said["return_aux_hidden_state_layer_ids"] == [1, 2, 6]
    assert said["disable_radix_cache"] is False
    assert said["chunked_prefill_size"] == 64
    async with EmbeddedServer(Options(no_model=True)) as server:
        said = await info(client, server)
    assert said["enable_return_aux_hidden_states"] is False
    assert said["return_aux_hidden_state_layer_ids"] is None
    assert said["disable_radix_cache"] is True


@pytest.mark.parametrize("no_model", [False, True])
async def test_the_server_describes_its_rows(tmp_path: Path, no_model: bool) -> None:
    async with dumping(tmp_path, dump_norm="over_weight", dump_dtype="bfloat16", seed=5, no_model=no_model) as server:
        about = server.dumper.about
        assert About.decode((tmp_path / about.file_name).read_bytes()) == about
        assert (about.pid, about.port, about.dp_rank) == (os.getpid(), server.port, 0)
        assert about.instance == f"{os.getpid()}-{int(about.started_at * 1000)}-0"
        assert (about.layers, about.server_layers) == ((1, 3, 4), (1, 3, 4))
        assert (about.hidden_size, about.dtype, about.norm) == (64, "bfloat16", "over_weight")
        assert (about.architecture, about.model) == ("LlamaForCausalLM", str(server.options.model_path))
        assert (about.norm_eps, about.context_length, about.refusal) == (1e-6, 2048, None)
        weight = np.frombuffer((tmp_path / about.norm_file_name).read_bytes(), "<f4")
        assert np.array_equal(weight, norm_weight(5))
        assert about.norm_has_zero is bool((weight == 0).any())


async def test_a_start_removes_what_dead_servers_said_but_not_what_living_ones_do(tmp_path: Path) -> None:
    def names() -> set[str]:
        return {path.name for path in tmp_path.iterdir()}

    (tmp_path / "e3.kept.dump").write_bytes(b"")
    async with dumping(tmp_path, no_model=True) as first:
        said = {first.dumper.about.file_name, first.dumper.about.norm_file_name}
        await until(lambda: int(time.time() * 1000) > int(first.dumper.about.started_at * 1000))
        async with dumping(tmp_path, no_model=True) as second:
            more = {second.dumper.about.file_name, second.dumper.about.norm_file_name}
            assert names() == {"e3.kept.dump"} | said | more
    assert names() == {"e3.kept.dump"} | said | more  # an orderly end leaves them too
    await until(lambda: int(time.time() * 1000) > int(second.dumper.about.started_at * 1000))
    async with dumping(tmp_path, no_model=True) as third:
        assert names() == {"e3.kept.dump", third.dumper.about.file_name, third.dumper.about.norm_file_name}


async def test_a_server_that_refuses_dumps_nothing(client: Client, tmp_path: Path) -> None:
    async with dumping(tmp_path, dump_refusal="pp_size is 2") as server:
        assert About.decode((tmp_path / server.dumper.about.file_name).read_bytes()).refusal == "pp_size is 2"
        await ask(client, server, "e3.a", prompt(5))
        await asyncio.to_thread(server.dumper.flush)
        assert [path.name for path in tmp_path.iterdir()] == [server.dumper.about.file_name]  # no norm either


async def test_what_was_answered_is_in_the_dump_after_an_orderly_end(client: Client, tmp_path: Path) -> None:
    async with dumping(tmp_path) as server:
        answer = await ask(client, server, "e3.a", prompt(5))
    check(await dumped(server, "e3.a"), fed(prompt(5), answer))


async def test_a_dump_folder_that_cannot_be_made(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    server = dumping(tmp_path / "file" / "dumps")
    with pytest.raises(DumpFolderError, match=r"cannot dump into .*dumps: Not a directory"):
        await server.start()


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"dump_layers": ()}, "different ids of 0..6"),
        ({"dump_layers": (1, 1)}, "different ids"),
        # The last layer cannot be named to the real server either.
        ({"dump_layers": (1, 7)}, r"0..6, not \[1, 7\]: 0-based outputs of a model with 8 layers"),
        ({"dump_norm": "pre"}, "dump_norm must be one of post, over_weight"),
        ({"dump_dtype": "float16"}, "dump_dtype"),
        ({"retract_every": 0}, "retract_every"),
        ({"chunked_prefill_size": 0}, "chunked_prefill_size"),
    ],
)
def test_options_that_cannot_be(options: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        Options(**options)


async def test_rows_without_a_model(client: Client, tmp_path: Path) -> None:
    async with dumping(tmp_path, no_model=True, length_median=30) as server:
        prompts = {f"e3.{number}": prompt(1 + 9 * number, 5) for number in range(20)}
        answers = await asyncio.gather(
            *(generate(client, server.url, rid=rid, input_ids=ids) for rid, ids in prompts.items())
        )
        rows = {}
        for (rid, ids), (_, answer) in zip(prompts.items(), answers, strict=True):
            dump = await dumped(server, rid)
            rows[rid] = dump.rows
            assert dump.ids == fed(ids, answer)
            assert dump.rows.shape[1:] == (4, 64)
            assert np.isfinite(dump.rows).all() and (dump.rows != 0).any(axis=2).all()
            unweighted = dump.rows[:, 3] / norm_weight()
            np.testing.assert_allclose((unweighted**2).mean(axis=1), 1, rtol=1e-4)
        assert np.array_equal(rows["e3.1"][:9], rows["e3.2"][:9])
        await generate(client, server.url, rid="e3.same", input_ids=[7, 7])
        one, other = (await dumped(server, "e3.same")).rows[:2]
        assert not np.allclose(one, other)  # they depend on the position, too


async def test_an_abort_without_a_model_leaves_the_prompt_and_some_of_the_answer(
    client: Client, tmp_path: Path
) -> None:
    async with dumping(tmp_path, no_model=True, fixed_length=100) as server:
        server.faults.latency = 60.0
        held = asyncio.create_task(generate(client, server.url, rid="e3.a", input_ids=prompt(12)))
        await until(lambda: server.service.load().running)
        assert (await dumped(server, "e3.a")).ids == prompt(12)
        await client.post(f"{server.url}/abort_request", json={"rid": "e3.a"})
        _, answer = await held
        assert (await dumped(server, "e3.a")).ids == fed(prompt(12), answer)


@pytest.mark.parametrize("no_model", [False, True])
async def test_token_rows(client: Client, tmp_path: Path, no_model: bool) -> None:
    """Case 17 of the known failures: whatever is mixed up between requests shows in the values."""
    async with dumping(tmp_path, no_model=no_model, dump_token_rows=True, chunked_prefill_size=16) as server:
        prompts = {f"e3.{number}": prompt(2 + 3 * number, number) for number in range(16)}
        for _ in range(2):
            answers = await asyncio.gather(*(ask(client, server, rid, ids, 9) for rid, ids in prompts.items()))
            for (rid, ids), answer in zip(prompts.items(), answers, strict=True):
                dump = await dumped(server, rid)
                assert dump.ids == fed(ids, answer)
                assert (dump.rows == np.array(dump.ids)[:, None, None]).all()
                dump_path(tmp_path, rid).unlink()
            prompts = {f"e3.second.{rid}": ids for rid, ids in prompts.items()}


async def test_the_last_rows_are_not_kept_back_when_nobody_runs_any_more(
    client: Client, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for bound in ("_SHORTEST_S", "_LONGEST_S"):  # how long a next step is waited for
        monkeypatch.setattr(writer, bound, 3600.0)
    async with dumping(tmp_path) as server:
        ids = prompt(9)
        answer = await ask(client, server, "e3.a", ids)
        await until(lambda: len(read_dump(tmp_path, "e3.a").ids) == len(fed(ids, answer)))
        check(read_dump(tmp_path, "e3.a"), fed(ids, answer))
