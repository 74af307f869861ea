"""Load a server with many clients, beside a training and a long generation; print figures as JSON.

    python fuzz/load.py [--clients 50] [--minutes 10]

Everything runs on this machine. Each client has a browser's cookie, asks for a random thing, and
waits up to two seconds before the next. The clients begin when the server has answered each kind of
request once. The exit status is 1 if an answer is wrong, if the memory
of the server's processes grows by more than a tenth after the first minute, if the 99th percentile
of Work is above a second, or if a client gets fewer than a third of the answers of the average one.
"""

import argparse
import asyncio
import json
import math
import random
import statistics
import subprocess
import sys
import tempfile
import time
from collections import Counter, defaultdict
from contextlib import suppress
from pathlib import Path

import httpx2

sys.path.insert(0, str(Path(__file__).parents[1] / "tests" / "web"))
from small_runs import train_small_runs

from workings import Problem

MAX_PAUSE = 2.0  # seconds between the requests of a client
MAX_WORK_SECONDS = 1.0  # 99th percentile
WARM_UP = 0.1  # part of the time before memory is measured
BUSY = 429  # a full queue is said, and the client may try again


class Load:
    """What the clients have received so far."""

    def __init__(self, address: str, clients: int, seconds: float) -> None:
        self.address, self.clients = address, clients
        self._duration, self.end = seconds, math.inf
        self.is_ready = asyncio.Event()
        self.seconds: dict[str, list[float]] = defaultdict(list)
        self.statuses: Counter[str] = Counter()
        self.answers = [0] * clients
        self.wrong: list[str] = []
        self.generated_tokens = 0

    async def run(self) -> None:
        """Run all clients until the time is over."""
        await self._start_server()
        clients = [self._run_client(k) for k in range(self.clients)]
        await asyncio.gather(*clients, self._generate())

    def _connect(self) -> httpx2.AsyncClient:
        return httpx2.AsyncClient(base_url=self.address, timeout=60, verify=False)

    async def _start_server(self) -> None:
        """Wait until the server's processes have started and torch has been imported."""
        async with self._connect() as client:
            for request in self._requests():
                while not await request(client, random.Random(0)):  # noqa: S311
                    await asyncio.sleep(1)
        self.seconds.clear()
        self.statuses.clear()
        self.wrong.clear()
        self.end = time.monotonic() + self._duration
        self.is_ready.set()

    def _requests(self):
        return [self._work] * 5 + [self._check] * 2 + [self._make, self._inspect, self._follow]

    async def _run_client(self, k: int) -> None:
        rng = random.Random(k)  # noqa: S311
        async with self._connect() as client:
            await client.get("/")  # sets the cookie
            while time.monotonic() < self.end:
                await asyncio.sleep(rng.uniform(0, MAX_PAUSE))
                self.answers[k] += await rng.choice(self._requests())(client, rng)

    async def _send(self, client: httpx2.AsyncClient, name: str, path: str, body=None):
        """Send a request; return the answer, or None if the server says that it is busy."""
        start = time.monotonic()
        send = client.get(path) if body is None else client.post(path, json=body)
        try:
            response = await send
        except httpx2.HTTPError as error:
            self.wrong.append(f"{name}: {error!r}")
            return None
        self.statuses[f"{name} {response.status_code}"] += 1
        self.seconds[name].append(time.monotonic() - start)
        if response.status_code not in (200, BUSY):
            self.wrong.append(f"{name}: {response.status_code} {response.text[:200]}")
        return response.json() if response.status_code == 200 else None

    def _expect(self, answer, is_right: bool, name: str) -> bool:
        if answer is not None and not is_right:
            self.wrong.append(f"{name}: {json.dumps(answer)[:200]}")
        return answer is not None

    async def _work(self, client: httpx2.AsyncClient, rng: random.Random) -> bool:
        given = random_given(rng)
        answer = await self._send(client, "work", "/api/work", {"table": {"given": given}})
        is_right = answer is not None and last_values(answer) == solve(given)
        return self._expect(answer, is_right, "work")

    async def _check(self, client: httpx2.AsyncClient, rng: random.Random) -> bool:
        given = random_given(rng)
        cells = [[f"{value:.4f}" for value in row] for row in solve(given)]
        is_wrong = rng.random() < 0.5
        if is_wrong:
            cells[0][0] = "99"
        table = {"given": given, "claims": [{"key": "mixed", "cells": cells}]}
        answer = await self._send(client, "check", "/api/check", {"table": table})
        is_right = answer is not None and answer["counts"]["wrong"] == int(is_wrong)
        return self._expect(answer, is_right, "check")

    async def _make(self, client: httpx2.AsyncClient, rng: random.Random) -> bool:
        sheet = {"kind": "self", "count": 2, "tokens": 3, "width": 2}
        body = {**sheet, "seed": rng.randrange(10**6)}
        return await self._send(client, "make", "/api/make", body) is not None

    async def _inspect(self, client: httpx2.AsyncClient, rng: random.Random) -> bool:
        text = " ".join(rng.choices(("fig", "iron", "tin", "plum"), k=3))
        answer = await self._send(client, "inspect", "/api/inspect", {"run": "fruit", "text": text})
        total = sum(bar["probability"] for bar in answer["bars"]) if answer else 1.0
        return self._expect(answer, abs(total - 1) < 1e-3, "inspect")

    async def _follow(self, client: httpx2.AsyncClient, _: random.Random) -> bool:
        return await self._send(client, "training", "/api/training/fruit") is not None

    async def _generate(self) -> None:
        async with self._connect() as client:
            while time.monotonic() < self.end:
                body = {"run": "gpt", "text": "She", "max_new_tokens": 200}
                if await self._send(client, "complete", "/api/inspect/complete", body):
                    self.generated_tokens += 200


