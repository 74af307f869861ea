"""Collect the texts that are marked for translation in Python and in the page's scripts."""

import ast
import re
from functools import cache
from pathlib import Path

SOURCE = Path(__file__).parents[2] / "src" / "workings"
_FUNCTIONS = ("gettext", "gettext_noop", "ngettext")
_STRING = r"""(?:"(?:[^"\\]|\\.)*"|'(?:[^'\\]|\\.)*')"""
_SCRIPT_CALL = re.compile(rf"(?<![\w.$])t\(\s*({_STRING}(?:\s*\+\s*{_STRING})*)\s*[,)]")


@cache
def list_python_texts() -> dict[str, int]:
    """Return every marked text with the number of its forms: 2 if it depends on a number."""
    texts: dict[str, int] = {}
    for file in sorted(SOURCE.rglob("*.py")):
        code = file.read_text(encoding="utf-8")
        for node in ast.walk(ast.parse(code if "gettext" in code else "")):
            if isinstance(node, ast.Call) and getattr(node.func, "id", "") in _FUNCTIONS:
                text = node.args[0]
                if isinstance(text, ast.Constant):
                    assert isinstance(text.value, str)
                    texts[text.value] = 2 if node.func.id == "ngettext" else 1
                elif node.func.id == "ngettext" or isinstance(text, ast.JoinedStr):
                    raise AssertionError(f"{file}:{node.lineno}: expected a plain string")
    return texts


def list_script_texts() -> set[str]:
    """Return every text of the page's scripts that `t("…")` translates."""
    texts = set()
    for file in sorted((SOURCE / "web" / "static").glob("*.js")):
        for match in _SCRIPT_CALL.finditer(file.read_text(encoding="utf-8")):
            parts = re.findall(_STRING, match[1])
            texts.add("".join(ast.literal_eval(part) for part in parts))
    return texts
