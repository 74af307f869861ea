r"""Anybody's text inside a LaTeX document: every character stays the character it is.

What comes out is ASCII, so that pdfLaTeX and XeLaTeX read it alike whatever their encodings. A
character that LaTeX has no command for is written with `\unicodechar{4E2D}`, which `PREAMBLE`
defines: the character itself where the font has it, its number where it has not.
"""

import re
import unicodedata

from workings.views.plain import one_line

PREAMBLE = r"""% A character by its number: itself where engine and font have it, else the number.
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
    "“": "\\textquotedblleft{}", "”": "\\textquotedblright{}", "…": "\\ldots{}",
    "ß": "\\ss{}", "æ": "\\ae{}", "Æ": "\\AE{}", "œ": "\\oe{}", "Œ": "\\OE{}", "ø": "\\o{}",
    "Ø": "\\O{}", "ł": "\\l{}", "Ł": "\\L{}", "ı": "\\i{}", "§": "\\S{}", "¶": "\\P{}",
    "£": "\\pounds{}", "©": "\\copyright{}", "¿": "?`{}", "¡": "!`{}", "\u00a0": "~",
    "▁": "\\textvisiblespace{}", "␣": "\\textvisiblespace{}",
}  # fmt: skip

_MATHS = {
    "−": "-", "×": "\\times", "·": "\\cdot", "÷": "\\div", "±": "\\pm", "√": "\\surd",
    "∞": "\\infty", "≈": "\\approx", "≠": "\\neq", "≤": "\\leq", "≥": "\\geq", "∘": "\\circ",
    "⊙": "\\odot", "→": "\\rightarrow", "←": "\\leftarrow", "↳": "\\hookrightarrow",
    "Σ": "\\Sigma", "ᵀ": "^{\\top}", "∈": "\\in", "°": "^{\\circ}",
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


def escape(text: str) -> str:
    r"""Write text so that LaTeX prints it and obeys none of it.

    >>> escape(r"\input{x} 50 % naïve")
    '\\textbackslash{}input\\{x\\} 50 \\% na\\"{\\i}ve'
    """
    escaped = "".join(_character(c) for c in one_line(unicodedata.normalize("NFC", text)))
    return re.sub(r"([-',])(?=\1)", r"\1{}", escaped)  # or LaTeX would draw two of them as one


def _character(c: str) -> str:
    if c in _COMMANDS:
        return _COMMANDS[c]
    if c.isascii():
        return c
    if c in _MATHS:
        return f"\\ensuremath{{{_MATHS[c]}}}"
    parts = unicodedata.normalize("NFD", c)
    base, accent = parts[0], _ACCENTS.get(parts[1:])
    if accent and base.isascii():
        return (
            f"\\{accent}{{{f'{chr(92)}{base}' if base in 'ij' and accent not in 'cd' else base}}}"
        )
    return f"\\unicodechar{{{ord(c):04X}}}"
