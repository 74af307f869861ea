"""Random losses and gradients in plain numpy, with mistakes to plant."""

from collections.abc import Callable, Iterator
from functools import partial

import numpy as np

from examples.numpy_problems import (
    ACTIVATIONS,
    Env,
    Example,
    Matrix,
    Plant,
    Planter,
    Rng,
    draw,
    sigmoid,
    softmax,
)

SLOPES = {  # of an activation's value
    "relu": lambda y: (y > 0) * 1.0,
    "tanh": lambda y: 1 - y**2,
    "sigmoid": lambda y: y * (1 - y),
}


def plants(*wrong: Plant) -> Planter:
    """Return a planter of these wrong steps."""
    return lambda _: iter(wrong)


def rows(x: Matrix) -> Matrix:
    return x.sum(1, keepdims=True)


def columns(x: Matrix) -> Matrix:
    return x.sum(0, keepdims=True)


# -- cross-entropy ---------------------------------------------------------------------------------


def make_cross_entropy(rng: Rng) -> Example:
    """Return cross-entropy with label smoothing of three rows and four classes."""
    classes, smoothing = rng.integers(0, 4, 3), float(rng.choice([0.1, 0.2]))
    given = {"logits": draw(rng, 3, 4), "targets": classes[None] + 1.0}
    settings = {"label_smoothing": smoothing, "reduction": "mean"}
    example = Example("cross_entropy", given, settings)
    example.constants["targets_1"] = np.eye(4)[classes]
    steps = example.steps
    steps["probabilities"] = lambda e: softmax(e["logits"])
    steps["smoothed"] = lambda e: (1 - smoothing) * e["targets_1"] + smoothing / 4
    steps["losses"] = lambda e: -rows(e["smoothed"] * np.log(e["probabilities"]))
    steps["loss"] = lambda e: e["losses"].mean(keepdims=True)
    steps["perplexity"] = lambda e: np.exp(e["loss"])
    steps["predictions"] = lambda e: e["probabilities"].argmax(1)[:, None] + 1.0
    steps["accuracy"] = lambda e: (e["predictions"][:, 0] - 1 == classes).mean()[None, None]
    steps["dlogits"] = lambda e: (e["probabilities"] - e["smoothed"]) / 3
    example.integers.add("predictions")
    example.labels["predictions"] = 4
    return example


def plant_smoothing(example: Example, kept: float | None, shares: int) -> Iterator[Plant]:
    amount = example.settings["label_smoothing"]
    kept = 1 - amount if kept is None else kept

    def smoothed(e: Env) -> Matrix:
        y = e["targets_1"]
        return kept * y + amount / shares * (1 if shares != 3 else 1 - y)

    yield {"smoothed": smoothed}


CROSS_ENTROPY_MISTAKES: dict[str, Planter] = {
    "smoothing-forgotten": plants({"smoothed": lambda e: e["targets_1"]}),
    "smoothing-not-subtracted": partial(plant_smoothing, kept=1.0, shares=4),
    "smoothing-not-shared": partial(plant_smoothing, kept=None, shares=1),
    "smoothing-over-other-classes": partial(plant_smoothing, kept=None, shares=3),
    "loss-not-negated": plants(
        {"losses": lambda e: rows(e["smoothed"] * np.log(e["probabilities"]))}
    ),
    "wrong-logarithm": plants(
        {"losses": lambda e: -rows(e["smoothed"] * np.log2(e["probabilities"]))},
        {"losses": lambda e: -rows(e["smoothed"] * np.log10(e["probabilities"]))},
        {"perplexity": lambda e: 2 ** e["loss"]},
    ),
    "summed-over-all-classes": plants({"losses": lambda e: -rows(np.log(e["probabilities"]))}),
    "one-over-n-forgotten": plants(
        {"loss": lambda e: columns(e["losses"])},
        {"dlogits": lambda e: e["probabilities"] - e["smoothed"]},
    ),
    "divided-by-classes": plants(
        {"loss": lambda e: columns(e["losses"]) / 4},
        {"dlogits": lambda e: (e["probabilities"] - e["smoothed"]) / 4},
    ),
    "smallest-for-largest": plants(
        {"predictions": lambda e: e["probabilities"].argmin(1)[:, None] + 1.0}
    ),
    "error-rate-for-accuracy": plants(
        {"accuracy": lambda e: (e["predictions"] != e["targets"].T).mean()[None, None]}
    ),
    "p-minus-y-reversed": plants({"dlogits": lambda e: (e["smoothed"] - e["probabilities"]) / 3}),
    "target-not-subtracted": plants({"dlogits": lambda e: e["probabilities"] / 3}),
    "logits-for-probabilities": plants({"dlogits": lambda e: (e["logits"] - e["smoothed"]) / 3}),
}


