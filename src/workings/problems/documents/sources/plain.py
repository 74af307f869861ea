r"""Convert markup to plain notation: `\frac{QK^\top}{\sqrt{d_k}}` becomes `(QK^T)/(√(d_k))`.

Nothing is executed and no macro is expanded; unknown commands leave their name.
"""

import re
import unicodedata

from workings.problems.documents.sources.base import BREAK, GRID_CLOSE, GRID_OPEN

_MAX_DEPTH = 30
_TOKEN = re.compile(r"\\[A-Za-z]+\*?|\\.|[{}]|[^\\{}]+|\\", re.DOTALL)
_FRACTIONS = frozenset({"frac", "tfrac", "dfrac", "cfrac", "nicefrac", "sfrac"})
_SYMBOLS = {
    **{name: letter for letter, name in (
        ("α", "alpha"), ("β", "beta"), ("γ", "gamma"), ("δ", "delta"), ("ε", "epsilon"),
        ("ε", "varepsilon"), ("θ", "theta"), ("λ", "lambda"), ("μ", "mu"), ("π", "pi"),
        ("σ", "sigma"), ("τ", "tau"), ("φ", "phi"), ("ω", "omega"), ("Σ", "Sigma"), ("η", "eta"),
        ("ρ", "rho"), ("ψ", "psi"), ("χ", "chi"), ("κ", "kappa"), ("ξ", "xi"), ("ν", "nu"),
    )},
    **dict.fromkeys(("top", "intercal", "mathsf T", "transp"), "T"),
    **dict.fromkeys(("cdot", "cdotp", "bullet"), "·"),
    "times": "×", "ast": "*", "star": "*", "odot": "⊙", "circ": "∘", "oplus": "⊕", "otimes": "⊗",
    "div": "/", "pm": "±", "infty": "∞", "prime": "'", "lVert": "|", "rVert": "|", "vert": "|",
    **dict.fromkeys(("approx", "simeq", "cong", "doteq", "thickapprox"), "≈"),
    **dict.fromkeys(("equiv", "coloneqq", "triangleq", "gets", "leftarrow", "eqqcolon"), "="),
    **dict.fromkeys(("dots", "ldots", "cdots", "vdots", "ddots"), "…"),
    **dict.fromkeys(("to", "rightarrow", "Rightarrow", "implies", "longrightarrow", "mapsto",
                     "Longrightarrow", "iff", "therefore", "leadsto", "hookrightarrow"), BREAK),
    **dict.fromkeys(("quad", "qquad", "hfill", "par", "newline", "item", "pause", "enspace", "hfil",
                     "cr", "tabularnewline", "mid", "bigskip", "medskip", "smallskip", "indent",
                     "noindent", "hrulefill", "dotfill", "linebreak", "intertext"), BREAK),
    "in": "∈", "le": "≤", "leq": "≤", "ge": "≥", "geq": "≥", "neq": "≠", "sum": "Σ", "mathbb": "",
    "percent": "%", "checkmark": BREAK, "qed": BREAK, "emptyset": "∅", "land": BREAK,
    "wedge": BREAK,
}  # fmt: skip
_ACCENTS = {
    **dict.fromkeys(("tilde", "widetilde"), "\u0303"),
    **dict.fromkeys(("hat", "widehat"), "\u0302"),
    **dict.fromkeys(("bar", "overline"), "\u0304"),
}
_STYLES = re.compile(
    r"(?:text|math)(?:|rm|bf|it|sf|tt|md|up|cal|bb|normal|sc|frak|scr|op|strut|sl|ord|bin|rel)"
    r"|(?:display|text|script)style|boldsymbol|bm|pmb|bf|rm|it|tt|sf|boxed|[fmh]box|framebox"
    r"|underline|emph|operatorname|ensuremath|num|limits|nolimits|underbrace|overbrace|textcircled"
    r"|left|right|middle|[bB]igg?[lrm]?|hline|(?:top|mid|bottom)rule|nonumber|notag|centering"
    r"|small|large|Large|LARGE|huge|Huge|normalsize|footnotesize|scriptsize|tiny|textsuperscript"
    r"|alert|color|structure|mathstrut|strut|allowbreak|relax|protect|maketitle|titlepage|unit|SI"
)
_DROPPED = re.compile(
    r"(?:text|cell|row)color|colorbox|[hv]?phantom|cline|label|tag|ref|eqref|cite[tp]?"
    r"|footnote|includegraphics|usepackage|documentclass|kern|mkern|raisebox"
    r"|b?x?cancel|bibliography|input|include|url|definecolor|newcommand|tikz|setlength"
)
_SPACING = {
    ",": " ", "!": "", "/": "", " ": " ", ";": " ", ":": " ", ">": " ", "\n": " ", "$": "$",
    "\\": BREAK, "(": BREAK, ")": BREAK, "[": BREAK, "]": BREAK, "{": "(", "}": ")", "|": "|",
}  # fmt: skip
_SUPERSCRIPTS = dict(zip("⁺⁻⁰¹²³⁴⁵⁶⁷⁸⁹ᵀ⊤ᵗ", "+-0123456789TTT", strict=True))
_SUBSCRIPTS = dict(zip("₀₁₂₃₄₅₆₇₈₉ₖₜᵢⱼ₊₋", "0123456789ktij+-", strict=True))
_RAISED = re.compile(f"[{''.join(_SUPERSCRIPTS)}]+")
_LOWERED = re.compile(f"[{''.join(_SUBSCRIPTS)}]+")
_CONTROL = re.compile("[\x01-\x08\x0e-\x1f\x7f-\x9f]")  # brackets, in the text of PDFs
_INVISIBLE = re.compile("[\u200b-\u200f\u2060-\u2064\ufeff\u00ad\u2066-\u2069\u202a-\u202e\x00]")
_BRACKET_GLYPHS = re.compile("[\uf8e5-\uf8fe\uf6da\uf8ee]")  # pieces of brackets in PDF fonts
_SPACES = re.compile("[\u00a0\u2000-\u200a\u202f\u205f\u3000]")
_TAG = re.compile(r"</?[A-Za-z][^<>\n]{0,200}>")
_SUP = re.compile(r"<sup>\s{0,9}([^<>]{1,30}?)\s{0,9}</sup>", re.IGNORECASE)
_SUB = re.compile(r"<sub>\s{0,9}([^<>]{1,30}?)\s{0,9}</sub>", re.IGNORECASE)
_EMPHASIS = re.compile(r"(?<![\w*])\*([^\s*](?:[^*\n]{0,200}[^\s*])?)\*(?![\w*])")
_DOTTED = re.compile(r"(?<=\bq)\.(?=k)|(?<=\bq_\d)\.(?=k)|(?<=\bq\d)\.(?=k)")  # q.k_1
_BULLET_PRODUCT = re.compile(r"(?<=[qk]\d)\s?•\s?(?=[qk]_?\d)|(?<=[qk]_\d)\s?•\s?(?=[qk]_?\d)")
_PRODUCT_IN_WORDS = re.compile(  # Q times K transposed
    r"\b([QKVXA](?:_?\d)?)\s+(?:times|mal|fois|por|per)\s+(?:the\s+)?(?:transpose\s+of\s+(?=K))?"
    r"([KVW](?:_?[QKVO\d])?)(\s+transpos\w+|\s+transponiert)?\b"
)
_BEGINS_SYMBOL = re.compile(r"[A-Za-z]|\\(?:tilde|hat|bar|odot|mathbf|bm|boldsymbol|vec)")
_AFTER_INDEX = re.compile(r"[A-Za-z]_\d$")
_INDEX_END = re.compile(r"(?<=[A-Za-z]_\d)(?=[A-Za-z])")  # f_1C_0 of LaTeX
_ESCAPED = re.compile(r"\\([_*#&%`~<+.])")
_ROOT_POWER = re.compile(
    r"(\w{1,24})\s?(?:\*\*|\^)\s?\{?\(?(?:0?\.5|1/2|½)\)?\}?(?!\d)"
)  # d_k**0.5


