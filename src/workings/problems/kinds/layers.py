"""Positions, layer norm, feed-forward and additive attention as worked problems."""

from dataclasses import dataclass

import numpy as np

from workings.problems.cells import Cells, merge
from workings.problems.kinds.base import Kind, Setting, Sizes, Step
from workings.problems.ops import Activated, Copy, Env, Linear, Normalised, Op, written
from workings.views.notation import Notation


@dataclass(frozen=True)
class Angles(Op):
    """`pos / base^(2i/width)`, for each column, or once for each pair of columns."""

    count: int
    width: int
    base: float
    paired: bool

    def _exponents(self) -> list[float]:
        return [c - c % 2 for c in range(0, self.width, 2 if self.paired else 1)]

    def compute(self, env: Env) -> Cells:  # noqa: ARG002
        divisors = self.base ** (np.array(self._exponents()) / self.width)
        return Cells.exact(np.arange(self.count)[:, None]) / Cells.exact(divisors[None, :])

    def formula(self, n: Notation, columns: bool) -> str:  # noqa: ARG002
        exponent = n.fraction(n.product(n.number(2), n.symbol("i")), n.number(self.width))
        return n.fraction(n.symbol("pos"), n.power(n.number(self.base), exponent))

    def cell(self, n: Notation, env: Env, i: int, j: int) -> str:  # noqa: ARG002
        exponent = n.fraction(n.number(self._exponents()[j]), n.number(self.width))
        return n.fraction(n.number(i), n.power(n.number(self.base), exponent))

    def sources(self) -> tuple[str, ...]:
        return ()