# -- softmax ---------------------------------------------------------------------------------------


def make_softmax_jacobian(rng: Rng) -> Example:
    """Return the Jacobian of a softmax of four logits, and a gradient through it."""
    given = {"logits": draw(rng, 1, 4) * 1.5, "dprobabilities": draw(rng, 1, 4)}
    example = Example("softmax_jacobian", given)
    example.steps["probabilities"] = lambda e: softmax(e["logits"])
    example.steps["jacobian"] = lambda e: np.diag(e["probabilities"][0]) - outer(e)
    example.steps["dlogits"] = lambda e: e["dprobabilities"] @ e["jacobian"]
    return example


def outer(e: Env) -> Matrix:
    return e["probabilities"].T @ e["probabilities"]


def p_and_square(e: Env) -> Matrix:
    return e["probabilities"][0] * (1 + e["probabilities"][0])


def diagonal(e: Env) -> Matrix:
    p = e["probabilities"]
    return np.diag((p * (1 - p))[0])


SOFTMAX_JACOBIAN_MISTAKES: dict[str, Planter] = {
    "off-diagonal-forgotten": plants(
        {"jacobian": diagonal}, {"dlogits": lambda e: e["dprobabilities"] @ diagonal(e)}
    ),
    "off-diagonal-sign": plants(
        {"jacobian": lambda e: 2 * diagonal(e) - np.diag(e["probabilities"][0]) + outer(e)}
    ),
    "diagonal-forgotten": plants({"jacobian": lambda e: -outer(e)}),
    "jacobian-reversed": plants({"jacobian": lambda e: outer(e) - np.diag(e["probabilities"][0])}),
    "square-forgotten": plants({"jacobian": lambda e: np.diag(p_and_square(e)) - outer(e)}),
    "jacobian-forgotten": plants({"dlogits": lambda e: e["dprobabilities"]}),
    "row-sum-not-subtracted": plants(
        {"dlogits": lambda e: e["dprobabilities"] * e["probabilities"]}
    ),
    "probabilities-for-upstream": plants({"dlogits": lambda e: e["probabilities"] @ e["jacobian"]}),
}


# -- layers ----------------------------------------------------------------------------------------


def make_linear_gradient(rng: Rng) -> Example:
    """Return a gradient through a layer with an activation."""
    activation = str(rng.choice(list(SLOPES)))
    given = {"X": draw(rng, 4, 4), "W": draw(rng, 4, 4), "b": draw(rng, 1, 4)}
    given["dY"] = draw(rng, 4, 4)
    example = Example("linear_gradient", given, {"activation": activation})
    steps = example.steps
    steps["Z"] = lambda e: e["X"] @ e["W"] + e["b"]
    steps["Y"] = lambda e: ACTIVATIONS[activation](e["Z"])
    steps["dZ"] = lambda e: e["dY"] * SLOPES[activation](e["Y"])
    steps["dX"] = lambda e: e["dZ"] @ e["W"].T
    steps["dW"] = lambda e: e["X"].T @ e["dZ"]
    steps["db"] = lambda e: columns(e["dZ"])
    return example


def plant_slopes(example: Example) -> Iterator[Plant]:
    for name, slope in SLOPES.items():
        if name != example.settings["activation"]:
            yield {"dZ": lambda e, slope=slope: e["dY"] * slope(e["Y"])}


def plant_slope_at_wrong_value(example: Example) -> Iterator[Plant]:
    slope = SLOPES[example.settings["activation"]]
    yield {"dZ": lambda e: e["dY"] * slope(e["Z"])}


LINEAR_GRADIENT_MISTAKES: dict[str, Planter] = {
    "bias-forgotten": plants({"Z": lambda e: e["X"] @ e["W"]}),
    "slope-forgotten": plants({"dZ": lambda e: e["dY"]}),
    "wrong-slope": plant_slopes,
    "slope-at-wrong-value": plant_slope_at_wrong_value,
    "activation-for-slope": plants({"dZ": lambda e: e["dY"] * e["Y"]}),
    "jacobian-transposed": plants({"dX": lambda e: e["dZ"] @ e["W"]}),
    "weight-forgotten": plants({"dX": lambda e: e["dZ"]}),
    "summed-over-wrong-axis": plants({"db": lambda e: rows(e["dZ"]).T}),
    "mean-for-sum": plants({"db": lambda e: e["dZ"].mean(0, keepdims=True)}),
}


