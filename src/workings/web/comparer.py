"""Comparisons for the screen Compare: outputs, heads and permuted inputs."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from workings.errors import UserError
from workings.interpret.positions import measure_permutation
from workings.interpret.results import (
    AttentionStack,
    LayerDifference,
    PermutationResult,
    Weights,
)
from workings.problems.notation import typeset
from workings.web import heatmaps
from workings.web.inspect_views import (
    build_outcome,
    build_output,
    format_percent,
    format_points,
    visible_tokens,
)
from workings.web.model_outputs import ModelOutput, run_model
from workings.web.requests import CompareRequest, InspectRequest, PermuteRequest, SideRequest
from workings.web.responses import (
    ComparisonView,
    Heatmap,
    OutcomeView,
    PermutationView,
    TableView,
)
from workings.web.runs import RunRegistry
from workings.web.training_comparison import SIDE_NAMES

NUM_PAIRS = 12  # classes or tokens whose probabilities are compared
MIN_DIFFERENCE_SCALE = 0.01  # of weights: smaller differences are drawn paler

Probabilities = Mapping[str, float]


@dataclass(frozen=True, eq=False)
class _SideOutput:
    """The output of a run for one side of a comparison."""

    kind: str
    output: ModelOutput

    @property
    def probabilities(self) -> Probabilities | None:
        """The probability of each class or token, by name."""
        response = self.output.response
        if response.probabilities is None:
            return None
        return {response.name_of(k): p for k, p in enumerate(response.probabilities.tolist())}


class Comparer:
    """Compares the registered runs; its methods run in the threads of the job executor."""

    def __init__(self, registry: RunRegistry) -> None:
        self._registry = registry

    def compare(self, request: CompareRequest) -> ComparisonView:
        """Compare the outputs of two sides, and one head of each."""
        sides = [self._run_side(side) for side in (request.first, request.second)]
        pairs, num_omitted, summary = _compare_outputs(*sides)
        shared = _find_shared_heads(*(side.output.stacks for side in sides))
        part: str | None = request.part or next(iter(shared), None)
        maps, maps_summary = list[Heatmap](), ""
        if part is not None:
            stacks = [_find_stack(side.output.stacks, part) for side in sides]
            maps, maps_summary = _compare_heads(
                *(_select_head(stack, request.layer, request.head) for stack in stacks)
            )
        return ComparisonView(
            sides=[build_output(side.output) for side in sides],
            summary=summary,
            pairs=pairs,
            num_omitted=num_omitted,
            heads=shared,
            maps=maps,
            maps_summary=maps_summary,
            notes=[] if shared else _explain_no_heads(*sides),
        )

    def permute(self, request: PermuteRequest) -> PermutationView:
        """Compare f(P X) with P f(X) for a permutation P of the tokens."""
        task, use_positions = self._registry.load_task(request.run), request.use_positions
        result = measure_permutation(
            task, request.text, request.order, seed=request.seed, use_positions=use_positions
        )
        original = visible_tokens(result.tokens)
        tokens = [original[k] for k in result.order]
        last_layer, num_heads = result.layers[-1], len(result.permuted_weights[0])
        maps, maps_summary = _compare_heads(
            *(
                _select_head(stack, request.layer, request.head)
                for stack in _permutation_stacks(result, tokens)
            )
        )
        pairs: list[OutcomeView] = []
        if result.class_probabilities is not None:
            pairs, _ = _build_pairs(*result.class_probabilities)
        return PermutationView(
            tokens=original,
            permuted_tokens=tokens,
            residual=_format_scientific(last_layer.max_difference),
            summary=_write_verdict(
                last_layer, result.is_causal, result.position_encoding, use_positions
            ),
            has_removable_positions=result.position_encoding in ("sinusoidal", "learned"),
            layers=_build_layer_table(result.layers),
            deviation=_build_deviation_map(result.layers, tokens),
            pairs=pairs,
            heads={"attention": (len(result.permuted_weights), num_heads)},
            maps=maps,
            maps_summary=maps_summary,
        )

    def _run_side(self, side: SideRequest) -> _SideOutput:
        task, kind = self._registry.load_task(side.run), self._registry.get_run(side.run).kind
        request = InspectRequest(run=side.run, text=side.text, scene=side.scene)
        output = run_model(task, request)
        return _SideOutput(kind, output)


def _compare_outputs(first: _SideOutput, second: _SideOutput) -> tuple[list[OutcomeView], int, str]:
    """Return pairs of probabilities, the number of omitted pairs, and a summary."""
    p, q = first.probabilities, second.probabilities
    if first.kind != second.kind:
        return [], 0, "These runs have different tasks: their outputs cannot be compared"
    if p is None or q is None:
        same = first.output.text == second.output.text
        return [], 0, "Both generate the same text" if same else "They generate different texts"
    if not p.keys() & q.keys():
        return (
            [],
            0,
            "These runs share no label or token: their outputs cannot be compared",
        )
    pairs, num_omitted = _build_pairs(p, q)
    best = [max(probabilities, key=probabilities.__getitem__) for probabilities in (p, q)]
    if best[0] == best[1]:
        summary = f"Both predict “{best[0]}”"
    else:
        summary = f"A predicts “{best[0]}”, B predicts “{best[1]}”"
    if p.keys() == q.keys():
        distance = sum(abs(value - q[name]) for name, value in p.items()) / 2
        summary += f"; total variation distance {format_percent(distance)}"
    else:
        count = len(p.keys() & q.keys())
        summary += f"; of {len(p)} and {len(q)} labels or tokens, {count} are in both"
    return pairs, num_omitted, summary


def _build_pairs(first: Probabilities, second: Probabilities) -> tuple[list[OutcomeView], int]:
    """Return the most probable outcomes of either side, and how many are omitted."""
    rank = {name: max(first.get(name, 0.0), second.get(name, 0.0)) for name in {**first, **second}}
    best = sorted(rank, key=lambda name: -rank[name])[:NUM_PAIRS]
    pairs = []
    for name in best:
        p, q = first.get(name), second.get(name)
        change = "" if p is None or q is None else format_points(q - p)
        pairs.append(build_outcome(name, p, q, change))
    return pairs, len(rank) - len(best)


def _find_shared_heads(
    first: Sequence[AttentionStack], second: Sequence[AttentionStack]
) -> dict[str, tuple[int, int]]:
    """Return the numbers of layers and heads that both have, by part."""
    return {
        one.part: (min(one.num_layers, other.num_layers), min(one.num_heads, other.num_heads))
        for one in first
        for other in second
        if one.part == other.part
    }


def _explain_no_heads(*sides: _SideOutput) -> list[str]:
    """Return a note on why no heads are compared; none if both show their caption attention."""
    without = [name for name, side in zip(SIDE_NAMES, sides, strict=True) if not side.output.stacks]
    if len(without) == len(sides) and all(side.output.caption_attention for side in sides):
        return []
    if without:
        return [f"{' and '.join(without)}: no attention heads to compare"]
    return ["A and B have attention in different parts: their heads cannot be compared"]


def _find_stack(stacks: Sequence[AttentionStack], part: str) -> AttentionStack:
    for stack in stacks:
        if stack.part == part:
            return stack
    raise UserError(f"part {part!r}: A and B do not both have it")


def _permutation_stacks(result: PermutationResult, tokens: list[str]) -> list[AttentionStack]:
    """Return the attention weights of the original order, permuted, and of the permuted input."""
    labeled_weights = (
        ("A(X) permuted", result.expected_weights, False),
        ("A(P X)", result.permuted_weights, result.is_causal),
    )
    return [
        AttentionStack("attention", label, tokens, tokens, weights, is_causal)
        for label, weights, is_causal in labeled_weights
    ]


@dataclass(frozen=True, eq=False)
class _SelectedHead:
    """One head of a stack."""

    name: str
    stack: AttentionStack
    weights: Weights


def _select_head(stack: AttentionStack, layer: int, head: int) -> _SelectedHead:
    weights, name = stack.head_weights(layer, head), stack.head_name(layer, head)
    if stack.part == "attention":  # two inputs of one model: their labels tell them apart
        name = f"{stack.label}, {name}"
    return _SelectedHead(name, stack, weights)


def _compare_heads(first: _SelectedHead, second: _SelectedHead) -> tuple[list[Heatmap], str]:
    """Return two heatmaps, the second minus the first if their shapes are equal, and a summary."""
    maps = [
        heatmaps.build_weights_heatmap(
            head.name if head.stack.part == "attention" else f"{name}: {head.name}",
            f"{head.name} of {name}",
            visible_tokens(head.stack.query_tokens),
            visible_tokens(head.stack.key_tokens),
            head.weights.astype(np.float64),
            head.stack.is_causal,
        )
        for name, head in zip(SIDE_NAMES, (first, second), strict=True)
    ]
    shapes = [head.weights.shape for head in (first, second)]
    if shapes[0] != shapes[1]:
        sizes = " and ".join(f"{rows}×{columns}" for rows, columns in shapes)
        return maps, f"The maps are {sizes}: maps of different shapes cannot be subtracted"
    difference = (second.weights - first.weights).astype(np.float64)
    difference_map = heatmaps.build_signed_heatmap(
        "difference",
        f"{SIDE_NAMES[1]} minus {SIDE_NAMES[0]}",
        _merge_labels(first.stack.query_tokens, second.stack.query_tokens),
        _merge_labels(first.stack.key_tokens, second.stack.key_tokens),
        difference,
        min_scale=MIN_DIFFERENCE_SCALE,
        causal=first.stack.is_causal and second.stack.is_causal,
    )
    summary = f"Largest difference: {_format_scientific(float(np.abs(difference).max()))}"
    if [*first.stack.query_tokens] != [*second.stack.query_tokens]:
        summary += ", compared by position: the tokens differ"
    return [*maps, difference_map], summary


def _merge_labels(first: Sequence[str], second: Sequence[str]) -> list[str]:
    pairs = zip(visible_tokens(first), visible_tokens(second), strict=True)
    return [a if a == b else f"{a} | {b}" for a, b in pairs]


def _build_layer_table(layers: Sequence[LayerDifference]) -> TableView:
    rows = [
        [
            layer.name,
            _format_scientific(layer.max_difference),
            typeset(f"{layer.max_activation:.3f}"),
            "yes" if layer.is_rounding else "no",
        ]
        for layer in layers
    ]
    header = ["after", "max |f(P X) − P f(X)|", "max |f(X)|", "rounding only"]
    return TableView("Layer by layer", header, rows)


def _build_deviation_map(layers: Sequence[LayerDifference], tokens: Sequence[str]) -> Heatmap:
    numbers = np.stack([layer.differences for layer in layers]).astype(np.float64)
    min_scale = 1e-3 * max(layer.max_activation for layer in layers)  # rounding stays pale
    return heatmaps.build_magnitude_heatmap(
        "|f(P X) − P f(X)|",
        "deviation of each token's vector after each layer",
        [layer.name for layer in layers],
        tokens,
        numbers,
        min_scale,
    )


def _write_verdict(
    last_layer: LayerDifference, is_causal: bool, positions: str, use_positions: bool
) -> str:
    if last_layer.is_rounding:
        return "f(P X) = P f(X) up to rounding: this attention is permutation-equivariant"
    sources = [f"{positions} positions"] if positions != "none" and use_positions else []
    sources += ["the causal mask"] if is_causal else []
    return f"f(P X) ≠ P f(X): the order enters through {' and '.join(sources) or 'padding'}"


def _format_scientific(number: float) -> str:
    """Return a number to three decimals, a tiny one in scientific notation.

    >>> _format_scientific(0.25), _format_scientific(4.8e-7), _format_scientific(0.0)
    ('0.250', '4.8·10⁻⁷', '0')
    """
    if number == 0 or number >= 1e-3:
        return f"{number:.3f}" if number else "0"
    digits, _, exponent = f"{number:.1e}".partition("e")
    superscript = str(int(exponent)).translate(str.maketrans("-0123456789", "⁻⁰¹²³⁴⁵⁶⁷⁸⁹"))
    return f"{digits}·10{superscript}"