def normalize_characters(text: str) -> str:
    """Unify line ends, spaces, raised and lowered digits; lines stay lines."""
    text = unicodedata.normalize("NFC", text.replace("\r\n", "\n").replace("\r", "\n"))
    text = _CONTROL.sub(" ", text.replace(GRID_OPEN, "").replace(GRID_CLOSE, ""))
    text = _BRACKET_GLYPHS.sub(" ", _INVISIBLE.sub("", text)).replace("\x0c", " ")
    text = _SPACES.sub(" ", text).replace(BREAK, " ")
    if not text.isascii():
        text = _RAISED.sub(lambda m: "^" + "".join(_SUPERSCRIPTS[c] for c in m[0]), text)
        text = _LOWERED.sub(lambda m: "_" + "".join(_SUBSCRIPTS[c] for c in m[0]), text)
        text = text.replace("⟨", "(").replace("⟩", ")").replace("⋅", "·").replace("∙", "·")
        text = text.replace("＝", "=").replace("，", ", ").replace("：", ": ").replace("；", "; ")
        text = text.replace("（", "(").replace("）", ")").replace("。", ". ").replace("、", ", ")
        text = text.replace("−", "-").replace("–", "-").replace("‑", "-")
    return _DOTTED.sub("·", _BULLET_PRODUCT.sub("·", text))


