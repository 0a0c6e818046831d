"""Continuous batching over the tiny model: one thread that admits, prefills, decodes a step, hands results over.

A running job's index in `_running` is its cache slot, so the decode batch is always the slots 0..n-1 and nothing
is gathered; a job that ends is replaced by the last one. Callbacks go to the event loop once per step.
"""

from __future__ import annotations

import asyncio
import random
import threading
import time
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field, replace

from daemon.embedded.config import ModelConfig
from daemon.embedded.jobs import FinishReason, Job, Load, Result, Throughput, aborted
from daemon.embedded.model import Choice, KVCache, TinyLlama, choose, limit_threads
from daemon.embedded.tokenizer import ByteTokenizer


@dataclass(slots=True)
class _Running:
    """A job that holds a slot (or, once finished, waits for its extra delay to pass)."""

    job: Job
    limit: int
    random: random.Random
    result: Result
    banned: tuple[int, ...]
    fed: int = 0
    """Tokens in the cache; the last output token is not fed yet."""
    due: float = 0.0


@dataclass(slots=True)
class _Inbox:
    """What other threads leave for the scheduler thread; guarded by the engine's condition."""

    jobs: deque[Job] = field(default_factory=deque)
    aborts: list[Job | str | None] = field(default_factory=list)
    stopping: bool = False


