"""Checks of every request before it is read: host, origin, token, size and time.

Every server has a token, on loopback too: other users of the machine can reach the port.

Another website must not reach this server through its visitor's browser: the check of the Host
header stops DNS rebinding, the check of the Origin header stops cross-site requests.
"""

import asyncio
import ipaddress
import json
import secrets
from collections import OrderedDict
from collections.abc import Awaitable, Callable, MutableMapping
from dataclasses import dataclass, field
from http.cookies import CookieError, SimpleCookie
from typing import Any, Literal, TypeAlias
from urllib.parse import parse_qs

Scope: TypeAlias = MutableMapping[str, Any]
Message: TypeAlias = MutableMapping[str, Any]
Receive: TypeAlias = Callable[[], Awaitable[Message]]
Send: TypeAlias = Callable[[Message], Awaitable[None]]
App: TypeAlias = Callable[[Scope, Receive, Send], Awaitable[None]]

MAX_BODY_BYTES = 1_000_000
BODY_TIMEOUT = 10.0  # seconds to receive the request
RESPONSE_TIMEOUT = 20.0  # seconds to compute the response
MAX_CLIENTS = 64  # browsers that are told apart
CLOSING_STATUSES = (408, 413, 415)
LOOPBACK = ("localhost", "127.0.0.1", "::1")
RELOAD_PAGE = (
    b'<!doctype html><meta charset="utf-8"><meta http-equiv="refresh" content="0; url=/">'
    b"<title>workings</title>"
)

CONTENT_SECURITY_POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; font-src 'self';"
    " img-src 'self' data:; connect-src 'self'; frame-src 'self'; base-uri 'none';"
    " form-action 'none'; frame-ancestors 'none';"
    " require-trusted-types-for 'script'; trusted-types 'none'"
)
SECURITY_HEADERS = (
    (b"content-security-policy", CONTENT_SECURITY_POLICY.encode()),
    (b"x-content-type-options", b"nosniff"),
    (b"referrer-policy", b"no-referrer"),
    (b"cross-origin-opener-policy", b"same-origin"),
    (b"cross-origin-resource-policy", b"same-origin"),
    (b"cache-control", b"no-cache"),
)


class IssuedClients:
    """The ids of the latest browsers: each has its own place in the queue of requests."""

    def __init__(self) -> None:
        self._ids: OrderedDict[str, None] = OrderedDict()

    def __contains__(self, client: str) -> bool:
        return client in self._ids

    def issue(self) -> str:
        """Return a new id; the oldest one is forgotten if there are too many."""
        client = secrets.token_urlsafe(12)
        self._ids[client] = None
        if len(self._ids) > MAX_CLIENTS:
            self._ids.popitem(last=False)
        return client


@dataclass(frozen=True)
class AccessPolicy:
    """The host names that the server answers to, and its token; None: it needs none."""

    port: int
    host_names: tuple[str, ...] = LOOPBACK
    allows_any_address: bool = False  # IP addresses are safe: only names can be rebound
    token: str | None = field(default=None, repr=False)
    scheme: Literal["http", "https"] = "http"
    clients: IssuedClients = field(default_factory=IssuedClients, repr=False, compare=False)

    @property
    def cookie_name(self) -> str:
        """The name of the cookie with the token; one per port, since ports share cookies."""
        return f"workings-{self.port}"

    def format_cookie(self, name: str, value: str) -> bytes:
        """Return a Set-Cookie header that scripts cannot read and other sites do not send."""
        secure = "; Secure" if self.scheme == "https" else ""
        return f"{name}={value}; HttpOnly; SameSite=Strict; Path=/{secure}".encode()

    def allows_host(self, host: str) -> bool:
        """Return True if a Host header names this server."""
        name, _, port = host.rpartition(":") if not host.endswith("]") else (host, "", "")
        if not name or not port.isascii() or (port and not port.isdecimal()):
            name, port = host, ""
        if len(port) > 5 or int(port or 80) != self.port:
            return False
        name = name.strip("[]").lower()
        return name in self.host_names or (self.allows_any_address and _is_ip_address(name))

    def accepts_token(self, token: str) -> bool:
        """Compare a token in constant time."""
        expected = self.token or ""
        return secrets.compare_digest(token.encode("utf-8", "replace"), expected.encode())


