"""The files of the page: all of them in memory, by name, so that no path is ever looked up."""

import re
from functools import cache
from importlib.resources import files

from workings.render import colors, svg_writer
from workings.render.page import base_css

_TYPES = {
    "css": "text/css; charset=utf-8",
    "html": "text/html; charset=utf-8",
    "js": "text/javascript; charset=utf-8",
    "svg": "image/svg+xml",
}
_CHART_COLORS = (
    "ink",
    "soft",
    "line",
    "paper",
    *(f"c{k}" for k in range(1, 9)),
)  # colours of charts


@cache
def load_assets() -> dict[str, tuple[bytes, str]]:
    """Read every file: its name, its content and its type."""
    found = {}
    for file in (files("workings.web") / "static").iterdir():
        ending = file.name.rpartition(".")[2]
        if ending in _TYPES:
            content = file.read_bytes()
            if file.name == "page.css":
                content = (
                    f"{base_css()}\n{svg_writer.picture_css(_CHART_COLORS)}\n{_role_css()}\n".encode()
                    + content
                )
            found[file.name] = (content, _TYPES[ending])
    return found


def component_css() -> str:
    """Write the components' rules, for where they stand by themselves; `style.css` comes first."""
    folder = files("workings.web") / "static"
    own = [(folder / name).read_text(encoding="utf-8") for name in ("page.css", "inspect.css")]
    return "\n".join([_role_css(), *own])


def _role_css() -> str:
    """Write the colours of queries, keys and values, light and dark."""
    light, dark = (
        " ".join(f"--{name}: {colour};" for name, colour in colors.ROLE_COLORS[theme].items())
        for theme in ("light", "dark")
    )
    return (
        f".workings {{ {light} }}\n"
        f"@media screen and (prefers-color-scheme: dark) {{ .workings {{ {dark} }} }}"
    )


_IMPORT = re.compile(
    r'^import (?:(\w+)|\{(\s*\w+(?:\s*,\s*\w+)*,?\s*)\}) from "\./(\w+\.js)";\n', re.MULTILINE
)
_DEFAULT_EXPORT = re.compile(r"^export default (?=\{)", re.MULTILINE)
_NAMED_EXPORT = re.compile(r"^export (?=(?:(?:async )?function|class|const) (\w+))", re.MULTILINE)
_UNSUPPORTED_FORM = re.compile(r"^\s*(?:import|export)\b|\bimport\s*[.(]|^await\b", re.MULTILINE)
_ENDS_SCRIPT = re.compile(r"</script|<!--", re.IGNORECASE)


@cache
def bundle_module(name: str) -> str:
    """Write a module of `static/` with its imports inside; it exports what it did by default."""
    text = "\n".join(_wrap_module(one) for one in _order_modules(name, ()))
    assert not _ENDS_SCRIPT.search(text), f"{name} cannot stand inside of a page"
    exports = _DEFAULT_EXPORT.search(_read_source(name)) is not None
    return text + (f"export default {_scope_name(name)}.default;\n" if exports else "")


def _order_modules(name: str, path: tuple[str, ...]) -> list[str]:
    """List what a module needs, each once and before whatever imports it, then the module."""
    assert name not in path, f"{name} imports itself by way of {', '.join(path)}"
    needs = [found[3] for found in _IMPORT.finditer(_read_source(name))]
    inside = [one for need in needs for one in _order_modules(need, (*path, name))]
    return list(dict.fromkeys([*inside, name]))


def _wrap_module(name: str) -> str:
    exports = [found[1] for found in _NAMED_EXPORT.finditer(_read_source(name))]
    text, defaults = _DEFAULT_EXPORT.subn(
        "const $default = ", _NAMED_EXPORT.sub("", _read_source(name))
    )
    text = _IMPORT.sub(_bind_import, text)
    assert defaults <= 1, f"{name} has two defaults"
    assert not _UNSUPPORTED_FORM.search(text), (
        f"{name}: {_UNSUPPORTED_FORM.search(text)}: a form that is not inlined"
    )
    returned = ", ".join(exports + ["default: $default"] * defaults)
    return f"const {_scope_name(name)} = (() => {{\n{text}\nreturn {{ {returned} }};\n}})();\n"


def _bind_import(found: re.Match[str]) -> str:
    alone, names, module = found.groups()
    return f"const {{ {names or f'default: {alone}'} }} = {_scope_name(module)};\n"


def _scope_name(name: str) -> str:
    return f"${name.removesuffix('.js')}"


def _read_source(name: str) -> str:
    return load_assets()[name][0].decode()