def make_mlp_gradient(rng: Rng) -> Example:
    """Return gradients of the cross-entropy through two layers."""
    activation, classes = str(rng.choice(list(SLOPES))), rng.integers(0, 3, 3)
    given = {"X": draw(rng, 3, 3), "targets": classes[None] + 1.0}
    given |= {"W_1": draw(rng, 3, 3) / 2, "b_1": draw(rng, 1, 3)}
    given |= {"W_2": draw(rng, 3, 3) / 2, "b_2": draw(rng, 1, 3)}
    settings = {"activation": activation, "label_smoothing": 0, "reduction": "mean"}
    example = Example("mlp_gradient", given, settings)
    example.constants["Y"] = np.eye(3)[classes]
    steps = example.steps
    steps["hidden"] = lambda e: e["X"] @ e["W_1"] + e["b_1"]
    steps["activated"] = lambda e: ACTIVATIONS[activation](e["hidden"])
    steps["logits"] = lambda e: e["activated"] @ e["W_2"] + e["b_2"]
    steps["probabilities"] = lambda e: softmax(e["logits"])
    steps["losses"] = lambda e: -np.log(rows(e["Y"] * e["probabilities"]))
    steps["loss"] = lambda e: e["losses"].mean(keepdims=True)
    steps["dlogits"] = lambda e: (e["probabilities"] - e["Y"]) / 3
    steps["dW_2"] = lambda e: e["activated"].T @ e["dlogits"]
    steps["db_2"] = lambda e: columns(e["dlogits"])
    steps["dactivated"] = lambda e: e["dlogits"] @ e["W_2"].T
    steps["dhidden"] = lambda e: e["dactivated"] * SLOPES[activation](e["activated"])
    steps["dW_1"] = lambda e: e["X"].T @ e["dhidden"]
    steps["db_1"] = lambda e: columns(e["dhidden"])
    steps["dX"] = lambda e: e["dhidden"] @ e["W_1"].T
    return example


MLP_GRADIENT_MISTAKES: dict[str, Planter] = {
    "activation-forgotten": plants({"activated": lambda e: e["hidden"]}),
    "loss-not-negated": plants({"losses": lambda e: np.log(rows(e["Y"] * e["probabilities"]))}),
    "p-minus-y-reversed": plants({"dlogits": lambda e: (e["Y"] - e["probabilities"]) / 3}),
    "one-over-n-forgotten": plants({"dlogits": lambda e: e["probabilities"] - e["Y"]}),
    "gradient-transposed": plants(
        {"dW_2": lambda e: e["dlogits"].T @ e["activated"]},
        {"dW_1": lambda e: e["dhidden"].T @ e["X"]},
    ),
    "jacobian-transposed": plants(
        {"dactivated": lambda e: e["dlogits"] @ e["W_2"]},
        {"dX": lambda e: e["dhidden"] @ e["W_1"]},
    ),
    "slope-forgotten": plants({"dhidden": lambda e: e["dactivated"]}),
    "mean-for-sum": plants({"db_1": lambda e: e["dhidden"].mean(0, keepdims=True)}),
}


def make_layer_norm_gradient(rng: Rng) -> Example:
    """Return a gradient through a layer norm."""
    given = {"X": draw(rng, 3, 4) * 2, "gamma": draw(rng, 1, 4), "beta": draw(rng, 1, 4)}
    given["dY"] = draw(rng, 3, 4)
    example = Example("layer_norm_gradient", {**given, "eps": 0.1})
    steps = example.steps
    steps["mean"] = lambda e: e["X"].mean(1, keepdims=True)
    steps["variance"] = lambda e: ((e["X"] - e["mean"]) ** 2).mean(1, keepdims=True)
    steps["normalised"] = lambda e: (e["X"] - e["mean"]) / deviation(e)
    steps["dgamma"] = lambda e: columns(e["dY"] * e["normalised"])
    steps["dbeta"] = lambda e: columns(e["dY"])
    steps["dnormalised"] = lambda e: e["dY"] * e["gamma"]
    steps["mean_gradient"] = lambda e: e["dnormalised"].mean(1, keepdims=True)
    steps["mean_product"] = lambda e: (e["dnormalised"] * e["normalised"]).mean(1, keepdims=True)
    steps["dX"] = lambda e: norm_gradient(e)
    return example


def deviation(e: Env) -> Matrix:
    return np.sqrt(e["variance"] + 0.1)


def norm_gradient(e: Env, mean: bool = True, product: bool = True) -> Matrix:
    inside = e["dnormalised"] - mean * e["mean_gradient"]
    return (inside - product * e["normalised"] * e["mean_product"]) / deviation(e)


