"""Results as text, HTML, LaTeX, SVG and pictures.

`text(x)`, `html(x)`, `latex(x)`, `svg(x)` and `picture(x)` show every result of `workings.problems`
and `workings.interpret`; `save(x, "x.pdf")` writes its picture as SVG, PDF or PNG. A class has one
module here that renders it, imported when it is needed.
"""

from collections.abc import Callable
from importlib import import_module
from typing import TYPE_CHECKING, Any

from workings.errors import UserError

if TYPE_CHECKING:
    from pathlib import Path

    from workings.render.pictures import Picture

__all__ = ["html", "latex", "picture", "register", "save", "svg", "text"]

# Classes by name, so that rendering one of them imports neither torch nor the others.
_MODULES = {
    "workings.problems.worked_problem.WorkedProblem": "workings.render.worked",
    "workings.problems.worked_problem.WorkedResult": "workings.render.worked",
    "workings.problems.derivation.CellDerivation": "workings.render.derivation",
    "workings.problems.search_tree.SearchTree": "workings.render.search_tree",
    "workings.interpret.results.AttentionMaps": "workings.render.attention_maps",
    "workings.interpret.results.Attribution": "workings.render.attribution",
    "workings.interpret.results.CaptionAttention": "workings.render.caption_attention",
    "workings.interpret.results.GateActivations": "workings.render.gates",
    "workings.interpret.results.GradientReport": "workings.render.gradient_flow",
    "workings.interpret.results.NeuronSearch": "workings.render.neurons",
    "workings.interpret.results.TranslatorComparison": "workings.render.comparison",
    "workings.render.training_report.TrainingReport": "workings.render.training_report",
}

# The function of a module that makes a format, and what a message calls the format.
_FORMATS = {
    "render_text": "text",
    "render_page": "an HTML page",
    "render_fragment": "an HTML fragment",
    "render_latex": "LaTeX",
    "render_picture": "a picture",
}


def text(result: object, *, width: int | None = None, color: bool = False) -> str:
    """Return a result as text for a terminal of `width` columns (None: this terminal's width).

    >>> from workings import Problem
    >>> print(text(Problem(X=[[1], [2]], scale="none").solve(), width=60).splitlines()[0])
    Given
    """
    return str(_renderer(result, "render_text")(result, width=width, color=color))


def html(result: object, *, fragment: bool = False) -> str:
    """Return a result as one HTML page that needs no other file, or as a fragment of a page."""
    return str(_renderer(result, "render_fragment" if fragment else "render_page")(result))


def latex(result: object) -> str:
    """Return a result as a LaTeX document."""
    return str(_renderer(result, "render_latex")(result))


def svg(result: object) -> str:
    """Return the picture of a result as SVG."""
    return picture(result).svg()


def picture(result: object) -> "Picture":
    """Return the picture of a result; it can be saved as SVG, PDF or PNG."""
    rendered: Picture = _renderer(result, "render_picture")(result)
    return rendered


def save(
    result: object,
    path: "str | Path",
    *,
    width: str | float | None = None,
    font_size: str | float | None = None,
    theme: str | None = None,
) -> None:
    """Write the picture of a result to a `.svg`, `.pdf` or `.png` file.

    `width` and `font_size` are pixels or lengths such as `"12cm"` and `"9pt"`; `theme` is light,
    dark or print.
    """
    from workings.render.picture_style import PictureStyle

    style = PictureStyle.parse(width, font_size, theme)
    picture(result).styled(style).save(path)


def register(cls: type, module: str) -> None:
    """Let a module render a class and its subclasses.

    The module has some of `render_text`, `render_page`, `render_fragment`, `render_latex` and
    `render_picture`.
    """
    _MODULES[_class_path(cls)] = module


def _renderer(result: object, function: str) -> Callable[..., Any]:
    """Return the function that makes a format of this result."""
    path = next((p for p in map(_class_path, type(result).__mro__) if p in _MODULES), None)
    if path is None:
        known = ", ".join(sorted(name.rpartition(".")[2] for name in _MODULES))
        raise UserError(f"{type(result).__name__} cannot be rendered: expected one of {known}")
    module = import_module(_MODULES[path])
    renderer: Callable[..., Any] | None = getattr(module, function, None)
    if renderer is None:
        available = ", ".join(n for name, n in _FORMATS.items() if hasattr(module, name))
        raise UserError(
            f"{type(result).__name__} cannot be rendered as {_FORMATS[function]}: "
            f"it has {available}"
        )
    return renderer


def _class_path(cls: type) -> str:
    return f"{cls.__module__}.{cls.__qualname__}"
