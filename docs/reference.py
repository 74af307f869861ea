"""Write the API reference as Markdown, from the docstrings of public names.

The source is parsed, not imported: that needs no torch, and keeps annotations as they are written.
"""

import ast
import re
import textwrap
from collections.abc import Iterator
from functools import cache
from pathlib import Path

PACKAGE = Path(__file__).parents[1] / "src" / "workings"
MAX_SIGNATURE_WIDTH = 88  # longer signatures have one argument per line
Definition = ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef


def packages() -> list[str]:
    """List the packages and modules in import order, lowest first."""
    text = (PACKAGE.parents[1] / "docs" / "design.md").read_text(encoding="utf-8")
    return re.findall(r"^  (\w+)(?:\.py|/)\s", text, flags=re.MULTILINE)


def reference(package: str) -> str:
    """Return the reference page of a package or module."""
    modules = filter(None, map(describe_module, _files(package)))
    return "\n\n".join([f"# workings.{package}", *modules]) + "\n"


def _files(package: str) -> list[Path]:
    path = PACKAGE / package
    return sorted(path.rglob("*.py")) if path.is_dir() else [path.with_suffix(".py")]


@cache
def _parse(file: Path) -> ast.Module:
    return ast.parse(file.read_text(encoding="utf-8"))


def package_page() -> str:
    """Return the page of `workings` itself: its public names, and where each is defined."""
    tree = _parse(PACKAGE / "__init__.py")
    tables = {ast.unparse(n.targets[0]): n.value for n in tree.body if isinstance(n, ast.Assign)}
    modules: dict[str, str] = ast.literal_eval(tables["_LAZY_MODULES"])
    lines = [f"- `workings.{name}`: {_summary(name, modules[name])}" for name in sorted(modules)]
    return "\n".join(["# workings", "", ast.get_docstring(tree) or "", "", *lines, ""])


def _summary(name: str, module: str) -> str:
    """Return the first line of a name's docstring, with a link to its full description."""
    if name == module:  # a subpackage
        tree = _parse(PACKAGE / name / "__init__.py")
        first_line = (ast.get_docstring(tree) or "").partition("\n")[0]
        return f"{first_line} [More]({name}.md)"
    package, *inside = module.split(".")
    files = [PACKAGE.joinpath(package, *inside).with_suffix(".py")] if inside else _files(package)
    for file in files:
        for node in _parse(file).body:
            if isinstance(node, Definition) and node.name == name:
                first_line = (ast.get_docstring(node) or "").partition("\n")[0]
                return f"{first_line} [More]({package}.md#{name.lower()})"
    raise LookupError(f"workings.{name} is not in workings.{module}")


def describe_module(file: Path) -> str:
    """Return the docstring of a module and the description of each public name, in source order."""
    tree = _parse(file)
    parts = file.relative_to(PACKAGE.parent).with_suffix("").parts
    name = ".".join(part for part in parts if part != "__init__")
    summary = markdown(ast.get_docstring(tree) or "")
    heading = f"## {name}" if len(parts) > 2 and parts[-1] != "__init__" else ""
    marks = "###" if heading else "##"
    names = [describe(node, marks) for node in tree.body if isinstance(node, Definition)]
    names = [text for text in names if text]
    return "\n\n".join(filter(None, [heading, summary, *names])) if summary or names else ""


def describe(node: Definition, marks: str, owner: str = "") -> str:
    """Return the description of a public function, or of a public class with its methods."""
    docstring = ast.get_docstring(node)
    if node.name.startswith("_") or not docstring:
        return ""
    heading = f"{marks} {owner}{node.name}"
    inside = node.body if isinstance(node, ast.ClassDef) else []
    methods = [
        describe(m, f"{marks}#", f"{node.name}.") for m in inside if isinstance(m, Definition)
    ]
    code = f"```python\n{signature(node)}\n```"
    return "\n\n".join(filter(None, [heading, code, markdown(docstring), *methods]))


def signature(node: Definition) -> str:
    """Return the signature; one argument per line if it is too long for one line."""
    if isinstance(node, ast.ClassDef):
        return _class_signature(node)
    result = f" -> {ast.unparse(node.returns)}" if node.returns else ""
    return _format_call(f"def {node.name}", list(_arguments(node.args)), result)


def _class_signature(node: ast.ClassDef) -> str:
    """Return the arguments of `__init__`, or the fields with their comments."""
    init = next(
        (n for n in node.body if isinstance(n, ast.FunctionDef) and n.name == "__init__"), None
    )
    if init is not None:
        return _format_call(f"class {node.name}", list(_arguments(init.args))[1:], "")
    bases = ", ".join(map(ast.unparse, node.bases))
    next_statement = dict(zip(node.body, node.body[1:], strict=False))
    fields = [
        f"    {ast.unparse(n)}{_comment(next_statement.get(n))}"
        for n in node.body
        if isinstance(n, ast.AnnAssign) and not ast.unparse(n.target).startswith("_")
    ]
    return "\n".join([f"class {node.name}" + (f"({bases})" if bases else ""), *fields])


def _comment(below: ast.stmt | None) -> str:
    """Return the string below a field as a comment: the help text of a recipe's key."""
    if not isinstance(below, ast.Expr) or not isinstance(below.value, ast.Constant):
        return ""
    text = " ".join(str(below.value.value).split())
    lines = textwrap.wrap(text, 80, break_on_hyphens=False)
    return "".join(f"\n        # {line}" for line in lines)


def _format_call(name: str, arguments: list[str], result: str) -> str:
    line = f"{name}({', '.join(arguments)}){result}"
    if len(line) <= MAX_SIGNATURE_WIDTH:
        return line
    inside = "".join(f"    {argument},\n" for argument in arguments)
    return f"{name}(\n{inside}){result}"


def _arguments(arguments: ast.arguments) -> Iterator[str]:
    """Yield each parameter with its type and default, and the separators `/` and `*`."""
    positional = [*arguments.posonlyargs, *arguments.args]
    defaults = [None] * (len(positional) - len(arguments.defaults)) + list(arguments.defaults)
    for k, (argument, default) in enumerate(zip(positional, defaults, strict=True), 1):
        yield _argument(argument, default)
        if k == len(arguments.posonlyargs):
            yield "/"
    if arguments.vararg:
        yield f"*{_argument(arguments.vararg, None)}"
    elif arguments.kwonlyargs:
        yield "*"
    for argument, default in zip(arguments.kwonlyargs, arguments.kw_defaults, strict=True):
        yield _argument(argument, default)
    if arguments.kwarg:
        yield f"**{_argument(arguments.kwarg, None)}"


def _argument(argument: ast.arg, default: ast.expr | None) -> str:
    annotation = f": {ast.unparse(argument.annotation)}" if argument.annotation else ""
    if default is None:
        return f"{argument.arg}{annotation}"
    equals = " = " if annotation else "="
    return f"{argument.arg}{annotation}{equals}{ast.unparse(default)}"


def markdown(docstring: str) -> str:
    """Put the examples of a docstring into code fences; an example ends at an empty line."""
    return re.sub(r"(?m)^ *>>> .*(?:\n *\S.*)*", r"```pycon\n\g<0>\n```", docstring)
