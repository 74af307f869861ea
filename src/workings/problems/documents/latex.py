r"""Parse pasted LaTeX: the text of a cell, the rows of a matrix, the text around a matrix.

Nothing is executed and no macro is expanded. Every pass is linear in the length of the text.
"""

import re
from dataclasses import dataclass

# These may have a header row and a first column of labels.
LABELED_ENVIRONMENTS = frozenset({"array", "tabular", "tabular*"})
MATRIX_ENVIRONMENTS = LABELED_ENVIRONMENTS | {
    f"{fence}{size}matrix{star}"
    for fence in ("", *"bpvBV")
    for size in ("", "small")
    for star in ("", "*")
}

_MAX_DEPTH = 30  # of nested braces
_SPECIAL_CHARS = frozenset("\\{}")
_TOKEN = re.compile(r"\\[A-Za-z]+\*?|\\.|[{}]|[^\\{}]+|\\", re.DOTALL)
_FRACTIONS = frozenset({"frac", "tfrac", "dfrac", "cfrac", "nicefrac", "sfrac"})
_SYMBOL_COMMANDS = {
    "infty": "inf",
    **dict.fromkeys(("times", "cdot", "ast"), "×"),
    **dict.fromkeys(("dots", "ldots", "cdots", "vdots", "ddots", "square", "Box"), "?"),
    **dict.fromkeys(("quad", "qquad", "enspace", "space", "hfill"), " "),
    **dict.fromkeys(("top", "intercal"), "T"),
    "prime": "'",
}
_ACCENTS = {
    **dict.fromkeys(("tilde", "widetilde"), "tilde"),
    **dict.fromkeys(("hat", "widehat"), "hat"),
    **dict.fromkeys(("bar", "overline"), "bar"),
}
# Commands for style; their argument is read without them.
_IGNORED_COMMANDS = re.compile(
    r"(?:text|math)(?:|rm|bf|it|sf|tt|md|up|cal|bb|normal)|(?:display|text|script)style|boldsymbol"
    r"|bm|pmb|bf|rm|boxed|[fmh]box|framebox|underline|emph|operatorname|ensuremath|num|limits"
    r"|left|right|[bB]igg?[lr]?|hline|(?:top|mid|bottom)rule|nonumber|notag|centering|checkmark"
)
# Commands that are dropped together with their argument.
_DROPPED_COMMANDS = re.compile(
    r"(?:|text|cell|row)color|colorbox|[hv]space|[hv]?phantom|cline|label|tag"
)
_SPACING = {",": "", "!": "", "/": "", " ": " ", ";": " ", ":": " ", ">": " ", "\n": " ", "$": ""}
_CHARACTER_MAP = str.maketrans({"–": "-", "−": "-", "~": " ", "$": None, "\N{NO-BREAK SPACE}": " "})

_POWER = re.compile(r"([+-]?)(?:([\d.,]+) ?[×x*·] ?)?10 ?\^ ?([+-]? ?\d+)", re.ASCII)
_BLANKS = frozenset({"", "?", "…", "...", "None", "null"})
_SUPERSCRIPT = re.compile(r"(?<=10)[⁺⁻⁰¹²³⁴⁵⁶⁷⁸⁹]+")
_SUPERSCRIPT_DIGITS = str.maketrans("⁺⁻⁰¹²³⁴⁵⁶⁷⁸⁹", "+-0123456789")

