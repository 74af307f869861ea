"""HTTP connections with limits: on their number, and on the time that a request may take to arrive.

At the limit, a new connection replaces the oldest one that waits for a request or for the rest of
one: many idle or slow connections keep no other client out, and never use up the file descriptors
of the process.
"""

import asyncio
import ssl
import sys
from collections import Counter
from functools import partial
from typing import Any

from uvicorn.protocols.http.h11_impl import H11Protocol

HEADER_TIMEOUT = 10.0  # seconds for TLS's handshake and the headers of a request
SHUTDOWN_TIMEOUT = 1.0  # seconds to wait for the end of TLS, which some clients do not send
MAX_CONNECTIONS, MAX_CONNECTIONS_PER_CLIENT = 256, 64
BACKLOG = 8  # connections accepted at a time, before their number is looked at
MAX_QUEUED = 2048  # connections that the system keeps until then; it drops others for a second


def accept_connections(tls: ssl.SSLContext | None) -> Any:
    """Return the protocol of a server, for uvicorn's settings."""
    return partial(BoundedConnection, tls=tls)


class BoundedConnection(H11Protocol):
    """A connection of uvicorn's server, one of a bounded number.

    It does TLS's handshake itself: asyncio would tell of a connection only afterwards.
    """

    _opened = 0.0
    _header_timer: asyncio.TimerHandle | None = None

    def __init__(self, *arguments: Any, tls: ssl.SSLContext | None = None, **options: Any) -> None:
        super().__init__(*arguments, **options)
        self._tls = tls  # None after the handshake
        self._received_early = b""

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        self._opened = self.loop.time()
        self._watch_headers()
        if self._tls is not None:
            transport.pause_reading()
            self._handshake = self.loop.create_task(self._start_tls(transport, self._tls))
        self._close_surplus()

    async def _start_tls(self, transport: asyncio.Transport, tls: ssl.SSLContext) -> None:
        try:
            secured = await self.loop.start_tls(
                transport, self, tls, server_side=True, ssl_shutdown_timeout=SHUTDOWN_TIMEOUT
            )
        except OSError:  # no TLS
            secured = None
        if secured is None:  # the client has left, or took too long
            self.connection_lost(None)
            return
        self._tls = None
        super().connection_made(secured)
        if self._received_early:
            self.data_received(self._received_early)

    def data_received(self, data: bytes) -> None:
        if self._tls is not None:  # it came with the end of the handshake
            self._received_early += data
            return
        super().data_received(data)
        self._watch_headers()

    def connection_lost(self, exc: Exception | None) -> None:
        super().connection_lost(exc)
        self._stop_timer()

    @property
    def is_idle(self) -> bool:
        """True while no complete headers have arrived for the next request."""
        return self.cycle is None or self.cycle.response_complete

    @property
    def is_receiving(self) -> bool:
        """True while it waits for a request, or for the rest of one: a slow body is no work."""
        return self.is_idle or bool(self.cycle.more_body)

    def _watch_headers(self) -> None:
        if not self.is_idle:
            self._stop_timer()
        elif self._header_timer is None:
            self._header_timer = self.loop.call_later(HEADER_TIMEOUT, self.transport.abort)

    def _stop_timer(self) -> None:
        if self._header_timer is not None:
            self._header_timer.cancel()
            self._header_timer = None

    def on_response_complete(self) -> None:
        super().on_response_complete()  # starts the timer of kept connections
        self._stop_timer()

    def _close_surplus(self) -> None:
        others: list[Any] = [
            c
            for c in self.connections
            if isinstance(c, BoundedConnection) and not c.transport.is_closing()
        ]
        counts = Counter(_host(c) for c in others)
        if counts[_host(self)] > MAX_CONNECTIONS_PER_CLIENT:
            others = [c for c in others if _host(c) == _host(self)]
        elif len(others) <= max_connections():
            return
        oldest = min(others, key=lambda c: (not c.is_receiving, c._opened))
        oldest.transport.abort()


def _host(connection: H11Protocol) -> str:
    return connection.client[0] if connection.client else ""


def max_connections() -> int:
    """Return the limit for all clients: a quarter of the files that the process may open."""
    if sys.platform == "win32":
        return MAX_CONNECTIONS
    import resource

    soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    return MAX_CONNECTIONS if soft < 0 else max(min(MAX_CONNECTIONS, soft // 4), 8)
