"""Wire types of SGLang's HTTP API, as recorded from 0.5.23 and named by older versions.

Only what is read is declared; unknown keys are skipped. The request has ``input_ids`` and nothing that looks like it:
``prompt_token_ids`` is a field of other servers' *responses*, which SGLang ignores or refuses.
"""

from __future__ import annotations

from typing import Annotated, Any, Final

import msgspec

from contracts.records import TokenIds

SAMPLING_FIELDS: Final = (
    "max_new_tokens",
    "stop",
    "stop_token_ids",
    "stop_regex",
    "temperature",
    "top_p",
    "top_k",
    "min_p",
    "frequency_penalty",
    "presence_penalty",
    "repetition_penalty",
    "min_new_tokens",
    "n",
    "json_schema",
    "regex",
    "ebnf",
    "structural_tag",
    "ignore_eos",
    "skip_special_tokens",
    "spaces_between_special_tokens",
    "no_stop_trim",
    "stream_interval",
    "logit_bias",
    "sampling_seed",
    "custom_params",
    "beam_width",
    "watermark",
    "choice",
)
"""Sampling fields that 0.5.23 accepts (its own error message lists them); any other is refused with a 400."""


class GenerateRequest(msgspec.Struct, kw_only=True, omit_defaults=True):
    """Body of ``POST /generate`` for one sample."""

    rid: str
    input_ids: TokenIds
    sampling_params: msgspec.Raw


class FinishReason(msgspec.Struct):
    """Why an answer ended. ``abort`` comes with HTTP 200 and is a failure."""

    type: str
    matched: int | str | list[int] | None = None
    length: int | None = None
    message: str | None = None
    status_code: int | None = None
    err_type: str | None = None


class MetaInfo(msgspec.Struct):
    """The ``meta_info`` of an answer."""

    id: str
    finish_reason: FinishReason | None
    prompt_tokens: Annotated[int, msgspec.Meta(ge=0)]
    completion_tokens: Annotated[int, msgspec.Meta(ge=0)]
    cached_tokens: int | None = None
    e2e_latency: float | None = None
    weight_version: str | None = None


class GenerateAnswer(msgspec.Struct):
    """Body of a 200 from ``/generate``. ``text`` is absent with ``--skip-tokenizer-init`` and is never needed."""

    output_ids: TokenIds
    meta_info: MetaInfo


class ValidationError(msgspec.Struct, forbid_unknown_fields=True):
    """``{"error": {"message": ...}}``: request validation."""

    error: dict[str, Any]

    @property
    def text(self) -> str:
        """The server's sentence."""
        return str(self.error.get("message", self.error))


class PlainError(msgspec.Struct, forbid_unknown_fields=True):
    """``{"error": "..."}``: schema and authorisation."""

    error: str

    @property
    def text(self) -> str:
        """The server's sentence."""
        return self.error


class ObjectError(msgspec.Struct):
    """``{"object": "error", "message", "type", "code"}``: pydantic validation and 503."""

    object: str
    message: str
    type: str | None = None
    code: int | str | None = None

    @property
    def text(self) -> str:
        """The server's sentence."""
        return self.message


class ModelInfo(msgspec.Struct):
    """``GET /model_info`` (older: ``/get_model_info``)."""

    model_path: str | None = None
    served_model_name: str | None = None
    tokenizer_path: str | None = None
    is_generation: bool | None = None
    weight_version: str | None = None
    model_type: str | None = None
    architectures: list[str] | None = None


class ServerInfo(msgspec.Struct):
    """``GET /server_info`` (older: ``/get_server_info``): the few of its many arguments that matter here."""

    version: str | None = None
    status: str | None = None
    model_path: str | None = None
    max_total_num_tokens: int | None = None
    max_req_input_len: int | None = None
    context_length: int | None = None
    skip_tokenizer_init: bool | None = None
    disable_radix_cache: bool | None = None
    speculative_algorithm: str | None = None
    max_running_requests: int | None = None
    chunked_prefill_size: int | None = None
    tp_size: int | None = None
    dp_size: int | None = None
    pp_size: int | None = None
    ep_size: int | None = None
    random_seed: int | None = None
    dtype: str | None = None
    quantization: str | None = None
    kv_cache_dtype: str | None = None
    mem_fraction_static: float | None = None
    attention_backend: str | None = None
    schedule_policy: str | None = None
    enable_mixed_chunk: bool | None = None
    disable_cuda_graph: bool | None = None
    disable_overlap_schedule: bool | None = None


class LoadQueues(msgspec.Struct):
    """``queues`` of one DP rank."""

    waiting: int | None = None
    retracted: int | None = None


class Load(msgspec.Struct):
    """One DP rank of ``GET /v1/loads``."""

    dp_rank: int | None = None
    num_running_reqs: int | None = None
    num_waiting_reqs: int | None = None
    num_used_tokens: int | None = None
    max_total_num_tokens: int | None = None
    token_usage: float | None = None
    gen_throughput: float | None = None
    cache_hit_rate: float | None = None
    queues: LoadQueues | None = None


class Loads(msgspec.Struct):
    """``GET /v1/loads``."""

    loads: list[Load]
    version: str | None = None


METRICS: Final[dict[str, str]] = {
    "sglang:num_running_reqs": "running",
    "sglang:num_queue_reqs": "queued",
    "sglang:token_usage": "kv_usage",
    "sglang:gen_throughput": "tokens_per_s",
    "sglang:cache_hit_rate": "cache_hit",
    "sglang:num_retracted_reqs": "retracted",
}
"""Prometheus samples of ``GET /metrics`` that are read, and what they are called here."""

WIRE_TYPES: Final[dict[str, type[msgspec.Struct]]] = {
    "sglang.request": GenerateRequest,
    "sglang.answer": GenerateAnswer,
    "sglang.error.validation": ValidationError,
    "sglang.error.plain": PlainError,
    "sglang.error.object": ObjectError,
    "sglang.model_info": ModelInfo,
    "sglang.server_info": ServerInfo,
    "sglang.loads": Loads,
}

_ANSWER: Final = msgspec.json.Decoder(GenerateAnswer)
_ERROR: Final[tuple[msgspec.json.Decoder[ValidationError | PlainError | ObjectError], ...]] = (
    msgspec.json.Decoder(ValidationError),
    msgspec.json.Decoder(PlainError),
    msgspec.json.Decoder(ObjectError),
)


def decode_answer(body: bytes) -> GenerateAnswer:
    """Decode a 200 body of ``/generate`` for one sample.

    Raises:
        msgspec.DecodeError: The body is not JSON, or not of the declared shape; the message says which key.
    """
    return _ANSWER.decode(body)


def error_text(body: bytes, limit: int = 300) -> str:
    """Return the sentence that an error body carries, whichever of SGLang's four shapes it has.

    The fourth shape is plain text, which is also what a proxy's HTML page falls under.
    """
    for decoder in _ERROR:
        try:
            return _shorten(decoder.decode(body).text, limit)
        except (msgspec.DecodeError, UnicodeDecodeError):
            continue
    return _shorten(body.decode("utf-8", "replace"), limit)


def _shorten(text: str, limit: int) -> str:
    text = " ".join(text.split())
    return text if len(text) <= limit else text[: limit - 1] + "…"
