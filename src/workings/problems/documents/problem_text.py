r"""Read a problem from a document: LaTeX, Markdown or plain text.

- `NAME = matrix` is read in any form that `documents.matrices` parses, in `$$…$$`, `\[…\]`, align,
  code or prose; so is `NAME:` above a table. In a chain `Q = X W_Q = [A][B] = [C]` the last matrix
  on its own is the value of Q; a line that begins with `=` continues the chain before it. A name
  before an equals sign starts a new statement, whatever separates it from the matrix before.
- `documents.names` resolves names; a formula outranks the letter. X, weights, biases and the
  context are givens, all else is claimed; without X, Q, K and V are givens. C is the context, or X
  if there is no X; if the text has Q = C W_Q and K = X W_K, C is the input and X the context. Kᵀ is
  the transpose of K. M is the mask, of 0 and −∞ or of 1 and 0.
- The factors of a product [A][B] are X and W_Q if those have no value of their own; otherwise they
  are reprints. A matrix that is printed again with a few other numbers is compared with its first
  print; a claim is also checked separately ([[claim.again]]).
- A matrix without numbers is a formula and is skipped. A matrix with numbers and an unknown name is
  an error, so that none goes unchecked; the setting `ignore = ["P"]` skips it. A given that is
  ignored is unknown, and what is computed from it is not judged.
- Settings are keywords, or TOML in comments of the text: `% workings: scale = "none"` and
  `<!-- workings: mask = "causal" -->`. Formulas show a setting where it is not declared: W_Q X that
  vectors are columns, softmax(QKᵀ) that the scores are not scaled.
"""

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from workings.errors import UserError
from workings.problems.documents.collector import MatrixCollector
from workings.problems.documents.formulas import PROJECTIONS, normalize_name
from workings.problems.documents.matrices import MAX_TEXT_CHARS, Rows
from workings.problems.documents.names import RoleResolver
from workings.problems.documents.statements import find_statements
from workings.problems.numbers import read_number
from workings.problems.problem import Problem
from workings.problems.problem_file import (
    ProblemReader,
    format_claim_path,
    parse_problem_toml,
    prefix_errors,
    read_text_file,
    set_nested,
)
from workings.problems.reprints import count_differences, is_reprint

_COMMENT = re.compile(
    r"<!--|(?<!\\)(?<!\d)(?<!\d )%[^\n]*|^[ \t]*#+[ \t]*workings:[^\n]*", re.MULTILINE
)


def parse_problem_text(text: str, **settings: Any) -> Problem:
    r"""Read a problem from the text of a document; `settings` are those of a problem file.

    >>> slide = [r"$$X = \begin{bmatrix} 1 & 0 \\ 0 & 2 \end{bmatrix}$$"]
    >>> slide += [r"$$E = Q K^T = \begin{bmatrix} 1 & 0 \\ 0 & 5 \end{bmatrix}$$"]
    >>> parse_problem_text("\n".join(slide), scale="none").check().first.step
    'scores'
    """
    if len(text) > MAX_TEXT_CHARS:
        raise UserError(f"{len(text)} characters of text; at most {MAX_TEXT_CHARS} are allowed")
    text, comments = _extract_comments(text.replace("\r\n", "\n"))
    settings = {**comments, **settings}
    ignored = settings.pop("ignore", [])
    if not isinstance(ignored, list) or not all(isinstance(name, str) for name in ignored):
        raise UserError('ignore must be a list of names: ["P"]')
    heads = settings.get("heads", 1)
    resolver = RoleResolver(
        ProblemReader(settings).read_kind(), multi_head=isinstance(heads, int) and heads > 1
    )
    skipped = {normalize_name(name) for name in ignored}
    statements = [
        statement
        for statement in find_statements(text)
        if normalize_name(resolver.extract_name(statement.left)) not in skipped
    ]
    collector = MatrixCollector(resolver, statements)
    return _TextProblem(resolver, collector, settings, ignored).read()


def load_problem_text(path: str | Path, **settings: Any) -> Problem:
    """Read a problem from a document file; errors name the file."""
    with prefix_errors(path):
        return parse_problem_text(read_text_file(path), **settings)


def _extract_comments(text: str) -> tuple[str, dict[str, Any]]:
    """Return the text without comments, and the settings that the comments hold."""
    pieces, settings, position = [], [], 0
    while mark := _COMMENT.search(text, position):
        end = mark.end()
        if mark.group() == "<!--":
            end = text.find("-->", end)
            end = end + 3 if end >= 0 else len(text)
        comment = text[mark.start() : end].strip("<!->%# \t\r\n")
        if comment.startswith("workings:"):
            settings.append(comment.removeprefix("workings:").strip())
        pieces.append(text[position : mark.start()])
        position = end
    try:
        return "".join([*pieces, text[position:]]), parse_problem_toml("\n".join(settings))
    except UserError as error:
        raise UserError(f"settings in a comment: {error}") from None


