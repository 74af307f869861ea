"""Threads that run the models: a bounded queue of jobs, each with a deadline."""

import asyncio
import time
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import suppress
from typing import TypeVar

from fastapi import Request
from starlette.exceptions import HTTPException

MODEL_THREADS = "models"  # the prefix of their names
MAX_CONCURRENT_JOBS = 2
MAX_WAITING_JOBS = 16  # further requests are rejected with status 429
MAX_JOB_SECONDS = 12.0  # after which a step-by-step job should stop

Result = TypeVar("Result")


class Deadline:
    """The end of a job's time; a job that runs step by step reads `is_over` between steps."""

    def __init__(self) -> None:
        self._end, self._is_cancelled = float("inf"), False

    def start(self) -> None:
        """Start the clock; the time in the queue does not count."""
        self._end = time.monotonic() + MAX_JOB_SECONDS

    def cancel(self) -> None:
        """Make the job stop: the client has disconnected."""
        self._is_cancelled = True

    @property
    def is_over(self) -> bool:
        """True if the job should stop now."""
        return self._is_cancelled or time.monotonic() > self._end


class JobExecutor:
    """Runs jobs outside of the event loop's thread, two at a time.

    With two, heads can be inspected while a long text is generated. More would not be faster: a
    model already computes with all the threads that it may use.
    """

    def __init__(self) -> None:
        self._threads = ThreadPoolExecutor(MAX_CONCURRENT_JOBS, MODEL_THREADS)
        self._num_waiting = 0

    def start(self, job: Callable[[], object]) -> None:
        """Queue a job without a result; later jobs run after it."""
        self._threads.submit(job)

    async def run(self, request: Request, job: Callable[[Deadline], Result]) -> Result:
        """Run a job after those before it; cancel it if the client disconnects."""
        if self._num_waiting >= MAX_WAITING_JOBS:
            raise HTTPException(
                429, f"{MAX_WAITING_JOBS} requests are waiting already: try again later"
            )
        deadline = Deadline()
        self._num_waiting += 1
        future = self._threads.submit(_run_job, job, deadline)
        watcher = asyncio.ensure_future(_cancel_on_disconnect(request, future, deadline))
        try:
            return await asyncio.wrap_future(future)
        except asyncio.CancelledError:
            deadline.cancel()
            if watcher.done() and not watcher.cancelled():
                raise HTTPException(400, "the client disconnected") from None
            raise
        finally:
            self._num_waiting -= 1
            watcher.cancel()


def _run_job(job: Callable[[Deadline], Result], deadline: Deadline) -> Result:
    deadline.start()
    return job(deadline)


async def _cancel_on_disconnect(
    request: Request, future: Future[Result], deadline: Deadline
) -> None:
    """Wait until the client disconnects, then cancel its job."""
    with suppress(RuntimeError):  # a test client has no connection to lose
        while (await request.receive())["type"] != "http.disconnect":
            pass
        deadline.cancel()
        future.cancel()
