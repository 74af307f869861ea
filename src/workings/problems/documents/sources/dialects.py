"""Rewrite other ways of writing text as the ones that are read: Org, AsciiDoc, grids, Mathematica.

Every line stays where it is.
"""

import re

_GRID_RULE = re.compile(r"^[ \t]*\+(?:[-=]{2,}\+)+[ \t]*$", re.MULTILINE)
_ORG = re.compile(r"^#\+(?:name|caption|title|begin_src|options|author)\b", re.M | re.I)
_ORG_LABEL = re.compile(r"^[ \t]*#\+(?:name|caption)(?:\[[^\]\n]*\])?:[ \t]*(.*)$", re.M | re.I)
_ORG_BLOCK = re.compile(r"^[ \t]*#\+(?:begin|end)_(?:src|example)\b[^\n]*$", re.M | re.I)
_ORG_OTHER = re.compile(r"^[ \t]*#\+\w+:.*$", re.MULTILINE)
_ORG_HEADING = re.compile(r"^(\*{1,6})[ \t]+(?=\S)", re.MULTILINE)
_ASCIIDOC_TABLE = re.compile(
    r"^(?:\[[^\]\n]*\][ \t]*\n)?\|={3,}[ \t]*\n(.*?)^\|={3,}[ \t]*$", re.M | re.S
)
_ASCIIDOC_TITLE = re.compile(r"^\.(?=[^\s.\d])(.*)$", re.MULTILINE)
_ASCIIDOC_HEADING = re.compile(r"^(={1,6})[ \t]+(?=\S)", re.MULTILINE)
_ASCIIDOC_STEM = re.compile(r"\b(?:latexmath|asciimath|stem):\[(.*?)(?<!\\)\]")
_POSITION = re.compile(  # pos = 2: [0.909, …]
    r"^[ \t]*(?:[-*+•][ \t]+)?pos(?:ition)?[ \t]*=?[ \t]*(\d{1,4})[ \t]*(?::|→|->|=>)[ \t]*(?=\[)",
    re.M | re.I,
)
_TENSORFLOW = re.compile(r"<tf\.(?:Tensor|Variable)[^<>]*?\bnumpy=([^<>]*?)>")
_BRACED = re.compile(r"\{\s*(?:\{[-+\d.,\s/eE*^]{1,2000}\}\s*(?:,\s*)?)+\}")
_MATHEMATICA = re.compile(r"^[ \t]*(?:In|Out)\[\d+\](?::=|//\w+=|=)", re.MULTILINE)
_MATHEMATICA_INPUT = re.compile(r"^[ \t]*In\[\d+\]:=[ \t]*([^\n]*)$", re.MULTILINE)
_MATHEMATICA_OUTPUT = re.compile(r"^[ \t]*Out\[\d+\](?://\w+)?=", re.MULTILINE)
_TRANSPOSE = re.compile(r"\bTranspose\[(\w+)\]")
_CALL = re.compile(r"\b([A-Za-z]\w*)\[([^\[\]\n]*)\]")
_MAP = re.compile(r"\b([A-Za-z]\w*)\s*/@\s*(\([^()\n]*\)|\w+)")
_DOT = re.compile(r"(?<=[A-Za-z\])])\s?\.\s?(?=[A-Za-z(])")
_DEFINITION = re.compile(r"\w+\[[^\]\n]*_[^\]\n]*\]\s*:=.*")
_DECIMAL_POINT = re.compile(r"(\d)\.(?![\d.])")  # Sqrt[2.]
_QUOTED_FUNCTION = re.compile(r"\"(\w{2,12})\"(?=\s*\()")
_TYPST = re.compile(
    r"\bmat\(\s*(?:delim:\s*\"[^\"\n]*\"\s*,\s*)?([^();]{1,400}(?:;[^();]{1,400}){0,200})\)"
)


def rewrite_dialects(text: str) -> str:
    r"""Return a text with headings, captions and tables as in Markdown and lists in brackets.

    >>> rewrite_dialects("+---+---+\n| 1 | 2 |\n+---+---+")
    '|---|\n| 1 | 2 |\n|---|'
    >>> rewrite_dialects(".Q = X W\n|===\n|1 |0\n|===")
    'Q = X W:\n\n|1 |0\n'
    """
    if "+--" in text or "+==" in text:
        text = _GRID_RULE.sub("|---|", text)
    if "#+" in text and _ORG.search(text):
        text = _ORG_BLOCK.sub("```", _ORG_LABEL.sub(r"\1:", text))
        text = _ORG_HEADING.sub(lambda m: "#" * len(m[1]) + " ", _ORG_OTHER.sub("", text))
    if "|===" in text:
        text = _ASCIIDOC_TABLE.sub(_drop_rules, text)
        text = _ASCIIDOC_TITLE.sub(r"\1:", text)
        text = _ASCIIDOC_HEADING.sub(lambda m: "#" * len(m[1]) + " ", text)
        text = _ASCIIDOC_STEM.sub(r"$\1$", text)
    if "pos" in text or "Pos" in text:
        text = _POSITION.sub(r"PE(\1) = ", text)
    if "<tf." in text:
        text = unwrap_tensors(text)
    if "mat(" in text:
        text = _QUOTED_FUNCTION.sub(r"\1", text)
        text = _TYPST.sub(lambda m: f"[{m[1]}]", text)
    if "{{" in text or "{ {" in text:
        text = _rewrite_mathematica(text)
    return text


def unwrap_tensors(text: str) -> str:
    """Return prints of TensorFlow without what it says beside the numbers."""
    return _TENSORFLOW.sub(lambda m: "\n" * m[0][: m.start(1) - m.start()].count("\n") + m[1], text)


def _drop_rules(match: re.Match[str]) -> str:
    """Return the rows of a table of AsciiDoc; the rules around it are empty lines."""
    before = match[0][: match.start(1) - match.start()].count("\n")
    return "\n" * before + match[1]


def _rewrite_mathematica(text: str) -> str:
    """Return lists in braces as lists in brackets, and the lines of a session as equations."""
    if "\\" in text and not _MATHEMATICA.search(text):
        return text  # braces of LaTeX
    text = _MATHEMATICA_INPUT.sub(_rewrite_input, text)
    text = _MATHEMATICA_OUTPUT.sub("=", text)
    return _BRACED.sub(lambda m: m[0].translate(str.maketrans("{}", "[]")), text)


def _rewrite_input(match: re.Match[str]) -> str:
    code = _DEFINITION.sub("", match[1])
    code = _DECIMAL_POINT.sub(r"\1", _TRANSPOSE.sub(r"\1^T", code))
    code = _MAP.sub(r"\1(\2)", code)
    for _ in range(3):
        code = _CALL.sub(lambda m: f"{m[1].lower()}({m[2]})", code)
    return _DOT.sub(" · ", code.rstrip("; ")).replace(";", " \v ")
