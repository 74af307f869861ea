"""Run the workbench with uvicorn: on loopback, or on another host with a token."""

import secrets
import socket
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import uvicorn

from workings.errors import UserError
from workings.web.app import build_secured_app
from workings.web.runs import RunRegistry
from workings.web.security import LOOPBACK, AccessPolicy

_WILDCARD_HOSTS = ("0.0.0.0", "::", "")  # noqa: S104 - requested by the user, and protected by a token


def serve(
    host: str | None, port: int, on_ready: Callable[[str], None], runs: Sequence[str | Path] = ()
) -> None:
    """Serve until interrupted; call `on_ready` with the link. Beyond loopback it has a token."""
    registry = RunRegistry(runs)
    listening = _open_socket(host or "127.0.0.1", port)
    policy = _build_policy(host, listening.getsockname()[1])
    on_ready(format_link(host, policy))
    _build_server(policy, registry).run(sockets=[listening])


@contextmanager
def serve_in_background(runs: Sequence[str | Path] = ()) -> Iterator[str]:
    """Serve on a free loopback port in a thread; yield the address."""
    listening = _open_socket("127.0.0.1", 0)
    policy = _build_policy(None, listening.getsockname()[1])
    server = _build_server(policy, RunRegistry(runs))
    thread = threading.Thread(target=server.run, kwargs={"sockets": [listening]}, daemon=True)
    thread.start()
    yield format_link(None, policy).rstrip("/")
    server.should_exit = True
    thread.join(5)


def _build_server(policy: AccessPolicy, registry: RunRegistry) -> uvicorn.Server:
    config = uvicorn.Config(
        build_secured_app(policy, registry),
        log_level="warning",
        access_log=False,
        server_header=False,
        ws="none",
        lifespan="off",
        timeout_keep_alive=15,
        timeout_graceful_shutdown=2,
    )
    return uvicorn.Server(config)


def format_link(host: str | None, policy: AccessPolicy) -> str:
    """Return the URL of the page, with the token if there is one."""
    name = socket.gethostname() if host in _WILDCARD_HOSTS else host or "127.0.0.1"
    name = f"[{name}]" if ":" in name else name
    return f"http://{name}:{policy.port}/" + (f"?token={policy.token}" if policy.token else "")


def _build_policy(host: str | None, port: int) -> AccessPolicy:
    if host is None or host in LOOPBACK:
        return AccessPolicy(port)
    names = (*LOOPBACK, host.lower(), socket.gethostname().lower(), socket.getfqdn().lower())
    return AccessPolicy(
        port, names, allows_any_address=host in _WILDCARD_HOSTS, token=secrets.token_urlsafe(24)
    )


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
