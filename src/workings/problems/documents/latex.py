r"""LaTeX as people paste it: what a cell says, where rows end, what stands beside a matrix.

Nothing is executed and no macro is expanded. Every pass goes over the text once.
"""

import re
from dataclasses import dataclass

LABELED_ENVIRONMENTS = frozenset(
    {"array", "tabular", "tabular*"}
)  # may have a header row or a first column
MATRIX_ENVIRONMENTS = LABELED_ENVIRONMENTS | {
    f"{fence}{size}matrix{star}"
    for fence in ("", *"bpvBV")
    for size in ("", "small")
    for star in ("", "*")
}

_MAX_DEPTH = 30  # braces within braces
_SPECIAL_CHARS = frozenset("\\{}")
_TOKEN = re.compile(r"\\[A-Za-z]+\*?|\\.|[{}]|[^\\{}]+|\\", re.DOTALL)
_FRACTIONS = frozenset({"frac", "tfrac", "dfrac", "cfrac", "nicefrac", "sfrac"})
_SYMBOL_COMMANDS = {
    "infty": "inf",
    **dict.fromkeys(("times", "cdot", "ast"), "×"),
    **dict.fromkeys(("dots", "ldots", "cdots", "vdots", "ddots", "square", "Box"), "?"),
    **dict.fromkeys(("quad", "qquad", "enspace", "space", "hfill"), " "),
    **dict.fromkeys(("top", "intercal"), "T"),
}
# What these stand before is read as if they were not there.
_IGNORED_COMMANDS = re.compile(
    r"(?:text|math)(?:|rm|bf|it|sf|tt|md|up|cal|bb|normal)|(?:display|text|script)style|boldsymbol"
    r"|bm|pmb|bf|rm|boxed|[fmh]box|framebox|underline|emph|operatorname|ensuremath|num|limits"
    r"|left|right|[bB]igg?[lr]?|hline|(?:top|mid|bottom)rule|nonumber|notag|centering|checkmark"
)
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
_TRANSPOSE = re.compile(
    r"\^\s*(?:\{\s*)?(?:\\(?:mathsf|mathrm|mathbf|text)\s*\{?\s*)?"
    r"(?:T|⊤|\\top|\\intercal)(?![A-Za-z])[\s}]*|\.T\b|ᵀ"
)
_MEMBERSHIP = re.compile(r"\\in(?![A-Za-z])|∈")  # ∈ ℝ²ˣ³ says nothing new
_DECORATION = re.compile(
    r"\\(?:left|right|[bB]igg?[lr]?)(?![A-Za-z])\s*\\?[\[\](){}|.]?"
    r"|\\(?:quad|qquad|displaystyle|checkmark|nonumber|notag|hfill|smallskip)(?![A-Za-z])"
    r"|\\(?:begin|end)\{(?:equation|align|aligned|gather|gathered|displaymath|math|center)\*?\}"
    r"|\\label\{[^{}]*\}|\\tag\{[^{}]*\}"
    r"|\\[\[\]()|,;:! ]|[\s\[\](){}|.,;:&~$✓`*]"
)


@dataclass(frozen=True)
class Environment:
    r"""A `\begin{bmatrix} … \end{bmatrix}`: where it is, and what is inside."""

    start: int
    end: int
    name: str
    body: str


def to_plain_text(text: str) -> str:
    r"""Write LaTeX as plain text: commands that only shape it go, fractions become a/b.

    >>> to_plain_text(r"-\tfrac{1}{2}"), to_plain_text(r"\mathbf{W}^{\text{Q}}")
    ('-1/2', 'W^Q')
    """
    if not _SPECIAL_CHARS.isdisjoint(text):
        text = _parse_group(_TOKEN.findall(text)[::-1], 0)
    written = " ".join(text.translate(_CHARACTER_MAP).split())
    written = re.sub(r" ?([×^]) ?", r"\1", written)
    return re.sub(r"^([+-]) (?=[\d.i])", r"\1", written)


def _parse_group(pieces: list[str], depth: int) -> str:
    """Read up to the closing brace; `pieces` is a stack, the next one last."""
    out = []
    while pieces:
        piece = pieces.pop()
        if piece == "}":
            if depth:
                break
        elif piece == "{":
            out.append(_parse_group(pieces, depth + 1) if depth < _MAX_DEPTH else piece)
        elif piece.startswith("\\"):
            out.append(_parse_command(piece[1:].rstrip("*"), pieces, depth))
        else:
            out.append(piece)
    return "".join(out)


