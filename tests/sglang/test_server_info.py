"""What the real server says about itself has the keys that a client needs."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from prometheus_client.parser import text_string_to_metric_families

from tests.sglang.server import SglangServer

# What --enable-metrics gives of the figures that the daemon samples.
METRICS = {
    "sglang:num_running_reqs",
    "sglang:num_queue_reqs",
    "sglang:num_used_tokens",
    "sglang:token_usage",
    "sglang:gen_throughput",
    "sglang:cache_hit_rate",
    "sglang:max_total_num_tokens",
    "sglang:num_retracted_reqs",
    "sglang:prompt_tokens",
    "sglang:generation_tokens",
    "sglang:time_to_first_token_seconds",
    "sglang:e2e_request_latency_seconds",
}


@pytest.mark.parametrize("path", ["/model_info", "/get_model_info"])
def test_model_info(sglang_server: SglangServer, tiny_llama: Path, path: str) -> None:
    info = sglang_server.get(path).json()
    assert info["model_path"] == info["tokenizer_path"] == info["served_model_name"] == str(tiny_llama)
    assert info["is_generation"] is True
    assert info["model_type"] == "llama"
    assert info["architectures"] == ["LlamaForCausalLM"]
    assert info["weight_version"] == "default"


@pytest.mark.parametrize("path", ["/server_info", "/get_server_info"])
def test_server_info(sglang_server: SglangServer, tiny_llama: Path, path: str) -> None:
    info = sglang_server.get(path).json()
    assert info["version"] == "0.5.23"
    assert info["status"] == "ready"
    assert info["model_path"] == str(tiny_llama)
    assert info["max_total_num_tokens"] == 16384
    assert info["max_req_input_len"] == 2042
    assert info["max_running_requests"] == 16
    assert info["tp_size"] == info["dp_size"] == info["pp_size"] == 1
    for key in (
        "chunked_prefill_size",
        "disable_radix_cache",
        "enable_metrics",
        "enable_mixed_chunk",
        "enable_return_aux_hidden_states",
        "max_queued_requests",
        "page_size",
        "return_aux_hidden_state_layer_ids",
        "skip_tokenizer_init",
        "speculative_algorithm",
    ):
        assert key in info


def test_no_get_tells_the_vocabulary_size_but_the_model_folder_does(
    sglang_server: SglangServer, tiny_llama: Path
) -> None:
    for path in ("/model_info", "/server_info", "/v1/models"):
        assert "vocab_size" not in sglang_server.get(path).json()
    assert json.loads((tiny_llama / "config.json").read_text())["vocab_size"] == 1024


def test_models(sglang_server: SglangServer, tiny_llama: Path) -> None:
    (model,) = sglang_server.get("/v1/models").json()["data"]
    assert model["id"] == str(tiny_llama)
    assert model["max_model_len"] == 2048


def test_loads(sglang_server: SglangServer) -> None:
    answer = sglang_server.get("/v1/loads").json()
    assert answer["version"] == "0.5.23"
    (load,) = answer["loads"]
    assert load["dp_rank"] == 0
    assert load["max_total_num_tokens"] == 16384
    for key in (
        "num_running_reqs",
        "num_waiting_reqs",
        "num_used_tokens",
        "token_usage",
        "gen_throughput",
        "cache_hit_rate",
    ):
        assert isinstance(load[key], int | float), key
    assert load["queues"]["retracted"] == 0


def test_metrics(sglang_server: SglangServer) -> None:
    # One answer first: counters appear with the first value.
    sglang_server.post("/generate", {"input_ids": [71, 72], "sampling_params": {"max_new_tokens": 3}})
    families = {family.name for family in text_string_to_metric_families(sglang_server.get("/metrics").text)}
    assert not METRICS - families


@pytest.mark.parametrize("path", ["/health", "/health_generate"])
def test_health_is_a_forward_pass_and_takes_a_second(sglang_server: SglangServer, path: str) -> None:
    response = sglang_server.get(path)
    assert response.status_code == 200
    assert response.elapsed.total_seconds() > 0.9


def test_tokenizer_is_byte_level(sglang_server: SglangServer) -> None:
    answer = sglang_server.post("/tokenize", {"model": "m", "prompt": "hi"}).json()
    assert answer == {"tokens": [71, 72], "count": 2, "max_model_len": 2048}
