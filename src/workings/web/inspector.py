"""Answers the requests of the screen Inspect; the latest outputs and their heads are cached."""

import json
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import fields, replace
from threading import Lock
from time import perf_counter

import numpy as np

from workings.decode import Sampling
from workings.errors import UserError, did_you_mean
from workings.interpret.activations import build_reader
from workings.interpret.attention import ALIGNMENT, ablate_heads, collect
from workings.interpret.attribution import explain
from workings.interpret.heads import HeadTrace, trace_head
from workings.interpret.positions import extract_position_vectors
from workings.interpret.results import AttentionMaps, HeadIndex
from workings.interpret.stages import Stage, record_stages
from workings.plain_text import show_whitespace
from workings.tasks.base import Task
from workings.trace import Trace
from workings.web import heatmaps, requests, responses
from workings.web.inspect_views import (
    build_bars,
    build_derivation,
    build_drawing,
    build_head_table,
    build_outcome,
    build_output,
    build_stack_view,
    build_stage_heatmap,
    build_strip,
    build_token_bars,
    format_percent,
    list_cell_groups,
    visible_tokens,
)
from workings.web.jobs import Deadline
from workings.web.model_outputs import (
    MAX_INPUT_TOKENS,
    ModelOutput,
    check_length,
    run_model,
    score_target,
)
from workings.web.runs import RunRegistry
from workings.web.standalone_page import MAX_HEATMAP_CELLS, page

CACHE_SIZE = 4  # inputs with their attention weights
NUM_ALTERNATIVES = 5  # most probable tokens listed for each generated one
NUM_OTHER_CELLS = 8  # cells of a group that vary most


