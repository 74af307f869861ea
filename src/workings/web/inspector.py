"""Runs looked into, as the page is told; what was seen last is kept: heads come one by one."""

from collections import OrderedDict
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from threading import Lock
from time import perf_counter

import numpy as np

from workings.decode.sampling import Sampling
from workings.errors import UserError
from workings.interpret.activations import ActivationReader
from workings.interpret.attention import ALIGNMENT, HeadIndex, StackWeights, ablate_heads
from workings.interpret.attribution import explain
from workings.interpret.heads import read_head
from workings.interpret.positions import extract_position_vectors
from workings.plain_text import show_whitespace
from workings.tasks.base import Task
from workings.tasks.classification import Classification
from workings.tasks.language_modeling import LanguageModeling
from workings.trace import Trace
from workings.web import heatmaps, requests, responses
from workings.web.inspect_views import (
    build_bar,
    build_bars,
    build_derivation,
    build_generation,
    build_head_table,
    build_stack_view,
    build_strip,
    format_percent,
    list_cell_groups,
    to_float64,
)
from workings.web.jobs import Deadline
from workings.web.model_outputs import (
    MAX_INPUT_TOKENS,
    ModelOutput,
    collect_request_stacks,
    run_model,
    token_name,
)
from workings.web.runs import RunRegistry
from workings.web.standalone_page import MAX_HEATMAP_CELLS, page

CACHE_SIZE = 4  # inputs whose maps are kept
NUM_ALTERNATIVES = 5  # of what was likely instead of a token that was written
NUM_OTHER_CELLS = 8  # cells that vary most


@dataclass(frozen=True, eq=False)
class CachedOutput:
    """An input, what a run made of it, and where its heads looked."""

    output: ModelOutput
    stacks: Sequence[StackWeights]
    notes: Sequence[str] = ()

    def get_stack(self, part: str) -> StackWeights:
        """Find a stack by its part."""
        for one in self.stacks:
            if one.part == part:
                return one
        raise UserError(f"part {part!r}: there is no such attention to look at here")


