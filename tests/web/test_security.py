"""Checks of host, origin, token, content type, size and time."""

import asyncio
from collections.abc import Iterator
from typing import Any

import pytest
from pages import run_async
from starlette.testclient import TestClient

from workings.web import security
from workings.web.app import build_secured_app
from workings.web.security import AccessPolicy, SecurityMiddleware, identify_client

JSON = {"content-type": "application/json"}
TOKEN = "a-token-of-some-length"  # noqa: S105


@pytest.fixture(scope="module")
def locked() -> Iterator[TestClient]:
    policy = AccessPolicy(80, ("example.org",), allows_any_address=True, token=TOKEN)
    with TestClient(
        build_secured_app(policy), base_url="http://example.org", follow_redirects=False
    ) as client:  # type: ignore[arg-type]
        yield client


@pytest.mark.parametrize("host", ["localhost", "127.0.0.1", "[::1]", "LOCALHOST", "localhost:80"])
def test_own_host_names_are_accepted(client: TestClient, host: str) -> None:
    assert client.get("/", headers={"host": host}).status_code == 200


@pytest.mark.parametrize(
    "host",
    [
        "evil.example",
        "localhost.evil.example",
        "localhost:81",
        "127.0.0.1.nip.io",
        "",
        "192.168.0.9",
        "localhost:",
        "[::1]:x",
        "localhost:" + "0" * 5000 + "80",
    ],
)
def test_other_host_names_are_rejected(client: TestClient, host: str) -> None:
    response = client.get("/", headers={"host": host})
    assert response.status_code == (200 if host == "localhost:" else 421)


@pytest.mark.parametrize(
    "origin", ["http://evil.example", "null", "https://localhost", "http://localhost:8000", ""]
)
def test_cross_origin_requests_are_rejected(client: TestClient, origin: str) -> None:
    response = client.post("/api/read", json={"text": "1 2"}, headers={"origin": origin})
    assert response.status_code == 403
    assert client.get("/", headers={"origin": origin}).status_code == 403


def test_same_origin_request_is_accepted(client: TestClient) -> None:
    own = {"origin": "http://localhost", "sec-fetch-site": "same-origin"}
    assert client.post("/api/read", json={"text": "1 2"}, headers=own).status_code == 200
    cross = {"sec-fetch-site": "cross-site"}
    assert client.post("/api/read", json={"text": "1 2"}, headers=cross).status_code == 403


@pytest.mark.parametrize(
    "kind", ["text/plain", "application/x-www-form-urlencoded", "multipart/form-data", ""]
)
def test_form_content_types_are_rejected(client: TestClient, kind: str) -> None:
    response = client.post("/api/read", content=b'{"text": "1 2"}', headers={"content-type": kind})
    assert response.status_code == 415


def test_large_body_is_rejected(client: TestClient) -> None:
    response = client.post("/api/read", content=b" " * (security.MAX_BODY_BYTES + 1), headers=JSON)
    assert response.status_code == 413
    assert response.json() == {"error": "the request is larger than 1000 kB"}

    def chunks() -> Iterator[bytes]:  # a body without content-length
        for _ in range(12):
            yield b" " * 100_000

    assert client.post("/api/read", content=chunks(), headers=JSON).status_code == 413


def respond(app: Any, receive: Any) -> list[Any]:
    sent: list[Any] = []

    async def send(message: Any) -> None:
        sent.append(message)

    headers = [(b"host", b"localhost"), (b"content-type", b"application/json")]
    scope = {"type": "http", "method": "POST", "path": "/", "query_string": b"", "headers": headers}
    run_async(SecurityMiddleware(app, AccessPolicy(80))(scope, receive, send))
    return sent


