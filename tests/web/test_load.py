"""Many clients at once get right answers."""

import time
from collections.abc import Callable
from itertools import product
from pathlib import Path
from threading import Thread
from typing import Any

import httpx2
import pytest

from workings import Problem
from workings.training.runs import load
from workings.web.server import serve_in_background

CLIENTS, SECONDS = 50, 60.0
MEMORY = Path("/proc/self/statm")


def megabytes() -> float:
    """Return the resident memory of this process; 0 if the system does not provide it."""
    return int(MEMORY.read_text().split()[1]) * 4096 / 1e6 if MEMORY.exists() else 0.0


@pytest.mark.slow
def test_many_clients_get_right_answers(runs: dict[str, Path]) -> None:
    """Half of the clients solve problems, half inspect a run, while a text is generated."""
    given = [{"X": [[str(k), "1"], ["2", "0"]]} for k in range(CLIENTS)]
    expected = [Problem(given=one).solve()["mixed"].tolist() for one in given]
    words = [" ".join(triple) for triple in product(("fig", "iron", "tin", "plum"), repeat=3)]
    classes: Any = load(runs["fruit"])
    probabilities = [float(p.max()) for p in classes.predict(words)]
    wrong: list[str] = []
    answers = [0] * CLIENTS
    solved_meanwhile: list[int] = []  # problems solved while a text was generated
    end = time.monotonic() + SECONDS

    def work(client: httpx2.Client, k: int) -> None:
        response = client.post("/api/work", json={"table": {"given": given[k]}})
        values = response.json()["steps"][-1]["values"] if response.status_code == 200 else []
        if [[float(v) for v in row] for row in values] != expected[k]:
            wrong.append(response.text)
        answers[k] += 1

    def inspect(client: httpx2.Client, k: int) -> None:
        response = client.post("/api/inspect", json={"run": "fruit", "text": words[k]})
        if response.status_code == 429:  # the queue is full
            return
        bars = response.json()["bars"] if response.status_code == 200 else [{"probability": 0.0}]
        if bars[0]["probability"] != pytest.approx(probabilities[k], abs=1e-5):
            wrong.append(response.text)
        answers[k] += 1

    def complete(client: httpx2.Client, _: int) -> None:
        before = sum(answers[::2])
        response = client.post(
            "/api/inspect/complete", json={"run": "gpt", "text": "She", "max_new_tokens": 200}
        )
        if response.status_code == 200:
            solved_meanwhile.append(sum(answers[::2]) - before)

    def repeat(send: Callable[[httpx2.Client, int], None], k: int) -> None:
        # verify=False: loading certificates for fifty clients costs more than all requests.
        with httpx2.Client(base_url=address, timeout=60, verify=False) as client:
            while time.monotonic() < end:
                send(client, k)

    with serve_in_background([runs["gpt"], runs["fruit"]]) as address:
        clients = [Thread(target=repeat, args=((work, inspect)[k % 2], k)) for k in range(CLIENTS)]
        clients.append(Thread(target=repeat, args=(complete, 0)))
        for client in clients:
            client.start()
        time.sleep(SECONDS / 4)
        before = megabytes()
        for client in clients:
            client.join()
        after = megabytes()
    assert wrong == []
    assert min(answers) > 0
    assert solved_meanwhile
    assert min(solved_meanwhile) > 0  # problems do not wait for the text
    assert after - before < 40
