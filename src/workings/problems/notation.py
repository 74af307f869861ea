r"""Notations for numbers and formulas: plain text, LaTeX and MathML.

LaTeX output is ASCII, so that pdfLaTeX and XeLaTeX read it alike whatever their encodings. A
character without a LaTeX command is written `\unicodechar{4E2D}`, which `UNICODE_PREAMBLE` defines:
it prints the character if the font has it and its code point otherwise.
"""

import math
import re
import unicodedata
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from html import escape as escape_xml
from typing import TypeAlias

from workings.languages import get_language, localize_number
from workings.plain_text import to_one_line

UNICODE_PREAMBLE = r"""% A character by its code point, which is printed if the font lacks it.
\ifdefined\Umathchar
  \newcommand{\unicodechar}[1]{\iffontchar\font"#1 \char"#1\relax\else[U+#1]\fi}
\else
  \newcommand{\unicodechar}[1]{[U+#1]}
\fi
"""

_COMMANDS = {
    "\\": "\\textbackslash{}", "{": "\\{", "}": "\\}", "$": "\\$", "&": "\\&", "#": "\\#",
    "%": "\\%", "_": "\\_", "^": "\\textasciicircum{}", "~": "\\textasciitilde{}",
    "<": "\\textless{}", ">": "\\textgreater{}", "|": "\\textbar{}", "`": "\\textasciigrave{}",
    '"': "\\char34{}", "–": "\\textendash{}", "—": "\\textemdash{}",
    "‘": "\\textquoteleft{}", "’": "\\textquoteright{}",
    "„": "\\quotedblbase{}", "«": "\\guillemotleft{}", "»": "\\guillemotright{}",
    "“": "\\textquotedblleft{}", "”": "\\textquotedblright{}", "…": "\\ldots{}",
    "ß": "\\ss{}", "æ": "\\ae{}", "Æ": "\\AE{}", "œ": "\\oe{}", "Œ": "\\OE{}", "ø": "\\o{}",
    "Ø": "\\O{}", "ł": "\\l{}", "Ł": "\\L{}", "ı": "\\i{}", "§": "\\S{}", "¶": "\\P{}",
    "£": "\\pounds{}", "©": "\\copyright{}", "¿": "?`{}", "¡": "!`{}", "\u00a0": "~",
    "\u202f": "\\,",
    "▁": "\\textvisiblespace{}", "␣": "\\textvisiblespace{}",
}  # fmt: skip

_MATH_COMMANDS = {
    "−": "-", "×": "\\times", "·": "\\cdot", "÷": "\\div", "±": "\\pm", "√": "\\surd",
    "∞": "\\infty", "≈": "\\approx", "≠": "\\neq", "≤": "\\leq", "≥": "\\geq", "∘": "\\circ",
    "⊙": "\\odot", "→": "\\rightarrow", "←": "\\leftarrow", "↳": "\\hookrightarrow",
    "Σ": "\\Sigma", "ᵀ": "^{\\top}", "∈": "\\in", "∂": "\\partial", "°": "^{\\circ}",
    "α": "\\alpha", "β": "\\beta", "γ": "\\gamma", "δ": "\\delta", "ε": "\\varepsilon",
    "η": "\\eta", "θ": "\\theta", "λ": "\\lambda", "μ": "\\mu", "π": "\\pi", "ρ": "\\rho",
    "σ": "\\sigma", "τ": "\\tau", "φ": "\\varphi", "ω": "\\omega",
    **{c: f"^{{{d}}}" for d, c in zip("0123456789-", "⁰¹²³⁴⁵⁶⁷⁸⁹⁻", strict=True)},
    **{c: f"_{{{d}}}" for d, c in zip("0123456789", "₀₁₂₃₄₅₆₇₈₉", strict=True)},
}  # fmt: skip

_ACCENTS = {
    "\u0300": "`", "\u0301": "'", "\u0302": "^", "\u0303": "~", "\u0304": "=", "\u0306": "u",
    "\u0307": ".", "\u0308": '"', "\u030a": "r", "\u030b": "H", "\u030c": "v", "\u0323": "d",
    "\u0327": "c",
}  # fmt: skip


