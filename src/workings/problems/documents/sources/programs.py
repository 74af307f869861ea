"""Name the matrices that a program prints by the expressions of its code; nothing is executed."""

import ast
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from workings.problems.documents.sources.dialects import unwrap_tensors
from workings.problems.documents.sources.grids import find_grids

_MAX_CODE = 50_000
_FENCE = re.compile(r"[ \t]*(`{3,}|~{3,})[ \t]*([^\n`]*)")
_PROMPT = re.compile(r"[ \t]*(?:>>>|In \[\d*\]:)[ \t]?")
_CONTINUATION = re.compile(r"[ \t]*\.{3,}:?[ \t]?")
_OUTPUT_PROMPT = re.compile(r"[ \t]*Out\[\d*\]:")
_COMMENT = re.compile(r"[ \t]*(?:#+>?|//)[ \t]?(?=[ \t]*(?:[\[(\d.\-]|array\(|tensor\(|Matrix\())")
_ASSIGNMENT = re.compile(r"\s*\w[\w, ]*=[^=]")
_MAX_PROSE = 4  # lines between code and its output
_CODE_LANGUAGES = re.compile(r"\{?\.?(?:python|py|ipython|pycon|sage|julia)\d?\b", re.IGNORECASE)
_VIEWS = frozenset(  # methods that change how a matrix is shown, and not its numbers
    ["round", "detach", "cpu", "numpy", "tolist", "evalf", "n", "to_string", "squeeze", "copy",
     "float", "double", "item", "contiguous", "clone", "format", "head", "to_numpy"]
)  # fmt: skip
_VIEW_FUNCTIONS = frozenset(
    ["round", "around", "asarray", "array", "DataFrame", "N", "str", "repr", "list", "to_numpy",
     "display", "pprint", "array2string", "Matrix", "tensor"]
)  # fmt: skip
_MEASURES = frozenset(  # what prints no matrix of the problem
    ["shape", "dtype", "size", "ndim", "len", "type", "allclose", "device", "Size", "isclose"]
)
_SUMS = frozenset(["sum", "mean", "max", "min", "argmax", "all", "any"])


@dataclass
class Prints:
    """What a piece of code prints: expressions without a label, and the value of its last line.

    A matrix that no name fits, such as a sum over rows, has the name "".
    """

    printed: list[str] = field(default_factory=list)
    last: list[str] = field(default_factory=list)
    lines: set[int] = field(default_factory=set)  # of the code that only print, from 0


def find_prints(code: str) -> Prints:
    r"""Return what a piece of Python prints.

    >>> find_prints("Q = X @ W\nprint(Q); print('K:', K)\nw.round(2), V")
    Prints(printed=['Q'], last=['w', 'V'], lines={1, 2})
    """
    prints = Prints()
    lines = code[:_MAX_CODE].split("\n")
    source = "\n".join("" if re.match(r"\s*[%!?]", line) else line for line in lines)
    try:
        body = ast.parse(source).body
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return prints
    statements = [node for node in body if isinstance(node, ast.Expr)]
    for node in statements:
        call = node.value
        if isinstance(call, ast.Call) and _get_name(call.func) in ("print", "display", "pprint"):
            prints.printed += _list_arguments(call, source)
        elif node is body[-1]:
            values = call.elts if isinstance(call, ast.Tuple) else [call]
            prints.last = [name for v in values if (name := _name(v, source)) is not None]
        else:
            continue
        start = node.lineno - 1
        is_whole = all(other is node or other.lineno - 1 != start for other in body)
        is_printed = all(isinstance(o, ast.Expr) for o in body if o.lineno - 1 == start)
        if is_whole or is_printed:
            prints.lines |= set(range(start, (node.end_lineno or node.lineno)))
    return prints


def _list_arguments(call: ast.Call, source: str) -> Iterator[str]:
    """Yield the printed expressions that no text names."""
    before: ast.expr | None = None
    for argument in call.args:
        is_labeled = isinstance(before, ast.Constant) and isinstance(before.value, str)
        if not is_labeled or not str(getattr(before, "value", "")).strip():
            name = _name(argument, source)
            if name is not None:
                yield name
        before = argument


def _name(node: ast.expr, source: str) -> str | None:
    """Return the expression of a matrix; "" if it has no name, None if it is no matrix."""
    for _ in range(20):
        if isinstance(node, ast.Call):
            name = _get_name(node.func)
            if name in _MEASURES:
                return None
            if name in _SUMS:
                return ""
            is_method = isinstance(node.func, ast.Attribute)
            if is_method and name in _VIEWS and not _is_module(node.func):
                node = node.func.value  # type: ignore[attr-defined]
                continue
            if name in _VIEW_FUNCTIONS and node.args:
                node = node.args[0]
                continue
        elif isinstance(node, ast.Attribute) and node.attr in ("values", "data"):
            node = node.value
            continue
        break
    if isinstance(node, ast.Constant | ast.JoinedStr | ast.Compare):
        return None
    if isinstance(node, ast.List | ast.Dict | ast.Subscript):
        return ""
    if isinstance(node, ast.Attribute) and node.attr in _MEASURES:
        return None
    text = ast.get_source_segment(source, node) or ""
    return "" if "\n" in text else text


