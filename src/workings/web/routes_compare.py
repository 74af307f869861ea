"""The routes of the screen Compare: two runs, two inputs, or one input permuted."""

from typing import TYPE_CHECKING, Annotated

from fastapi import FastAPI, Query, Request

from workings.web.requests import CompareRequest, PermuteRequest, RunName
from workings.web.responses import ComparisonView, PermutationView, TrainingComparison
from workings.web.runs import RunRegistry

if TYPE_CHECKING:
    from workings.web.comparer import Comparer


def add_compare_routes(app: FastAPI, registry: RunRegistry) -> None:
    """Add the routes to the application; torch is imported by the first request."""

    def get_comparer() -> "Comparer":
        from workings.web.comparer import Comparer

        return Comparer(registry)

    @app.get("/api/compare/curves")
    def curves(
        first: RunName, second: RunName, width: Annotated[int, Query(ge=240, le=1600)] = 480
    ) -> TrainingComparison:
        """Compare the training curves, best metrics and settings of two runs."""
        runs = registry.get_run(first), registry.get_run(second)
        from workings.web.comparer import compare_training

        return compare_training(*runs, width)

    @app.post("/api/compare")
    async def compare(body: CompareRequest, request: Request) -> ComparisonView:
        """Compare two runs on an input, or one run on two inputs."""
        for side in (body.first, body.second):
            registry.get_run(side.run)  # an unknown run is an error before the job is queued
        return await registry.submit(request, lambda _: get_comparer().compare(body))

    @app.post("/api/permute")
    async def permute(body: PermuteRequest, request: Request) -> PermutationView:
        """Compare f(P X) with P f(X) for a permutation of the tokens."""
        registry.get_run(body.run)
        return await registry.submit(request, lambda _: get_comparer().permute(body))
