"""A continuation as lines of JSON, each sent when its token is generated."""

import asyncio
import json
from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import asdict

from workings.web.responses import CompletionView, TokenView

SendToken = Callable[[TokenView], None]
StartCompletion = Callable[[SendToken], Awaitable[CompletionView]]


async def stream_tokens(start: StartCompletion) -> AsyncIterator[str]:
    """Return the lines of a continuation: a token each, and last how it ended.

    `start` gets a function that sends a token from any thread. An error before the first token is
    raised here, so that it becomes an ordinary response.
    """
    loop, tokens = asyncio.get_running_loop(), asyncio.Queue[TokenView | None]()

    def send(token: TokenView) -> None:
        loop.call_soon_threadsafe(tokens.put_nowait, token)

    job = asyncio.ensure_future(start(send))
    job.add_done_callback(lambda _: tokens.put_nowait(None))
    first = await tokens.get()
    if first is None:
        await job
    return _write_lines(first, tokens, job)


async def _write_lines(
    token: TokenView | None,
    tokens: asyncio.Queue[TokenView | None],
    job: asyncio.Future[CompletionView],
) -> AsyncIterator[str]:
    try:
        while token is not None:
            yield json.dumps(asdict(token)) + "\n"
            token = await tokens.get()
        end = asdict(await job)
        yield json.dumps({name: end[name] for name in ("stop_reason", "milliseconds")}) + "\n"
    finally:
        job.cancel()  # the client is gone