LAYER_NORM_GRADIENT_MISTAKES: dict[str, Planter] = {
    "mean-held-constant": plants({"dX": partial(norm_gradient, mean=False)}),
    "variance-held-constant": plants({"dX": partial(norm_gradient, product=False)}),
    "statistics-held-constant": plants({"dX": partial(norm_gradient, mean=False, product=False)}),
    "deviation-forgotten": plants({"dX": lambda e: norm_gradient(e) * deviation(e)}),
    "variance-for-deviation": plants({"dX": lambda e: norm_gradient(e) / deviation(e)}),
    "gamma-forgotten": plants({"dnormalised": lambda e: e["dY"]}),
    "input-not-normalized": plants({"dgamma": lambda e: columns(e["dY"] * e["X"])}),
    "normalized-input-forgotten": plants({"dgamma": lambda e: columns(e["dY"])}),
    "variance-over-n-minus-1": plants({"variance": lambda e: e["X"].var(1, ddof=1, keepdims=True)}),
}


def make_attention_gradient(rng: Rng) -> Example:
    """Return the gradients of one head of self-attention, causal or not."""
    mask, n, d = str(rng.choice(["none", "causal"])), 3, 3
    given = {"X": draw(rng, n, d), **{f"W_{name}": draw(rng, d, d) for name in "QKVO"}}
    given["doutput"] = draw(rng, n, d)
    settings = {"scale": "sqrt(d_k)", "mask": mask}
    example = Example("attention_gradient", given, settings)
    allowed, steps = np.tril(np.ones((n, n), dtype=bool)) | (mask == "none"), example.steps
    for name in "QKV":
        steps[name] = lambda e, name=name: e["X"] @ e[f"W_{name}"]
    steps["scores"] = lambda e: e["Q"] @ e["K"].T
    steps["scaled"] = lambda e: e["scores"] / np.sqrt(d)
    steps["weights"] = lambda e: softmax(np.where(allowed, e["scaled"], -np.inf))
    steps["mixed"] = lambda e: e["weights"] @ e["V"]
    steps["output"] = lambda e: e["mixed"] @ e["W_O"]
    steps["dmixed"] = lambda e: e["doutput"] @ e["W_O"].T
    steps["dW_O"] = lambda e: e["mixed"].T @ e["doutput"]
    steps["dV"] = lambda e: e["weights"].T @ e["dmixed"]
    steps["dweights"] = lambda e: e["dmixed"] @ e["V"].T
    steps["weighted_sum"] = lambda e: rows(e["weights"] * e["dweights"])
    steps["dscaled"] = lambda e: e["weights"] * (e["dweights"] - e["weighted_sum"])
    steps["dscores"] = lambda e: e["dscaled"] / np.sqrt(d)
    steps["dQ"] = lambda e: e["dscores"] @ e["K"]
    steps["dK"] = lambda e: e["dscores"].T @ e["Q"]
    for name in "QKV":
        steps[f"dW_{name}"] = lambda e, name=name: e["X"].T @ e[f"d{name}"]
    steps["dX"] = lambda e: input_gradient(e)
    return example


def input_gradient(e: Env, names: str = "QKV") -> Matrix:
    return sum((e[f"d{name}"] @ e[f"W_{name}"].T for name in names), np.zeros(e["X"].shape))


ATTENTION_GRADIENT_MISTAKES: dict[str, Planter] = {
    "jacobian-transposed": plants(
        {"dmixed": lambda e: e["doutput"] @ e["W_O"]},
        {"dV": lambda e: e["weights"] @ e["dmixed"]},
        {"dK": lambda e: e["dscores"] @ e["Q"]},
    ),
    "scores-for-weights": plants({"dV": lambda e: e["scaled"].T @ e["dmixed"]}),
    "row-sum-not-subtracted": plants({"dscaled": lambda e: e["weights"] * e["dweights"]}),
    "off-diagonal-forgotten": plants(
        {"dscaled": lambda e: e["weights"] * (1 - e["weights"]) * e["dweights"]}
    ),
    "weights-forgotten": plants({"dscaled": lambda e: e["dweights"] - e["weighted_sum"]}),
    "not-scaled": plants({"dscores": lambda e: e["dscaled"]}),
    "gradient-transposed": plants({"dW_Q": lambda e: e["dQ"].T @ e["X"]}),
    "path-forgotten": plants(
        *({"dX": partial(input_gradient, names=names)} for names in ("V", "QK", "QV", "KV"))
    ),
}


# -- through time ----------------------------------------------------------------------------------

TIMES = 3