def _parse_command(name: str, pieces: list[str], depth: int) -> str:
    if not name.isalpha():
        return _SPACING.get(name, name)
    if name in _FRACTIONS:
        # Spaces on both sides: 1\frac{1}{2} must not become 11/2.
        return (
            f" {_parse_argument(pieces, depth).strip()}/{_parse_argument(pieces, depth).strip()} "
        )
    if _DROPPED_COMMANDS.fullmatch(name):
        _parse_argument(pieces, depth)
        return ""
    if _IGNORED_COMMANDS.fullmatch(name):
        return ""
    return _SYMBOL_COMMANDS.get(name, f"\\{name} ")


def _parse_argument(pieces: list[str], depth: int) -> str:
    """Read what belongs to a command: a group, another command, or one character."""
    while pieces and not pieces[-1].strip():
        pieces.pop()
    if not pieces or pieces[-1] == "}":
        return ""
    piece = pieces.pop()
    if piece == "{":
        return _parse_group(pieces, depth + 1) if depth < _MAX_DEPTH else piece
    if piece.startswith("\\"):
        return _parse_command(piece[1:], pieces, depth + 1) if depth < _MAX_DEPTH else piece
    first, rest = piece.lstrip()[0], piece.lstrip()[1:]
    if rest:
        pieces.append(rest)
    return first


def clean_cell(text: str) -> str:
    r"""Write a cell as `read_number` understands it; a blank or dots are "?".

    >>> [clean_cell(c) for c in (r"7.9\times10^{-32}", r"-\infty", r"\boxed{\mathbf{3}}", r"\dots", "")]
    ['7.9e-32', '-inf', '3', '?', '?']
    """
    written = to_plain_text(text) if any(c in text for c in "\\{}$~^–") else " ".join(text.split())
    if written in _BLANKS or not written.strip("_ "):
        return "?"
    written = _SUPERSCRIPT.sub(
        lambda raised: "^" + raised.group().translate(_SUPERSCRIPT_DIGITS), written
    )
    power = _POWER.fullmatch(written)
    if power:
        sign, factor, exponent = power.groups()
        return f"{sign}{factor or 1}e{exponent.replace(' ', '')}"
    return written


def split_rows(body: str) -> list[list[str]]:
    r"""Split what is inside a matrix at `\\` and `&`, and clean every cell."""
    split: list[list[str]] = [[]]
    depth = start = 0
    for mark in _CELL_BREAK.finditer(body):
        if mark.lastgroup == "brace":
            depth += 1 if mark.group() == "{" else -1
        elif depth <= 0 and mark.lastgroup:
            split[-1].append(clean_cell(body[start : mark.start()]))
            start = mark.end()
            if mark.lastgroup == "row":
                split.append([])
    split[-1].append(clean_cell(body[start:]))
    if split[-1] == ["?"] and len(split) > 1:  # a \\ after the last row, or a closing \hline
        split.pop()
    return split


def find_environments(text: str) -> tuple[list[Environment], str | None]:
    """Find the outermost matrices, and the name of one that is not closed."""
    found: list[Environment] = []
    opened: list[re.Match[str]] = []
    for mark in _ENVIRONMENT.finditer(text):
        what, name = mark.groups()
        if name not in MATRIX_ENVIRONMENTS:
            continue
        if what == "begin":
            opened.append(mark)
        elif opened:
            begin = opened.pop()
            if begin[2] != name:
                return found, begin[2]
            if not opened:
                body = _strip_column_spec(name, text[begin.end() : mark.start()])
                found.append(Environment(begin.start(), mark.end(), name, body))
    return found, opened[0][2] if opened else None


def _strip_column_spec(name: str, body: str) -> str:
    """Drop what says how columns are set: `{ccc}`, `[t]`, `{*{3}{c}}`, a tabular*'s width."""
    place = _POSITION_OPTION.match(body)
    if place and (name in LABELED_ENVIRONMENTS or name.endswith("*")):
        body = body[place.end() :]
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
    r"""Tell what stands beside a matrix apart from brackets and spacing, and whether it is a ᵀ.

    >>> strip_decoration(r"\right]^\top, ")
    ('', True)
    """
    text = _MEMBERSHIP.split(" ".join(text.split()))[0]
    transposed = _TRANSPOSE.search(text)
    if transposed:
        text = text[: transposed.start()] + text[transposed.end() :]
    return _DECORATION.sub("", text), transposed is not None
