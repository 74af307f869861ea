"""What each stage of a model computes for an input: embeddings, attention, norms, gates, states.

One forward pass records the output of every module that a drawing of the model shows, as a matrix
with one row per token.
"""

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import count
from math import isqrt
from operator import itemgetter
from threading import get_ident
from typing import NamedTuple

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor, nn

from workings.errors import UserError
from workings.interpret.attention import to_numpy
from workings.interpret.model_pass import plan_pass
from workings.layers.attention import MultiHeadAttention
from workings.layers.convolution import Convolution
from workings.layers.positions import LearnedPositions, SinusoidalPositions
from workings.layers.recurrent import RecurrentLayer
from workings.layers.transformer import FeedForward, LayerNorm, Residual, RMSNorm
from workings.models.captioning import GridEncoder
from workings.modules import eval_mode
from workings.tasks.attention import PassOptions
from workings.tasks.base import Generation, ModelInput, Task
from workings.trace import Trace

MAX_STAGE_TOKENS = 512

_NAMES: dict[type[nn.Module], str] = {
    nn.Embedding: "embedding",
    SinusoidalPositions: "embedding + position",
    LearnedPositions: "embedding + position",
    MultiHeadAttention: "attention",
    FeedForward: "feed-forward",
    Residual: "residual",
    LayerNorm: "norm",
    RMSNorm: "norm",
    Convolution: "convolution",
    GridEncoder: "image grid",
}
_KINDS = (*_NAMES, RecurrentLayer)
_GATES = {
    "lstm": ("input", "forget", "candidate", "output", "cell", "hidden"),
    "gru": ("reset", "update", "candidate", "hidden"),
    "rnn": ("hidden",),
}
_STATES = ("cell", "candidate", "hidden")  # the other taps of a recurrent layer are gates
_LAYER = re.compile(r"(?:^|\.)(?:blocks|layers|encoder|decoder)\.(\d+)(?:\.|$)")


@dataclass(frozen=True)
class Stage:
    """The output of one module, or one gate of a recurrent layer, for every token."""

    path: str
    name: str
    group: str
    """the layer, or the part of the model, that the stage belongs to"""
    tokens: Sequence[str]
    values: Float[np.ndarray, "tokens width"]
    is_recurrent: bool = False
    """computed one time step after the other"""


@torch.no_grad()
def record_stages(
    task: Task, model_input: ModelInput, generation: Generation | None = None
) -> list[Stage]:
    """Run a model once over an input; return its stages in the order in which they are computed.

    A translator or captioner reads its own output, `generation`, as the target.
    """
    model, forward, names = _plan(task, model_input, generation)
    modules = dict(model.named_modules())
    for path in [*modules]:
        if not isinstance(modules[path], _KINDS) or _is_inner(model, path):
            del modules[path]
    taps = {
        f"{path}.{gate}": gate
        for path, module in modules.items()
        if isinstance(module, RecurrentLayer)
        for gate in _GATES[module.cell]
    }
    calls: dict[str, list[_Call]] = {}
    order, thread = count(), get_ident()

    def make_hook(path: str) -> Callable[[nn.Module, object, object], None]:
        def keep(_module: nn.Module, _inputs: object, output: object) -> None:
            if get_ident() != thread:
                return  # another thread may run the same model
            tensor = output[0] if isinstance(output, tuple) else output
            assert isinstance(tensor, Tensor)
            calls.setdefault(path, []).append(_Call(next(order), tensor))

        return keep

    handles = [m.register_forward_hook(make_hook(path)) for path, m in modules.items()]
    try:
        with eval_mode(model), Trace(model, only=list(taps)) as trace:
            forward()
    finally:
        for handle in handles:
            handle.remove()
    stages: list[tuple[int, Stage]] = []
    for path, module_calls in calls.items():
        module = modules[path]
        if isinstance(module, RecurrentLayer):
            recurrent = _build_recurrent_stages(path, module, trace, names)
            stages += [(module_calls[0].order, stage) for stage in recurrent]
        else:
            stages += _build_module_stages(path, module, module_calls, names)
    return [stage for _, stage in sorted(stages, key=itemgetter(0))]


class _Call(NamedTuple):
    """The output of a module, and when it was called."""

    order: int
    output: Tensor