def make_rnn_gradient(rng: Rng) -> Example:
    """Return back-propagation through three time steps, with a loss at each of them."""
    activation = str(rng.choice(["tanh", "sigmoid", "relu"]))
    given = draw_rnn(rng) | {"dH": draw(rng, TIMES, 2)}
    example = Example("rnn_gradient", given, {"activation": activation})
    add_states(example, activation)
    steps, last = example.steps, range(TIMES, 0, -1)
    for t in last:
        if t < TIMES:
            steps[f"dh.{t}"] = lambda e, t=t: e["dH"][[t - 1]] + e[f"dsum.{t + 1}"] @ e["W_hh"].T
        steps[f"dsum.{t}"] = lambda e, t=t: state_gradient(e, t) * SLOPES[activation](e[f"h.{t}"])
    steps["dW_xh"] = lambda e: over_time(lambda t: e["X"][[t - 1]].T @ e[f"dsum.{t}"])
    steps["dW_hh"] = lambda e: over_time(lambda t: before(e, t).T @ e[f"dsum.{t}"])
    steps["db"] = lambda e: over_time(lambda t: e[f"dsum.{t}"])
    steps["dh0"] = lambda e: e["dsum.1"] @ e["W_hh"].T
    return example


def draw_rnn(rng: Rng) -> dict[str, Matrix]:
    return {
        "X": draw(rng, TIMES, 2),
        "W_xh": draw(rng, 2, 2) / 2,
        "W_hh": draw(rng, 2, 2),
        "b": draw(rng, 1, 2) / 2,
        "h0": draw(rng, 1, 2) / 2,
    }


def add_states(example: Example, activation: str) -> None:
    for t in range(1, TIMES + 1):
        example.steps[f"sum.{t}"] = lambda e, t=t: (
            e["X"][[t - 1]] @ e["W_xh"] + before(e, t) @ e["W_hh"] + e["b"]
        )
        example.steps[f"h.{t}"] = lambda e, t=t: ACTIVATIONS[activation](e[f"sum.{t}"])


def before(e: Env, t: int) -> Matrix:
    return e[f"h.{t - 1}"] if t > 1 else e["h0"]


def state_gradient(e: Env, t: int) -> Matrix:
    return e[f"dh.{t}"] if t < TIMES else e["dH"][[t - 1]]


def over_time(term: Callable[[int], Matrix]) -> Matrix:
    return np.sum([term(t) for t in range(1, TIMES + 1)], axis=0)


def plant_through_time(name: str, example: Example) -> Iterator[Plant]:
    slope = SLOPES[example.settings["activation"]]
    for t in range(1, TIMES + 1):
        if t < TIMES:
            yield from {
                "own-loss-forgotten": [
                    {f"dh.{t}": lambda e, t=t: e[f"dsum.{t + 1}"] @ e["W_hh"].T}
                ],
                "jacobian-transposed": [
                    {f"dh.{t}": lambda e, t=t: e["dH"][[t - 1]] + e[f"dsum.{t + 1}"] @ e["W_hh"]}
                ],
                "weight-forgotten": [
                    {f"dh.{t}": lambda e, t=t: e["dH"][[t - 1]] + e[f"dsum.{t + 1}"]}
                ],
            }.get(name, [])
        if name == "slope-forgotten":
            yield {f"dsum.{t}": partial(state_gradient, t=t)}
        if name == "activation-for-slope":
            yield {f"dsum.{t}": lambda e, t=t: state_gradient(e, t) * e[f"h.{t}"]}
        if name == "slope-at-wrong-value":
            yield {f"dsum.{t}": lambda e, t=t: state_gradient(e, t) * slope(e[f"sum.{t}"])}


RNN_GRADIENT_MISTAKES: dict[str, Planter] = {
    **{
        name: partial(plant_through_time, name)
        for name in (
            "own-loss-forgotten",
            "jacobian-transposed",
            "weight-forgotten",
            "slope-forgotten",
            "activation-for-slope",
            "slope-at-wrong-value",
        )
    },
    "not-accumulated-over-time": plants(
        {"dW_hh": lambda e: before(e, TIMES).T @ e[f"dsum.{TIMES}"]},
        {"dW_xh": lambda e: e["X"][[-1]].T @ e[f"dsum.{TIMES}"]},
        {"db": lambda e: e[f"dsum.{TIMES}"]},
    ),
    "state-of-same-time": plants(
        {"dW_hh": lambda e: over_time(lambda t: e[f"h.{t}"].T @ e[f"dsum.{t}"])}
    ),
    "mean-for-sum": plants({"db": lambda e: over_time(lambda t: e[f"dsum.{t}"]) / TIMES}),
}


