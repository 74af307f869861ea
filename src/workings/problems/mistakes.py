"""The named mistakes in the formula of a step; each is a wrong operation in its place."""

from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, replace
from itertools import permutations

import numpy as np

from workings.languages import gettext, gettext_noop
from workings.problems.intervals import Bools, IntervalMatrix, concatenate_columns
from workings.problems.kinds import Step
from workings.problems.kinds.attention import resolve_scale
from workings.problems.kinds.softmax import find_mask
from workings.problems.layer_mistakes import list_layer_mistakes
from workings.problems.notation import Notation
from workings.problems.ops import (
    ColumnSlice,
    Concatenation,
    Copy,
    Env,
    Linear,
    Masking,
    MistakeOption,
    Normalization,
    Op,
    Scaling,
    format_symbol,
)
from workings.problems.problem import Problem

_MAX_PERMUTED_HEADS = 4  # up to so many heads are tried in every order
_WEIGHT_FAMILIES = ("QKV", "ifgo", "ifco", "zrn")  # of projections and gates


_ATTENTION_PREFIXES = ("", "attention", "self_attention", "cross_attention")
_INTERLEAVED_SPLIT = gettext_noop("gave each head every other column, not adjacent ones")
_INTERLEAVED_CONCATENATION = gettext_noop("took the columns of the heads in turn")
_INTERLEAVED_THROUGHOUT = gettext_noop(
    "gave each head every other column, not adjacent ones, and took the columns of the heads in"
    " turn"
)


@dataclass(frozen=True)
class Mistake:
    """A named mistake: wrong operations by the keys of their steps."""

    name: str
    ops: Mapping[str, Op]
    description: str


@dataclass(frozen=True)
class ProjectedHeads(Op):
    """The heads multiplied by W_O one by one and then concatenated.

    A head has a block of W_O: its rows, and as many columns as every other head. `own_block`: each
    head uses its own block; otherwise all use the first.
    """

    heads: tuple[str, ...]
    weight: str
    bias: str | None
    own_block: bool

    def compute(self, env: Env) -> IntervalMatrix:
        weight, count = env[self.weight], len(self.heads)
        rows, columns = _block_size(weight.shape[0], count), _block_size(weight.shape[1], count)

        def block(head: int) -> IntervalMatrix:
            k = head if self.own_block else 0
            return weight.rearrange(
                lambda a: a[k * rows : (k + 1) * rows, k * columns : (k + 1) * columns]
            )

        parts = [env[key] @ block(head) for head, key in enumerate(self.heads)]
        product = concatenate_columns(parts)
        return product if self.bias is None else product + env[self.bias]

    def formula(self, n: Notation, column_vectors: bool) -> str:  # noqa: ARG002
        return n.apply("concat", *(format_symbol(n, key) for key in self.heads))

    def sources(self) -> tuple[str, ...]:
        return (*self.heads, self.weight, *([] if self.bias is None else [self.bias]))


@dataclass(frozen=True)
class ProjectedValues(Op):
    """The output of attention whose values were multiplied by W_O before the heads mixed them."""

    weights: tuple[str, ...]  # of each head
    values: str
    weight: str
    bias: str | None

    def compute(self, env: Env) -> IntervalMatrix:
        projected = env[self.values] @ env[self.weight]
        width = _block_size(projected.shape[1], len(self.weights))
        parts = [
            env[key] @ projected.slice_columns(head * width, (head + 1) * width)
            for head, key in enumerate(self.weights)
        ]
        mixed = concatenate_columns(parts)
        return mixed if self.bias is None else mixed + env[self.bias]

    def formula(self, n: Notation, column_vectors: bool) -> str:  # noqa: ARG002
        return n.apply("concat", *(format_symbol(n, key) for key in self.weights))

    def sources(self) -> tuple[str, ...]:
        bias = [] if self.bias is None else [self.bias]
        return (*self.weights, self.values, self.weight, *bias)


def _block_size(size: int, count: int) -> int:
    if size % count:
        raise ValueError("the blocks of the heads have different sizes")
    return size // count


def list_mistakes(problem: Problem, keys: Collection[str]) -> Iterator[Mistake]:
    """Yield the mistakes that are possible in the given steps of a problem.

    A mistake that is possible in several places (each head, each time step, keys and values) is
    listed for each place and for several of them together: all, those of one time step or head,
    and those of one name.
    """
    options: dict[tuple[str, str], dict[str, list[Op]]] = {}
    steps = {step.key: step for step in problem.steps if step.key in keys}
    for step in steps.values():
        for name, op, text in _list_step_mistakes(problem, step):
            description = gettext(text)  # a constant is not translated yet
            options.setdefault((name, description), {}).setdefault(step.key, []).append(op)
    listed: set[tuple[str, str, Op]] = set()
    for (name, description), ops in options.items():
        for key, variants in ops.items():
            for op in variants:
                if (name, key, op) not in listed:
                    yield Mistake(name, {key: op}, description)
                listed.add((name, key, op))
        for group in _group_steps([steps[key] for key in ops]):
            yield Mistake(name, {step.key: ops[step.key][0] for step in group}, description)


