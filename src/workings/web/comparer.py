"""Two answers side by side, a head of each, and the difference."""

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from workings.config import toml_value
from workings.errors import UserError
from workings.interpret.attention import ALIGNMENT, StackWeights
from workings.interpret.positions import LayerDifference, measure_permutation
from workings.plain_text import to_one_line
from workings.problems.notation import typeset
from workings.render.comparison import format_metric, held_out_split, runs_chart
from workings.tasks.classification import Classification
from workings.training.compare import diff_configs
from workings.training.monitor import LogTail, TrainingStatus
from workings.training.runs import read_run_recipe
from workings.web import heatmaps, requests
from workings.web.inspect_views import format_percent
from workings.web.markup import picture_tree
from workings.web.model_outputs import ModelOutput, collect_request_stacks, run_model
from workings.web.responses import Heatmap
from workings.web.routes_compare import CompareRequest, PermuteRequest, SideRequest
from workings.web.routes_training import MAX_CHARTS, subsample_epochs
from workings.web.run_responses import (
    ChartView,
    ComparisonSide,
    ComparisonView,
    HeadComparison,
    PermutationView,
    PlainTable,
    ProbabilityPair,
    SharedHeads,
    TrainingComparison,
)
from workings.web.runs import RegisteredRun, RunRegistry

NUM_PAIRS = 12  # of what is likely
MIN_DIFFERENCE_SCALE = 0.01  # a difference of weights that is drawn in full colour is no smaller
SIDE_NAMES = ("A", "B")

Probabilities = dict[str, float]


@dataclass(frozen=True, eq=False)
class _SideOutput:
    """What a run made of a side."""

    kind: str
    output: ModelOutput
    stacks: Sequence[StackWeights]
    notes: Sequence[str]

    @property
    def probabilities(self) -> Probabilities | None:
        """How likely each name is."""
        if self.output.probabilities is None:
            return None
        return {self.output.name_of(k): p for k, p in enumerate(self.output.probabilities.tolist())}


class Comparer:
    """Comparisons of the runs of a shelf; all of it is for the shelf's own thread."""

    def __init__(self, registry: RunRegistry) -> None:
        self._registry = registry

    def compare(self, request: CompareRequest) -> ComparisonView:
        """Two sides, what they say, and a head of each."""
        asked = (request.first, request.second)
        both = [self._run_side(side) for side in asked]
        pairs, more, says = _compare_outputs(*both)
        shared = _find_shared_heads(*(one.stacks for one in both))
        part = request.part or (shared[0].part if shared else None)
        beside = None
        if part is not None:
            found = [_find_stack(one.stacks, part) for one in both]
            beside = _compare_heads(*(_select_head(s, request.layer, request.head) for s in found))
        return ComparisonView(
            sides=[_build_side(*pair) for pair in zip(SIDE_NAMES, both, strict=True)],
            summary=says,
            pairs=pairs,
            num_omitted=more,
            stacks=shared,
            head_comparison=beside,
            notes=[] if shared else _explain_no_heads(*both),
        )

    def permute(self, request: PermuteRequest) -> PermutationView:
        """An input's tokens in another order."""
        task = self._registry.load_task(request.run)
        found = measure_permutation(
            task,
            request.text,
            request.order,
            seed=request.seed,
            use_positions=request.use_positions,
        )
        moved = [found.tokens[k] for k in found.order]
        last, heads = found.layers[-1], len(found.permuted_weights[0])
        stack = [
            StackWeights(
                "attention", called, moved, moved, weights, found.is_causal and called == "A(P X)"
            )
            for called, weights in (
                ("A(X) permuted", found.expected_weights),
                ("A(P X)", found.permuted_weights),
            )
        ]
        pairs: list[ProbabilityPair] = []
        if found.class_probabilities is not None and isinstance(task, Classification):
            chances = [
                dict(zip(task.labels, c.tolist(), strict=True)) for c in found.class_probabilities
            ]
            pairs = _build_pairs(*chances)[0]
        return PermutationView(
            tokens=list(found.tokens),
            permuted_tokens=moved,
            residual=_format_scientific(last.max_difference),
            summary=_write_verdict(
                last, found.is_causal, found.position_encoding, request.use_positions
            ),
            has_removable_positions=found.position_encoding in ("sinusoidal", "learned"),
            layers=_build_layer_table(found.layers),
            deviation=_build_deviation_map(found.layers, moved),
            pairs=pairs,
            stacks=[SharedHeads(part="attention", layers=len(found.permuted_weights), heads=heads)],
            head_comparison=_compare_heads(
                *(_select_head(s, request.layer, request.head) for s in stack)
            ),
        )

    def _run_side(self, side: SideRequest) -> _SideOutput:
        task, kind = self._registry.load_task(side.run), self._registry.get_run(side.run).kind
        given = requests.InspectRequest(run=side.run, text=side.text, scene=side.scene)
        found = run_model(task, given)
        return _SideOutput(kind, found, *collect_request_stacks(task, given, found))


