"""One mistake of every name, planted in a sheet: computed wrongly in plain numpy, or miswritten."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from itertools import pairwise, permutations

import numpy as np

from sheets import (
    Env,
    Matrix,
    Product,
    Sheet,
    Way,
    Worked,
    over_sum,
    sigmoid,
    softmax,
    work,
)

Rng = np.random.Generator
Plant = dict[str, Way]
Options = Callable[[Sheet], Iterator[Plant]]
At = Callable[[str], Matrix]  # a head's matrix by its step's name
Texts = list[list[str]]


@dataclass(frozen=True)
class Planted:
    """A sheet worked with one mistake, and the steps it was made in."""

    worked: Worked
    made_in: frozenset[str]


def plant(sheet: Sheet, name: str, honest: Worked, rng: Rng) -> Planted | None:
    """Work a sheet with a mistake in it; None where it has no room for it."""
    try:
        if name in SPOILED:
            return _spoiled(sheet, name, honest, rng)
        return _computed(sheet, name, honest, rng)
    except ValueError:  # matrices that do not fit together, the root of a negative number
        return None


def _computed(sheet: Sheet, name: str, honest: Worked, rng: Rng) -> Planted | None:
    options = list(COMPUTED[name](sheet))
    if not options:
        return None
    option = options[rng.integers(len(options))]
    worked = work(sheet, option)
    fits = all(worked.env[key].shape == honest.env[key].shape for key in sheet.claimed)
    return Planted(worked, frozenset(option)) if fits else None


def _products(sheet: Sheet) -> Iterator[tuple[str, int, Product]]:
    """Every product of something with a given weight, except the output projection."""
    for key, way in sheet.steps.items():
        if isinstance(way, Product):
            for k, (_, weight) in enumerate(way.pairs):
                if weight.startswith("W_") and weight != "W_O":
                    yield key, k, way


def _always(changed: dict[str, Way]) -> Iterator[Plant]:
    """The mistake made once, and made every time (in each head, at each time)."""
    if len(changed) > 1:
        yield changed
    for key, way in changed.items():
        yield {key: way}


def _with_weight(product: Product, k: int, wrong: Callable[[Env, str, str], Matrix]) -> Way:
    """Do the product with one of its terms computed wrongly."""

    def way(env: Env) -> Matrix:
        terms = [
            wrong(env, a, b) if i == k else env[a] @ env[b]
            for i, (a, b) in enumerate(product.pairs)
        ]
        total = sum(terms)
        return product.then(total if product.bias is None else total + env[product.bias])

    return way


def _by_weight(sheet: Sheet, wrong: Callable[[Env, str, str], Matrix]) -> Iterator[Plant]:
    """The same thing done wrong with a weight, once or wherever the weight is used."""
    uses: dict[str, dict[str, Way]] = {}
    for key, k, product in _products(sheet):
        uses.setdefault(product.pairs[k][1], {})[key] = _with_weight(product, k, wrong)
    for changed in uses.values():
        yield from _always(changed)


def _weight_transposed(sheet: Sheet) -> Iterator[Plant]:
    yield from _by_weight(sheet, lambda env, x, w: env[x] @ env[w].T)


def _wrong_weight(sheet: Sheet) -> Iterator[Plant]:
    weights = {product.pairs[k][1] for _, k, product in _products(sheet)}
    for other in sorted(weights | ({"W_O"} & set(sheet.given))):
        yield from _by_weight(sheet, lambda env, x, _w, o=other: env[x] @ env[o])


def _not_projected(sheet: Sheet) -> Iterator[Plant]:
    def itself(env: Env, x: str, w: str) -> Matrix:
        if env[x].shape[1] != env[w].shape[1]:
            raise ValueError("of another width: nobody takes the one for the other")
        return env[x]

    yield from _by_weight(sheet, itself)
    for key, _, product in _products(sheet):
        if len(product.pairs) == 1 and product.bias is not None:  # the bias forgotten, too
            yield {key: lambda env, pair=product.pairs[0]: itself(env, *pair)}


def _context_mixed_up(sheet: Sheet) -> Iterator[Plant]:
    if "context" not in sheet.given:
        return
    swap = {"X": "context", "context": "X"}
    changed = {}
    for key, way in sheet.steps.items():
        if isinstance(way, Product) and way.pairs[0][0] in swap:
            source, weight = way.pairs[0]
            changed[key] = replace(way, pairs=((swap[source], weight),))
    yield {"Q": changed["Q"]}
    yield from _always({key: changed[key] for key in ("K", "V")})


def _per_head(sheet: Sheet, step: str, wrong: Callable[[At], Matrix]) -> Iterator[Plant]:
    """Do a step of attention wrong, in one head or in all."""
    if sheet.kind not in ("attention", "block"):
        return

    def way(end: str) -> Way:
        return lambda env: wrong(lambda name: env[f"{sheet.prefix}{name}{end}"])

    yield from _always({f"{sheet.prefix}{step}{end}": way(end) for end in sheet.ends})


def _keys_not_transposed(sheet: Sheet) -> Iterator[Plant]:
    yield from _per_head(sheet, "scores", lambda at: at("Q") @ at("K"))


def _swapped(sheet: Sheet) -> Iterator[Plant]:
    yield from _per_head(sheet, "scores", lambda at: at("K") @ at("Q").T)


def _scaled(by: Callable[[Sheet], float]) -> Options:
    """Divide by something else."""

    def options(sheet: Sheet) -> Iterator[Plant]:
        if sheet.scale is not None:
            yield from _per_head(sheet, "scaled", lambda at: at("scores") / by(sheet))

    return options


def _masked(wrong: Callable[[Matrix, Matrix], Matrix]) -> Options:
    def options(sheet: Sheet) -> Iterator[Plant]:
        mask = sheet.mask
        if mask is not None:
            yield from _per_head(sheet, "masked", lambda at: wrong(at("scaled"), mask))

    return options


def _hides(scores: Matrix, mask: Matrix) -> Matrix:
    if scores.shape != mask.shape:
        raise ValueError("the mask does not fit")
    return np.where(mask, scores, -np.inf)


def _selfless(scores: Matrix, mask: Matrix) -> Matrix:
    if mask.shape[0] != mask.shape[1]:
        raise ValueError("who is oneself?")
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
    way = sheet.steps.get(f"{sheet.prefix}V")
    if not isinstance(way, Product) or "W_V" not in sheet.given:
        return
    source, width = way.pairs[0][0], sheet.given["W_V"].shape[1]
    part = width // sheet.heads

    def mixed(end: str, start: int) -> Way:
        def way(env: Env) -> Matrix:
            if env[source].shape[1] != width:
                raise ValueError("V is of another width: nobody takes the one for the other")
            return env[f"{weights}{end}"] @ env[source][:, start : start + part]

        return way

    yield from _always({f"{key}{end}": mixed(end, part * h) for h, end in enumerate(sheet.ends)})


def _output(wrong: Callable[[Env, Product], Matrix]) -> Options:
    def options(sheet: Sheet) -> Iterator[Plant]:
        if "W_O" in sheet.given:
            key = f"{sheet.prefix}output"
            way = sheet.steps[key]
            yield {key: lambda env: wrong(env, way)}

    return options


def _transposed_output(env: Env, way: Product) -> Matrix:
    total = env[way.pairs[0][0]] @ env["W_O"].T
    return total if way.bias is None else total + env[way.bias]


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
    "mask-transposed": _masked(lambda scores, mask: _hides(scores, mask.T)),
    "mask-hides-self": _masked(_selfless),
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
    "output-projection-forgotten": _output(lambda env, way: env[way.pairs[0][0]]),
    "output-projection-transposed": _output(_transposed_output),
    "heads-in-wrong-order": _heads_in_wrong_order,
}


def _spoiled(sheet: Sheet, name: str, honest: Worked, rng: Rng) -> Planted | None:
    """Spoil what was written of one step, and carry on with that."""
    target = sheet.claimed[rng.integers(len(sheet.claimed))]
    later = False
    if name == "copied-from-another-step":
        # What was copied from a later step is a misprint: that step was worked out without it.
        later, at = bool(rng.random() < 0.5), sheet.claimed.index(target)
        keys = sheet.claimed[at + 1 :] if later else sheet.claimed[:at]
        texts = _another_step([honest.texts[key] for key in keys], honest.texts[target], rng)
    else:
        texts = _one_cell(SPOILED[name], honest.texts[target], rng)
    before = honest.texts[target]
    if texts is None or texts == before or _precise(texts) != _precise(before):
        return None
    if later:
        return Planted(Worked(honest.env, {**honest.texts, target: texts}), frozenset({target}))
    spoiled = work(sheet, spoil=lambda key, written: texts if key == target else written)
    return Planted(spoiled, frozenset({target}))


def _precise(texts: Texts) -> bool:
    """Say whether there are decimals: among whole numbers, one would change what the rest mean."""
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
    at = [k for k, c in enumerate(text) if c.isdigit()]
    pairs = [(a, b) for a, b in pairwise(at) if text[a] != text[b]]
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
    places = [(i, j - 1), (i, j + 1), (i - 1, j), (i + 1, j)]
    inside = [(r, c) for r, c in places if 0 <= r < len(texts) and 0 <= c < len(texts[0])]
    r, c = inside[rng.integers(len(inside))]
    return texts[r][c]


def _slip(texts: Texts, i: int, j: int, rng: Rng) -> str:
    """Get one of the sum's digits wrong."""
    text = texts[i][j]
    decimals = len(text.partition(".")[2])
    size = max(len(text.lstrip("-").partition(".")[0]), 1)
    off = rng.integers(1, 10) * 10.0 ** rng.integers(-decimals, size)
    return f"{float(text) + rng.choice([-1, 1]) * off:.{decimals}f}"


def _another_step(others: list[Texts], before: Texts, rng: Rng) -> Texts | None:
    """Copy a cell, a row or the whole of another step."""
    texts = [list(row) for row in before]
    others = [other for other in others if len(other[0]) == len(texts[0])]
    if not others:
        return None
    other = others[rng.integers(len(others))]
    what = rng.choice(["cell", "row", "matrix"]) if len(other) == len(texts) else "row"
    i, j = rng.integers(min(len(texts), len(other))), rng.integers(len(texts[0]))
    if what == "matrix":
        texts = [list(row) for row in other]
    elif what == "row":
        texts[i] = list(other[i])
    else:
        texts[i][j] = other[i][j]
    return texts


SPOILED: dict[str, Callable[[Texts, int, int, Rng], str | None]] = {
    "arithmetic-slip": _slip,
    "sign-lost": _sign,
    "digits-swapped": _digits,
    "decimal-point-moved": _point,
    "copied-from-neighbour": _neighbour,
    "copied-from-another-step": _neighbour,  # see _spoiled
}

NAMES = (*COMPUTED, *SPOILED)