def _group_steps(steps: list[Step]) -> Iterator[list[Step]]:
    """Yield the steps in which one mistake may be made together."""
    if len(steps) == 1:
        return
    yield steps
    for attribute in ("part_index", "name"):
        groups: dict[str | int | None, list[Step]] = {}
        for step in steps:
            groups.setdefault(getattr(step, attribute), []).append(step)
        yield from (group for group in groups.values() if 1 < len(group) < len(steps))


def _list_step_mistakes(problem: Problem, step: Step) -> Iterator[MistakeOption]:
    """Yield the mistakes in one step."""
    op = step.op
    if isinstance(op, Linear):
        yield from _list_projection_mistakes(problem, op)
    if "context" in problem.given:
        yield from _list_context_mistakes(op)
    if isinstance(op, Normalization):
        plain = Normalization(op.x, op.normalizer)  # computed from the scores in any case
        yield from _list_normalization_mistakes(problem, plain)
    yield from _list_attention_mistakes(problem, step)
    yield from list_layer_mistakes(problem, step)
    yield from op.list_mistakes(problem, step)
    yield from step.mistakes


def _list_attention_mistakes(problem: Problem, step: Step) -> Iterator[MistakeOption]:
    """Yield the mistakes in one step of attention, by its name."""
    op = step.op
    prefix, _, name = step.name.rpartition(".")
    if "scale" not in problem.kind.settings or prefix not in _ATTENTION_PREFIXES:
        return
    prefix = f"{prefix}." if prefix else ""
    end = "" if step.part_index is None else f".{step.part_index}"

    def key(other: str) -> str:
        return f"{prefix}{other}{end}"

    if name == "scores" and isinstance(op, Linear):
        ((queries, keys),) = op.pairs
        keys = keys.removesuffix("ᵀ")
        yield "keys-not-transposed", Linear(((queries, keys),)), gettext("computed Q K, not Q Kᵀ")
        swapped = Linear(((keys, f"{queries}ᵀ"),))
        yield "queries-and-keys-swapped", swapped, gettext("computed K Qᵀ, not Q Kᵀ")
    elif name == "scaled":
        yield from _list_scale_mistakes(problem, key("scores"))
    elif name == "masked" and isinstance(op, Masking):
        yield from _list_mask_mistakes(op.allowed, key("scaled"))
    elif isinstance(op, ColumnSlice):
        if name == "V":
            yield from _list_unprojected_mistakes(problem, op)
        heads = problem.setting.heads
        interleaved = ColumnSlice(op.x, (step.part_index or 1) - 1, op.stop * heads, heads)
        for description in (_INTERLEAVED_SPLIT, _INTERLEAVED_THROUGHOUT):
            yield "heads-interleaved", interleaved, description
    elif name == "mixed" and isinstance(op, Concatenation):
        description = gettext("concatenated the heads in another order")
        for order in _list_head_orders(op.parts):
            yield "heads-in-wrong-order", Concatenation(order), description
        for description in (_INTERLEAVED_CONCATENATION, _INTERLEAVED_THROUGHOUT):
            yield "heads-interleaved", replace(op, interleaved=True), description
    elif name == "mixed" and isinstance(op, Linear):
        yield from _list_mixing_mistakes(problem, step, op)
    elif name == "output" and isinstance(op, Linear):
        yield from _list_output_mistakes(problem, op)
        if problem.setting.heads > 1:
            yield from _list_early_projection_mistakes(problem, op, prefix)


def _list_projection_mistakes(problem: Problem, op: Linear) -> Iterator[MistakeOption]:
    """Yield the mistakes with a weight, for every product of an input and a W."""
    for k, (x, w) in enumerate(op.pairs):
        if not is_weight(w) or w.endswith(("W_O", "ᵀ")):
            continue
        yield (
            "weight-transposed",
            _replace_pair(op, k, x, f"{w}ᵀ"),
            gettext("used {w}ᵀ, not {w}", w=w),
        )
        for other in problem.exact_matrices:
            if is_weight(other) and other != w:
                yield (
                    "wrong-weight",
                    _replace_pair(op, k, x, other),
                    gettext("used {other}, not {w}", other=other, w=w),
                )
        description = gettext("used {x} itself, without {w}", x=x.rstrip(".0123456789"), w=w)
        if len(op.pairs) == 1:
            yield "not-projected", Copy(x), description
        if len(op.pairs) > 1 or op.bias is not None:
            identity = _format_identity_key(problem, x)
            yield "not-projected", _replace_pair(op, k, x, identity), description
    yield from _list_wrong_projection_mistakes(problem, op)


