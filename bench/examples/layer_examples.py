"""Random convolutions, batch norms and counts in plain numpy, with mistakes to plant."""

from collections.abc import Callable, Iterator
from functools import partial

import numpy as np

from examples.gradient_examples import plants
from examples.numpy_problems import Env, Example, Matrix, Plant, Planter, Rng, draw, relu

MEGABYTE = 2**20

# -- convolution and batch norm --------------------------------------------------------------------


def make_conv1d(rng: Rng) -> Example:
    """Return a convolution with padding and stride, a ReLU and max-pooling."""
    stride, positions, channels, filters, kernel = int(rng.integers(1, 3)), 7, 2, 3, 3
    given = {"X": draw(rng, positions, channels), "W": draw(rng, filters * kernel, channels)}
    given["b"] = draw(rng, 1, filters)
    settings = {"filters": filters, "stride": stride, "padding": 1, "activation": "relu"}
    example = Example("conv1d", given, {**settings, "pooling": "max", "pool_size": 2})
    example.steps["padded"] = lambda e: np.pad(e["X"], ((1, 1), (0, 0)))
    example.steps["output"] = partial(convolve, stride=stride)
    example.steps["activated"] = lambda e: relu(e["output"])
    example.steps["pooled"] = partial(pool, function=np.max)
    return example


def convolve(
    e: Env,
    stride: int,
    flipped: bool = False,
    channels: int = 2,
    biases: int = 1,
    turn: int = 0,
) -> Matrix:
    filters = np.roll(e["W"].reshape(3, 3, 2)[:, :: -1 if flipped else 1], turn, axis=0)
    starts, x = range(0, len(e["padded"]) - 2, stride), e["padded"]
    cells = [[(x[s : s + 3, :channels] * f[:, :channels]).sum() for f in filters] for s in starts]
    return np.array(cells) + biases * e["b"]


def pool(e: Env, function: Callable[..., Matrix]) -> Matrix:
    x = e["activated"]
    windows = [x[s : s + 2] for s in range(0, len(x) - 1, 2)]
    return np.vstack([function(window, axis=0) for window in windows])


def plant_convolution(example: Example, **options: int) -> Iterator[Plant]:
    yield {"output": partial(convolve, stride=int(example.settings["stride"]), **options)}


def largest_magnitude(x: Matrix, axis: int) -> Matrix:
    return np.take_along_axis(x, np.abs(x).argmax(axis)[None], axis)[0]


CONV1D_MISTAKES: dict[str, Planter] = {
    "kernel-flipped": partial(plant_convolution, flipped=True),
    "channels-not-summed": partial(plant_convolution, channels=1),
    "bias-forgotten": partial(plant_convolution, biases=0),
    "bias-for-each-channel": partial(plant_convolution, biases=2),
    "wrong-filter": lambda x: (p for turn in (1, 2) for p in plant_convolution(x, turn=turn)),
    "padding-repeats-edge": plants(
        {"padded": lambda e: np.pad(e["X"], ((1, 1), (0, 0)), mode="edge")}
    ),
    "activation-forgotten": plants({"activated": lambda e: e["output"]}),
    "mean-for-max": plants({"pooled": partial(pool, function=np.mean)}),
    "min-for-max": plants({"pooled": partial(pool, function=np.min)}),
}


def make_batch_norm(rng: Rng) -> Example:
    """Return a batch norm in training, with its running moments."""
    given = {"X": draw(rng, 4, 3) * 2, "gamma": draw(rng, 1, 3), "beta": draw(rng, 1, 3)}
    given |= {"running_mean": draw(rng, 1, 3), "running_variance": np.abs(draw(rng, 1, 3))}
    settings = {"eps": 0.1, "momentum": 0.2, "mode": "training"}
    example = Example("batch_norm", given, settings)
    steps = example.steps
    steps["mean"] = lambda e: e["X"].mean(0, keepdims=True)
    steps["variance"] = lambda e: ((e["X"] - e["mean"]) ** 2).mean(0, keepdims=True)
    steps["normalised"] = lambda e: (e["X"] - e["mean"]) / np.sqrt(e["variance"] + 0.1)
    steps["output"] = lambda e: e["normalised"] * e["gamma"] + e["beta"]
    steps["new_mean"] = lambda e: 0.8 * e["running_mean"] + 0.2 * e["mean"]
    steps["new_variance"] = lambda e: 0.8 * e["running_variance"] + 0.2 * e["variance"] * 4 / 3
    return example


