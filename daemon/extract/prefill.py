"""A prefill pass: the request that has the rows of a whole sequence computed."""

from __future__ import annotations

from typing import Final

import msgspec
import orjson

from daemon.capture.order import TakeOrder
from daemon.extract.entry import ExtractEntry
from daemon.generate.executor import Job

_SAMPLING: Final = msgspec.json.encode({"max_new_tokens": 1, "temperature": 0.0})


def prefill_job(order: TakeOrder, entry: ExtractEntry, attempt: int) -> Job:
    """Return what is to be sent.

    Args:
        order: What is wanted of its rows.
        entry: The sample.
        attempt: Number of this one, from 1.
    """
    return Job(
        dataset=order.dataset,
        sample_id=entry.sample_id,
        rid=order.rid,
        input_ids=orjson.dumps(order.ids, option=orjson.OPT_SERIALIZE_NUMPY),
        prompt_tokens=entry.tokens,
        sampling_params=_SAMPLING,
        attempt=attempt,
    )
