"""The benchmark of classifiers gives all models the same examples."""

import importlib.util
import sys
from dataclasses import replace
from itertools import chain
from pathlib import Path
from types import ModuleType

import pytest

BENCH = Path(__file__).parents[2] / "bench"


@pytest.fixture(scope="module")
def bench() -> ModuleType:
    sys.path.insert(0, str(BENCH))
    try:
        spec = importlib.util.spec_from_file_location("bench_classify", BENCH / "classify.py")
        module = importlib.util.module_from_spec(spec)
        sys.modules[spec.name] = module  # dataclasses look up their own module
        spec.loader.exec_module(module)
    finally:
        sys.path.remove(str(BENCH))
    return module


def test_random_batches_have_the_same_examples_as_ours(bench: ModuleType) -> None:
    lengths = [(37 * i) % 500 + 1 for i in range(bench.POOL * bench.BATCH)]
    pool = bench.make_batches(lengths, bench.BATCH, seed=0, pool=bench.POOL)
    assert bench.sample_batches(pool, lengths, bench.POOL) == pool
    ours = bench.sample_batches(pool, lengths, 10)
    theirs = bench.shuffle_batches(ours)
    assert sorted(chain(*ours)) == sorted(chain(*theirs))
    assert {len(batch) for batch in ours + theirs} == {bench.BATCH}
    # The mean length is that of the pool, and there is little padding.
    widths = [max(lengths[i] for i in batch) for batch in ours]
    assert sum(widths) / len(widths) == pytest.approx(250, rel=0.03)
    assert bench.count_tokens(ours, lengths) == bench.BATCH * sum(widths)
    assert bench.count_tokens(theirs, lengths) > 1.8 * bench.count_tokens(ours, lengths)
    assert bench.count_tokens(theirs, lengths, 500) == 10 * bench.BATCH * 500


def test_the_padded_model_differs_only_in_padding(bench: ModuleType) -> None:
    for case in bench.CASES.values():
        models = bench.make_models(case)
        (recipe, model), (notes, padded) = models["workings"], models["padded"]
        assert notes.model == replace(recipe.model, padding="unmasked")
        assert notes.train == recipe.train
        sizes = [{n: p.shape for n, p in m.named_parameters()} for m in (model, padded)]
        assert sizes[0] == sizes[1]
        if "notes" in models:
            count = [sum(p.numel() for p in m.parameters()) for m in (model, models["notes"][1])]
            assert count[0] == count[1]