def _is_module(function: ast.expr) -> bool:
    """Return True for np.round, a function of a module and not a method."""
    value = getattr(function, "value", None)
    return isinstance(value, ast.Name) and value.id in ("np", "numpy", "torch", "tf", "jnp", "pd")


def _get_name(function: ast.expr) -> str:
    if isinstance(function, ast.Attribute):
        return function.attr
    return function.id if isinstance(function, ast.Name) else ""


def name_prints(text: str, names: Sequence[str]) -> str:
    """Put names before the matrices of an output that have none, if they are as many."""
    text = unwrap_tensors(text)
    starts = [grid.start for grid in find_grids(text) if _is_bare(text, grid.start)]
    if len(starts) != len(names):
        return text
    if len(names) > 1 and text[: starts[0]].lstrip().startswith("("):
        text = text.replace("(", " ", 1)  # a tuple
    for start, name in reversed(list(zip(starts, names, strict=True))):
        if name:
            start = _find_constructor(text, start)
            text = f"{text[:start]}{name} = {text[start:]}"
    return text


def _is_bare(text: str, start: int) -> bool:
    """Return True for a matrix without a label in its line or in the line above."""
    above, _, before = text[: _find_constructor(text, start)].rpartition("\n")
    if before.strip("( \t,"):
        return False
    label = above.rstrip().rpartition("\n")[2].strip()
    return bool(before.strip()) or not label.endswith((":", "="))


def _find_constructor(text: str, start: int) -> int:
    """Return where `tensor(` or `array(` before a matrix begins."""
    match = re.search(r"\w+\($", text[max(0, start - 12) : start])
    return start - len(match[0]) if match else start


def name_outputs(text: str) -> str:
    """Name the matrices that the code in a text prints: after prompts, in blocks, in comments.

    Every line stays where it is.
    """
    lines = text.split("\n")
    _name_sessions(lines)
    code, last_stop = range(0), 0  # the code whose output comes next
    for start, stop, language in list(_find_blocks(lines)):
        prose = [line for line in lines[last_stop + 1 : start - 1] if line.strip()]
        last_stop = stop
        if _CODE_LANGUAGES.match(language) or _is_code(lines[start:stop]):
            code = range(_name_comments(lines, start, stop), stop)
        elif code and len(prose) <= _MAX_PROSE:
            _name_output(lines, code, range(start, stop))
            code = range(0)
    return "\n".join(lines)


def _name_output(lines: list[str], code: range, output: range) -> None:
    """Name the matrices of an output; leave out the code that prints them."""
    prints = find_prints("\n".join(lines[code.start : code.stop]))
    text = "\n".join(lines[output.start : output.stop])
    named = name_prints(text, [*prints.printed, *prints.last])
    lines[output.start : output.stop] = named.split("\n")
    if named != text:
        for k in prints.lines:
            line = lines[code.start + k]
            lines[code.start + k] = "; ".join(filter(_ASSIGNMENT.match, line.split(";")))


def _is_code(body: Sequence[str]) -> bool:
    return any(re.match(r"\s*(?:import |from \w+ import|print\(|def |\w+ = \w)", s) for s in body)


def _find_blocks(lines: Sequence[str]) -> Iterator[tuple[int, int, str]]:
    """Yield the first line, the end and the language of fenced blocks."""
    opened: tuple[int, str, str] | None = None
    for k, line in enumerate(lines):
        if opened is None:
            match = _FENCE.match(line)
            if match is not None:
                opened = (k + 1, match[1], match[2].strip())
        elif line.strip().startswith(opened[1]) and not line.strip().strip("`~"):
            yield opened[0], k, opened[2]
            opened = None


def _name_sessions(lines: list[str]) -> None:
    """Name the outputs after prompts; blank the prompts and the code that only prints."""
    k = 0
    while k < len(lines):
        prompt = _PROMPT.match(lines[k])
        if prompt is None:
            k += 1
            continue
        code_start = k
        lines[k] = lines[k][prompt.end() :]
        k += 1
        while k < len(lines) and (
            (match := _CONTINUATION.match(lines[k])) or (match := _PROMPT.match(lines[k]))
        ):
            lines[k] = lines[k][match.end() :]
            k += 1
        stop = k
        while (
            stop < len(lines) and not _PROMPT.match(lines[stop]) and not _FENCE.match(lines[stop])
        ):
            stop += 1
        lines[k:stop] = [_OUTPUT_PROMPT.sub(lambda m: " " * len(m[0]), s) for s in lines[k:stop]]
        _name_output(lines, range(code_start, k), range(k, stop))
        k = stop


def _name_comments(lines: list[str], start: int, stop: int) -> int:
    """Name the outputs in comments below the code that prints them; return where code goes on."""
    code_start = k = start
    while k < stop:
        end = k
        while end < stop and _COMMENT.match(lines[end]):
            end += 1
        if end == k:
            k += 1
            continue
        output = [line.lstrip().lstrip("#/>") for line in lines[k:end]]
        if find_grids("\n".join(output)):
            lines[k:end] = output
            _name_output(lines, range(code_start, k), range(k, end))
        code_start = k = end
    return code_start
