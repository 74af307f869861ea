"""Plant a mistake of any name in a sheet: a wrong formula in plain numpy, or a slip in writing."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, fields, is_dataclass, replace
from itertools import permutations

import numpy as np

from planting_layers import LAYER_MISTAKES, Plant, VariantLister, once_and_everywhere
from sheets import (
    GATES,
    Env,
    Masked,
    Matrix,
    Product,
    Quotient,
    Sheet,
    Softmax,
    Step,
    Worked,
    over_sum,
    sigmoid,
    softmax,
    work,
)
from slips import SLIPS, spoil_step

Rng = np.random.Generator
HeadMatrices = Callable[[str], Matrix]  # the matrix of a head by the name of its step


@dataclass(frozen=True)
class Planted:
    """A solution with one mistake, and the steps that the mistake is in."""

    worked: Worked
    steps: frozenset[str]


def plant(sheet: Sheet, name: str, correct: Worked, rng: Rng) -> Planted | None:
    """Solve a sheet with a mistake in it; None if the mistake is not possible."""
    if name in SLIPS:
        spoiled = spoil_step(sheet, name, correct, rng)
        return None if spoiled is None else Planted(spoiled[0], frozenset({spoiled[1]}))
    variants = list(FORMULA_MISTAKES[name](sheet))
    if not variants:
        return None
    variant = variants[rng.integers(len(variants))]
    worked = work_with_mistake(sheet, variant, correct)
    return None if worked is None else Planted(worked, frozenset(variant))


def work_with_mistake(
    sheet: Sheet,
    variant: Plant,
    correct: Worked,
    spoil: Callable[[str, list[list[str]]], list[list[str]]] | None = None,
) -> Worked | None:
    """Solve a sheet with wrong steps; None if their shapes do not fit."""
    try:
        worked = work(sheet, variant, spoil)
    except ValueError:  # shapes that do not fit, a number that is too large
        return None
    fits = all(worked.env[key].shape == correct.env[key].shape for key in sheet.claimed)
    return worked if fits else None


def merge(sheet: Sheet, a: Plant, b: Plant) -> Plant | None:
    """Return both mistakes at once; None if they exclude each other in a step."""
    merged = {**a, **b}
    for key in a.keys() & b.keys():
        step = _merge_steps(sheet.steps[key], a[key], b[key])
        if step is None:
            return None
        merged[key] = step
    return merged


def _merge_steps(base: Step, a: Step, b: Step) -> Step | None:
    """Apply two changes of different fields of a step."""
    if not (is_dataclass(base) and type(base) is type(a) is type(b)):
        return None
    changes = {}
    for field in fields(base):
        own, in_a, in_b = (getattr(step, field.name) for step in (base, a, b))
        if in_a is not own and in_b is not own:
            return None
        changes[field.name] = in_a if in_a is not own else in_b
    return replace(base, **changes)


def _products(sheet: Sheet) -> Iterator[tuple[str, int, Product]]:
    """Yield every product with a given weight, except the output projection."""
    for key, step in sheet.steps.items():
        if isinstance(step, Product):
            for k, (_, weight) in enumerate(step.pairs):
                if weight.startswith("W_") and weight != "W_O":
                    yield key, k, step


def _by_weight(sheet: Sheet, wrong: Callable[[str, str], tuple[str, str]]) -> Iterator[Plant]:
    """Yield a mistake with a weight, once or wherever the weight is used."""
    uses: dict[str, dict[str, Step]] = {}
    for key, k, product in _products(sheet):
        pairs = list(product.pairs)
        pairs[k] = wrong(*pairs[k])
        uses.setdefault(product.pairs[k][1], {})[key] = replace(product, pairs=tuple(pairs))
    for changed in uses.values():
        yield from once_and_everywhere(changed)


def _weight_transposed(sheet: Sheet) -> Iterator[Plant]:
    yield from _by_weight(sheet, lambda x, w: (x, f"{w}ᵀ"))


def _wrong_weight(sheet: Sheet) -> Iterator[Plant]:
    weights = {product.pairs[k][1] for _, k, product in _products(sheet)}
    for other in sorted(weights | ({"W_O"} & set(sheet.given))):
        yield from _by_weight(sheet, lambda x, _w, o=other: (x, o))
    yield from _other_projection(sheet)


def _other_projection(sheet: Sheet) -> Iterator[Plant]:
    """Yield a projection or a gate with the weights and the bias of another one."""
    for key, step in sheet.steps.items():
        own = key.removeprefix(sheet.prefix).partition(".")[0]
        family = next((names for names in ("QKV", "".join(GATES)) if own in names), "")
        if not isinstance(step, Product):
            continue
        for other in family.replace(own, ""):
            pairs = tuple((x, w.removesuffix(own) + other) for x, w in step.pairs)
            bias = f"b_{other}" if family == "QKV" else f"b{other}"
            is_known = all(w in sheet.given or w in sheet.steps for _, w in pairs)
            if is_known and all(w.startswith("W_") for _, w in step.pairs):
                has_bias = bias in sheet.given or bias in sheet.steps
                yield {key: replace(step, pairs=pairs, bias=bias if has_bias else None)}


def _not_projected(sheet: Sheet) -> Iterator[Plant]:
    yield from _by_weight(sheet, lambda x, _w: (x, ""))
    for key, _, product in _products(sheet):
        if len(product.pairs) == 1 and product.bias is not None:  # without the bias, too
            yield {key: replace(product, pairs=((product.pairs[0][0], ""),), bias=None)}


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
    yield from once_and_everywhere({key: changed[key] for key in ("K", "V")})


def _per_head(
    sheet: Sheet, name: str, change: Callable[[Callable[[str], str], Step], Step]
) -> Iterator[Plant]:
    """Yield a wrong step of attention, in one head or in all.

    `change` receives a function that returns the keys of the same head, and the right step.
    """
    if sheet.kind not in ("attention", "block"):
        return

    def make_step(end: str) -> Step:
        def key(other: str) -> str:
            return f"{sheet.prefix}{other}{end}"

        return change(key, sheet.steps[key(name)])

    yield from once_and_everywhere(
        {f"{sheet.prefix}{name}{end}": make_step(end) for end in sheet.ends}
    )


def _products_with(step: str, a: str, b: str) -> VariantLister:
    """Return the variants that multiply other matrices of the head."""

    def change(key: Callable[[str], str], _step: Step) -> Step:
        left, right = (
            f"{key(name.rstrip('ᵀ'))}{'ᵀ' if name.endswith('ᵀ') else ''}" for name in (a, b)
        )
        return Product(((left, right),))

    return lambda sheet: _per_head(sheet, step, change)


def _scaled(by: Callable[[Sheet], float]) -> VariantLister:
    """Return the variants that divide by another number."""

    def list_variants(sheet: Sheet) -> Iterator[Plant]:
        if sheet.scale is not None:
            yield from _per_head(
                sheet, "scaled", lambda key, _step: Quotient(key("scores"), by(sheet))
            )

    return list_variants


def _scaled_by_d_model(sheet: Sheet) -> Iterator[Plant]:
    if "X" in sheet.given:
        yield from _scaled(lambda s: float(np.sqrt(s.given["X"].shape[1])))(sheet)


def _masked(wrong: Callable[[Matrix], Matrix | None], fill: float = -np.inf) -> VariantLister:
    def list_variants(sheet: Sheet) -> Iterator[Plant]:
        mask = sheet.mask
        if mask is not None:
            yield from _per_head(
                sheet, "masked", lambda key, _step: Masked(key("scaled"), wrong(mask), fill)
            )

    return list_variants


def _mask_hides_self(sheet: Sheet) -> Iterator[Plant]:
    mask = sheet.mask
    if mask is not None and mask.shape[0] == mask.shape[1]:
        yield from _masked(lambda mask: mask & ~np.eye(len(mask), dtype=bool))(sheet)


def _masked_after(sheet: Sheet) -> Iterator[Plant]:
    mask = sheet.mask
    if mask is not None and sheet.settings["normalizer"] == "softmax":
        yield from _per_head(
            sheet, "weights", lambda key, _step: lambda env: softmax(env[key("scaled")]) * mask
        )


def _weights(wrong: Callable[[Matrix], Matrix]) -> VariantLister:
    def list_variants(sheet: Sheet) -> Iterator[Plant]:
        changed: dict[str, Step] = {}
        for key, step in sheet.steps.items():
            if isinstance(step, Softmax):
                changed[key] = lambda env, source=step.source: wrong(env[source])
        if changed:
            yield from once_and_everywhere(changed)

    return list_variants


def _scaled_after(sheet: Sheet) -> Iterator[Plant]:
    scale, mask = sheet.scale, True if sheet.mask is None else sheet.mask
    if scale is not None and sheet.settings["normalizer"] == "softmax":
        yield from _per_head(
            sheet,
            "weights",
            lambda key, _step: (
                lambda env: softmax(np.where(mask, env[key("scores")], -np.inf)) / scale
            ),
        )


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

    yield from once_and_everywhere(
        {f"{key}{end}": mixed(end, part * h) for h, end in enumerate(sheet.ends)}
    )


def _output(**changes: object) -> VariantLister:
    """Return the variants with another output projection."""

    def list_variants(sheet: Sheet) -> Iterator[Plant]:
        key = f"{sheet.prefix}output"
        step = sheet.steps.get(key)
        if "W_O" in sheet.given and isinstance(step, Product):
            pairs = ((step.pairs[0][0], str(changes["weight"])),)
            yield {key: replace(step, pairs=pairs)}
            if step.bias is not None and "bias" in changes:
                yield {key: replace(step, pairs=pairs, bias=None)}

    return list_variants


def _heads_in_wrong_order(sheet: Sheet) -> Iterator[Plant]:
    for order in permutations(sheet.ends):
        if order != tuple(sheet.ends):
            parts = [f"{sheet.prefix}mixed{end}" for end in order]
            yield {
                f"{sheet.prefix}mixed": lambda env, p=parts: np.concatenate([env[k] for k in p], -1)
            }


def _heads_interleaved(sheet: Sheet) -> Iterator[Plant]:
    """Split Q, K, V by taking every other column, or concatenate column by column."""
    if sheet.heads == 1:
        return
    slices: dict[str, Step] = {}
    for name in ("Q", "K", "V"):
        for h, end in enumerate(sheet.ends):
            source = f"{sheet.prefix}{name}"
            slices[f"{source}{end}"] = lambda env, s=source, h=h: env[s][:, h :: sheet.heads]
    parts = [f"{sheet.prefix}mixed{end}" for end in sheet.ends]

    def interleave(env: Env) -> Matrix:
        stacked = np.stack([env[part] for part in parts], -1)
        return stacked.reshape(len(stacked), -1)

    yield slices
    yield {f"{sheet.prefix}mixed": interleave}
    yield {**slices, f"{sheet.prefix}mixed": interleave}


def _projected_before_concatenation(sheet: Sheet) -> Iterator[Plant]:
    """Multiply each head by its block or the first block of W_O, or the values by W_O."""
    if sheet.heads == 1 or "W_O" not in sheet.given:
        return
    prefix, weight = sheet.prefix, sheet.given["W_O"]
    rows, columns = (size // sheet.heads for size in weight.shape)
    step = sheet.steps[f"{prefix}output"]
    if columns * sheet.heads != weight.shape[1] or not isinstance(step, Product):
        return

    def head_times_block(env: Env, h: int, block: int) -> Matrix:
        own = weight[block * rows : (block + 1) * rows, block * columns : (block + 1) * columns]
        return env[f"{prefix}mixed"][:, h * rows : (h + 1) * rows] @ own

    def projected_values(env: Env, h: int) -> Matrix:
        values = (env[f"{prefix}V"] @ weight)[:, h * columns : (h + 1) * columns]
        return env[f"{prefix}weights.{h + 1}"] @ values

    def output(head: Callable[[Env, int], Matrix]) -> Plant:
        def concatenated(env: Env) -> Matrix:
            total = np.concatenate([head(env, h) for h in range(sheet.heads)], -1)
            return total if step.bias is None else total + env[step.bias]

        return {f"{prefix}output": concatenated}

    yield output(lambda env, h: head_times_block(env, h, h))
    yield output(lambda env, h: head_times_block(env, h, 0))
    yield output(projected_values)


FORMULA_MISTAKES: dict[str, VariantLister] = {
    "weight-transposed": _weight_transposed,
    "wrong-weight": _wrong_weight,
    "not-projected": _not_projected,
    "context-mixed-up": _context_mixed_up,
    "keys-not-transposed": _products_with("scores", "Q", "K"),
    "queries-and-keys-swapped": _products_with("scores", "K", "Qᵀ"),
    "not-scaled": _scaled(lambda _sheet: 1.0),
    "scaled-by-d_k": _scaled(lambda sheet: sheet.d_k),
    "scaled-by-sqrt-d_model": _scaled_by_d_model,
    "multiplied-by-scale": _scaled(lambda sheet: 1 / (sheet.scale or 1.0)),
    "mask-forgotten": _masked(lambda _mask: None),
    "mask-transposed": _masked(lambda mask: mask.T),
    "mask-hides-self": _mask_hides_self,
    "masked-with-zeros": _masked(lambda mask: mask, fill=0.0),
    "masked-after-softmax": _masked_after,
    "wrong-softmax-axis": _weights(lambda x: softmax(x.T).T),
    "sigmoid-for-softmax": _weights(sigmoid),
    "sum-for-softmax": _weights(over_sum),
    "exp-not-normalised": _weights(np.exp),
    "scaled-after-softmax": _scaled_after,
    "weights-transposed": _products_with("mixed", "weightsᵀ", "V"),
    "keys-used-as-values": _products_with("mixed", "weights", "K"),
    "values-not-projected": _values_not_projected,
    "output-projection-forgotten": _output(weight="", bias=None),
    "output-projection-transposed": _output(weight="W_Oᵀ"),
    "heads-in-wrong-order": _heads_in_wrong_order,
    "heads-interleaved": _heads_interleaved,
    "projected-before-concatenation": _projected_before_concatenation,
    **LAYER_MISTAKES,
}
NAMES = (*FORMULA_MISTAKES, *SLIPS)