def _plan(
    task: Task, model_input: ModelInput, generation: Generation | None
) -> tuple[nn.Module, Callable[[], object], list[Sequence[str]]]:
    """Return the model, its pass, and the names of the tokens of source and target."""
    forward: Callable[[], object]
    if isinstance(model_input, str):
        target = None if generation is None else generation.text
        plan = plan_pass(task, model_input, target)
        tokens = list(plan.tokens)
        model, forward = plan.model, plan.compute_loss
    else:
        attention = task.plan_attention(model_input, generation, PassOptions(("cross",)))
        tokens = [spec.query_tokens for spec in attention.specs]
        model, forward = attention.model, attention.forward
    longest = max(len(names) for names in tokens)
    if longest > MAX_STAGE_TOKENS:
        raise UserError(f"{longest:,} tokens: the model is drawn for at most {MAX_STAGE_TOKENS}")
    return model, forward, tokens


def _is_inner(model: nn.Module, path: str) -> bool:
    """Return True for modules inside another stage, such as the norm of a residual connection."""
    parents = path.split(".")[:-1]
    outer = (FeedForward, MultiHeadAttention, Convolution, GridEncoder, RecurrentLayer)
    return any(
        isinstance(model.get_submodule(".".join(parents[:k])), outer)
        for k in range(1, len(parents) + 1)
    )


def _build_recurrent_stages(
    path: str, module: RecurrentLayer, trace: Trace, names: Sequence[Sequence[str]]
) -> list[Stage]:
    """Return the gates and states of a layer, in the order of the tokens."""
    stages = []
    for gate in _GATES[module.cell]:
        steps = [to_numpy(step[0]) for step in trace.steps(f"{path}.{gate}")]
        values = np.stack(steps[::-1] if module.reverse else steps)
        tokens = _find_tokens(path, len(values), names)
        label = gate if gate in _STATES else f"{gate} gate"
        if module.reverse:
            label += ", backward"
        if tokens is not None:
            group = _name_group(path)
            stages.append(Stage(f"{path}.{gate}", label, group, tokens, values, is_recurrent=True))
    return stages


def _build_module_stages(
    path: str, module: nn.Module, calls: Sequence[_Call], names: Sequence[Sequence[str]]
) -> list[tuple[int, Stage]]:
    """Return a stage per call or, of a module that is called for each token, one stage.

    A module of both sides of a translator is called once for the source and once for the target.
    """
    name, group = _name_module(path, module), _name_group(path)
    values = [to_numpy(output[0] if output.dim() == 3 else output) for _, output in calls]
    if isinstance(module, GridEncoder):
        side = range(1, isqrt(len(values[0])) + 1)  # images are square, and so are their grids
        tokens = [f"({row},{column})" for row in side for column in side]
        return [(calls[0].order, Stage(path, name, group, tokens, values[0]))]
    if len(names) == len(calls) > 1 and [len(rows) for rows in values] == [*map(len, names)]:
        sides = ("source", "target")
        return [
            (call.order, Stage(f"{path}.{side}", name, side, tokens, rows))
            for call, side, tokens, rows in zip(calls, sides, names, values, strict=True)
        ]
    joined = np.concatenate(values) if len({v.shape[1:] for v in values}) == 1 else values[0]
    known = _find_tokens(path, len(joined), names) if joined.ndim == 2 else None
    return [] if known is None else [(calls[0].order, Stage(path, name, group, known, joined))]


def _name_module(path: str, module: nn.Module) -> str:
    name = next(name for kind, name in _NAMES.items() if isinstance(module, kind))
    if path.endswith("cross_attention"):
        return "cross-attention"
    if name == "residual":
        sublayer = path.rpartition(".")[2].removesuffix("_residual").replace("_", "-")
        return f"residual after {sublayer}"
    return name


def _find_tokens(path: str, length: int, names: Sequence[Sequence[str]]) -> Sequence[str] | None:
    """Return the tokens of the side that has so many; None if neither has."""
    is_target = path.startswith(("decoder", "target"))
    sides = reversed(names) if is_target else names
    return next((tokens for tokens in sides if len(tokens) == length), None)


def _name_group(path: str) -> str:
    """Return the display name of a layer, such as "encoder layer 2".

    >>> _name_group("encoder.1.attention"), _name_group("blocks.0.feed_forward")
    ('encoder layer 2', 'layer 1')
    >>> _name_group("source_embedding"), _name_group("norm")
    ('source', 'output')
    """
    layer = _LAYER.search(path)
    part = next((part for part in ("encoder", "decoder") if path.startswith(part)), "")
    if layer:
        return f"{part} layer {int(layer[1]) + 1}".strip()
    if "embedding" in path or "position" in path or "grid" in path:
        side = next((side for side in ("source", "target") if path.startswith(side)), "")
        return side or "input"
    return part or "output"
