"""The command line of `python -m daemon.embedded`; imports neither torch nor aiohttp."""

from __future__ import annotations

import argparse
from pathlib import Path

from daemon.embedded.config import load_config
from daemon.embedded.dump_faults import DUMP_FAULTS, DumpFaults
from daemon.embedded.faults import PROBABILITIES, Faults
from daemon.embedded.options import DUMP_DTYPES, DUMP_NORMS, Options

_DUMP_FIGURES = {"late": ("late_s", float, "S"), "short": ("short_rows", int, "K")}
"""What a dump fault also needs to know."""


def build_parser() -> argparse.ArgumentParser:
    """The parser; `options_from` turns what it gives into `Options`."""
    parser = argparse.ArgumentParser(
        prog="python -m daemon.embedded",
        description="SGLang's HTTP API over a tiny, seeded, real transformer; with faults on request.",
    )
    parser.add_argument("--host", default="127.0.0.1")
    parser.add_argument("--port", type=int, default=0, help="0 picks a free one (default)")
    parser.add_argument("--port-file", type=Path, metavar="PATH", help="write the port there, atomically, when ready")
    parser.add_argument("--seed", type=int, default=0, help="of the weights, the sampling, and the faults")

    server = parser.add_argument_group("as SGLang's own")
    server.add_argument("--served-model-name", metavar="NAME")
    server.add_argument("--max-running-requests", type=int, default=64, metavar="N")
    server.add_argument("--max-queued-requests", type=int, metavar="N", help="503 beyond that many waiting")
    server.add_argument("--max-total-tokens", type=int, metavar="N", help="tokens running requests may hold together")
    server.add_argument("--api-key", metavar="KEY", help="401 without it, but for /health and /metrics")
    server.add_argument("--skip-tokenizer-init", action="store_true", help="no `text` in answers, none taken")
    server.add_argument("--enable-metrics", action="store_true", help="/metrics, and more of meta_info")
    server.add_argument("--chunked-prefill-size", type=int, default=4096, metavar="N", help="tokens in one pass")

    model = parser.add_argument_group("model")
    model.add_argument("--model-dir", type=Path, metavar="DIR", help="write config.json there, report it as model_path")
    model.add_argument(
        "--eos-bias", type=float, default=0.0, metavar="X", help="added to the EOS logit: shorter answers"
    )
    model.add_argument("--no-model", action="store_true", help="seeded answers without torch, as fast as can be")
    model.add_argument("--length-median", type=float, default=256.0, metavar="N", help="--no-model: answer length")
    model.add_argument("--length-sigma", type=float, default=0.6, metavar="X", help="--no-model: spread of its log")
    model.add_argument("--fixed-length", type=int, metavar="N", help="--no-model: every answer has N ids")

    timing = parser.add_argument_group("timing, seconds")
    timing.add_argument("--health-delay", type=float, default=0.0, metavar="S", help="the real server takes 1 or more")
    timing.add_argument("--health-timeout", type=float, default=20.0, metavar="S", help="503 when hung that long")
    timing.add_argument("--keep-alive", type=float, default=5.0, metavar="S", help="idle connections are closed")
    timing.add_argument("--latency", type=float, default=0.0, metavar="S", help="added to every answer")
    timing.add_argument("--latency-spread", type=float, default=0.0, metavar="S", help="uniformly 0..S more")

    faults = parser.add_argument_group("faults, probability per /generate")
    meanings = {
        "error_500": "500, plain text",
        "error_503": "503, queue full",
        "reset": "closed without an answer",
        "truncate": "half of the body, then closed",
        "html": "200 with an HTML page",
        "hang": "never answered",
        "abort": "200 with finish_reason abort",
        "wrong_counts": "completion_tokens is not len(output_ids)",
        "other_shape": "another server's shape",
    }
    for name in PROBABILITIES:
        faults.add_argument(f"--{name.replace('_', '-')}", type=float, default=0.0, metavar="P", help=meanings[name])
    faults.add_argument("--die-after", type=int, metavar="N", help="exit 1 after N answers")
    faults.add_argument("--hang-after", type=int, metavar="N", help="no more answers, nor health, after N")
    faults.add_argument("--retry-after", type=float, metavar="S", help="header of injected 503s")
    _add_dumping(parser)
    return parser


def _add_dumping(parser: argparse.ArgumentParser) -> None:
    dump = parser.add_argument_group("hidden states")
    count = load_config().num_hidden_layers
    layers = f"0-based outputs, 0..{count - 2} (default: 1 3 4); the model has {count} layers, the last is dumped too"
    dump.add_argument("--dump-dir", type=Path, metavar="DIR", help="dump those of rids that begin with e3. there")
    dump.add_argument("--dump-layers", type=int, nargs="+", default=[1, 3, 4], metavar="L", help=layers)
    dump.add_argument("--dump-norm", choices=DUMP_NORMS, default=DUMP_NORMS[0], help="of the last slot")
    dump.add_argument("--dump-dtype", choices=DUMP_DTYPES, default=DUMP_DTYPES[0])
    dump.add_argument("--dump-token-rows", action="store_true", help="rows hold their token's id, nothing else")
    dump.add_argument("--dump-refusal", metavar="WHY", help="dump nothing, and say why, as on an unfit server")
    dump.add_argument("--radix-cache", action="store_true", help="no rows of what an earlier prompt had in common")
    dump.add_argument("--retract-every", type=int, metavar="N", help="retract the youngest job every N steps")

    faults = parser.add_argument_group("faults of dumps, probability per dumped request")
    for name in DUMP_FAULTS:
        faults.add_argument(f"--dump-{name.replace('_', '-')}", type=float, default=0.0, metavar="P")
    for figure, kind, letter in _DUMP_FIGURES.values():
        default = getattr(DumpFaults, figure)
        faults.add_argument(f"--dump-{figure.replace('_', '-')}", type=kind, default=default, metavar=letter)


def options_from(arguments: argparse.Namespace) -> Options:
    """The options in parsed arguments.

    Raises:
        ValueError: values contradict each other or are out of range.
    """
    given = dict(vars(arguments))
    names = ("latency", "latency_spread", *PROBABILITIES, "die_after", "hang_after", "retry_after")
    faults = Faults(seed=given["seed"], **{name: given.pop(name) for name in names})
    figures = [figure for figure, _, _ in _DUMP_FIGURES.values()]
    wrong = {name: given.pop(f"dump_{name}") for name in (*DUMP_FAULTS, *figures)}
    dump_faults = DumpFaults(seed=given["seed"], **wrong)
    given["dump_layers"] = tuple(given["dump_layers"])
    return Options(**given, faults=faults, dump_faults=dump_faults)
