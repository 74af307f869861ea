"""The mistakes people make, by name: each is another way to compute a step, or to spoil a cell."""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from itertools import permutations

import numpy as np

from workings.problems.cells import Bools
from workings.problems.kinds import Step
from workings.problems.kinds.attention import scale_of
from workings.problems.ops import Beside, Copy, Linear, Masked, Normalised, Op, Scaled
from workings.problems.problem import Problem


@dataclass(frozen=True)
class Mistake:
    """A wrong way to compute one step: `op` in the place of the right one."""

    name: str
    key: str
    op: Op
    says: str


def mistakes(problem: Problem) -> Iterator[Mistake]:
    """List every mistake of the catalogue that this problem has room for."""
    for step in problem.steps:
        if not step.claimable:
            continue
        for name, op, says in _of_step(problem, step):
            if _possible(problem, step, op):
                yield Mistake(name, step.key, op, says)


def _possible(problem: Problem, step: Step, op: Op) -> bool:
    """Does it compute at all, to the right shape, and to something else than the right way?"""
    try:
        wrong = op.compute(problem.exact)
    except (ValueError, KeyError):  # matrices that do not fit together
        return False
    right = problem.exact[step.key]
    if wrong.shape != right.shape:
        return False
    return not np.allclose(wrong.mid, right.mid, rtol=0, atol=1e-12)


def _of_step(problem: Problem, step: Step) -> Iterator[tuple[str, Op, str]]:
    op = step.op
    if isinstance(op, Linear):
        yield from _projection(problem, op)
    if isinstance(op, Normalised):
        yield from _normalising(problem, op)
    if "scale" not in problem.kind.settings:
        return
    prefix, _, name = step.name.rpartition(".")
    prefix = f"{prefix}." if prefix else ""
    if prefix not in ("", "attention."):
        return
    end = "" if step.part is None else f".{step.part}"

    def key(other: str) -> str:
        return f"{prefix}{other}{end}"

    if name == "scores":
        yield "keys-not-transposed", Linear(((key("Q"), key("K")),)), "computed Q K, not Q Kᵀ"
        swapped = Linear(((key("K"), key("Q") + "ᵀ"),))
        yield "queries-and-keys-swapped", swapped, "computed K Qᵀ, not Q Kᵀ"
    elif name == "scaled":
        yield from _scale(problem, key("scores"))
    elif name == "masked" and problem.setting.mask is not None:
        yield from _mask(problem.setting.mask, key("scaled"))
    elif name == "mixed" and isinstance(op, Beside):
        for order in _orders(op.parts):
            yield "heads-in-wrong-order", Beside(order), "put the heads together in another order"
    elif name == "mixed" and isinstance(op, Linear):
        yield from _mixing(problem, step, op)
    elif name == "output" and isinstance(op, Linear):
        yield from _output(op)


def _projection(problem: Problem, op: Linear) -> Iterator[tuple[str, Op, str]]:
    """Mistakes with a weight: every product of an input with one of the problem's W."""
    for k, (x, w) in enumerate(op.pairs):
        if not w.startswith("W_") or w == "W_O":
            continue
        yield "weight-transposed", _with_pair(op, k, x, f"{w}ᵀ"), f"used {w}ᵀ, not {w}"
        for other in problem.exact:
            if other.startswith("W_") and other != w:
                yield "wrong-weight", _with_pair(op, k, x, other), f"used {other}, not {w}"
        if op.function == "none" and len(op.pairs) == 1:
            yield "not-projected", Copy(x), f"used {x} itself, without {w}"
        if "context" in problem.given and x in ("X", "context"):
            other = "context" if x == "X" else "X"
            yield "context-mixed-up", _with_pair(op, k, other, w), f"took {other}, not {x}"


def _with_pair(op: Linear, k: int, x: str, w: str) -> Linear:
    return replace(op, pairs=(*op.pairs[:k], (x, w), *op.pairs[k + 1 :]))


