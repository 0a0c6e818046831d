"""``eagle3 check``: what can be known before the start, each finding with what to do; and it changes nothing."""

import json
import time
from pathlib import Path

import pytest
from aiohttp import web

from contracts.commands import Set
from contracts.fold.run import RunFold
from contracts.records import ServerReading, ServerSample, encode_line
from contracts.run_config import ConfigError, Dataset, load_run_config
from contracts.run_dir import RunDir
from daemon.extract.room import totals_of
from daemon.findings import ERROR, OK, WARNING, Finding
from daemon.preflight import check_run
from daemon.preparation import limits_of
from daemon.prompts.index import PromptIndex
from daemon.recording import record_command
from daemon.sglang_plugin.eagle3_sglang.dump_format import dump_path
from daemon.single import SingleInstance
from daemon.to_capture import to_capture
from tests.support.records import response
from tests.support.runs import make_run, prompt_lines, run_to_end
from tests.support.scripted_sglang import Request, ScriptedSglang


def of_level(findings: list[Finding], level: str) -> list[str]:
    return [f"{finding.what} | {finding.advice or ''}" for finding in findings if finding.level == level]


async def test_all_well(tmp_path: Path) -> None:
    async with ScriptedSglang() as server:
        run = make_run(tmp_path, [server.url], {"B1": prompt_lines(5)}, targets={"B1": 1000})
        found = (await check_run(run)).findings
    assert of_level(found, ERROR) == of_level(found, WARNING) == []
    said = "\n".join(of_level(found, OK))
    assert "5 prompts usable" in said and "SGLang 0.5.23" in said and "GB free" in said
    assert server.seen == [] and server.probes == 1


async def test_servers_that_cannot_be_used_are_named_with_what_to_do(tmp_path: Path) -> None:
    async def shape(request: Request) -> web.Response:
        return web.json_response({"choices": []})

    async def full(request: Request) -> web.Response:
        return web.Response(status=503, text="full")

    async with ScriptedSglang() as odd, ScriptedSglang() as busy:
        odd.probe, busy.probe = shape, full
        run = make_run(tmp_path, [odd.url, busy.url, "http://127.0.0.1:9"], {"B1": prompt_lines(5)})
        errors = of_level((await check_run(run)).findings, ERROR)
    assert len(errors) == 3
    assert "output_ids" in errors[0] and "No work is sent" in errors[0]
    assert "is not ready" in errors[1]
    assert "does not answer: Connection refused" in errors[2] and "Start it" in errors[2]


async def test_prompts(tmp_path: Path) -> None:
    async with ScriptedSglang() as server:
        bad = [*prompt_lines(2), {"sample_id": "neg", "input_ids": [-1]}]
        run = make_run(tmp_path, [server.url], {"B1": bad, "B2": [], "B3": [{"sample_id": "x", "input_ids": []}]})
        found = (await check_run(run)).findings
    assert (
        "B1: 2 prompts usable, 2 of them to be answered, 1 refused | The first: line 3:" in of_level(found, WARNING)[0]
    )
    errors = of_level(found, ERROR)
    assert "B2: " in errors[0] and "no such file" in errors[0]
    assert "B3: 0 prompts usable" in errors[1]


async def test_an_unknown_vocabulary_is_warned_of(tmp_path: Path) -> None:
    async with ScriptedSglang() as server:
        run = make_run(tmp_path, [server.url], {"B1": prompt_lines(2)})
        text = (run / "run.toml").read_text().replace("vocab_size = 1000000\n", "")
        (run / "run.toml").write_text(text)
        assert "vocabulary size is not known" in of_level((await check_run(run)).findings, WARNING)[0]


