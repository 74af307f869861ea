"""The job executor: a bounded queue, cancellation on disconnect, deadlines."""

import asyncio
import time
from typing import Any

import pytest
from pages import run_async
from starlette.exceptions import HTTPException

from workings.web import jobs
from workings.web.jobs import Deadline, JobExecutor


class FakeRequest:
    """A request whose client disconnects when the event is set."""

    def __init__(self) -> None:
        self.disconnect = asyncio.Event()

    async def receive(self) -> dict[str, str]:
        await self.disconnect.wait()
        return {"type": "http.disconnect"}


def count_steps(deadline: Deadline) -> int:
    """Run until the deadline is over; return the number of steps."""
    steps = 0
    while not deadline.is_over:
        time.sleep(0.001)
        steps += 1
    return steps


def test_queue_is_bounded_and_disconnect_cancels(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(jobs, "MAX_WAITING_JOBS", 2)
    monkeypatch.setattr(jobs, "MAX_CONCURRENT_JOBS", 1)

    async def submit_three_jobs() -> None:
        executor: Any = JobExecutor()
        requests = [FakeRequest() for _ in range(3)]
        running, waiting = (
            asyncio.ensure_future(executor.run(request, count_steps)) for request in requests[:2]
        )
        await asyncio.sleep(0.05)  # the event loop is free while the job runs
        with pytest.raises(HTTPException, match="waiting already"):
            await executor.run(requests[2], count_steps)
        requests[1].disconnect.set()
        with pytest.raises(HTTPException, match="disconnected"):
            await waiting
        assert not running.done()
        requests[0].disconnect.set()
        assert await running > 0

    run_async(submit_three_jobs())


def test_job_has_a_deadline(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(jobs, "MAX_JOB_SECONDS", 0.05)

    async def submit() -> int:
        executor: Any = JobExecutor()
        steps: int = await executor.run(FakeRequest(), count_steps)
        return steps

    assert run_async(submit()) > 0
