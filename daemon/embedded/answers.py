"""Bodies of successful answers: text, ids and `meta_info` as recorded, and the shapes that faults ask for."""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import Any

import orjson

from daemon.embedded.faults import FaultKind
from daemon.embedded.jobs import Job, Result, aborted
from daemon.embedded.tokenizer import ByteTokenizer

HTML = b"<!DOCTYPE html><html><head><title>502 Bad Gateway</title></head><body><h1>502 Bad Gateway</h1></body></html>"
"""What a proxy may put in front of a server that is gone - with status 200, in the fault."""


@dataclass(slots=True, frozen=True)
class Renderer:
    """Renders results.

    Args:
        tokenizer: None for no `text` (`--skip-tokenizer-init`).
        metrics: whether meta_info has the times that `--enable-metrics` adds.
    """

    tokenizer: ByteTokenizer | None
    metrics: bool

    def answer(
        self,
        job: Job,
        result: Result,
        *,
        fault: FaultKind | None = None,
        prompt_ids: bool = False,
        index: int | None = None,
    ) -> bytes:
        """The JSON object for one prompt's result, final or (finish_reason None) so far."""
        if fault == "abort":
            result = Result(result.output_ids[: len(result.output_ids) // 2], aborted(), *_times(result))
        ids = result.ids_json if result.ids_json is not None else orjson.dumps(list(result.output_ids))
        parts = [b"{"]
        if self.tokenizer is not None:
            text = result.text_json
            parts += [b'"text":', text if text is not None else orjson.dumps(self.text(job, result)), b","]
        parts += [b'"output_ids":', ids, b","]
        if fault == "usage_shape" or fault == "flat_shape":
            parts.append(_other_shape(fault, job, result))
        else:
            extra = 3 if fault == "wrong_counts" else 0
            parts += [b'"meta_info":', orjson.dumps(self.meta_info(job, result, extra))]
        if prompt_ids:
            parts += [b',"prompt_token_ids":', orjson.dumps(job.input_ids)]
        if index is not None:
            parts.append(b',"index":%d' % index)
        parts.append(b"}")
        return b"".join(parts)

    def text(self, job: Job, result: Result) -> str:
        """The text of a result: without its stop token or stop string, unless `no_stop_trim`."""
        assert self.tokenizer is not None
        sampling, reason, ids = job.sampling, result.finish_reason, result.output_ids
        matched = reason.get("matched") if reason is not None else None
        if isinstance(matched, int) and not sampling.no_stop_trim:
            ids = ids[:-1]
        text = self.tokenizer.decode(ids, skip_special=sampling.skip_special_tokens)
        if isinstance(matched, str) and matched in text:
            end = text.index(matched)
            text = text[: end + len(matched)] if sampling.no_stop_trim else text[:end]
        return text

    def meta_info(self, job: Job, result: Result, extra_tokens: int = 0) -> dict[str, Any]:
        """`meta_info` in the recorded order; `extra_tokens` makes completion_tokens wrong by that many."""
        count = len(result.output_ids) + extra_tokens
        meta: dict[str, Any] = {
            "id": job.rid,
            "finish_reason": result.finish_reason,
            "prompt_tokens": len(job.input_ids),
            "weight_version": "default",
            "num_retractions": result.retractions,
        }
        if self.metrics:
            meta |= {
                "storage_prefetch_wait": 0.0,
                "storage_staging_wait": 0.0,
                "forward_entry_time": result.started,
                "prefill_finished_time": result.prefilled,
                "queue_time": max(0.0, result.started - job.received),
            }
        meta |= {"reasoning_tokens": 0, "completion_tokens": count, "cached_tokens": result.cached_tokens}
        if result.finish_reason is not None:
            meta["weight_versions"] = weight_versions(count)
        details = {"device": result.cached_tokens, "host": 0} if result.cached_tokens else None
        meta |= {"cached_tokens_details": details, "dp_rank": None}
        if result.finish_reason is not None:
            meta["e2e_latency"] = result.finished - job.received
            if self.metrics:
                meta |= {
                    "request_received_ts": job.received,
                    "first_token_latency": result.prefilled - job.received,
                    "api_server_dispatch_finish_ts": job.received,
                    "request_finished_ts": result.finished,
                }
                if count > 1:
                    meta["decode_throughput"] = (count - 1) / max(1e-6, result.finished - result.prefilled)
        # Streams carry it in the first and the last event, and only with metrics.
        streams, ends = job.progress is not None, result.finish_reason is not None or count <= 1
        if not streams or (self.metrics and ends):
            meta["response_sent_to_client_ts"] = time.time()
        return meta

    def queue_full(self, job: Job, message: str) -> bytes:
        """The object of a streaming request that a full queue refused: 200 outside, 503 inside."""
        now = time.time()
        meta = {
            "id": job.rid,
            "finish_reason": {"type": "abort", "status_code": 503, "message": message},
            "weight_version": "default",
            "e2e_latency": now - job.received,
            "weight_versions": weight_versions(0),
            "completion_tokens": 0,
            "response_sent_to_client_ts": now,
        }
        body: dict[str, Any] = {} if self.tokenizer is None else {"text": ""}
        return orjson.dumps({**body, "output_ids": [], "meta_info": meta})


def weight_versions(count: int) -> list[dict[str, Any]]:
    """Which weights made which tokens: one version for all."""
    return [{"version": "default", "start": 0, "end": count}]


def _times(result: Result) -> tuple[float, float, float]:
    return result.started, result.prefilled, result.finished


def _other_shape(fault: FaultKind, job: Job, result: Result) -> bytes:
    """Counts where other servers and older tools have them, as the inside of an object."""
    prompt, completion = len(job.input_ids), len(result.output_ids)
    reason = (result.finish_reason or {}).get("type")
    counts = {"prompt_tokens": prompt, "completion_tokens": completion}
    shape: dict[str, Any] = {"id": job.rid, "finish_reason": reason, **counts}
    if fault == "usage_shape":
        usage = {**counts, "total_tokens": prompt + completion}
        shape = {"id": job.rid, "object": "text_completion", "finish_reason": reason, "usage": usage}
    return orjson.dumps(shape)[1:-1]
