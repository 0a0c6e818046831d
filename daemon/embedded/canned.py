"""Answers without torch: seeded, drawn by rid, rendered once - a server that is not the limit of a measurement.

Ids and their JSON are slices of one pool that is rendered at start, so an answer of 1,500 ids costs two slices.
Lengths are log-normal (or fixed), cut at the job's `max_new_tokens`; shorter ones end with EOS.
"""

from __future__ import annotations

import asyncio
import random
import time
import zlib
from array import array
from collections import deque
from dataclasses import dataclass
from functools import lru_cache
from itertools import accumulate
from typing import TYPE_CHECKING

from daemon.embedded.config import ModelConfig
from daemon.embedded.jobs import Job, Load, Result, Throughput, aborted
from daemon.embedded.prefix_cache import PrefixCache

if TYPE_CHECKING:
    from daemon.embedded.dumping import CannedDumps

POOL_SIZE = 16_384


class AnswerPool:
    """Random filler ids (256 up to `top`), with their JSON list and JSON text sliceable at any id."""

    def __init__(self, top: int, seed: int) -> None:
        draw = random.Random(seed)
        self.ids = array("H", (draw.randrange(256, top) for _ in range(POOL_SIZE)))
        names = [b"%d" % number for number in self.ids]
        self._ids_json = b",".join(names)
        self._text = b"".join([b"<f%s>" % name for name in names])
        self._id_starts = [0, *accumulate(len(name) + 1 for name in names)]
        self._text_starts = [0, *accumulate(len(name) + 3 for name in names)]

    def slice(self, start: int, count: int, end_id: int | None) -> tuple[array[int], bytes, bytes]:
        """`count` ids from `start` as (array, JSON list, JSON text); `end_id`, without text, is put last."""
        ids = self.ids[start : start + count]
        rendered = self._ids_json[self._id_starts[start] : max(0, self._id_starts[start + count] - 1)]
        text = self._text[self._text_starts[start] : self._text_starts[start + count]]
        if end_id is not None:
            ids.append(end_id)
            rendered += b"%s%d" % (b"," if count else b"", end_id)
        return ids, b"[%s]" % rendered, b'"%s"' % text


_pool = lru_cache(maxsize=4)(AnswerPool)


@dataclass(slots=True)
class _Held:
    job: Job
    result: Result
    timer: asyncio.TimerHandle | None
    began: float


