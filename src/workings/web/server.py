"""Run the workbench with uvicorn: on loopback or on another host, with a token."""

import asyncio
import os
import secrets
import socket
import ssl
import sys
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from types import FrameType

import uvicorn

from workings.errors import UserError
from workings.web.app import build_secured_app
from workings.web.connections import BACKLOG, MAX_QUEUED, accept_connections
from workings.web.jobs import MODEL_THREADS
from workings.web.runs import RunRegistry
from workings.web.security import LOOPBACK, AccessPolicy
from workings.web.worker_pool import NUM_WORKERS, WorkerPools

SHUTDOWN_GRACE = 2  # seconds for the requests that run when the server stops
_WILDCARD_HOSTS = ("0.0.0.0", "::", "")  # noqa: S104 - requested by the user, and protected by a token


@dataclass(frozen=True)
class ServerOptions:
    """Where the server listens, and who may use it."""

    host: str | None = None
    """address that other machines can reach; None: this machine only"""
    port: int = 0
    has_token: bool = True
    certificate: str | None = None
    """file of the TLS certificate (PEM)"""
    key: str | None = None
    """file of its private key, unless the certificate's file has it"""


def serve(
    options: ServerOptions, on_ready: Callable[[str], None], runs: Sequence[str | Path] = ()
) -> None:
    """Serve until interrupted; call `on_ready` with the link, which has the token."""
    tls = _load_certificate(options)
    registry = RunRegistry(runs)
    listening = _open_socket(options.host or "127.0.0.1", options.port)
    policy = _build_policy(options, listening.getsockname()[1])
    server = WorkbenchServer(policy, registry, tls)
    on_ready(format_link(options.host, policy))
    server.run(sockets=[listening])
    if any(thread.name.startswith(MODEL_THREADS) for thread in threading.enumerate()):
        end_process(0)  # a model may still compute in a thread, which cannot be stopped


@contextmanager
def serve_in_background(
    runs: Sequence[str | Path] = (), *, has_token: bool = False
) -> Iterator[str]:
    """Serve on a free loopback port in a thread; yield the link, without the last slash."""
    options = ServerOptions(has_token=has_token)
    tls = _load_certificate(options)
    listening = _open_socket("127.0.0.1", 0)
    policy = _build_policy(options, listening.getsockname()[1])
    # Fewer workers start sooner, and are enough for one user.
    server = WorkbenchServer(policy, RunRegistry(runs), tls, num_workers=1)
    thread = threading.Thread(target=server.run, kwargs={"sockets": [listening]}, daemon=True)
    thread.start()
    yield format_link(None, policy).rstrip("/")
    server.should_exit = True
    thread.join(5)


class WorkbenchServer(uvicorn.Server):
    """uvicorn's server with pools of workers; a second Ctrl-C ends the process at once."""

    def __init__(
        self,
        policy: AccessPolicy,
        registry: RunRegistry,
        tls: ssl.SSLContext | None,
        num_workers: int = NUM_WORKERS,
    ) -> None:
        self._registry = registry
        self._pools = WorkerPools(num_workers, [*registry.runs.values()])
        super().__init__(
            uvicorn.Config(
                build_secured_app(policy, registry, self._pools),
                http=accept_connections(tls),
                backlog=BACKLOG,
                log_level="error",  # a warning per malformed request would fill the terminal
                access_log=False,
                server_header=False,
                ws="none",
                lifespan="off",
                timeout_keep_alive=15,
                timeout_graceful_shutdown=2 * SHUTDOWN_GRACE,
            )
        )

    def handle_exit(self, sig: int, frame: FrameType | None) -> None:
        if self.should_exit:
            self._pools.kill()
            end_process(128 + sig)
        super().handle_exit(sig, frame)

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup(sockets)
        for listening in sockets or []:
            listening.listen(MAX_QUEUED)
        self._warm_up = asyncio.create_task(self._start_workers_and_models())

    async def _start_workers_and_models(self) -> None:
        """Get ready for requests one thing after the other: the page's first screen needs Work."""
        await self._pools.quick.warm_up()
        await self._pools.slow.warm_up()
        self._registry.warm_up()

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        self._warm_up.cancel()
        asyncio.get_running_loop().call_later(SHUTDOWN_GRACE, self._end_requests)
        await super().shutdown(sockets)
        await self._pools.close()

    def _end_requests(self) -> None:
        """Answer the requests that still run: the server is stopping."""
        for task in self.server_state.tasks:
            task.cancel()


def end_process(status: int) -> None:
    """End this process without waiting for its threads."""
    sys.stdout.flush()
    os._exit(status)


def format_link(host: str | None, policy: AccessPolicy) -> str:
    """Return the URL of the page, with the token if there is one."""
    name = socket.gethostname() if host in _WILDCARD_HOSTS else host or "127.0.0.1"
    name = f"[{name}]" if ":" in name else name
    token = f"?token={policy.token}" if policy.token else ""
    return f"{policy.scheme}://{name}:{policy.port}/{token}"


def _build_policy(options: ServerOptions, port: int) -> AccessPolicy:
    host = options.host
    names: tuple[str, ...] = LOOPBACK
    if host is not None and host not in LOOPBACK:
        names += (host.lower(), socket.gethostname().lower(), socket.getfqdn().lower())
    return AccessPolicy(
        port,
        names,
        allows_any_address=host in _WILDCARD_HOSTS,
        token=secrets.token_urlsafe(24) if options.has_token else None,
        scheme="http" if options.certificate is None else "https",
    )


def _load_certificate(options: ServerOptions) -> ssl.SSLContext | None:
    """Read the certificate and its key; raise a `UserError` if they cannot be used."""
    if options.key is not None and options.certificate is None:
        raise UserError("--keyfile needs --certfile")
    if options.certificate is None:
        return None
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    try:
        context.load_cert_chain(options.certificate, options.key, password=_refuse_password)
    except (OSError, ValueError) as error:  # an SSLError is an OSError
        reason = getattr(error, "reason", None) or getattr(error, "strerror", None) or error
        raise UserError(f"--certfile {options.certificate}: cannot be used: {reason}") from None
    return context


def _refuse_password() -> str:
    raise ValueError("the key has a password: expected one without")


def _open_socket(host: str, port: int) -> socket.socket:
    """Open the port before the server starts, so that a port in use is a `UserError`."""
    if not 0 <= port <= 65535:
        raise UserError(f"--port {port}: expected 0 (any free port) to 65535")
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    # asyncio sets TCP_NODELAY only if the protocol is given; without it, each response waits 40 ms
    # for the browser to acknowledge its headers.
    listening = socket.socket(family, socket.SOCK_STREAM, socket.IPPROTO_TCP)
    listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        listening.bind((host, port))
        listening.listen()  # before the link is printed, so that an early request waits
    except OSError as error:
        listening.close()
        reason = error.strerror or str(error)
        raise UserError(
            f"{host}:{port}: {reason}: choose another --port, or 0 for any free port"
        ) from None
    return listening