BATCH_NORM_MISTAKES: dict[str, Planter] = {
    "variance-over-n-minus-1": plants({"variance": lambda e: e["X"].var(0, ddof=1, keepdims=True)}),
    "deviation-for-variance": plants({"variance": lambda e: e["X"].std(0, keepdims=True)}),
    "variance-for-deviation": plants(
        {"normalised": lambda e: (e["X"] - e["mean"]) / (e["variance"] + 0.1)}
    ),
    "eps-forgotten": plants(
        {"normalised": lambda e: (e["X"] - e["mean"]) / np.sqrt(e["variance"])}
    ),
    "eps-outside-root": plants(
        {"normalised": lambda e: (e["X"] - e["mean"]) / (np.sqrt(e["variance"]) + 0.1)}
    ),
    "running-moments-in-training": plants(
        {
            "normalised": lambda e: (
                (e["X"] - e["running_mean"]) / np.sqrt(e["running_variance"] + 0.1)
            )
        }
    ),
    "gamma-forgotten": plants({"output": lambda e: e["normalised"] + e["beta"]}),
    "beta-forgotten": plants({"output": lambda e: e["normalised"] * e["gamma"]}),
    "momentum-swapped": plants({"new_mean": lambda e: 0.2 * e["running_mean"] + 0.8 * e["mean"]}),
    "running-moment-replaced": plants({"new_mean": lambda e: e["mean"]}),
    "running-variance-with-n": plants(
        {"new_variance": lambda e: 0.8 * e["running_variance"] + 0.2 * e["variance"]}
    ),
}


# -- counting --------------------------------------------------------------------------------------


def one(number: float) -> Matrix:
    return np.array([[float(number)]])