_CHARACTER = re.compile(r"[^\u0300-\u036f]?[\u0300-\u036f]*", re.DOTALL)  # with its accents


def escape_latex(text: str) -> str:
    r"""Escape text so that LaTeX prints it literally.

    >>> escape_latex(r"\input{x} 50 % naïve v̂")
    '\\textbackslash{}input\\{x\\} 50 \\% na\\"{\\i}ve \\^{v}'
    """
    escaped = "".join(
        _escape_latex_character(c)
        for c in _CHARACTER.findall(to_one_line(unicodedata.normalize("NFC", text)))
    )
    return re.sub(r"([-',])(?=\1)", r"\1{}", escaped)  # prevent ligatures such as -- and ''


def _escape_latex_character(c: str) -> str:
    if c in _COMMANDS:
        return _COMMANDS[c]
    if c in _MATH_COMMANDS:  # also Greek letters, which a font of text may not have
        return f"\\ensuremath{{{_MATH_COMMANDS[c]}}}"
    is_letter = c.isalpha() or c >= "\u3000"  # or punctuation of East Asian languages
    if c.isascii() or (is_letter and get_language().is_unicode_latex):
        return c
    parts = unicodedata.normalize("NFD", c)
    base, accent = parts[0], _ACCENTS.get(parts[1:])
    if accent and base.isascii():
        letter = f"\\{base}" if base in "ij" and accent not in "cd" else base  # dotless i, j
        return f"\\{accent}{{{letter}}}"
    return f"\\unicodechar{{{ord(c):04X}}}"


Real: TypeAlias = float | int  # beartype does not accept an int as a float

_SUPERSCRIPT = str.maketrans("0123456789-", "⁰¹²³⁴⁵⁶⁷⁸⁹⁻")
_SUBSCRIPT = str.maketrans("0123456789", "₀₁₂₃₄₅₆₇₈₉")
_GREEK = {"alpha": "α", "beta": "β", "gamma": "γ", "theta": "θ", "sigma": "σ"}
_LATEX_GREEK = {letter: f"\\{name}" for name, letter in _GREEK.items()}
_GRADIENT = re.compile(r"d[A-Za-zα-ω]")  # dW: an upright d before a letter
_OPERATORS = ("+", "−", "=")
_INFINITE = {"inf": "∞", "+inf": "∞", "-inf": "−∞"}
_POINT = re.compile(r"[+−]?\d+\.\d+")
_EXPONENT = re.compile(r"(.*\d)[eE]([+-]?\d{1,6})")


def format_decimal(value: Real, decimals: int) -> str:
    """Format a number with at most `decimals` decimals; very small numbers get an exponent.

    >>> format_decimal(12.0, 3), format_decimal(0.46838, 3), format_decimal(7.9e-32, 3)
    ('12', '0.468', '7.9e-32')
    """
    if math.isinf(value):
        return "inf" if value > 0 else "-inf"
    if value and abs(value) < 0.5 * 10**-decimals:
        return f"{value:.{max(decimals - 1, 1)}g}"
    text = f"{value:.{decimals}f}"
    # Drop trailing zeros of an exact number: 0.5 is 0.5, but 0.49999 is 0.500.
    if "." in text and abs(float(text) - value) <= 1e-12 * abs(value):
        text = text.rstrip("0").rstrip(".")
    return "0" if text == "-0" else text


def format_given_name(n: "Notation", key: str) -> str:
    """Format the name of a given, with its part: forward W_xh for `forward.W_xh`.

    >>> format_given_name(TextNotation(), "self_attention.W_Q")
    'self-attention W_Q'
    """
    part, _, name = key.rpartition(".")
    symbol = n.symbol(name)
    return n.row(n.word(f"{part.replace('_', '-')} "), symbol) if part else symbol


