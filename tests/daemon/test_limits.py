"""What prompts must fit, from what run.toml says and what the servers tell."""

from __future__ import annotations

from contracts.run_config import parse_run_config
from daemon.preparation import limits_of
from daemon.servers.probe import Probe

TOML = """
[run]
name = "x"
[sampling]
max_new_tokens = 50
[generate]
{generate}
[[servers]]
url = "http://127.0.0.1:1"
[[datasets]]
name = "B1"
"""


def probe(vocab: int | None = None, longest: int | None = None, context: int | None = None) -> Probe:
    return Probe("http://127.0.0.1:1", vocab_size=vocab, max_input_len=longest, context_length=context)


def test_the_narrowest_server_counts() -> None:
    limits = limits_of(parse_run_config(TOML.format(generate="")), [probe(1024, 2042, 2048), probe(900, None, 4096)])
    assert (limits.vocab_size, limits.max_input_len, limits.context_length) == (900, 2042, 2046)


def test_a_small_kv_pool_bounds_prompt_and_answer() -> None:
    """With --max-total-tokens 512 SGLang answers 300 + 400 with 200, length and 210 tokens: cut, and not said."""
    limits = limits_of(parse_run_config(TOML.format(generate="")), [probe(1024, 506, 2048)])
    assert limits.context_length == 510


def test_run_toml_narrows_what_servers_tell_and_never_widens_it() -> None:
    config = parse_run_config(TOML.format(generate="context_length = 100\nvocab_size = 10"))
    assert limits_of(config, [probe(1024, 2042, 2048)]).context_length == 100
    wide = parse_run_config(TOML.format(generate="context_length = 9000"))
    assert limits_of(wide, [probe(1024, 2042, 2048)]).context_length == 2046


def test_nothing_is_known_where_nobody_tells() -> None:
    limits = limits_of(parse_run_config(TOML.format(generate="")), [probe()])
    assert (limits.vocab_size, limits.max_input_len, limits.context_length) == (None, None, None)
