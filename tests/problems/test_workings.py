"""The working that is shown for a cell comes to the cell's value, for every kind and step."""

import math
import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from workings import Problem, UserError

LECTURES = Path(__file__).parents[2] / "lectures"
SUPERSCRIPTS = "⁰¹²³⁴⁵⁶⁷⁸⁹⁻"
TOKEN = re.compile(rf"\s*(\d+(?:\.\d+)?|[a-z]+|[{SUPERSCRIPTS}]+|∞|[-+−·/^()√])")
FUNCTIONS = {
    "tanh": math.tanh,
    "sigmoid": lambda x: 1 / (1 + math.exp(-x)),
    "relu": lambda x: max(x, 0.0),
    "gelu": lambda x: x * (1 + math.erf(x / math.sqrt(2))) / 2,
    "sin": math.sin,
    "cos": math.cos,
}


class Working:
    """Works out what a working says, with nothing but its text."""

    def __init__(self, text: str) -> None:
        self.tokens = TOKEN.findall(text)
        assert "".join(self.tokens) == text.replace(" ", ""), f"unread: {text}"

    def take(self, *which: str) -> str | None:
        return self.tokens.pop(0) if self.tokens and self.tokens[0] in which else None

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
            assert self.take(")"), "unclosed"
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
    }


PROBLEMS = _problems()


@pytest.mark.parametrize("columns", [False, True])
@pytest.mark.parametrize("name", PROBLEMS)
def test_the_working_of_every_cell_adds_up(name: str, columns: bool) -> None:
    fields = dict(PROBLEMS[name])
    if columns:
        turned = {k: v.T if isinstance(v, np.ndarray) else v for k, v in fields.items()}
        fields = {**turned, "vectors": "columns"}
    solution = Problem(**fields).solve(decimals=15)
    for key in solution.keys():  # noqa: SIM118
        for (i, j), value in np.ndenumerate(solution[key]):
            label, working, *result = solution.cell(key, i + 1, j + 1).split(" = ")
            assert label == f"{key}[{i + 1},{j + 1}]"
            assert Working(working).value() == pytest.approx(value, rel=1e-9, abs=1e-12)
            for shown in result:
                assert Working(shown).value() == pytest.approx(value, rel=1e-9, abs=1e-12)


def test_a_cell_of_the_notes() -> None:
    solution = Problem.load(LECTURES / "L2-self.toml").solve()
    assert solution.cell("scores", 2, 3) == "scores[2,3] = 2·2 + 2·3 + 2·1 = 12"
    assert solution.cell("weights", 1, 2) == "weights[1,2] = e⁴/(e²+e⁴+e⁴) = 0.468"
    with pytest.raises(UserError, match="3×3: it has no cell 4,1"):
        solution.cell("scores", 4, 1)
    with pytest.raises(UserError, match="did you mean 'scores'"):
        solution.cell("score", 1, 1)


def test_a_cell_in_columns_is_counted_as_on_paper() -> None:
    solution = Problem.load(LECTURES / "L3-demo.toml").solve()
    assert solution["scores"].shape == (3, 3)
    assert solution.cell("Q", 2, 1) == "Q[2,1] = 1·4 + 2·2 + 3·3 + 4·1 = 21"
    working = solution.cell("scores", 2, 1)  # key 2, query 1
    assert working == "scores[2,1] = 10·13 + 21·22 + 20·11 + 19·16 = 1116"