class CannedBackend:
    """The backend without a model (`jobs.Backend`).

    Args:
        config: the vocabulary the ids are drawn from.
        max_running: answers under way at once; more wait.
        seed: with the rid it decides every answer, whatever the order of arrival.
        length_median: median answer length in tokens.
        length_sigma: spread of its logarithm.
        fixed_length: when given, every answer has this many ids (or `max_new_tokens`, if that is less).
        prefixes: what counts as cached; None for nothing.
        dumps: gets the tokens that would have been fed, as soon as the real server would have written their rows.
    """

    def __init__(
        self, config: ModelConfig, *, max_running: int = 64, seed: int = 0, length_median: float = 256.0,
        length_sigma: float = 0.6, fixed_length: int | None = None, prefixes: PrefixCache | None = None,
        dumps: CannedDumps | None = None,
    ) -> None:  # fmt: skip
        self._config = config
        self._pool = _pool(min(config.special_ids), seed)
        self._max_running, self._seed = max_running, seed
        self._median, self._sigma, self._fixed = length_median, length_sigma, fixed_length
        self._prefixes, self._dumps = prefixes, dumps
        self._waiting: deque[Job] = deque()
        self._held: dict[int, _Held] = {}
        self._throughput = Throughput()
        self._answers = self._prefilled = 0
        self._loop: asyncio.AbstractEventLoop | None = None

    def start(self) -> None:
        """Bind to the running loop."""
        self._loop = asyncio.get_running_loop()

    def stop(self) -> None:
        """Drop everything held."""
        for held in self._held.values():
            if held.timer is not None:
                held.timer.cancel()
        self._held.clear()
        self._waiting.clear()

    def submit(self, job: Job) -> None:
        """Begin the answer, or queue it when `max_running` are under way."""
        if len(self._held) >= self._max_running:
            self._waiting.append(job)
        else:
            self._begin(job)

    def abort(self, target: Job | str | None) -> None:
        """End the job, the rid or (None) everything with what it would have said so far."""
        for job in [job for job in self._waiting if job.matches(target)]:
            self._waiting.remove(job)
            now = time.time()
            job.done(Result([], aborted(), now, now, now))
        for key, held in [item for item in self._held.items() if item[1].job.matches(target)]:
            if held.timer is not None:
                held.timer.cancel()
            passed = (time.monotonic() - held.began) / held.job.delay if held.job.delay else 1.0
            keep = int(len(held.result.output_ids) * min(1.0, passed))
            now = time.time()
            result = Result(held.result.output_ids[:keep], aborted(), held.result.started, now, now)
            result.cached_tokens = held.result.cached_tokens
            self._end(key, result)

    def load(self) -> Load:
        """Figures now; a held answer counts its prompt and half its tokens."""
        held = self._held.values()
        return Load(
            running=len(held),
            waiting=len(self._waiting),
            used_tokens=sum(len(each.job.input_ids) + len(each.result.output_ids) // 2 for each in held),
            gen_throughput=self._throughput.rate(time.monotonic()),
            steps=self._answers,
            prefilled_tokens=self._prefilled,
        )

    def flush(self) -> None:
        """Forget the cached prefixes."""
        if self._prefixes is not None:
            self._prefixes.clear()

    def answer(self, job: Job) -> Result:
        """The whole answer to `job`; the same rid, seed and limit give the same one."""
        draw = random.Random(zlib.crc32(job.rid.encode("utf-8", "surrogatepass")) ^ self._seed)
        limit = job.token_limit(self._config.max_position_embeddings)
        wanted = self._fixed
        if wanted is None:
            wanted = max(1, round(self._median * draw.lognormvariate(0.0, self._sigma)))
        wanted = max(wanted, job.sampling.min_new_tokens)
        ends = self._fixed is None and wanted <= limit and limit > 0 and not job.sampling.ignore_eos
        count = min(wanted, limit)
        if job.sampling.ignore_eos and self._fixed is None:
            count = limit
        start = int(draw.random() * (POOL_SIZE - count))
        eos = self._config.eos_token_id
        ids, ids_json, text_json = self._pool.slice(start, count - ends, eos if ends else None)
        reason = {"type": "stop", "matched": eos} if ends else {"type": "length", "length": count}
        return Result(ids, reason, time.time(), 0.0, 0.0, ids_json, text_json)

    def _begin(self, job: Job) -> None:
        assert self._loop is not None, "start() comes first"
        result = self.answer(job)
        if self._prefixes is not None:
            result.cached_tokens = self._prefixes.cached(job.input_ids, job.cache_key)
            self._prefixes.remember([*job.input_ids, *result.output_ids[:-1]], job.cache_key)
        if self._dumps is not None:
            self._dumps.put(job.rid, job.input_ids[result.cached_tokens :], result.cached_tokens)
        self._prefilled += len(job.input_ids) - result.cached_tokens
        held = _Held(job, result, None, time.monotonic())
        key = id(held)
        self._held[key] = held
        if job.delay > 0:
            held.timer = self._loop.call_later(job.delay, self._complete, key)
        else:
            self._loop.call_soon(self._complete, key)

    def _complete(self, key: int) -> None:
        held = self._held.get(key)
        if held is None:
            return
        result = held.result
        result.prefilled, result.finished = result.started, time.time()
        if held.job.progress is not None and len(result.output_ids) > 1:
            half = result.output_ids[: len(result.output_ids) // 2]
            held.job.progress(Result(half, None, result.started, result.prefilled))
        self._end(key, result)

    def _end(self, key: int, result: Result) -> None:
        job = self._held.pop(key).job
        self._answers += 1
        self._throughput.add(len(result.output_ids), time.monotonic())
        if self._dumps is not None:
            self._dumps.put(job.rid, result.output_ids[:-1], len(job.input_ids))
            self._dumps.finished(job.rid, result.output_ids)
        job.done(result)
        while self._waiting and len(self._held) < self._max_running:
            self._begin(self._waiting.popleft())
