r"""Map names in documents to matrices of a problem: `\mathbf{W}^Q` is W_Q, softmax(…)V is mixed.

A name is on the left of an equals sign, perhaps after a few words of prose. A letter like A means
different steps in different books, so a formula takes precedence over the letter: the one beside
the name, or else the formulas that the name is used in.
"""

import re
from collections.abc import Iterator, Sequence
from itertools import pairwise

from workings.errors import UserError, did_you_mean, safe_repr
from workings.plain_text import to_one_line
from workings.problems.documents.formulas import (
    ATTENTION_ROLES,
    NORMALIZERS,
    PROJECTIONS,
    find_divisor,
    infer_step,
    is_computation,
    is_prose,
    normalize_name,
    parse_formula,
    parse_product,
    split_factors,
    split_transpose,
)
from workings.problems.documents.latex import to_plain_text
from workings.problems.documents.statements import Statement
from workings.problems.kinds import Kind

_OTHER_ROLES = {
    **dict.fromkeys(("mu", "μ"), "mean"),
    **dict.fromkeys(("sigma2", "σ2", "var"), "variance"),
    **dict.fromkeys(("xhat", "normalized"), "normalised"),
    **dict.fromkeys(("γ",), "gamma"),
    **dict.fromkeys(("β",), "beta"),
    **dict.fromkeys(("pe",), "encoding"),
    **dict.fromkeys(("a", "alpha", "α"), "weights"),
    **dict.fromkeys(("e",), "scores"),
    **dict.fromkeys(("y",), "output"),
}
PER_HEAD_ROLES = frozenset({"scores", "scaled", "masked", "weights", "mixed"})
# A formula may show that one of these is another step; other names are unambiguous.
_AMBIGUOUS_ROLES = frozenset({"scores", "weights", "mixed", "output", "context", "mask"})
_UNAMBIGUOUS_NAMES = frozenset({"weights", "mixed", "attentionweights", "mask"})
_MAX_FORMULA_CHARS = 400  # longer texts are prose
_NUMBERED = re.compile(r"(.*?\D)(\d{1,3})")
_MARKUP = "*_#>•- `&|"


