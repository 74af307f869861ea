"""The plan of a sheet: the kind and sizes of its problems, checked against what is possible."""

import math
import re
from dataclasses import dataclass

from workings.errors import UserError, did_you_mean

ATTENTION_KINDS = ("self", "masked", "cross", "multi-head")
SHEET_KINDS = (
    *ATTENTION_KINDS,
    "block",
    "additive",
    "positions",
    "layer_norm",
    "feed_forward",
    "rnn",
    "lstm",
)
TITLES = {
    "self": "Self-attention",
    "masked": "Masked self-attention",
    "cross": "Cross-attention",
    "multi-head": "Multi-head attention",
    "block": "A Transformer block",
    "additive": "Additive attention",
    "positions": "Positional encoding",
    "layer_norm": "Layer normalization",
    "feed_forward": "A feed-forward layer",
    "rnn": "A recurrent network",
    "lstm": "An LSTM",
}
MAX_SIZE = 8  # of width, heads, …: more cannot be computed by hand
MAX_TOKENS = 6
MAX_PROBLEMS = 200  # per sheet
_KINDS_WITH_HIDDEN = ("rnn", "lstm", "additive", "feed_forward", "block")
_NO_NOTES: tuple[str, ...] = ()
_SIZE = re.compile(r"(\d{1,4})\s*[x×*]\s*(\d{1,4})", re.IGNORECASE)


@dataclass(frozen=True, kw_only=True)
class SheetPlan:
    """The kind and sizes of a sheet's problems; `notes` are remarks for the teacher."""

    kind: str
    tokens: int
    width: int
    decimals: int
    column_vectors: bool = False
    heads: int = 1
    d_k: int = 0  # per head; 0: the kind has no queries
    context: int = 0  # tokens of the context; 0: attention within the sentence
    hidden_size: int = 0
    is_scaled: bool = True
    notes: tuple[str, ...] = ()

    @property
    def is_masked(self) -> bool:
        """True if a causal mask hides later tokens."""
        return self.kind == "masked"

    @property
    def has_attention(self) -> bool:
        """True if the problems contain dot-product attention."""
        return self.kind in ATTENTION_KINDS or self.kind == "block"

    @property
    def divisor(self) -> float:
        """The number that the scores are divided by."""
        return math.sqrt(self.d_k) if self.is_scaled else 1.0


def make_plan(
    kind: str,
    size: str | tuple[int, int],
    *,
    decimals: int = 3,
    vectors: str = "rows",
    heads: int | None = None,
    d_k: int | None = None,
    context: int | None = None,
    hidden_size: int | None = None,
    scale: str = "sqrt(d_k)",
) -> SheetPlan:
    """Return the plan of a sheet with every size chosen; reject sizes that do not work.

    >>> make_plan("masked", "3x5").d_k
    4
    >>> make_plan("masked", "3x4").d_k  # with 4, √d_k and √d_model would be equal
    3
    """
    if kind not in SHEET_KINDS:
        raise UserError(f"--kind {kind!r:.40}: {did_you_mean(kind, SHEET_KINDS)}")
    if vectors not in ("rows", "columns"):
        raise UserError(f"--vectors {vectors!r:.40}: expected one of rows, columns")
    if not 1 <= decimals <= 6:
        raise UserError(f"--decimals {decimals}: it must be from 1 to 6")
    tokens, width = _parse_size(kind, size)
    _check_options(
        kind, heads=heads, d_k=d_k, context=context, hidden_size=hidden_size, scale=scale
    )
    has_attention = kind in ATTENTION_KINDS or kind == "block"
    heads = _check_range("--heads", heads, 2 if kind == "multi-head" else 1, minimum=1)
    if kind == "multi-head" and heads == 1:
        raise UserError("--heads 1: multi-head attention needs at least 2; use --kind self for one")
    is_scaled, notes = scale != "none", _NO_NOTES
    if has_attention:
        d_k, notes = _choose_d_k(d_k, width, heads, is_scaled)
        if heads * d_k > 2 * MAX_SIZE:
            raise UserError(
                f"--heads {heads} with --d-k {d_k} need {heads * d_k} columns:"
                f" at most {2 * MAX_SIZE} are allowed"
            )
    return SheetPlan(
        kind=kind,
        tokens=tokens,
        width=width,
        decimals=decimals,
        column_vectors=vectors == "columns",
        heads=heads,
        d_k=d_k or 0,
        context=_check_range("--context", context, tokens, maximum=MAX_TOKENS)
        if kind == "cross"
        else 0,
        hidden_size=_choose_hidden(kind, hidden_size, width),
        is_scaled=is_scaled,
        notes=notes,
    )


