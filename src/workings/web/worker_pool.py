"""The processes that answer requests on problems and logs: a fair queue, a time limit, a kill."""

import asyncio
import json
import os
import signal
import sys
from collections import Counter, deque
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager, suppress
from typing import Any, TypeAlias

from workings.web.language import read_header
from workings.web.runs import RegisteredRun
from workings.web.security import (
    App,
    Message,
    Receive,
    RejectedRequestError,
    Scope,
    Send,
    identify_client,
)
from workings.web.worker import IS_LAST, LENGTH_BYTES, Answer, Head, encode_message

NUM_WORKERS = 2  # for quick requests, and as many for slow ones
SLOW_NICENESS = 5  # the processes of slow requests leave the processor to those of quick ones
ANSWER_TIMEOUT = 10.0  # seconds of computing; the time in the queue does not count
MAX_EXTRA_MEMORY = 100 * 10**6  # bytes over the idle process that a request may take (on Linux)
QUEUE_TIMEOUT = 8.0
DISCONNECT_GRACE = 1.0  # seconds that a request may go on after its client has left
MAX_WAITING, MAX_WAITING_PER_CLIENT = 64, 16
_KILL = getattr(signal, "SIGKILL", signal.SIGTERM)  # Windows has no SIGKILL; SIGTERM kills there
_ONE_THREAD = {"OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1", "MKL_NUM_THREADS": "1"}


class Worker:
    """A worker process; it is started by its first request."""

    def __init__(self, runs: Sequence[RegisteredRun] = (), niceness: int = 0) -> None:
        tables = [run.to_dict() for run in runs]
        greeting = {"runs": tables, "niceness": niceness, "max_memory": MAX_EXTRA_MEMORY}
        self._greeting = encode_message(greeting, b"")
        self._process: asyncio.subprocess.Process | None = None
        self._has_started = self._is_closed = False
        self.ended_by = ""  # the client whose request ended the process before
        self._starting = asyncio.Lock()
        self._exchanging = asyncio.Lock()  # a pipe has one reader

    async def start(self) -> asyncio.subprocess.Process:
        """Start the process if it is not running."""
        async with self._starting:
            return await self._start()

    async def _start(self) -> asyncio.subprocess.Process:
        if self._process is None or not self.is_running:
            if self._is_closed:
                raise ConnectionError("the server is stopping")
            creating = asyncio.ensure_future(_create_process())
            try:
                self._process = await asyncio.shield(creating)
            except asyncio.CancelledError:
                # Creating takes milliseconds. Cancelled, asyncio would kill the process in a way
                # that takes its exit status from asyncio's own watcher.
                self._process = await creating
                raise
            self._has_started = False
            await self._send(self._process, self._greeting)
            self._has_started = True
        return self._process

    @property
    def is_running(self) -> bool:
        """True if the process has been started and has not ended."""
        return self._process is not None and self._process.returncode is None

    @property
    def is_ready(self) -> bool:
        """True if the process answers at once."""
        return self._has_started and self.is_running

    async def exchange(self, message: bytes) -> Answer:
        """Send a request and return the answer."""
        return await self._send(await self.start(), message)

    async def _send(self, process: asyncio.subprocess.Process, message: bytes) -> Answer:
        assert process.stdin is not None
        assert process.stdout is not None
        async with self._exchanging:
            process.stdin.write(message)
            await process.stdin.drain()
            parts = []
            for _ in range(2):
                length = await process.stdout.readexactly(LENGTH_BYTES)
                parts.append(await process.stdout.readexactly(int.from_bytes(length, "big")))
        return json.loads(parts[0]), parts[1]

    def kill(self) -> None:
        """End the process, whatever it computes; the next request starts another."""
        if self._process is not None and self.is_running:
            with suppress(ProcessLookupError):
                # Process.kill would first take the exit status of a process that has just ended,
                # and asyncio's own watcher would then report an unknown process.
                os.kill(self._process.pid, _KILL)

    async def stop(self) -> None:
        """End the process and wait until it has ended."""
        self.kill()  # one that is starting, too
        async with self._starting:
            if self._process is not None:
                self.kill()
                async with self._exchanging:  # until a request has seen the end of its pipe
                    await self._process.communicate()  # closes the pipes

    async def close(self) -> None:
        """End the process for good."""
        self._is_closed = True
        await self.stop()


