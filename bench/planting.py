"""Plant a mistake of any name in a sheet: a wrong formula in plain numpy, or a slip in writing."""

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
Plant = dict[str, Step]  # wrong functions by step
VariantLister = Callable[[Sheet], Iterator[Plant]]
HeadMatrices = Callable[[str], Matrix]  # the matrix of a head by the name of its step
Texts = list[list[str]]


@dataclass(frozen=True)
class Planted:
    """A solution with one mistake, and the steps that the mistake is in."""

    worked: Worked
    steps: frozenset[str]


def plant(sheet: Sheet, name: str, correct: Worked, rng: Rng) -> Planted | None:
    """Solve a sheet with a mistake in it; None if the mistake is not possible."""
    try:
        if name in SLIPS:
            return _plant_slip(sheet, name, correct, rng)
        return _plant_formula_mistake(sheet, name, correct, rng)
    except ValueError:  # shapes that do not fit, the root of a negative number
        return None


def _plant_formula_mistake(sheet: Sheet, name: str, correct: Worked, rng: Rng) -> Planted | None:
    variants = list(FORMULA_MISTAKES[name](sheet))
    if not variants:
        return None
    variant = variants[rng.integers(len(variants))]
    worked = work(sheet, variant)
    fits = all(worked.env[key].shape == correct.env[key].shape for key in sheet.claimed)
    return Planted(worked, frozenset(variant)) if fits else None


def _products(sheet: Sheet) -> Iterator[tuple[str, int, Product]]:
    """Yield every product with a given weight, except the output projection."""
    for key, step in sheet.steps.items():
        if isinstance(step, Product):
            for k, (_, weight) in enumerate(step.pairs):
                if weight.startswith("W_") and weight != "W_O":
                    yield key, k, step


def _once_and_everywhere(changed: dict[str, Step]) -> Iterator[Plant]:
    """Yield the mistake in each single step and in all of them (each head, each time step)."""
    if len(changed) > 1:
        yield changed
    for key, step in changed.items():
        yield {key: step}


def _with_weight(product: Product, k: int, wrong: Callable[[Env, str, str], Matrix]) -> Step:
    """Return the product with one of its terms computed wrongly."""

    def step(env: Env) -> Matrix:
        terms = [
            wrong(env, a, b) if i == k else env[a] @ env[b]
            for i, (a, b) in enumerate(product.pairs)
        ]
        total = sum(terms)
        return product.then(total if product.bias is None else total + env[product.bias])

    return step


def _by_weight(sheet: Sheet, wrong: Callable[[Env, str, str], Matrix]) -> Iterator[Plant]:
    """Yield a mistake with a weight, once or wherever the weight is used."""
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
    def take_input(env: Env, x: str, w: str) -> Matrix:
        if env[x].shape[1] != env[w].shape[1]:
            raise ValueError("the widths differ")
        return env[x]

    yield from _by_weight(sheet, take_input)
    for key, _, product in _products(sheet):
        if len(product.pairs) == 1 and product.bias is not None:  # without the bias, too
            yield {key: lambda env, pair=product.pairs[0]: take_input(env, *pair)}


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


def _per_head(sheet: Sheet, step: str, wrong: Callable[[HeadMatrices], Matrix]) -> Iterator[Plant]:
    """Yield a wrong step of attention, in one head or in all."""
    if sheet.kind not in ("attention", "block"):
        return

    def make_step(end: str) -> Step:
        return lambda env: wrong(lambda name: env[f"{sheet.prefix}{name}{end}"])

    yield from _once_and_everywhere(
        {f"{sheet.prefix}{step}{end}": make_step(end) for end in sheet.ends}
    )


def _keys_not_transposed(sheet: Sheet) -> Iterator[Plant]:
    yield from _per_head(sheet, "scores", lambda head: head("Q") @ head("K"))


def _swapped(sheet: Sheet) -> Iterator[Plant]:
    yield from _per_head(sheet, "scores", lambda head: head("K") @ head("Q").T)


def _scaled(by: Callable[[Sheet], float]) -> VariantLister:
    """Return the variants that divide by another number."""

    def list_variants(sheet: Sheet) -> Iterator[Plant]:
        if sheet.scale is not None:
            yield from _per_head(sheet, "scaled", lambda head: head("scores") / by(sheet))

    return list_variants


def _masked(wrong: Callable[[Matrix, Matrix], Matrix]) -> VariantLister:
    def list_variants(sheet: Sheet) -> Iterator[Plant]:
        mask = sheet.mask
        if mask is not None:
            yield from _per_head(sheet, "masked", lambda head: wrong(head("scaled"), mask))

    return list_variants


