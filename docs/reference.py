"""The API reference: what the packages' public names say of themselves, as Markdown.

Read off the source, not off imported modules: that takes no torch, and shows what is written.
"""

import ast
import re
import textwrap
from collections.abc import Iterator
from pathlib import Path

PACKAGE = Path(__file__).parents[1] / "src" / "workings"
LONGEST = 88  # characters of a signature in one line
Definition = ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef


def packages() -> list[str]:
    """Name the packages in import order, lowest first."""
    text = (PACKAGE.parents[1] / "docs" / "design.md").read_text(encoding="utf-8")
    return re.findall(r"^  (\w+)(?:\.py|/)\s", text, flags=re.MULTILINE)


def reference(room: str) -> str:
    """Write the page of a room."""
    return "\n\n".join([f"# workings.{room}", *filter(None, map(module, _files(room)))]) + "\n"


def _files(room: str) -> list[Path]:
    home = PACKAGE / room
    return sorted(home.rglob("*.py")) if home.is_dir() else [home.with_suffix(".py")]


def front() -> str:
    """Write the page of the package itself: where its own names are at home."""
    tree = ast.parse((PACKAGE / "__init__.py").read_text(encoding="utf-8"))
    tables = {ast.unparse(n.targets[0]): n.value for n in tree.body if isinstance(n, ast.Assign)}
    homes: dict[str, str] = ast.literal_eval(tables["_LAZY_MODULES"])
    lines = [f"- `workings.{name}`: {_linked(name, homes[name])}" for name in sorted(homes)]
    return "\n".join(["# workings", "", ast.get_docstring(tree) or "", "", *lines, ""])


def _linked(name: str, home: str) -> str:
    """What a name says of itself first, and a link to the page where the rest stands."""
    room, *inside = home.split(".")
    files = [PACKAGE.joinpath(room, *inside).with_suffix(".py")] if inside else _files(room)
    for file in files:
        for node in ast.parse(file.read_text(encoding="utf-8")).body:
            if isinstance(node, Definition) and node.name == name:
                said = (ast.get_docstring(node) or "").partition("\n")[0]
                return f"{said} [More]({room}.md#{name.lower()})"
    raise LookupError(f"workings.{name} is not in workings.{home}")


def module(file: Path) -> str:
    """Describe a file: what it is about, and every public name in the order of the source."""
    tree = ast.parse(file.read_text(encoding="utf-8"))
    parts = file.relative_to(PACKAGE.parent).with_suffix("").parts
    name = ".".join(part for part in parts if part != "__init__")
    about = markdown(ast.get_docstring(tree) or "")
    heading = f"## {name}" if len(parts) > 2 and parts[-1] != "__init__" else ""
    marks = "###" if heading else "##"
    found = [described(node, marks) for node in tree.body if isinstance(node, Definition)]
    found = [text for text in found if text]
    return "\n\n".join(filter(None, [heading, about, *found])) if about or found else ""


def described(node: Definition, marks: str, owner: str = "") -> str:
    """Describe a function or a class with its methods; nothing of what is private."""
    said = ast.get_docstring(node)
    if node.name.startswith("_") or not said:
        return ""
    heading = f"{marks} {owner}{node.name}"
    inside = node.body if isinstance(node, ast.ClassDef) else []
    methods = [
        described(m, f"{marks}#", f"{node.name}.") for m in inside if isinstance(m, Definition)
    ]
    code = f"```python\n{signature(node)}\n```"
    return "\n\n".join(filter(None, [heading, code, markdown(said), *methods]))


def signature(node: Definition) -> str:
    """Write how it is called; an argument a line where one line is too long."""
    if isinstance(node, ast.ClassDef):
        return _of_class(node)
    result = f" -> {ast.unparse(node.returns)}" if node.returns else ""
    return _called(f"def {node.name}", list(_arguments(node.args)), result)


def _of_class(node: ast.ClassDef) -> str:
    """A class is called as its __init__ is, or has its fields, with what is said of each."""
    first = next(
        (n for n in node.body if isinstance(n, ast.FunctionDef) and n.name == "__init__"), None
    )
    if first is not None:
        return _called(f"class {node.name}", list(_arguments(first.args))[1:], "")
    bases = ", ".join(map(ast.unparse, node.bases))
    said = dict(zip(node.body, node.body[1:], strict=False))
    fields = [
        f"    {ast.unparse(n)}{_comment(said.get(n))}"
        for n in node.body
        if isinstance(n, ast.AnnAssign) and not ast.unparse(n.target).startswith("_")
    ]
    return "\n".join([f"class {node.name}" + (f"({bases})" if bases else ""), *fields])


def _comment(below: ast.stmt | None) -> str:
    """The string below a field, which is what `workings train --help` says of a recipe's key."""
    if not isinstance(below, ast.Expr) or not isinstance(below.value, ast.Constant):
        return ""
    said = " ".join(str(below.value.value).split())
    lines = textwrap.wrap(said, 80, break_on_hyphens=False)
    return "".join(f"\n        # {line}" for line in lines)


def _called(name: str, arguments: list[str], result: str) -> str:
    line = f"{name}({', '.join(arguments)}){result}"
    if len(line) <= LONGEST:
        return line
    inside = "".join(f"    {argument},\n" for argument in arguments)
    return f"{name}(\n{inside}){result}"


def _arguments(given: ast.arguments) -> Iterator[str]:
    """Each parameter with its type and default, and the marks between them."""
    placed = [*given.posonlyargs, *given.args]
    defaults = [None] * (len(placed) - len(given.defaults)) + list(given.defaults)
    for k, (one, default) in enumerate(zip(placed, defaults, strict=True), 1):
        yield _argument(one, default)
        if k == len(given.posonlyargs):
            yield "/"
    if given.vararg:
        yield f"*{_argument(given.vararg, None)}"
    elif given.kwonlyargs:
        yield "*"
    for one, default in zip(given.kwonlyargs, given.kw_defaults, strict=True):
        yield _argument(one, default)
    if given.kwarg:
        yield f"**{_argument(given.kwarg, None)}"


def _argument(one: ast.arg, default: ast.expr | None) -> str:
    kind = f": {ast.unparse(one.annotation)}" if one.annotation else ""
    if default is None:
        return f"{one.arg}{kind}"
    equals = " = " if kind else "="
    return f"{one.arg}{kind}{equals}{ast.unparse(default)}"


def markdown(docstring: str) -> str:
    """Fence the examples of a docstring, which end at an empty line; the rest is Markdown."""
    return re.sub(r"(?m)^ *>>> .*(?:\n *\S.*)*", r"```pycon\n\g<0>\n```", docstring)
