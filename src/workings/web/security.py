"""Who may ask, and how much: hosts, origins, the token, sizes and times, before anything is read.

A page of somebody else's must not talk to this server through its reader's browser: the Host
header stops names that were bent to point here, the Origin header stops posts from other pages.
"""

import asyncio
import ipaddress
import json
import secrets
from collections.abc import Awaitable, Callable, MutableMapping
from dataclasses import dataclass, field
from http.cookies import CookieError, SimpleCookie
from typing import Any, TypeAlias
from urllib.parse import parse_qs

Scope: TypeAlias = MutableMapping[str, Any]
Message: TypeAlias = MutableMapping[str, Any]
Receive: TypeAlias = Callable[[], Awaitable[Message]]
Send: TypeAlias = Callable[[Message], Awaitable[None]]
App: TypeAlias = Callable[[Scope, Receive, Send], Awaitable[None]]

MAX_BODY_BYTES = 1_000_000  # bytes
BODY_TIMEOUT = 10.0  # seconds for a request to arrive
RESPONSE_TIMEOUT = 20.0  # seconds for working it out
LOOPBACK = ("localhost", "127.0.0.1", "::1")

CONTENT_SECURITY_POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:;"
    " connect-src 'self'; frame-src 'self'; base-uri 'none'; form-action 'none';"
    " frame-ancestors 'none'; require-trusted-types-for 'script'; trusted-types 'none'"
)
SECURITY_HEADERS = (
    (b"content-security-policy", CONTENT_SECURITY_POLICY.encode()),
    (b"x-content-type-options", b"nosniff"),
    (b"referrer-policy", b"no-referrer"),
    (b"cross-origin-opener-policy", b"same-origin"),
    (b"cross-origin-resource-policy", b"same-origin"),
    (b"cache-control", b"no-cache"),
)


@dataclass(frozen=True)
class AccessPolicy:
    """Under which names the server answers, and the token it wants; None: it is loopback only."""

    port: int
    host_names: tuple[str, ...] = LOOPBACK
    allows_any_address: bool = False  # an address cannot be bent to point here: only names can
    token: str | None = field(default=None, repr=False)

    @property
    def cookie_name(self) -> str:
        """Cookies are shared by all ports of a host: each has its own."""
        return f"workings-{self.port}"

    def allows_host(self, host: str) -> bool:
        """Say whether a Host header is one of ours."""
        name, _, port = host.rpartition(":") if not host.endswith("]") else (host, "", "")
        if not name or not port.isascii() or (port and not port.isdecimal()):
            name, port = host, ""
        if len(port) > 5 or int(port or 80) != self.port:
            return False
        name = name.strip("[]").lower()
        return name in self.host_names or (self.allows_any_address and _is_ip_address(name))

    def accepts_token(self, token: str) -> bool:
        """Compare a token, however it is written, in a time that tells nothing."""
        wanted = self.token or ""
        return secrets.compare_digest(token.encode("utf-8", "replace"), wanted.encode())


class RejectedRequestError(Exception):
    """A request that goes no further: the status, and why in a line."""

    def __init__(self, status: int, reason: str) -> None:
        self.status, self.reason = status, reason
        super().__init__(reason)


class SecurityMiddleware:
    """Stands before the application."""

    def __init__(self, app: App, policy: AccessPolicy) -> None:
        self.app, self.policy = app, policy

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return
        answer = _GuardedResponse(send)
        try:
            headers = _parse_headers(scope)
            self._check_origin(scope["method"], headers)
            if self._has_token_link(scope):
                await answer.set_token_cookie(self.policy)
                return
            self._check_token(headers)
            body = await _read_body(receive, headers)
            given = _replay_body(body, receive)
            await asyncio.wait_for(self.app(scope, given, answer.send), RESPONSE_TIMEOUT)
        except RejectedRequestError as refused:
            await answer.send_error(refused)
        except TimeoutError:
            await answer.send_error(
                RejectedRequestError(408, f"this took longer than {RESPONSE_TIMEOUT:.0f} s")
            )

    def _check_origin(self, method: str, headers: dict[str, str]) -> None:
        host = headers.get("host", "")
        if not self.policy.allows_host(host):
            raise RejectedRequestError(
                421, "this server goes by another name: use the link that it printed"
            )
        origin, site = headers.get("origin"), headers.get("sec-fetch-site", "none")
        if origin is not None and origin != f"http://{host}":
            raise RejectedRequestError(403, "a request from another page")
        if method not in ("GET", "HEAD"):
            if site not in ("none", "same-origin"):
                raise RejectedRequestError(403, "a request from another page")
            kind = headers.get("content-type", "").partition(";")[0].strip().lower()
            if method == "POST" and kind != "application/json":
                raise RejectedRequestError(415, "a request is JSON: content-type: application/json")

    def _has_token_link(self, scope: Scope) -> bool:
        """Say whether this is the link that was printed, token and all."""
        if self.policy.token is None or scope["path"] != "/" or scope["method"] != "GET":
            return False
        try:
            query = parse_qs(scope["query_string"].decode("latin-1"), max_num_fields=20)
        except ValueError:  # more than a link of ours has
            return False
        return any(self.policy.accepts_token(given) for given in query.get("token", []))

    def _check_token(self, headers: dict[str, str]) -> None:
        if self.policy.token is None:
            return
        given = headers.get("authorization", "").removeprefix("Bearer ").strip()
        if not given:
            try:
                kept = SimpleCookie(headers.get("cookie", "")).get(self.policy.cookie_name)
            except CookieError:
                kept = None
            given = kept.value if kept else ""
        if not self.policy.accepts_token(given):
            raise RejectedRequestError(
                401, "a token is needed: use the link that the server printed"
            )


