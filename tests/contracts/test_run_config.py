"""run.toml: what is right is typed, what is wrong is named with its place and a way out."""

from __future__ import annotations

from pathlib import Path

import pytest

from contracts.run_config import ConfigError, load_run_config, parse_run_config

SMALLEST = """
[run]
name = "synth_100k"
[[servers]]
url = "http://127.0.0.1:30000"
[[datasets]]
name = "B2_opencodeinstruct"
"""


def test_the_smallest_file_has_all_defaults() -> None:
    config = parse_run_config(SMALLEST)
    assert config.run.name == "synth_100k"
    assert (config.generate.concurrency, config.generate.target_tokens, config.max_new_tokens) == (256, None, 128)
    assert config.target_of(config.datasets[0]) is None


def test_a_data_sets_own_target_comes_first() -> None:
    config = parse_run_config("[generate]\ntarget_tokens = 10_000_000\n" + SMALLEST + "target_tokens = 5\n")
    assert config.target_of(config.datasets[0]) == 5
    config = parse_run_config("[generate]\ntarget_tokens = 10_000_000\n" + SMALLEST)
    assert config.target_of(config.datasets[0]) == 10_000_000


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("[generat]\nconcurrency = 3\n", "unknown table [generat]. Did you mean 'generate'?"),
        ("[generate]\nconcurency = 3\n", "[generate]: unknown key 'concurency'. Did you mean 'concurrency'?"),
        ("[generate]\nconcurrency = 0\n", "generate.concurrency: Expected `int` >= 1"),
        ('[generate]\nconcurrency = "many"\n', "generate.concurrency: Expected `int`, got `str`"),
        ('[generate]\nover_long = "cut"\n', '[generate] over_long must be "refuse" or "clip"'),
        ("[sampling]\nmax_tokens = 5\n", "SGLang has no sampling field 'max_tokens' (SGLang's name for it is"),
        ("[sampling]\ntemprature = 0.6\n", "no sampling field 'temprature'. Did you mean 'temperature'?"),
        ("[sampling]\nmax_new_tokens = -1\n", "[sampling] max_new_tokens must be a whole number >= 0, not -1"),
        ("[sampling]\nmax_new_tokens = 1.5\n", "[sampling] max_new_tokens must be a whole number >= 0, not 1.5"),
        ("[sampling]\nn = 2\n", "[sampling] n must be 1"),
        ("[alerts]\nlength_share_pct = 101\n", "alerts.length_share_pct: Expected `float` <= 100"),
        ('[[servers]]\nurl = "127.0.0.1:30000"\n', "servers[0].url: must be like http://127.0.0.1:30000"),
        ('[[servers]]\nurl = "http://h/v1"\n', "servers[0].url: must be like http://127.0.0.1:30000"),
        ('[[datasets]]\nname = "a/b"\n', "datasets[0].name: may hold letters, digits"),
        ('[[datasets]]\nname = "B1"\nprompt = "x"\n', "[[datasets]] number 1: unknown key 'prompt'. Did you mean"),
        ("[generate\n", "not valid TOML"),
    ],
)
def test_what_is_wrong_is_named_with_its_place(text: str, said: str) -> None:
    with pytest.raises(ConfigError) as error:
        parse_run_config(text + SMALLEST, "my/run.toml")
    assert str(error.value).startswith("my/run.toml: ")
    assert said in str(error.value)


def test_two_data_sets_of_one_name_are_refused() -> None:
    with pytest.raises(ConfigError, match="'B2_opencodeinstruct' stands there 2 times"):
        parse_run_config(SMALLEST + '[[datasets]]\nname = "B2_opencodeinstruct"\n')


@pytest.mark.parametrize("missing", ["servers", "datasets"])
def test_servers_and_data_sets_are_needed(missing: str) -> None:
    text = SMALLEST.replace(f"[[{missing}]]", "[[gone]]").replace("[[gone]]\n", f"[[{missing}]]\n")
    empty = {"servers": "servers = []\n", "datasets": "datasets = []\n"}[missing]
    other = (
        text.replace('[[servers]]\nurl = "http://127.0.0.1:30000"\n', "")
        if missing == "servers"
        else text.replace('[[datasets]]\nname = "B2_opencodeinstruct"\n', "")
    )
    with pytest.raises(ConfigError, match=rf"no \[\[{missing}\]\]"):
        parse_run_config(empty + other)


def test_an_empty_or_missing_file_says_what_to_do(tmp_path: Path) -> None:
    path = tmp_path / "run.toml"
    with pytest.raises(ConfigError, match="no such file"):
        load_run_config(path)
    path.write_text(" \n")
    with pytest.raises(ConfigError, match="is empty"):
        load_run_config(path)
    path.write_bytes(b"\xff\xfe")
    with pytest.raises(ConfigError, match="cannot be read"):
        load_run_config(path)
