"""Numbers and formulas as text, LaTeX and MathML."""

import re
import xml.etree.ElementTree as ET
from collections.abc import Callable

import pytest

from workings.problems.notation import (
    LatexNotation,
    MathMLNotation,
    Notation,
    TextNotation,
    format_decimal,
    typeset,
)

FORMULAS: dict[str, Callable[[Notation], str]] = {
    "product": lambda n: n.total([n.product(n.factor(-1.5), n.number(2)), n.factor(-3)]),
    "softmax": lambda n: n.fraction(
        n.power(n.symbol("e"), n.number(4)),
        n.total([n.power(n.symbol("e"), n.number(v)) for v in (2, 4, -0.5, float("-inf"))]),
    ),
    "transposed": lambda n: n.matrix_product(n.symbol("Q_1"), n.transpose(n.symbol("K_1"))),
    "angles": lambda n: n.fraction(
        n.symbol("pos"),
        n.power(n.number(10000), n.fraction(n.product(n.number(2), n.symbol("i")), n.number(4))),
    ),
    "norm": lambda n: n.apply(
        "mean", n.power(n.row("(", n.symbol("X"), "−", n.symbol("mean"), ")"), n.number(2))
    ),
    "deviation": lambda n: n.fraction(
        n.row(n.symbol("X"), "−", n.symbol("mean")),
        n.root(n.total([n.symbol("variance"), n.number(1e-5)])),
    ),
    "list": lambda n: n.row(n.apply("sin", n.symbol("γ")), ",", n.apply("cos", n.symbol("h0"))),
}

TEXTS = {
    "product": "(−1.5)·2 + (−3)",
    "softmax": "e⁴/(e²+e⁴+e^−0.5+e^−∞)",
    "transposed": "Q₁ K₁ᵀ",
    "angles": "pos/10000^(2·i/4)",
    "norm": "mean((X − mean)²)",
    "deviation": "(X−mean)/√(variance+1·10⁻⁵)",
    "list": "sin(γ), cos(h₀)",
}


@pytest.mark.parametrize("name", FORMULAS)
def test_text_formulas(name: str) -> None:
    assert FORMULAS[name](TextNotation()) == TEXTS[name]


@pytest.mark.parametrize("name", FORMULAS)
def test_latex_is_balanced_ascii(name: str) -> None:
    latex = FORMULAS[name](LatexNotation())
    assert latex.isascii()
    assert latex.count("{") == latex.count("}")
    assert latex.count("(") == latex.count(")")
    assert latex.count(r"\left") == latex.count(r"\right")


@pytest.mark.parametrize("name", FORMULAS)
def test_mathml_is_well_formed(name: str) -> None:
    root = ET.fromstring(f"<math>{FORMULAS[name](MathMLNotation())}</math>")  # noqa: S314
    needs = {"mfrac": 2, "msup": 2, "msub": 2, "msubsup": 3}
    for element in root.iter():
        assert len(element) == needs.get(element.tag, len(element)), element.tag
        if element.tag in ("mi", "mn", "mo"):
            assert element.text
            assert not len(element)
        else:
            assert not (element.text or "").strip(), "bare text outside a token element"


@pytest.mark.parametrize(
    ("name", "text", "latex"),
    [
        ("W_Q", "W_Q", "W_{Q}"),
        ("scores", "scores", r"\mathrm{scores}"),
        ("scores_12", "scores₁₂", r"\mathrm{scores}_{12}"),
        ("attention.scores.2", "scores₂", r"\mathrm{scores}_{2}"),
        ("h0", "h₀", "h_{0}"),
        ("gamma_1", "γ₁", r"\gamma_{1}"),
        ("e", "e", "e"),
    ],
)
def test_symbols(name: str, text: str, latex: str) -> None:
    assert TextNotation().symbol(name) == text
    assert LatexNotation().symbol(name) == latex


def test_names_are_escaped() -> None:
    assert "\\input" not in LatexNotation().symbol(r"\input{x}")
    assert "<script" not in MathMLNotation().symbol("<script>x</script>")


def test_numbers() -> None:
    assert [TextNotation(3).number(v) for v in (-0.0001, 12.0, 7.9e-32)] == [
        "−0.0001",
        "12",
        "7.9·10⁻³²",
    ]
    assert LatexNotation(3).number(-7.9e-32) == r"-7.9\cdot 10^{-32}"
    assert re.sub("<[^>]*>", "", MathMLNotation(3).number(-7.9e-32)) == "−7.9·10−32"
    assert format_decimal(-0.0, 2) == "0"


@pytest.mark.parametrize("text", ["info", "-abc", "1/2", "0,5", "?", "e", "-"])
def test_typeset_leaves_other_text(text: str) -> None:
    assert typeset(text) == text


def test_parentheses_stretch_only_around_fractions() -> None:
    n = MathMLNotation()
    assert 'stretchy="false"' in n.apply("f", n.symbol("x"))
    assert "stretchy" not in n.apply("f", n.fraction(n.symbol("x"), n.number(2)))
    assert r"\left(" in LatexNotation().apply("f", LatexNotation().fraction("x", "2"))