class _TextProblem:
    """A problem from the collected matrices of a text and its settings."""

    def __init__(
        self,
        resolver: RoleResolver,
        collector: MatrixCollector,
        settings: Mapping[str, Any],
        ignored: list[str],
    ) -> None:
        self._resolver, self._collector, self._settings = resolver, collector, settings
        self._ignored, self._given = ignored, _get_subtable(settings, "given")
        self._formulas = collector.infer_settings()

    def read(self) -> Problem:
        """Return the problem."""
        problem = self._read_as_shapes_fit()
        self._reject_several_examples(problem)
        return problem

    def _reject_several_examples(self, problem: Problem) -> None:
        """Reject a step that is printed twice with quite different numbers, if one is wrong.

        The text then has two examples, and one of them would be checked with the other's numbers.
        """
        values = self._collector.values
        repeated = []
        for claim in problem.claims:
            prints = values.get(format_claim_path(problem.kind, claim.key), {})
            if claim.reprint and not all(is_reprint(*pair) for pair in _pair_with_first(prints)):
                repeated.append(claim.key)
        if not repeated:
            return
        for checked in problem.check().steps:
            if checked.step.key in repeated and checked.verdict == "wrong":
                raise UserError(
                    f"{checked.step.key} is printed twice, with different numbers: expected a"
                    " single problem"
                )

    def _read_as_shapes_fit(self) -> Problem:
        """Return the problem; where nothing says if vectors are rows, as the shapes fit."""
        if "vectors" in self._settings or self._formulas.vectors is not None:
            return self._read_with(self._formulas.vectors or "rows")
        try:
            return self._read_with("rows")
        except UserError as error:
            try:
                problem = self._read_with("columns")
            except UserError:
                raise error from None
            if problem.check().counts["wrong"]:
                hint = '(or declare vectors = "columns", which the shapes fit)'
                raise UserError(f"{error} {hint}") from None
            problem.assumption = 'each token is a column: declare vectors = "columns"'
            return problem

    def _read_with(self, vectors: str) -> Problem:
        settings = {**({} if vectors == "rows" else {"vectors": vectors}), **self._settings}
        is_column = settings.get("vectors") == "columns"
        self._collector.collect(is_column, "mask" in self._settings)
        unknown = self._find_unknown_weights()
        table, formulas = self._to_table(settings, unknown), self._formulas
        problem = Problem(**table)
        undeclared = problem.undeclared
        by_formula: dict[str, Any] = {}  # settings that only formulas show
        if formulas.normalizer == "softmax":
            undeclared -= {"normalizer"}
        elif formulas.normalizer is not None:
            by_formula["normalizer"] = formulas.normalizer
        if formulas.is_unscaled and "scaled" not in self._collector.values:
            by_formula["scale"] = "none"
        elif formulas.divisor is not None:
            if formulas.divisor.is_default(problem.sizes["k"] // problem.setting.heads):
                undeclared -= {"scale"}
            elif formulas.divisor.value:
                by_formula["scale"] = formulas.divisor.value
        if by_formula.keys() & undeclared:
            problem = Problem(**{**by_formula, **table})
        problem.undeclared = undeclared - ({"vectors"} if formulas.vectors else set())
        problem.has_unknown_mask = formulas.has_mask and "mask" in undeclared
        problem.unjudged = unknown
        return problem

    def _find_unknown_weights(self) -> dict[str, str]:
        """Return the printed steps whose weights are not known, and the reason.

        A weight that is ignored is not the identity; neither is one that is not printed, if the
        step differs from its input.
        """
        values, unknown = self._collector.values, dict[str, str]()
        pairs: dict[str, tuple[Rows, Rows]] = {}  # input and step without a printed weight
        if not self._resolver.is_attention:
            return unknown
        resolve = self._resolver.resolve_name
        ignored = {role: name for name in self._ignored if (role := resolve(name))}
        for step in (*PROJECTIONS, "output"):
            weight, bias = (f"{letter}_{step[:1].upper()}" for letter in "Wb")
            names = [ignored[n] for n in (weight, bias) if n in ignored and n not in values]
            if names:
                unknown[step] = f"{names[0]} is ignored"
            elif step in PROJECTIONS and not {weight, bias} & (values.keys() | self._given.keys()):
                source = values.get("X") if step == "Q" else values.get("context", values.get("X"))
                if source and step in values:
                    pairs[step] = (_get_first(source), _get_first(values[step]))
        # One step that is almost its input is a copy with a slip.
        others = [
            step
            for step, pair in pairs.items()
            if not is_reprint(*pair) or count_differences(*pair)
        ]
        if unknown or len(others) > 1 or not all(is_reprint(*pairs[step]) for step in others):
            unknown |= {step: f"W_{step} is not given" for step in others}
        return unknown

    def _find_unjudged_steps(self, unknown: Mapping[str, str]) -> set[str]:
        """Return the steps that cannot be computed, since a matrix before them is not known."""
        for step in ("Q", "K"):
            if step in unknown and step not in self._collector.values:
                raise UserError(f"{unknown[step]}: print {step}, or nothing after it can be judged")
        is_unknown = "V" in unknown and "V" not in self._collector.values
        return {"mixed", "output"} if is_unknown else {"output"} & unknown.keys()

    def _to_table(self, settings: Mapping[str, Any], unknown: Mapping[str, str]) -> dict[str, Any]:
        """Return the table of the corresponding problem file."""
        kind, values = self._resolver.kind, self._collector.values
        table, given = dict(settings), dict(self._given)
        claims: list[tuple[str, list[Rows | None]]] = []
        unjudged = self._find_unjudged_steps(unknown)
        if not values and not given:
            raise UserError(
                "no matrix found: expected X = …, W_Q = … and claims such as scores = …"
            )
        is_attention = kind.name == "attention"
        for role, versions in values.items():
            first, *others = versions.values()
            is_mask = role == "mask" and is_attention
            is_claim = is_attention and role in PROJECTIONS and "X" in values
            is_claim = is_claim and role not in unknown
            if role.rpartition(".")[2] in unjudged:
                continue
            if not is_mask and (is_claim or role not in kind.matrices):
                claims.append((role, [first, *others]))
                continue
            others = [rows for rows in others if _parse_values(rows) != _parse_values(first)]
            if any(is_mask or not is_reprint(first, rows) for rows in others):
                raise UserError(
                    f"{role} is given twice, with different numbers: expected a single problem"
                )
            if is_mask:
                table.setdefault("mask", _to_binary_mask(first))
            else:
                given.setdefault(role, first)
                claims.append((role, [None, *others]))
        has_weights = any(name.startswith(("W_", "b_")) for name in given)
        if is_attention and "X" not in given and (has_weights or not given.keys() & {*PROJECTIONS}):
            raise UserError(f"X is missing: found {', '.join(values)}, but no X = …")
        printed = [role for role in PROJECTIONS if role in unknown and {role, "X"} <= given.keys()]
        table |= {"rounded": printed} if printed else {}
        claim = {**_nest_claims(claims), **_get_subtable(settings, "claim")}
        return {**table, "given": given, "claim": claim}


def _pair_with_first(prints: Mapping[Any, Rows]) -> list[tuple[Rows, Rows]]:
    rows = list(prints.values())
    return [(rows[0], other) for other in rows[1:]]


def _get_first(prints: Mapping[Any, Rows]) -> Rows:
    return next(iter(prints.values()))


def _get_subtable(settings: Mapping[str, Any], name: str) -> dict[str, Any]:
    table = settings.get(name, {})
    if not isinstance(table, Mapping):
        raise UserError(f"{name} must be a table: [{name}]")
    return dict(table)


def _nest_claims(claims: list[tuple[str, list[Rows | None]]]) -> dict[str, Any]:
    """Return the claims as nested tables: `head.2.scores`, and repetitions under `again`.

    The first print of a given is None, since it is not claimed.
    """
    tables: list[dict[str, Any]] = [{}]
    for role, versions in claims:
        for reprint, rows in enumerate(versions):
            if reprint == len(tables):
                tables.append({})
            if rows is not None:
                set_nested(tables[reprint], role.split("."), rows)
    first, *others = tables
    return {**first, "again": others} if others else first


def _to_binary_mask(rows: Rows) -> Rows:
    """Convert an additive mask of 0 and −∞ to one of 1 and 0; leave one of 1 and 0 as it is."""
    numbers = _parse_values(rows)
    if any(value == 1 for row in numbers for value in row):
        return rows

    def convert(value: float) -> str:  # "?" is rejected when the mask is read
        return "1" if value == 0 else "0" if value < -9_999 else "?"

    return [[convert(value) for value in row] for row in numbers]


def _parse_values(rows: Rows) -> list[list[float]]:
    """Return the values of the cells; a blank is NaN, which equals nothing."""
    numbers = [[read_number(cell, "") for cell in row] for row in rows]
    return [[float("nan") if n is None else n.value for n in row] for row in numbers]