def _apply_mask(scores: Matrix, mask: Matrix) -> Matrix:
    if scores.shape != mask.shape:
        raise ValueError("the mask does not fit")
    return np.where(mask, scores, -np.inf)


def _mask_with_self(scores: Matrix, mask: Matrix) -> Matrix:
    if mask.shape[0] != mask.shape[1]:
        raise ValueError("the mask is not square")
    return np.where(mask & ~np.eye(len(mask), dtype=bool), scores, -np.inf)


def _masked_after(sheet: Sheet) -> Iterator[Plant]:
    mask = sheet.mask
    if mask is not None and sheet.settings["normalizer"] == "softmax":
        yield from _per_head(sheet, "weights", lambda head: softmax(head("scaled")) * mask)


def _weights(wrong: Callable[[Matrix], Matrix]) -> VariantLister:
    def list_variants(sheet: Sheet) -> Iterator[Plant]:
        if sheet.kind == "additive":
            yield {"weights": lambda env: wrong(env["scores"])}
        elif sheet.settings.get("normalizer") == "softmax":
            yield from _per_head(sheet, "weights", lambda head: wrong(head("masked")))

    return list_variants


def _scaled_after(sheet: Sheet) -> Iterator[Plant]:
    scale, mask = sheet.scale, True if sheet.mask is None else sheet.mask
    if scale is not None and sheet.settings["normalizer"] == "softmax":
        yield from _per_head(
            sheet, "weights", lambda head: softmax(np.where(mask, head("scores"), -np.inf)) / scale
        )


def _weights_transposed(sheet: Sheet) -> Iterator[Plant]:
    yield from _per_head(sheet, "mixed", lambda head: head("weights").T @ head("V"))


def _keys_as_values(sheet: Sheet) -> Iterator[Plant]:
    yield from _per_head(sheet, "mixed", lambda head: head("weights") @ head("K"))


def _values_not_projected(sheet: Sheet) -> Iterator[Plant]:
    key, weights = f"{sheet.prefix}mixed", f"{sheet.prefix}weights"
    step = sheet.steps.get(f"{sheet.prefix}V")
    if not isinstance(step, Product) or "W_V" not in sheet.given:
        return
    source, width = step.pairs[0][0], sheet.given["W_V"].shape[1]
    part = width // sheet.heads

    def mixed(end: str, start: int) -> Step:
        def step(env: Env) -> Matrix:
            if env[source].shape[1] != width:
                raise ValueError("V has another width")
            return env[f"{weights}{end}"] @ env[source][:, start : start + part]

        return step

    yield from _once_and_everywhere(
        {f"{key}{end}": mixed(end, part * h) for h, end in enumerate(sheet.ends)}
    )


def _output(wrong: Callable[[Env, Product], Matrix]) -> VariantLister:
    def list_variants(sheet: Sheet) -> Iterator[Plant]:
        if "W_O" in sheet.given:
            key = f"{sheet.prefix}output"
            step = sheet.steps[key]
            yield {key: lambda env: wrong(env, step)}

    return list_variants


def _transposed_output(env: Env, step: Product) -> Matrix:
    total = env[step.pairs[0][0]] @ env["W_O"].T
    return total if step.bias is None else total + env[step.bias]


def _heads_in_wrong_order(sheet: Sheet) -> Iterator[Plant]:
    for order in permutations(sheet.ends):
        if order != tuple(sheet.ends):
            parts = [f"{sheet.prefix}mixed{end}" for end in order]
            yield {f"{sheet.prefix}mixed": lambda env, p=parts: np.hstack([env[k] for k in p])}


