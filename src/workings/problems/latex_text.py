r"""LaTeX as people paste it: what a cell says, where rows end, what stands beside a matrix.

Nothing is executed and no macro is expanded. Every pass goes over the text once.
"""

import re
from dataclasses import dataclass

LABELLED = frozenset({"array", "tabular", "tabular*"})  # may have a header row or a first column
MATRIX = LABELLED | {
    f"{fence}{size}matrix{star}"
    for fence in ("", *"bpvBV")
    for size in ("", "small")
    for star in ("", "*")
}

_DEEPEST = 30  # braces within braces
_SPECIAL = frozenset("\\{}")
_PIECE = re.compile(r"\\[A-Za-z]+\*?|\\.|[{}]|[^\\{}]+|\\", re.DOTALL)
_FRACTIONS = frozenset({"frac", "tfrac", "dfrac", "cfrac", "nicefrac", "sfrac"})
_SIGNS = {
    "infty": "inf",
    **dict.fromkeys(("times", "cdot", "ast"), "×"),
    **dict.fromkeys(("dots", "ldots", "cdots", "vdots", "ddots", "square", "Box"), "?"),
    **dict.fromkeys(("quad", "qquad", "enspace", "space", "hfill"), " "),
    **dict.fromkeys(("top", "intercal"), "T"),
}
# What these stand before is read as if they were not there.
_SILENT = re.compile(
    r"(?:text|math)(?:|rm|bf|it|sf|tt|md|up|cal|bb|normal)|(?:display|text|script)style|boldsymbol"
    r"|bm|pmb|bf|rm|boxed|[fmh]box|framebox|underline|emph|operatorname|ensuremath|num|limits"
    r"|left|right|[bB]igg?[lr]?|hline|(?:top|mid|bottom)rule|nonumber|notag|centering|checkmark"
)
_DROP_ARGUMENT = re.compile(
    r"(?:|text|cell|row)color|colorbox|[hv]space|[hv]?phantom|cline|label|tag"
)
_GLUE = {",": "", "!": "", "/": "", " ": " ", ";": " ", ":": " ", ">": " ", "\n": " ", "$": ""}
_DASHES = str.maketrans({"–": "-", "−": "-", "~": " ", "$": None, "\N{NO-BREAK SPACE}": " "})

_POWER = re.compile(r"([+-]?)(?:([\d.,]+) ?[×x*·] ?)?10 ?\^ ?([+-]? ?\d+)", re.ASCII)
_BLANKS = frozenset({"", "?", "…", "...", "None", "null"})
_RAISED = re.compile(r"(?<=10)[⁺⁻⁰¹²³⁴⁵⁶⁷⁸⁹]+")
_LOWERED = str.maketrans("⁺⁻⁰¹²³⁴⁵⁶⁷⁸⁹", "+-0123456789")

_ENVIRONMENT = re.compile(r"\\(begin|end)[ \t]*\{([A-Za-z]+\*?)\}")
_PLACE = re.compile(r"\s*\[[a-z]?\]")  # \begin{array}[t], \begin{bmatrix*}[r]
_LENGTH = r"\[\s*-?[\d.]*\s*(?:pt|em|ex|mm|cm|in|\\[a-z]+)\s*\]"
ROW_END = rf"\\\\\*?(?:[ \t]*{_LENGTH})?|\\(?:cr|tabularnewline)(?![A-Za-z])"
_BREAK = re.compile(rf"(?P<row>{ROW_END})|(?P<cell>&)|(?P<brace>[{{}}])|\\.", re.DOTALL)
_TRANSPOSED = re.compile(
    r"\^\s*(?:\{\s*)?(?:\\(?:mathsf|mathrm|mathbf|text)\s*\{?\s*)?"
    r"(?:T|⊤|\\top|\\intercal)(?![A-Za-z])[\s}]*|\.T\b|ᵀ"
)
_MEMBER = re.compile(r"\\in(?![A-Za-z])|∈")  # ∈ ℝ²ˣ³ says nothing new
_BESIDE = re.compile(
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


def plain(text: str) -> str:
    r"""Write LaTeX as plain text: commands that only shape it go, fractions become a/b.

    >>> plain(r"-\tfrac{1}{2}"), plain(r"\mathbf{W}^{\text{Q}}")
    ('-1/2', 'W^Q')
    """
    if not _SPECIAL.isdisjoint(text):
        text = _group(_PIECE.findall(text)[::-1], 0)
    written = " ".join(text.translate(_DASHES).split())
    written = re.sub(r" ?([×^]) ?", r"\1", written)
    return re.sub(r"^([+-]) (?=[\d.i])", r"\1", written)


def _group(pieces: list[str], depth: int) -> str:
    """Read up to the closing brace; `pieces` is a stack, the next one last."""
    out = []
    while pieces:
        piece = pieces.pop()
        if piece == "}":
            if depth:
                break
        elif piece == "{":
            out.append(_group(pieces, depth + 1) if depth < _DEEPEST else piece)
        elif piece.startswith("\\"):
            out.append(_command(piece[1:].rstrip("*"), pieces, depth))
        else:
            out.append(piece)
    return "".join(out)


def _command(name: str, pieces: list[str], depth: int) -> str:
    if not name.isalpha():
        return _GLUE.get(name, name)
    if name in _FRACTIONS:
        # Spaces on both sides: 1\frac{1}{2} must not become 11/2.
        return f" {_argument(pieces, depth).strip()}/{_argument(pieces, depth).strip()} "
    if _DROP_ARGUMENT.fullmatch(name):
        _argument(pieces, depth)
        return ""
    if _SILENT.fullmatch(name):
        return ""
    return _SIGNS.get(name, f"\\{name} ")


def _argument(pieces: list[str], depth: int) -> str:
    """Read what belongs to a command: a group, another command, or one character."""
    while pieces and not pieces[-1].strip():
        pieces.pop()
    if not pieces or pieces[-1] == "}":
        return ""
    piece = pieces.pop()
    if piece == "{":
        return _group(pieces, depth + 1) if depth < _DEEPEST else piece
    if piece.startswith("\\"):
        return _command(piece[1:], pieces, depth + 1) if depth < _DEEPEST else piece
    first, rest = piece.lstrip()[0], piece.lstrip()[1:]
    if rest:
        pieces.append(rest)
    return first


def cell(text: str) -> str:
    r"""Write a cell as `read_number` understands it; a blank or dots are "?".

    >>> [cell(c) for c in (r"7.9\times10^{-32}", r"-\infty", r"\boxed{\mathbf{3}}", r"\dots", "")]
    ['7.9e-32', '-inf', '3', '?', '?']
    """
    written = plain(text) if any(c in text for c in "\\{}$~^–") else " ".join(text.split())
    if written in _BLANKS or not written.strip("_ "):
        return "?"
    written = _RAISED.sub(lambda raised: "^" + raised.group().translate(_LOWERED), written)
    power = _POWER.fullmatch(written)
    if power:
        sign, factor, exponent = power.groups()
        return f"{sign}{factor or 1}e{exponent.replace(' ', '')}"
    return written


def rows(body: str) -> list[list[str]]:
    r"""Split what is inside a matrix at `\\` and `&`, and clean every cell."""
    split: list[list[str]] = [[]]
    depth = start = 0
    for mark in _BREAK.finditer(body):
        if mark.lastgroup == "brace":
            depth += 1 if mark.group() == "{" else -1
        elif depth <= 0 and mark.lastgroup:
            split[-1].append(cell(body[start : mark.start()]))
            start = mark.end()
            if mark.lastgroup == "row":
                split.append([])
    split[-1].append(cell(body[start:]))
    if split[-1] == ["?"] and len(split) > 1:  # a \\ after the last row, or a closing \hline
        split.pop()
    return split


def environments(text: str) -> tuple[list[Environment], str | None]:
    """Find the outermost matrices, and the name of one that is not closed."""
    found: list[Environment] = []
    opened: list[re.Match[str]] = []
    for mark in _ENVIRONMENT.finditer(text):
        what, name = mark.groups()
        if name not in MATRIX:
            continue
        if what == "begin":
            opened.append(mark)
        elif opened:
            begin = opened.pop()
            if begin[2] != name:
                return found, begin[2]
            if not opened:
                body = _without_columns(name, text[begin.end() : mark.start()])
                found.append(Environment(begin.start(), mark.end(), name, body))
    return found, opened[0][2] if opened else None


def _without_columns(name: str, body: str) -> str:
    """Drop what says how columns are set: `{ccc}`, `[t]`, `{*{3}{c}}`, a tabular*'s width."""
    place = _PLACE.match(body)
    if place and (name in LABELLED or name.endswith("*")):
        body = body[place.end() :]
    for _ in range({"tabular*": 2}.get(name, int(name in LABELLED))):
        depth = 0
        body = body.lstrip()
        for brace in re.finditer(r"[{}]", body if body.startswith("{") else ""):
            depth += 1 if brace.group() == "{" else -1
            if depth == 0:
                body = body[brace.end() :]
                break
    return body


def beside(text: str) -> tuple[str, bool]:
    r"""Tell what stands beside a matrix apart from brackets and spacing, and whether it is a ᵀ.

    >>> beside(r"\right]^\top, ")
    ('', True)
    """
    text = _MEMBER.split(" ".join(text.split()))[0]
    transposed = _TRANSPOSED.search(text)
    if transposed:
        text = text[: transposed.start()] + text[transposed.end() :]
    return _BESIDE.sub("", text), transposed is not None
