"""Wrong formulas for recurrent networks, layer norm, positions, feed-forward layers and biases."""

from collections.abc import Callable, Iterator
from dataclasses import replace

import numpy as np

from sheets import (
    ACTIVATIONS,
    Activated,
    Affine,
    Angles,
    Cell,
    Encoding,
    Env,
    Matrix,
    Product,
    Sheet,
    Standardized,
    State,
    Step,
    identity,
    relu,
    sigmoid,
)

Plant = dict[str, Step]  # wrong functions by step
VariantLister = Callable[[Sheet], Iterator[Plant]]
_BASES = (100_000, 10_000, 1_000, 100, 10)


def once_and_everywhere(changed: dict[str, Step]) -> Iterator[Plant]:
    """Yield the mistake in each single step and in all of them (each head, each time step)."""
    if len(changed) > 1:
        yield changed
    for key, step in changed.items():
        yield {key: step}


def _group(changed: dict[str, Step]) -> Iterator[Plant]:
    """Yield a mistake once, in all time steps of a name, and everywhere."""
    by_name: dict[str, dict[str, Step]] = {}
    for key, step in changed.items():
        name = key.rpartition(".")[0] if key.rpartition(".")[2].isdigit() else key
        by_name.setdefault(name, {})[key] = step
    if len(by_name) > 1:
        yield changed
    for group in by_name.values():
        yield from once_and_everywhere(group)


def _bias_forgotten(sheet: Sheet) -> Iterator[Plant]:
    yield from _group(
        {
            key: replace(step, bias=None)
            for key, step in sheet.steps.items()
            if isinstance(step, Product) and step.bias is not None
        }
    )


def _activations(sheet: Sheet) -> Iterator[tuple[str, str, Step]]:
    """Yield every step with an activation: its key, the field of the function and the step."""
    for key, step in sheet.steps.items():
        if isinstance(step, Activated):
            yield key, "function", step
        elif isinstance(step, Product) and step.then is not identity:
            yield key, "then", step


def _activation_forgotten(sheet: Sheet) -> Iterator[Plant]:
    yield from _group(
        {key: replace(step, **{name: identity}) for key, name, step in _activations(sheet)}
    )


def _wrong_activation(sheet: Sheet) -> Iterator[Plant]:
    others = tuple(ACTIVATIONS.values()) if "forward" in sheet.kind else (np.tanh, sigmoid, relu)
    others = tuple(ACTIVATIONS.values()) if sheet.kind == "block" else others
    for other in others:
        yield from _group(
            {
                key: replace(step, **{name: other})
                for key, name, step in _activations(sheet)
                if getattr(step, name) is not other
            }
        )


def _states(sheet: Sheet) -> Iterator[tuple[str, int, int, Product]]:
    """Yield every product with the previous state: key, time, index of the pair and step."""
    for key, step in sheet.steps.items():
        if sheet.kind in ("rnn", "lstm") and isinstance(step, Product):
            yield key, int(key.rpartition(".")[2]), 1, step


def _recurrence_forgotten(sheet: Sheet) -> Iterator[Plant]:
    yield from _group(
        {key: replace(step, pairs=step.pairs[:1]) for key, _, _, step in _states(sheet)}
    )


def _state_not_updated(sheet: Sheet) -> Iterator[Plant]:
    """Use the state of the time step before the previous one, or always the first."""
    for first in (False, True):
        by_time: dict[int, dict[str, Step]] = {}
        for key, t, k, step in _states(sheet):
            if t > 1:
                _, weight = step.pairs[k]
                older = "h0" if first or t == 2 else f"h.{t - 2}"
                pairs = (step.pairs[0], (older, weight))
                by_time.setdefault(t, {})[key] = replace(step, pairs=pairs)
        if first:
            yield {key: step for changed in by_time.values() for key, step in changed.items()}
        else:
            yield from by_time.values()


def _gates_swapped(sheet: Sheet) -> Iterator[Plant]:
    if sheet.kind != "lstm":
        return
    cells = {k: s for k, s in sheet.steps.items() if isinstance(s, Cell)}
    yield from once_and_everywhere(
        {key: replace(step, forget=step.let, let=step.forget) for key, step in cells.items()}
    )
    yield from once_and_everywhere(
        {key: replace(step, let=f"o{step.let[1:]}") for key, step in cells.items()}
    )
    for gate in "if":
        yield from once_and_everywhere(
            {
                key: replace(step, gate=f"{gate}{step.gate[1:]}")
                for key, step in sheet.steps.items()
                if isinstance(step, State)
            }
        )


def _lstm_state(change: Callable[[str, State], State]) -> VariantLister:
    def list_variants(sheet: Sheet) -> Iterator[Plant]:
        changed: dict[str, Step] = {
            key: change(key, step) for key, step in sheet.steps.items() if isinstance(step, State)
        }
        if changed:
            yield from once_and_everywhere(changed)

    return list_variants


def _old_cell_used(sheet: Sheet) -> Iterator[Plant]:
    """Compute the state from the previous cell, or the cell from the one before the previous."""

    def key_before(key: str) -> str:
        time = int(key.rpartition(".")[2]) - 1
        return f"c.{time}" if time else "c0"

    yield from _lstm_state(lambda _key, step: replace(step, cell=key_before(step.cell)))(sheet)
    for key, step in sheet.steps.items():
        if isinstance(step, Cell) and step.old != "c0":
            yield {key: replace(step, old=key_before(step.old))}


def _norms(sheet: Sheet) -> Iterator[tuple[str, Standardized]]:
    """Yield every layer norm: the prefix of its keys and the step that divides."""
    for key, step in sheet.steps.items():
        if isinstance(step, Standardized):
            yield key.removesuffix("normalised"), step