def _build_side(name: str, side: _SideOutput) -> ComparisonSide:
    said = side.output
    notes = [*said.notes, *side.notes]
    return ComparisonSide(
        name=name,
        text=said.text,
        note=said.note,
        caption_attention=said.caption_attention,
        notes=notes,
    )


def _compare_outputs(
    first: _SideOutput, second: _SideOutput
) -> tuple[list[ProbabilityPair], int, str]:
    """Chances side by side; or what can be said of two texts."""
    one, other = first.probabilities, second.probabilities
    if first.kind != second.kind:
        return [], 0, "These runs do different things: there is nothing to subtract"
    if one is None or other is None:
        same = first.output.text == second.output.text
        return [], 0, "Both write the same" if same else "They write different things"
    pairs, more = _build_pairs(one, other)
    best = [max(chances, key=chances.__getitem__) for chances in (one, other)]
    told = [f"“{name}”" for name in best]
    said = f"Both say {told[0]}" if best[0] == best[1] else f"A says {told[0]}, B says {told[1]}"
    if one.keys() == other.keys():
        apart = sum(abs(p - other[name]) for name, p in one.items()) / 2
        said += f"; {format_percent(apart)} of the probability lies elsewhere"
    return pairs, more, said


def _build_pairs(one: Probabilities, other: Probabilities) -> tuple[list[ProbabilityPair], int]:
    """The likeliest names of both, each with the two chances; and how many are left out."""
    rank = {name: max(one.get(name, 0.0), other.get(name, 0.0)) for name in {**one, **other}}
    best = sorted(rank, key=lambda name: -rank[name])[:NUM_PAIRS]
    pairs = []
    for name in best:
        p, q = one.get(name), other.get(name)
        change = "" if p is None or q is None else _format_points(q - p)
        texts = ["–" if share is None else format_percent(share) for share in (p, q)]
        pairs.append(
            ProbabilityPair(
                name=name,
                first=p,
                second=q,
                first_text=texts[0],
                second_text=texts[1],
                change=change,
            )
        )
    return pairs, len(rank) - len(best)


def _format_points(change: float) -> str:
    """Write a difference of chances, in points.

    >>> _format_points(0.0123), _format_points(-0.0001)
    ('+1.2', '0.0')
    """
    written = f"{100 * change:+.1f}"
    return typeset(written) if written.strip("+-0.") else "0.0"


def _find_shared_heads(
    first: Sequence[StackWeights], second: Sequence[StackWeights]
) -> list[SharedHeads]:
    """The attention that both have, as far as both have it."""
    found = []
    for one in first:
        for other in second:
            if one.part == other.part:
                layers = min(len(one.weights), len(other.weights))
                heads = min(len(one.weights[0]), len(other.weights[0]))
                found.append(SharedHeads(part=one.part, layers=layers, heads=heads))
    return found