_ENVIRONMENT = re.compile(r"\\(begin|end)[ \t]*\{([A-Za-z]+\*?)\}")
_POSITION_OPTION = re.compile(r"\s*\[[a-z]?\]")  # \begin{array}[t], \begin{bmatrix*}[r]
_LENGTH = r"\[\s*-?[\d.]*\s*(?:pt|em|ex|mm|cm|in|\\[a-z]+)\s*\]"
ROW_END = rf"\\\\\*?(?:[ \t]*{_LENGTH})?|\\(?:cr|tabularnewline)(?![A-Za-z])"
_CELL_BREAK = re.compile(rf"(?P<row>{ROW_END})|(?P<cell>&)|(?P<brace>[{{}}])|\\.", re.DOTALL)
TRANSPOSE = (
    r"\^\s*(?:\{\s*)?(?:\\(?:mathsf|mathrm|mathbf|text)\s*\{?\s*)?"
    r"(?:T|⊤|\\top|\\intercal)(?![A-Za-z])[\s}]*|\.T\b|ᵀ"
)
_TRANSPOSE = re.compile(TRANSPOSE)
_MEMBERSHIP = re.compile(r"\\in(?![A-Za-z])|∈")  # ∈ ℝ²ˣ³ repeats the shape
_DECORATION = re.compile(
    r"\\(?:left|right|[bB]igg?[lr]?)(?![A-Za-z])\s*\\?[\[\](){}|.]?"
    r"|\\(?:quad|qquad|displaystyle|checkmark|nonumber|notag|hfill|smallskip)(?![A-Za-z])"
    r"|\\(?:begin|end)\{(?:equation|align|aligned|gather|gathered|displaymath|math|center)\*?\}"
    r"|\\label\{[^{}]*\}|\\tag\{[^{}]*\}"
    r"|\\[\[\]()|,;:! ]|[\s\[\](){}|.,;:&~$✓`*]"
)


@dataclass(frozen=True)
class Environment:
    r"""A `\begin{bmatrix} … \end{bmatrix}`: its position in the text, name and body."""

    start: int
    end: int
    name: str
    body: str


def to_plain_text(text: str) -> str:
    r"""Convert LaTeX to plain text: style commands are removed, fractions become a/b.

    >>> to_plain_text(r"-\tfrac{1}{2}"), to_plain_text(r"\mathbf{W}^{\text{Q}}")
    ('-1/2', 'W^Q')
    """
    if not _SPECIAL_CHARS.isdisjoint(text):
        text = _parse_group(_TOKEN.findall(text)[::-1], 0)
    text = " ".join(text.translate(_CHARACTER_MAP).split())
    text = re.sub(r" ?([×^]) ?", r"\1", text)
    return re.sub(r"^([+-]) (?=[\d.i])", r"\1", text)


def _parse_group(tokens: list[str], depth: int) -> str:
    """Parse up to the closing brace; `tokens` is a stack with the next symbol last."""
    out = []
    while tokens:
        symbol = tokens.pop()
        if symbol == "}":
            if depth:
                break
        elif symbol == "{":
            out.append(_parse_group(tokens, depth + 1) if depth < _MAX_DEPTH else symbol)
        elif symbol.startswith("\\"):
            out.append(_parse_command(symbol[1:].rstrip("*"), tokens, depth))
        else:
            out.append(symbol)
    return "".join(out)


def _parse_command(name: str, tokens: list[str], depth: int) -> str:
    """Return the plain text of a command, taking its arguments from the tokens."""
    if not name.isalpha():
        return _SPACING.get(name, name)
    if name in _FRACTIONS:
        numerator = _parse_argument(tokens, depth).strip()
        denominator = _parse_argument(tokens, depth).strip()
        return f" {numerator}/{denominator} "  # spaces, or 1\frac{1}{2} would become 11/2
    if name in _ACCENTS:  # \hat{x} is x^(hat), a name of its own
        return f"{_parse_argument(tokens, depth).strip()}^({_ACCENTS[name]})"
    if _DROPPED_COMMANDS.fullmatch(name):
        _parse_argument(tokens, depth)
        return ""
    if _IGNORED_COMMANDS.fullmatch(name):
        return ""
    return _SYMBOL_COMMANDS.get(name, f"\\{name} ")