def is_weight(key: str) -> bool:
    """Return True for the key of a weight: W_Q, U_i, cross_attention.W_V."""
    return key.rpartition(".")[2].startswith(("W_", "U_")) and not key.startswith("given.")


def _list_context_mistakes(op: Op) -> Iterator[MistakeOption]:
    """Yield the mistakes of taking queries from the context, or keys and values from X."""
    other = {"X": "context", "context": "X"}
    if isinstance(op, Copy) and op.x in other:
        yield (
            "context-mixed-up",
            Copy(other[op.x]),
            gettext("took {other}, not {x}", other=other[op.x], x=op.x),
        )
    elif isinstance(op, Linear):
        for k, (x, w) in enumerate(op.pairs):
            if x in other:
                wrong = _replace_pair(op, k, other[x], w)
                yield (
                    "context-mixed-up",
                    wrong,
                    gettext("took {other}, not {x}", other=other[x], x=x),
                )


def _replace_pair(op: Linear, k: int, x: str, w: str) -> Linear:
    return replace(op, pairs=(*op.pairs[:k], (x, w), *op.pairs[k + 1 :]))


def _format_identity_key(problem: Problem, x: str) -> str:
    """Return the key of the identity that leaves x as it is."""
    return f"I.{problem.exact_matrices[x].shape[1]}"


def _list_wrong_projection_mistakes(problem: Problem, op: Linear) -> Iterator[MistakeOption]:
    """Yield the mistakes of using all weights of another projection or gate: W_K and b_K for Q."""
    own = op.pairs[0][1][-1]
    is_projection = all(is_weight(w) and w.endswith(own) for _, w in op.pairs)
    family = next((names for names in _WEIGHT_FAMILIES if own in names), "")
    for other in family if is_projection else "":
        pairs = tuple((x, w.removesuffix(own) + other) for x, w in op.pairs)
        prefix = "".join(op.pairs[0][1].rpartition(".")[:2])
        bias: str | None = f"{prefix}b_{other}"
        bias = bias if bias in problem.exact_matrices else None
        is_listed = len(pairs) == 1 and bias == op.bias  # as a single wrong weight
        if other != own and not is_listed and all(w in problem.exact_matrices for _, w in pairs):
            used = ", ".join((*(w for _, w in pairs), *([bias] if bias else [])))
            yield (
                "wrong-weight",
                replace(op, pairs=pairs, bias=bias),
                gettext("used {used}", used=used),
            )


def _list_scale_mistakes(problem: Problem, scores: str) -> Iterator[MistakeOption]:
    divisor, _ = resolve_scale(problem.sizes, problem.setting)
    if divisor is None:
        return
    yield "not-scaled", Copy(scores), gettext("did not divide by {divisor:.4g}", divisor=divisor)
    multiplied = Scaling(scores, divisor, multiplies=True)
    yield (
        "multiplied-by-scale",
        multiplied,
        gettext("multiplied by {divisor:.4g} instead of dividing", divisor=divisor),
    )
    if "k" not in problem.sizes.sizes:  # the scores are given
        return
    width = problem.sizes["k"]
    d_k = width // problem.setting.heads
    yield (
        "scaled-by-d_k",
        Scaling(scores, d_k),
        gettext("divided by d_k = {d_k}, not by {divisor:.4g}", d_k=d_k, divisor=divisor),
    )
    for d_model in sorted({problem.sizes.sizes.get("d", width), width}):
        description = gettext(
            "divided by √{d_model}, not by {divisor:.4g}", d_model=d_model, divisor=divisor
        )
        yield "scaled-by-sqrt-d_model", Scaling(scores, d_model**0.5, d_model), description


def _list_mask_mistakes(mask: Bools, scaled: str) -> Iterator[MistakeOption]:
    yield "mask-forgotten", Copy(scaled), gettext("did not apply the mask")
    if mask.shape[0] == mask.shape[1]:
        yield "mask-transposed", Masking(scaled, mask.T), gettext("applied the mask's transpose")
        without_self: Bools = mask & ~np.eye(len(mask), dtype=np.bool_)
        yield (
            "mask-hides-self",
            Masking(scaled, without_self),
            gettext("hid each token from itself, too"),
        )
    zeros = Masking(scaled, mask, fill_value=0.0)
    yield "masked-with-zeros", zeros, gettext("put 0 instead of −∞: e⁰ = 1 still has weight")


