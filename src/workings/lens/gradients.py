"""How far back a loss reaches: ‖∂loss_t/∂h_(t−k)‖ against k, and what W_hh has to do with it."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
import torch.nn.functional as F
from jaxtyping import Float, Int
from torch import Tensor

from workings.errors import UserError
from workings.lens.passage import passage
from workings.lens.reading import directions
from workings.models.language import LanguageModel, RecurrentLanguageModel
from workings.tasks.language import Modelling
from workings.trace import Trace
from workings.views.picture import Picture

BACK = 100  # tokens
ENDS = 8  # places whose loss is followed back, in each sequence
SEQUENCES = 16
CHARACTERS = 200_000  # to cut them out of
_GATES = {
    "rnn": ("W_hh",),
    "gru": ("reset", "update", "candidate"),
    "lstm": ("input", "forget", "candidate", "output"),
}


@dataclass(frozen=True)
class Flow:
    """How large the gradients of a model are, by how far back they went."""

    model: str
    of: str
    """what they are gradients with respect to"""
    norms: list[float]
    """0, 1, 2, … tokens back"""


@dataclass(frozen=True)
class Radius:
    """The largest eigenvalue of a recurrent matrix, by size."""

    model: str
    layer: int
    matrix: str
    value: float


@dataclass(frozen=True)
class Flows:
    """The gradients of several models, side by side."""

    flows: list[Flow]
    radii: list[Radius]

    def to_table(self) -> dict[str, Any]:
        """Take it apart into what JSON can hold."""
        return {
            "gradients": [vars(flow) for flow in self.flows],
            "spectral_radii": [vars(radius) for radius in self.radii],
        }

    def to_text(self, *, width: int | None = None, color: bool = False) -> str:
        """Write it for a terminal."""
        from workings.views import flows

        return flows.text(self, width=width, color=color)

    def to_picture(self) -> Picture:
        """Draw all curves in one picture."""
        from workings.views import flows

        return flows.chart(self)

    def to_html(self) -> str:
        """Write it as one HTML file that needs nothing else."""
        from workings.views import flows

        return flows.page(self)


def flows_of(tasks: Mapping[str, Modelling], back: int = BACK) -> Flows:
    """Look at several models, by recipe or run, each on the beginning of its text."""
    if back < 1:
        raise UserError(f"{back} tokens back: at least 1")
    flows: list[Flow] = []
    radii: list[Radius] = []
    short = {Path(name).stem for name in tasks}
    for name, task in tasks.items():
        name = Path(name).stem if len(short) == len(tasks) else name
        model, longest = task.model, task.model.longest
        near = back if longest is None else max(min(back, (longest - 1) // 2), 1)
        _, text = passage(task.recipe, task.recipe.data.set, CHARACTERS)
        ids = windows(torch.tensor(task.tokenizer.encode(text)), near)
        device = next(model.parameters()).device
        flows += gradient_flow(model, ids.to(device), name)
        radii += spectral_radii(model, name)
    return Flows(flows, radii)


def windows(
    ids: Int[Tensor, " text"], back: int = BACK, count: int = SEQUENCES
) -> Int[Tensor, "sequences time"]:
    """Cut sequences out of a text, evenly, that are long enough to look so far back in them."""
    length = 2 * back + 2  # half to look back from, half to look back at, and what comes next
    if len(ids) < length:
        raise UserError(f"{len(ids):,} tokens: at least {length:,} are needed to look {back} back")
    begins = sorted(set(torch.linspace(0, len(ids) - length, count).long().tolist()))
    return torch.stack([ids[begin : begin + length] for begin in begins])


def gradient_flow(
    model: LanguageModel,
    ids: Int[Tensor, "sequences time"],
    name: str = "",
    back: int | None = None,
) -> list[Flow]:
    """Follow the loss back from several places: the mean norm of its gradient, for each layer.

    Of a recurrent model, with respect to each layer's state h; of a Transformer, with respect to
    the embedded tokens that go into its first block. One pass backwards for each place.
    """
    inputs, targets = ids[:, :-1], ids[:, 1:]
    last = inputs.shape[1] - 1
    back = last // 2 if back is None else back
    if not 0 <= back <= last:
        raise UserError(f"{back} tokens back: sequences of {last + 1} leave {last} at most")
    ends = torch.linspace(back, last, min(ENDS, last - back + 1)).long().tolist()
    states, losses = _read(model, inputs, targets)
    sums = torch.zeros(len(states), back + 1, dtype=torch.float64)
    for t in ends:
        before = [steps[t - back : t + 1] for steps in states.values()]
        flat = [state for steps in before for state in steps]
        found = torch.autograd.grad(losses[:, t].sum(), flat, retain_graph=True)
        norms = torch.stack([g.double().norm(dim=-1).mean().cpu() for g in found])
        sums += norms.view(len(states), back + 1).flip(1)  # from the nearest to the farthest
    return [
        Flow(name, of, (row / len(ends)).tolist()) for of, row in zip(states, sums, strict=True)
    ]


def _read(
    model: LanguageModel, inputs: Tensor, targets: Tensor
) -> tuple[dict[str, Sequence[Tensor]], Float[Tensor, "sequences time"]]:
    """The states by what they are, a list over time each, and the loss at every place."""
    embedded: list[Tensor] = []

    def apart(x: Tensor) -> Tensor:
        """A leaf for every token, so that gradients arrive at each by itself."""
        embedded.extend(t.detach().requires_grad_() for t in x.unbind(1))
        return torch.stack(embedded, 1)

    was_training = model.training
    model.eval()
    try:
        # torch's recurrent layers on a GPU have no gradients while they evaluate, but by this way.
        with torch.enable_grad(), torch.backends.cudnn.flags(enabled=False):
            with Trace(model, only="*.0.hidden", replace={"embedded": apart}) as trace:
                scores, _ = model(inputs)
            losses = F.cross_entropy(scores.transpose(1, 2), targets, reduction="none")
    finally:
        model.train(was_training)
    if not isinstance(model, RecurrentLanguageModel):
        return {"the input of block 1": embedded}, losses
    layers = range(len(directions(model)))
    paths = {f"h of layer {k + 1}": f"recurrent.layers.{k}.0.hidden" for k in layers}
    return {of: trace.steps(path) for of, path in paths.items()}, losses


def spectral_radii(model: LanguageModel, name: str = "") -> list[Radius]:
    """The spectral radius of W_hh in each recurrent layer; where it has gates, of each one's part.

    What h is multiplied by, k times over, decays or grows as the k-th power of the radius; a tanh
    or a gate can only make that smaller.
    """
    if not isinstance(model, RecurrentLanguageModel):
        return []
    radii = []
    for k, way in enumerate(directions(model), start=1):
        gates, (_, w_hh, *_) = _GATES[way.cell], way.layer.all_weights[0]
        for gate, part in zip(gates, w_hh.chunk(len(gates)), strict=True):
            value = torch.linalg.eigvals(part.detach().double().cpu()).abs().max()
            radii.append(Radius(name, k, gate, float(value)))
    return radii