class RoleResolver:
    """Maps names of matrices to their roles in one kind of problem.

    A role is the name of a given, `mask` or the path of a claim: `scores`, `head.2.scores`.
    """

    def __init__(self, kind: Kind, multi_head: bool) -> None:
        self.kind, self._multi_head = kind, multi_head
        self._given_names = {normalize_name(name): name for name in kind.matrices}
        # Normalized name -> (index of the statement, role) in order: S may become S / √d_k.
        self._history: dict[str, list[tuple[int, str]]] = {}
        self._unused_inputs: set[str] = set()  # E and P of X = E + P
        self.roles: dict[str, str] = {}  # the first role of every learned name

    @property
    def is_attention(self) -> bool:
        """True for problems whose formulas are read."""
        return self.kind.name == "attention"

    def learn(self, statements: Sequence[Statement]) -> None:
        """Read the formulas of a document: which step each name is."""
        if not self.is_attention:
            return
        roles: dict[str, str] = {}
        for _ in range(2):  # the second time with names that are defined after their first use
            self._history = {}
            for index, statement in enumerate(statements):
                name = normalize_name(self.extract_name(statement.left))
                if not name or not self._is_ambiguous(name):
                    continue
                formulas = (parse_formula(text, roles) for text in list_formulas(statement))
                step = next(filter(None, map(infer_step, formulas)), None)
                if step is not None:
                    self._history.setdefault(name, []).append((index, step))
                    roles[name] = step
            roles = self._find_first_roles()
        self._learn_usage(statements)
        self.roles = self._find_first_roles()

    def _find_first_roles(self) -> dict[str, str]:
        return {name: roles[0][1] for name, roles in self._history.items()}

    def _is_ambiguous(self, name: str) -> bool:
        """Return True if a formula may decide what a normalized name is."""
        role = self._look_up(name)
        return role is None or (role in _AMBIGUOUS_ROLES and name.lower() not in _UNAMBIGUOUS_NAMES)

    def _learn_usage(self, statements: Sequence[Statement]) -> None:
        """Learn names without a formula of their own from those in which they are used."""
        names = {normalize_name(self.extract_name(statement.left)) for statement in statements}
        open_names = [n for n in names if n and n not in self._history and self._is_ambiguous(n)]
        # An open name stands in formulas as itself, with a mark.
        roles = self._find_first_roles() | {name: f"?{name}" for name in open_names}
        inputs: dict[str, set[str]] = {"Q": set(), "K": set(), "V": set()}
        learned: dict[str, str] = {}
        divided: set[str] = set()
        for statement in statements:
            left = normalize_name(self.extract_name(statement.left))
            for text in list_formulas(statement):
                formula = parse_formula(text, roles)
                divided |= {left} if find_divisor(formula) is not None else set()
                if self._look_up(left) == "X" and "+" in formula:
                    self._unused_inputs.update(s[1:] for s in formula if s.startswith("?"))
                for name, role in _list_uses(formula):
                    if role in PROJECTIONS:
                        inputs[role].add(name)
                    elif name.startswith("?"):
                        learned.setdefault(name[1:], role)
        for name, role in learned.items():
            role = "scaled" if role == "scores" and name in divided else role
            if self._look_up(name) != role and name not in self._unused_inputs:
                self._history[name] = [(-1, role)]
        self._learn_inputs(inputs)

    def _learn_inputs(self, inputs: dict[str, set[str]]) -> None:
        """Learn which name is the input: H in Q = H W_Q."""
        keys_values = inputs["K"] | inputs["V"]
        for name in inputs["Q"] | keys_values:
            if not name.startswith("?") or name[1:] in self._unused_inputs:
                continue
            is_both = name in inputs["Q"] and name in keys_values
            other = keys_values if name in inputs["Q"] else inputs["Q"]
            role = "context" if not is_both and "X" in other else "X"
            if role == "X" and name not in inputs["Q"] and inputs["Q"]:
                role = "context"
            self._history[name[1:]] = [(-1, role)]
            if role == "X" and not any("X" in names for names in inputs.values()):
                self._unused_inputs.add("X")  # Q = H W_Q: X is at most a part of H

    def extract_name(self, left: str) -> str:
        r"""Return the name from the left of an equals sign: Q for `\text{Step 1: } Q`."""
        last = re.split(r"\n|\t|\\q?quad(?![A-Za-z])|<[^<>]{1,60}>", left[-300:].strip())[-1]
        plain = to_plain_text(last).strip(_MARKUP)
        text = re.sub(r"(?<=\w) ?\([^()]*\)$", "", plain)  # Attention(Q, K, V)
        words = re.split(r"[:;,|]", text)[-1].strip(_MARKUP).split()
        for count in (3, 2, 1):
            name = " ".join(words[-count:])
            if self._look_up(name) is not None:
                return to_one_line(name)
        return to_one_line(words[-1][:60]) if words else ""

    def resolve(self, statement: Statement, index: int) -> tuple[str, bool] | None:
        """Return the role and whether the matrix is printed transposed; None: unknown name."""
        left = statement.left[-300:].rpartition(":")[2]  # without prose like "Step 2/4:"
        formula = parse_formula(left, self.roles) if self.is_attention else []
        if parse_product(formula) or is_computation(formula):
            step = infer_step(formula)
            if step is not None:
                return step, False
        name = self.extract_name(statement.left)
        bare, is_transposed = split_transpose(name)
        flat = normalize_name(bare)
        if flat in self._unused_inputs:
            return None
        roles = self._history.get(flat)
        if roles:
            role = next((role for k, role in reversed(roles) if k <= index), roles[0][1])
            return role, is_transposed
        known = self._look_up(name)
        if known is None or (known == "context" and _is_computed(statement)):
            return None
        return known, is_transposed

    def resolve_name(self, name: str) -> str | None:
        """Return the role of a bare name, numbered or not: W_Q for `W_Q^1`."""
        role = self._look_up(name)
        if role is None and (numbered := _NUMBERED.fullmatch(normalize_name(name))):
            role = self._look_up(numbered[1])
        return role

    def _look_up(self, name: str) -> str | None:
        flat = normalize_name(split_transpose(name)[0])
        if flat in self._given_names:
            return self._given_names[flat]
        numbered = _NUMBERED.fullmatch(flat)
        if not self.is_attention:
            if " " in name or not flat[:1].isalpha() or len(flat) > 30:
                return None
            if numbered and self.kind.part_name == "t":
                return f"t.{int(numbered[2])}.{numbered[1]}"
            return _OTHER_ROLES.get(flat.lower(), to_plain_text(name).replace("^", "_"))
        if flat.lower() in ATTENTION_ROLES:
            return ATTENTION_ROLES[flat.lower()]
        role = ATTENTION_ROLES.get(numbered[1].lower()) if numbered and self._multi_head else None
        if numbered and role in PER_HEAD_ROLES:
            return f"head.{int(numbered[2])}.{role}"
        return None

    def make_unknown_name_error(self, left: str) -> UserError:
        """Return the error for an unknown name, with the nearest known one."""
        name = self.extract_name(left)
        hint = did_you_mean(name, [*self.kind.matrices, "mask", *sorted(PER_HEAD_ROLES), "output"])
        if normalize_name(name) in self._unused_inputs:
            hint = "the formulas use it only in the input"
        quoted = safe_repr(name, 30)
        return UserError(
            f"{quoted} is not a matrix of the problem: {hint} (ignore = [{quoted}] skips it)"
        )


def list_formulas(statement: Statement) -> list[str]:
    """Return the segments of a statement that are formulas: short, without matrices or prose."""
    texts = [segment.texts[0] for segment in statement.segments if not segment.matrices]
    return [text for text in texts if len(text) < _MAX_FORMULA_CHARS and not is_prose(text)]


def _is_computed(statement: Statement) -> bool:
    """Return True if a formula computes a matrix, rather than naming it twice: C = X = […]."""
    return any(len(parse_formula(text)) > 1 for text in list_formulas(statement))


def _list_uses(formula: list[str]) -> Iterator[tuple[str, str]]:
    """Yield names in a formula with the role that it shows; an input with its projection."""
    factors = split_factors([symbol.lstrip("?") for symbol in formula])
    if factors is not None:
        marked = [symbol.removesuffix("ᵀ") for symbol in formula if symbol not in "×·*@"]
        for name, other in (marked, marked[::-1]):
            if other in ("W_Q", "W_K", "W_V"):
                yield name, other[2:]
            elif other in ("V", "W_O"):
                yield name, "weights" if other == "V" else "mixed"
    for before, symbol in pairwise(formula):
        is_argument = before in ("(", *NORMALIZERS) and not NORMALIZERS.isdisjoint(formula)
        if is_argument and symbol.startswith("?"):
            yield symbol.removesuffix("ᵀ"), "scores"
