"""One request in work: the jobs of its prompts, and where their results arrive."""

from __future__ import annotations

import asyncio

from daemon.embedded.faults import Faults
from daemon.embedded.jobs import Job, Result
from daemon.embedded.protocol import GenerateRequest, Prompt


class Flight:
    """The jobs of one request, and where their results arrive."""

    def __init__(self, parsed: GenerateRequest, faults: Faults) -> None:
        loop = asyncio.get_running_loop()
        self._events: asyncio.Queue[tuple[int, Result]] | None = None
        self.done: list[asyncio.Future[Result]] = []
        self.jobs: list[Job] = []
        for number, prompt in enumerate(parsed.prompts):
            self.done.append(loop.create_future())
            self.jobs.append(self._job(number, prompt, parsed.stream, faults.next_delay()))

    @property
    def events(self) -> asyncio.Queue[tuple[int, Result]]:
        """What arrives of a stream: the prompt's number, its result so far."""
        if self._events is None:  # made when it is needed: most requests do not stream
            self._events = asyncio.Queue()
        return self._events

    def _job(self, number: int, prompt: Prompt, stream: bool, delay: float) -> Job:
        def done(result: Result) -> None:
            if stream:
                self.events.put_nowait((number, result))
            elif not self.done[number].done():  # cancelled when the client left
                self.done[number].set_result(result)

        def progress(result: Result) -> None:
            self.events.put_nowait((number, result))

        return Job(
            prompt.rid, prompt.input_ids, prompt.sampling, done, progress if stream else None, delay, prompt.cache_key
        )  # fmt: skip
