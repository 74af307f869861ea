"""Threads for the models: what takes long is done there, in turn, and can be given up."""

import asyncio
import time
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import suppress
from typing import TypeVar

from fastapi import Request
from starlette.exceptions import HTTPException

MAX_CONCURRENT_JOBS = 2
MAX_WAITING_JOBS = 16  # jobs; whoever comes after them is sent away
MAX_JOB_SECONDS = 12.0  # seconds after which a job that goes step by step should end

Result = TypeVar("Result")


class Deadline:
    """A job's time: what goes step by step looks at `over` between two steps."""

    def __init__(self) -> None:
        self._end, self._is_cancelled = float("inf"), False

    def start(self) -> None:
        """Start the clock: waiting for other jobs does not count."""
        self._end = time.monotonic() + MAX_JOB_SECONDS

    def cancel(self) -> None:
        """Nobody waits for it any more."""
        self._is_cancelled = True

    @property
    def is_over(self) -> bool:
        """Say whether to come to an end."""
        return self._is_cancelled or time.monotonic() > self._end


class JobExecutor:
    """Does jobs beside the thread that answers requests.

    Two at a time: while one of them writes a long text, the other still looks into heads. More
    would not be faster, since a model computes with all the threads that it may have.
    """

    def __init__(self) -> None:
        self._threads = ThreadPoolExecutor(MAX_CONCURRENT_JOBS, "models")
        self._num_waiting = 0

    async def run(self, request: Request, job: Callable[[Deadline], Result]) -> Result:
        """Do a job in its turn; where the page no longer waits for it, it is given up."""
        if self._num_waiting >= MAX_WAITING_JOBS:
            raise HTTPException(429, f"{MAX_WAITING_JOBS} questions are waiting already: ask later")
        turn = Deadline()
        self._num_waiting += 1
        work = self._threads.submit(_run_job, job, turn)
        gone = asyncio.ensure_future(_cancel_on_disconnect(request, work, turn))
        try:
            return await asyncio.wrap_future(work)
        except asyncio.CancelledError:
            turn.cancel()
            if gone.done() and not gone.cancelled():
                raise HTTPException(400, "the request ended early") from None
            raise
        finally:
            self._num_waiting -= 1
            gone.cancel()


def _run_job(job: Callable[[Deadline], Result], deadline: Deadline) -> Result:
    deadline.start()
    return job(deadline)


async def _cancel_on_disconnect(request: Request, work: Future[Result], deadline: Deadline) -> None:
    """Wait until the page has gone, and give up what it asked for."""
    with suppress(RuntimeError):  # a client without a connection to lose
        while (await request.receive())["type"] != "http.disconnect":
            pass
        deadline.cancel()
        work.cancel()