def split_symbol(name: str) -> tuple[str, str]:
    """Split a name into the symbol and its subscript.

    >>> split_symbol("W_Q"), split_symbol("dh0"), split_symbol("attention.scores.2")
    (('W', 'Q'), ('dh', '0'), ('scores', '2'))
    >>> split_symbol("mult_adds.2")
    ('mult_adds', '2')
    """
    *_, last = parts = name.split(".")
    if last.isdigit() and len(parts) > 1:
        last = f"{parts[-2]}_{last}"
    base, _, index = last.partition("_")
    name, _, number = index.rpartition("_")
    if name and number.isdigit() and len(base) > 2:  # mult_adds_2, but not W_Q_2 or dW_Q_2
        base, index = f"{base}_{name}", number
    match = re.fullmatch(r"(d?[a-z])(\d+)", base)
    if not index and match:
        base, index = match[1], match[2]
    if base[:1] == "d" and base[1:] in _GREEK:  # the gradient of γ
        base = f"d{_GREEK[base[1:]]}"
    return _GREEK.get(base, base), index.replace("_", ",")


class Notation(ABC):
    """Formats formulas from formatted parts."""

    def __init__(self, decimals: int = 3) -> None:
        self.decimals = decimals

    @abstractmethod
    def symbol(self, name: str) -> str:
        """Format a name: `W_Q`, `scores`."""

    @abstractmethod
    def number(self, value: Real) -> str:
        """Format a number."""

    @abstractmethod
    def word(self, text: str) -> str:
        """Format a word as it is, such as a token."""

    @abstractmethod
    def product(self, *factors: str) -> str:
        """Format a product of numbers: 2·3."""

    @abstractmethod
    def elementwise(self, *factors: str) -> str:
        """Format an elementwise product of matrices: f ∘ c."""

    @abstractmethod
    def matrix_product(self, *factors: str) -> str:
        """Format a matrix product: X W."""

    @abstractmethod
    def fraction(self, top: str, bottom: str) -> str:
        """Format a fraction."""

    @abstractmethod
    def root(self, inside: str) -> str:
        """Format a square root."""

    @abstractmethod
    def power(self, base: str, exponent: str) -> str:
        """Format a power."""

    @abstractmethod
    def transpose(self, matrix: str) -> str:
        """Format a transpose."""

    @abstractmethod
    def apply(self, function: str, *arguments: str) -> str:
        """Format a function call."""

    @abstractmethod
    def minus(self, term: str) -> str:
        """Format the negative of a single term."""

    @abstractmethod
    def row(self, *parts: str) -> str:
        """Concatenate formulas and operators (`+ − = , ( )`)."""

    def factor(self, value: Real) -> str:
        """Format a number as a factor or term; a negative number gets parentheses."""
        number = self.number(value)
        return self.row("(", number, ")") if value < 0 else number

    def total(self, terms: Sequence[str]) -> str:
        """Format a sum."""
        return self._join("+", terms)

    def equals(self, *sides: str) -> str:
        """Format a chain of equations: a = b = c."""
        return self._join("=", sides)

    def _join(self, operator: str, parts: Sequence[str]) -> str:
        return self.row(*parts[:1], *(item for part in parts[1:] for item in (operator, part)))


Formula: TypeAlias = Callable[[Notation], str]  # formats a formula in any notation


class TextNotation(Notation):
    """Unicode text on one line, for terminals."""

    def symbol(self, name: str) -> str:
        base, index = split_symbol(name)
        if index.isdecimal():
            return base + index.translate(_SUBSCRIPT)
        return f"{base}_{index}" if index else base

    def number(self, value: Real) -> str:
        return typeset(format_decimal(value, self.decimals))

    def word(self, text: str) -> str:
        return to_one_line(text)

    def product(self, *factors: str) -> str:
        return "·".join(factors)

    def elementwise(self, *factors: str) -> str:
        return "∘".join(factors)

    def matrix_product(self, *factors: str) -> str:
        return " ".join(factors)

    def fraction(self, top: str, bottom: str) -> str:
        # A product needs parentheses in the denominator but not in the numerator.
        is_product = re.fullmatch(rf"{_ATOM}(·{_ATOM})+", top)
        return f"{top if is_product else _parenthesize(top)}/{_parenthesize(bottom)}"

    def root(self, inside: str) -> str:
        return f"√{_parenthesize(inside)}"

    def power(self, base: str, exponent: str) -> str:
        plain = exponent.replace("−", "-")
        if re.fullmatch(r"-?\d+", plain):
            return base + plain.translate(_SUPERSCRIPT)
        return f"{base}^{_parenthesize(exponent)}"

    def transpose(self, matrix: str) -> str:
        return f"{matrix}ᵀ"

    def apply(self, function: str, *arguments: str) -> str:
        return f"{function}({f'{_get_separator()} '.join(arguments)})"

    def minus(self, term: str) -> str:
        return f"−{term}"

    def row(self, *parts: str) -> str:
        spaced = {
            ",": f"{_get_separator()} ",
            **{operator: f" {operator} " for operator in _OPERATORS},
        }
        return "".join(spaced.get(part, part) for part in parts).strip()


