"""``eagle3 check``: what can be known before the start, each finding with what to do; and it changes nothing."""

import json
from pathlib import Path

import pytest
from aiohttp import web

from contracts.commands import Set
from contracts.run_config import ConfigError
from contracts.run_dir import RunDir
from daemon.preflight import ERROR, OK, WARNING, Finding, check_run
from daemon.recording import record_command
from daemon.single import SingleInstance
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
