"""One sample against one server -> a response record or a named failure. Touches no journal and no shared state.

Kept so that executors can later run elsewhere, beside their servers, with the same daemon.
"""

from __future__ import annotations

import msgspec

from contracts.clock import Clock
from contracts.records import FailureClass, Response
from contracts.sample_id import SampleId
from contracts.sglang import GenerateRequest, error_text
from daemon.generate.retry import BUSY_STATUS, classify_status
from daemon.servers.answers import disagreement, holds_id, is_json, one_line, parse_answer
from daemon.servers.client import AnswerTimeoutError, ConnectionLostError, SglangClient


class Job(msgspec.Struct, frozen=True, gc=False):
    """Everything that is needed to run one attempt."""

    dataset: str
    sample_id: SampleId
    rid: str
    input_ids: bytes
    """JSON text of the prompt's token ids."""
    prompt_tokens: int
    sampling_params: bytes
    """JSON text."""
    attempt: int
    """1 for the first."""


class Failed(msgspec.Struct, frozen=True, gc=False):
    """An attempt that gave no usable answer."""

    error: FailureClass
    message: str
    status: int | None = None
    busy: bool = False
    """The server says that it has no room now: the sample is not to blame."""
    retry_after_s: float | None = None
    completion_tokens: int | None = None
    """Of a partial (aborted) answer."""
    connection_lost: bool = False
    """The connection ended: whether the server died is for the pool to find out."""
    refused: bool = False
    """It was never taken: nothing listens there."""
    timed_out: bool = False
    """The server may still be working on it: abort it before the slot is used again."""


async def execute(
    job: Job, client: SglangClient, clock: Clock, timeout_s: float, think_end_token: int | None
) -> Response | Failed:
    """Send one sample and judge what comes back."""
    started_at = clock.now()
    request = GenerateRequest(
        rid=job.rid, input_ids=msgspec.Raw(job.input_ids), sampling_params=msgspec.Raw(job.sampling_params)
    )
    try:
        answer = await client.generate(msgspec.json.encode(request), timeout_s)
    except ConnectionLostError as error:
        return Failed(FailureClass.TRANSIENT, str(error), connection_lost=True, refused=error.refused)
    except AnswerTimeoutError as error:
        return Failed(FailureClass.TRANSIENT, str(error), timed_out=True)
    if answer.status != 200:
        return Failed(
            classify_status(answer.status),
            f"HTTP {answer.status}: {error_text(answer.body)}",
            status=answer.status,
            busy=answer.status in BUSY_STATUS,
            retry_after_s=answer.retry_after_s,
        )
    return _judge(job, answer.body, client.url, started_at, clock.now(), think_end_token)


def _judge(
    job: Job, body: bytes, server: str, started_at: float, finished_at: float, think_end_token: int | None
) -> Response | Failed:
    """Turn a 200 into a response; an abort comes with 200 too."""
    answer = parse_answer(body)
    if isinstance(answer, str):
        # A page instead of JSON says nothing of the server's contract: something between us and it hiccuped. When it
        # is the rule, the pool takes the server out.
        error = FailureClass.CONTRACT_DRIFT if is_json(body) else FailureClass.TRANSIENT
        return Failed(error, f"the answer {answer}", status=200)
    meta, reason = answer.meta_info, answer.meta_info.finish_reason
    if reason is not None and reason.type == "abort":
        return Failed(
            FailureClass.TRANSIENT,
            f"aborted by the server: {reason.message or 'no reason given'}",
            status=200,
            busy=reason.status_code in BUSY_STATUS,
            completion_tokens=meta.completion_tokens,
        )
    problem = disagreement(answer, job.rid, job.prompt_tokens)
    if problem is not None or reason is None:
        return Failed(FailureClass.CONTRACT_DRIFT, f"the answer {problem}", status=200)
    return Response(
        sample_id=job.sample_id,
        prompt_tokens=meta.prompt_tokens,
        completion_tokens=meta.completion_tokens,
        finish_reason=reason.type,
        output_ids=one_line(answer.output_ids),
        think_end=None if think_end_token is None else holds_id(answer.output_ids, think_end_token),
        finished_at=finished_at,
        started_at=started_at,
        rid=job.rid,
        server=server,
        attempt=job.attempt,
        matched=reason.matched if isinstance(reason.matched, int | str) else None,
        cached_tokens=meta.cached_tokens,
        e2e_latency_s=meta.e2e_latency,
    )
