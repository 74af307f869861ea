r"""Find where each problem begins in a text: `\section*{Problem 2}`, `== Aufgabe 3 ==`, `#1`."""

import re
from collections.abc import Iterator, Sequence

from workings.errors import UserError
from workings.problems.grading.answer_names import NUMERALS, PROBLEM_WORDS, find_problem_name

_HEADING = re.compile(
    r"\\(?:sub)*(?:section|paragraph)\*?\{(?P<tex>[^\n}]*)\}"
    r"|^[ \t]*(?:#+[ \t]*(?P<md>[^\n]*)"
    r"|(?:[%/*\[({<=~+>#\-–—•][ \t]*|\\[a-z]+[{ \t]*)*"
    rf"(?P<plain>(?:{PROBLEM_WORDS})[ \t_.:#-]*(?:\d+|(?:{NUMERALS})(?=[ \t]*[^\w\n]*$))"
    r"|(?:nr|no)\.?[ \t]*\d+)(?!\w)"
    # The rest of the line belongs to the heading if it has no matrix.
    r"(?:[^\n=\[]*=*[ \t]*$|[ \t:.)\]*]*)"
    r"|\**(?P<number>#[ \t]*\d{1,3}|\(?\d{1,3}[.):\]])\**(?:[ \t]*$|[ \t]+(?=[A-Za-z*\\$])))",
    re.MULTILINE | re.IGNORECASE,
)
_ITEM = re.compile(r"\\item(?![A-Za-z])")
_ENVIRONMENT = re.compile(
    rf"\\begin\{{(?:{PROBLEM_WORDS})s?\*?\}}(?:[ \t]*[\[{{](?P<title>[^\]}}\n]*)[\]}}])?",
    re.IGNORECASE,
)


def split_problems(
    text: str, names: Sequence[str], name: str | None
) -> Iterator[tuple[str, int, str]]:
    """Yield the problem, the lines before it and the text of each part; `name` is the file's."""
    headings = list(_list_headings(text, names))
    if not headings:
        if name is None and len(names) > 1:
            raise UserError("which problem is this? Put a heading such as Problem 1 before it")
        yield name or names[0], 0, text
        return
    for k, (heading, _, start) in enumerate(headings):
        end = headings[k + 1][1] if k + 1 < len(headings) else len(text)
        yield heading, text.count("\n", 0, start), text[start:end]


def _list_headings(text: str, names: Sequence[str]) -> list[tuple[str, int, int]]:
    """Return the problem, start and end of every heading that names one."""
    matches = list(_HEADING.finditer(text))
    if any(match["number"] is None for match in matches):  # then numbers alone are items of a list
        matches = [match for match in matches if match["number"] is None]
    headings = []
    for match in matches:
        title = (match["number"] or "").strip("#()[].:* ") or next(filter(None, match.groups()), "")
        heading = find_problem_name(title, names)
        if heading is not None:
            headings.append((heading, match.start(), match.end()))
    environments = list(_ENVIRONMENT.finditer(text))
    named = [(find_problem_name(m["title"] or "", names), m.start(), m.end()) for m in environments]
    if not headings and any(name for name, *_ in named):
        return [(name, start, end) for name, start, end in named if name is not None]
    items = environments or list(_ITEM.finditer(text))
    if not headings and len(items) == len(names) > 1:
        return [(n, i.start(), i.end()) for n, i in zip(names, items, strict=True)]
    return headings