async def _create_process() -> asyncio.subprocess.Process:
    # -P: a file in the working directory must not shadow a module.
    command = (sys.executable, "-P", "-m", "workings.web.worker")
    return await asyncio.create_subprocess_exec(
        *command,
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
        env={**os.environ, **_ONE_THREAD},
        start_new_session=True,  # Ctrl-C is for the server, which then kills its workers
    )


async def _try_to_start(worker: Worker) -> None:
    """Start a worker if it is not running; if that fails, its next request says so."""
    with suppress(OSError, asyncio.IncompleteReadError):
        await worker.start()


_Turn: TypeAlias = asyncio.Future[Worker]
"""The place of a request in the queue: it becomes the worker that the request gets."""


class WorkerPool:
    """Workers that take turns among the clients: a client with many requests delays only itself.

    One client has at most all workers but one, so that another never waits for its long request.
    """

    def __init__(
        self, size: int = NUM_WORKERS, runs: Sequence[RegisteredRun] = (), niceness: int = 0
    ) -> None:
        self._free = [Worker(runs, niceness) for _ in range(size)]
        self._workers = tuple(self._free)
        self._running: Counter[str] = Counter()
        self._starts: set[asyncio.Task[Any]] = set()
        self._waiting: dict[str, deque[_Turn]] = {}

    async def answer(self, client: str, head: Head, body: bytes = b"") -> Answer:
        """Answer a request after those of the client before it; 408 if it takes too long."""
        request = encode_message(head, body)
        async with self._borrow_worker(client) as worker:
            await asyncio.shield(self._start(worker))  # its time is none of the request's
            exchange = asyncio.ensure_future(worker.exchange(request))
            is_last = False
            try:
                async with asyncio.timeout(ANSWER_TIMEOUT):
                    head, body = await asyncio.shield(exchange)
                is_last = head.pop(IS_LAST)
                return head, body
            except TimeoutError:
                message = f"the answer took longer than {ANSWER_TIMEOUT:.0f} s: ask for less"
                raise RejectedRequestError(408, message) from None
            except asyncio.CancelledError:  # the client has left; most answers are there soon
                await asyncio.wait([exchange], timeout=DISCONNECT_GRACE)
                raise
            except (asyncio.IncompleteReadError, ConnectionError, ValueError):
                raise RejectedRequestError(
                    422, "too large: the process ended without an answer"
                ) from None
            finally:
                if is_last or not exchange.done() or exchange.exception() is not None:
                    exchange.cancel()
                    await worker.stop()
                    worker.ended_by = client
                    self._start(worker)  # now, so that the next request does not wait for it

    def _start(self, worker: Worker) -> asyncio.Task[None]:
        """Start a worker if it is not running; clients may leave meanwhile."""
        task = asyncio.ensure_future(_try_to_start(worker))
        self._starts.add(task)
        task.add_done_callback(self._starts.discard)
        return task

    @asynccontextmanager
    async def _borrow_worker(self, client: str) -> AsyncIterator[Worker]:
        waiting = self._waiting.setdefault(client, deque())
        if (
            len(waiting) >= MAX_WAITING_PER_CLIENT
            or sum(map(len, self._waiting.values())) >= MAX_WAITING
        ):
            raise RejectedRequestError(429, "too many requests are waiting: try again later")
        turn: _Turn = asyncio.get_running_loop().create_future()
        waiting.append(turn)
        self._assign_workers()
        try:
            await asyncio.wait([turn], timeout=QUEUE_TIMEOUT)
            if not turn.done():
                raise RejectedRequestError(429, "the server is busy: try again later")
            yield turn.result()
        finally:
            if turn.done():
                self._running[client] -= 1
                self._free.append(turn.result())
            else:
                turn.cancel()
            self._assign_workers()

    def _assign_workers(self) -> None:
        """Give free workers to the clients in turn, the oldest request of each first."""
        max_running = max(len(self._workers) - 1, 1)
        for client in list(self._waiting):
            turns = self._waiting[client]
            while turns and turns[0].done():
                turns.popleft()
            if not turns:
                del self._waiting[client]
            elif self._free and self._running[client] < max_running:
                turns.popleft().set_result(self._take_worker(client))
                self._running[client] += 1
                self._waiting[client] = self._waiting.pop(client)  # to the end of the round
        self._running += Counter()  # drops clients without a running request

    def _take_worker(self, client: str) -> Worker:
        """Take a process that is ready, the last one that was used.

        A client that has ended one waits for it: the others are for other clients.
        """

        def rank(worker: Worker) -> int:
            return 2 if worker.ended_by == client and not worker.is_ready else worker.is_ready

        worker = max(reversed(self._free), key=rank)
        self._free.remove(worker)
        return worker

    async def warm_up(self) -> None:
        """Start the processes one by one, so that the first requests do not wait for them."""
        for worker in reversed(self._workers):  # the last one gets the first request
            await _try_to_start(worker)

    def kill(self) -> None:
        """End the processes at once."""
        for worker in self._workers:
            worker.kill()

    async def close(self) -> None:
        """End the processes and wait until they have ended."""
        for task in self._starts:
            task.cancel()
        await asyncio.gather(*(worker.close() for worker in self._workers))


