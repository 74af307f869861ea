"""Sizes, parameters, multiply-adds, cost and memory: equal to the models, mistakes named."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from hand_solutions import Rng, assert_honest_is_right, assert_mistakes_are_named

from workings import Problem
from workings.errors import UserError
from workings.layers import FeedForward, LayerNorm, MultiHeadAttention
from workings.models.classifiers import build_classifier
from workings.models.summary import summarize
from workings.recipes import read_recipe

RECIPES = Path(__file__).parents[3] / "recipes"
EMBEDDING = "embedding vocabulary=20000 width=128"
MODELS = {
    "rnn": [EMBEDDING, "rnn hidden=64", "last", "linear out=2"],
    "lstm": [
        EMBEDDING,
        *["lstm hidden=64 directions=2"] * 2,
        "last width=64",
        "linear out=2",
    ],
    "perceptron": [EMBEDDING, "flatten", "linear out=1024", "linear out=128", "linear out=2"],
    "conv": [
        EMBEDDING,
        "conv1d out=128 kernel=7 stride=3",
        "conv1d out=256 kernel=7 stride=3",
        "flatten",
        "linear out=128",
        "linear out=2",
    ],
    "conv-max": [
        EMBEDDING,
        *["conv1d out=128 kernel=7 stride=3"] * 2,
        "global_pool",
        "linear out=128",
        "linear out=2",
    ],
}


def solve(**fields: Any) -> dict[str, float]:
    problem = Problem(**fields)
    solution = problem.solve()
    return {step.key: float(solution[step.key][0, 0]) for step in problem.asked_steps}


@pytest.mark.parametrize("name", MODELS)
def test_tables_of_the_notes_equal_the_models(name: str) -> None:
    recipe = read_recipe(RECIPES / f"imdb-{name}-notes.toml")
    table = summarize(build_classifier(recipe.model, recipe.tokenizer.vocab_size, 2), 500)
    got = solve(kind="layers", length=500, batch=64, layers=MODELS[name])
    assert got["parameters"] == table.parameters
    assert got["mult_adds"] == table.mult_adds
    assert got["parameters_mb"] == pytest.approx(table.parameters_mb, rel=1e-12)
    assert got["input_mb"] == pytest.approx(table.input_mb, rel=1e-12)
    if name.startswith("conv"):
        assert got["activations_mb"] == pytest.approx(table.activations_mb, rel=1e-12)
        assert got["total_mb"] == pytest.approx(table.total_mb, rel=1e-12)


def count_parameters(module: torch.nn.Module) -> int:
    return sum(p.numel() for p in module.parameters())


@pytest.mark.parametrize(
    ("layer", "module"),
    [
        ("conv1d out=5 kernel=3", torch.nn.Conv1d(8, 5, 3)),
        ("conv1d out=5 kernel=3 bias=0", torch.nn.Conv1d(8, 5, 3, bias=False)),
        ("linear out=5", torch.nn.Linear(8, 5)),
        ("linear out=5 bias=0", torch.nn.Linear(8, 5, bias=False)),
        ("rnn hidden=5", torch.nn.RNN(8, 5)),
        ("gru hidden=5", torch.nn.GRU(8, 5)),
        ("gru hidden=5 directions=2", torch.nn.GRU(8, 5, bidirectional=True)),
        ("lstm hidden=5 directions=2", torch.nn.LSTM(8, 5, bidirectional=True)),
        ("lstm hidden=5 bias=0", torch.nn.LSTM(8, 5, bias=False)),
        ("attention heads=2", MultiHeadAttention(8, 2)),
        ("attention heads=2 bias=0", MultiHeadAttention(8, 2, bias=False)),
        ("feed_forward hidden=20", FeedForward(8, 20)),
        ("transformer_block heads=2 hidden=20", torch.nn.TransformerEncoderLayer(8, 2, 20)),
        ("positions count=30", torch.nn.Embedding(30, 8)),
        ("positions", torch.nn.Embedding(6, 8)),
        ("layer_norm", LayerNorm(8)),
        ("batch_norm", torch.nn.BatchNorm1d(8)),
    ],
)
def test_parameters_equal_torch(layer: str, module: torch.nn.Module) -> None:
    got = solve(kind="layers", length=6, width=8, layers=[layer])
    assert got["parameters"] == got["parameters.1"] == count_parameters(module)


@pytest.mark.parametrize("stride", [1, 2, 3])
@pytest.mark.parametrize("padding", [0, 1])
def test_sizes_equal_torch(stride: int, padding: int) -> None:
    x = torch.zeros(1, 8, 11)
    convolved = torch.nn.Conv1d(8, 5, 4, stride, padding)(x)
    pooled = torch.nn.functional.max_pool1d(convolved, 2)
    layers = [f"conv1d out=5 kernel=4 stride={stride} padding={padding}", "pool kernel=2"]
    got = solve(kind="layers", length=11, width=8, layers=layers)
    assert (got["width.1"], got["length.1"]) == tuple(convolved.shape[1:])
    assert got["length.2"] == pooled.shape[2]
    assert got["mult_adds.1"] == convolved.shape[2] * 5 * 8 * 4


@pytest.mark.slow  # the counter takes seconds to import
def test_cost_equals_counted_operations() -> None:
    from torch.utils.flop_counter import FlopCounterMode

    n, d, heads = 12, 8, 2
    got = solve(kind="cost", n=n, d=d, heads=heads, kernel=3, batch=5, bytes=2)
    x, w = torch.zeros(n, d), torch.zeros(d, d)
    split = x.view(n, heads, d // heads).transpose(0, 1)
    weights = torch.zeros(heads, n, n)

    def count(run: Any) -> float:
        with FlopCounterMode(display=False) as counter:
            run()
        return counter.get_total_flops() / 2

    assert got["scores"] == count(lambda: split @ split.transpose(1, 2))
    assert got["mixed"] == count(lambda: weights @ split)
    assert got["projections"] == count(lambda: [x @ w for _ in range(4)])
    assert got["recurrence"] == count(lambda: [x[:1] @ w for _ in range(2 * n)])
    convolution = torch.nn.Conv1d(d, d, 3, padding=1, bias=False)
    assert got["convolution"] == count(lambda: convolution(torch.zeros(1, d, n)))
    assert got["ratio"] == pytest.approx(n / d + 2)
    assert got["weights"] == 5 * weights.numel()
    assert got["states_mb"] == 5 * x.numel() * 2 / 2**20


def test_cache_equals_tensors() -> None:
    got = solve(kind="kv_cache", n=100, d=64, heads=8, kv_heads=2, layers=3, batch=4)
    caches = [torch.zeros(4, 2, 100, 8, dtype=torch.float16) for _ in range(2 * 3)]
    assert got["numbers"] == sum(cache.numel() for cache in caches)
    assert got["megabytes"] == sum(cache.nbytes for cache in caches) / 2**20


LAYERS = {"kind": "layers", "length": 20, "width": 4}


@pytest.mark.parametrize(
    ("name", "layer", "claim"),
    [
        ("bias-forgotten", "conv1d out=6 kernel=3", {"parameters": 72}),
        ("kernel-not-counted", "conv1d out=6 kernel=3", {"parameters": 30}),
        ("channels-not-counted", "conv1d out=6 kernel=3", {"parameters": 24}),
        ("padding-forgotten", "conv1d out=6 kernel=3 padding=1", {"length": 18}),
        ("padding-counted-once", "conv1d out=6 kernel=3 padding=1", {"length": 19}),
        ("stride-forgotten", "conv1d out=6 kernel=3 stride=2", {"length": 18}),
        ("off-by-one", "conv1d out=6 kernel=3", {"length": 17}),
        ("rounded-up", "pool kernel=3", {"length": 7}),
        ("heads-counted-twice", "attention heads=2 bias=0", {"parameters": 128}),
        ("gates-not-counted", "lstm hidden=5", {"parameters": 55}),
        ("bias-counted-once", "rnn hidden=5", {"parameters": 50}),
        ("directions-not-counted", "gru hidden=5 directions=2", {"parameters": 3 * 55}),
        ("input-length-used", "conv1d out=6 kernel=3", {"mult_adds": 20 * 72}),
        ("positions-not-counted", "linear out=6", {"mult_adds": 24}),
        ("layers-forgotten", "transformer_block hidden=8 times=2", {"parameters": 172}),
        ("term-left-out", "transformer_block hidden=8", {"parameters": 156}),
        ("second-layer-forgotten", "transformer_block hidden=8", {"mult_adds": 20 * 96}),
    ],
)
def test_mistakes_by_hand(name: str, layer: str, claim: dict[str, int]) -> None:
    report = Problem(**LAYERS, layers=[layer], claim={"layer": {1: claim}}).check()
    assert report.first is not None
    assert name in [cause.name for cause in report.first.causes]


def test_later_layers_follow_from_a_wrong_size() -> None:
    layers = ["conv1d out=6 kernel=3", "flatten", "linear out=2"]
    claim = {"layer": {1: {"length": 17}, 2: {"width": 102}, 3: {"parameters": 206}}}
    report = Problem(**LAYERS, layers=layers, claim=claim).check()
    assert report.counts == {"right": 0, "rounded": 0, "follows": 2, "wrong": 1, "blank": 0}
    assert report.to_dict()["first"]["layer"] == 1


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"layers": []}, "layers has 0 layers"),
        ({"layers": "linear out=2"}, "layers must be a list of texts"),
        (
            {"layers": ["convd out=2"]},
            "layers, layer 1: 'convd' is no layer: did you mean 'conv1d'",
        ),
        ({"layers": ["linear"]}, "layer 1: out is missing: write linear out=…"),
        ({"layers": ["linear out=x"]}, "layer 1: out = 'x': it must be a whole number from 1"),
        ({"layers": ["linear out=0"]}, "layer 1: out = '0'"),
        ({"layers": ["linear out=9" + "9" * 5000]}, "layer 1: out = "),
        ({"layers": ["linear out=2 widht=1"]}, "'widht': no such number"),
        ({"layers": ["flatten x=1"]}, "flatten has no numbers"),
        ({"layers": ["pool kernel=30"]}, "layer 1: a kernel of 30 is longer than 20 positions"),
        ({"layers": ["attention heads=3"]}, "layer 1: heads = 3 does not divide 4"),
        ({"layers": ["last width=5"]}, "layer 1: width = 5, but the input has 4"),
        ({"layers": ["linear out=2 bias=2"]}, "bias is 0 or 1"),
        ({"layers": ["linear out=2"], "length": 0}, "length = 0: it must be a whole number"),
        ({}, "given.layers is missing: kind layers needs it"),
    ],
)
def test_bad_layers_are_rejected(fields: dict[str, Any], message: str) -> None:
    with pytest.raises(UserError) as error:
        Problem(**{**LAYERS, **fields})
    assert message in str(error.value)
    assert len(str(error.value)) < 200
    assert "\n" not in str(error.value)


def test_first_layer_needs_a_width() -> None:
    with pytest.raises(UserError, match=r"given.width is missing"):
        Problem(kind="layers", length=3, layers=["linear out=2"])


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"kind": "cost", "n": 4}, "given.d is missing: kind cost needs it"),
        ({"kind": "cost", "n": 4, "d": 2.5}, "given.d = 2.5: it must be a whole number"),
        ({"kind": "cost", "n": 4, "d": -2}, "given.d = -2"),
        ({"kind": "cost", "n": [1, 2], "d": 2}, "n has 2 columns: it must be a single vector"),
        ({"kind": "kv_cache", "n": 4, "d": 9, "heads": 2, "layers": 1}, "it must divide d = 9"),
        (
            {"kind": "kv_cache", "n": 4, "d": 8, "heads": 4, "kv_heads": 3, "layers": 1},
            "given.kv_heads = 3: it must divide heads = 4",
        ),
    ],
)
def test_bad_numbers_are_rejected(fields: dict[str, Any], message: str) -> None:
    with pytest.raises(UserError) as error:
        Problem(**fields)
    assert message in str(error.value)


def draw_layers(rng: Rng) -> dict[str, Any]:
    def number(low: int, high: int) -> int:
        return int(rng.integers(low, high))

    body = [
        f"conv1d out={number(3, 9)} kernel={number(2, 4)} stride={number(1, 4)}"
        f" padding={number(0, 3)} bias={number(0, 2)}",
        f"pool kernel={number(2, 4)}",
        f"{rng.choice(['rnn', 'gru', 'lstm'])} hidden={number(3, 9)} directions={number(1, 3)}",
        "attention heads=1",
        f"feed_forward hidden={number(5, 30)}",
        "layer_norm",
        f"linear out={number(3, 9)}",
    ]
    chosen = [body[k] for k in sorted(rng.choice(len(body), number(2, 5), replace=False))]
    layers = [f"embedding vocabulary={number(50, 900)} width={number(3, 9)}", *chosen]
    layers += [str(rng.choice(["flatten", "global_pool", "last"])), f"linear out={number(2, 5)}"]
    return {"kind": "layers", "length": number(20, 60), "batch": 16, "layers": layers}


def draw_cost(rng: Rng) -> dict[str, Any]:
    heads = int(rng.choice([2, 4, 8]))
    return {
        "kind": "cost",
        "n": int(rng.integers(20, 900)),
        "d": heads * int(rng.integers(3, 30)),
        "heads": heads,
        "kernel": int(rng.integers(2, 8)),
        "batch": int(rng.integers(2, 40)),
    }


def draw_cache(rng: Rng) -> dict[str, Any]:
    fields = {
        "kind": "kv_cache",
        "n": int(rng.integers(20, 5000)),
        "d": 8 * int(rng.integers(4, 500)),
        "heads": 8,
        "layers": int(rng.integers(2, 40)),
        "batch": int(rng.integers(2, 40)),
    }
    return {**fields, "kv_heads": int(rng.choice([1, 2, 4]))} if rng.random() < 0.5 else fields


DRAWS = [draw_layers, draw_cost, draw_cache]


@pytest.mark.parametrize("draw", DRAWS)
def test_rounded_solutions_are_right(draw: Any) -> None:
    assert_honest_is_right(draw, 8, 1)


@pytest.mark.parametrize("draw", DRAWS)
def test_planted_mistakes_are_named(draw: Any) -> None:
    assert_mistakes_are_named(draw, 1, 2)


@pytest.mark.slow
@pytest.mark.parametrize("draw", DRAWS)
def test_many_solutions(draw: Any) -> None:
    assert_honest_is_right(draw, 1_000, 3)
    assert_mistakes_are_named(draw, 60, 4)


def test_one_wrong_digit_is_found_and_placed() -> None:
    rng = np.random.default_rng(5)
    for _ in range(30):
        fields = draw_cost(rng)
        right = Problem(**fields).solve()
        key = str(rng.choice(["scores", "projections", "recurrence", "weights"]))
        wrong = int(right[key][0, 0]) + int(rng.choice([-1, 1, 10, -20]))
        report = Problem(**fields, claim={key: wrong}).check()
        assert report.first is not None
        assert report.first.key == key
