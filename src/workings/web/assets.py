"""The page's static files, held in memory by name, and its modules bundled into one script."""

import re
from functools import cache
from html import escape
from importlib.resources import files

from workings.errors import install_command
from workings.render import colors, svg_writer
from workings.render.page import base_css
from workings.web.language import build_page_texts, format_language_names

_MEDIA_TYPES = {
    "css": "text/css; charset=utf-8",
    "html": "text/html; charset=utf-8",
    "js": "text/javascript; charset=utf-8",
    "json": "application/json",
    "svg": "image/svg+xml",
    "txt": "text/plain; charset=utf-8",
    "woff2": "font/woff2",
}
_INDENTATION = re.compile(rb"^ +", re.MULTILINE)
_CHART_COLORS = ("ink", "soft", "line", "paper", *(f"c{k}" for k in range(1, 9)))


@cache
def load_assets() -> dict[str, tuple[bytes, str]]:
    """Return the content and media type of every static file, by name.

    A request names a key of this dictionary, so no request can reach another path.
    """
    assets = {}
    for file in (files("workings.web") / "static").iterdir():
        suffix = file.name.rpartition(".")[2]
        if suffix in _MEDIA_TYPES:
            content = file.read_bytes()
            if file.name == "page.css":
                chart_css = svg_writer.picture_css(_CHART_COLORS)
                content = f"{base_css()}\n{chart_css}\n{_role_css()}\n".encode() + content
            elif file.name == "page.html":
                command = escape(install_command("all"))
                content = content.replace(b"INSTALL_COMMAND", command.encode())
                content = content.replace(b"LANGUAGES", format_language_names().encode())
            if suffix == "css":
                content = _INDENTATION.sub(b"", content)
            assets[file.name] = (content, _MEDIA_TYPES[suffix])
    texts = {name: (content, _MEDIA_TYPES["json"]) for name, content in build_page_texts().items()}
    return assets | texts


def component_css() -> str:
    """Return the CSS of the components outside of the page; `base_css()` must precede it."""
    folder = files("workings.web") / "static"
    sheets = [(folder / name).read_text(encoding="utf-8") for name in ("page.css", "inspect.css")]
    return "\n".join([_role_css(), *sheets])


def _role_css() -> str:
    """Return the colors of queries, keys and values as CSS variables, light and dark."""
    light, dark = (
        " ".join(f"--{name}: {color};" for name, color in colors.ROLE_COLORS[theme].items())
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
    """Return a module of `static/` and all its imports as one module with its default export."""
    text = "\n".join(_wrap_module(module) for module in _order_modules(name, ()))
    assert not _ENDS_SCRIPT.search(text), f"{name} would end the script element around it"
    has_default = _DEFAULT_EXPORT.search(_read_source(name)) is not None
    return text + (f"export default {_scope_name(name)}.default;\n" if has_default else "")


def _order_modules(name: str, path: tuple[str, ...]) -> list[str]:
    """Return a module and its imports, each once, dependencies first."""
    assert name not in path, f"circular import: {' → '.join((*path, name))}"
    imports = [match[3] for match in _IMPORT.finditer(_read_source(name))]
    before = [module for other in imports for module in _order_modules(other, (*path, name))]
    return list(dict.fromkeys([*before, name]))


def _wrap_module(name: str) -> str:
    """Return a module as a function scope that returns its exports."""
    exports = [match[1] for match in _NAMED_EXPORT.finditer(_read_source(name))]
    text, defaults = _DEFAULT_EXPORT.subn(
        "const $default = ", _NAMED_EXPORT.sub("", _read_source(name))
    )
    text = _IMPORT.sub(_bind_import, text)
    assert defaults <= 1, f"{name} has two default exports"
    unsupported = _UNSUPPORTED_FORM.search(text)
    assert not unsupported, f"{name}: {unsupported}: this form cannot be bundled"
    returned = ", ".join(exports + ["default: $default"] * defaults)
    return f"const {_scope_name(name)} = (() => {{\n{text}\nreturn {{ {returned} }};\n}})();\n"


def _bind_import(match: re.Match[str]) -> str:
    default, names, module = match.groups()
    return f"const {{ {names or f'default: {default}'} }} = {_scope_name(module)};\n"


def _scope_name(name: str) -> str:
    return f"${name.removesuffix('.js')}"


def _read_source(name: str) -> str:
    return load_assets()[name][0].decode()
