"""A problem as a file to keep: TOML, LaTeX, HTML or SVG."""

from typing import Any

from fastapi.responses import Response

from workings.problems import Problem
from workings.problems.make.problem_file import toml
from workings.web.asked import Export
from workings.web.one_file import page

TYPES = {
    "toml": ("workings.toml", "application/toml"),
    "latex": ("workings.tex", "application/x-tex"),
    "html": ("workings.html", "text/html; charset=utf-8"),
    "svg": ("workings.svg", "image/svg+xml"),
}


def attached(form: str, content: str) -> Response:
    """Answer with a file to keep."""
    name, kind = TYPES[form]
    headers = {"content-disposition": f'attachment; filename="{name}"'}
    return Response(content.encode("utf-8", "replace"), media_type=kind, headers=headers)


def exported(asked: Export) -> str:
    """Write a problem, its solution or the report on it."""
    problem = asked.table.problem()
    if asked.form == "toml":
        return toml(_file(asked, problem))
    shown = problem.check() if asked.report else problem.solve(asked.decimals)
    if asked.form == "svg":
        return shown.picture().svg()
    return shown.latex() if asked.form == "latex" else page(shown)


def _file(asked: Export, problem: Problem) -> dict[str, Any]:
    """Write the table as a file has it, cells as they were typed."""
    table, fields = asked.table, dict[str, Any]()
    fields |= {"title": table.title} if table.title else {}
    fields |= {"kind": table.kind, "vectors": table.vectors}
    own = {k: v for k, v in table.settings.items() if k not in problem.kind.matrices}
    inside = {k: own.pop(k) for k in ("count", "width", "base") if k in own}
    fields |= own
    for name in ("tokens", "context_tokens"):
        if getattr(table, name) is not None:
            fields[name] = getattr(table, name)
    fields["given"] = {**inside, **table.rows_given()}
    claim = table.nested_claims()
    return {**fields, "claim": claim} if claim else fields