async def test_a_run_toml_that_would_make_other_data(tmp_path: Path) -> None:
    async with ScriptedSglang() as server:
        run = make_run(tmp_path, [server.url], {"B1": prompt_lines(2)})
        assert await run_to_end(run) is False
        before = (run / "fingerprint.json").read_bytes()
        make_run(tmp_path, [server.url], {"B1": []}, sampling={"temperature": 0.1})
        errors = of_level((await check_run(run)).findings, ERROR)
    assert "temperature was 'not set', is 0.1" in errors[0]
    assert (run / "fingerprint.json").read_bytes() == before


async def test_nothing_is_imported_under_a_living_daemon(tmp_path: Path) -> None:
    source = tmp_path / "source.jsonl"
    source.write_text(json.dumps({"sample_id": "a", "input_ids": [1]}) + "\n")
    async with ScriptedSglang() as server:
        run = make_run(tmp_path, [server.url], {"B1": []}, prompts={"B1": "source.jsonl"})
        holder = SingleInstance(RunDir(run))
        holder.acquire()
        try:
            errors = of_level((await check_run(run)).findings, ERROR)
            assert "no such file" in errors[0]
            assert not (run / "prepared/B1/prompts.jsonl").exists()
        finally:
            holder.release()
        assert of_level((await check_run(run)).findings, ERROR) == []


@pytest.mark.parametrize("text", ["", "[run]\n", "not toml ["])
async def test_a_run_toml_that_cannot_be_used_is_the_callers_to_tell(text: str, tmp_path: Path) -> None:
    (tmp_path / "run.toml").write_text(text)
    with pytest.raises(ConfigError, match=r"run\.toml"):
        await check_run(tmp_path)


async def test_what_was_set_against_run_toml_is_warned_of(tmp_path: Path) -> None:
    run = make_run(tmp_path, ["http://127.0.0.1:9"], {"B1": prompt_lines(2)}, concurrency=32)
    assert record_command(run, Set(concurrency=4)).ok
    warnings = of_level((await check_run(run)).findings, WARNING)
    assert "run.toml says concurrency 32, `set` of " in warnings[0] and "holds: 4" in warnings[0]


async def test_a_target_where_nothing_is_generated_is_an_error(tmp_path: Path) -> None:
    given = [{"sample_id": "p0", "input_ids": [1, 2], "loss_mask": [0, 1]}]
    async with ScriptedSglang() as server:
        run = make_run(tmp_path, [server.url], {"A1": given, "B1": prompt_lines(1)}, targets={"A1": 1_000, "B1": 1_000})
        (error,) = of_level((await check_run(run)).findings, ERROR)
    assert error.startswith(
        "A1: target_tokens = 1,000, but every prompt brings its own answer (loss_mask) | Nothing is"
    )


def test_what_a_run_that_only_extracts_will_capture(tmp_path: Path) -> None:
    """Answers that are there, answers that are taken over at the start, and samples that bring their own."""
    given = {"sample_id": "own", "input_ids": [1, 2, 3], "loss_mask": [0, 1, 1]}
    path = make_run(
        tmp_path, ["http://127.0.0.1:9"], {"B1": [*prompt_lines(4), given]}, extract={"layers": [1]}, stages=["extract"]
    )
    run, dataset, answers = RunDir(path), Dataset(name="B1", responses="made.jsonl"), path / "made.jsonl"
    answers.write_bytes(b"".join(encode_line(response(f"p{number}", 5)) for number in range(3)))
    with PromptIndex.build(run.dataset("B1").prompts, limits_of(load_run_config(run.config), [])) as index:
        total = totals_of(index)
    fold = RunFold(path)
    fold.poll()
    found = to_capture(run, dataset, fold.datasets["B1"], total, 1)
    # 3 answers of 5 tokens to prompts of 2, and 3 tokens of its own
    assert (found.samples, found.tokens) == (4, 3 * 7 + 3)
    assert (found.coming_samples, found.coming_tokens) == (3, 21), "no fold knows them yet"
    answers.rename(run.dataset("B1").responses)
    fold.poll()
    found = to_capture(run, dataset, fold.datasets["B1"], total, 1)
    assert (found.samples, found.tokens, found.coming_samples, found.coming_tokens) == (4, 24, 0, 0)