def _explain_no_heads(*sides: _SideOutput) -> list[str]:
    """Say why no heads are shown, unless pictures show what was looked at."""
    without = [name for name, one in zip(SIDE_NAMES, sides, strict=True) if not one.stacks]
    if len(without) == len(sides) and all(one.output.caption_attention for one in sides):
        return []
    if without:
        return [f"{' and '.join(without)}: no attention heads to put side by side"]
    return ["their attention is of different parts: no head of one is a head of the other"]


def _find_stack(stacks: Sequence[StackWeights], part: str) -> StackWeights:
    for stack in stacks:
        if stack.part == part:
            return stack
    raise UserError(f"part {part!r}: it is not in both")


@dataclass(frozen=True, eq=False)
class _SelectedHead:
    """One head of a stack."""

    name: str
    stack: StackWeights
    weights: Tensor


def _select_head(stack: StackWeights, layer: int, head: int) -> _SelectedHead:
    layers, heads = len(stack.weights), len(stack.weights[0])
    if layer > layers or head > heads:
        raise UserError(f"layer {layer}, head {head}: there are {layers} layers of {heads} heads")
    name = stack.label if stack.part == ALIGNMENT else f"layer {layer}, head {head}"
    if stack.part == "attention":  # of one model, twice
        name = f"{stack.label}, {name}"
    return _SelectedHead(name, stack, stack.weights[layer - 1][head - 1])


def _compare_heads(first: _SelectedHead, second: _SelectedHead) -> HeadComparison:
    """Two maps, and the second minus the first where their cells have the same places."""
    maps = [
        heatmaps.build_weights_heatmap(
            one.name if one.stack.part == "attention" else f"{name}: {one.name}",
            f"{one.name} of {name}",
            one.stack.query_tokens,
            one.stack.key_tokens,
            one.weights.double().numpy(),
            one.stack.is_causal,
        )
        for name, one in zip(SIDE_NAMES, (first, second), strict=True)
    ]
    shapes = [tuple(one.weights.shape) for one in (first, second)]
    if shapes[0] != shapes[1]:
        told = " and ".join(f"{rows}×{columns}" for rows, columns in shapes)
        says = (
            f"The maps are {told}: no cell of one is a cell of the other, and nothing to subtract"
        )
        return HeadComparison(first=maps[0], second=maps[1], difference=None, summary=says)
    apart = (second.weights - first.weights).double()
    of_texts = [*first.stack.query_tokens] != [*second.stack.query_tokens]
    difference = heatmaps.build_signed_heatmap(
        "difference",
        "the second map minus the first",
        _merge_labels(first.stack.query_tokens, second.stack.query_tokens),
        _merge_labels(first.stack.key_tokens, second.stack.key_tokens),
        apart.numpy(),
        min_scale=MIN_DIFFERENCE_SCALE,
        causal=first.stack.is_causal and second.stack.is_causal,
    )
    says = f"At most {_format_scientific(float(apart.abs().max()))} apart"
    says += ", place by place: the tokens differ" if of_texts else ""
    return HeadComparison(first=maps[0], second=maps[1], difference=difference, summary=says)


def _merge_labels(one: Sequence[str], other: Sequence[str]) -> list[str]:
    return [a if a == b else f"{a} | {b}" for a, b in zip(one, other, strict=True)]


def _build_layer_table(layers: Sequence[LayerDifference]) -> PlainTable:
    head = ["after", "max |f(P X) − P f(X)|", "max |f(X)|", "is that rounding?"]
    rows = [
        [
            layer.name,
            _format_scientific(layer.max_difference),
            typeset(f"{layer.max_activation:.3f}"),
            "yes" if layer.is_rounding else "no",
        ]
        for layer in layers
    ]
    return PlainTable(header=head, rows=rows)


def _build_deviation_map(layers: Sequence[LayerDifference], tokens: Sequence[str]) -> Heatmap:
    numbers = torch.stack([layer.differences for layer in layers]).double().numpy()
    least = 1e-3 * max(layer.max_activation for layer in layers)  # rounding stays pale
    return heatmaps.build_magnitude_heatmap(
        "|f(P X) − P f(X)|",
        "how far each token's vector is from where it should be, after each layer",
        [layer.name for layer in layers],
        tokens,
        numbers,
        least,
    )