FORMULA_MISTAKES: dict[str, VariantLister] = {
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
    "mask-hides-self": _masked(_mask_with_self),
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


def _plant_slip(sheet: Sheet, name: str, correct: Worked, rng: Rng) -> Planted | None:
    """Corrupt the written numbers of one step and continue with them."""
    target = sheet.claimed[rng.integers(len(sheet.claimed))]
    later = False
    if name == "copied-from-another-step":
        # A copy from a later step is a misprint: that step was computed before the copy.
        later, index = bool(rng.random() < 0.5), sheet.claimed.index(target)
        keys = sheet.claimed[index + 1 :] if later else sheet.claimed[:index]
        texts = _copy_from_another_step(
            [correct.texts[key] for key in keys], correct.texts[target], rng
        )
    else:
        texts = _corrupt_cell(SLIPS[name], correct.texts[target], rng)
    before = correct.texts[target]
    if texts is None or texts == before or _has_decimals(texts) != _has_decimals(before):
        return None
    if later:
        return Planted(Worked(correct.env, {**correct.texts, target: texts}), frozenset({target}))
    worked = work(sheet, spoil=lambda key, before: texts if key == target else before)
    return Planted(worked, frozenset({target}))


def _has_decimals(texts: Texts) -> bool:
    """Return True if any number has decimals, which changes the precision of integers."""
    return any("." in text for row in texts for text in row)


def _corrupt_cell(
    change: Callable[[Texts, int, int, Rng], str | None], before: Texts, rng: Rng
) -> Texts | None:
    texts = [list(row) for row in before]
    i, j = rng.integers(len(texts)), rng.integers(len(texts[0]))
    changed = None if texts[i][j] == "-inf" else change(texts, i, j, rng)
    if changed is None:
        return None
    texts[i][j] = changed
    return texts


def _flip_sign(texts: Texts, i: int, j: int, rng: Rng) -> str | None:  # noqa: ARG001
    text = texts[i][j]
    if float(text) == 0:
        return None
    return text[1:] if text.startswith("-") else f"-{text}"


def _swap_digits(texts: Texts, i: int, j: int, rng: Rng) -> str | None:
    text = texts[i][j]
    positions = [k for k, c in enumerate(text) if c.isdigit()]
    pairs = [(a, b) for a, b in pairwise(positions) if text[a] != text[b]]
    if not pairs:
        return None
    a, b = pairs[rng.integers(len(pairs))]
    swapped = text[:a] + text[b] + text[a + 1 : b] + text[a] + text[b + 1 :]
    integer_part = swapped.lstrip("-").split(".")[0]
    return None if len(integer_part) > 1 and integer_part.startswith("0") else swapped


def _move_point(texts: Texts, i: int, j: int, rng: Rng) -> str | None:
    sign, text = ("-", texts[i][j][1:]) if texts[i][j].startswith("-") else ("", texts[i][j])
    if float(text) == 0:
        return None
    integer_part, _, decimals = text.partition(".")
    digits = integer_part + decimals
    point = len(integer_part) + int(rng.choice([-1, 1, -2, 2]))
    if point <= 0:
        digits, point = "0" * (1 - point) + digits, 1
    digits = digits.ljust(point, "0")
    integer_part = digits[:point].lstrip("0") or "0"
    return f"{sign}{integer_part}.{digits[point:]}" if digits[point:] else f"{sign}{integer_part}"


def _copy_neighbor(texts: Texts, i: int, j: int, rng: Rng) -> str | None:
    adjacent = [(i, j - 1), (i, j + 1), (i - 1, j), (i + 1, j)]
    inside = [(r, c) for r, c in adjacent if 0 <= r < len(texts) and 0 <= c < len(texts[0])]
    r, c = inside[rng.integers(len(inside))]
    return texts[r][c]


def _add_error(texts: Texts, i: int, j: int, rng: Rng) -> str:
    """Change one digit of the result."""
    text = texts[i][j]
    decimals = len(text.partition(".")[2])
    size = max(len(text.lstrip("-").partition(".")[0]), 1)
    error = rng.integers(1, 10) * 10.0 ** rng.integers(-decimals, size)
    return f"{float(text) + rng.choice([-1, 1]) * error:.{decimals}f}"


def _copy_from_another_step(others: list[Texts], before: Texts, rng: Rng) -> Texts | None:
    """Copy a cell, a row or all of another step."""
    texts = [list(row) for row in before]
    others = [other for other in others if len(other[0]) == len(texts[0])]
    if not others:
        return None
    other = others[rng.integers(len(others))]
    unit = rng.choice(["cell", "row", "matrix"]) if len(other) == len(texts) else "row"
    i, j = rng.integers(min(len(texts), len(other))), rng.integers(len(texts[0]))
    if unit == "matrix":
        texts = [list(row) for row in other]
    elif unit == "row":
        texts[i] = list(other[i])
    else:
        texts[i][j] = other[i][j]
    return texts


SLIPS: dict[str, Callable[[Texts, int, int, Rng], str | None]] = {
    "arithmetic-slip": _add_error,
    "sign-lost": _flip_sign,
    "digits-swapped": _swap_digits,
    "decimal-point-moved": _move_point,
    "copied-from-neighbour": _copy_neighbor,
    "copied-from-another-step": _copy_neighbor,  # not called: see _plant_slip
}

NAMES = (*FORMULA_MISTAKES, *SLIPS)
