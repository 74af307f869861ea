r"""What people call the matrices of a problem: `\mathbf{W}^Q` is W_Q, and softmax(…)V is mixed.

Names come from the left of an equals sign, where there may be a word or two of prose before them.
A letter like A means different steps in different books, so the formula beside it decides first.
"""

import re
from functools import lru_cache

from workings.errors import UserError, did_you_mean
from workings.plain_text import to_one_line
from workings.problems.documents.latex import to_plain_text
from workings.problems.kinds import Kind
from workings.problems.numbers import quote_value

_ALIASES = {
    "X": "x input inputs embedding embeddings",
    "context": "context c memory",
    "Q": "q query queries",
    "K": "k key keys",
    "V": "v value values",
    "scores": "scores score s e similarity similarities energies logits attentionscores",
    "scaled": "scaled scaledscores",
    "masked": "masked maskedscores",
    "weights": "weights a a' alpha α p attentionweights attnweights attn probabilities",
    "mixed": "mixed z head attention contextvector contextvectors",
    "output": "output outputs out y o result",
    "mask": "mask m",
    "W_Q": "wq wquery wqueries",
    "W_K": "wk wkey wkeys",
    "W_V": "wv wvalue wvalues",
    "W_O": "wo w0 wout woutput",
    "b_Q": "bq bquery",
    "b_K": "bk bkey",
    "b_V": "bv bvalue",
    "b_O": "bo b0 bout boutput",
}
ATTENTION_ROLES = {word: role for role, words in _ALIASES.items() for word in words.split()}
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
_PER_HEAD_ROLES = frozenset({"scores", "scaled", "masked", "weights", "mixed"})
# A formula may tell that these are another step; other names mean what they say.
_AMBIGUOUS_ROLES = frozenset({"scores", "weights", "mixed", "output"})
_UNAMBIGUOUS_NAMES = frozenset({"weights", "mixed", "attentionweights"})

_SYMBOL = re.compile(
    r"\\?[A-Za-zα-ω]+(?:[_^](?:\(\w{1,20}\)|\\?[A-Za-z0-9]{1,20}))*'*(?:\.T\b|ᵀ)?|[()/+@*×·√]|\d+"
)
_TRANSPOSE = re.compile(r"(?:\^T|\.T|ᵀ)$")
_NUMBERED = re.compile(r"(.*?\D)(\d{1,3})")
_NORMALIZER_NAMES = frozenset({"softmax", "sigmoid"})
_TIMES = frozenset("×·*@")
_MARKUP = "*_#>•- `&"


@lru_cache(4096)
def normalize_name(name: str) -> str:
    r"""Leave out all that is spelling: `W_{Q}`, `W^Q` and `W_Q` are WQ.

    >>> normalize_name(r"\mathbf{W}^{(Q)}")
    'WQ'
    """
    return re.sub(r"[^\w']|_", "", to_plain_text(name))


def parse_formula(text: str) -> list[str]:
    r"""Read a formula: roles (`Kᵀ` transposed), `softmax`, operators, and what else there is.

    >>> parse_formula(r"\text{softmax}\left(\frac{QK^T}{\sqrt{d_k}}\right) V")
    ['softmax', '(', 'Q', 'Kᵀ', '/', '√', 'd_k', ')', 'V']
    """
    return [part for mark in _SYMBOL.findall(to_plain_text(text)) for part in _parse_symbol(mark)]


@lru_cache(4096)
def _parse_symbol(mark: str) -> tuple[str, ...]:
    bare = _TRANSPOSE.sub("", mark)
    flat = normalize_name(bare).lower()
    if flat in _NORMALIZER_NAMES:
        return ("softmax",)
    if mark in ("√", "\\sqrt", "sqrt"):
        return ("√",)
    if flat in ATTENTION_ROLES:
        return (ATTENTION_ROLES[flat] + "ᵀ" * (bare != mark),)
    first, second = mark[:1], mark[1:2]
    if first.isupper() and second.isupper() and len(mark) < 20 and first.lower() in ATTENTION_ROLES:
        return (ATTENTION_ROLES[first.lower()], *_parse_symbol(mark[1:]))  # XW_Q, QKᵀ
    return (mark,)


def parse_product(formula: list[str]) -> tuple[str, ...]:
    """Name the matrices of a plain product, X W_Q; () where the formula is anything else."""
    names = tuple(mark for mark in formula if mark not in _TIMES)
    known = all(mark.removesuffix("ᵀ") in _ALIASES for mark in names)
    return names if known and len(names) > 1 else ()


