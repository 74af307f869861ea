"""Requests that nobody would think of, and many at once."""

import time
from collections.abc import Callable
from itertools import product
from pathlib import Path
from threading import Thread
from typing import Any

import httpx2
import pytest
import schemathesis
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from workings import Problem
from workings.training.runs import load
from workings.web.app import build_secured_app
from workings.web.runs import RunRegistry
from workings.web.security import AccessPolicy
from workings.web.server import serve_in_background

CLIENTS, SECONDS = 50, 60.0
NAMES = ("gpt", "fruit", "french", "squares", "grids")
MEMORY = Path("/proc/self/statm")
schema = schemathesis.openapi.from_asgi(
    "/api/openapi.json", build_secured_app(AccessPolicy(80, ("localhost", "testserver")))
)


@pytest.mark.slow
@schema.parametrize()
@settings(max_examples=60, deadline=None, suppress_health_check=list(HealthCheck))
def test_no_request_is_our_fault(case: Any) -> None:
    expect_answer(case)


@pytest.mark.slow
def test_no_question_to_a_run_is_our_fault(runs: dict[str, Path]) -> None:
    app = build_secured_app(
        AccessPolicy(80, ("localhost", "testserver")), RunRegistry([runs[name] for name in NAMES])
    )
    whole = schemathesis.openapi.from_asgi("/api/openapi.json", app)
    for found in whole.include(path_regex="^/api/(inspect|compare$|permute)").get_all_operations():

        @given(case=found.ok().as_strategy(), name=st.sampled_from(NAMES))
        @settings(max_examples=30, deadline=None, suppress_health_check=list(HealthCheck))
        def ask(case: Any, name: str) -> None:
            case.body = with_run(case.body, name)
            expect_answer(case)

        ask()


def with_run(body: Any, name: str) -> Any:
    """Have a question ask a run that is there."""
    if not isinstance(body, dict):
        return body
    sides = {key: with_run(body[key], name) for key in ("first", "second") if key in body}
    return {**body, **(sides or {"run": name})}


def expect_answer(case: Any) -> None:
    """A request is answered, or refused in a line."""
    response = case.call()
    assert response.status_code < 500, response.text
    if response.status_code >= 400:
        assert list(response.json()) == ["error"]


def megabytes() -> float:
    """How much memory this process has in use; 0 where nobody tells."""
    return int(MEMORY.read_text().split()[1]) * 4096 / 1e6 if MEMORY.exists() else 0.0


@pytest.mark.slow
def test_many_at_once_get_right_answers(runs: dict[str, Path]) -> None:
    """Half of them work problems, half ask a run, and a text is being written all the while."""
    given = [{"X": [[str(k), "1"], ["2", "0"]]} for k in range(CLIENTS)]
    wanted = [Problem(given=one).solve()["mixed"].tolist() for one in given]
    words = [" ".join(some) for some in product(("fig", "iron", "tin", "plum"), repeat=3)]
    classes: Any = load(runs["fruit"])
    likely = [float(chances.max()) for chances in classes.predict(words)]
    wrong: list[str] = []
    answers = [0] * CLIENTS
    meanwhile: list[int] = []  # problems that were worked while a text was written
    end = time.monotonic() + SECONDS

    def work(client: httpx2.Client, k: int) -> None:
        told = client.post("/api/work", json={"table": {"given": given[k]}})
        values = told.json()["steps"][-1]["values"] if told.status_code == 200 else []
        if [[float(v) for v in row] for row in values] != wanted[k]:
            wrong.append(told.text)
        answers[k] += 1

    def look(client: httpx2.Client, k: int) -> None:
        told = client.post("/api/inspect", json={"run": "fruit", "text": words[k]})
        if told.status_code == 429:  # so many may wait; the next may ask again
            return
        share = told.json()["bars"][0]["probability"] if told.status_code == 200 else 0.0
        if share != pytest.approx(likely[k], abs=1e-5):
            wrong.append(told.text)
        answers[k] += 1

    def write(client: httpx2.Client, _: int) -> None:
        before = sum(answers[::2])
        told = client.post(
            "/api/inspect/complete", json={"run": "gpt", "text": "She", "max_new_tokens": 200}
        )
        if told.status_code == 200:
            meanwhile.append(sum(answers[::2]) - before)

    def until_the_end(ask: Callable[[httpx2.Client, int], None], k: int) -> None:
        # Plain HTTP: what fifty clients would read about certificates costs more than all they ask.
        with httpx2.Client(base_url=address, timeout=60, verify=False) as client:
            while time.monotonic() < end:
                ask(client, k)

    with serve_in_background([runs["gpt"], runs["fruit"]]) as address:
        clients = [
            Thread(target=until_the_end, args=((work, look)[k % 2], k)) for k in range(CLIENTS)
        ]
        clients.append(Thread(target=until_the_end, args=(write, 0)))
        for client in clients:
            client.start()
        time.sleep(SECONDS / 4)
        before = megabytes()
        for client in clients:
            client.join()
        after = megabytes()
    assert wrong == []
    assert min(answers) > 0
    assert meanwhile
    assert min(meanwhile) > 0  # nobody's problem waits for a text
    assert after - before < 40