class _GuardedResponse:
    """Sends an answer with the headers that all of them have; at most one."""

    def __init__(self, send: Send) -> None:
        self._send, self._has_started = send, False

    async def send(self, message: Message) -> None:
        if message["type"] == "http.response.start":
            self._has_started = True
            given = message.get("headers", [])
            own = {name.lower() for name, _ in given}  # a page may have a policy of its own
            headers = [
                *given,
                *((name, value) for name, value in SECURITY_HEADERS if name not in own),
            ]
            message = {**message, "headers": headers}
        await self._send(message)

    async def send_error(self, error: RejectedRequestError) -> None:
        if not self._has_started:
            body = json.dumps({"error": error.reason}).encode()
            await self._send_complete(error.status, body, [(b"content-type", b"application/json")])

    async def set_token_cookie(self, policy: AccessPolicy) -> None:
        """Keep the token in a cookie, and lead to the page, without it in the address."""
        kept = f"{policy.cookie_name}={policy.token}; HttpOnly; SameSite=Strict; Path=/"
        await self._send_complete(303, b"", [(b"location", b"/"), (b"set-cookie", kept.encode())])

    async def _send_complete(
        self, status: int, body: bytes, headers: list[tuple[bytes, bytes]]
    ) -> None:
        headers = [*headers, (b"content-length", str(len(body)).encode())]
        await self.send({"type": "http.response.start", "status": status, "headers": headers})
        await self._send({"type": "http.response.body", "body": body})


async def _read_body(receive: Receive, headers: dict[str, str]) -> bytes:
    """Read the body, unless it is too large or too slow."""
    too_large = RejectedRequestError(413, f"a request has at most {MAX_BODY_BYTES // 1000} kB")
    length = headers.get("content-length", "0")
    if (
        not (length.isascii() and length.isdecimal())
        or len(length) > 12
        or int(length) > MAX_BODY_BYTES
    ):
        raise too_large
    pieces, size = list[bytes](), 0
    try:
        async with asyncio.timeout(BODY_TIMEOUT):
            while True:
                message = await receive()
                if message["type"] == "http.disconnect":
                    raise RejectedRequestError(400, "the request ended early")
                pieces.append(message.get("body", b""))
                size += len(pieces[-1])
                if size > MAX_BODY_BYTES:
                    raise too_large
                if not message.get("more_body"):
                    return b"".join(pieces)
    except TimeoutError:
        raise RejectedRequestError(
            408, f"the request took longer than {BODY_TIMEOUT:.0f} s"
        ) from None


def _replay_body(body: bytes, receive: Receive) -> Receive:
    """Give the application the body that was read, and after it what else comes."""
    waiting: list[Message] = [{"type": "http.request", "body": body, "more_body": False}]

    async def given() -> Message:
        return waiting.pop() if waiting else await receive()

    return given


def _parse_headers(scope: Scope) -> dict[str, str]:
    """Take the headers; one that says who is asking must not be there twice."""
    headers: dict[str, str] = {}
    for name, value in scope["headers"]:
        key = name.decode("latin-1").lower()
        if key in headers and key in ("host", "origin", "content-length", "content-type"):
            raise RejectedRequestError(400, f"the header {key} is there twice")
        headers[key] = value.decode("latin-1")
    return headers


def _is_ip_address(name: str) -> bool:
    try:
        ipaddress.ip_address(name)
    except ValueError:
        return False
    return True