async def test_a_run_that_only_extracts_answers_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("daemon.extract.rows_of_servers.PROBE_DUMP_S", 0.01)  # this server dumps nothing
    async with ScriptedSglang() as server:
        run = make_run(tmp_path, [server.url], {"B1": prompt_lines(1)}, extract={"layers": [1]}, stages=["extract"])
        said = "\n".join(finding.what for finding in (await check_run(run)).findings)
    assert "B1: 1 prompt usable, 0 of them to be captured (0 tokens), 0 refused" in said
    assert "responses need" not in said and "to be answered" not in said


async def test_a_server_of_another_model_is_an_error_and_nothing_is_written(tmp_path: Path) -> None:
    async with ScriptedSglang() as server:
        run = make_run(tmp_path, [server.url], {"B1": prompt_lines(2)})
        assert of_level((await check_run(run)).findings, ERROR) == []
        assert not (run / "fingerprint.json").exists()
        assert await run_to_end(run) is False
        before = (run / "fingerprint.json").read_bytes()
        server.model_info = {"served_model_name": "Other", "is_generation": True}
        (error,) = of_level((await check_run(run)).findings, ERROR)
    assert "serves the model 'Other', this run was made with '/models/tiny'" in error
    assert "No work is sent to such a server" in error
    assert (run / "fingerprint.json").read_bytes() == before


async def test_servers_of_two_models_are_an_error_also_before_the_first_start(tmp_path: Path) -> None:
    async with ScriptedSglang() as one, ScriptedSglang() as other:
        other.model_info = {"served_model_name": "Other", "is_generation": True}
        run = make_run(tmp_path, [one.url, other.url], {"B1": prompt_lines(2)})
        (error,) = of_level((await check_run(run)).findings, ERROR)
    assert "'Other'" in error and "'/models/tiny'" in error


async def test_a_server_that_the_daemon_refuses_is_an_error(tmp_path: Path) -> None:
    """It was too small for the prompts that the daemon works on; a check of its own would refuse those prompts."""
    async with ScriptedSglang() as server:
        run = make_run(tmp_path, [server.url], {"B1": prompt_lines(2)})
        holder = SingleInstance(RunDir(run))
        holder.acquire()
        reading = ServerReading(url=server.url, state="refused", reason="has room for 10 tokens")
        path = RunDir(run).telemetry_file("server")
        path.parent.mkdir()
        path.write_bytes(encode_line(ServerSample(at=time.time() + 60, servers=[reading])))
        try:
            (error,) = of_level((await check_run(run)).findings, ERROR)
        finally:
            holder.release()
        assert "the daemon that runs sends nothing there: has room for 10 tokens" in error
        assert of_level((await check_run(run)).findings, ERROR) == []


async def test_without_prompts_it_is_not_said_what_they_need(tmp_path: Path) -> None:
    async with ScriptedSglang() as server:
        run = make_run(tmp_path, [server.url], {"B1": []})
        said = of_level((await check_run(run)).findings, OK)
    assert any(what.endswith("free on the run's disk; no prompts are known yet | ") for what in said)


async def test_probes_leave_nothing_in_the_dump_folder(tmp_path: Path) -> None:
    dumps = tmp_path / "dumps"
    dumps.mkdir()

    async def dump(request: Request) -> web.Response:
        assert request.rid.startswith("e3.")
        dump_path(dumps, request.rid).write_bytes(b"rows")
        return web.json_response({"choices": []})

    async with ScriptedSglang() as server:
        server.probe = dump
        extract = {"layers": [1], "dump_dir": str(dumps)}
        run = make_run(tmp_path / "run", [server.url], {"B1": prompt_lines(1)}, extract=extract)
        assert "output_ids" in of_level((await check_run(run)).findings, ERROR)[0]
    assert server.probes == 1 and list(dumps.iterdir()) == []