@dataclass(frozen=True)
class Encoding(Op):
    """The sine of the angle in even columns, the cosine in odd ones (counted from 0)."""

    width: int
    paired: bool

    def compute(self, env: Env) -> Cells:
        angles = env["angles"]
        if self.paired:
            angles = angles.each(lambda a: a.repeat(2, axis=1)[:, : self.width])
        even = np.arange(self.width) % 2 == 0
        return merge(even, angles.wave(np.sin, np.pi / 2), angles.wave(np.cos, 0.0))

    def formula(self, n: Notation, columns: bool) -> str:  # noqa: ARG002
        angle = n.symbol("angle")
        return n.row(n.apply("sin", angle), ",", n.apply("cos", angle))

    def cell(self, n: Notation, env: Env, i: int, j: int) -> str:
        angle = env["angles"].mid[i, j // 2 if self.paired else j]
        return n.apply("cos" if j % 2 else "sin", n.number(float(angle)))

    def sources(self) -> tuple[str, ...]:
        return ("angles",)


def _positions(sizes: Sizes, setting: Setting) -> list[Step]:
    # Half as many angles as columns: somebody wrote one for each pair.
    paired = sizes.sizes.get("angles") == (setting.width + 1) // 2 != setting.width
    return [
        Step("angles", Angles(setting.count, setting.width, setting.base, paired)),
        Step("encoding", Encoding(setting.width, paired)),
    ]


@dataclass(frozen=True)
class Mean(Op):
    """The mean of each row."""

    x: str

    def compute(self, env: Env) -> Cells:
        return env[self.x].mean()

    def formula(self, n: Notation, columns: bool) -> str:  # noqa: ARG002
        return n.apply("mean", written(n, self.x))

    def cell(self, n: Notation, env: Env, i: int, j: int) -> str:  # noqa: ARG002
        row = env[self.x].mid[i]
        return n.fraction(n.total([n.factor(float(v)) for v in row]), n.number(len(row)))

    def sources(self) -> tuple[str, ...]:
        return (self.x,)


@dataclass(frozen=True)
class Variance(Op):
    """The mean squared distance from the mean, in each row: divided by d, not d − 1."""

    x: str
    mean: str

    def compute(self, env: Env) -> Cells:
        return env[self.x].variance(env[self.mean])

    def formula(self, n: Notation, columns: bool) -> str:  # noqa: ARG002
        gap = n.row("(", written(n, self.x), "−", written(n, self.mean), ")")
        return n.apply("mean", n.power(gap, n.number(2)))

    def cell(self, n: Notation, env: Env, i: int, j: int) -> str:  # noqa: ARG002
        mean, row = n.factor(float(env[self.mean].mid[i, 0])), env[self.x].mid[i]
        squares = [
            n.power(n.row("(", n.number(float(v)), "−", mean, ")"), n.number(2)) for v in row
        ]
        return n.fraction(n.total(squares), n.number(len(row)))

    def sources(self) -> tuple[str, ...]:
        return (self.x, self.mean)


@dataclass(frozen=True)
class Standardised(Op):
    """The distance from the mean in standard deviations."""

    x: str
    mean: str
    variance: str
    eps: float

    def compute(self, env: Env) -> Cells:
        variance = env[self.variance] + Cells.exact(self.eps)
        with np.errstate(invalid="ignore"):
            deviation = variance.rising(lambda v: np.sqrt(np.maximum(v, 0)))
        return (env[self.x] - env[self.mean]) / deviation

    def _over(self, n: Notation, gap: str, variance: str) -> str:
        inside = n.total([variance, n.number(self.eps)]) if self.eps else variance
        return n.fraction(gap, n.root(inside))

    def formula(self, n: Notation, columns: bool) -> str:  # noqa: ARG002
        gap = n.row(written(n, self.x), "−", written(n, self.mean))
        return self._over(n, gap, written(n, self.variance))

    def cell(self, n: Notation, env: Env, i: int, j: int) -> str:
        own, mean = env[self.x].mid[i, j], env[self.mean].mid[i, 0]
        gap = n.row(n.number(float(own)), "−", n.factor(float(mean)))
        return self._over(n, gap, n.number(float(env[self.variance].mid[i, 0])))

    def sources(self) -> tuple[str, ...]:
        return (self.x, self.mean, self.variance)


@dataclass(frozen=True)
class GammaBeta(Op):
    """Each column times its γ plus its β."""

    x: str
    gamma: str | None
    beta: str | None

    def compute(self, env: Env) -> Cells:
        x = env[self.x]
        x = x if self.gamma is None else x * env[self.gamma]
        return x if self.beta is None else x + env[self.beta]

    def formula(self, n: Notation, columns: bool) -> str:  # noqa: ARG002
        x = written(n, self.x)
        x = x if self.gamma is None else n.product(n.symbol("γ"), x)
        return x if self.beta is None else n.total([x, n.symbol("β")])

    def cell(self, n: Notation, env: Env, i: int, j: int) -> str:
        term = n.factor(float(env[self.x].mid[i, j]))
        if self.gamma is not None:
            term = n.product(n.factor(float(env[self.gamma].mid[0, j])), term)
        if self.beta is None:
            return term
        return n.total([term, n.factor(float(env[self.beta].mid[0, j]))])

    def sources(self) -> tuple[str, ...]:
        return tuple(key for key in (self.x, self.gamma, self.beta) if key is not None)


def norm_steps(
    setting: Setting, x: str, gamma: str | None, beta: str | None, prefix: str = ""
) -> list[Step]:
    """Lay out a layer norm of `x`."""
    mean, variance, normalised = (f"{prefix}{s}" for s in ("mean", "variance", "normalised"))
    return [
        Step(mean, Mean(x)),
        Step(variance, Variance(x, mean)),
        Step(normalised, Standardised(x, mean, variance, setting.eps)),
        Step(
            f"{prefix}output",
            GammaBeta(normalised, gamma, beta) if gamma or beta else Copy(normalised),
            shown=bool(gamma or beta),
        ),
    ]


def _layer_norm(sizes: Sizes, setting: Setting) -> list[Step]:
    gamma, beta = ("gamma" if "gamma" in sizes else None, "beta" if "beta" in sizes else None)
    return norm_steps(setting, "X", gamma, beta)


def feed_forward_steps(
    sizes: Sizes, setting: Setting, x: str = "X", prefix: str = ""
) -> list[Step]:
    """Lay out `W_2 σ(W_1 x + b_1) + b_2`."""
    biases = [b if b in sizes else None for b in ("b_1", "b_2")]
    hidden, activated = f"{prefix}hidden", f"{prefix}activated"
    return [
        Step(hidden, Linear(((x, "W_1"),), bias=biases[0])),
        Step(activated, Activated(hidden, setting.activation)),
        Step(f"{prefix}output", Linear(((activated, "W_2"),), bias=biases[1])),
    ]


def _additive(sizes: Sizes, setting: Setting) -> list[Step]:  # noqa: ARG001
    def weight(name: str) -> str:
        return name if name in sizes else f"I.{sizes['k']}"

    pairs = (("s", weight("W_s")), ("H", weight("W_h")))
    return [
        Step("hidden", Linear(pairs, function="tanh"), rows="context"),
        Step("scores", Linear((("v", "hiddenᵀ"),)), rows="", columns="context"),
        Step("weights", Normalised("scores"), rows="", columns="context"),
        Step("mixed", Linear((("weights", "H"),)), rows=""),
    ]


FEED_FORWARD_MATRICES = {
    "W_1": ("d", "h"),
    "b_1": ("1", "h"),
    "W_2": ("h", "o"),
    "b_2": ("1", "o"),
}

POSITIONS = Kind(
    name="positions", matrices={}, needs=(), settings=("count", "width", "base"), build=_positions
)
LAYER_NORM = Kind(
    name="layer_norm",
    matrices={"X": ("n", "d"), "gamma": ("1", "d"), "beta": ("1", "d")},
    needs=("X",),
    settings=("eps",),
    build=_layer_norm,
)
FEED_FORWARD = Kind(
    name="feed_forward",
    matrices={"X": ("n", "d"), **FEED_FORWARD_MATRICES},
    needs=("X", "W_1", "W_2"),
    settings=("activation",),
    build=feed_forward_steps,
)
ADDITIVE = Kind(
    name="additive",
    matrices={
        "s": ("1", "a"),
        "H": ("n", "b"),
        "W_s": ("a", "k"),
        "W_h": ("b", "k"),
        "v": ("1", "k"),
    },
    needs=("s", "H", "v"),
    ties=((("W_s",), "a", "k"), (("W_h",), "b", "k")),
    settings=(),
    build=_additive,
)
