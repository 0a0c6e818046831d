"""Blocking calls off the event loop, in threads that no end of the process waits for."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from contextlib import suppress
from typing import TypeVar

Result = TypeVar("Result")


async def in_thread(work: Callable[[], Result], name: str = "blocking-call") -> Result:
    """Run a blocking call in a daemon thread of its own and return what it returns.

    `asyncio.to_thread` shares a few threads among all calls, so that one hanging server would hold up the calls to the
    others, and the end of the process waits until each has returned: a stop would last as long as the slowest call.

    Raises:
        RuntimeError: The system has no thread to give.
        BaseException: Whatever ``work`` raises.
    """
    loop = asyncio.get_running_loop()
    done: asyncio.Future[Result] = loop.create_future()

    def settle(act: Callable[[], None]) -> None:
        if not done.done():  # else the waiter was cancelled
            act()

    def run() -> None:
        act: Callable[[], None]
        try:
            result = work()
        except BaseException as error:  # noqa: BLE001 - handed to the waiter, whatever it is
            raised = error
            act = lambda: done.set_exception(raised)  # noqa: E731
        else:
            act = lambda: done.set_result(result)  # noqa: E731
        with suppress(RuntimeError):  # the loop is closed: nobody waits any more
            loop.call_soon_threadsafe(settle, act)

    threading.Thread(target=run, name=name, daemon=True).start()
    return await done