def _parse_argument(tokens: list[str], depth: int) -> str:
    """Parse the argument of a command: a group, another command or one character."""
    while tokens and not tokens[-1].strip():
        tokens.pop()
    if not tokens or tokens[-1] == "}":
        return ""
    symbol = tokens.pop()
    if symbol == "{":
        return _parse_group(tokens, depth + 1) if depth < _MAX_DEPTH else symbol
    if symbol.startswith("\\"):
        return _parse_command(symbol[1:], tokens, depth + 1) if depth < _MAX_DEPTH else symbol
    first, rest = symbol.lstrip()[0], symbol.lstrip()[1:]
    if rest:
        tokens.append(rest)
    return first


def clean_cell(text: str) -> str:
    r"""Convert a cell to text that `read_number` can parse; a blank cell or dots become "?".

    >>> [clean_cell(c) for c in (r"7.9\times10^{-32}", r"-\infty", r"\boxed{\mathbf{3}}", r"\dots")]
    ['7.9e-32', '-inf', '3', '?']
    """
    plain = to_plain_text(text) if any(c in text for c in "\\{}$~^–") else " ".join(text.split())
    if plain in _BLANKS or not plain.strip("_ "):
        return "?"
    plain = _SUPERSCRIPT.sub(
        lambda match: "^" + match.group().translate(_SUPERSCRIPT_DIGITS), plain
    )
    power = _POWER.fullmatch(plain)
    if power:
        sign, factor, exponent = power.groups()
        return f"{sign}{factor or 1}e{exponent.replace(' ', '')}"
    return plain


def split_rows(body: str) -> list[list[str]]:
    r"""Split the body of a matrix at `\\` and `&` and clean every cell."""
    rows: list[list[str]] = [[]]
    depth = start = 0
    for mark in _CELL_BREAK.finditer(body):
        if mark.lastgroup == "brace":
            depth += 1 if mark.group() == "{" else -1
        elif depth <= 0 and mark.lastgroup:
            rows[-1].append(clean_cell(body[start : mark.start()]))
            start = mark.end()
            if mark.lastgroup == "row":
                rows.append([])
    rows[-1].append(clean_cell(body[start:]))
    if rows[-1] == ["?"] and len(rows) > 1:  # a \\ after the last row, or a closing \hline
        rows.pop()
    return rows


def find_environments(text: str) -> tuple[list[Environment], str | None]:
    """Return the outermost matrices and, if one is not closed, its name."""
    environments: list[Environment] = []
    opened: list[re.Match[str]] = []
    for mark in _ENVIRONMENT.finditer(text):
        command, name = mark.groups()
        if name not in MATRIX_ENVIRONMENTS:
            continue
        if command == "begin":
            opened.append(mark)
        elif opened:
            begin = opened.pop()
            if begin[2] != name:
                return environments, begin[2]
            if not opened:
                body = _strip_column_spec(name, text[begin.end() : mark.start()])
                environments.append(Environment(begin.start(), mark.end(), name, body))
    return environments, opened[0][2] if opened else None


def _strip_column_spec(name: str, body: str) -> str:
    """Remove the options of an environment: `{ccc}`, `[t]`, `{*{3}{c}}`, a tabular*'s width."""
    option = _POSITION_OPTION.match(body)
    if option and (name in LABELED_ENVIRONMENTS or name.endswith("*")):
        body = body[option.end() :]
    for _ in range({"tabular*": 2}.get(name, int(name in LABELED_ENVIRONMENTS))):
        depth = 0
        body = body.lstrip()
        for brace in re.finditer(r"[{}]", body if body.startswith("{") else ""):
            depth += 1 if brace.group() == "{" else -1
            if depth == 0:
                body = body[brace.end() :]
                break
    return body


def strip_decoration(text: str) -> tuple[str, bool]:
    r"""Return the text around a matrix without brackets and spacing, and if it is transposed.

    >>> strip_decoration(r"\right]^\top, ")
    ('', True)
    """
    text = _MEMBERSHIP.split(" ".join(text.split()))[0]
    transpose = _TRANSPOSE.search(text)
    if transpose:
        text = text[: transpose.start()] + text[transpose.end() :]
    return _DECORATION.sub("", text), transpose is not None
