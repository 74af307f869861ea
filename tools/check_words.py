"""Check that names and docstrings use the field's words.

`make lint` runs this on src, tests, bench, fuzz and docs. The rules: a name is a noun or a verb of
the field, never a bare participle or a metaphor; a docstring's first line says what a function
returns or does.
"""

import ast
import re
import sys
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).parents[1]
FOLDERS = ("src", "tests", "bench", "fuzz", "docs", "tools")

PARTICIPLES = frozenset(
    {
        "told",
        "asked",
        "found",
        "laid",
        "shown",
        "mapped",
        "judged",
        "written",
        "together",
        "again",
        "apart",
        "anew",
        "whole",
        "somebody",
        "nobody",
        "whoever",
    }
)
"""Bare participles and adverbs: no name at all, not even of a local variable in src."""

PRIVATE_WORDS = frozenset(
    {
        "crew",
        "chief",
        "is_chief",
        "eye",
        "eyes",
        "shelf",
        "door",
        "lens",
        "glance",
        "glances",
        "straight",
        "turned",
        "traced",
        "wanted",
        "everyones",
        "chiefs",
        "settle",
        "unite",
        "gathered",
        "assembled",
        "parted",
        "harmless",
        "twin",
        "carried",
        "take_up",
        "remark",
        "located",
        "belongs",
        "as_it_was",
        "at_home",
        "longer",
        "by_hand",
        "heed",
        "rehearse",
        "spelt",
        "stretches",
        "framed",
        "drawn",
        "shared_out",
        "made_of",
        "data_told",
        "written_out",
        "looking",
        "looks",
        "comparing",
        "compares",
        "calm",
        "distinct",
    }
)
"""Names that readers did not recognize: no module, class, function, attribute or parameter."""

BANNED_OPENINGS = re.compile(
    r"(What|Whether|Whoever|Somebody|Nobody|Say whether|Tell whether|Say what|Tell what|Where)\b"
)
"""First words of a function's docstring that do not say what it returns or does."""

BANNED_PHRASES = re.compile(
    r"\b(nobody|somebody|whoever|anybody|by heart|the dice|of its own accord|is no number"
    r"|anew|the crew|the chief|a file a|a line a|a guide a)\b",
    re.IGNORECASE,
)
"""Phrases that no docstring or comment of ours has."""


def check_file(path: Path) -> Iterator[str]:
    """Yield one line per violation in a Python file."""
    tree = ast.parse(path.read_text(encoding="utf-8"))
    where = path.relative_to(ROOT)
    in_source = where.parts[0] == "src"
    definitions, variables = _names(tree)
    definitions.add((1, path.stem))
    checked = definitions | variables if in_source else definitions
    for line, name in sorted(checked):
        word = name.strip("_")
        if word in PARTICIPLES or (word in PRIVATE_WORDS and (line, name) in definitions):
            yield f"{where}:{line}: the name {name!r} is banned: use the field's noun or verb"
    if not in_source:
        return
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef | ast.Module):
            docstring = ast.get_docstring(node) or ""
            line = getattr(node, "lineno", 1)
            is_function = isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
            if is_function and BANNED_OPENINGS.match(docstring):
                yield f"{where}:{line}: the docstring does not say what is returned or done"
            if phrase := BANNED_PHRASES.search(docstring):
                yield f"{where}:{line}: the docstring says {phrase.group()!r}"


def _names(tree: ast.Module) -> tuple[set[tuple[int, str]], set[tuple[int, str]]]:
    """Return the names that a file defines, with their lines: definitions, and local variables."""
    definitions, variables = set(), set()
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            definitions.add((node.lineno, node.name))
        elif isinstance(node, ast.arg):
            definitions.add((node.lineno, node.arg))
        elif isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Store):
            definitions.add((node.lineno, node.attr))
        elif isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
            variables.add((node.lineno, node.id))
    return definitions, variables


def main() -> int:
    """Print all violations; return 1 if there are any."""
    files = [p for folder in FOLDERS for p in sorted((ROOT / folder).rglob("*.py"))]
    violations = [line for file in files for line in check_file(file)]
    for line in violations:
        sys.stdout.write(f"{line}\n")
    return 1 if violations else 0


if __name__ == "__main__":
    sys.exit(main())