class Inspector:
    """Inspects the registered runs; its methods run in the threads of the job executor."""

    def __init__(self, registry: RunRegistry) -> None:
        self._registry = registry
        self._cache: OrderedDict[tuple[Task, str], ModelOutput] = OrderedDict()
        self._lock = Lock()

    def inspect(
        self, request: requests.InspectRequest, temperature: float = 1.0, top_k: int = 0
    ) -> responses.InspectView:
        """Return the output for an input; with ablated heads, also that of the intact model."""
        task, output, baseline = self._load_task(request), self._get_output(request), None
        if request.ablated_heads:
            baseline = self._get_output(replace(request, ablated_heads=[]))
        bars, num_omitted = build_bars(output, baseline, temperature, top_k)
        if output.token_probabilities:
            intact = self._score_intact(task, output, request)
            bars, num_omitted = build_token_bars(output.token_probabilities, intact)
        return responses.InspectView(
            kind=self._registry.get_run(request.run).kind,
            description=output.response.description,
            tokens=list(output.response.tokens),
            bars=bars,
            num_omitted=num_omitted,
            output=build_output(output),
            baseline=None if baseline is None else build_output(baseline),
            stacks=[build_stack_view(stack, request.ablated_heads) for stack in output.stacks],
            cell_groups=list_cell_groups(task, len(output.response.tokens)),
            has_positions=extract_position_vectors(task.model) is not None,
            colors=heatmaps.level_colors(),
        )

    def _score_intact(
        self, task: Task, output: ModelOutput, request: requests.InspectRequest
    ) -> list[tuple[str, float]]:
        """Return the tokens that a model with ablated heads generated, as the intact one scores."""
        if not (request.ablated_heads and output.token_probabilities):
            return []
        attention = collect(task, output.model_input(request), output.response.generation)
        return score_target(attention)

    def heatmap(self, request: requests.HeatmapRequest) -> responses.Heatmap:
        """Return the attention weights of one head."""
        output = self._get_output(request)
        stack = output.get_stack(request.part)
        weights = stack.head_weights(request.layer, request.head)
        name = stack.head_name(request.layer, request.head)
        rows, reads = stack.query_tokens, list[str]()
        for cross in output.stacks if request.part in (ALIGNMENT, "cross") else ():
            if cross.part == "cross":  # a row is named after the token that it writes
                rows, reads = cross.output_tokens, visible_tokens(cross.query_tokens)
        heatmap = heatmaps.build_weights_heatmap(
            name,
            f"{name} of the {stack.label}" if stack.is_multi_head else name,
            visible_tokens(rows),
            visible_tokens(stack.key_tokens),
            weights.astype(np.float64),
            stack.is_causal,
        )
        return replace(heatmap, reads=reads)

    def export_page(self, request: requests.HeatmapRequest) -> str:
        """Return a page with all heads of a part, or with the chosen head if all are too large."""
        output = self._get_output(request)
        stack = output.get_stack(request.part)
        stack.head_weights(request.layer, request.head)  # raises an error if there is none
        title = f"{request.text} → {output.text}" if request.part == ALIGNMENT else request.text
        if output.image is not None:
            title = output.text or ""
        is_alignment = request.part in (ALIGNMENT, "cross")
        rows, columns = stack.query_tokens, stack.key_tokens
        num_heads = stack.num_layers * stack.num_heads
        if len(rows) * len(columns) * num_heads <= MAX_HEATMAP_CELLS:
            head_maps = stack.to_head_maps()
        else:
            head_maps = stack.to_head_maps([request.layer], [request.head])
        return page(AttentionMaps(title, rows, columns, head_maps, is_alignment=is_alignment))

    def derive_cell(
        self, request: requests.DerivationRequest
    ) -> tuple[responses.DerivationView, requests.ProblemTable | None]:
        """Return the derivation of a weight, and the head as a problem if it is small enough."""
        trace = self._trace_head(request)
        derivation = build_derivation(trace.to_problem(), request.row + 1, request.column + 1)
        return derivation, _build_head_table(trace)

    def derive_cells(
        self, request: requests.HeatmapRequest
    ) -> tuple[list[list[responses.DerivationView]], requests.ProblemTable | None]:
        """Return the derivations of all weights of a head by row, and the head as a problem."""
        trace = self._trace_head(request)
        head = trace.to_problem()
        rows, columns = head.problem.exact_matrices["weights"].shape
        cells = [
            [build_derivation(head, i, j) for j in range(1, columns + 1)]
            for i in range(1, rows + 1)
        ]
        return cells, _build_head_table(trace)

    def _trace_head(
        self, request: requests.HeatmapRequest | requests.DerivationRequest
    ) -> HeadTrace:
        task, output = self._load_task(request), self._get_output(request)
        with self._ablate(task, request):
            return trace_head(
                task,
                output.model_input(request),
                request.layer,
                request.head,
                part=request.part,
                target=output.response.generation,
            )

    def draw_model(self, request: requests.InspectRequest) -> responses.ModelDrawing:
        """Return what every stage of the model computes for an input, as thumbnails."""
        return build_drawing(self._record_stages(request))

    def read_stage(self, request: requests.StageRequest) -> responses.Heatmap:
        """Return all numbers of one stage."""
        stages = {stage.path: stage for stage in self._record_stages(request)}
        if request.stage not in stages:
            raise UserError(f"stage: {did_you_mean(request.stage, stages)}")
        return build_stage_heatmap(stages[request.stage])

    def read_stages(self, request: requests.InspectRequest) -> dict[str, responses.Heatmap]:
        """Return all numbers of every stage by its path."""
        return {stage.path: build_stage_heatmap(stage) for stage in self._record_stages(request)}

    def _record_stages(self, request: requests.InspectRequest) -> list[Stage]:
        task, output = self._load_task(request), self._get_output(request)
        with self._ablate(task, request):
            return record_stages(task, output.model_input(request), output.response.generation)

    def complete(
        self,
        request: requests.CompletionRequest,
        deadline: Deadline,
        on_token: Callable[[responses.TokenView], None] = lambda _: None,
    ) -> responses.CompletionView:
        """Continue a text until it is long enough or the deadline is over."""
        task, start = self._load_task(request), perf_counter()
        sampling = Sampling(temperature=request.temperature, seed=request.seed)
        stream = task.stream(
            request.text, request.max_new_tokens, sampling, num_alternatives=NUM_ALTERNATIVES
        )
        check_length(task, request.text)
        tokens: list[responses.TokenView] = []
        with self._ablate(task, request):
            for generated in stream:
                tokens.append(
                    responses.TokenView(
                        text=generated.text,
                        token=show_whitespace(generated.token),
                        probability_text=format_percent(generated.probability),
                        bars=[
                            build_outcome(show_whitespace(name), p)
                            for name, p in generated.alternatives
                        ],
                    )
                )
                on_token(tokens[-1])
                if deadline.is_over:
                    break
        stop_reason = ""
        if deadline.is_over and len(tokens) < request.max_new_tokens:
            stop_reason = f"time limit: {len(tokens)} of {request.max_new_tokens} tokens"
        return responses.CompletionView(
            tokens=tokens, stop_reason=stop_reason, milliseconds=1000 * (perf_counter() - start)
        )

    def explain(self, request: requests.InspectRequest) -> list[responses.TokenStrip]:
        """Attribute the prediction of a classifier to the tokens of the text."""
        task = self._load_task(request)
        with self._ablate(task, request):
            attribution = explain(task, request.text)
        tokens = [show_whitespace(request.text[a:b]) for a, b in attribution.spans]
        key = f"; orange: for {attribution.label}, blue: for {attribution.runner_up}"
        return [
            build_strip(a.method, a.description + key * a.is_signed, tokens, a.values, a.is_signed)
            for a in attribution.token_attributions
        ]

    def read_cell(self, request: requests.CellsRequest) -> responses.CellActivationsView:
        """Return the activations of a cell on a text, and the cells of its group that vary most."""
        task = self._load_task(request)
        ids, spans, _ = task.encode_with_spans(request.text)
        reader = build_reader(task.model, ids)
        if not 0 < len(ids) <= MAX_INPUT_TOKENS:
            raise UserError(f"{len(ids):,} tokens: expected 1 to {MAX_INPUT_TOKENS:,}")
        groups = reader.groups
        if request.group > len(groups):
            raise UserError(f"group {request.group}: there are {len(groups)}, counted from 1")
        start, group = sum(g.size for g in groups[: request.group - 1]), groups[request.group - 1]
        if request.cell is not None and request.cell > group.size:
            raise UserError(f"cell {request.cell}: there are {group.size}, counted from 1")
        with self._ablate(task, request):
            activations = reader.read_from_start(range(start, start + group.size))
        most_varied = np.argsort(-activations.std(0), kind="stable")[:NUM_OTHER_CELLS] + 1
        cell = int(most_varied[0]) if request.cell is None else request.cell
        tokens = [show_whitespace(request.text[a:b]) for a, b in spans]
        return responses.CellActivationsView(
            size=group.size,
            cell=cell,
            strip=build_strip(
                f"{group.name} {cell}",
                "activation after each token",
                tokens,
                activations[:, cell - 1].astype(float).tolist(),
            ),
            others=most_varied.tolist(),
        )

    def describe_positions(self, request: requests.RunRequest) -> list[responses.Heatmap]:
        """Return the position vectors of a model and their dot products as heatmaps."""
        encoding = extract_position_vectors(self._registry.load_task(request.run).model)
        if encoding is None:
            raise UserError("this model has no positional encoding: it reads tokens in sequence")
        positions = [str(k + 1) for k in range(len(encoding.vectors))]
        columns = [str(k + 1) for k in range(encoding.vectors.shape[1])]
        maps = (
            ("vectors", encoding.description, columns, encoding.vectors),
            ("products", "dot products of the vectors", positions, encoding.dot_products),
        )
        return [
            heatmaps.build_signed_heatmap(
                name, description, positions, columns, numbers.astype(np.float64)
            )
            for name, description, columns, numbers in maps
        ]

    def _load_task(self, request: requests.InspectRequest) -> Task:
        return self._registry.load_task(request.run)

    def _ablate(self, task: Task, request: requests.InspectRequest) -> Trace:
        heads = [HeadIndex(head.part, head.layer, head.head) for head in request.ablated_heads]
        return ablate_heads(task.model, heads)

    def _get_output(self, request: requests.InspectRequest) -> ModelOutput:
        return self._get_cached(_without_options(request))

    def _get_cached(self, request: requests.InspectRequest) -> ModelOutput:
        key = self._load_task(request), json.dumps(request, default=vars)
        with self._lock:
            if key in self._cache:
                self._cache.move_to_end(key)
                return self._cache[key]
        output = self._run(request)
        with self._lock:
            self._cache[key] = output
            while len(self._cache) > CACHE_SIZE:
                self._cache.popitem(last=False)
        return output

    def _run(self, request: requests.InspectRequest) -> ModelOutput:
        task = self._load_task(request)
        with self._ablate(task, request):
            return run_model(task, request)


def _build_head_table(trace: HeadTrace) -> requests.ProblemTable | None:
    """Return a head as a problem: from Q, K and V where the whole head is too large."""
    head = build_head_table(trace.to_problem())
    return head or build_head_table(trace.to_problem(projected=True))


def _without_options(request: requests.InspectRequest) -> requests.InspectRequest:
    """Return the fields of the input only: they are the key of the cache."""
    return requests.InspectRequest(
        **{field.name: getattr(request, field.name) for field in fields(requests.InspectRequest)}
    )