def make_layers(rng: Rng) -> Example:
    """Return a text classifier: embedding, convolution, LSTM, its last position, linear."""
    vocabulary, width, kernel = (int(rng.integers(*ends)) for ends in ((50, 400), (4, 30), (2, 6)))
    channels, hidden, classes = (int(rng.integers(*ends)) for ends in ((4, 30), (4, 40), (2, 9)))
    length, stride = int(rng.integers(30, 200)), int(rng.integers(2, 4))
    layers = [
        f"embedding vocabulary={vocabulary} width={width}",
        f"conv1d out={channels} kernel={kernel} stride={stride}",
        f"lstm hidden={hidden}",
        "last",
        f"linear out={classes}",
    ]
    example = Example("layers", {"length": length, "layers": layers})  # type: ignore[dict-item]
    example.constants = {
        "sizes": np.array([vocabulary, width, kernel, channels, hidden, classes, length, stride])
    }
    steps = example.steps
    steps["parameters.1"] = lambda _: one(vocabulary * width)
    steps["length.2"] = lambda _: one((length - kernel) // stride + 1)
    steps["parameters.2"] = lambda _: one(channels * width * kernel + channels)
    steps["mult_adds.2"] = lambda e: e["length.2"] * channels * width * kernel
    steps["parameters.3"] = lambda _: one(4 * hidden * (channels + hidden + 2))
    steps["mult_adds.3"] = lambda e: e["length.2"] * 4 * hidden * (channels + hidden)
    steps["parameters.5"] = lambda _: one(hidden * classes + classes)
    steps["mult_adds.5"] = lambda _: one(hidden * classes)
    steps["parameters"] = lambda e: sum((e[f"parameters.{k}"] for k in (1, 2, 3, 5)), one(0))
    example.integers |= set(steps)
    return example


def plant_count(name: str, example: Example) -> Iterator[Plant]:
    d, k, c, h, o, n, stride = (int(size) for size in example.constants["sizes"][1:])
    wrong: dict[str, list[Plant]] = {
        "bias-forgotten": [
            {"parameters.2": lambda _: one(c * d * k)},
            {"parameters.3": lambda _: one(4 * h * (c + h))},
            {"parameters.5": lambda _: one(h * o)},
        ],
        "bias-counted-once": [{"parameters.3": lambda _: one(4 * h * (c + h + 1))}],
        "bias-for-each-input": [{"parameters.5": lambda _: one(h * o + h)}],
        "kernel-not-counted": [{"parameters.2": lambda _: one(c * d + c)}],
        "channels-not-counted": [{"parameters.2": lambda _: one(c * k + c)}],
        "gates-not-counted": [{"parameters.3": lambda _: one(h * (c + h + 2))}],
        "recurrence-forgotten": [{"mult_adds.3": lambda e: e["length.2"] * 4 * h * c}],
        "length-for-vocabulary": [{"parameters.1": lambda _: one(n * d)}],
        "stride-forgotten": [{"length.2": lambda _: one(n - k + 1)}],
        "kernel-not-subtracted": [{"length.2": lambda _: one(n // stride + 1)}],
        "off-by-one": [{"length.2": lambda _: one((n - k) // stride)}],
        "positions-not-counted": [
            {"mult_adds.2": lambda _: one(c * d * k)},
            {"mult_adds.3": lambda _: one(4 * h * (c + h))},
        ],
        "input-length-used": [{"mult_adds.2": lambda _: one(n * c * d * k)}],
        "term-left-out": [
            {"parameters": lambda e: e["parameters.2"] + e["parameters.3"] + e["parameters.5"]}
        ],
    }
    yield from wrong[name]


LAYERS_MISTAKES: dict[str, Planter] = {
    name: partial(plant_count, name)
    for name in (
        *("bias-forgotten", "bias-counted-once", "bias-for-each-input", "kernel-not-counted"),
        *("channels-not-counted", "gates-not-counted", "recurrence-forgotten"),
        *("length-for-vocabulary", "stride-forgotten", "kernel-not-subtracted", "off-by-one"),
        *("positions-not-counted", "input-length-used", "term-left-out"),
    )
}


def make_cost(rng: Rng) -> Example:
    """Return the cost of attention beside that of a recurrence and a convolution."""
    n, d = int(rng.integers(10, 600)), int(rng.choice([16, 24, 32, 48, 64]))
    given = {"n": n, "d": d, "heads": int(rng.choice([2, 4, 8])), "kernel": int(rng.choice([3, 5]))}
    given |= {"batch": int(rng.integers(2, 9)), "bytes": 4}
    example = Example("cost", {k: one(v) for k, v in given.items()})
    steps, k, heads, batch = example.steps, given["kernel"], given["heads"], given["batch"]
    steps["scores"] = lambda _: one(n * n * d)
    steps["mixed"] = lambda _: one(n * n * d)
    steps["projections"] = lambda _: one(4 * n * d * d)
    steps["attention"] = lambda e: e["scores"] + e["mixed"] + e["projections"]
    steps["recurrence"] = lambda _: one(2 * n * d * d)
    steps["convolution"] = lambda _: one(k * n * d * d)
    steps["ratio"] = lambda e: e["attention"] / e["recurrence"]
    steps["weights"] = lambda _: one(batch * heads * n * n)
    steps["states"] = lambda _: one(batch * n * d)
    steps["weights_mb"] = lambda e: e["weights"] * 4 / MEGABYTE
    steps["states_mb"] = lambda e: e["states"] * 4 / MEGABYTE
    example.integers |= set(steps) - {"ratio", "weights_mb", "states_mb"}
    return example


def plant_cost(name: str, example: Example) -> Iterator[Plant]:
    n, d, heads, k, batch, _ = (float(m[0, 0]) for m in example.given.values())
    wrong: dict[str, list[Plant]] = {
        "length-not-squared": [{"scores": lambda _: one(n * d)}],
        "width-for-length": [{"scores": lambda _: one(n * d * d)}],
        "output-projection-forgotten": [{"projections": lambda _: one(3 * n * d * d)}],
        "width-not-squared": [
            {"projections": lambda _: one(4 * n * d)}, {"convolution": lambda _: one(k * n * d)}
        ],
        "input-product-forgotten": [{"recurrence": lambda _: one(n * d * d)}],
        "length-squared": [{"recurrence": lambda _: one(2 * n * n * d)}],
        "kernel-not-counted": [{"convolution": lambda _: one(n * d * d)}],
        "ratio-inverted": [{"ratio": lambda e: e["recurrence"] / e["attention"]}],
        "heads-forgotten": [{"weights": lambda _: one(batch * n * n)}],
        "batch-forgotten": [
            {"weights": lambda _: one(heads * n * n)}, {"states": lambda _: one(n * d)}
        ],
        "bytes-forgotten": [{"weights_mb": lambda e: e["weights"] / MEGABYTE}],
        "bits-for-bytes": [{"weights_mb": lambda e: e["weights"] * 32 / MEGABYTE}],
    }  # fmt: skip
    yield from wrong[name]


COST_MISTAKES: dict[str, Planter] = {
    name: partial(plant_cost, name)
    for name in (
        *("length-not-squared", "width-for-length", "output-projection-forgotten"),
        *("width-not-squared", "input-product-forgotten", "length-squared"),
        *("kernel-not-counted", "ratio-inverted", "heads-forgotten", "batch-forgotten"),
        *("bytes-forgotten", "bits-for-bytes"),
    )
}


def make_kv_cache(rng: Rng) -> Example:
    """Return the cache of a model with grouped heads."""
    n, layers, batch = (int(rng.integers(*ends)) for ends in ((100, 5000), (2, 40), (2, 9)))
    heads, width = int(rng.choice([8, 16, 32])), int(rng.choice([16, 64, 128]))
    given = {"n": n, "d": heads * width, "heads": heads, "kv_heads": heads // 4}
    given |= {"layers": layers, "batch": batch, "bytes": 2}
    example = Example("kv_cache", {k: one(v) for k, v in given.items()})
    steps, kv_heads = example.steps, heads // 4
    steps["head_width"] = lambda _: one(width)
    steps["per_token"] = lambda e: 2 * layers * kv_heads * e["head_width"]
    steps["numbers"] = lambda e: e["per_token"] * n * batch
    steps["megabytes"] = lambda e: e["numbers"] * 2 / MEGABYTE
    example.integers |= {"head_width", "per_token", "numbers"}
    return example


def plant_cache(name: str, example: Example) -> Iterator[Plant]:
    n, _, heads, kv_heads, layers, batch, _ = (float(m[0, 0]) for m in example.given.values())
    wrong: dict[str, Plant] = {
        "query-heads-cached": {"per_token": lambda e: 2 * layers * heads * e["head_width"]},
        "keys-only": {"per_token": lambda e: layers * kv_heads * e["head_width"]},
        "layers-forgotten": {"per_token": lambda e: 2 * kv_heads * e["head_width"]},
        "heads-forgotten": {"per_token": lambda e: 2 * layers * e["head_width"]},
        "batch-forgotten": {"numbers": lambda e: e["per_token"] * n},
        "positions-not-counted": {"numbers": lambda e: e["per_token"] * batch},
        "length-squared": {"numbers": lambda e: e["per_token"] * n * n * batch},
        "bytes-forgotten": {"megabytes": lambda e: e["numbers"] / MEGABYTE},
        "bits-for-bytes": {"megabytes": lambda e: e["numbers"] * 16 / MEGABYTE},
    }
    yield wrong[name]


KV_CACHE_MISTAKES: dict[str, Planter] = {
    name: partial(plant_cache, name)
    for name in (
        *("query-heads-cached", "keys-only", "layers-forgotten", "heads-forgotten"),
        *("batch-forgotten", "positions-not-counted", "length-squared"),
        *("bytes-forgotten", "bits-for-bytes"),
    )
}
