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

LARGEST_BODY = 1_000_000  # bytes
LONGEST_BODY = 10.0  # seconds for a request to arrive
LONGEST_ANSWER = 20.0  # seconds for working it out
LOOPBACK = ("localhost", "127.0.0.1", "::1")

POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:;"
    " connect-src 'self'; frame-src 'self'; base-uri 'none'; form-action 'none';"
    " frame-ancestors 'none'; require-trusted-types-for 'script'; trusted-types 'none'"
)
HEADERS = (
    (b"content-security-policy", POLICY.encode()),
    (b"x-content-type-options", b"nosniff"),
    (b"referrer-policy", b"no-referrer"),
    (b"cross-origin-opener-policy", b"same-origin"),
    (b"cross-origin-resource-policy", b"same-origin"),
    (b"cache-control", b"no-cache"),
)


@dataclass(frozen=True)
class Door:
    """Under which names the server answers, and the token it wants; None: it is loopback only."""

    port: int
    names: tuple[str, ...] = LOOPBACK
    any_address: bool = False  # an address cannot be bent to point here: only names can
    token: str | None = field(default=None, repr=False)

    @property
    def cookie(self) -> str:
        """Cookies are shared by all ports of a host: each has its own."""
        return f"workings-{self.port}"

    def knows(self, host: str) -> bool:
        """Say whether a Host header is one of ours."""
        name, _, port = host.rpartition(":") if not host.endswith("]") else (host, "", "")
        if not name or not port.isascii() or (port and not port.isdecimal()):
            name, port = host, ""
        if len(port) > 5 or int(port or 80) != self.port:
            return False
        name = name.strip("[]").lower()
        return name in self.names or (self.any_address and _is_address(name))

    def admits(self, given: str) -> bool:
        """Compare a token, however it is written, in a time that tells nothing."""
        wanted = self.token or ""
        return secrets.compare_digest(given.encode("utf-8", "replace"), wanted.encode())


class Refused(Exception):  # noqa: N818
    """A request that goes no further: the status, and why in a line."""

    def __init__(self, status: int, why: str) -> None:
        self.status, self.why = status, why
        super().__init__(why)


class Guard:
    """Stands before the application."""

    def __init__(self, app: App, door: Door) -> None:
        self.app, self.door = app, door

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return
        answer = _Answer(send)
        try:
            headers = _headers(scope)
            self._expect_known(scope["method"], headers)
            if self._hands_token(scope):
                await answer.enter(self.door)
                return
            self._expect_token(headers)
            body = await _body(receive, headers)
            given = _given(body, receive)
            await asyncio.wait_for(self.app(scope, given, answer.send), LONGEST_ANSWER)
        except Refused as refused:
            await answer.refuse(refused)
        except TimeoutError:
            await answer.refuse(Refused(408, f"this took longer than {LONGEST_ANSWER:.0f} s"))

    def _expect_known(self, method: str, headers: dict[str, str]) -> None:
        host = headers.get("host", "")
        if not self.door.knows(host):
            raise Refused(421, "this server goes by another name: use the link that it printed")
        origin, site = headers.get("origin"), headers.get("sec-fetch-site", "none")
        if origin is not None and origin != f"http://{host}":
            raise Refused(403, "a request from another page")
        if method not in ("GET", "HEAD"):
            if site not in ("none", "same-origin"):
                raise Refused(403, "a request from another page")
            kind = headers.get("content-type", "").partition(";")[0].strip().lower()
            if method == "POST" and kind != "application/json":
                raise Refused(415, "a request is JSON: content-type: application/json")

    def _hands_token(self, scope: Scope) -> bool:
        """Say whether this is the link that was printed, token and all."""
        if self.door.token is None or scope["path"] != "/" or scope["method"] != "GET":
            return False
        try:
            query = parse_qs(scope["query_string"].decode("latin-1"), max_num_fields=20)
        except ValueError:  # more than a link of ours has
            return False
        return any(self.door.admits(given) for given in query.get("token", []))

    def _expect_token(self, headers: dict[str, str]) -> None:
        if self.door.token is None:
            return
        given = headers.get("authorization", "").removeprefix("Bearer ").strip()
        if not given:
            try:
                kept = SimpleCookie(headers.get("cookie", "")).get(self.door.cookie)
            except CookieError:
                kept = None
            given = kept.value if kept else ""
        if not self.door.admits(given):
            raise Refused(401, "a token is needed: use the link that the server printed")


class _Answer:
    """Sends an answer with the headers that all of them have; at most one."""

    def __init__(self, send: Send) -> None:
        self._send, self._begun = send, False

    async def send(self, message: Message) -> None:
        if message["type"] == "http.response.start":
            self._begun = True
            given = message.get("headers", [])
            own = {name.lower() for name, _ in given}  # a page may have a policy of its own
            headers = [*given, *((name, value) for name, value in HEADERS if name not in own)]
            message = {**message, "headers": headers}
        await self._send(message)

    async def refuse(self, refused: Refused) -> None:
        if not self._begun:
            body = json.dumps({"error": refused.why}).encode()
            await self._whole(refused.status, body, [(b"content-type", b"application/json")])

    async def enter(self, door: Door) -> None:
        """Keep the token in a cookie, and lead to the page, without it in the address."""
        kept = f"{door.cookie}={door.token}; HttpOnly; SameSite=Strict; Path=/"
        await self._whole(303, b"", [(b"location", b"/"), (b"set-cookie", kept.encode())])

    async def _whole(self, status: int, body: bytes, headers: list[tuple[bytes, bytes]]) -> None:
        headers = [*headers, (b"content-length", str(len(body)).encode())]
        await self.send({"type": "http.response.start", "status": status, "headers": headers})
        await self._send({"type": "http.response.body", "body": body})


async def _body(receive: Receive, headers: dict[str, str]) -> bytes:
    """Read the body, unless it is too large or too slow."""
    too_large = Refused(413, f"a request has at most {LARGEST_BODY // 1000} kB")
    length = headers.get("content-length", "0")
    if (
        not (length.isascii() and length.isdecimal())
        or len(length) > 12
        or int(length) > LARGEST_BODY
    ):
        raise too_large
    pieces, size = list[bytes](), 0
    try:
        async with asyncio.timeout(LONGEST_BODY):
            while True:
                message = await receive()
                if message["type"] == "http.disconnect":
                    raise Refused(400, "the request ended early")
                pieces.append(message.get("body", b""))
                size += len(pieces[-1])
                if size > LARGEST_BODY:
                    raise too_large
                if not message.get("more_body"):
                    return b"".join(pieces)
    except TimeoutError:
        raise Refused(408, f"the request took longer than {LONGEST_BODY:.0f} s") from None


def _given(body: bytes, receive: Receive) -> Receive:
    """Give the application the body that was read, and after it what else comes."""
    waiting: list[Message] = [{"type": "http.request", "body": body, "more_body": False}]

    async def given() -> Message:
        return waiting.pop() if waiting else await receive()

    return given


def _headers(scope: Scope) -> dict[str, str]:
    """Take the headers; one that says who is asking must not be there twice."""
    headers: dict[str, str] = {}
    for name, value in scope["headers"]:
        key = name.decode("latin-1").lower()
        if key in headers and key in ("host", "origin", "content-length", "content-type"):
            raise Refused(400, f"the header {key} is there twice")
        headers[key] = value.decode("latin-1")
    return headers


def _is_address(name: str) -> bool:
    try:
        ipaddress.ip_address(name)
    except ValueError:
        return False
    return True
