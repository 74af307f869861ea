"""The server under attack: costly requests, floods, idle and slow connections, Ctrl-C.

Every attack is bounded in count and time, and goes to loopback only.
"""

import asyncio
import http.client
import io
import json
import os
import re
import select
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import ExitStack, closing, contextmanager, suppress
from pathlib import Path
from shutil import rmtree
from typing import Any, ClassVar

import numpy as np
import pytest
from pages import run_async
from small_runs import append_to_log, step_record, write_new_run

from workings.web import connections, security, worker, worker_pool
from workings.web import server as web_server
from workings.web.server import serve_in_background

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="limits of POSIX systems")
SERVE = """
import resource, sys
from workings.cli import main
from workings.web import security, server, worker_pool
{change}
sys.exit(main(["serve", "--port", "0", "--no-open", "--no-token"]))
"""
SMALL = {"table": {"given": {"X": [["1", "0"], ["0", "2"]]}}}


class ObservedServer(web_server.WorkbenchServer):
    """A server in this process whose workers can be told from those of other servers."""

    by_port: ClassVar[dict[int, "ObservedServer"]] = {}

    def __init__(self, policy: security.AccessPolicy, *arguments: Any, **options: Any) -> None:
        super().__init__(policy, *arguments, **options)
        self.by_port[policy.port] = self

    def worker_processes(self) -> set[int]:
        workers = (*self._pools.quick._workers, *self._pools.slow._workers)
        return {w._process.pid for w in workers if w._process is not None and w.is_running}


@pytest.fixture(scope="module", autouse=True)
def observed_servers() -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(web_server, "WorkbenchServer", ObservedServer)
        yield


@pytest.fixture(scope="module")
def port(observed_servers: None) -> Iterator[int]:
    with serve_in_background() as address:
        port = int(address.rpartition(":")[2])
        assert len(running_workers(port)) == 2
        yield port


def post(port: int, path: str, body: object, timeout: float = 60.0) -> tuple[int, Any]:
    raw = body if isinstance(body, bytes) else json.dumps(body).encode()
    with closing(http.client.HTTPConnection("127.0.0.1", port, timeout=timeout)) as connection:
        connection.request("POST", path, raw, {"content-type": "application/json"})
        response = connection.getresponse()
        return response.status, json.loads(response.read() or b"null")


def get_page(port: int) -> tuple[int, bytes]:
    with closing(http.client.HTTPConnection("127.0.0.1", port, timeout=60)) as connection:
        connection.request("GET", "/")
        response = connection.getresponse()
        return response.status, response.read()


def wide_check(side: int, heads: int) -> dict[str, Any]:
    """Return a check with a wrong first number, which looks for causes in all that follows."""
    rng = np.random.default_rng(0)

    def matrix() -> list[list[str]]:
        return [[f"{x:.2f}" for x in row] for row in rng.normal(size=(side, side))]

    given = {name: matrix() for name in ("X", "W_Q", "W_K", "W_V", "W_O")}
    claims = [{"key": key, "cells": matrix()} for key in ("Q", "K", "V", "mixed", "output")]
    return {"table": {"given": given, "settings": {"heads": heads}, "claims": claims}}


def running_workers(port: int) -> set[int]:
    """Return the processes of a server, one for quick requests and one for slow ones."""
    for name in ("work", "check"):
        assert post(port, f"/api/{name}", SMALL)[0] == 200  # it has started
    return worker_processes(port)


def worker_processes(port: int) -> set[int]:
    """Return the processes of a server's pools."""
    return ObservedServer.by_port[port].worker_processes()


def resident_megabytes(pid: int) -> float:
    return int(read_process_file(pid, "statm").split()[1]) * 4096 / 1e6


def cpu_ticks(pid: int) -> int:
    """Return the computing time of a process, in hundredths of a second."""
    return int(read_process_file(pid, "stat").rpartition(")")[2].split()[11])


def read_process_file(pid: int, name: str) -> str:
    if not Path("/proc/self/stat").exists():
        pytest.skip("the system does not tell about processes")
    return Path(f"/proc/{pid}/{name}").read_text()


