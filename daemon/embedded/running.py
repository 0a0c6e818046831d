"""A job while the engine works on it: its place, its randomness, when it ends."""

from __future__ import annotations

import random
import time
from dataclasses import dataclass

from daemon.embedded.config import ModelConfig
from daemon.embedded.jobs import FinishReason, Job, Result
from daemon.embedded.model import Choice
from daemon.embedded.tokenizer import ByteTokenizer


@dataclass(slots=True, eq=False)
class Running:
    """A job that holds a slot (or was retracted, or, once finished, waits for its extra delay to pass)."""

    job: Job
    limit: int
    random: random.Random
    result: Result
    output_ids: list[int]
    """The same list as the result's."""
    banned: tuple[int, ...]
    number: int
    """In order of admission: the youngest has the largest."""
    fed: int = 0
    """Tokens in the cache; the last output token is not fed yet."""
    due: float = 0.0

    @classmethod
    def begin(cls, job: Job, limit: int, number: int, seed: int, eos: int) -> Running:
        """Begin a job; `limit` is the most tokens it may generate, `seed` the server's."""
        sampling = job.sampling
        own: int | str = f"{seed}/{job.rid}" if sampling.sampling_seed is None else sampling.sampling_seed
        banned = {eos, *sampling.stop_token_ids} if sampling.min_new_tokens else ()
        output_ids: list[int] = []
        result = Result(output_ids, None, started=time.time())
        return cls(job, limit, random.Random(own), result, output_ids, tuple(banned), number)

    @property
    def sequence(self) -> list[int]:
        """Prompt and answer so far; an empty prompt inside a batch is fed as one 0 (the real server's is garbage)."""
        return [*(self.job.input_ids or [0]), *self.output_ids]

    def choice(self) -> Choice:
        """How the next token is chosen; draws."""
        sampling = self.job.sampling
        banned = self.banned if len(self.output_ids) < sampling.min_new_tokens else ()
        uniform = self.random.random()
        return Choice(sampling.temperature, sampling.top_p, sampling.top_k, sampling.min_p, uniform, banned)

    def reason_to_end(self, config: ModelConfig, tokenizer: ByteTokenizer) -> FinishReason | None:
        """Why the answer ends with the token it ends with now, or None."""
        sampling, token, count = self.job.sampling, self.output_ids[-1], len(self.output_ids)
        if not sampling.ignore_eos and (token == config.eos_token_id or token in sampling.stop_token_ids):
            return {"type": "stop", "matched": token}
        if sampling.stop and count > sampling.min_new_tokens:
            # Every token but the specials has at least one byte, so this tail holds any stop string just ended.
            tail = 2 * max(len(stop.encode()) for stop in sampling.stop) + 8
            text = tokenizer.decode(self.output_ids[-tail:])
            for stop in sampling.stop:
                if stop in text:
                    return {"type": "stop", "matched": stop}
        return {"type": "length", "length": count} if count >= self.limit else None