def make_rnn_loss_gradient(rng: Rng) -> Example:
    """Return back-propagation from the mean cross-entropy of the outputs at three times."""
    classes = rng.integers(0, 2, TIMES)
    given = draw_rnn(rng) | {"W_hy": draw(rng, 2, 2), "b_y": draw(rng, 1, 2)}
    given["targets"] = classes[None] + 1.0
    settings = {"activation": "tanh", "outputs": "all", "reduction": "mean"}
    example = Example("rnn_gradient", given, settings)
    example.constants["one_hot"] = np.eye(2)[classes]
    add_states(example, "tanh")
    steps = example.steps
    for t in range(1, TIMES + 1):
        steps[f"y.{t}"] = lambda e, t=t: e[f"h.{t}"] @ e["W_hy"] + e["b_y"]
        steps[f"probabilities.{t}"] = lambda e, t=t: softmax(e[f"y.{t}"])
        steps[f"loss.{t}"] = lambda e, t=t: -np.log(rows(target(e, t) * e[f"probabilities.{t}"]))
    steps["loss"] = lambda e: over_time(lambda t: e[f"loss.{t}"]) / TIMES
    for t in range(TIMES, 0, -1):
        steps[f"dy.{t}"] = lambda e, t=t: (e[f"probabilities.{t}"] - target(e, t)) / TIMES
    steps["dW_hy"] = lambda e: over_time(lambda t: e[f"h.{t}"].T @ e[f"dy.{t}"])
    steps["db_y"] = lambda e: over_time(lambda t: e[f"dy.{t}"])
    for t in range(TIMES, 0, -1):
        steps[f"dH.{t}"] = lambda e, t=t: e[f"dy.{t}"] @ e["W_hy"].T
    for t in range(TIMES, 0, -1):
        dh, next_sum = f"dH.{t}", f"dsum.{t + 1}"
        if t < TIMES:
            dh = f"dh.{t}"
            steps[dh] = lambda e, t=t, n=next_sum: e[f"dH.{t}"] + e[n] @ e["W_hh"].T
        steps[f"dsum.{t}"] = lambda e, t=t, dh=dh: e[dh] * (1 - e[f"h.{t}"] ** 2)
    steps["dW_hh"] = lambda e: over_time(lambda t: before(e, t).T @ e[f"dsum.{t}"])
    return example


def target(e: Env, t: int) -> Matrix:
    return e["one_hot"][[t - 1]]


def at_each_time(step: str, function: Callable[[Env, int], Matrix]) -> list[Plant]:
    return [{f"{step}.{t}": lambda e, t=t: function(e, t)} for t in range(1, TIMES + 1)]


RNN_LOSS_GRADIENT_MISTAKES: dict[str, Planter] = {
    "p-minus-y-reversed": plants(
        *at_each_time("dy", lambda e, t: (target(e, t) - e[f"probabilities.{t}"]) / TIMES)
    ),
    "target-not-subtracted": plants(
        *at_each_time("dy", lambda e, t: e[f"probabilities.{t}"] / TIMES)
    ),
    "one-over-n-forgotten": plants(
        *at_each_time("dy", lambda e, t: e[f"probabilities.{t}"] - target(e, t)),
        {"loss": lambda e: over_time(lambda t: e[f"loss.{t}"])},
    ),
    "only-last-loss": plants({"loss": lambda e: e[f"loss.{TIMES}"]}),
    "not-accumulated-over-time": plants(
        {"dW_hy": lambda e: e[f"h.{TIMES}"].T @ e[f"dy.{TIMES}"]},
        {"db_y": lambda e: e[f"dy.{TIMES}"]},
    ),
    "jacobian-transposed": plants(*at_each_time("dH", lambda e, t: e[f"dy.{t}"] @ e["W_hy"])),
    "own-loss-forgotten": plants({"dh.1": lambda e: e["dsum.2"] @ e["W_hh"].T}),
    "slope-forgotten": plants({"dsum.1": lambda e: e["dh.1"]}),
}


def make_rnn_jacobian(rng: Rng) -> Example:
    """Return the Jacobians of three states, their products and norms."""
    activation = str(rng.choice(["tanh", "sigmoid"]))
    example = Example("rnn_jacobian", draw_rnn(rng), {"activation": activation})
    add_states(example, activation)
    steps = example.steps
    for t in range(1, TIMES + 1):
        steps[f"jacobian.{t}"] = lambda e, t=t: e["W_hh"] * SLOPES[activation](e[f"h.{t}"])
        key = "jacobian.1"
        if t > 1:
            old, key = "jacobian.1" if t == 2 else f"product.{t - 1}", f"product.{t}"
            steps[key] = lambda e, t=t, old=old: e[old] @ e[f"jacobian.{t}"]
        steps[f"norm.{t}"] = lambda e, key=key: np.sqrt((e[key] ** 2).sum(keepdims=True))
    return example