class RejectedRequestError(Exception):
    """A rejected request, with its HTTP status and a one-line reason."""

    def __init__(self, status: int, reason: str) -> None:
        self.status, self.reason = status, reason
        super().__init__(reason)


class SecurityMiddleware:
    """ASGI middleware that checks requests and adds the security headers to responses."""

    def __init__(self, app: App, policy: AccessPolicy) -> None:
        self.app, self.policy = app, policy

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return
        response = _GuardedResponse(send)
        try:
            headers = _parse_headers(scope)
            self._check_origin(scope, headers)
            if self._has_token_link(scope):
                is_cross_site = headers.get("sec-fetch-site") in ("cross-site", "same-site")
                await response.set_token_cookie(self.policy, reload=is_cross_site)
                return
            self._check_token(headers)
            self._identify_client(scope, headers, response)
            body = await _read_body(receive, headers)
            replay = _replay_body(body, receive)
            await asyncio.wait_for(self.app(scope, replay, response.send), RESPONSE_TIMEOUT)
        except RejectedRequestError as error:
            await response.send_error(error)
        except TimeoutError:
            await response.send_error(
                RejectedRequestError(408, f"the response took longer than {RESPONSE_TIMEOUT:.0f} s")
            )
        except asyncio.CancelledError:  # by the server, whose tasks are the requests
            await response.send_error(RejectedRequestError(503, "the server is stopping"))

    def _check_origin(self, scope: Scope, headers: dict[str, str]) -> None:
        method, host = scope["method"], headers.get("host", "")
        if not self.policy.allows_host(host):
            raise RejectedRequestError(
                421, "unknown host name: use the link that the server printed"
            )
        origin, site = headers.get("origin"), headers.get("sec-fetch-site", "none")
        if origin is not None and origin != f"{self.policy.scheme}://{host}":
            raise RejectedRequestError(403, "cross-origin requests are not allowed")
        # A link on another site may lead to the page itself, which shows nothing without a cookie.
        is_visit = (
            (method, scope["path"], headers.get("sec-fetch-mode"), headers.get("sec-fetch-dest"))
        ) == ("GET", "/", "navigate", "document")
        if site not in ("none", "same-origin") and not is_visit:
            raise RejectedRequestError(403, "cross-origin requests are not allowed")
        if method not in ("GET", "HEAD"):
            kind = headers.get("content-type", "").partition(";")[0].strip().lower()
            if method == "POST" and kind != "application/json":
                raise RejectedRequestError(415, "expected content-type: application/json")

    def _has_token_link(self, scope: Scope) -> bool:
        """Return True if the request is for the page and its query has the token."""
        if self.policy.token is None or scope["path"] != "/" or scope["method"] != "GET":
            return False
        try:
            query = parse_qs(scope["query_string"].decode("latin-1"), max_num_fields=20)
        except ValueError:  # too many fields
            return False
        return any(self.policy.accepts_token(token) for token in query.get("token", []))

    def _check_token(self, headers: dict[str, str]) -> None:
        if self.policy.token is None:
            return
        token = headers.get("authorization", "").removeprefix("Bearer ").strip()
        token = token or _read_cookie(headers, self.policy.cookie_name)
        if not self.policy.accepts_token(token):
            raise RejectedRequestError(
                401, "a token is needed: use the link that the server printed"
            )

    def _identify_client(
        self, scope: Scope, headers: dict[str, str], response: "_GuardedResponse"
    ) -> None:
        """Name the client by its browser or, without a cookie of ours, by its address."""
        name = f"{self.policy.cookie_name}-client"
        client = _read_cookie(headers, name)
        if client in self.policy.clients:
            scope["workings.client"] = client
        elif scope["path"] == "/":
            cookie = self.policy.format_cookie(name, self.policy.clients.issue())
            response.headers.append((b"set-cookie", cookie))


def identify_client(scope: Scope) -> str:
    """Return the name of the client, by which requests are queued in turn."""
    address = scope.get("client") or ("",)
    return str(scope.get("workings.client") or address[0])