def _scale(problem: Problem, scores: str) -> Iterator[tuple[str, Op, str]]:
    scale, _ = scale_of(problem.sizes, problem.setting)
    if scale is None:
        return
    d_k = problem.sizes["k"] // problem.setting.heads
    yield "not-scaled", Copy(scores), f"did not divide by {scale:.4g}"
    yield "scaled-by-d_k", Scaled(scores, d_k), f"divided by d_k = {d_k}, not by its root"
    if "d" in problem.sizes.sizes:
        d_model = problem.sizes["d"]
        says = f"divided by √{d_model}, the width of X, not of a query"
        yield "scaled-by-sqrt-d_model", Scaled(scores, d_model**0.5, d_model), says
    multiplied = Scaled(scores, scale, multiplied=True)
    yield "multiplied-by-scale", multiplied, f"multiplied by {scale:.4g} instead of dividing"


def _mask(mask: Bools, scaled: str) -> Iterator[tuple[str, Op, str]]:
    yield "mask-forgotten", Copy(scaled), "did not apply the mask"
    if mask.shape[0] == mask.shape[1]:
        yield "mask-transposed", Masked(scaled, mask.T), "hid the past instead of the future"
        selfless: Bools = mask & ~np.eye(len(mask), dtype=np.bool_)
        yield "mask-hides-self", Masked(scaled, selfless), "hid each token from itself, too"
    zeros = Masked(scaled, mask, otherwise=0.0)
    yield "masked-with-zeros", zeros, "put 0 where −∞ belongs: e⁰ = 1 still has weight"


def _normalising(problem: Problem, op: Normalised) -> Iterator[tuple[str, Op, str]]:
    mask = problem.setting.mask
    if mask is not None:
        unmasked = op.x.replace("masked", "scaled")
        after = replace(op, x=unmasked, times=mask)
        yield "masked-after-softmax", after, "masked after the softmax and did not renormalise"
    if op.how != "softmax":
        return
    across = replace(op, transposed=True)
    yield "wrong-softmax-axis", across, "normalised over the queries, not over the keys"
    yield "sigmoid-for-softmax", replace(op, how="sigmoid"), "used the sigmoid of each score"
    yield "sum-for-softmax", replace(op, how="sum"), "divided by the sum, without exponentials"
    yield "exp-not-normalised", replace(op, how="exp"), "took e^score and did not divide by the sum"
    scale, _ = scale_of(problem.sizes, problem.setting)
    if scale is not None and "masked" in op.x:
        late = replace(op, x=op.x.replace("masked", "scores"), allowed=mask, over=scale)
        yield "scaled-after-softmax", late, f"divided the weights, not the scores, by {scale:.4g}"


def _mixing(problem: Problem, step: Step, op: Linear) -> Iterator[tuple[str, Op, str]]:
    ((weights, values),) = op.pairs
    transposed = Linear(((f"{weights}ᵀ", values),))
    yield "weights-transposed", transposed, "used the weights' transpose"
    keys = Linear(((weights, values.replace("V", "K")),))
    yield "keys-used-as-values", keys, "mixed the keys, not the values"
    projection = problem.step(step.name.replace("mixed", "V")).op
    if step.part is None and isinstance(projection, Linear):
        source, _ = projection.pairs[0]
        unprojected = Linear(((weights, source),))
        yield "values-not-projected", unprojected, f"mixed {source} itself, not V"


def _output(op: Linear) -> Iterator[tuple[str, Op, str]]:
    ((mixed, weight),) = op.pairs
    yield "output-projection-forgotten", Copy(mixed), f"did not multiply by {weight}"
    transposed = replace(op, pairs=((mixed, f"{weight}ᵀ"),))
    yield "output-projection-transposed", transposed, f"used {weight}ᵀ, not {weight}"


def _orders(parts: tuple[str, ...]) -> list[tuple[str, ...]]:
    """Other orders of the heads: all of them for a few, the reverse for many."""
    if len(parts) <= 4:
        return [order for order in permutations(parts) if order != parts]
    return [parts[::-1]]
