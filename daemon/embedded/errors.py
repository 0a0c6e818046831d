"""The four error bodies of SGLang's HTTP server, as recorded.

`{"error": {"message": ..}}` (validation), `{"error": "<str>"}` (schema, auth), the OpenAI-like object (pydantic,
503) and plain text (500).
"""

from __future__ import annotations

from typing import Any

import orjson

GENERATE = ("sglang/srt/entrypoints/http_server.py", 928, "generate_request", "POST /generate")
COMPLETIONS = ("sglang/srt/entrypoints/http_server.py", 1860, "openai_v1_completions", "POST /v1/completions")
QUEUE_FULL = "The request queue is full."


class ApiError(Exception):
    """An answer that is no success: status, body and content type, ready to be sent."""

    def __init__(self, status: int, body: bytes, content_type: str = "application/json") -> None:
        super().__init__(f"{status}: {body.decode('utf-8', 'replace')}")
        self.status, self.body, self.content_type = status, body, content_type


class FatalRequest(Exception):
    """A request that kills the real server: an id outside the vocabulary, an empty text."""


def rejected(message: str) -> ApiError:
    """400 of SGLang's own validation."""
    return ApiError(400, orjson.dumps({"error": {"message": message}}))


def schema_error(message: str, status: int = 400) -> ApiError:
    """400 of the request schema (0.5.22 and later), or 401."""
    return ApiError(status, orjson.dumps({"error": message}))


def openai_error(status: int, message: str, kind: str) -> ApiError:
    """The OpenAI-like object."""
    body = {"object": "error", "message": message, "type": kind, "param": None, "code": status}
    return ApiError(status, orjson.dumps(body))


def queue_full() -> ApiError:
    """503 of a bounded queue; the real server sends no Retry-After."""
    return openai_error(503, QUEUE_FULL, "503")


def internal_error() -> ApiError:
    """500: plain text."""
    return ApiError(500, b"Internal Server Error", "text/plain")


def not_offered(what: str) -> ApiError:
    """400 for what the real server can do and this one can't."""
    return rejected(f"{what} is not offered by the embedded server.")


def invalid_body(*errors: dict[str, Any], at: tuple[str, int, str, str] = GENERATE) -> ApiError:
    """400 of pydantic: the Python repr of its error dictionaries, twice, as FastAPI's handler prints them."""
    file, line, function, route = at
    listed = "".join(f"  {error}\n" for error in errors)
    count = f"{len(errors)} validation error{'s' if len(errors) > 1 else ''}"
    message = f'{count}:\n{listed}\n  File "{file}", line {line}, in {function}\n    {route} {list(errors)}'
    return openai_error(400, message, "Bad Request")


def value_error(field: str, message: str, value: object, at: tuple[str, int, str, str] = GENERATE) -> ApiError:
    """`invalid_body` for a field whose validator raised a ValueError."""
    return invalid_body(
        {
            "type": "value_error",
            "loc": ("body", field),
            "msg": f"Value error, {message}",
            "input": value,
            "ctx": {"error": ValueError(message)},
        },
        at=at,
    )


def wrong_type(kind: str, location: tuple[str, ...], message: str, value: object) -> dict[str, Any]:
    """One pydantic error dictionary."""
    return {"type": kind, "loc": ("body", *location), "msg": message, "input": value}
