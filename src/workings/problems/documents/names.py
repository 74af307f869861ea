r"""Map names in documents to matrices of a problem: `\mathbf{W}^Q` is W_Q, softmax(…)V is mixed.

A name is on the left of an equals sign, perhaps after a few words of prose. A letter like A means
different steps in different books, so a formula beside it takes precedence.
"""

import re
from functools import lru_cache

from workings.errors import UserError, did_you_mean, safe_repr
from workings.plain_text import to_one_line
from workings.problems.documents.latex import to_plain_text
from workings.problems.kinds import Kind

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
# A formula may show that one of these is another step; other names are unambiguous.
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
    r"""Remove markup and punctuation from a name: `W_{Q}`, `W^Q` and `W_Q` become WQ.

    >>> normalize_name(r"\mathbf{W}^{(Q)}")
    'WQ'
    """
    return re.sub(r"[^\w']|_", "", to_plain_text(name))


def parse_formula(text: str) -> list[str]:
    r"""Split a formula into symbols: roles (`Kᵀ` if transposed), `softmax`, operators and others.

    >>> parse_formula(r"\text{softmax}\left(\frac{QK^T}{\sqrt{d_k}}\right) V")
    ['softmax', '(', 'Q', 'Kᵀ', '/', '√', 'd_k', ')', 'V']
    """
    symbols = _SYMBOL.findall(to_plain_text(text))
    return [part for symbol in symbols for part in _parse_symbol(symbol)]


@lru_cache(4096)
def _parse_symbol(symbol: str) -> tuple[str, ...]:
    """Return the role of a symbol; adjacent capitals are a product: QKᵀ is Q, Kᵀ."""
    bare = _TRANSPOSE.sub("", symbol)
    name = normalize_name(bare).lower()
    if name in _NORMALIZER_NAMES:
        return ("softmax",)
    if symbol in ("√", "\\sqrt", "sqrt"):
        return ("√",)
    if name in ATTENTION_ROLES:
        return (ATTENTION_ROLES[name] + "ᵀ" * (bare != symbol),)
    is_product = symbol[:1].isupper() and symbol[1:2].isupper() and len(symbol) < 20
    if is_product and symbol[0].lower() in ATTENTION_ROLES:
        return (ATTENTION_ROLES[symbol[0].lower()], *_parse_symbol(symbol[1:]))
    return (symbol,)


def parse_product(formula: list[str]) -> tuple[str, ...]:
    """Return the factors of a product such as X W_Q; () if the formula is anything else."""
    names = tuple(symbol for symbol in formula if symbol not in _TIMES)
    are_known = all(name.removesuffix("ᵀ") in _ALIASES for name in names)
    return names if are_known and len(names) > 1 else ()


def _is_computation(formula: list[str]) -> bool:
    """Return True if a formula computes something, False for prose such as "the softmax we add".

    >>> [_is_computation(parse_formula(text)) for text in ("softmax(S)", "S / 8", "softmax we add")]
    [True, True, False]
    """
    for before, symbol, after in zip(["", *formula], formula, [*formula[1:], ""], strict=False):
        is_matrix = after.removesuffix("ᵀ") in _ALIASES
        is_call = symbol == "softmax" and (is_matrix or after in ("", "("))
        are_digits = before.isdigit() and after.isdigit()
        is_operation = symbol in "/+" and before and after and not are_digits
        if is_call or is_operation or symbol == "√":
            return True
    return False


def mentions_matrix(formula: list[str]) -> bool:
    """Return True if a formula has a matrix or a softmax."""
    return any(s.removesuffix("ᵀ") in _ALIASES or s == "softmax" for s in formula)


def infer_step(formula: list[str]) -> str | None:
    """Return the step of attention that a formula computes, or None."""
    symbols = frozenset(symbol.removesuffix("ᵀ") for symbol in formula)
    if "W_O" in symbols and len(symbols) > 1:
        return "output"
    if "softmax" in symbols:
        return "mixed" if "V" in symbols else "weights"
    if {"V", "weights"} <= symbols:
        return "mixed"
    if {"Q", "K"} <= symbols or ("scores" in symbols and symbols & {"/", "mask"}):
        return "masked" if "mask" in symbols else "scaled" if symbols & {"/", "√"} else "scores"
    for name in ("Q", "K", "V"):
        if f"W_{name}" in symbols and symbols & {"X", "context"}:
            return name
    return None


class RoleResolver:
    """Maps names of matrices to their roles in one kind of problem.

    A role is the name of a given, `mask` or the path of a claim: `scores`, `head.2.scores`.
    """

    def __init__(self, kind: Kind, multi_head: bool) -> None:
        self.kind, self._multi_head = kind, multi_head
        self._given_names = {normalize_name(name): name for name in kind.matrices}
        self._formula_roles: dict[str, str] = {}

    def learn(self, left: str, formula: list[str]) -> None:
        """Remember which step the name on the left of a formula is."""
        step = infer_step(formula)
        if step is not None:
            self._formula_roles.setdefault(self.extract_name(left), step)

    def extract_name(self, left: str) -> str:
        r"""Return the name from the left of an equals sign: Q for `\text{Step 1: } Q`."""
        last = re.split(r"\n|\\q?quad(?![A-Za-z])", left[-300:].strip())[-1]
        plain = to_plain_text(last).strip(_MARKUP)
        text = re.sub(r"(?<=\w) ?\([^()]*\)$", "", plain)  # Attention(Q, K, V)
        words = re.split(r"[:;,]", text)[-1].strip(_MARKUP).split()
        for count in (3, 2, 1):
            name = " ".join(words[-count:])
            if self._look_up(name) is not None:
                return to_one_line(name)
        return to_one_line(words[-1][:60]) if words else ""

    def resolve(self, left: str) -> tuple[str, bool] | None:
        """Return the role and whether the matrix is printed transposed; None: unknown name."""
        formula = parse_formula(left[-300:].rpartition(":")[2])  # without prose like "Step 2/4:"
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
        role = ATTENTION_ROLES.get(numbered[1].lower()) if numbered and self._multi_head else None
        if numbered and role in _PER_HEAD_ROLES:
            return f"head.{int(numbered[2])}.{role}"
        return None

    def make_unknown_name_error(self, left: str) -> UserError:
        """Return the error for an unknown name, with the nearest known one."""
        name = self.extract_name(left)
        hint = did_you_mean(name, [*self.kind.matrices, "mask", *sorted(_PER_HEAD_ROLES), "output"])
        quoted = safe_repr(name, 30)
        return UserError(
            f"{quoted} is not a matrix of the problem: {hint} (ignore = [{quoted}] skips it)"
        )