class Inspector:
    """Answers about the runs of a shelf; all of it is for the shelf's own threads."""

    def __init__(self, registry: RunRegistry) -> None:
        self._registry = registry
        self._cache: OrderedDict[tuple[Task, str], CachedOutput] = OrderedDict()
        self._lock = Lock()

    def inspect(self, request: requests.InspectRequest) -> responses.InspectView:
        """What a run makes of an input; with heads off, beside what it makes of it with all."""
        task, seen = self._load_task(request), self._get_cached(request)
        before = (
            self._get_cached(request.model_copy(update={"ablated_heads": []})).output
            if request.ablated_heads
            else None
        )
        found = seen.output
        bars, more = build_bars(found, before)
        return responses.InspectView(
            kind=self._registry.get_run(request.run).kind,
            description=found.description,
            tokens=list(found.tokens),
            bars=bars,
            num_omitted=more,
            generation=build_generation(found, before),
            caption_attention=found.caption_attention,
            stacks=[build_stack_view(stack, request.ablated_heads) for stack in seen.stacks],
            cell_groups=list_cell_groups(task, len(found.tokens)),
            has_positions=extract_position_vectors(task.model) is not None,
            notes=[*found.notes, *seen.notes],
            light=heatmaps.build_palette("light"),
            dark=heatmaps.build_palette("dark"),
        )

    def heatmap(self, request: requests.HeatmapRequest) -> responses.Heatmap:
        """One head's map."""
        stack = self._get_stack(request)
        name = stack.head_name(request.layer, request.head)
        return heatmaps.build_weights_heatmap(
            name,
            name if request.part == ALIGNMENT else f"{name} of the {stack.label}",
            stack.query_tokens,
            stack.key_tokens,
            to_float64(stack.weights[request.layer - 1][request.head - 1]),
            stack.is_causal,
        )

    def export_page(self, request: requests.HeatmapRequest) -> str:
        """Write a part's heads as a page of their own; of many large ones the chosen one alone."""
        stack, found = self._get_stack(request), self._get_output(request)
        title = f"{request.text} → {found.text}" if request.part == ALIGNMENT else request.text
        if found.image is not None:
            title = found.text or ""
        maps = stack.to_maps(title)
        if len(stack.query_tokens) * len(stack.key_tokens) * len(maps.maps) > MAX_HEATMAP_CELLS:
            maps = stack.to_maps(title, (request.layer, request.head))
        return page(maps)

    def derive_cell(self, request: requests.DerivationRequest) -> responses.DerivationView:
        """One cell of a head's weights, written out; and the head as a problem, if it is small."""
        task, found = self._load_task(request), self._get_output(request)
        with self._ablate(task, request):
            head = partial(
                read_head,
                task,
                found.model_input(request),
                request.layer,
                request.head,
                part=request.part,
                target=found.generation,
            )
            whole = head()
            cell = whole.cell("weights", request.row + 1, request.column + 1)
            table = build_head_table(whole) or build_head_table(head(projected=True))
        return build_derivation(cell, table)

    def complete(
        self, request: requests.CompletionRequest, deadline: Deadline
    ) -> responses.CompletionView:
        """Go on with a text, for a while."""
        task, began = self._load_task(request), perf_counter()
        if not isinstance(task, LanguageModeling):
            raise UserError("only a language model goes on with a text")
        run_model(task, request)  # refuses what is too long
        how = Sampling(temperature=request.temperature, seed=request.seed)
        written: list[responses.TokenView] = []
        with self._ablate(task, request):
            for one in task.stream(
                request.text, request.max_new_tokens, how, num_alternatives=NUM_ALTERNATIVES
            ):
                written.append(
                    responses.TokenView(
                        text=one.text,
                        token=token_name(task.tokenizer, one.token),
                        probability_text=format_percent(one.probability),
                        bars=[
                            build_bar(token_name(task.tokenizer, name), p)
                            for name, p in one.alternatives
                        ],
                    )
                )
                if deadline.is_over:
                    break
        short = deadline.is_over and len(written) < request.max_new_tokens
        ended = (
            f"it took too long: {len(written)} of {request.max_new_tokens} tokens" if short else ""
        )
        return responses.CompletionView(
            tokens=written, stop_reason=ended, milliseconds=1000 * (perf_counter() - began)
        )

    def explain(self, request: requests.InspectRequest) -> responses.AttributionView:
        """Which words decided."""
        task = self._load_task(request)
        if not isinstance(task, Classification):
            raise UserError("only a classifier has words that decide")
        with self._ablate(task, request):
            found = explain(task, request.text)
        tokens = [show_whitespace(request.text[a:b]) for a, b in found.spans]
        return responses.AttributionView(
            label=found.label,
            contrast_label=found.runner_up,
            strips=[
                build_strip(s.method, s.description, tokens, s.values, s.is_signed)
                for s in found.token_attributions
            ],
        )

    def read_cell(self, request: requests.CellsRequest) -> responses.CellActivationsView:
        """One cell over a text, and which cells of its group vary most."""
        task = self._load_task(request)
        if not isinstance(task, LanguageModeling):
            raise UserError("cells are shown of language models")
        spans = task.tokenizer.find_spans(request.text)
        if not 0 < len(spans) <= MAX_INPUT_TOKENS:
            raise UserError(f"{len(spans):,} tokens: from 1 to {MAX_INPUT_TOKENS:,} are shown")
        reader = ActivationReader(task.model, np.asarray(task.tokenizer.encode(request.text)))
        groups = reader.groups
        if request.group > len(groups):
            raise UserError(f"group {request.group}: there are {len(groups)}, counted from 1")
        begin, group = sum(g.size for g in groups[: request.group - 1]), groups[request.group - 1]
        if request.cell is not None and request.cell > group.size:
            raise UserError(f"cell {request.cell}: there are {group.size}, counted from 1")
        with self._ablate(task, request):
            seen = reader.read_from_start(range(begin, begin + group.size))
        varied = np.argsort(-seen.std(0), kind="stable")[:NUM_OTHER_CELLS] + 1
        cell = int(varied[0]) if request.cell is None else request.cell
        values = seen[:, cell - 1].astype(float).tolist()
        tokens = [show_whitespace(request.text[a:b]) for a, b in spans]
        says = "what it holds after each token"
        return responses.CellActivationsView(
            group=group.name,
            size=group.size,
            cell=cell,
            strip=build_strip(f"{group.name} {cell}", says, tokens, values),
            others=varied.tolist(),
        )

    def describe_positions(self, request: requests.RunRequest) -> responses.PositionsView:
        """How the model tells places apart."""
        found = extract_position_vectors(self._registry.load_task(request.run).model)
        if found is None:
            raise UserError("this model has no positions: it reads one token after the other")
        places = [str(k + 1) for k in range(len(found.vectors))]
        columns = [str(k + 1) for k in range(found.vectors.shape[1])]
        return responses.PositionsView(
            description=found.description,
            maps=[
                heatmaps.build_signed_heatmap(
                    "vectors", "a row for each place", places, columns, to_float64(found.vectors)
                ),
                heatmaps.build_signed_heatmap(
                    "products", "place by place", places, places, to_float64(found.dot_products)
                ),
            ],
        )

    def _get_stack(self, request: requests.HeatmapRequest) -> StackWeights:
        stack = self._get_cached(_without_options(request)).get_stack(request.part)
        if request.layer > len(stack.weights) or request.head > len(stack.weights[0]):
            size = f"{len(stack.weights)} layers of {len(stack.weights[0])} heads"
            raise UserError(f"layer {request.layer}, head {request.head}: there are {size}")
        return stack

    def _load_task(self, request: requests.InspectRequest) -> Task:
        return self._registry.load_task(request.run)

    def _ablate(self, task: Task, request: requests.InspectRequest) -> Trace:
        return ablate_heads(
            task.model, [HeadIndex(o.part, o.layer, o.head) for o in request.ablated_heads]
        )

    def _get_output(self, request: requests.InspectRequest) -> ModelOutput:
        return self._get_cached(_without_options(request)).output

    def _get_cached(self, request: requests.InspectRequest) -> CachedOutput:
        key = self._load_task(request), request.model_dump_json()
        with self._lock:
            if key in self._cache:
                self._cache.move_to_end(key)
                return self._cache[key]
        seen = self._run(request)
        with self._lock:
            self._cache[key] = seen
            while len(self._cache) > CACHE_SIZE:
                self._cache.popitem(last=False)
        return seen

    def _run(self, request: requests.InspectRequest) -> CachedOutput:
        task = self._load_task(request)
        with self._ablate(task, request):
            found = run_model(task, request)
            return CachedOutput(found, *collect_request_stacks(task, request, found))


def _without_options(request: requests.InspectRequest) -> requests.InspectRequest:
    """Only what an input is: what is kept goes by that."""
    return requests.InspectRequest(
        **{name: getattr(request, name) for name in requests.InspectRequest.model_fields}
    )