def _is_computation(formula: list[str]) -> bool:
    """Tell whether something is computed, or only named in prose, as in: after the softmax we add.

    >>> [_is_computation(parse_formula(text)) for text in ("softmax(S)", "S / 8", "2/4", "the softmax we add")]
    [True, True, False, False]
    """
    for before, mark, after in zip(["", *formula], formula, [*formula[1:], ""], strict=False):
        matrix = after.removesuffix("ᵀ") in _ALIASES
        applied = mark == "softmax" and (matrix or after in ("", "("))
        joins = mark in "/+" and before and after and not (before.isdigit() and after.isdigit())
        if applied or joins or mark == "√":
            return True
    return False


def mentions_matrix(formula: list[str]) -> bool:
    """Tell whether any matrix or function is named in a formula."""
    return any(mark.removesuffix("ᵀ") in _ALIASES or mark == "softmax" for mark in formula)


def infer_step(formula: list[str]) -> str | None:
    """Tell which step of attention a formula computes."""
    has = frozenset(mark.removesuffix("ᵀ") for mark in formula)
    if "W_O" in has and len(has) > 1:
        return "output"
    if "softmax" in has:
        return "mixed" if "V" in has else "weights"
    if {"V", "weights"} <= has:
        return "mixed"
    if {"Q", "K"} <= has or ("scores" in has and has & {"/", "mask"}):
        return "masked" if "mask" in has else "scaled" if has & {"/", "√"} else "scores"
    for name in ("Q", "K", "V"):
        if f"W_{name}" in has and has & {"X", "context"}:
            return name
    return None


class RoleResolver:
    """Finds the role of a matrix in one kind of problem from what it is called."""

    def __init__(self, kind: Kind, multi_head: bool) -> None:
        self.kind, self._multi_head = kind, multi_head
        self._given_names = {normalize_name(name): name for name in kind.matrices}
        self._formula_roles: dict[str, str] = {}

    def learn(self, left: str, formula: list[str]) -> None:
        """Remember what a formula says about the name on its left."""
        step = infer_step(formula)
        if step is not None:
            self._formula_roles.setdefault(self.extract_name(left), step)

    def extract_name(self, left: str) -> str:
        r"""Take the name from the left of an equals sign: `\text{Step 1: } Q` is Q."""
        last = re.split(r"\n|\\q?quad(?![A-Za-z])", left[-300:].strip())[-1]
        text = re.sub(
            r"(?<=\w) ?\([^()]*\)$", "", to_plain_text(last).strip(_MARKUP)
        )  # Attention(Q, K, V)
        words = re.split(r"[:;,]", text)[-1].strip(_MARKUP).split()
        for some in (words[-3:], words[-2:], words[-1:]):
            if self._look_up(" ".join(some)) is not None:
                return to_one_line(" ".join(some))
        return to_one_line(words[-1][:60]) if words else ""

    def resolve(self, left: str) -> tuple[str, bool] | None:
        """Find the role, and whether the matrix is printed transposed; None: no such name.

        A role is a given's name, `mask`, or a claim's path: `scores`, `head.2.scores`, `t.1.h`.
        """
        formula = parse_formula(left[-300:].rpartition(":")[2])  # before it, prose: Step 2/4
        if self.kind.name == "attention" and (parse_product(formula) or _is_computation(formula)):
            step = infer_step(formula)
            if step is not None:
                return step, False
        name = self.extract_name(left)
        role = self._look_up(name)
        if role is None:
            return None
        if role in _AMBIGUOUS_ROLES and normalize_name(name).lower() not in _UNAMBIGUOUS_NAMES:
            role = self._formula_roles.get(name, role)
        return role, _TRANSPOSE.search(name) is not None

    def _look_up(self, name: str) -> str | None:
        flat = normalize_name(_TRANSPOSE.sub("", name))
        if flat in self._given_names:
            return self._given_names[flat]
        numbered = _NUMBERED.fullmatch(flat)
        if self.kind.name != "attention":
            if " " in name or not flat[:1].isalpha() or len(flat) > 30:
                return None
            if numbered and self.kind.part_name == "t":
                return f"t.{int(numbered[2])}.{numbered[1]}"
            return _OTHER_ROLES.get(flat.lower(), to_plain_text(name).replace("^", "_"))
        if flat.lower() in ATTENTION_ROLES:
            return ATTENTION_ROLES[flat.lower()]
        if (
            numbered
            and self._multi_head
            and ATTENTION_ROLES.get(numbered[1].lower()) in _PER_HEAD_ROLES
        ):
            return f"head.{int(numbered[2])}.{ATTENTION_ROLES[numbered[1].lower()]}"
        return None

    def make_unknown_name_error(self, left: str) -> UserError:
        """Say that nobody knows this name, and how to go on."""
        name = self.extract_name(left)
        hint = did_you_mean(name, [*self.kind.matrices, "mask", *sorted(_PER_HEAD_ROLES), "output"])
        ignore = f"ignore = [{quote_value(name)}] leaves it out"
        return UserError(
            f"{quote_value(name)}: no matrix of a problem is called that: {hint} ({ignore})"
        )
