"""The socket of the server."""

import asyncio
import socket

from pages import run_async

from workings.web.server import _open_socket


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