def _in_one_or_all_norms(change: Callable[[str, Standardized, Sheet], Plant]) -> VariantLister:
    def list_variants(sheet: Sheet) -> Iterator[Plant]:
        plants = [change(prefix, step, sheet) for prefix, step in _norms(sheet)]
        plants = [p for p in plants if p]
        yield from plants
        if len(plants) > 1:
            yield {key: step for p in plants for key, step in p.items()}

    return list_variants


def _variance_with_n_1(prefix: str, step: Standardized, _sheet: Sheet) -> Plant:
    def variance(env: Env) -> Matrix:
        x = env[step.source]
        return ((x - env[step.mean]) ** 2).sum(-1, keepdims=True) / (x.shape[-1] - 1)

    return {f"{prefix}variance": variance}


def _normalized_over_batch(prefix: str, step: Standardized, sheet: Sheet) -> Plant:
    def column(statistic: Callable[..., Matrix]) -> Step:
        return lambda env: statistic(env[step.source], axis=0)[:, None]

    def normalized(env: Env) -> Matrix:
        x = env[step.source]
        return (x - x.mean(0)) / np.sqrt(x.var(0) + step.eps)

    changed: Plant = {step.mean: column(np.mean), step.variance: column(np.var)}
    changed = {key: wrong for key, wrong in changed.items() if key in sheet.claimed}
    return {**changed, f"{prefix}normalised": normalized}


def _deviation_for_variance(prefix: str, _step: Standardized, sheet: Sheet) -> Plant:
    key = f"{prefix}variance"
    right = sheet.steps[key]
    return {key: lambda env: np.sqrt(right(env))}


def _variance_for_deviation(prefix: str, step: Standardized, _sheet: Sheet) -> Plant:
    return {f"{prefix}normalised": replace(step, takes_root=False)}


def _eps_forgotten(prefix: str, step: Standardized, _sheet: Sheet) -> Plant:
    return {f"{prefix}normalised": replace(step, eps=0.0)} if step.eps else {}


def _affine(**changes: None) -> VariantLister:
    """Return the variants that leave γ or β out."""

    def change(prefix: str, _step: Standardized, sheet: Sheet) -> Plant:
        key = f"{prefix}output"
        affine = sheet.steps[key]
        assert isinstance(affine, Affine)
        is_used = all(getattr(affine, name) is not None for name in changes)
        return {key: replace(affine, **changes)} if is_used else {}

    return _in_one_or_all_norms(change)


def _angles(list_changes: Callable[[Angles], Iterator[dict[str, object]]]) -> VariantLister:
    def list_variants(sheet: Sheet) -> Iterator[Plant]:
        step = sheet.steps.get("angles")
        if isinstance(step, Angles):
            for changes in list_changes(step):
                yield {"angles": replace(step, **changes)}

    return list_variants


def _other_bases(step: Angles) -> Iterator[dict[str, object]]:
    yield from ({"base": base} for base in _BASES if base != step.base)


def _other_widths(step: Angles) -> Iterator[dict[str, object]]:
    """Yield twice the width (exponent i / width), half of it (the pairs), and near ones."""
    width = step.columns
    others = (2 * width, width // 2, width - 1, width + 1, width - 2, width + 2)
    yield from ({"width": other} for other in others if other > 0)


def _encoding(**changes: bool) -> VariantLister:
    def list_variants(sheet: Sheet) -> Iterator[Plant]:
        step = sheet.steps.get("encoding")
        if isinstance(step, Encoding):
            yield {"encoding": replace(step, **changes)}

    return list_variants


def _weights_in_wrong_order(sheet: Sheet) -> Iterator[Plant]:
    """Use W_2 first and W_1 then, each with the bias of its place or with its own."""
    layers = {
        step.pairs[0][1]: (key, step)
        for key, step in sheet.steps.items()
        if isinstance(step, Product) and step.pairs[0][1] in ("W_1", "W_2")
    }
    if not layers:
        return
    swapped: Plant = {}
    with_bias: Plant = {}
    for weight, other in (("W_1", "W_2"), ("W_2", "W_1")):
        key, step = layers[weight]
        swapped[key] = replace(step, pairs=((step.pairs[0][0], other),))
        with_bias[key] = replace(swapped[key], bias=layers[other][1].bias)
    yield swapped
    yield with_bias


LAYER_MISTAKES: dict[str, VariantLister] = {
    "bias-forgotten": _bias_forgotten,
    "activation-forgotten": _activation_forgotten,
    "wrong-activation": _wrong_activation,
    "recurrence-forgotten": _recurrence_forgotten,
    "state-not-updated": _state_not_updated,
    "gates-swapped": _gates_swapped,
    "cell-not-squashed": _lstm_state(lambda _key, step: replace(step, squash=identity)),
    "old-cell-used": _old_cell_used,
    "variance-over-n-minus-1": _in_one_or_all_norms(_variance_with_n_1),
    "normalized-over-batch": _in_one_or_all_norms(_normalized_over_batch),
    "variance-for-deviation": _in_one_or_all_norms(_variance_for_deviation),
    "deviation-for-variance": _in_one_or_all_norms(_deviation_for_variance),
    "eps-forgotten": _in_one_or_all_norms(_eps_forgotten),
    "gamma-forgotten": _affine(gamma=None),
    "beta-forgotten": _affine(beta=None),
    "positions-from-1": _angles(lambda _step: iter([{"first": 1}])),
    "sin-and-cos-swapped": _encoding(is_swapped=True),
    "exponent-by-column": _angles(lambda _step: iter([{"by_column": 1}, {"by_column": 2}])),
    "degrees-for-radians": _encoding(in_degrees=True),
    "wrong-base": _angles(_other_bases),
    "wrong-width": _angles(_other_widths),
    "weights-in-wrong-order": _weights_in_wrong_order,
}
