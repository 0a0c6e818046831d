"""Bodies of the GET routes: what the server is, what it is doing, and its metrics text.

Pure functions of the options and a load. `/server_info` has the recorded keys that a client would use, not all
450 arguments of SGLang.
"""

from __future__ import annotations

import time
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from daemon.embedded.config import ModelConfig
from daemon.embedded.jobs import Load
from daemon.embedded.options import Options

VERSION = "0.5.23"
"""The SGLang version whose recordings are followed."""


@dataclass(slots=True)
class Totals:
    """Counters since the start; `requests` and `tokens` by whether they streamed."""

    requests: dict[bool, int]
    prompt_tokens: dict[bool, int]
    generation_tokens: dict[bool, int]
    aborted: int = 0
    latency_sum: float = 0.0

    @classmethod
    def zero(cls) -> Totals:
        """All zero."""
        return cls({False: 0, True: 0}, {False: 0, True: 0}, {False: 0, True: 0})


def token_capacity(options: Options, config: ModelConfig) -> int:
    """`max_total_num_tokens`: what running requests may hold together."""
    return options.max_total_tokens or options.max_running_requests * config.max_position_embeddings


def model_info(options: Options, config: ModelConfig) -> dict[str, Any]:
    """/model_info and /get_model_info."""
    return {
        "model_path": str(options.model_path),
        "served_model_name": options.model_name,
        "tokenizer_path": str(options.model_path),
        "is_generation": True,
        "preferred_sampling_params": None,
        "weight_version": "default",
        "load_format": "auto",
        "reasoning_parser": None,
        "tool_call_parser": None,
        "disaggregation_mode": "null",
        "has_image_understanding": False,
        "has_audio_understanding": False,
        "model_type": config.model_type,
        "architectures": config.architectures,
    }


def server_info(options: Options, config: ModelConfig, max_req_input_len: int, load: Load) -> dict[str, Any]:
    """/server_info and /get_server_info; `max_req_input_len` as the validation uses it."""
    capacity = token_capacity(options, config)
    captures = options.dump_dir is not None
    arguments: dict[str, Any] = {
        "model_path": str(options.model_path),
        "tokenizer_path": str(options.model_path),
        "tokenizer_mode": "auto",
        "skip_tokenizer_init": options.skip_tokenizer_init,
        "load_format": "auto",
        "trust_remote_code": False,
        "context_length": None,
        "is_embedding": False,
        "revision": None,
        "model_impl": "auto",
        "dtype": "float32",
        "quantization": None,
        "kv_cache_dtype": "auto",
        "mem_fraction_static": 0.1,
        "max_running_requests": options.max_running_requests,
        "max_queued_requests": options.max_queued_requests,
        "max_total_tokens": options.max_total_tokens,
        "chunked_prefill_size": options.chunked_prefill_size,
        "max_prefill_tokens": 16384,
        "schedule_policy": "fcfs",
        "page_size": 1,
        "disable_radix_cache": not options.radix_cache,
        "disable_overlap_schedule": True,
        "enable_mixed_chunk": False,
        "tp_size": 1,
        "pp_size": 1,
        "dp_size": 1,
        "ep_size": 1,
        "nnodes": 1,
        "node_rank": 0,
        "enable_dp_attention": False,
        "device": "cpu",
        "random_seed": options.seed,
        "host": options.host,
        "port": options.port,
        "api_key": None if options.api_key is None else "<redacted>",
        "served_model_name": options.model_name,
        "weight_version": "default",
        "stream_interval": 1,
        "allow_auto_truncate": False,
        "enable_metrics": options.enable_metrics,
        "attention_backend": "torch_native",
        "sampling_backend": "pytorch",
        "grammar_backend": "none",
        "disable_cuda_graph": True,
        "speculative_algorithm": None,
        "speculative_draft_model_path": None,
        "disaggregation_mode": "null",
        "enable_return_hidden_states": False,
        "return_hidden_states_mode": "full" if captures else None,
        # With these on, --speculative-algorithm EAGLE3 only names the convention; the server says None then.
        "enable_return_aux_hidden_states": captures,
        "aux_hidden_state_capture": "eagle3" if captures else None,
        "return_aux_hidden_state_layer_ids": list(options.dump_layers) if captures else None,
        "forward_hooks": None,
    }
    internal = {
        **arguments,
        "effective_max_running_requests_per_dp": options.max_running_requests,
        "last_gen_throughput": load.gen_throughput,
        "memory_usage": {"weight": 0.001, "kvcache": 0.1, "token_capacity": capacity},
    }
    return {
        **arguments,
        "status": "ready",
        "max_total_num_tokens": capacity,
        "max_req_input_len": max_req_input_len,
        "internal_states": [internal],
        "version": VERSION,
    }


