"""The body of POST /generate: from bytes to prompts with their parameters, or the recorded refusal.

The order of the checks is the real server's as far as the recordings tell: JSON and types (pydantic), the sampling
schema, which prompt there is, rids, then lengths and ranges.
"""

from __future__ import annotations

import uuid
from array import array
from collections import Counter
from dataclasses import dataclass
from itertools import chain
from typing import Any

import orjson

from daemon.embedded.errors import (
    GENERATE,
    ApiError,
    FatalRequest,
    internal_error,
    invalid_body,
    not_offered,
    rejected,
    value_error,
    wrong_type,
)
from daemon.embedded.jobs import Sampling
from daemon.embedded.sampling import invalid_type, parse_sampling
from daemon.embedded.tokenizer import ByteTokenizer

RESERVED_TOKENS = 6
"""What SGLang takes off the context for `max_req_input_len` (2048 -> 2042 in the recording)."""


@dataclass(slots=True, frozen=True)
class Limits:
    """What a request is measured against."""

    vocab_size: int
    context_length: int
    max_req_input_len: int


@dataclass(slots=True)
class Prompt:
    """One prompt of a request."""

    rid: str
    input_ids: list[int]
    sampling: Sampling
    cache_key: str = ""
    """`extra_key` and `cache_salt`: whose cached prefixes this prompt may use."""


@dataclass(slots=True)
class GenerateRequest:
    """A valid request; `batch` says that the answer is a list, even for a single prompt."""

    prompts: list[Prompt]
    batch: bool
    stream: bool
    return_prompt_ids: bool


def parse_json(body: bytes, content_type: str, at: tuple[str, int, str, str], model: str) -> dict[str, Any]:
    """The JSON object in `body`.

    Raises:
        ApiError: 400 in pydantic's words for an empty, malformed or mistyped body.
    """
    if not body:
        raise invalid_body(wrong_type("missing", (), "Field required", None), at=at)
    found: Any = body
    if not content_type or "json" in content_type:
        try:
            found = orjson.loads(body)
        except orjson.JSONDecodeError as error:
            reason = error.msg.split(": line ")[0]
            where: dict[str, Any] = {"type": "json_invalid", "loc": ("body", error.pos), "msg": "JSON decode error"}
            raise invalid_body({**where, "input": {}, "ctx": {"error": reason}}, at=at) from None
    if isinstance(found, dict):
        return found
    message = f"Input should be a dictionary or an instance of {model}"
    raise invalid_body(
        {**wrong_type("dataclass_type", (), message, found), "ctx": {"class_name": model}}, at=at
    )  # fmt: skip


def parse_generate(body: bytes, content_type: str, limits: Limits, tokenizer: ByteTokenizer | None) -> GenerateRequest:
    """Check a /generate body as SGLang does.

    Args:
        body: the request's bytes.
        content_type: its Content-Type header, or "".
        limits: vocabulary and lengths.
        tokenizer: None when the server was started with `--skip-tokenizer-init`.

    Raises:
        ApiError: the status and body to answer with.
        FatalRequest: the real server dies of this one.
    """
    raw = parse_json(body, content_type, GENERATE, "GenerateReqInput")
    input_ids, sampling, rid = raw.get("input_ids"), raw.get("sampling_params"), raw.get("rid")
    if input_ids is not None:
        _check_ids(input_ids)
    _check_types(sampling, rid)
    hidden = raw.get("return_hidden_states")
    if hidden is not None and not isinstance(hidden, bool | list):
        raise invalid_type(hidden, "a value or an array of values for BoolOrList")
    parsed = [parse_sampling(each) for each in sampling] if isinstance(sampling, list) else None
    single = Sampling() if sampling is None else parse_sampling(sampling) if isinstance(sampling, dict) else None
    prompts, batch = _prompts(raw, tokenizer)
    if hidden is True or isinstance(hidden, list):
        raise not_offered("return_hidden_states")
    if raw.get("return_logprob"):
        raise not_offered("return_logprob")
    if parsed is not None and (not batch or len(parsed) != len(prompts)):
        raise internal_error()
    samplings = parsed if parsed is not None else [single or Sampling()] * len(prompts)
    rids = _rids(rid, len(prompts), batch)
    if samplings[0].n > 1:
        # n answers to each prompt, with rids of the server's own but for the first (the real server makes all).
        count, batch = samplings[0].n, True
        prompts = [ids for ids in prompts for _ in range(count)]
        samplings = [each for each in samplings for _ in range(count)]
        rids = [name if not index else uuid.uuid4().hex for name in rids for index in range(count)]
    for ids, each in zip(prompts, samplings, strict=True):
        check_length(len(ids), each.max_new_tokens, limits)
        if ids and not (min(ids) >= 0 and max(ids) < limits.vocab_size):
            raise FatalRequest(f"token ids outside 0..{limits.vocab_size - 1}")
    key = orjson.dumps([raw.get("extra_key"), raw.get("cache_salt")]).decode()
    return GenerateRequest(
        [Prompt(*each, key) for each in zip(rids, prompts, samplings, strict=True)],
        batch,
        bool(raw.get("stream")),
        bool(raw.get("return_prompt_token_ids")),
    )


def check_length(count: int, max_new_tokens: int | None, limits: Limits) -> None:
    """Refuse what does not fit the context.

    Raises:
        ApiError: 400, naming the limit that was exceeded.
    """
    context = limits.context_length
    if count >= context:
        raise rejected(f"The input ({count} tokens) is longer than the model's context length ({context} tokens).")
    if max_new_tokens is not None and count + max_new_tokens > context:
        raise rejected(
            f"Requested token count exceeds the model's maximum context length of {context} tokens. You requested a "
            f"total of {count + max_new_tokens} tokens: {count} tokens from the input messages and {max_new_tokens} "
            "tokens for the completion. Please reduce the number of tokens in the input messages or the completion "
            "to fit within the limit."
        )
    if count >= limits.max_req_input_len:
        raise rejected(
            f"Input length ({count} tokens) exceeds the maximum allowed length ({limits.max_req_input_len} tokens). "
            "Use a shorter input or enable --allow-auto-truncate."
        )


def _check_ids(input_ids: Any) -> None:
    if not isinstance(input_ids, list):
        raise value_error("input_ids", f"must be list or null; got {type(input_ids).__name__}", input_ids)
    nested = bool(input_ids) and isinstance(input_ids[0], list)
    if not nested and input_ids and not isinstance(input_ids[0], int | float):
        message = f"elements must be int or list; got {type(input_ids[0]).__name__}"
        raise value_error("input_ids", message, input_ids)
    if nested:
        odd = next((each for each in input_ids if not isinstance(each, list)), None)
        if odd is not None:
            raise value_error("input_ids", f"elements must be list; got {type(odd).__name__}", input_ids)
    try:
        array("q", chain.from_iterable(input_ids) if nested else input_ids)
    except (TypeError, OverflowError) as error:
        raise value_error("input_ids", f"contains non-int64 element: {error}", input_ids) from None


def _check_types(sampling: Any, rid: Any) -> None:
    if sampling is not None and not isinstance(sampling, dict):
        if not isinstance(sampling, list):
            as_list = wrong_type(
                "list_type", ("sampling_params", "list[dict[str,any]]"), "Input should be a valid list", sampling
            )
            message = "Input should be a valid dictionary"
            as_dict = wrong_type("dict_type", ("sampling_params", "dict[str,any]"), message, sampling)
            raise invalid_body(as_list, as_dict)
        for index, each in enumerate(sampling):
            if not isinstance(each, dict):
                where = ("sampling_params", "list[dict[str,any]]", str(index))
                raise invalid_body(wrong_type("dict_type", where, "Input should be a valid dictionary", each))
    if isinstance(rid, list) and all(isinstance(each, str) for each in rid):
        return
    if rid is not None and not isinstance(rid, str):
        as_str = wrong_type("string_type", ("rid", "str"), "Input should be a valid string", rid)
        as_list = wrong_type("list_type", ("rid", "list[str]"), "Input should be a valid list", rid)
        raise invalid_body(as_str, as_list)


def _prompts(raw: dict[str, Any], tokenizer: ByteTokenizer | None) -> tuple[list[list[int]], bool]:
    """The prompts' ids and whether they came as a batch; `input_ids` wins over `text`."""
    input_ids, text = raw.get("input_ids"), raw.get("text")
    if input_ids is not None:
        if not input_ids:
            raise rejected("input_ids cannot be empty.")
        batch = isinstance(input_ids[0], list)
        return (input_ids if batch else [input_ids]), batch
    if text is None:
        raise rejected("Either text, input_ids or input_embeds should be provided.")
    if tokenizer is None:
        raise rejected(
            "The engine initialized with skip_tokenizer_init=True cannot accept text prompts. Please provide "
            "input_ids or re-initialize the engine with skip_tokenizer_init=False."
        )
    texts = text if isinstance(text, list) else [text]
    if not texts or not all(isinstance(each, str) for each in texts):
        raise invalid_body(wrong_type("string_type", ("text", "str"), "Input should be a valid string", text))
    if "" in texts:
        raise FatalRequest("an empty text")
    return [tokenizer.encode(each) for each in texts], isinstance(text, list)


def _rids(rid: Any, count: int, batch: bool) -> list[str]:
    """One rid per prompt: the client's, the client's numbered, or random ones."""
    if rid is None:
        return [uuid.uuid4().hex for _ in range(count)]
    if isinstance(rid, str):
        return [f"{rid}_{index}" for index in range(count)] if batch else [rid]
    if not batch or len(rid) != count:
        raise internal_error()
    twice = [name for name, times in Counter(rid).items() if times > 1]
    if twice:
        raise rejected(f"Duplicate request IDs detected within the request: {twice}")
    return list(rid)


def duplicate(rid: str) -> ApiError:
    """400 for a rid that is in flight."""
    return rejected(f"Duplicate request ID detected: {rid}")
