"""`sampling_params`: which fields there are, what each may hold, and SGLang's words when it may not.

The recorded server answers in two steps: a field that is unknown or of the wrong type is refused by its schema
(`{"error": "<str>"}`), a value out of range by its validation (`{"error": {"message": ..}}`).
"""

from __future__ import annotations

import math
from typing import Any

import orjson

from daemon.embedded.errors import rejected, schema_error
from daemon.embedded.jobs import Sampling

FIELDS = (
    "max_new_tokens", "stop", "stop_token_ids", "stop_regex", "temperature", "top_p", "top_k", "min_p",
    "frequency_penalty", "presence_penalty", "repetition_penalty", "min_new_tokens", "n", "json_schema", "regex",
    "ebnf", "structural_tag", "ignore_eos", "skip_special_tokens", "spaces_between_special_tokens",
    "no_stop_trim", "stream_interval", "logit_bias", "sampling_seed", "custom_params", "beam_width", "watermark",
    "choice",
)  # fmt: skip
"""In the order in which the server lists them."""

_INTEGERS = ("max_new_tokens", "top_k", "min_new_tokens", "n", "sampling_seed")
_NUMBERS = ("temperature", "top_p", "min_p")
_PENALTIES = {
    "frequency_penalty": (-2.0, "[-2, 2]"),
    "presence_penalty": (-2.0, "[-2, 2]"),
    "repetition_penalty": (math.ulp(0.0), "(0, 2] (1.0 = no penalty)"),
}
"""Least value and the server's words for the range, which ends at 2; checked, and without effect here."""
_BOOLEANS = ("ignore_eos", "skip_special_tokens", "no_stop_trim")


def parse_sampling(raw: dict[str, Any]) -> Sampling:
    """The sampling parameters of one request.

    Raises:
        ApiError: 400, with the recorded body for the cases that were recorded and the same shape for the others.
    """
    values: dict[str, Any] = {}
    penalties: dict[str, float] = {}
    for name, value in raw.items():
        if name not in FIELDS:
            expected = ", ".join(f"`{field}`" for field in FIELDS)
            raise schema_error(f"unknown field `{name}`, expected one of {expected}")
        if value is None:
            if name == "max_new_tokens":
                values[name] = None
        elif name in _INTEGERS:
            values[name] = _number(value, whole=True)
        elif name in _NUMBERS:
            values[name] = _number(value, whole=False)
        elif name in _PENALTIES:
            penalties[name] = _number(value, whole=False)
        elif name in _BOOLEANS:
            if not isinstance(value, bool):
                raise invalid_type(value, "a boolean")
            values[name] = value
        elif name == "stop_token_ids":
            values[name] = frozenset(_number(each, whole=True) for each in _sequence(value))
        elif name == "stop":
            values[name] = (value,) if isinstance(value, str) else tuple(_text(each) for each in _sequence(value))
    sampling = Sampling(**values)
    _check_ranges(sampling, penalties)
    return sampling


def invalid_type(value: object, expected: str) -> Exception:
    """A 400 in the words of the server's schema: `invalid type: string "x", expected a sequence`."""
    match value:
        case bool():
            found = f"boolean `{str(value).lower()}`"
        case str():
            found = f"string {orjson.dumps(value).decode()}"
        case int():
            found = f"integer `{value}`"
        case float():
            found = f"floating point `{value}`"
        case list():
            found = "sequence"
        case dict():
            found = "map"
        case _:
            found = "null"
    return schema_error(f"invalid type: {found}, expected {expected}")


def _number(value: object, *, whole: bool) -> Any:
    if isinstance(value, bool) or not isinstance(value, int if whole else int | float):
        raise invalid_type(value, "i64" if whole else "f64")
    return value


def _sequence(value: object) -> list[Any]:
    if not isinstance(value, list):
        raise invalid_type(value, "a sequence")
    return value


def _text(value: object) -> str:
    if not isinstance(value, str):
        raise invalid_type(value, "a string")
    return value


def _check_ranges(sampling: Sampling, penalties: dict[str, float]) -> None:
    most, least = sampling.max_new_tokens, sampling.min_new_tokens
    if not (math.isfinite(sampling.temperature) and sampling.temperature >= 0):
        raise rejected(f"temperature must be a non-negative finite number, got {sampling.temperature}.")
    if not 0 < sampling.top_p <= 1:
        raise rejected(f"top_p must be in (0, 1], got {sampling.top_p}.")
    if not 0 <= sampling.min_p <= 1:
        raise rejected(f"min_p must be in [0, 1], got {sampling.min_p}.")
    if sampling.temperature > 0 and sampling.top_k < 1 and sampling.top_k != -1:  # greedy takes no notice of it
        raise rejected(f"top_k must be -1 (disable) or at least 1, got {sampling.top_k}.")
    for name, (lowest, words) in _PENALTIES.items():
        if name in penalties and not lowest <= penalties[name] <= 2.0:
            raise rejected(f"{name} must be in {words}, got {penalties[name]}.")
    if least < 0:
        raise rejected(f"min_new_tokens must be in [0, max_new_tokens], got {least}.")
    if most is not None and most < 0:
        raise rejected(f"max_new_tokens must be at least 0, got {most}.")
    if most is not None and least > most:
        raise rejected(f"min_new_tokens must be in [0, max_new_tokens({most})], got {least}.")
    if sampling.n < 1:
        raise rejected(f"n must be at least 1, got {sampling.n}.")