def random_given(rng: random.Random) -> dict[str, list[list[str]]]:
    """Return the given matrix of a small problem, whose answers have no sign and no exponent."""
    rows, columns = rng.randint(2, 5), rng.randint(2, 4)
    return {"X": [[str(rng.randint(1, 3)) for _ in range(columns)] for _ in range(rows)]}


def solve(given: dict[str, list[list[str]]]) -> list[list[float]]:
    """Solve a problem in this process."""
    return Problem(given=given).solve()["mixed"].tolist()


def last_values(answer: dict) -> list[list[float]]:
    """Return the numbers of the last step of an answer."""
    return [[float(value) for value in row] for row in answer["steps"][-1]["values"]]


def server_megabytes(pid: int) -> float:
    """Return the resident memory of a process and its children, on Linux."""
    children = [int(p) for t in Path(f"/proc/{pid}/task").iterdir()
                for p in (t / "children").read_text().split()]  # fmt: skip
    pages = sum(int(Path(f"/proc/{p}/statm").read_text().split()[1]) for p in [pid, *children])
    return pages * 4096 / 1e6


def percentile_99(seconds: list[float]) -> float:
    """Return the 99th percentile."""
    return statistics.quantiles(seconds, n=100, method="inclusive")[98]


async def measure(load: Load, server: subprocess.Popen, seconds: float) -> list[float]:
    """Run the load; return the memory of the server, measured every second after a warm-up."""
    running, megabytes = asyncio.ensure_future(load.run()), []
    await load.is_ready.wait()
    await asyncio.sleep(seconds * WARM_UP)
    while not running.done():
        megabytes.append(server_megabytes(server.pid))
        await asyncio.wait([running], timeout=1.0)
    await running
    return megabytes


def main() -> int:
    """Run the load and print the figures."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--clients", type=int, default=50)
    parser.add_argument("--minutes", type=float, default=10.0)
    arguments = parser.parse_args()
    seconds = 60 * arguments.minutes
    workings = [sys.executable, "-m", "workings"]
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        runs = train_small_runs(folder)
        config = str(runs["fruit"] / "config.toml")
        changes = ["--train.epochs", "1000000", "--threads", "1", "--quiet"]
        training = subprocess.Popen(
            [*workings, "train", config, "--out", str(folder / "new"), *changes]
        )
        serve = [*workings, "serve", "--port", "0", "--no-open", "--no-token"]
        server = subprocess.Popen(
            [*serve, *map(str, runs.values())], stdout=subprocess.PIPE, text=True
        )
        try:
            port = server.stdout.readline().partition("127.0.0.1:")[2].partition("/")[0]
            load = Load(f"http://127.0.0.1:{port}", arguments.clients, seconds)
            megabytes = asyncio.run(measure(load, server, seconds))
            is_training = training.poll() is None
        finally:
            for process in (training, server):
                process.terminate()
            for process in (training, server):
                with suppress(subprocess.TimeoutExpired):
                    process.wait(20)
                process.kill()
    growth = statistics.median(megabytes[-10:]) / statistics.median(megabytes[:10]) - 1
    share = min(load.answers) / statistics.mean(load.answers)
    figures = {
        "clients": arguments.clients,
        "minutes": arguments.minutes,
        "requests": sum(load.statuses.values()),
        "statuses": dict(sorted(load.statuses.items())),
        "wrong": len(load.wrong),
        "median_seconds": {k: round(statistics.median(v), 3) for k, v in load.seconds.items()},
        "percentile_99_seconds": {k: round(percentile_99(v), 3) for k, v in load.seconds.items()},
        "longest_seconds": {k: round(max(v), 3) for k, v in load.seconds.items()},
        "answers_per_client": [min(load.answers), max(load.answers)],
        "generated_tokens": load.generated_tokens,
        "megabytes": [round(megabytes[0], 1), round(max(megabytes), 1), round(megabytes[-1], 1)],
        "memory_growth": round(growth, 3),
        "training_went_on": is_training,
    }
    sys.stdout.write(json.dumps(figures, indent=1) + "\n")
    for text in load.wrong[:10]:
        sys.stderr.write(f"{text}\n")
    is_slow = percentile_99(load.seconds["work"]) > MAX_WORK_SECONDS
    return int(bool(load.wrong) or growth > 0.1 or is_slow or share < 1 / 3 or not is_training)


if __name__ == "__main__":
    sys.exit(main())