class WorkerPools:
    """A pool for quick requests and one for slow ones, such as a check, which looks for causes.

    Quick requests never wait for slow ones: neither for a process, nor for the processor.
    """

    def __init__(self, size: int = NUM_WORKERS, runs: Sequence[RegisteredRun] = ()) -> None:
        self.quick, self.slow = WorkerPool(size, runs), WorkerPool(size, runs, SLOW_NICENESS)

    def kill(self) -> None:
        """End the processes at once."""
        self.quick.kill()
        self.slow.kill()

    async def close(self) -> None:
        """End the processes and wait until they have ended."""
        await asyncio.gather(self.quick.close(), self.slow.close())


class IsolatedRoutes:
    """ASGI middleware that lets the workers answer the requests of some paths.

    `paths` are those of POST requests, some of them `slow`; `prefixes` those of GET requests.
    """

    def __init__(
        self,
        app: App,
        pools: WorkerPools,
        paths: frozenset[str],
        slow: frozenset[str] = frozenset(),
        prefixes: tuple[str, ...] = (),
    ) -> None:
        self.app, self.pools, self.paths = app, pools, paths
        self.slow, self.prefixes = slow, prefixes

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if not self._is_isolated(scope):
            await self.app(scope, receive, send)
            return
        message: Message = await receive()  # the security middleware has read the entire body
        query = scope["query_string"].decode("latin-1")
        pool = self.pools.slow if scope["path"] in self.slow else self.pools.quick
        request = pool.answer(
            identify_client(scope),
            {
                "method": scope["method"],
                "path": scope["path"],
                "query": query,
                "language": read_header(scope),
            },
            message.get("body", b""),
        )
        answer = asyncio.ensure_future(request)
        leaving = asyncio.ensure_future(_wait_for_disconnect(receive))
        try:
            await asyncio.wait([answer, leaving], return_when=asyncio.FIRST_COMPLETED)
            if not answer.done():
                answer.cancel()
                raise RejectedRequestError(400, "the client disconnected")
            head, body = answer.result()
        finally:
            leaving.cancel()
            answer.cancel()
        headers = [(k.encode("latin-1"), v.encode("latin-1")) for k, v in head["headers"].items()]
        await send({"type": "http.response.start", "status": head["status"], "headers": headers})
        await send({"type": "http.response.body", "body": body})

    def _is_isolated(self, scope: Scope) -> bool:
        if scope["type"] != "http":
            return False
        method, path = scope["method"], scope["path"]
        return (method == "POST" and path in self.paths) or (
            method == "GET" and path.startswith(self.prefixes)
        )


async def _wait_for_disconnect(receive: Receive) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass
