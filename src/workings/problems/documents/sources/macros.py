r"""Replace the macros that a LaTeX document defines by what they stand for.

`\newcommand{\mat}[1]{\begin{bmatrix}#1\end{bmatrix}}` and its relatives are substituted as text;
nothing is executed, and a text that would grow too much stays as it is.
"""

import re

_BODY = r"\{((?:[^{}]|\{(?:[^{}]|\{(?:[^{}]|\{[^{}]*\})*\})*\}){0,400})\}"
_COMMAND = re.compile(
    r"\\(?:re)?newcommand\*?\s*\{?\\([A-Za-z]+)\}?\s*(?:\[([1-4])\])?\s*" + _BODY
    + r"|\\def\s*\\([A-Za-z]+)((?:#\d)*)\s*" + _BODY
    + r"|\\DeclareMathOperator\*?\s*\{?\\([A-Za-z]+)\}?\s*" + _BODY
)  # fmt: skip
_ARGUMENT = re.compile(r"#(\d)")
_SPACE = re.compile(r"\s{0,20}")
_PASSES = 3  # a macro may use others
_MAX_GROWTH = 8
_MAX_ARGUMENT = 20_000  # characters


def expand_macros(text: str) -> str:
    r"""Return a LaTeX text with its own macros replaced; lines stay lines.

    >>> expand_macros(r"\newcommand{\v}[1]{\begin{pmatrix}#1\end{pmatrix}} $x = \v{1 \\ 2}$")
    ' $x = \\begin{pmatrix}1 \\\\ 2\\end{pmatrix}$'
    """
    macros: dict[str, tuple[int, str]] = {}

    def define(match: re.Match[str]) -> str:
        name = match[1] or match[4] or match[7]
        count = int(match[2] or 0) if match[1] else match[5].count("#") if match[4] else 0
        body = match[3] if match[1] else match[6] if match[4] else match[8]
        macros[name] = count, " ".join((body or "").split())
        return "\n" * match[0].count("\n")

    rest = _COMMAND.sub(define, text)
    if not macros:
        return text
    names = "|".join(sorted(macros, key=len, reverse=True))
    use = re.compile(rf"\\({names})(?![A-Za-z])")
    for _ in range(_PASSES):
        expanded = _expand_once(rest, use, macros, _MAX_GROWTH * len(text) + 10_000)
        if expanded == rest:
            break
        rest = expanded
    return rest


def _expand_once(
    text: str, use: re.Pattern[str], macros: dict[str, tuple[int, str]], max_chars: int
) -> str:
    pieces, position, size = list[str](), 0, len(text)
    for match in use.finditer(text):
        if match.start() < position:
            continue
        count, body = macros[match[1]]
        taken = _take_arguments(text, match.end(), count)
        if taken is None:
            return text
        arguments, end = taken
        if len(arguments) < count:
            continue
        filled = "".join(
            piece if not k % 2 else "".join(arguments[max(0, int(piece) - 1) : int(piece)])
            for k, piece in enumerate(_ARGUMENT.split(body))
        )
        size += len(filled)
        if size > max_chars:
            return text
        pieces += [text[position : match.start()], filled]
        position = end
    return "".join([*pieces, text[position:]])


def _take_arguments(text: str, position: int, count: int) -> tuple[list[str], int] | None:
    """Return the arguments in braces from a position on, and their end; None if it is missing."""
    arguments: list[str] = []
    while len(arguments) < count:
        start = position
        while text[start : start + 1].isspace() and start < position + 20:
            start += 1
        if text[start : start + 1] != "{":
            break
        depth, end = 0, start
        for end in range(start, min(len(text), start + _MAX_ARGUMENT)):
            depth += (text[end] == "{") - (text[end] == "}")
            if not depth:
                break
        else:
            return None
        arguments.append(text[start + 1 : end])
        position = end + 1
    return arguments, position