class Engine:
    """The torch backend (`jobs.Backend`).

    Args:
        config: the model's dimensions.
        max_running: jobs decoded together.
        seed: of the weights, and of the sampling of jobs without a `sampling_seed`.
        eos_bias: added to the EOS logit: 0 ends one token in a thousand, 3 one in fifty.
        max_total_tokens: tokens that running jobs may hold together; None for no bound but the context.
    """

    def __init__(
        self, config: ModelConfig, *, max_running: int = 64, seed: int = 0, eos_bias: float = 0.0,
        max_total_tokens: int | None = None,
    ) -> None:  # fmt: skip
        limit_threads()
        self._config = config
        self._tokenizer = ByteTokenizer(config)
        self._model = TinyLlama(config, seed, eos_bias)
        self._cache = KVCache(config, max_running)
        self._max_running, self._seed = max_running, seed
        self._max_total = max_total_tokens or max_running * config.max_position_embeddings
        self._inbox = _Inbox()
        self._condition = threading.Condition()
        self._running: list[_Running] = []
        self._held: list[_Running] = []
        self._throughput = Throughput()
        self._deliveries: list[tuple[Callable[[Result], None], Result]] = []
        self._steps = self._prefilled = 0
        self._thread: threading.Thread | None = None
        self._loop: asyncio.AbstractEventLoop | None = None

    def start(self) -> None:
        """Warm the kernels up with a prefill and a step, then start the thread."""
        self._model.prefill([0, 1, 2], self._cache, 0)
        choose(self._model.decode([3], [3], self._cache).logits, [Choice(1.0, 0.9, 0, 0.0, 0.5)])
        self._loop = asyncio.get_running_loop()
        self._thread = threading.Thread(target=self._run, name="embedded-engine", daemon=True)
        self._thread.start()

    def stop(self) -> None:
        """End the thread; what it holds gets no answer."""
        with self._condition:
            self._inbox.stopping = True
            self._condition.notify()
        if self._thread is not None:
            self._thread.join()

    def submit(self, job: Job) -> None:
        """Queue a job."""
        with self._condition:
            self._inbox.jobs.append(job)
            self._condition.notify()

    def abort(self, target: Job | str | None) -> None:
        """End the job, the rid or (None) everything before the next step."""
        with self._condition:
            self._inbox.aborts.append(target)
            self._condition.notify()

    def load(self) -> Load:
        """Figures as of the last step."""
        with self._condition:
            running, waiting = list(self._running), len(self._inbox.jobs)
        return Load(
            running=len(running) + len(self._held),
            waiting=waiting,
            used_tokens=sum(each.fed for each in running),
            gen_throughput=self._throughput.rate(time.monotonic()),
            steps=self._steps,
            prefilled_tokens=self._prefilled,
        )

    def _run(self) -> None:
        while self._wait():
            self._admit()
            if self._running:
                self._decode()
            self._release_held()
            self._deliver()

    def _wait(self) -> bool:
        """Sleep until there is something to do, then carry aborts out; False when the engine stops."""
        with self._condition:
            inbox = self._inbox
            while not (self._running or inbox.jobs or inbox.aborts or inbox.stopping):
                due = min((each.due for each in self._held), default=None)
                if due is not None and due <= time.monotonic():
                    break
                self._condition.wait(None if due is None else max(0.0, due - time.monotonic()))
            for target in inbox.aborts:
                self._abort(target)
            inbox.aborts.clear()
            return not inbox.stopping

    def _abort(self, target: Job | str | None) -> None:
        inbox = self._inbox
        for job in [job for job in inbox.jobs if job.matches(target)]:
            inbox.jobs.remove(job)
            now = time.time()
            self._deliveries.append((job.done, Result([], aborted(), now, now, now)))
        for each in [each for each in self._running if each.job.matches(target)]:
            self._finish(each, aborted(), delay=False)
        for each in [each for each in self._held if each.job.matches(target)]:
            each.result.finish_reason, each.due = aborted(), 0.0

    def _admit(self) -> None:
        while len(self._running) < self._max_running:
            with self._condition:
                if not self._inbox.jobs:
                    return
                job = self._inbox.jobs[0]
                limit = job.token_limit(min(self._config.max_position_embeddings, self._max_total))
                held = sum(len(each.job.input_ids) + each.limit for each in self._running)
                if self._running and held + len(job.input_ids) + limit > self._max_total:
                    return
                running = self._begin(job, limit)
                self._running.append(running)  # before it leaves the queue: it is always counted somewhere
                self._inbox.jobs.popleft()
            self._prefill(running)

    def _begin(self, job: Job, limit: int) -> _Running:
        sampling = job.sampling
        seed: int | str = f"{self._seed}/{job.rid}" if sampling.sampling_seed is None else sampling.sampling_seed
        banned = {self._config.eos_token_id, *sampling.stop_token_ids} if sampling.min_new_tokens else ()
        result = Result([], None, started=time.time())
        return _Running(job, limit, random.Random(seed), result, tuple(banned))

    def _prefill(self, running: _Running) -> None:
        # An empty prompt inside a batch is answered (with garbage), as the real server does.
        output = self._model.prefill(running.job.input_ids or [0], self._cache, self._running.index(running))
        running.fed = max(1, len(running.job.input_ids))
        running.result.prefilled = time.time()
        self._prefilled += running.fed
        if running.limit == 0:
            self._finish(running, {"type": "length", "length": 0})
        else:
            self._take(running, choose(output.logits, [self._choice(running)])[0])

    def _decode(self) -> None:
        """One token for each running job."""
        batch = list(self._running)
        output = self._model.decode(
            [each.result.output_ids[-1] for each in batch], [each.fed for each in batch], self._cache
        )
        tokens = choose(output.logits, [self._choice(each) for each in batch])
        for each in batch:  # all of them first: a job that ends below moves another's cache, this step included
            each.fed += 1
        for each, token in zip(batch, tokens, strict=True):
            self._take(each, token)
        self._throughput.add(len(batch), time.monotonic())
        self._steps += 1

    def _choice(self, running: _Running) -> Choice:
        sampling = running.job.sampling
        banned = running.banned if len(running.result.output_ids) < sampling.min_new_tokens else ()
        uniform = running.random.random()
        return Choice(sampling.temperature, sampling.top_p, sampling.top_k, sampling.min_p, uniform, banned)

    def _take(self, running: _Running, token: int) -> None:
        running.result.output_ids.append(token)
        reason = self._reason(running, token)
        if reason is not None:
            self._finish(running, reason)
        elif running.job.progress is not None:
            so_far = replace(running.result, output_ids=list(running.result.output_ids))
            self._deliveries.append((running.job.progress, so_far))

    def _reason(self, running: _Running, token: int) -> FinishReason | None:
        sampling, count = running.job.sampling, len(running.result.output_ids)
        if not sampling.ignore_eos and (token == self._config.eos_token_id or token in sampling.stop_token_ids):
            return {"type": "stop", "matched": token}
        if sampling.stop and count > sampling.min_new_tokens:
            # Every token but the specials has at least one byte, so this tail holds any stop string just ended.
            tail = 2 * max(len(stop.encode()) for stop in sampling.stop) + 8
            text = self._tokenizer.decode(running.result.output_ids[-tail:])
            for stop in sampling.stop:
                if stop in text:
                    return {"type": "stop", "matched": stop}
        return {"type": "length", "length": count} if count >= running.limit else None

    def _finish(self, running: _Running, reason: FinishReason, *, delay: bool = True) -> None:
        slot, last = self._running.index(running), len(self._running) - 1
        if slot != last:
            self._cache.move(last, slot, self._running[last].fed)
            self._running[slot] = self._running[last]
        running.result.finish_reason, running.result.finished = reason, time.time()
        if delay and running.job.delay > 0:
            running.due = time.monotonic() + running.job.delay
            self._held.append(running)
        else:
            self._deliveries.append((running.job.done, running.result))
        self._running.pop()

    def _release_held(self) -> None:
        now = time.monotonic()
        ready = [each for each in self._held if each.due <= now]
        self._held = [each for each in self._held if each.due > now]
        for each in ready:
            each.result.finished = time.time()
            self._deliveries.append((each.job.done, each.result))

    def _deliver(self) -> None:
        deliveries, self._deliveries = self._deliveries, []
        if deliveries and self._loop is not None and not self._loop.is_closed():
            self._loop.call_soon_threadsafe(_call_all, deliveries)


def _call_all(deliveries: list[tuple[Callable[[Result], None], Result]]) -> None:
    for callback, result in deliveries:
        callback(result)
