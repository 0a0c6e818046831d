"""The OpenAI-like routes, as far as somebody might send prompts there by mistake: /v1/completions, /tokenize.

Kept for one lesson of the recordings: `prompt_token_ids` is refused, or silently ignored when `prompt` is given.
"""

from __future__ import annotations

import time
import uuid
from typing import Any

from daemon.embedded.answers import Renderer, weight_versions
from daemon.embedded.errors import COMPLETIONS, FatalRequest, invalid_body, not_offered, wrong_type
from daemon.embedded.jobs import Job, Result
from daemon.embedded.protocol import Limits, Prompt, check_length, parse_json
from daemon.embedded.sampling import parse_sampling
from daemon.embedded.tokenizer import ByteTokenizer


def parse_completion(
    body: bytes, content_type: str, limits: Limits, tokenizer: ByteTokenizer
) -> tuple[Prompt, dict[str, Any]]:
    """The prompt of a /v1/completions body, and the body.

    Raises:
        ApiError: 400.
        FatalRequest: the prompt has ids outside the vocabulary, or is empty.
    """
    raw = parse_json(body, content_type, COMPLETIONS, "CompletionRequest")
    if "prompt" not in raw:
        raise invalid_body(wrong_type("missing", ("prompt",), "Field required", raw), at=COMPLETIONS)
    prompt = raw["prompt"]
    if isinstance(prompt, str):
        ids = tokenizer.encode(prompt)
    elif isinstance(prompt, list) and all(isinstance(each, int) for each in prompt):
        ids = prompt
    else:
        raise not_offered("A prompt that is no string and no list of ids")
    if raw.get("stream"):
        raise not_offered("Streaming on /v1/completions")
    passed_on = ("temperature", "top_p", "top_k", "stop", "ignore_eos")
    wanted = {name: raw[name] for name in passed_on if name in raw}
    sampling = parse_sampling({"max_new_tokens": raw.get("max_tokens", 16), **wanted})
    check_length(len(ids), sampling.max_new_tokens, limits)
    if not ids or min(ids) < 0 or max(ids) >= limits.vocab_size:
        raise FatalRequest("ids outside the vocabulary, or none")
    return Prompt(uuid.uuid4().hex, ids, sampling), raw


def completion(job: Job, result: Result, raw: dict[str, Any], render: Renderer) -> dict[str, Any]:
    """The answer, in the recorded shape."""
    reason, prompt, count = result.finish_reason or {}, len(job.input_ids), len(result.output_ids)
    choice: dict[str, Any] = {
        "index": 0,
        "text": render.text(job, result),
        "logprobs": None,
        "finish_reason": reason.get("type"),
        "matched_stop": reason.get("matched"),
    }
    if raw.get("return_token_ids"):
        choice |= {"token_ids": list(result.output_ids), "prompt_token_ids": job.input_ids}
    return {
        "id": job.rid,
        "object": "text_completion",
        "created": int(time.time()),
        "model": raw.get("model"),
        "choices": [choice],
        "usage": {
            "prompt_tokens": prompt,
            "total_tokens": prompt + count,
            "completion_tokens": count,
            "prompt_tokens_details": None,
            "reasoning_tokens": 0,
            "completion_tokens_details": None,
        },
        "metadata": {"weight_version": "default", "weight_versions": weight_versions(count)},
    }
