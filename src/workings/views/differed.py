"""Two runs told apart, for a terminal."""

from collections.abc import Mapping
from typing import Any

from workings.config import toml_value
from workings.views.plain import one_line
from workings.views.table import text_table

_LONG = 60  # characters of a text


def differed(found: Mapping[str, Any]) -> str:
    """Write what differs, and say of what does not that it is the same."""
    one, other = found["runs"]
    parts = []
    for what in ("configuration", "results"):
        rows = [(key, _written(a), _written(b)) for key, (a, b) in found[what].items()]
        parts.append(_part(what, text_table(("key", one, other), rows, left=3) if rows else ""))
    parts.append(_part("environment", "\n".join(found["environment"])))
    parts.append(_part("curves", _curves(found["curves"])))
    parts.append(_part("predictions", _predictions(found["predictions"])))
    return "\n\n".join(parts)


def _written(value: object) -> str:
    return "–" if value is None else toml_value(value)


def _part(what: str, told: str) -> str:
    return f"{what}: the same" if not told else f"{what}\n{told}"


def _curves(curves: Mapping[str, Any]) -> str:
    a, b = curves["epochs"]
    lines = [] if a == b else [f"epochs: {a} and {b}"]
    lines += [
        f"{name.replace('_', ' ')}: apart from epoch {value['from_epoch']} on, by at most "
        f"{value['at_most']:.2g}"
        for name, value in sorted(curves.items())
        if name != "epochs"
    ]
    return "\n".join(lines)


def _predictions(found: Mapping[str, Any]) -> str:
    if not found["texts"]:
        return "not compared: these runs have no labelled test texts"
    if not found["changed"]:
        return ""
    head = (
        f"{found['changed']:,} of {found['texts']:,} test texts: "
        f"{found['only_the_second_is_right']:,} only the second has right, "
        f"{found['only_the_first_is_right']:,} only the first"
    )
    rows = [
        (_cut(p["text"]), str(p["label"]), str(p["first"]), str(p["second"])) for p in found["some"]
    ]
    return f"{head}\n{text_table(('text', 'true', 'first', 'second'), rows, left=4)}"


def _cut(text: str) -> str:
    line = one_line(text)
    return line if len(line) <= _LONG else f"{line[: _LONG - 1]}…"
