"""The socket of the server, and its TLS."""

import asyncio
import shutil
import socket
import ssl
import subprocess
from collections.abc import Iterator
from contextlib import ExitStack
from functools import partial
from pathlib import Path

import pytest
from pages import run_async

from workings.errors import UserError
from workings.web import connections, server
from workings.web.server import ServerOptions, _open_socket, serve, serve_in_background


def test_accepted_connections_have_tcp_nodelay() -> None:
    """Without it, each response waits 40 ms for an acknowledgement of the browser."""

    async def read_option() -> int:
        option: asyncio.Future[int] = asyncio.get_running_loop().create_future()

        def on_connection(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            sock = writer.get_extra_info("socket")
            option.set_result(sock.getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY))
            writer.close()

        listening = _open_socket("127.0.0.1", 0)
        async with await asyncio.start_server(on_connection, sock=listening):
            _, writer = await asyncio.open_connection(*listening.getsockname())
            nodelay = await option
            writer.close()
            await writer.wait_closed()
            return nodelay

    assert run_async(read_option()) != 0


@pytest.fixture(scope="module")
def certificate(tmp_path_factory: pytest.TempPathFactory) -> str:
    """A file with a certificate and its key."""
    if (openssl := shutil.which("openssl")) is None:
        pytest.skip("no openssl")
    path = tmp_path_factory.mktemp("tls") / "both.pem"
    command = f"{openssl} req -x509 -newkey rsa:2048 -nodes -subj /CN=localhost -days 2"
    command += f" -keyout {path} -out {path}.certificate"
    subprocess.run(command.split(), check=True, capture_output=True)
    path.write_bytes(path.read_bytes() + Path(f"{path}.certificate").read_bytes())
    return str(path)


@pytest.fixture
def port(certificate: str, monkeypatch: pytest.MonkeyPatch) -> Iterator[int]:
    """The port of a server with TLS that takes eight connections."""
    monkeypatch.setattr(server, "ServerOptions", partial(ServerOptions, certificate=certificate))
    monkeypatch.setattr(connections, "MAX_CONNECTIONS_PER_CLIENT", 8)
    with serve_in_background() as address:
        scheme, _, port = address.rpartition(":")
        assert scheme == "https://127.0.0.1"
        yield int(port)


def test_connections_without_a_handshake_keep_no_one_out(
    port: int, caplog: pytest.LogCaptureFixture
) -> None:
    with ExitStack() as stack:
        for data in (b"", b"\x16\x03\x01\x02", b"GET / HTTP/1.1\r\n") * 10:
            sock = stack.enter_context(socket.create_connection(("127.0.0.1", port), timeout=60))
            sock.sendall(data)
        for _ in range(3):
            assert get_early(port, "/").startswith(b"HTTP/1.1 200")
    assert caplog.messages == []


def get_early(port: int, path: str) -> bytes:
    """Send a request together with the end of the handshake; return what comes first."""
    context = ssl.create_default_context()
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    received, to_send = ssl.MemoryBIO(), ssl.MemoryBIO()
    tls = context.wrap_bio(received, to_send)
    with socket.create_connection(("127.0.0.1", port), timeout=60) as sock:

        def wait_for(step: partial[bytes] | partial[None]) -> bytes | None:
            while True:
                try:
                    return step()
                except ssl.SSLWantReadError:
                    sock.sendall(to_send.read())
                    received.write(sock.recv(65536))

        wait_for(partial(tls.do_handshake))
        tls.write(f"GET {path} HTTP/1.1\r\nHost: 127.0.0.1:{port}\r\n\r\n".encode())
        return wait_for(partial(tls.read, 65536)) or b""


@pytest.mark.parametrize(
    ("names", "message"),
    [
        (("no.pem", None), "--certfile no.pem: cannot be used: No such file or directory"),
        ((__file__, None), "cannot be used: "),
        ((None, "key.pem"), "--keyfile needs --certfile"),
    ],
)
def test_unusable_certificates_are_refused(
    names: tuple[str | None, str | None], message: str
) -> None:
    with pytest.raises(UserError, match=message):
        serve(ServerOptions(certificate=names[0], key=names[1]), lambda _: None)
