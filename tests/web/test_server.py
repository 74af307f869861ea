"""The port that the page is served on."""

import asyncio
import socket

from pages import awaited

from workings.web.server import _open_socket


def test_an_answer_goes_at_once() -> None:
    """What is accepted does not wait for more to send: in a browser that was 40 ms an answer."""

    async def accepted() -> int:
        waits: asyncio.Future[int] = asyncio.get_running_loop().create_future()

        def arrived(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            sock = writer.get_extra_info("socket")
            waits.set_result(sock.getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY))
            writer.close()

        listening = _open_socket("127.0.0.1", 0)
        async with await asyncio.start_server(arrived, sock=listening):
            _, there = await asyncio.open_connection(*listening.getsockname())
            found = await waits
            there.close()
            await there.wait_closed()
            return found

    assert awaited(accepted()) != 0
