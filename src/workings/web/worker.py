"""Threads for the models: what takes long is done there, in turn, and can be given up."""

import asyncio
import time
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import suppress
from typing import TypeVar

from fastapi import Request
from starlette.exceptions import HTTPException

AT_ONCE = 2
MOST_WAITING = 16  # jobs; whoever comes after them is sent away
LONGEST_TURN = 12.0  # seconds after which a job that goes step by step should end

Result = TypeVar("Result")


class Turn:
    """A job's time: what goes step by step looks at `over` between two steps."""

    def __init__(self) -> None:
        self._end, self._given_up = float("inf"), False

    def begin(self) -> None:
        """Start the clock: waiting for other jobs does not count."""
        self._end = time.monotonic() + LONGEST_TURN

    def give_up(self) -> None:
        """Nobody waits for it any more."""
        self._given_up = True

    @property
    def over(self) -> bool:
        """Say whether to come to an end."""
        return self._given_up or time.monotonic() > self._end


class Worker:
    """Does jobs beside the thread that answers requests.

    Two at a time: while one of them writes a long text, the other still looks into heads. More
    would not be faster, since a model computes with all the threads that it may have.
    """

    def __init__(self) -> None:
        self._threads = ThreadPoolExecutor(AT_ONCE, "models")
        self._waiting = 0

    async def do(self, request: Request, job: Callable[[Turn], Result]) -> Result:
        """Do a job in its turn; where the page no longer waits for it, it is given up."""
        if self._waiting >= MOST_WAITING:
            raise HTTPException(429, f"{MOST_WAITING} questions are waiting already: ask later")
        turn = Turn()
        self._waiting += 1
        work = self._threads.submit(_done, job, turn)
        gone = asyncio.ensure_future(_left(request, work, turn))
        try:
            return await asyncio.wrap_future(work)
        except asyncio.CancelledError:
            turn.give_up()
            if gone.done() and not gone.cancelled():
                raise HTTPException(400, "the request ended early") from None
            raise
        finally:
            self._waiting -= 1
            gone.cancel()


def _done(job: Callable[[Turn], Result], turn: Turn) -> Result:
    turn.begin()
    return job(turn)


async def _left(request: Request, work: Future[Result], turn: Turn) -> None:
    """Wait until the page has gone, and give up what it asked for."""
    with suppress(RuntimeError):  # a client without a connection to lose
        while (await request.receive())["type"] != "http.disconnect":
            pass
        turn.give_up()
        work.cancel()
