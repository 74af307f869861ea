"""Random problem sheets of each kind."""

from collections.abc import Callable

import numpy as np

from sheets import (
    ACTIVATIONS,
    GATES,
    NORMALIZERS,
    Activated,
    Affine,
    Angles,
    Cell,
    Encoding,
    Env,
    Masked,
    Matrix,
    Product,
    Quotient,
    Sheet,
    Softmax,
    Standardized,
    State,
    Step,
    Worked,
    work,
)
from styles import PLAIN_STYLES, draw_style, leave_blanks

Rng = np.random.Generator


class Draw:
    """A source of numbers as in hand-worked problems: small, with at most two decimals."""

    def __init__(self, rng: Rng, decimals: int | None = None) -> None:
        self.rng = rng
        self.decimals = int(rng.choice([0, 0, 1, 2])) if decimals is None else decimals
        self.positive = False

    def size(self, low: int = 2, high: int = 4) -> int:
        return int(self.rng.integers(low, high + 1))

    def chance(self, probability: float) -> bool:
        return bool(self.rng.random() < probability)

    def matrix(self, rows: int, columns: int) -> Matrix:
        if self.decimals == 0:
            cells = self.rng.integers(-3, 4, (rows, columns)).astype(float)
        else:
            cells = np.round(self.rng.uniform(-1.5, 1.5, (rows, columns)), self.decimals)
        return np.abs(cells) + 10.0**-self.decimals if self.positive else cells + 0.0


def random_sheet(
    rng: Rng,
    style: str | None = None,
    kind: str | None = None,
    decimals: int | None = None,
    is_complete: bool | None = None,
) -> tuple[Sheet, Worked]:
    """Draw a sheet, in half of the cases attention, and solve it correctly.

    Without a `style` it is one of the plain ones. `decimals` are those of the givens. With
    `is_complete` all steps are written, or (False) some are not.
    """
    while True:
        draw = Draw(rng, decimals)
        name = kind or ("attention" if draw.chance(0.5) else str(rng.choice(list(KINDS))))
        sheet = KINDS[name](draw)
        sheet.columns = draw.chance(0.4)
        sheet.style = draw_style(rng, style or str(rng.choice(PLAIN_STYLES)))
        sheet.claimed = _draw_claimed(draw, sheet)
        if style is not None and not _is_style_visible(sheet):
            continue
        if is_complete not in (None, len(sheet.claimed) == len(sheet.claimable)):
            continue
        try:
            worked = work(sheet)
        except ValueError:  # for example a variance that was rounded to 0
            continue
        if sheet.style.significant is not None and not _has_decimals(worked):
            continue  # 290 for 294 among whole numbers: nothing says that it is rounded
        if sheet.style.blank_share:
            worked.texts = leave_blanks(worked.texts, sheet.style.blank_share, rng)
        return sheet, worked


def _has_decimals(worked: Worked) -> bool:
    return any("." in text for texts in worked.texts.values() for row in texts for text in row)


def _draw_claimed(draw: Draw, sheet: Sheet) -> list[str]:
    """Draw the steps that are written: all, some or the last."""
    keys, style = sheet.claimable, sheet.style.name
    if style == "only the result":
        return keys[-1:]
    if style == "mixed alone":
        return [key for key in keys if key == f"{sheet.prefix}mixed"]
    if style != "skipped steps" and (style == "mixed decimals" or not draw.chance(0.4)):
        return keys
    is_claimed = draw.rng.random(len(keys)) < draw.rng.uniform(0.2, 0.9)
    return [key for key, c in zip(keys, is_claimed, strict=True) if c] or keys[-1:]


def _is_style_visible(sheet: Sheet) -> bool:
    """Return True if the sheet has what its style is about: a root, a mask, a softmax."""
    steps, notes = sheet.steps.values(), sheet.style.rounded_notes
    has_softmax = any(isinstance(step, Softmax) for step in steps)
    match sheet.style.name:
        case "rounded root" | "coarse root":
            return any(isinstance(step, Quotient) and step.is_root for step in steps)
        case "rounded exponentials" | "adjusted weights":
            return has_softmax
        case "rounded deviation":
            return any(isinstance(step, Standardized) for step in steps)
        case "rounded sums":
            return sheet.kind in ("lstm", "additive")
        case "written infinity":
            return sheet.mask is not None and any("masked" in key for key in sheet.claimed)
        case "whole numbers":
            return sheet.kind == "feed_forward" or (sheet.kind == "attention" and has_softmax)
        case "mixed alone":
            return sheet.kind == "attention"
        case "skipped steps":
            return len(sheet.claimed) < len(sheet.claimable)
    return not notes