class LatexNotation(Notation):
    """LaTeX for math mode; requires amsmath."""

    def symbol(self, name: str) -> str:
        base, index = split_symbol(name)
        if _GRADIENT.fullmatch(base):
            base = rf"\mathrm{{d}}{_LATEX_GREEK.get(base[1], base[1])}"
        elif base in _LATEX_GREEK:
            base = _LATEX_GREEK[base]
        elif not (base.isascii() and base.isalnum()):
            base = rf"\text{{{escape_latex(base)}}}"
        elif len(base) > 1:
            base = rf"\mathrm{{{base}}}"
        return f"{base}_{{{escape_latex(index)}}}" if index else base

    def number(self, value: Real) -> str:
        text = format_decimal(value, self.decimals).replace("inf", r"\infty")
        mantissa, _, exponent = text.partition("e")
        mantissa = localize_number(mantissa).replace(",", "{,}")
        return rf"{mantissa}\cdot 10^{{{int(exponent)}}}" if exponent else mantissa

    def word(self, text: str) -> str:
        return rf"\text{{{escape_latex(text)}}}"

    def product(self, *factors: str) -> str:
        return r" \cdot ".join(factors)

    def elementwise(self, *factors: str) -> str:
        return r" \circ ".join(factors)

    def matrix_product(self, *factors: str) -> str:
        return r" \, ".join(factors)

    def fraction(self, top: str, bottom: str) -> str:
        return rf"\frac{{{top}}}{{{bottom}}}"

    def root(self, inside: str) -> str:
        return rf"\sqrt{{{inside}}}"

    def power(self, base: str, exponent: str) -> str:
        return f"{base if re.fullmatch('[a-z0-9]', base) else f'{{{base}}}'}^{{{exponent}}}"

    def transpose(self, matrix: str) -> str:
        return rf"{matrix}^{{\top}}"

    def apply(self, function: str, *arguments: str) -> str:
        inside = f"{_get_separator()} ".join(arguments)
        if r"\frac" in inside:
            return rf"\operatorname{{{function}}}\mathopen{{}}\left({inside}\right)"
        return rf"\operatorname{{{function}}}({inside})"

    def minus(self, term: str) -> str:
        return f"-{term}"

    def row(self, *parts: str) -> str:
        spaced = {"+": " + ", "−": " - ", "=": " = ", ",": f"{_get_separator()} "}
        if any(r"\frac" in part for part in parts):
            spaced |= {"(": r"\left(", ")": r"\right)"}
        return "".join(spaced.get(part, part) for part in parts).strip()