def _parse_size(kind: str, size: str | tuple[int, int]) -> tuple[int, int]:
    """Return tokens and width, checked for this kind."""
    if isinstance(size, str):
        match = _SIZE.fullmatch(size.strip())
        if not match:
            raise UserError(f"--size {size!r:.40}: expected TOKENSxWIDTH, like 3x4")
        size = (int(match[1]), int(match[2]))
    tokens, width = size
    for name, value, limit in (("tokens", tokens, MAX_TOKENS), ("width", width, MAX_SIZE)):
        if not 2 <= value <= limit:
            raise UserError(f"--size {tokens}x{width}: {name} must be from 2 to {limit}")
    if kind in (*ATTENTION_KINDS, "block") and tokens > 2 * width:
        raise UserError(
            f"--size {tokens}x{width}: {tokens} distinct tokens need a width of {-(-tokens // 2)}"
        )
    if kind == "positions" and (width < 4 or width % 2):
        raise UserError(
            f"--size {tokens}x{width}: positions need an even width from 4, for several frequencies"
        )
    return tokens, width


def _check_options(kind: str, **options: int | str | None) -> None:
    """Reject an option that this kind of problem does not use."""
    kinds_by_option = {
        "heads": (*ATTENTION_KINDS, "block"),
        "d_k": (*ATTENTION_KINDS, "block"),
        "scale": (*ATTENTION_KINDS, "block"),
        "context": ("cross",),
        "hidden_size": _KINDS_WITH_HIDDEN,
    }
    scale = options["scale"]
    if scale not in ("sqrt(d_k)", "none"):
        raise UserError(f"--scale {scale!r:.40}: expected one of sqrt(d_k), none")
    options["scale"] = None if scale == "sqrt(d_k)" else scale
    for name, value in options.items():
        kinds = kinds_by_option[name]
        if value is not None and kind not in kinds:
            flag = "--" + name.replace("_", "-")
            raise UserError(f"{flag} is for --kind {', '.join(kinds)}, not for {kind}")


def _check_range(
    flag: str, value: int | None, default: int, *, minimum: int = 2, maximum: int = MAX_SIZE
) -> int:
    value = default if value is None else value
    if not minimum <= value <= maximum:
        raise UserError(f"{flag} {value}: it must be from {minimum} to {maximum}")
    return value


def _choose_hidden(kind: str, hidden_size: int | None, width: int) -> int:
    """Choose as many hidden units as inputs, up to what is reasonable by hand.

    Square weights allow the most mistakes: a transpose, another weight, a forgotten projection.
    """
    if kind not in _KINDS_WITH_HIDDEN:
        return 0
    limit = {"rnn": 3, "lstm": 2, "additive": 3}.get(kind, MAX_SIZE)
    return _check_range("--hidden-size", hidden_size, min(width, limit))


def _choose_d_k(
    d_k: int | None, width: int, heads: int, is_scaled: bool
) -> tuple[int, tuple[str, ...]]:
    """Choose d_k so that the mistakes in scaling lead to different numbers; return it with notes.

    With several heads, width / heads is tried first; then 4, whose root is an integer.
    """
    per_head = (width // heads,) if heads > 1 and width % heads == 0 else ()
    candidates = (*per_head, 4, 3, 2, 5)
    default = next(k for k in candidates if k > 1 and k * k != width and k != width)
    if d_k is None:
        return default, ()
    _check_range("--d-k", d_k, 0, minimum=1)
    if not is_scaled:
        return d_k, ()
    if d_k == 1:
        raise UserError(
            f"--d-k 1: √1 = 1, so a forgotten scaling cannot be detected: use --d-k {default}"
            " or --scale none"
        )
    if d_k * d_k == width:
        raise UserError(
            f"--d-k {d_k} with width {width}: ÷ d_k and ÷ √d_model are both ÷ {d_k} and cannot be"
            f" distinguished: use --d-k {default} or another width"
        )
    if d_k == width:
        return d_k, (
            f"d_k and the width are both {width}, so ÷ √d_model is not a mistake; to distinguish"
            f" it from ÷ √d_k, use --d-k {default}",
        )
    return d_k, ()
