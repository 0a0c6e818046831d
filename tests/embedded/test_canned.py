"""The backend without a model: seeded, log-normal, and cheap."""

import statistics
import subprocess
import sys
from typing import Any

import orjson
import pytest

from daemon.embedded.canned import CannedBackend
from daemon.embedded.config import load_config
from daemon.embedded.jobs import Job, Result, Sampling
from daemon.embedded.tokenizer import ByteTokenizer
from tests.embedded.helpers import until

CONFIG = load_config()


def job(rid: str, **params: Any) -> Job:
    return Job(rid, [1, 2, 3], Sampling(**{"max_new_tokens": 2000, **params}), lambda result: None)


def test_rendered_parts_agree_with_the_ids() -> None:
    backend, tokenizer = CannedBackend(CONFIG, length_median=40), ByteTokenizer(CONFIG)
    for number in range(200):
        result = backend.answer(job(str(number), max_new_tokens=60))
        assert result.ids_json is not None and result.text_json is not None and result.finish_reason is not None
        assert orjson.loads(result.ids_json) == list(result.output_ids)
        assert orjson.loads(result.text_json) == tokenizer.decode(result.output_ids)
        ended = result.output_ids[-1] == CONFIG.eos_token_id
        assert result.finish_reason["type"] == ("stop" if ended else "length")
        assert len(result.output_ids) <= 60


def test_answers_depend_on_rid_and_seed_alone() -> None:
    first, again, other = CannedBackend(CONFIG), CannedBackend(CONFIG), CannedBackend(CONFIG, seed=1)
    assert first.answer(job("a")).output_ids == again.answer(job("a")).output_ids
    assert first.answer(job("a")).output_ids != first.answer(job("b")).output_ids
    assert first.answer(job("a")).output_ids != other.answer(job("a")).output_ids


def test_lengths_are_log_normal_about_the_median() -> None:
    backend = CannedBackend(CONFIG, length_median=100, length_sigma=0.5)
    lengths = [len(backend.answer(job(str(number))).output_ids) for number in range(2000)]
    assert 92 < statistics.median(lengths) < 108
    assert statistics.mean(lengths) > statistics.median(lengths)


@pytest.mark.parametrize(
    ("params", "length"),
    [({}, 1500), ({"max_new_tokens": 7}, 7), ({"max_new_tokens": 0}, 0), ({"max_new_tokens": None}, 1500)],
)
def test_fixed_length(params: dict[str, Any], length: int) -> None:
    result = CannedBackend(CONFIG, fixed_length=1500).answer(job("a", **params))
    assert len(result.output_ids) == length
    assert result.finish_reason == {"type": "length", "length": length}
    assert orjson.loads(result.ids_json or b"") == list(result.output_ids)


async def test_slots_queue_and_abort() -> None:
    backend, results = CannedBackend(CONFIG, max_running=2, fixed_length=100), dict[str, Result]()
    backend.start()
    for number in range(4):
        rid = str(number)
        done = lambda result, rid=rid: results.__setitem__(rid, result)  # noqa: E731
        backend.submit(Job(rid, [1] * 5, Sampling(), done, None, 0.0 if number in (1, 3) else 60.0))
    assert (backend.load().running, backend.load().waiting) == (2, 2)
    assert backend.load().used_tokens == 2 * (5 + 50)
    await until(lambda: "1" in results)
    assert (backend.load().running, backend.load().waiting) == (2, 1)
    backend.abort("0")
    await until(lambda: "3" in results)
    backend.abort(None)
    kinds = {rid: (result.finish_reason or {}).get("type") for rid, result in results.items()}
    assert kinds == {"0": "abort", "1": "length", "2": "abort", "3": "length"}
    assert len(results["0"].output_ids) < 100
    backend.stop()


def test_without_a_model_torch_is_not_imported() -> None:
    code = (
        "import sys; from daemon.embedded.server import EmbeddedServer;"
        "from daemon.embedded.backends import make_backend;"
        "from daemon.embedded.arguments import build_parser, options_from;"
        "server = EmbeddedServer(options_from(build_parser().parse_args(['--no-model'])));"
        "make_backend(server.options, server.config, None);"
        "sys.exit('torch' in sys.modules or 'numpy' in sys.modules)"
    )
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
