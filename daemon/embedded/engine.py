"""Continuous batching over the tiny model: one thread that admits, prefills, decodes a step, hands results over.

A running job's index in `_running` is its cache slot, so the decode batch is always the slots 0..n-1 and nothing
is gathered; a job that ends is replaced by the last one. Callbacks go to the event loop once per step. As in SGLang
the chunks of a prompt come before the next step of the others, and a retracted job is prefilled again whole.
"""

from __future__ import annotations

import asyncio
import threading
import time
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace

from daemon.embedded.config import ModelConfig
from daemon.embedded.dump_states import ModelStates
from daemon.embedded.dumping import Dumper
from daemon.embedded.jobs import FinishReason, Job, Load, Result, Throughput, aborted
from daemon.embedded.model import Choice, KVCache, ModelOutput, TinyLlama, choose, limit_threads
from daemon.embedded.prefix_cache import PrefixCache
from daemon.embedded.running import Running
from daemon.embedded.tokenizer import ByteTokenizer


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
        chunked_prefill_size: most tokens of a prompt in one pass.
        retract_every: every so many steps the youngest running job loses its place; None for never.
        prefixes: what was computed before and is not again (only its rows are missing: all is computed); None for none.
        dumper: gets the hidden states of every pass; None for nobody.
    """

    def __init__(
        self, config: ModelConfig, *, max_running: int = 64, seed: int = 0, eos_bias: float = 0.0,
        max_total_tokens: int | None = None, chunked_prefill_size: int = 4096, retract_every: int | None = None,
        prefixes: PrefixCache | None = None, dumper: Dumper | None = None,
    ) -> None:  # fmt: skip
        limit_threads()
        self._config = config
        self._tokenizer = ByteTokenizer(config)
        self._model = TinyLlama(config, seed, eos_bias)
        self._cache = KVCache(config, max_running)
        self._max_running, self._seed = max_running, seed
        self._max_total = max_total_tokens or max_running * config.max_position_embeddings
        self._chunk, self._retract_every = chunked_prefill_size, retract_every
        self._prefixes, self._dumper = prefixes, dumper
        self._capture: Sequence[int] = () if dumper is None else dumper.capture
        self._inbox = _Inbox()
        self._condition = threading.Condition()
        self._running: list[Running] = []
        self._retracted: deque[Running] = deque()
        self._held: list[Running] = []
        self._throughput = Throughput()
        self._deliveries: list[tuple[Callable[[Result], None], Result]] = []
        self._steps = self._prefilled = self._admitted = 0
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
            running, waiting = list(self._running), len(self._inbox.jobs) + len(self._retracted)
        return Load(
            running=len(running) + len(self._held),
            waiting=waiting,
            used_tokens=sum(each.fed for each in running),
            gen_throughput=self._throughput.rate(time.monotonic()),
            steps=self._steps,
            prefilled_tokens=self._prefilled,
        )

    def flush(self) -> None:
        """Forget the cached prefixes."""
        if self._prefixes is not None:
            self._prefixes.clear()

    def _run(self) -> None:
        while self._wait():
            self._admit()
            if self._running:
                self._decode()
            self._release_held()
            self._deliver()
            if self._dumper is not None and not self._running:
                self._dumper.pause()

    def _wait(self) -> bool:
        """Sleep until there is something to do, then carry aborts out; False when the engine stops."""
        with self._condition:
            inbox = self._inbox
            while not (self._running or self._retracted or inbox.jobs or inbox.aborts or inbox.stopping):
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
        for each in [each for each in self._retracted if each.job.matches(target)]:
            self._retracted.remove(each)
            self._end(each, aborted(), delay=False)
        for each in [each for each in self._held if each.job.matches(target)]:
            each.result.finish_reason, each.due = aborted(), 0.0

    def _admit(self) -> None:
        while (running := self._next()) is not None:
            self._prefill(running)

    def _next(self) -> Running | None:
        """The next job with a slot of its own, or None when none waits or none has room."""
        if len(self._running) >= self._max_running:
            return None
        with self._condition:
            if self._retracted:
                running = self._retracted[0]
            elif self._inbox.jobs:
                job = self._inbox.jobs[0]
                limit = job.token_limit(min(self._config.max_position_embeddings, self._max_total))
                running = Running.begin(job, limit, self._admitted, self._seed, self._config.eos_token_id)
            else:
                return None
            held = sum(len(each.job.input_ids) + each.limit for each in self._running)
            if self._running and held + len(running.job.input_ids) + running.limit > self._max_total:
                return None
            self._running.append(running)  # before it leaves the queue: it is always counted somewhere
            if self._retracted:
                self._retracted.popleft()
            else:
                self._inbox.jobs.popleft()
                self._admitted += 1
        return running

    def _prefill(self, running: Running) -> None:
        """Feed the prompt (after a retraction with what was generated) in chunks, and take the next token."""
        ids, slot, job = running.sequence, self._running.index(running), running.job
        first = 0
        if self._prefixes is not None and not running.result.retractions:
            first = running.result.cached_tokens = self._prefixes.cached(ids, job.cache_key)
        if first:  # the real server has it in its cache; nobody sees these rows
            self._model.prefill(ids[:first], self._cache, slot)
        for at in range(first, len(ids), self._chunk):
            chunk = ids[at : at + self._chunk]
            output = self._model.prefill(chunk, self._cache, slot, start=at, capture=self._capture)
            self._dump([job.rid], [len(chunk)], output)
        if self._prefixes is not None:
            self._prefixes.remember(ids, job.cache_key)
        running.fed = len(ids)
        running.result.prefilled = running.result.prefilled or time.time()
        self._prefilled += len(ids) - first
        if running.limit == 0:
            self._finish(running, {"type": "length", "length": 0})
        else:
            self._take(running, choose(output.logits, [running.choice()])[0])

    def _decode(self) -> None:
        """One token for each running job."""
        batch = list(self._running)
        ids, positions = [each.output_ids[-1] for each in batch], [each.fed for each in batch]
        output = self._model.decode(ids, positions, self._cache, self._capture)
        self._dump([each.job.rid for each in batch], [1] * len(batch), output)
        tokens = choose(output.logits, [each.choice() for each in batch])
        for each in batch:  # all of them first: a job that ends below moves another's cache, this step included
            each.fed += 1
        for each, token in zip(batch, tokens, strict=True):
            self._take(each, token)
        self._throughput.add(len(batch), time.monotonic())
        self._steps += 1
        if self._retract_every is not None and self._running and self._steps % self._retract_every == 0:
            self._retract(max(self._running, key=lambda each: each.number))

    def _retract(self, running: Running) -> None:
        """Take the job's place away; it is next in the queue."""
        running.fed = 0
        running.result.retractions += 1
        with self._condition:
            self._retracted.append(running)
            self._leave(running)

    def _dump(self, rids: list[str], counts: list[int], output: ModelOutput) -> None:
        if self._dumper is not None:
            states = ModelStates(output.ids, output.positions, output.aux, output.last, self._dumper.norm)
            self._dumper.put(rids, counts, states)

    def _take(self, running: Running, token: int) -> None:
        running.output_ids.append(token)
        reason = running.reason_to_end(self._config, self._tokenizer)
        if reason is not None:
            self._finish(running, reason)
        elif running.job.progress is not None:
            so_far = replace(running.result, output_ids=list(running.output_ids))
            self._deliveries.append((running.job.progress, so_far))

    def _finish(self, running: Running, reason: FinishReason, *, delay: bool = True) -> None:
        if self._prefixes is not None:
            self._prefixes.remember(running.sequence[: running.fed], running.job.cache_key)
        self._leave(running)
        self._end(running, reason, delay=delay)

    def _leave(self, running: Running) -> None:
        """Free the job's slot; the last job gets it."""
        slot, last = self._running.index(running), len(self._running) - 1
        if slot != last:
            self._cache.move(last, slot, self._running[last].fed)
            self._running[slot] = self._running[last]
        self._running.pop()

    def _end(self, running: Running, reason: FinishReason, *, delay: bool) -> None:
        running.result.finish_reason, running.result.finished = reason, time.time()
        if delay and running.job.delay > 0:
            running.due = time.monotonic() + running.job.delay
            self._held.append(running)
        else:
            self._answer(running)

    def _answer(self, running: Running) -> None:
        self._deliveries.append((running.job.done, running.result))
        if self._dumper is not None:
            self._dumper.finished(running.job.rid, running.output_ids)

    def _release_held(self) -> None:
        now = time.monotonic()
        ready = [each for each in self._held if each.due <= now]
        self._held = [each for each in self._held if each.due > now]
        for each in ready:
            each.result.finished = time.time()
            self._answer(each)

    def _deliver(self) -> None:
        deliveries, self._deliveries = self._deliveries, []
        if deliveries and self._loop is not None and not self._loop.is_closed():
            self._loop.call_soon_threadsafe(_call_all, deliveries)


def _call_all(deliveries: list[tuple[Callable[[Result], None], Result]]) -> None:
    for callback, result in deliveries:
        callback(result)
