"""Operations: the arithmetic written out for a cell evaluates to its value."""

import math
import re
from typing import Any

import numpy as np
import pytest
from gradient_problems import DRAWS

from examples.numpy_problems import KINDS, make_problem
from workings import Problem

SUPERSCRIPTS = "⁰¹²³⁴⁵⁶⁷⁸⁹⁻"
TOKEN = re.compile(rf"\s*(\d+(?:\.\d+)?|[a-z]+'?|[{SUPERSCRIPTS}]+|∞|[-+−·/^()√])")
FUNCTIONS = {
    "tanh": math.tanh,
    "sigmoid": lambda x: 1 / (1 + math.exp(-x)),
    "relu": lambda x: max(x, 0.0),
    "gelu": lambda x: x * (1 + math.erf(x / math.sqrt(2))) / 2,
    "sin": math.sin,
    "cos": math.cos,
    "ln": math.log,
    "relu'": lambda x: float(x > 0),
}


class Evaluator:
    """A recursive-descent evaluator for the written arithmetic; it sees only the text."""

    def __init__(self, text: str) -> None:
        self.tokens = TOKEN.findall(text)
        assert "".join(self.tokens) == text.replace(" ", ""), f"unknown symbols: {text}"

    def take(self, *symbols: str) -> str | None:
        return self.tokens.pop(0) if self.tokens and self.tokens[0] in symbols else None

    def value(self) -> float:
        result = self.total()
        assert not self.tokens, f"left over: {self.tokens}"
        return result

    def total(self) -> float:
        result = self.product()
        while sign := self.take("+", "−"):
            result += self.product() if sign == "+" else -self.product()
        return result

    def product(self) -> float:
        result = self.signed()
        while sign := self.take("·", "/"):
            result = result * self.signed() if sign == "·" else result / self.signed()
        return result

    def signed(self) -> float:
        if self.take("−"):
            return -self.signed()
        if self.take("√"):
            return math.sqrt(self.power())
        return self.power()

    def power(self) -> float:
        base = self.atom()
        if self.take("^"):
            return base ** self.signed()
        if self.tokens and self.tokens[0][0] in SUPERSCRIPTS:
            digits = self.tokens.pop(0)
            return base ** int("".join("0123456789-"[SUPERSCRIPTS.index(c)] for c in digits))
        return base

    def atom(self) -> float:
        if self.take("("):
            inside = self.total()
            assert self.take(")"), "a parenthesis is not closed"
            return inside
        word = self.tokens.pop(0)
        if word in FUNCTIONS:
            return FUNCTIONS[word](self.atom())
        return {"e": math.e, "∞": math.inf}[word] if word in "e∞" else float(word)


def _problems() -> dict[str, dict[str, Any]]:
    rng = np.random.default_rng(4)

    def m(rows: int, columns: int) -> np.ndarray:
        return np.round(rng.normal(size=(rows, columns)), 2)

    attention = {"X": m(3, 4), **{f"W_{n}": m(4, 4) for n in "QKV"}}
    feed_forward = {"W_1": m(4, 3), "b_1": m(1, 3), "W_2": m(3, 4), "b_2": m(1, 4)}
    recurrent = {"X": m(2, 3), "h0": m(1, 2)}
    additive = {"s": m(1, 2), "H": m(3, 2), "W_s": m(2, 3), "W_h": m(2, 3), "v": m(1, 3)}
    heads = {"heads": 2, "W_O": m(4, 3), "b_O": m(1, 3)}
    return {
        "attention": {**attention, "mask": "causal"},
        "heads": {**attention, **heads, "scale": 3},
        "sigmoid": {**attention, "normalizer": "sigmoid", "b_Q": m(1, 4), "context": m(2, 4)},
        "sum": {"X": np.abs(m(3, 2)) + 1, "normalizer": "sum", "scale": "none"},
        "positions": {"kind": "positions", "count": 3, "width": 5},
        "layer_norm": {"kind": "layer_norm", "X": m(2, 3), "gamma": m(1, 3), "beta": m(1, 3)},
        "rnn": {"kind": "rnn", **recurrent, "W_xh": m(3, 2), "W_hh": m(2, 2), "b": m(1, 2)},
        "lstm": {"kind": "lstm", **recurrent, "W_x": m(3, 8), "W_h": m(2, 8), "b": m(1, 8)},
        "additive": {"kind": "additive", **additive},
        "feed_forward": {"kind": "feed_forward", "X": m(2, 4), **feed_forward},
        "gelu": {"kind": "feed_forward", "X": m(2, 4), **feed_forward, "activation": "gelu"},
        "pre": {"kind": "block", **attention, **feed_forward, "order": "pre", "eps": 0.01},
        "post": {"kind": "block", **attention, **feed_forward, "W_O": m(4, 4), "heads": 2},
        **{kind: draw(rng).fields for kind, draw in DRAWS.items()},
    }


PROBLEMS = _problems()


@pytest.mark.parametrize("columns", [False, True])
@pytest.mark.parametrize("name", PROBLEMS)
def test_arithmetic_of_every_cell_evaluates_to_its_value(name: str, columns: bool) -> None:
    fields = dict(PROBLEMS[name])
    if columns:
        transposed = {k: v.T if isinstance(v, np.ndarray) else v for k, v in fields.items()}
        fields = {**transposed, "vectors": "columns"}
    solution = Problem(**fields).solve(decimals=15)
    for key in solution.keys():  # noqa: SIM118
        for (i, j), value in np.ndenumerate(solution[key]):
            label, working, *result = solution.cell(key, i + 1, j + 1).split(" = ")
            assert label == f"{key}[{i + 1},{j + 1}]"
            assert Evaluator(working).value() == pytest.approx(value, rel=1e-9, abs=1e-12)
            for text in result:
                assert Evaluator(text).value() == pytest.approx(value, rel=1e-9, abs=1e-12)


@pytest.mark.parametrize("kind", KINDS)
def test_terms_add_up_to_the_cell(kind: str) -> None:
    problem = make_problem(KINDS[kind](np.random.default_rng(4)), {})
    env, num_sums = problem.exact_matrices, 0
    for step in problem.steps:
        for i, j in np.ndindex(env[step.key].shape):
            terms = step.op.terms(env, i, j)
            if terms is not None:
                num_sums += 1
                total = sum(math.prod(factors) for factors in terms.products)
                assert terms.finish(total) == pytest.approx(env[step.key].mid[i, j])
    assert num_sums or kind == "positions"