def test_a_costly_check_is_refused_before_it_begins(port: int) -> None:
    status, answer = post(port, "/api/check", wide_check(64, 64))
    assert status == 422
    assert re.search(r"[\d,]+ numbers; the page takes at most [\d,]+", answer["error"])


def test_work_that_takes_too_long_is_ended(port: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(worker_pool, "ANSWER_TIMEOUT", 0.5)
    before = running_workers(port)
    status, answer = post(port, "/api/check", wide_check(48, 4))
    assert status == 408
    assert "took longer than" in answer["error"]
    monkeypatch.undo()
    ended = before - worker_processes(port)
    assert len(ended) == 1
    assert post(port, "/api/work", SMALL)[0] == 200  # another process has taken its place


@pytest.mark.skipif(sys.platform != "linux", reason="elsewhere memory is not limited")
def test_work_that_takes_too_much_memory_is_ended(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(worker_pool, "MAX_EXTRA_MEMORY", 10 * 10**6)
    with serve_in_background() as address:
        port = int(address.rpartition(":")[2])
        status, answer = post(port, "/api/check", wide_check(48, 4))
        assert (status, answer["error"]) == (422, "too large: it needs more than 10 MB of memory")
        assert post(port, "/api/check", SMALL)[0] == 200


def test_a_worker_that_has_grown_says_that_it_ends() -> None:
    """Else the next request could be sent to it."""
    requests = io.BytesIO(worker.encode_message({}, b"") * 2)
    answers = io.BytesIO()
    worker._serve(requests, answers, lambda *_: ({"status": 200}, b"x"), max_kept=0)
    answers.seek(0)
    assert worker.read_message(answers.read) == ({"status": 200, "is_last": True}, b"x")
    assert worker.read_message(answers.read) is None


def test_a_client_that_leaves_ends_its_work(port: int) -> None:
    before = running_workers(port)
    ticks = sum(map(cpu_ticks, before))
    with start_check(port):
        wait_until(lambda: sum(map(cpu_ticks, before)) > ticks + 10)  # it has begun
    wait_until(lambda: before - worker_processes(port))
    assert post(port, "/api/work", SMALL)[0] == 200


def test_a_client_that_leaves_before_a_worker_has_started_gets_no_other_into_trouble() -> None:
    """The process says that it is ready: that is no answer to the next request."""
    with serve_in_background() as address:
        port = int(address.rpartition(":")[2])
        with pytest.raises(TimeoutError):
            post(port, "/api/work", SMALL, timeout=0.1)
        status, answer = post(port, "/api/work", SMALL)
        assert (status, "steps" in answer) == (200, True)


def wait_until(condition: Any, seconds: float = 60.0) -> None:
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end, "it did not happen in time"
        time.sleep(0.05)


def test_cells_that_are_no_numbers_fail_fast(port: int) -> None:
    cells = ",".join(["{}"] * 1000)
    body = f'{{"table":{{"given":{{"X":[{",".join([f"[{cells}]"] * 320)}]}}}}}}'.encode()
    assert 950_000 < len(body) < security.MAX_BODY_BYTES
    before = running_workers(port)
    memory = {pid: resident_megabytes(pid) for pid in before}
    status, answer = post(port, "/api/work", body)
    assert status == 422
    assert answer["error"].startswith("table.given.X")
    for pid in worker_processes(port) & before:
        assert resident_megabytes(pid) < memory[pid] + 100


def test_one_client_does_not_delay_another() -> None:
    """A flood without a cookie, which waits; a browser has a cookie, and its own turn."""
    with start_server("worker_pool.QUEUE_TIMEOUT = 1000.0") as server, ExitStack() as stack:
        port = server.port
        assert post(port, "/api/check", SMALL)[0] == 200  # the workers have started
        connection = http.client.HTTPConnection("127.0.0.1", port, timeout=60)
        stack.callback(connection.close)
        connection.request("GET", "/")
        response = connection.getresponse()
        response.read()
        cookie = str(response.getheader("set-cookie")).partition(";")[0]
        sheet = {"kind": "block", "count": 6, "tokens": 6, "width": 8}
        flood = [
            threading.Thread(target=post_and_forget, args=(port, "/api/make", {**sheet, "seed": k}))
            for k in range(45)
        ]
        for thread in flood:
            thread.start()
        statuses = []
        for name in ("work", "check") * 3:
            headers = {"content-type": "application/json", "cookie": cookie}
            connection.request("POST", f"/api/{name}", json.dumps(SMALL), headers)
            response = connection.getresponse()
            response.read()
            statuses.append(response.status)
            assert get_page(port)[0] == 200
        still_running = sum(thread.is_alive() for thread in flood)
        assert statuses == [200] * 6
        assert still_running > 0  # it did not wait for the flood to end
        server.process.kill()  # nor does this test
        for thread in flood:
            thread.join(60)


def test_turns_are_taken_by_clients_not_by_requests() -> None:
    async def order_of_turns() -> list[str]:
        pool, order = worker_pool.WorkerPool(2), list[str]()

        async def request(client: str) -> None:
            async with pool._borrow_worker(client):
                order.append(client)
                await asyncio.sleep(0.001)

        await asyncio.gather(*(request(c) for c in ["a"] * 6 + ["b"] * 3))
        return order

    order = run_async(order_of_turns())
    assert sorted(order) == sorted("aaaaaabbb")
    assert order[:6].count("b") == 3


@pytest.mark.parametrize("number", [0, 1])
def test_a_client_that_ends_a_process_waits_for_the_next_one_itself(
    number: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """On a busy machine, starting one takes seconds."""
    pool = worker_pool.WorkerPool(2)
    ended = pool._workers[number]
    ended.ended_by = "a"
    monkeypatch.setattr(worker_pool.Worker, "is_ready", property(lambda w: w is not ended))

    async def borrow() -> None:
        for _ in range(2):
            async with pool._borrow_worker("a") as worker:
                assert worker is ended
            async with pool._borrow_worker("b") as worker:
                assert worker is not ended

    run_async(borrow())


def test_quick_requests_do_not_wait_for_slow_ones(port: int) -> None:
    """Each have their own processes, however many clients check."""
    with ExitStack() as stack:
        checks = [stack.enter_context(start_check(port)) for _ in range(2)]
        for _ in range(5):
            assert post(port, "/api/work", SMALL)[0] == 200
        assert select.select(checks, [], [], 0)[0] == []  # no check has been answered


@contextmanager
def start_check(port: int) -> Iterator[socket.socket]:
    """Post a check of some ten seconds; the client leaves at the end."""
    with closing(http.client.HTTPConnection("127.0.0.1", port, timeout=60)) as connection:
        headers = {"content-type": "application/json"}
        connection.request("POST", "/api/check", json.dumps(wide_check(48, 4)), headers)
        yield connection.sock


def test_slow_requests_leave_the_processor_to_quick_ones(port: int) -> None:
    assert post(port, "/api/check", SMALL)[0] == 200
    own = os.getpriority(os.PRIO_PROCESS, 0)
    niceness = {os.getpriority(os.PRIO_PROCESS, pid) for pid in worker_processes(port)}
    assert niceness == {own, min(own + worker_pool.SLOW_NICENESS, 19)}


@pytest.fixture
def run(tmp_path: Path) -> Path:
    """A run with a log of 40,000 records."""
    folder = write_new_run(tmp_path / "toy")
    records = (step_record(step, 1 / step, steps=40_000) for step in range(1, 40_001))
    append_to_log(folder, *records)
    return folder


def get(port: int, path: str) -> tuple[int, Any]:
    with closing(http.client.HTTPConnection("127.0.0.1", port, timeout=60)) as connection:
        connection.request("GET", path)
        response = connection.getresponse()
        return response.status, json.loads(response.read())


TRAIN_PATHS = ["training/toy", "recipe/toy", "report/toy", "compare/curves?first=toy&second=toy"]


def test_logs_are_read_in_processes_that_can_be_stopped(
    run: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with serve_in_background([run]) as address:
        port = int(address.rpartition(":")[2])
        for path in TRAIN_PATHS:
            assert get(port, f"/api/{path}")[0] == (422 if "report" in path else 200)
        wait_until(lambda: len(worker_processes(port)) >= 2)
        workers = worker_processes(port)
        for path in ("training/toy", "compare/curves?first=toy&second=toy"):
            monkeypatch.setattr(worker_pool, "ANSWER_TIMEOUT", 0.001)
            status, answer = get(port, f"/api/{path}")
            assert (status, "took longer than" in answer["error"]) == (408, True)
            monkeypatch.undo()
            assert len(workers - worker_processes(port)) == 1  # it was ended, and started again
            assert get(port, "/api/recipe/toy")[0] == 200
            workers = worker_processes(port)
        status, view = get(port, "/api/training/toy?revision=5")
        assert (status, view["facts"]["step"]) == (200, "40,000 of 40,000")
        assert get(port, f"/api/training/toy?revision={view['revision']}")[1]["curves"] is None
        rmtree(run)
        check_deleted(port)


def check_deleted(port: int) -> None:
    """Train, Inspect and Compare say that the run was deleted."""
    answers = [get(port, f"/api/{path}") for path in TRAIN_PATHS]
    side = {"run": "toy", "text": "x"}
    answers += [post(port, f"/api/{path}", side) for path in ("inspect", "permute")]
    answers.append(post(port, "/api/compare", {"first": side, "second": side}))
    for status, answer in answers:
        assert status == 422
        assert answer["error"] == "toy: the run was deleted: its folder has no config.toml"


def test_idle_connections_keep_no_one_out(tmp_path: Path) -> None:
    """A server that may open 256 files, and 400 sockets that send nothing.

    The system queues them all while the server is busy, here stopped: it drops none.
    """
    with start_server("resource.setrlimit(resource.RLIMIT_NOFILE, (256, 256))") as server:
        assert get_page(server.port)[0] == 200
        server.process.send_signal(signal.SIGSTOP)
        sockets = [socket.create_connection(("127.0.0.1", server.port), 20) for _ in range(400)]
        server.process.send_signal(signal.SIGCONT)
        assert get_page(server.port)[0] == 200
        assert post(server.port, "/api/work", SMALL)[0] == 200
        for sock in sockets:
            sock.close()
        assert server.stop(signal.SIGINT) == ""  # no tracebacks


def test_slow_bodies_keep_no_one_out(monkeypatch: pytest.MonkeyPatch) -> None:
    """Requests of one address whose bodies never end, up to the limit of connections."""
    monkeypatch.setattr(connections, "MAX_CONNECTIONS_PER_CLIENT", 8)
    with serve_in_background() as address, ExitStack() as stack:
        port = int(address.rpartition(":")[2])
        for _ in range(20):
            stack.enter_context(send_slowly(port, begin_request(port)))
        for _ in range(5):
            time.sleep(0.1)  # until their headers have been read
            assert get_page(port)[0] == 200
        assert post(port, "/api/work", SMALL)[0] == 200


def test_torch_is_imported_before_the_first_request_on_a_model(tmp_path: Path) -> None:
    """The import takes seconds, on a busy machine longer than a request may take.

    Its objects are kept from the garbage collector, which would stop everything to look at them.
    """
    run = write_new_run(tmp_path / "toy")
    script = "import gc, sys, time; from workings.web.server import serve_in_background\n"
    script += f"with serve_in_background([{str(run)!r}]):\n"
    script += "    while 'workings.web.inspector' not in sys.modules: time.sleep(0.01)\n"
    script += "    while gc.get_freeze_count() < 100_000: time.sleep(0.01)"
    subprocess.run([sys.executable, "-c", script], check=True, timeout=300)


class RunningServer:
    """`workings serve` in a process of its own."""

    def __init__(self, process: subprocess.Popen[str]) -> None:
        self.process = process
        assert process.stdout is not None
        line = process.stdout.readline()
        self.port = int(line.partition("127.0.0.1:")[2].partition("/")[0])
        self.link = line.split()[4]

    def stop(self, *signals: int) -> str:
        """Send signals, half a second apart; return what it wrote to standard error."""
        for number in signals:
            self.process.send_signal(number)
            time.sleep(0.5)
        return self.process.communicate(timeout=60)[1]


@contextmanager
def start_server(change: str) -> Iterator[RunningServer]:
    """Run `workings serve` after a change to its limits."""
    process = subprocess.Popen(
        [sys.executable, "-c", SERVE.format(change=change)],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env={**os.environ, "OMP_NUM_THREADS": "1"},
    )
    try:
        yield RunningServer(process)
    finally:
        process.kill()
        process.communicate()


def test_slow_headers_and_bodies_are_closed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(connections, "HEADER_TIMEOUT", 0.5)
    monkeypatch.setattr(security, "BODY_TIMEOUT", 0.5)
    with serve_in_background() as address, ExitStack() as stack:
        port = int(address.rpartition(":")[2])
        header = b"GET / HTTP/1.1\r\nHost: 127.0.0.1\r\nX-Slow: "
        silent, partial, body = (
            stack.enter_context(send_slowly(port, data))
            for data in (b"", header, begin_request(port))
        )
        assert read_all(silent) == b""
        assert read_all(partial) == b""
        assert read_all(body).startswith(b"HTTP/1.1 408")


def send_slowly(port: int, data: bytes) -> socket.socket:
    """Connect and send the beginning of a request."""
    sock = socket.create_connection(("127.0.0.1", port), timeout=60)
    sock.sendall(data)
    return sock


def begin_request(port: int) -> bytes:
    """Return a request with one of the 99 bytes of its body."""
    headers = f"Host: 127.0.0.1:{port}\r\nContent-Type: application/json\r\nContent-Length: 99"
    return f"POST /api/work HTTP/1.1\r\n{headers}\r\n\r\n{{".encode()


def read_all(sock: socket.socket) -> bytes:
    """Read until the server closes the connection."""
    chunks = []
    try:
        while chunk := sock.recv(65536):
            chunks.append(chunk)
    except ConnectionResetError:
        pass
    return b"".join(chunks)


@pytest.mark.parametrize(
    ("header", "status"),
    [
        ("Content-Type: text/plain\r\nContent-Length: 2", 415),
        ("Content-Type: application/json\r\nContent-Length: 2000000", 413),
    ],
)
def test_refused_requests_close_the_connection(port: int, header: str, status: int) -> None:
    with socket.create_connection(("127.0.0.1", port), timeout=20) as sock:
        request = f"POST /api/work HTTP/1.1\r\nHost: 127.0.0.1:{port}\r\n{header}\r\n\r\n{{}}"
        sock.sendall(request.encode())
        answer = read_all(sock)  # ends when the server closes the connection
    assert answer.startswith(f"HTTP/1.1 {status}".encode())


def test_a_second_interrupt_ends_the_process_at_once() -> None:
    """The first one waits for requests, here for one that never ends."""
    with (
        start_server("security.BODY_TIMEOUT = server.SHUTDOWN_GRACE = 1000.0") as server,
        send_slowly(server.port, begin_request(server.port)),
    ):
        assert get_page(server.port)[0] == 200
        server.stop(signal.SIGINT, signal.SIGINT)


def test_stopping_answers_the_requests_that_run(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr("workings.web.server.SHUTDOWN_GRACE", 0.2)
    with ExitStack() as stack:
        with serve_in_background() as address:
            port = int(address.rpartition(":")[2])
            checks = [stack.enter_context(start_check(port)) for _ in range(2)]  # one waits
            assert get_page(port)[0] == 200  # they have been read
        for sock in checks:
            assert read_all(sock).endswith(b'{"error": "the server is stopping"}')
    assert caplog.messages == []


def test_asyncio_alone_takes_the_exit_status_of_workers(monkeypatch: pytest.MonkeyPatch) -> None:
    """Else it reports unknown processes. Workers are cancelled, killed twice and closed."""
    polled = list[subprocess.Popen[bytes]]()
    monkeypatch.setattr(subprocess.Popen, "poll", lambda process: polled.append(process))

    async def end_workers() -> None:
        cancelled, killed = worker_pool.Worker(), worker_pool.Worker()
        start = asyncio.ensure_future(cancelled.start())
        await asyncio.sleep(0)
        await asyncio.sleep(0)
        start.cancel()
        await asyncio.wait([start])
        process = await killed.start()
        killed.kill()
        killed.kill()
        await asyncio.gather(cancelled.close(), killed.close())
        assert process.returncode == -signal.SIGKILL
        with pytest.raises(ConnectionError, match="the server is stopping"):
            await killed.start()

    run_async(end_workers())
    assert polled == []


def post_and_forget(port: int, path: str, body: object) -> None:
    with suppress(OSError, http.client.HTTPException):
        post(port, path, body)