def _attention(draw: Draw) -> Sheet:
    heads = int(draw.rng.choice([1, 1, 2]))
    normalizer = str(draw.rng.choice(["softmax"] * 8 + ["sigmoid", "sum"]))
    draw.positive = normalizer == "sum"  # with both signs the sum could be zero
    n, d = draw.size(), draw.size()
    given = {"X": draw.matrix(n, d)}
    m, e = n, d
    if draw.chance(0.3):
        m, e = (n if draw.chance(0.5) else draw.size()), (d if draw.chance(0.7) else draw.size())
        given["context"] = draw.matrix(m, e)
    square = d % heads == 0 and draw.chance(0.5)
    k, v = (d if square else heads * draw.size(1, 4 // heads) for _ in range(2))
    if "context" not in given and draw.chance(0.1):
        given = {"Q": draw.matrix(n, k), "K": draw.matrix(m, k), "V": draw.matrix(m, v)}
    else:
        _projections(draw, given, (d, e), (k, v), heads)
    sheet = Sheet("attention", given, heads=heads)
    if draw.chance(0.6):
        o = v if draw.chance(0.6) else draw.size()
        given["W_O"] = draw.matrix(v, o)
        if draw.chance(0.3):
            given["b_O"] = draw.matrix(1, o)
    _settings(draw, sheet, (n, m), k, normalizer)
    attention_steps(sheet, "", "X", (k, v), normalizer)
    return sheet


def _projections(
    draw: Draw, given: Env, widths: tuple[int, int], out: tuple[int, int], heads: int
) -> None:
    (d, e), (k, v) = widths, out
    for name, width, wide in (("Q", d, k), ("K", e, k), ("V", e, v)):
        if width != wide or wide % heads or draw.chance(0.85):
            given[f"W_{name}"] = draw.matrix(width, wide)
        if draw.chance(0.2):
            given[f"b_{name}"] = draw.matrix(1, wide)


def _settings(draw: Draw, sheet: Sheet, shape: tuple[int, int], k: int, normalizer: str) -> None:
    n, m = shape
    scale = str(draw.rng.choice(["sqrt(d_k)", "sqrt(d_k)", "sqrt(d_k)", "none", "number"]))
    number = float(draw.rng.choice([2, 3, 4, 8]))
    sheet.d_k = k // sheet.heads
    sheet.settings["heads"] = sheet.heads
    sheet.settings["scale"] = number if scale == "number" else scale
    sheet.settings["normalizer"] = normalizer
    sheet.scale = {"none": None, "number": number}.get(scale, float(np.sqrt(sheet.d_k)))
    mask = str(draw.rng.choice(["none", "causal", "causal", "matrix"]))
    if mask == "causal":
        sheet.settings["mask"] = "causal"
        sheet.mask = np.tril(np.ones((n, m), dtype=bool), m - n)
    elif mask == "matrix":
        sheet.mask = draw.rng.random((n, m)) < 0.7
        sheet.mask[np.arange(n), draw.rng.integers(0, m, n)] = True
    if normalizer == "sum" and sheet.mask is not None and not sheet.mask.any(1).all():
        sheet.mask, _ = None, sheet.settings.pop("mask", None)


def attention_steps(
    sheet: Sheet, prefix: str, x: str, widths: tuple[int, int], normalizer: str
) -> None:
    """Add the steps of attention to a sheet."""
    k, v = widths
    given, steps, sheet.prefix = sheet.given, sheet.steps, prefix
    key_source = "context" if "context" in given else x
    sheet.constants |= {f"I{width}": np.eye(width) for width in (k, v)}
    for name, source, width in (("Q", x, k), ("K", key_source, k), ("V", key_source, v)):
        if name in given:
            continue
        weight = f"W_{name}" if f"W_{name}" in given else f"I{width}"
        bias = f"b_{name}" if f"b_{name}" in given else None
        steps[f"{prefix}{name}"] = Product(((source, weight),), bias)
    if sheet.heads > 1:
        for name, width in (("Q", k), ("K", k), ("V", v)):
            for h in range(sheet.heads):
                part = width // sheet.heads
                steps[f"{prefix}{name}.{h + 1}"] = _part(f"{prefix}{name}", h * part, part)
                sheet.inner.add(f"{prefix}{name}.{h + 1}")
    scale = sheet.scale or 1.0
    is_root = sheet.settings["scale"] == "sqrt(d_k)" and scale != round(scale)

    def key(name: str, end: str) -> str:
        return f"{prefix}{name}{end}"

    for end in sheet.ends:
        steps[key("scores", end)] = Product(((key("Q", end), f"{key('K', end)}ᵀ"),))
    for end in sheet.ends:
        steps[key("scaled", end)] = Quotient(key("scores", end), scale, is_root)
    for end in sheet.ends:
        steps[key("masked", end)] = Masked(key("scaled", end), sheet.mask)
    for end in sheet.ends:
        steps[key("weights", end)] = _normalized(key("masked", end), normalizer)
    for end in sheet.ends:
        steps[key("mixed", end)] = Product(((key("weights", end), key("V", end)),))
    if sheet.heads > 1:
        steps[f"{prefix}mixed"] = lambda env: np.concatenate(
            [env[key("mixed", e)] for e in sheet.ends], -1
        )
    weight = "W_O" if "W_O" in given else f"I{v}"
    bias = "b_O" if "b_O" in given else None
    steps[f"{prefix}output"] = Product(((f"{prefix}mixed", weight),), bias)


def _normalized(source: str, normalizer: str) -> Step:
    if normalizer == "softmax":
        return Softmax(source)
    return lambda env: NORMALIZERS[normalizer](env[source])


def _part(key: str, start: int, width: int) -> Step:
    return lambda env: env[key][..., start : start + width]


def _positions(draw: Draw) -> Sheet:
    count, width = draw.size(), draw.size(2, 6)
    base = int(draw.rng.choice([10_000, 100, 10]))
    sheet = Sheet("positions", {})
    sheet.settings = {"count": count, "width": width, "base": base}
    sheet.steps["angles"] = Angles(count, width, base, width)
    sheet.steps["encoding"] = Encoding()
    return sheet


def norm_steps(sheet: Sheet, prefix: str, x: str, gamma: str, beta: str, eps: float) -> None:
    """Add the steps of a layer norm to a sheet."""
    steps, given = sheet.steps, sheet.given

    mean, variance = f"{prefix}mean", f"{prefix}variance"
    steps[mean] = lambda env: env[x].mean(-1, keepdims=True)
    steps[variance] = lambda env: ((env[x] - env[mean]) ** 2).mean(-1, keepdims=True)
    steps[f"{prefix}normalised"] = Standardized(x, mean, variance, eps)
    names = (name if name in given else None for name in (gamma, beta))
    steps[f"{prefix}output"] = Affine(f"{prefix}normalised", *names)


def _varied_matrix(draw: Draw, rows: int, columns: int) -> Matrix:
    """Draw vectors with a variance above zero."""
    x = draw.matrix(rows, columns)
    x[:, 0] = x.max(1) + 1
    return x


def _layer_norm(draw: Draw) -> Sheet:
    n, d = draw.size(), draw.size()
    sheet = Sheet("layer_norm", {"X": _varied_matrix(draw, n, d)})
    for name in ("gamma", "beta"):
        if draw.chance(0.6):
            sheet.given[name] = draw.matrix(1, d)
    eps = 0.1 if draw.chance(0.2) else 0.0
    sheet.settings["eps"] = eps
    norm_steps(sheet, "", "X", "gamma", "beta", eps)
    return sheet


def _recurrent(draw: Draw, kind: str) -> Sheet:
    times, d, h = draw.size(2, 3), draw.size(2, 3), draw.size(2, 4)
    sheet = Sheet(kind, {"X": draw.matrix(times, d)}, parts="t")
    wide = h if kind == "rnn" else 4 * h
    names = ("W_xh", "W_hh") if kind == "rnn" else ("W_x", "W_h")
    sheet.given |= {names[0]: draw.matrix(d, wide), names[1]: draw.matrix(h, wide)}
    if draw.chance(0.5):
        sheet.given["b"] = draw.matrix(1, wide)
    for state in ("h0",) if kind == "rnn" else ("h0", "c0"):
        cells = draw.matrix(1, h)
        if draw.chance(0.4):
            sheet.given[state] = cells
        else:
            sheet.constants[state] = np.zeros((1, h))
    for t in range(times):
        sheet.steps[f"x.{t + 1}"] = lambda env, t=t: env["X"][t : t + 1]
        sheet.inner.add(f"x.{t + 1}")
    return sheet


def _rnn(draw: Draw) -> Sheet:
    sheet = _recurrent(draw, "rnn")
    bias = "b" if "b" in sheet.given else None
    for t in range(1, len(sheet.given["X"]) + 1):
        before = f"h.{t - 1}" if t > 1 else "h0"
        sheet.steps[f"sum.{t}"] = Product(((f"x.{t}", "W_xh"), (before, "W_hh")), bias)
        sheet.steps[f"h.{t}"] = Activated(f"sum.{t}", np.tanh)
    return sheet


def _lstm(draw: Draw) -> Sheet:
    sheet = _recurrent(draw, "lstm")
    steps, width = sheet.steps, len(sheet.given["W_h"])
    for k, gate in enumerate(GATES):
        for name in {"W_x", "W_h", "b"} & set(sheet.given):
            steps[f"{name}{gate}"] = _part(name, k * width, width)
            sheet.inner.add(f"{name}{gate}")
    for t in range(1, len(sheet.given["X"]) + 1):
        h, c = (f"h.{t - 1}", f"c.{t - 1}") if t > 1 else ("h0", "c0")
        for gate, squash in GATES.items():
            pairs = ((f"x.{t}", f"W_x{gate}"), (h, f"W_h{gate}"))
            steps[f"{gate}.{t}"] = Product(
                pairs, f"b{gate}" if "b" in sheet.given else None, squash
            )
        steps[f"c.{t}"] = Cell(f"f.{t}", c, f"i.{t}", f"g.{t}")
        steps[f"h.{t}"] = State(f"o.{t}", f"c.{t}")
    return sheet


def _additive(draw: Draw) -> Sheet:
    n, a, k = draw.size(), draw.size(), draw.size()
    b = a if draw.chance(0.5) else draw.size()
    k = b if draw.chance(0.4) else k
    given = {"s": draw.matrix(1, a), "H": draw.matrix(n, b)}
    given |= {"W_s": draw.matrix(a, k), "W_h": draw.matrix(b, k), "v": draw.matrix(1, k)}
    sheet = Sheet("additive", given)
    sheet.steps["hidden"] = Product((("s", "W_s"), ("H", "W_h")), then=np.tanh)
    sheet.steps["scores"] = Product((("v", "hiddenᵀ"),))
    sheet.steps["weights"] = Softmax("scores")
    sheet.steps["mixed"] = Product((("weights", "H"),))
    return sheet


def feed_forward_steps(sheet: Sheet, prefix: str, x: str, activation: str) -> None:
    """Add the steps of a feed-forward layer to a sheet."""
    steps, given = sheet.steps, sheet.given
    steps[f"{prefix}hidden"] = Product(((x, "W_1"),), "b_1" if "b_1" in given else None)
    steps[f"{prefix}activated"] = Activated(f"{prefix}hidden", ACTIVATIONS[activation])
    outer = ((f"{prefix}activated", "W_2"),)
    steps[f"{prefix}output"] = Product(outer, "b_2" if "b_2" in given else None)


def _feed_forward_givens(draw: Draw, given: Env, d: int, o: int) -> None:
    h = d if draw.chance(0.4) else draw.size()
    given |= {"W_1": draw.matrix(d, h), "W_2": draw.matrix(h, o)}
    for name, width in (("b_1", h), ("b_2", o)):
        if draw.chance(0.5):
            given[name] = draw.matrix(1, width)


def _feed_forward(draw: Draw) -> Sheet:
    n, d = draw.size(), draw.size()
    sheet = Sheet("feed_forward", {"X": draw.matrix(n, d)})
    _feed_forward_givens(draw, sheet.given, d, d if draw.chance(0.5) else draw.size())
    activation = str(draw.rng.choice(list(ACTIVATIONS)))
    sheet.settings["activation"] = activation
    feed_forward_steps(sheet, "", "X", activation)
    return sheet


def _block(draw: Draw) -> Sheet:
    heads = int(draw.rng.choice([1, 2]))
    n, d = draw.size(2, 3), 2 * heads if draw.chance(0.7) else 4
    sheet = Sheet("block", {"X": _varied_matrix(draw, n, d)}, heads=heads)
    given = sheet.given
    _projections(draw, given, (d, d), (d, d), heads)
    given["W_O"] = draw.matrix(d, d)
    _feed_forward_givens(draw, given, d, d)
    for name in ("gamma_1", "beta_1", "gamma_2", "beta_2"):
        if draw.chance(0.3):
            given[name] = draw.matrix(1, d)
    _settings(draw, sheet, (n, n), d, "softmax")
    order, eps = ("pre" if draw.chance(0.5) else "post"), 0.01
    activation = "relu" if draw.chance(0.7) else "gelu"
    sheet.settings |= {"order": order, "eps": eps, "activation": activation}
    pre, steps = order == "pre", sheet.steps

    def norm(which: int, x: str) -> None:
        norm_steps(sheet, f"norm_{which}.", x, f"gamma_{which}", f"beta_{which}", eps)

    def add(which: int, a: str, b: str) -> None:
        steps[f"add_{which}"] = lambda env: env[a] + env[b]

    if pre:
        norm(1, "X")
    attention_steps(sheet, "attention.", "norm_1.output" if pre else "X", (d, d), "softmax")
    add(1, "X", "attention.output")
    norm(2 if pre else 1, "add_1")
    inner = "norm_2.output" if pre else "norm_1.output"
    feed_forward_steps(sheet, "feed_forward.", inner, activation)
    add(2, "add_1" if pre else "norm_1.output", "feed_forward.output")
    if not pre:
        norm(2, "add_2")
    return sheet


KINDS: dict[str, Callable[[Draw], Sheet]] = {
    "attention": _attention,
    "positions": _positions,
    "layer_norm": _layer_norm,
    "rnn": _rnn,
    "lstm": _lstm,
    "additive": _additive,
    "feed_forward": _feed_forward,
    "block": _block,
}