def _list_normalization_mistakes(problem: Problem, op: Normalization) -> Iterator[MistakeOption]:
    mask = find_mask(problem, op.x)
    if mask is not None:
        unmasked = op.x.replace("masked", "scaled")
        after = replace(op, x=unmasked, post_mask=mask)
        yield (
            "masked-after-softmax",
            after,
            gettext("masked after the softmax and did not renormalize"),
        )
    if op.normalizer != "softmax":
        return
    across = replace(op, transposed=True)
    yield "wrong-softmax-axis", across, gettext("normalized over the queries, not over the keys")
    for name, normalizer, description in (
        ("sigmoid-for-softmax", "sigmoid", gettext("used the sigmoid of each score")),
        ("sum-for-softmax", "sum", gettext("divided by the sum, without exponentials")),
        ("exp-not-normalised", "exp", gettext("took e^score and did not divide by the sum")),
    ):
        yield name, replace(op, normalizer=normalizer), description
    divisor, _ = resolve_scale(problem.sizes, problem.setting)
    if divisor is not None and "masked" in op.x:
        late = replace(op, x=op.x.replace("masked", "scores"), allowed=mask, post_divisor=divisor)
        yield (
            "scaled-after-softmax",
            late,
            gettext("divided the weights, not the scores, by {divisor:.4g}", divisor=divisor),
        )


def _list_mixing_mistakes(problem: Problem, step: Step, op: Linear) -> Iterator[MistakeOption]:
    ((weights, values),) = op.pairs
    transposed = Linear(((f"{weights}ᵀ", values),))
    yield "weights-transposed", transposed, gettext("used the weights' transpose")
    keys = Linear(((weights, values.replace("V", "K")),))
    yield "keys-used-as-values", keys, gettext("mixed the keys, not the values")
    projection = problem.get_step(step.name.replace("mixed", "V")).op
    if step.part_index is None and isinstance(projection, Linear):
        source, _ = projection.pairs[0]
        unprojected = Linear(((weights, source),))
        yield (
            "values-not-projected",
            unprojected,
            gettext("mixed {source} itself, not V", source=source),
        )


def _list_unprojected_mistakes(problem: Problem, op: ColumnSlice) -> Iterator[MistakeOption]:
    """Yield the mistake of slicing the input of V for a head, instead of V."""
    projection = problem.get_step(op.x).op
    if isinstance(projection, Linear):
        source, _ = projection.pairs[0]
        yield (
            "values-not-projected",
            replace(op, x=source),
            gettext("mixed {source} itself, not V", source=source),
        )


def _list_output_mistakes(problem: Problem, op: Linear) -> Iterator[MistakeOption]:
    ((mixed, weight),) = op.pairs
    if not is_weight(weight):
        return
    description = gettext("did not multiply by {weight}", weight=weight)
    yield "output-projection-forgotten", Copy(mixed), description
    if op.bias is not None:
        only_bias = _replace_pair(op, 0, mixed, _format_identity_key(problem, mixed))
        yield "output-projection-forgotten", only_bias, description
    transposed = replace(op, pairs=((mixed, f"{weight}ᵀ"),))
    yield (
        "output-projection-transposed",
        transposed,
        gettext("used {weight}ᵀ, not {weight}", weight=weight),
    )


def _list_early_projection_mistakes(
    problem: Problem, op: Linear, prefix: str
) -> Iterator[MistakeOption]:
    """Yield the mistakes of multiplying by W_O before the heads are concatenated."""
    ((_, weight),) = op.pairs
    if not is_weight(weight):
        return
    heads = range(1, problem.setting.heads + 1)
    mixed = tuple(f"{prefix}mixed.{head}" for head in heads)
    name = "projected-before-concatenation"
    for own_block, description in (
        (
            True,
            gettext(
                "multiplied each head by its own block of {weight} and concatenated the products",
                weight=weight,
            ),
        ),
        (
            False,
            gettext(
                "multiplied each head by the first block of {weight} and concatenated",
                weight=weight,
            ),
        ),
    ):
        projected = ProjectedHeads(mixed, weight, op.bias, own_block)
        yield name, projected, description
    weights = tuple(f"{prefix}weights.{head}" for head in heads)
    values = ProjectedValues(weights, f"{prefix}V", weight, op.bias)
    yield name, values, gettext("multiplied V by {weight} before the heads mixed it", weight=weight)


def _list_head_orders(parts: tuple[str, ...]) -> list[tuple[str, ...]]:
    """Return wrong orders of the heads: all for a few heads; two swapped or reversed for many."""
    if len(parts) <= _MAX_PERMUTED_HEADS:
        return [order for order in permutations(parts) if order != parts]
    swapped = [
        (*parts[:a], parts[b], *parts[a + 1 : b], parts[a], *parts[b + 1 :])
        for b in range(len(parts))
        for a in range(b)
    ]
    return [*swapped[: _MAX_PERMUTED_HEADS**3], parts[::-1]]
