"""The files of the page: all of them in memory, by name, so that no path is ever looked up."""

from functools import cache
from importlib.resources import files

from workings.views import colours, svg
from workings.views.style import css

_TYPES = {
    "css": "text/css; charset=utf-8",
    "html": "text/html; charset=utf-8",
    "js": "text/javascript; charset=utf-8",
    "svg": "image/svg+xml",
}
_DRAWN = ("ink", "soft", "line", "paper", *(f"c{k}" for k in range(1, 9)))  # colours of charts


@cache
def assets() -> dict[str, tuple[bytes, str]]:
    """Read every file: its name, its content and its type."""
    found = {}
    for file in (files("workings.web") / "static").iterdir():
        ending = file.name.rpartition(".")[2]
        if ending in _TYPES:
            content = file.read_bytes()
            if file.name == "page.css":
                content = f"{css()}\n{svg.css(_DRAWN)}\n{_roles()}\n".encode() + content
            found[file.name] = (content, _TYPES[ending])
    return found


def rules() -> str:
    """Write the components' rules, for where they stand by themselves; `style.css` comes first."""
    folder = files("workings.web") / "static"
    own = [(folder / name).read_text(encoding="utf-8") for name in ("page.css", "inspect.css")]
    return "\n".join([_roles(), *own])


def _roles() -> str:
    """Write the colours of queries, keys and values, light and dark."""
    light, dark = (
        " ".join(f"--{name}: {colour};" for name, colour in colours.ROLES[theme].items())
        for theme in ("light", "dark")
    )
    return (
        f".workings {{ {light} }}\n"
        f"@media screen and (prefers-color-scheme: dark) {{ .workings {{ {dark} }} }}"
    )
