"""Blocking calls beside the event loop, in threads that never keep the process alive."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from typing import TypeVar

T = TypeVar("T")


async def in_background(call: Callable[[], T]) -> T:
    """Run a blocking call in a thread of its own and return its result.

    `asyncio.to_thread` will not do: leaving the app would wait until the call returns, and a call to a daemon that
    hangs, or a read from a disk that is gone, may not return for long. A daemon thread is simply left behind.

    Raises:
        Exception: What the call raised.
    """
    loop = asyncio.get_running_loop()
    future: asyncio.Future[T] = loop.create_future()

    def settle(result: T | None, error: BaseException | None) -> None:
        if future.done():
            return
        if error is not None:
            future.set_exception(error)
        else:
            future.set_result(result)  # type: ignore[arg-type]

    def run() -> None:
        result: T | None = None
        error: BaseException | None = None
        try:
            result = call()
        except BaseException as raised:  # noqa: BLE001 - handed to the waiting task, which decides
            error = raised
        try:
            loop.call_soon_threadsafe(settle, result, error)
        except RuntimeError:
            return  # The loop is closed: the app has left meanwhile, and nobody waits.

    threading.Thread(target=run, name="eagle3-background", daemon=True).start()
    return await future