def _write_verdict(
    last: LayerDifference, causal: bool, positions: str, with_positions: bool
) -> str:
    if last.is_rounding:
        return (
            "f(P X) = P f(X) up to rounding: this attention does not know the order of its tokens"
        )
    ways = [f"{positions} positions"] * (positions != "none" and with_positions) + [
        "the causal mask"
    ] * causal
    return f"f(P X) ≠ P f(X): the order of the tokens is told by {' and '.join(ways) or 'padding'}"


def _format_scientific(number: float) -> str:
    """Write a number that may be tiny.

    >>> _format_scientific(0.25), _format_scientific(4.8e-7), _format_scientific(0.0)
    ('0.250', '4.8·10⁻⁷', '0')
    """
    if number == 0 or number >= 1e-3:
        return f"{number:.3f}" if number else "0"
    digits, _, exponent = f"{number:.1e}".partition("e")
    raised = str(int(exponent)).translate(str.maketrans("-0123456789", "⁻⁰¹²³⁴⁵⁶⁷⁸⁹"))
    return f"{digits}·10{raised}"


def compare_training(first: RegisteredRun, second: RegisteredRun, width: int) -> TrainingComparison:
    """Compare how two runs were trained; either may still be."""
    runs = (first, second)
    watched = {name: _read_progress(run) for name, run in zip("AB", runs, strict=True)}
    names = [f"{name}: {to_one_line(run.name)}" for name, run in zip("AB", runs, strict=True)]
    settings = diff_configs(first.folder, second.folder)
    shared = [what for what in watched["A"].list_metrics() if what in watched["B"].list_metrics()]
    return TrainingComparison(
        charts=[_build_runs_chart(watched, what, width) for what in shared[:MAX_CHARTS]],
        best=_build_best_table([*watched.values()], names),
        settings=PlainTable(
            header=["setting", *names],
            rows=[[to_one_line(key), *map(_format_value, pair)] for key, pair in settings.items()],
        ),
    )


def _read_progress(run: RegisteredRun) -> TrainingStatus:
    records = LogTail(run.folder / "log.jsonl").read()[1]
    return TrainingStatus(records, read_run_recipe(run.folder).train.epochs)


def _format_value(value: object) -> str:
    return (
        "–"
        if value is None
        else to_one_line(value if isinstance(value, str) else toml_value(value))
    )


def _build_runs_chart(watched: dict[str, TrainingStatus], metric: str, width: int) -> ChartView:
    curves = {name: subsample_epochs(one.curves) for name, one in watched.items()}
    picture = runs_chart([*curves.items()], metric, f"{metric.replace('_', ' ')} by epoch", width)
    columns = [
        (f"{name}, {part}", f"{part}_{metric}", {r["epoch"]: r for r in of})
        for name, of in curves.items()
        for part in (held_out_split(of), "train")
        if any(f"{part}_{metric}" in r for r in of)
    ]
    epochs = sorted({epoch for _, _, of in columns for epoch in of})
    rows = [
        [f"{epoch:g}", *(format_metric(key, of.get(epoch, {}).get(key)) for _, key, of in columns)]
        for epoch in epochs
    ]
    table = PlainTable(header=["epoch", *(name for name, _, _ in columns)], rows=rows)
    return ChartView(title=picture.title, picture=picture_tree(picture), table=table)


def _build_best_table(watched: Sequence[TrainingStatus], names: Sequence[str]) -> PlainTable:
    found = [{best.key: best for best in one.best_metrics()} for one in watched]
    keys = dict.fromkeys(key for of in found for key in of)
    rows = [
        [
            key.replace("_", " "),
            *(
                f"{format_metric(key, of[key].best)} (epoch {of[key].best_epoch})"
                if key in of
                else "–"
                for of in found
            ),
        ]
        for key in keys
    ]
    return PlainTable(header=["best", *names], rows=rows)