def unify_roots(text: str) -> str:
    """Return a text with powers of a half as roots: d_k**0.5 is √(d_k)."""
    return _ROOT_POWER.sub(r"√(\1)", text) if "*" in text or "^" in text else text


def to_plain(text: str) -> str:
    r"""Return a line without markup: Markdown emphasis, HTML tags, LaTeX commands, dollar signs.

    >>> to_plain(r"**A** = $\mathrm{softmax}\left(\frac{QK^\top}{\sqrt{2}}\right)$").split()
    ['A', '=', 'softmax(', '(QK^T)/(√(2))', ')']
    """
    text = _PRODUCT_IN_WORDS.sub(_write_product, unify_roots(text))
    if "<" in text:
        text = _SUP.sub(r"^\1", _SUB.sub(r"_\1", text))
        text = _TAG.sub(" ", text)
    if "*" in text:
        text = _EMPHASIS.sub(r"\1", text.replace("**", ""))
    text = text.replace("`", " ")
    if "\\" in text or "{" in text or "$" in text:
        has_commands = "\\" in text
        text = _INDEX_END.sub(" ", text)
        text = _ESCAPED.sub(r"\1", text.replace(r"\\", BREAK)) if has_commands else text
        text = text.replace("~", " ") if has_commands else text
        text = _parse_group(_TOKEN.findall(text)[::-1], 0)
        text = re.sub(r"(?<=\w) +(?=[_^])", "", text.replace("$$", BREAK).replace("$", BREAK))
    return text


def _write_product(match: re.Match[str]) -> str:
    return f"{match[1]} {match[2]}{'^T' if match[3] else ''}"


def _parse_group(tokens: list[str], depth: int) -> str:
    """Convert up to the closing brace; `tokens` is a stack with the next symbol last."""
    out: list[str] = []
    while tokens:
        symbol = tokens.pop()
        if symbol == "}":
            if depth:
                break
        elif symbol == "{":
            inner = _parse_group(tokens, depth + 1) if depth < _MAX_DEPTH else ""
            is_script = out and out[-1].endswith(("_", "^"))
            out.append(_format_script(inner) if is_script else inner)
            if is_script and tokens and _BEGINS_SYMBOL.match(tokens[-1]):
                out.append(" ")  # f_{1}C_{0}, a product
        elif symbol.startswith("\\") and len(symbol) > 1:
            converted = _convert_command(symbol[1:].rstrip("*"), tokens, depth)
            is_factor = converted[:1].isalpha() and out and _AFTER_INDEX.search(out[-1])
            out.append(f" {converted}" if is_factor else converted)
        else:
            out.append(symbol)
    return "".join(out)


def _format_script(inner: str) -> str:
    """Return a sub- or superscript: of several symbols in braces, of one without."""
    inner = inner.strip().strip("()").strip()
    return inner if re.fullmatch(r"[\w'+-]+", inner) else "{" + inner + "}"


def _convert_command(name: str, tokens: list[str], depth: int) -> str:
    if not name[:1].isalpha():
        return _SPACING.get(name, name)
    if name in _FRACTIONS:
        numerator, denominator = (_parse_argument(tokens, depth).strip() for _ in range(2))
        return f" ({numerator})/({denominator}) "
    if name == "sqrt":
        return f"√({_parse_argument(tokens, depth).strip()})"
    if name in _ACCENTS:
        inner = _parse_argument(tokens, depth).strip()
        return inner[:1] + _ACCENTS[name] + inner[1:]
    if name in ("begin", "end", "hspace", "vspace", "hskip"):
        _parse_argument(tokens, depth)
        return BREAK
    if name in ("stackrel", "overset"):
        _parse_argument(tokens, depth)
        return _parse_argument(tokens, depth)
    if _DROPPED.fullmatch(name):
        _parse_argument(tokens, depth)
        return ""
    if name in _SYMBOLS:
        return _SYMBOLS[name]
    if _STYLES.fullmatch(name):
        is_word = name.startswith(("text", "mbox", "hbox", "intertext"))
        if is_word and tokens and tokens[-1] == "{":
            return f" {_parse_argument(tokens, depth)} "
        return ""
    return f"{name} " if len(name) > 1 else name


def _parse_argument(tokens: list[str], depth: int) -> str:
    """Convert the argument of a command: a group, another command or one character."""
    while tokens and not tokens[-1].strip():
        tokens.pop()
    if not tokens or tokens[-1] == "}" or depth >= _MAX_DEPTH:
        return ""
    symbol = tokens.pop()
    if symbol == "{":
        return _parse_group(tokens, depth + 1)
    if symbol.startswith("\\") and len(symbol) > 1:
        return _convert_command(symbol[1:], tokens, depth + 1)
    symbol = symbol.lstrip()
    if symbol[1:]:
        tokens.append(symbol[1:])
    return symbol[:1]