def plant_jacobians(name: str, example: Example) -> Iterator[Plant]:
    slope = SLOPES[example.settings["activation"]]
    for t in range(1, TIMES + 1):
        old = "jacobian.1" if t == 2 else f"product.{t - 1}"
        key = f"product.{t}" if t > 1 else "jacobian.1"
        jacobian = f"jacobian.{t}"
        wrong = {
            "slope-on-wrong-side": {
                jacobian: lambda e, t=t: slope(e[f"h.{t}"]).T * e["W_hh"],
            },
            "slope-forgotten": {jacobian: lambda e: e["W_hh"]},
            "jacobian-transposed": {jacobian: lambda e, t=t: e["W_hh"].T * slope(e[f"h.{t}"])},
            "slope-at-wrong-value": {jacobian: lambda e, t=t: e["W_hh"] * slope(e[f"sum.{t}"])},
            "root-forgotten": {f"norm.{t}": lambda e, key=key: (e[key] ** 2).sum(keepdims=True)},
        }
        if t > 1:
            wrong |= {
                "product-in-wrong-order": {key: lambda e, j=jacobian, old=old: e[j] @ e[old]},
                "elementwise-product": {key: lambda e, j=jacobian, old=old: e[j] * e[old]},
            }
        if name in wrong:
            yield wrong[name]


RNN_JACOBIAN_MISTAKES: dict[str, Planter] = {
    name: partial(plant_jacobians, name)
    for name in (
        "slope-on-wrong-side",
        "slope-forgotten",
        "jacobian-transposed",
        "slope-at-wrong-value",
        "root-forgotten",
        "product-in-wrong-order",
        "elementwise-product",
    )
}


def make_lstm_gradient(rng: Rng) -> Example:
    """Return the gradients of one step of an LSTM."""
    given = {"x": draw(rng, 1, 2), "W_x": draw(rng, 2, 8), "W_h": draw(rng, 2, 8)}
    given |= {"b": draw(rng, 1, 8), "h0": draw(rng, 1, 2), "c0": draw(rng, 1, 2)}
    given |= {"dh": draw(rng, 1, 2), "dc_next": draw(rng, 1, 2)}
    example = Example("lstm_gradient", given)
    steps = example.steps
    steps["sum"] = lambda e: e["x"] @ e["W_x"] + e["h0"] @ e["W_h"] + e["b"]
    for k, gate in enumerate("ifgo"):
        function = np.tanh if gate == "g" else sigmoid
        steps[gate] = lambda e, k=k, f=function: f(e["sum"][:, 2 * k : 2 * k + 2])
    steps["c"] = lambda e: e["f"] * e["c0"] + e["i"] * e["g"]
    steps["tanh_c"] = lambda e: np.tanh(e["c"])
    steps["h"] = lambda e: e["o"] * e["tanh_c"]
    steps["dc"] = lambda e: e["dh"] * e["o"] * (1 - e["tanh_c"] ** 2) + e["dc_next"]
    for gate, other in (("o", "tanh_c"), ("i", "g"), ("f", "c0"), ("g", "i")):
        upstream = "dh" if gate == "o" else "dc"
        steps[f"d{gate}"] = lambda e, u=upstream, other=other: e[u] * e[other]
    steps["dc0"] = lambda e: e["dc"] * e["f"]
    for gate in "ifgo":
        slope = SLOPES["tanh" if gate == "g" else "sigmoid"]
        steps[f"dsum_{gate}"] = lambda e, g=gate, slope=slope: e[f"d{g}"] * slope(e[g])
    steps["dsum"] = lambda e: np.hstack([e[f"dsum_{gate}"] for gate in "ifgo"])
    steps["dW_x"] = lambda e: e["x"].T @ e["dsum"]
    steps["dW_h"] = lambda e: e["h0"].T @ e["dsum"]
    steps["dx"] = lambda e: e["dsum"] @ e["W_x"].T
    steps["dh0"] = lambda e: e["dsum"] @ e["W_h"].T
    return example


