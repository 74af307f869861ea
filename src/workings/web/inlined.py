"""A module of the page and all that it imports, as one text that stands by itself.

It reads the few forms of import and export that our own files use, and no others: each module
becomes a function that returns what it exports, so that its other names stay its own.
"""

import re
from functools import cache

from workings.web.assets import assets

_IMPORT = re.compile(
    r'^import (?:(\w+)|\{(\s*\w+(?:\s*,\s*\w+)*,?\s*)\}) from "\./(\w+\.js)";\n', re.MULTILINE
)
_DEFAULT = re.compile(r"^export default (?=\{)", re.MULTILINE)
_NAMED = re.compile(r"^export (?=(?:(?:async )?function|class|const) (\w+))", re.MULTILINE)
_OTHER = re.compile(r"^\s*(?:import|export)\b|\bimport\s*[.(]|^await\b", re.MULTILINE)
_ENDS_SCRIPT = re.compile(r"</script|<!--", re.IGNORECASE)


@cache
def inlined(name: str) -> str:
    """Write a module of `static/` with its imports inside; it exports what it did by default."""
    text = "\n".join(_module(one) for one in _ordered(name, ()))
    assert not _ENDS_SCRIPT.search(text), f"{name} cannot stand inside of a page"
    exports = _DEFAULT.search(_source(name)) is not None
    return text + (f"export default {_scope(name)}.default;\n" if exports else "")


def _ordered(name: str, path: tuple[str, ...]) -> list[str]:
    """List what a module needs, each once and before whatever imports it, then the module."""
    assert name not in path, f"{name} imports itself by way of {', '.join(path)}"
    needs = [found[3] for found in _IMPORT.finditer(_source(name))]
    inside = [one for need in needs for one in _ordered(need, (*path, name))]
    return list(dict.fromkeys([*inside, name]))


def _module(name: str) -> str:
    exports = [found[1] for found in _NAMED.finditer(_source(name))]
    text, defaults = _DEFAULT.subn("const $default = ", _NAMED.sub("", _source(name)))
    text = _IMPORT.sub(_bound, text)
    assert defaults <= 1, f"{name} has two defaults"
    assert not _OTHER.search(text), f"{name}: {_OTHER.search(text)}: a form that is not inlined"
    returned = ", ".join(exports + ["default: $default"] * defaults)
    return f"const {_scope(name)} = (() => {{\n{text}\nreturn {{ {returned} }};\n}})();\n"


def _bound(found: re.Match[str]) -> str:
    alone, names, module = found.groups()
    return f"const {{ {names or f'default: {alone}'} }} = {_scope(module)};\n"


def _scope(name: str) -> str:
    return f"${name.removesuffix('.js')}"


def _source(name: str) -> str:
    return assets()[name][0].decode()