def test_slow_request_and_slow_response_time_out(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(security, "BODY_TIMEOUT", 0.01)
    monkeypatch.setattr(security, "RESPONSE_TIMEOUT", 0.01)

    async def never(*_: Any) -> Any:
        await asyncio.sleep(60)

    async def empty_body() -> Any:
        return {"type": "http.request", "body": b"", "more_body": False}

    assert respond(never, never)[0]["status"] == 408
    assert respond(never, empty_body)[0]["status"] == 408


def test_responses_have_security_headers(client: TestClient) -> None:
    for response in (
        client.get("/"),
        client.get("/nothing"),
        client.get("/", headers={"host": "x"}),
    ):
        policy = response.headers["content-security-policy"]
        assert policy.startswith("default-src 'none'")
        assert "unsafe" not in policy
        assert "frame-ancestors 'none'" in policy
        assert response.headers["x-content-type-options"] == "nosniff"
        assert response.headers["referrer-policy"] == "no-referrer"


def test_without_token_requests_are_rejected(locked: TestClient) -> None:
    for path in (
        "/",
        "/page/app.js",
        "/api/lectures",
        "/api/openapi.json",
        "/?token=wrong",
        "/?token=",
        "/?" + "a=1&" * 30,
    ):
        response = locked.get(path)
        assert response.status_code == 401, path
        assert TOKEN not in response.text


@pytest.mark.parametrize(
    "authorization", ["", "Bearer", "Bearer ", f"Bearer {TOKEN}x", "Bearer é", f"Basic {TOKEN}"]
)
def test_wrong_token_is_rejected(locked: TestClient, authorization: str) -> None:
    assert locked.get("/", headers={"authorization": authorization.encode()}).status_code == 401


def test_link_sets_cookie_and_redirects(locked: TestClient) -> None:
    response = locked.get(f"/?token={TOKEN}")
    assert (response.status_code, response.headers["location"]) == (303, "/")
    cookie = response.headers["set-cookie"]
    assert "HttpOnly" in cookie
    assert "SameSite=Strict" in cookie
    headers = {"cookie": cookie.partition(";")[0]}
    locked.cookies.clear()
    assert locked.get("/", headers=headers).status_code == 200
    assert locked.get("/", headers={"authorization": f"Bearer {TOKEN}"}).status_code == 200
    assert locked.get("/").status_code == 401


def test_ip_addresses_are_accepted_on_wildcard_host(locked: TestClient) -> None:
    own = {"authorization": f"Bearer {TOKEN}"}
    assert locked.get("/", headers={**own, "host": "192.168.0.9"}).status_code == 200
    assert locked.get("/", headers={**own, "host": "evil.example"}).status_code == 421


@pytest.mark.parametrize("host", [None, "127.0.0.1", "0.0.0.0"])  # noqa: S104
def test_every_server_has_a_token_unless_it_is_asked_to_have_none(host: str | None) -> None:
    from workings.web.server import ServerOptions, _build_policy, format_link

    policy = _build_policy(ServerOptions(host=host), 80)
    assert policy.token
    assert len(policy.token) >= 32
    assert format_link(host, policy).endswith(f"?token={policy.token}")
    assert policy.token not in repr(policy)
    assert _build_policy(ServerOptions(host=host, has_token=False), 80).token is None


def test_a_link_from_a_file_sets_the_cookie_without_a_redirect(locked: TestClient) -> None:
    """After a redirect from another site, the browser would not send a strict cookie."""
    visit = {
        "sec-fetch-site": "cross-site",
        "sec-fetch-mode": "navigate",
        "sec-fetch-dest": "document",
    }
    response = locked.get(f"/?token={TOKEN}", headers=visit, follow_redirects=False)
    assert response.status_code == 200
    assert 'http-equiv="refresh" content="0; url=/"' in response.text
    assert TOKEN in response.headers["set-cookie"]
    assert "SameSite=Strict" in response.headers["set-cookie"]


@pytest.mark.parametrize("site", ["cross-site", "same-site"])
@pytest.mark.parametrize("path", ["/api/lectures", "/api/runs", "/page/page.css"])
def test_get_requests_of_other_sites_are_refused(client: TestClient, site: str, path: str) -> None:
    for mode in ("no-cors", "navigate"):
        headers = {"sec-fetch-site": site, "sec-fetch-mode": mode, "sec-fetch-dest": "document"}
        assert client.get(path, headers=headers).status_code == 403


def test_https_has_its_own_origin_and_secure_cookies() -> None:
    app: Any = build_secured_app(AccessPolicy(443, token=TOKEN, scheme="https"))
    with TestClient(app, base_url="https://localhost:443") as client:
        bearer = {"authorization": f"Bearer {TOKEN}", "host": "localhost:443"}
        wrong = client.get("/", headers={**bearer, "origin": "http://localhost:443"})
        assert wrong.status_code == 403
        right = client.get("/", headers={**bearer, "origin": "https://localhost:443"})
        assert right.status_code == 200
        assert all("Secure" in cookie for cookie in right.headers.get_list("set-cookie"))


def test_browsers_get_a_name_and_forged_ones_are_not_believed() -> None:
    scope: Any = {"client": ("10.0.0.1", 5)}
    assert identify_client(scope) == "10.0.0.1"
    app: Any = build_secured_app(AccessPolicy(80))
    client = TestClient(app, base_url="http://localhost")
    issued = client.get("/").headers["set-cookie"]
    assert issued.startswith("workings-80-client=")
    assert "set-cookie" not in client.get("/").headers  # it has one already
    forged = client.get("/", headers={"cookie": "workings-80-client=forged"})
    assert forged.headers["set-cookie"].startswith("workings-80-client=")