class MathMLNotation(Notation):
    """Presentation MathML for the inside of `<math>`."""

    def symbol(self, name: str) -> str:
        base, index = (escape_xml(part) for part in split_symbol(name))
        letter = f"<mi>{base}</mi>"
        if _GRADIENT.fullmatch(base):
            letter = f'<mrow><mi mathvariant="normal">d</mi><mi>{base[1]}</mi></mrow>'
        subscript = f"<mn>{index}</mn>" if index.isdecimal() else f"<mi>{index}</mi>"
        return f"<msub>{letter}{subscript}</msub>" if index else letter

    def number(self, value: Real) -> str:
        text = format_decimal(value, self.decimals).replace("inf", "∞")
        mantissa, _, exponent = text.lstrip("-").partition("e")
        number = f"<mn>{localize_number(mantissa)}</mn>"
        if exponent:
            power = self.power("<mn>10</mn>", self.number(int(exponent)))
            number = self.product(number, power)
        return f"<mrow><mo>−</mo>{number}</mrow>" if text.startswith("-") else number

    def word(self, text: str) -> str:
        return f"<mtext>{escape_xml(to_one_line(text))}</mtext>"

    def product(self, *factors: str) -> str:
        return f"<mrow>{'<mo>·</mo>'.join(factors)}</mrow>"

    def elementwise(self, *factors: str) -> str:
        return f"<mrow>{'<mo>∘</mo>'.join(factors)}</mrow>"

    def matrix_product(self, *factors: str) -> str:
        # An invisible times sign, with a thin space between names of several letters.
        times = '<mo lspace="0.1em" rspace="0.1em">&#x2062;</mo>'
        return f"<mrow>{times.join(factors)}</mrow>"

    def fraction(self, top: str, bottom: str) -> str:
        return f"<mfrac>{top}{bottom}</mfrac>"

    def root(self, inside: str) -> str:
        return f"<msqrt>{inside}</msqrt>"

    def power(self, base: str, exponent: str) -> str:
        return f"<msup>{base}{exponent}</msup>"

    def transpose(self, matrix: str) -> str:
        if matrix.startswith("<msub>") and matrix.count("<msub>") == 1:  # stack the scripts
            return matrix.replace("msub>", "msubsup>").replace(
                "</msubsup>", f"{_TRANSPOSE_SIGN}</msubsup>"
            )
        return self.power(matrix, _TRANSPOSE_SIGN)

    def apply(self, function: str, *arguments: str) -> str:
        inside = f"<mo>{_get_separator()}</mo>".join(arguments)
        return self.row(f"<mi>{escape_xml(function)}</mi><mo>&#x2061;</mo>", "(", inside, ")")

    def minus(self, term: str) -> str:
        return f"<mrow><mo>−</mo>{term}</mrow>"

    def row(self, *parts: str) -> str:
        marks = {mark: f"<mo>{mark}</mo>" for mark in _OPERATORS}
        marks[","] = f"<mo>{_get_separator()}</mo>"
        # Parentheses stretch only around fractions: browsers set stretchy ones too far apart.
        stretchy = "" if any("<mfrac>" in part for part in parts) else ' stretchy="false"'
        marks |= {bracket: f"<mo{stretchy}>{bracket}</mo>" for bracket in "()"}
        return f"<mrow>{''.join(marks.get(part, part) for part in parts)}</mrow>"


_TRANSPOSE_SIGN = '<mi mathvariant="normal">⊤</mi>'

# What needs no parentheses: a name, number, parenthesis or call, with power or root.
_BRACKET = r"\((?:[^()]|\([^()]*\))*\)"
_ATOM = rf"√?(?:[\w']*{_BRACKET}|[\w.∞⁻]+)(?:\^(?:−?[\w.∞]+|{_BRACKET}))?"


def typeset(text: str) -> str:
    """Convert a number from program notation (`-7.9e-32`) to typography (−7.9·10⁻³²).

    >>> typeset("-7.9e-32"), typeset("-inf"), typeset("0,5")
    ('−7.9·10⁻³²', '−∞', '0,5')
    """
    match = _EXPONENT.fullmatch(text)
    if match:
        return f"{typeset(match[1])}·10{str(int(match[2])).translate(_SUPERSCRIPT)}"
    if text in _INFINITE:
        return _INFINITE[text]
    text = f"−{text[1:]}" if text[:1] == "-" and text[1:2].isdigit() else text
    return localize_number(text) if _POINT.fullmatch(text) else text


def _get_separator() -> str:
    """Return the mark between arguments: a semicolon where numbers have a comma."""
    return ";" if get_language().decimal_mark == "," else ","


def _parenthesize(text: str) -> str:
    """Put a compound expression in parentheses, without spaces around its signs."""
    if re.fullmatch(rf"{_ATOM}|−[\w.∞]+", text):
        return text
    compact = re.sub(" ([+−]) ", r"\1", text)
    return f"({compact})"