def _read_cookie(headers: dict[str, str], name: str) -> str:
    try:
        cookie = SimpleCookie(headers.get("cookie", "")).get(name)
    except CookieError:
        return ""
    return cookie.value if cookie else ""


class _GuardedResponse:
    """Sends at most one response, with the security headers."""

    def __init__(self, send: Send) -> None:
        self._send, self._has_started = send, False
        self.headers: list[tuple[bytes, bytes]] = []  # added to the response

    async def send(self, message: Message) -> None:
        if message["type"] == "http.response.start":
            self._has_started = True
            headers = message.get("headers", [])
            names = {name.lower() for name, _ in headers}  # a report has its own policy
            missing = [(name, value) for name, value in SECURITY_HEADERS if name not in names]
            message = {**message, "headers": [*headers, *missing, *self.headers]}
        await self._send(message)

    async def send_error(self, error: RejectedRequestError) -> None:
        if not self._has_started:
            body = json.dumps({"error": error.reason}).encode()
            headers = [(b"content-type", b"application/json")]
            if error.status in CLOSING_STATUSES:  # the rest of the request is not read
                headers.append((b"connection", b"close"))
            await self._send_complete(error.status, body, headers)

    async def set_token_cookie(self, policy: AccessPolicy, *, reload: bool) -> None:
        """Store the token in a cookie and lead to the page without it in the address.

        With `reload`, the page itself leads there: after a redirect from another site (such as a
        file), the browser would not send the cookie.
        """
        assert policy.token is not None
        cookie = (b"set-cookie", policy.format_cookie(policy.cookie_name, policy.token))
        if reload:
            headers = [(b"content-type", b"text/html; charset=utf-8"), cookie]
            await self._send_complete(200, RELOAD_PAGE, headers)
        else:
            await self._send_complete(303, b"", [(b"location", b"/"), cookie])

    async def _send_complete(
        self, status: int, body: bytes, headers: list[tuple[bytes, bytes]]
    ) -> None:
        headers = [*headers, (b"content-length", str(len(body)).encode())]
        await self.send({"type": "http.response.start", "status": status, "headers": headers})
        await self._send({"type": "http.response.body", "body": body})


async def _read_body(receive: Receive, headers: dict[str, str]) -> bytes:
    """Return the body; reject the request if it is too large or too slow."""
    limit = f"{MAX_BODY_BYTES // 1000} kB"
    too_large = RejectedRequestError(413, f"the request is larger than {limit}")
    length = headers.get("content-length", "0")
    if (
        not (length.isascii() and length.isdecimal())
        or len(length) > 12
        or int(length) > MAX_BODY_BYTES
    ):
        raise too_large
    chunks, size = list[bytes](), 0
    try:
        async with asyncio.timeout(BODY_TIMEOUT):
            while True:
                message = await receive()
                if message["type"] == "http.disconnect":
                    raise RejectedRequestError(400, "the client disconnected")
                chunks.append(message.get("body", b""))
                size += len(chunks[-1])
                if size > MAX_BODY_BYTES:
                    raise too_large
                if not message.get("more_body"):
                    return b"".join(chunks)
    except TimeoutError:
        raise RejectedRequestError(
            408, f"the request took longer than {BODY_TIMEOUT:.0f} s"
        ) from None


def _replay_body(body: bytes, receive: Receive) -> Receive:
    """Return a `receive` that yields the body once, then the further messages."""
    messages: list[Message] = [{"type": "http.request", "body": body, "more_body": False}]

    async def replay() -> Message:
        return messages.pop() if messages else await receive()

    return replay


def _parse_headers(scope: Scope) -> dict[str, str]:
    """Return the headers by name; reject duplicates of those that the checks depend on."""
    headers: dict[str, str] = {}
    for name, value in scope["headers"]:
        key = name.decode("latin-1").lower()
        if key in headers and key in ("host", "origin", "content-length", "content-type"):
            raise RejectedRequestError(400, f"the header {key} is given twice")
        headers[key] = value.decode("latin-1")
    return headers


def _is_ip_address(name: str) -> bool:
    try:
        ipaddress.ip_address(name)
    except ValueError:
        return False
    return True
