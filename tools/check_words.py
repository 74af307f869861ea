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

BANNED_NAMES = frozenset(
    [
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
    ]
)
"""Identifiers that readers did not recognize: functions, classes, attributes, parameters, variables."""

ALLOWED: dict[str, str] = {}
"""Banned names that are allowed after all, each with the reason."""

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
    text = path.read_text(encoding="utf-8")
    tree = ast.parse(text)
    where = path.relative_to(ROOT)
    for line, name in sorted(set(_names(tree))):
        if name.strip("_") in BANNED_NAMES and name not in ALLOWED:
            yield f"{where}:{line}: the name {name!r} is banned: use the field's noun or verb"
    if path.stem.strip("_") in BANNED_NAMES:
        yield f"{where}:1: the module name {path.stem!r} is banned"
    if where.parts[0] != "src":
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


def _names(tree: ast.Module) -> Iterator[tuple[int, str]]:
    """Yield every name that a file defines, with its line."""
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            yield node.lineno, node.name
        elif isinstance(node, ast.arg):
            yield node.lineno, node.arg
        elif isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
            yield node.lineno, node.id
        elif isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Store):
            yield node.lineno, node.attr


def main() -> int:
    """Print all violations; return 1 if there are any."""
    files = [p for folder in FOLDERS for p in sorted((ROOT / folder).rglob("*.py"))]
    violations = [line for file in files for line in check_file(file)]
    for line in violations:
        sys.stdout.write(f"{line}\n")
    return 1 if violations else 0


if __name__ == "__main__":
    sys.exit(main())
