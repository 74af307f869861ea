"""What a sheet shall be: the kind of its problems and their sizes, or why that cannot be."""

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
    "layer_norm": "Layer normalisation",
    "feed_forward": "A feed-forward layer",
    "rnn": "A recurrent network",
    "lstm": "An LSTM",
}
MAX_SIZE = 8  # width, heads, …: more is no work for a hand
MAX_TOKENS = 6
MAX_PROBLEMS = 200  # problems on a sheet
_KINDS_WITH_HIDDEN = ("rnn", "lstm", "additive", "feed_forward", "block")
_NO_NOTES: tuple[str, ...] = ()
_SIZE = re.compile(r"(\d{1,4})\s*[x×*]\s*(\d{1,4})", re.IGNORECASE)


@dataclass(frozen=True, kw_only=True)
class SheetPlan:
    """The shape of a sheet's problems. `notes`: what a teacher should know about it."""

    kind: str
    tokens: int
    width: int
    decimals: int
    column_vectors: bool = False
    heads: int = 1
    d_k: int = 0  # of one head; 0: the kind has no queries
    context: int = 0  # tokens that are asked; 0: those that ask
    hidden: int = 0
    is_scaled: bool = True
    notes: tuple[str, ...] = ()

    @property
    def is_masked(self) -> bool:
        """Is the future hidden?"""
        return self.kind == "masked"

    @property
    def has_attention(self) -> bool:
        """Is there scaled dot-product attention in it?"""
        return self.kind in ATTENTION_KINDS or self.kind == "block"

    @property
    def divisor(self) -> float:
        """What the scores are divided by."""
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
    hidden: int | None = None,
    scale: str = "sqrt(d_k)",
) -> SheetPlan:
    """Settle every size, or refuse with what would be right.

    >>> make_plan("masked", "3x5").d_k
    4
    >>> make_plan("masked", "3x4").d_k  # with 4, √d_k and √d_model would be one
    3
    """
    if kind not in SHEET_KINDS:
        raise UserError(f"--kind {kind!r:.40}: {did_you_mean(kind, SHEET_KINDS)}")
    if vectors not in ("rows", "columns"):
        raise UserError(f"--vectors {vectors!r:.40}: expected one of rows, columns")
    if not 1 <= decimals <= 6:
        raise UserError(f"--decimals {decimals}: from 1 to 6")
    tokens, width = _parse_size(kind, size)
    _check_options(kind, heads=heads, d_k=d_k, context=context, hidden=hidden, scale=scale)
    attends = kind in ATTENTION_KINDS or kind == "block"
    heads = _check_range("--heads", heads, 2 if kind == "multi-head" else 1, minimum=1)
    if kind == "multi-head" and heads == 1:
        raise UserError("--heads 1: multi-head attention has at least 2; for one head, --kind self")
    scaled, notes = scale != "none", _NO_NOTES
    if attends:
        d_k, notes = _choose_d_k(d_k, width, heads, scaled)
        if heads * d_k > 2 * MAX_SIZE:
            raise UserError(
                f"--heads {heads} of --d-k {d_k} are {heads * d_k} columns: at most {2 * MAX_SIZE}"
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
        hidden=_choose_hidden(kind, hidden, width),
        is_scaled=scaled,
        notes=notes,
    )


def _parse_size(kind: str, size: str | tuple[int, int]) -> tuple[int, int]:
    if isinstance(size, str):
        found = _SIZE.fullmatch(size.strip())
        if not found:
            raise UserError(f"--size {size!r:.40}: expected TOKENSxWIDTH, like 3x4")
        size = (int(found[1]), int(found[2]))
    tokens, width = size
    for what, value, most in (("tokens", tokens, MAX_TOKENS), ("width", width, MAX_SIZE)):
        if not 2 <= value <= most:
            raise UserError(f"--size {tokens}x{width}: {what} from 2 to {most}, to work by hand")
    if kind in (*ATTENTION_KINDS, "block") and tokens > 2 * width:
        raise UserError(
            f"--size {tokens}x{width}: so many tokens need a width of {-(-tokens // 2)} to differ"
        )
    if kind == "positions" and (width < 4 or width % 2):
        raise UserError(
            f"--size {tokens}x{width}: an even width from 4, so that there are several frequencies"
        )
    return tokens, width


def _check_options(kind: str, **options: int | str | None) -> None:
    """Refuse an option that this kind of problem would silently ignore."""
    homes = {
        "heads": (*ATTENTION_KINDS, "block"),
        "d_k": (*ATTENTION_KINDS, "block"),
        "scale": (*ATTENTION_KINDS, "block"),
        "context": ("cross",),
        "hidden": _KINDS_WITH_HIDDEN,
    }
    scale = options["scale"]
    if scale not in ("sqrt(d_k)", "none"):
        raise UserError(f"--scale {scale!r:.40}: expected one of sqrt(d_k), none")
    options["scale"] = None if scale == "sqrt(d_k)" else scale
    for name, value in options.items():
        if value is not None and kind not in homes[name]:
            flag = "--" + name.replace("_", "-")
            raise UserError(f"{flag} is for --kind {', '.join(homes[name])}, not for {kind}")


def _check_range(
    flag: str, value: int | None, default: int, *, minimum: int = 2, maximum: int = MAX_SIZE
) -> int:
    value = default if value is None else value
    if not minimum <= value <= maximum:
        raise UserError(f"{flag} {value}: from {minimum} to {maximum}")
    return value


def _choose_hidden(kind: str, hidden: int | None, width: int) -> int:
    """Choose as many hidden units as there are inputs, where that is no great labour.

    Square weights leave room for the most mistakes: a transpose, another weight, none at all.
    """
    if kind not in _KINDS_WITH_HIDDEN:
        return 0
    few = {"rnn": 3, "lstm": 2, "additive": 3}.get(kind, MAX_SIZE)
    return _check_range("--hidden", hidden, min(width, few))


def _choose_d_k(
    d_k: int | None, width: int, heads: int, is_scaled: bool
) -> tuple[int, tuple[str, ...]]:
    """Choose a width of queries at which the ways to scale wrongly lead to different numbers.

    4 is the most pleasant (its root is 2). Where the heads share the width out, their part of it is
    what everybody expects.
    """
    shared = (width // heads,) if heads > 1 and width % heads == 0 else ()
    telling = [k for k in (*shared, 4, 3, 2, 5) if k > 1 and k * k != width and k != width]
    if d_k is None:
        return telling[0], ()
    _check_range("--d-k", d_k, 0, minimum=1)
    if not is_scaled:
        return d_k, ()
    if d_k == 1:
        raise UserError(
            f"--d-k 1: √1 = 1, so whoever does not scale is never found out: take --d-k"
            f" {telling[0]}, or --scale none"
        )
    if d_k * d_k == width:
        raise UserError(
            f"--d-k {d_k} with width {width}: ÷ d_k and ÷ √d_model are both ÷ {d_k} and can never"
            f" be told apart: take --d-k {telling[0]}, or another width"
        )
    if d_k == width:
        return d_k, (
            f"d_k and the width are both {width}: ÷ √d_model is no mistake here; to tell it"
            f" from ÷ √d_k, take --d-k {telling[0]}",
        )
    return d_k, ()
