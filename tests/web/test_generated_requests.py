"""Requests that schemathesis generates from the API's schema: all slow, see `conftest.py`."""

from pathlib import Path
from typing import Any

import pytest
import schemathesis
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from workings.web.app import build_secured_app
from workings.web.runs import RunRegistry
from workings.web.security import AccessPolicy

pytestmark = pytest.mark.slow

NAMES = ("gpt", "fruit", "french", "squares", "grids")
schema = schemathesis.openapi.from_asgi(
    "/api/openapi.json", build_secured_app(AccessPolicy(80, ("localhost", "testserver")))
)


@schema.parametrize()
@settings(max_examples=60, deadline=None, suppress_health_check=list(HealthCheck))
def test_generated_requests_cause_no_server_error(case: Any) -> None:
    expect_answer(case)


def test_generated_requests_to_runs_cause_no_server_error(runs: dict[str, Path]) -> None:
    app = build_secured_app(
        AccessPolicy(80, ("localhost", "testserver")), RunRegistry([runs[name] for name in NAMES])
    )
    api = schemathesis.openapi.from_asgi("/api/openapi.json", app)
    for operation in api.include(
        path_regex="^/api/(inspect|compare$|permute)"
    ).get_all_operations():

        @given(case=operation.ok().as_strategy(), name=st.sampled_from(NAMES))
        @settings(max_examples=30, deadline=None, suppress_health_check=list(HealthCheck))
        def send(case: Any, name: str) -> None:
            case.body = with_run(case.body, name)
            expect_answer(case)

        send()


def with_run(body: Any, name: str) -> Any:
    """Return a body that names a registered run."""
    if not isinstance(body, dict):
        return body
    sides = {key: with_run(body[key], name) for key in ("first", "second") if key in body}
    return {**body, **(sides or {"run": name})}


def expect_answer(case: Any) -> None:
    """Assert that a request is answered or rejected with a one-line error."""
    response = case.call()
    assert response.status_code < 500, response.text
    if response.status_code >= 400:
        assert list(response.json()) == ["error"]