def loads(options: Options, config: ModelConfig, load: Load) -> dict[str, Any]:
    """/v1/loads with its one data-parallel rank."""
    capacity, now = token_capacity(options, config), time.time()
    usage = load.used_tokens / capacity
    rank = {
        "timestamp": now,
        "dp_rank": 0,
        "num_running_reqs": load.running,
        "num_waiting_reqs": load.waiting,
        "num_waiting_uncached_tokens": 0,
        "num_used_tokens": load.used_tokens,
        "num_total_tokens": load.used_tokens,
        "num_active_tokens": load.used_tokens,
        "num_prealloc_ready_tokens": 0,
        "max_total_num_tokens": capacity,
        "max_running_requests": options.max_running_requests,
        "token_usage": round(usage, 4),
        "gen_throughput": round(load.gen_throughput, 2),
        "cache_hit_rate": 0.0,
        "utilization": round(load.running / options.max_running_requests, 4),
        "total_prefill_uncached_tokens": load.prefilled_tokens,
        "total_prefill_busy_us": 0,
        "decode_moments": [0.0] * 6,
        "memory": {"weight_gb": 0.001, "kv_cache_gb": 0.1, "graph_gb": 0.0, "token_capacity": capacity},
        "disaggregation": {
            "mode": "null",
            "prefill_bootstrap_queue_reqs": 0,
            "prefill_inflight_queue_reqs": 0,
            "decode_prealloc_queue_reqs": 0,
            "decode_transfer_queue_reqs": 0,
            "decode_retracted_queue_reqs": 0,
            "kv_transfer_speed_gb_s": 0.0,
            "kv_transfer_latency_ms": 0.0,
        },
        "queues": {"waiting": load.waiting, "grammar": 0, "paused": 0, "retracted": 0, "prealloc_ready": 0},
    }
    stamp = datetime.fromtimestamp(now, UTC).isoformat()
    return {"timestamp": stamp, "version": VERSION, "accelerator": None, "num_accelerators": 1, "loads": [rank]}


def models(options: Options, config: ModelConfig) -> dict[str, Any]:
    """/v1/models."""
    model = {
        "id": options.model_name,
        "object": "model",
        "created": int(time.time()),
        "owned_by": "sglang",
        "root": options.model_name,
        "parent": None,
        "max_model_len": config.max_position_embeddings,
    }
    return {"object": "list", "data": [model]}


def metrics(options: Options, config: ModelConfig, load: Load, totals: Totals) -> str:
    """/metrics: the recorded names and labels of the figures this server has."""
    capacity = token_capacity(options, config)
    rank = (
        f'engine_type="unified",model_name="{options.model_name}",moe_ep_rank="0",pp_rank="0",tp_rank="0"'
    )  # fmt: skip
    gauges: dict[str, tuple[str, float]] = {
        "max_total_num_tokens": ("Maximum total number of tokens in the KV cache pool.", capacity),
        "context_len": ("Maximum context length.", config.max_position_embeddings),
        "num_running_reqs": ("The number of running requests.", load.running),
        "num_queue_reqs": ("The number of requests in the waiting queue.", load.waiting),
        "num_grammar_queue_reqs": ("The number of requests in the grammar waiting queue.", 0),
        "gen_throughput": ("The generation throughput (token/s).", load.gen_throughput),
        "cache_hit_rate": ("The prefix cache hit rate.", 0),
        "token_usage": ("The token usage.", load.used_tokens / capacity),
        "num_used_tokens": ("The number of used tokens.", load.used_tokens),
        "num_retracted_reqs": ("The number of retracted requests.", 0),
        "num_paused_reqs": ("The number of paused requests by async weight sync.", 0),
        "utilization": ("The utilization.", load.running / options.max_running_requests),
    }
    lines: list[str] = []
    for name, (meaning, value) in gauges.items():
        lines += [f"# HELP sglang:{name} {meaning}", f"# TYPE sglang:{name} gauge"]
        lines.append(f"sglang:{name}{{{rank}}} {float(value)}")
    counters = {
        "prompt_tokens_total": ("Number of prefill tokens processed.", totals.prompt_tokens),
        "generation_tokens_total": ("Number of generation tokens processed.", totals.generation_tokens),
        "num_requests_total": ("Number of requests processed.", totals.requests),
    }
    for name, (meaning, by_streaming) in counters.items():
        lines += [f"# HELP sglang:{name} {meaning}", f"# TYPE sglang:{name} counter"]
        for streaming, count in by_streaming.items():
            labels = f'engine_type="unified",is_streaming="{str(streaming).lower()}",model_name="{options.model_name}"'
            lines.append(f"sglang:{name}{{{labels}}} {float(count)}")
    labels = f'engine_type="unified",model_name="{options.model_name}"'
    lines += [
        "# HELP sglang:num_aborted_requests_total Number of requests aborted.",
        "# TYPE sglang:num_aborted_requests_total counter",
        f"sglang:num_aborted_requests_total{{{labels}}} {float(totals.aborted)}",
        "# HELP sglang:e2e_request_latency_seconds Histogram of End-to-end request latency in seconds",
        "# TYPE sglang:e2e_request_latency_seconds histogram",
        f'sglang:e2e_request_latency_seconds_bucket{{{labels},le="+Inf"}} {float(sum(totals.requests.values()))}',
        f"sglang:e2e_request_latency_seconds_sum{{{labels}}} {totals.latency_sum}",
        f"sglang:e2e_request_latency_seconds_count{{{labels}}} {float(sum(totals.requests.values()))}",
    ]
    return "\n".join(lines) + "\n"
