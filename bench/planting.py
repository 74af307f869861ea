"""Plant one mistake of each name in a sheet: a step computed wrongly, or a number miswritten."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from itertools import pairwise, permutations

import numpy as np

from sheets import (
    Env,
    Matrix,
    Product,
    Sheet,
    Step,
    Worked,
    over_sum,
    sigmoid,
    softmax,
    work,
)

Rng = np.random.Generator
Plant = dict[str, Step]
Options = Callable[[Sheet], Iterator[Plant]]
At = Callable[[str], Matrix]  # returns a head's matrix by the name of the step
Texts = list[list[str]]


@dataclass(frozen=True)
class Planted:
    """A sheet worked with one mistake, and the steps it was made in."""

    worked: Worked
    made_in: frozenset[str]


def plant(sheet: Sheet, name: str, correct: Worked, rng: Rng) -> Planted | None:
    """Solve a sheet with a mistake; None if the mistake does not apply to it."""
    try:
        if name in MISWRITTEN:
            return _plant_miswritten(sheet, name, correct, rng)
        return _plant_computed(sheet, name, correct, rng)
    except ValueError:  # shapes do not fit, or the square root of a negative number
        return None


def _plant_computed(sheet: Sheet, name: str, correct: Worked, rng: Rng) -> Planted | None:
    options = list(COMPUTED[name](sheet))
    if not options:
        return None
    option = options[rng.integers(len(options))]
    worked = work(sheet, option)
    fits = all(worked.env[key].shape == correct.env[key].shape for key in sheet.claimed)
    return Planted(worked, frozenset(option)) if fits else None


def _products(sheet: Sheet) -> Iterator[tuple[str, int, Product]]:
    """Yield every product with a given weight, except the output projection."""
    for key, step in sheet.steps.items():
        if isinstance(step, Product):
            for k, (_, weight) in enumerate(step.pairs):
                if weight.startswith("W_") and weight != "W_O":
                    yield key, k, step


def _once_and_everywhere(changed: dict[str, Step]) -> Iterator[Plant]:
    """Yield the mistake made in all heads or time steps, and made in each one alone."""
    if len(changed) > 1:
        yield changed
    for key, step in changed.items():
        yield {key: step}


def _with_weight(product: Product, k: int, wrong: Callable[[Env, str, str], Matrix]) -> Step:
    """Return a product with one of its terms computed wrongly."""

    def step(env: Env) -> Matrix:
        terms = [
            wrong(env, a, b) if i == k else env[a] @ env[b]
            for i, (a, b) in enumerate(product.pairs)
        ]
        total = sum(terms)
        return product.then(total if product.bias is None else total + env[product.bias])

    return step


def _by_weight(sheet: Sheet, wrong: Callable[[Env, str, str], Matrix]) -> Iterator[Plant]:
    """Yield a mistake with a weight, made once or wherever the weight is used."""
    uses: dict[str, dict[str, Step]] = {}
    for key, k, product in _products(sheet):
        uses.setdefault(product.pairs[k][1], {})[key] = _with_weight(product, k, wrong)
    for changed in uses.values():
        yield from _once_and_everywhere(changed)


def _weight_transposed(sheet: Sheet) -> Iterator[Plant]:
    yield from _by_weight(sheet, lambda env, x, w: env[x] @ env[w].T)


def _wrong_weight(sheet: Sheet) -> Iterator[Plant]:
    weights = {product.pairs[k][1] for _, k, product in _products(sheet)}
    for other in sorted(weights | ({"W_O"} & set(sheet.given))):
        yield from _by_weight(sheet, lambda env, x, _w, o=other: env[x] @ env[o])


def _not_projected(sheet: Sheet) -> Iterator[Plant]:
    def unprojected(env: Env, x: str, w: str) -> Matrix:
        if env[x].shape[1] != env[w].shape[1]:
            raise ValueError("another width: the mistake would be obvious")
        return env[x]

    yield from _by_weight(sheet, unprojected)
    for key, _, product in _products(sheet):
        if len(product.pairs) == 1 and product.bias is not None:  # without the bias as well
            yield {key: lambda env, pair=product.pairs[0]: unprojected(env, *pair)}


def _context_mixed_up(sheet: Sheet) -> Iterator[Plant]:
    if "context" not in sheet.given:
        return
    swap = {"X": "context", "context": "X"}
    changed = {}
    for key, step in sheet.steps.items():
        if isinstance(step, Product) and step.pairs[0][0] in swap:
            source, weight = step.pairs[0]
            changed[key] = replace(step, pairs=((swap[source], weight),))
    yield {"Q": changed["Q"]}
    yield from _once_and_everywhere({key: changed[key] for key in ("K", "V")})


def _per_head(sheet: Sheet, step: str, wrong: Callable[[At], Matrix]) -> Iterator[Plant]:
    """Yield a wrong step of attention, in one head or in all."""
    if sheet.kind not in ("attention", "block"):
        return

    def make_step(end: str) -> Step:
        return lambda env: wrong(lambda name: env[f"{sheet.prefix}{name}{end}"])

    yield from _once_and_everywhere(
        {f"{sheet.prefix}{step}{end}": make_step(end) for end in sheet.ends}
    )


def _keys_not_transposed(sheet: Sheet) -> Iterator[Plant]:
    yield from _per_head(sheet, "scores", lambda at: at("Q") @ at("K"))


def _swapped(sheet: Sheet) -> Iterator[Plant]:
    yield from _per_head(sheet, "scores", lambda at: at("K") @ at("Q").T)


def _scaled(divisor: Callable[[Sheet], float]) -> Options:
    """Return options that divide the scores by another number."""

    def options(sheet: Sheet) -> Iterator[Plant]:
        if sheet.scale is not None:
            yield from _per_head(sheet, "scaled", lambda at: at("scores") / divisor(sheet))

    return options


def _masked(wrong: Callable[[Matrix, Matrix], Matrix]) -> Options:
    def options(sheet: Sheet) -> Iterator[Plant]:
        mask = sheet.mask
        if mask is not None:
            yield from _per_head(sheet, "masked", lambda at: wrong(at("scaled"), mask))

    return options


def _apply_mask(scores: Matrix, mask: Matrix) -> Matrix:
    if scores.shape != mask.shape:
        raise ValueError("the mask does not fit")
    return np.where(mask, scores, -np.inf)


def _mask_diagonal(scores: Matrix, mask: Matrix) -> Matrix:
    if mask.shape[0] != mask.shape[1]:
        raise ValueError("the mask is not square")
    return np.where(mask & ~np.eye(len(mask), dtype=bool), scores, -np.inf)


def _masked_after(sheet: Sheet) -> Iterator[Plant]:
    mask = sheet.mask
    if mask is not None and sheet.settings["normalizer"] == "softmax":
        yield from _per_head(sheet, "weights", lambda at: softmax(at("scaled")) * mask)


def _weights(wrong: Callable[[Matrix], Matrix]) -> Options:
    def options(sheet: Sheet) -> Iterator[Plant]:
        if sheet.kind == "additive":
            yield {"weights": lambda env: wrong(env["scores"])}
        elif sheet.settings.get("normalizer") == "softmax":
            yield from _per_head(sheet, "weights", lambda at: wrong(at("masked")))

    return options


def _scaled_after(sheet: Sheet) -> Iterator[Plant]:
    scale, mask = sheet.scale, True if sheet.mask is None else sheet.mask
    if scale is not None and sheet.settings["normalizer"] == "softmax":
        yield from _per_head(
            sheet, "weights", lambda at: softmax(np.where(mask, at("scores"), -np.inf)) / scale
        )


def _weights_transposed(sheet: Sheet) -> Iterator[Plant]:
    yield from _per_head(sheet, "mixed", lambda at: at("weights").T @ at("V"))


def _keys_as_values(sheet: Sheet) -> Iterator[Plant]:
    yield from _per_head(sheet, "mixed", lambda at: at("weights") @ at("K"))


def _values_not_projected(sheet: Sheet) -> Iterator[Plant]:
    key, weights = f"{sheet.prefix}mixed", f"{sheet.prefix}weights"
    step = sheet.steps.get(f"{sheet.prefix}V")
    if not isinstance(step, Product) or "W_V" not in sheet.given:
        return
    source, width = step.pairs[0][0], sheet.given["W_V"].shape[1]
    part = width // sheet.heads

    def mixed(end: str, start: int) -> Step:
        def mixed_step(env: Env) -> Matrix:
            if env[source].shape[1] != width:
                raise ValueError("V has another width: the mistake would be obvious")
            return env[f"{weights}{end}"] @ env[source][:, start : start + part]

        return mixed_step

    yield from _once_and_everywhere(
        {f"{key}{end}": mixed(end, part * h) for h, end in enumerate(sheet.ends)}
    )


def _output(wrong: Callable[[Env, Product], Matrix]) -> Options:
    def options(sheet: Sheet) -> Iterator[Plant]:
        if "W_O" in sheet.given:
            key = f"{sheet.prefix}output"
            step = sheet.steps[key]
            yield {key: lambda env: wrong(env, step)}

    return options


def _transposed_output(env: Env, step: Product) -> Matrix:
    total = env[step.pairs[0][0]] @ env["W_O"].T
    return total if step.bias is None else total + env[step.bias]


def _heads_in_wrong_order(sheet: Sheet) -> Iterator[Plant]:
    for order in permutations(sheet.ends):
        if order != tuple(sheet.ends):
            parts = [f"{sheet.prefix}mixed{end}" for end in order]
            yield {f"{sheet.prefix}mixed": lambda env, p=parts: np.hstack([env[k] for k in p])}


COMPUTED: dict[str, Options] = {
    "weight-transposed": _weight_transposed,
    "wrong-weight": _wrong_weight,
    "not-projected": _not_projected,
    "context-mixed-up": _context_mixed_up,
    "keys-not-transposed": _keys_not_transposed,
    "queries-and-keys-swapped": _swapped,
    "not-scaled": _scaled(lambda _sheet: 1.0),
    "scaled-by-d_k": _scaled(lambda sheet: sheet.d_k),
    "scaled-by-sqrt-d_model": _scaled(lambda sheet: float(np.sqrt(sheet.given["X"].shape[1]))),
    "multiplied-by-scale": _scaled(lambda sheet: 1 / (sheet.scale or 1.0)),
    "mask-forgotten": _masked(lambda scores, _mask: scores),
    "mask-transposed": _masked(lambda scores, mask: _apply_mask(scores, mask.T)),
    "mask-hides-self": _masked(_mask_diagonal),
    "masked-with-zeros": _masked(lambda scores, mask: np.where(mask, scores, 0.0)),
    "masked-after-softmax": _masked_after,
    "wrong-softmax-axis": _weights(lambda x: softmax(x.T).T),
    "sigmoid-for-softmax": _weights(sigmoid),
    "sum-for-softmax": _weights(over_sum),
    "exp-not-normalised": _weights(np.exp),
    "scaled-after-softmax": _scaled_after,
    "weights-transposed": _weights_transposed,
    "keys-used-as-values": _keys_as_values,
    "values-not-projected": _values_not_projected,
    "output-projection-forgotten": _output(lambda env, step: env[step.pairs[0][0]]),
    "output-projection-transposed": _output(_transposed_output),
    "heads-in-wrong-order": _heads_in_wrong_order,
}


def _plant_miswritten(sheet: Sheet, name: str, correct: Worked, rng: Rng) -> Planted | None:
    """Change written numbers of one step, which later steps then use."""
    target = sheet.claimed[rng.integers(len(sheet.claimed))]
    from_later = False
    if name == "copied-from-another-step":
        # A number copied from a later step is a misprint: that step was computed without it.
        from_later, at = bool(rng.random() < 0.5), sheet.claimed.index(target)
        keys = sheet.claimed[at + 1 :] if from_later else sheet.claimed[:at]
        texts = _another_step([correct.texts[key] for key in keys], correct.texts[target], rng)
    else:
        texts = _one_cell(MISWRITTEN[name], correct.texts[target], rng)
    before = correct.texts[target]
    if texts is None or texts == before or _has_decimals(texts) != _has_decimals(before):
        return None
    if from_later:
        return Planted(Worked(correct.env, {**correct.texts, target: texts}), frozenset({target}))
    miswritten = work(sheet, spoil=lambda key, written: texts if key == target else written)
    return Planted(miswritten, frozenset({target}))


def _has_decimals(texts: Texts) -> bool:
    """Return True if a number has decimals: a first one would change the precision of the rest."""
    return any("." in text for row in texts for text in row)


def _one_cell(
    change: Callable[[Texts, int, int, Rng], str | None], before: Texts, rng: Rng
) -> Texts | None:
    texts = [list(row) for row in before]
    i, j = rng.integers(len(texts)), rng.integers(len(texts[0]))
    changed = None if texts[i][j] == "-inf" else change(texts, i, j, rng)
    if changed is None:
        return None
    texts[i][j] = changed
    return texts


def _sign(texts: Texts, i: int, j: int, rng: Rng) -> str | None:  # noqa: ARG001
    text = texts[i][j]
    if float(text) == 0:
        return None
    return text[1:] if text.startswith("-") else f"-{text}"


def _digits(texts: Texts, i: int, j: int, rng: Rng) -> str | None:
    text = texts[i][j]
    digits = [k for k, c in enumerate(text) if c.isdigit()]
    pairs = [(a, b) for a, b in pairwise(digits) if text[a] != text[b]]
    if not pairs:
        return None
    a, b = pairs[rng.integers(len(pairs))]
    swapped = text[:a] + text[b] + text[a + 1 : b] + text[a] + text[b + 1 :]
    whole = swapped.lstrip("-").split(".")[0]
    return None if len(whole) > 1 and whole.startswith("0") else swapped


def _point(texts: Texts, i: int, j: int, rng: Rng) -> str | None:
    sign, text = ("-", texts[i][j][1:]) if texts[i][j].startswith("-") else ("", texts[i][j])
    if float(text) == 0:
        return None
    whole, _, decimals = text.partition(".")
    digits, at = whole + decimals, len(whole) + int(rng.choice([-1, 1, -2, 2]))
    if at <= 0:
        digits, at = "0" * (1 - at) + digits, 1
    digits = digits.ljust(at, "0")
    whole = digits[:at].lstrip("0") or "0"
    return f"{sign}{whole}.{digits[at:]}" if digits[at:] else f"{sign}{whole}"


def _neighbour(texts: Texts, i: int, j: int, rng: Rng) -> str | None:
    adjacent = [(i, j - 1), (i, j + 1), (i - 1, j), (i + 1, j)]
    inside = [(r, c) for r, c in adjacent if 0 <= r < len(texts) and 0 <= c < len(texts[0])]
    r, c = inside[rng.integers(len(inside))]
    return texts[r][c]


def _slip(texts: Texts, i: int, j: int, rng: Rng) -> str:
    """Return the number with one digit wrong."""
    text = texts[i][j]
    decimals = len(text.partition(".")[2])
    size = max(len(text.lstrip("-").partition(".")[0]), 1)
    off = rng.integers(1, 10) * 10.0 ** rng.integers(-decimals, size)
    return f"{float(text) + rng.choice([-1, 1]) * off:.{decimals}f}"


def _another_step(others: list[Texts], before: Texts, rng: Rng) -> Texts | None:
    """Copy a cell, a row or the whole matrix of another step."""
    texts = [list(row) for row in before]
    others = [other for other in others if len(other[0]) == len(texts[0])]
    if not others:
        return None
    other = others[rng.integers(len(others))]
    extent = rng.choice(["cell", "row", "matrix"]) if len(other) == len(texts) else "row"
    i, j = rng.integers(min(len(texts), len(other))), rng.integers(len(texts[0]))
    if extent == "matrix":
        texts = [list(row) for row in other]
    elif extent == "row":
        texts[i] = list(other[i])
    else:
        texts[i][j] = other[i][j]
    return texts


MISWRITTEN: dict[str, Callable[[Texts, int, int, Rng], str | None]] = {
    "arithmetic-slip": _slip,
    "sign-lost": _sign,
    "digits-swapped": _digits,
    "decimal-point-moved": _point,
    "copied-from-neighbour": _neighbour,
    "copied-from-another-step": _neighbour,  # handled in _plant_miswritten
}

NAMES = (*COMPUTED, *MISWRITTEN)