LSTM_GRADIENT_MISTAKES: dict[str, Planter] = {
    "bias-forgotten": plants({"sum": lambda e: e["x"] @ e["W_x"] + e["h0"] @ e["W_h"]}),
    "gate-forgotten": plants({"dc": lambda e: e["dh"] * (1 - e["tanh_c"] ** 2) + e["dc_next"]}),
    "slope-forgotten": plants(
        {"dc": lambda e: e["dh"] * e["o"] + e["dc_next"]}, {"dsum_i": lambda e: e["di"]}
    ),
    "new-cell-used": plants({"df": lambda e: e["dc"] * e["c"]}),
    "state-gradient-used": plants({"di": lambda e: e["dh"] * e["g"]}),
    "cell-gradient-used": plants({"do": lambda e: e["dc"] * e["tanh_c"]}),
    "gates-in-wrong-order": plants(
        {"dsum": lambda e: np.hstack([e[f"dsum_{gate}"] for gate in "ifog"])}
    ),
    "wrong-slope": plants(
        {"dsum_i": lambda e: e["di"] * (1 - e["i"] ** 2)},
        {"dsum_g": lambda e: e["dg"] * e["g"] * (1 - e["g"])},
    ),
}


# -- optimizers ------------------------------------------------------------------------------------


def make_adam(rng: Rng) -> Example:
    """Return the third step of Adam."""
    given = {"W": draw(rng, 2, 2), "dW": draw(rng, 2, 2), "m0": draw(rng, 2, 2)}
    given["v0"] = np.abs(draw(rng, 2, 2))
    settings = {"optimizer": "adam", "learning_rate": 0.5, "beta_1": 0.8, "beta_2": 0.9}
    example = Example("optimizer_step", given, {**settings, "eps": 0.01, "t": 3})
    steps = example.steps
    steps["m"] = lambda e: 0.8 * e["m0"] + 0.2 * e["dW"]
    steps["v"] = lambda e: 0.9 * e["v0"] + 0.1 * e["dW"] ** 2
    steps["m_hat"] = lambda e: e["m"] / (1 - 0.8**3)
    steps["v_hat"] = lambda e: e["v"] / (1 - 0.9**3)
    steps["W_new"] = lambda e: e["W"] - 0.5 * e["m_hat"] / (np.sqrt(e["v_hat"]) + 0.01)
    return example


ADAM_MISTAKES: dict[str, Planter] = {
    "betas-swapped": plants({"m": lambda e: 0.9 * e["m0"] + 0.1 * e["dW"]}),
    "beta-reversed": plants({"m": lambda e: 0.2 * e["m0"] + 0.8 * e["dW"]}),
    "square-forgotten": plants({"v": lambda e: 0.9 * e["v0"] + 0.1 * e["dW"]}),
    "bias-correction-forgotten": plants(
        {"W_new": lambda e: e["W"] - 0.5 * e["m"] / (np.sqrt(e["v"]) + 0.01)}
    ),
    "wrong-step-number": plants(
        {"m_hat": lambda e: e["m"] / (1 - 0.8)}, {"v_hat": lambda e: e["v"] / (1 - 0.9**4)}
    ),
    "root-forgotten": plants({"W_new": lambda e: e["W"] - 0.5 * e["m_hat"] / (e["v_hat"] + 0.01)}),
    "learning-rate-forgotten": plants(
        {"W_new": lambda e: e["W"] - e["m_hat"] / (np.sqrt(e["v_hat"]) + 0.01)}
    ),
    "gradient-added": plants(
        {"W_new": lambda e: e["W"] + 0.5 * e["m_hat"] / (np.sqrt(e["v_hat"]) + 0.01)}
    ),
    "second-moment-forgotten": plants({"W_new": lambda e: e["W"] - 0.5 * e["m_hat"]}),
}


def make_momentum(rng: Rng) -> Example:
    """Return one step of SGD with momentum."""
    given = {name: draw(rng, 2, 3) for name in ("W", "dW", "velocity0")}
    settings = {"optimizer": "momentum", "learning_rate": 0.2, "momentum": 0.9}
    example = Example("optimizer_step", given, settings)
    example.steps["velocity"] = lambda e: 0.9 * e["velocity0"] + e["dW"]
    example.steps["W_new"] = lambda e: e["W"] - 0.2 * e["velocity"]
    return example


MOMENTUM_MISTAKES: dict[str, Planter] = {
    "momentum-forgotten": plants({"velocity": lambda e: e["velocity0"] + e["dW"]}),
    "gradient-damped": plants({"velocity": lambda e: 0.9 * e["velocity0"] + 0.1 * e["dW"]}),
    "gradient-forgotten": plants({"velocity": lambda e: 0.9 * e["velocity0"]}),
    "learning-rate-too-early": plants({"velocity": lambda e: 0.9 * e["velocity0"] + 0.2 * e["dW"]}),
    "learning-rate-forgotten": plants({"W_new": lambda e: e["W"] - e["velocity"]}),
    "learning-rate-divided": plants({"W_new": lambda e: e["W"] - e["velocity"] / 0.2}),
    "gradient-added": plants({"W_new": lambda e: e["W"] + 0.2 * e["velocity"]}),
}
