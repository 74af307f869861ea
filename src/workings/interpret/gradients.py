"""How far back a loss reaches: ‖∂loss_t/∂h_(t−k)‖ against k, and what W_hh has to do with it."""

from collections.abc import Mapping, Sequence
from pathlib import Path

import torch
import torch.nn.functional as F
from jaxtyping import Float, Int
from torch import Tensor

from workings.errors import UserError
from workings.interpret.activations import find_recurrent_layers, select_passage
from workings.interpret.results import GradientNorms, GradientReport, SpectralRadius
from workings.models.language import LanguageModel, RecurrentLM
from workings.tasks.language_modeling import LanguageModeling
from workings.trace import Trace

MAX_LAG = 100  # tokens
NUM_LOSS_POSITIONS = 8  # places whose loss is followed back, in each sequence
NUM_SEQUENCES = 16
NUM_CHARACTERS = 200_000  # to cut them out of
_GATES = {
    "rnn": ("W_hh",),
    "gru": ("reset", "update", "candidate"),
    "lstm": ("input", "forget", "candidate", "output"),
}


def measure_gradients(
    tasks: Mapping[str, LanguageModeling], max_lag: int = MAX_LAG
) -> GradientReport:
    """Look at several models, by recipe or run, each on the beginning of its text."""
    if max_lag < 1:
        raise UserError(f"{max_lag} tokens back: at least 1")
    flows: list[GradientNorms] = []
    radii: list[SpectralRadius] = []
    short = {Path(name).stem for name in tasks}
    for name, task in tasks.items():
        name = Path(name).stem if len(short) == len(tasks) else name
        model, longest = task.model, task.model.max_positions
        near = max_lag if longest is None else max(min(max_lag, (longest - 1) // 2), 1)
        _, text = select_passage(task.recipe, task.recipe.data.set, NUM_CHARACTERS)
        ids = sample_windows(torch.tensor(task.tokenizer.encode(text)), near)
        device = next(model.parameters()).device
        flows += compute_gradient_norms(model, ids.to(device), name)
        radii += compute_spectral_radii(model, name)
    return GradientReport(flows, radii)


def sample_windows(
    ids: Int[Tensor, " text"], max_lag: int = MAX_LAG, count: int = NUM_SEQUENCES
) -> Int[Tensor, "sequences time"]:
    """Cut sequences out of a text, evenly, that are long enough to look so far back in them."""
    length = 2 * max_lag + 2  # half to look back from, half to look back at, and what comes next
    if len(ids) < length:
        raise UserError(
            f"{len(ids):,} tokens: at least {length:,} are needed to look {max_lag} back"
        )
    begins = sorted(set(torch.linspace(0, len(ids) - length, count).long().tolist()))
    return torch.stack([ids[begin : begin + length] for begin in begins])


def compute_gradient_norms(
    model: LanguageModel,
    ids: Int[Tensor, "sequences time"],
    name: str = "",
    max_lag: int | None = None,
) -> list[GradientNorms]:
    """Follow the loss back from several places: the mean norm of its gradient, for each layer.

    Of a recurrent model, with respect to each layer's state h; of a Transformer, with respect to
    the embedded tokens that go into its first block. One pass backwards for each place.
    """
    inputs, targets = ids[:, :-1], ids[:, 1:]
    last = inputs.shape[1] - 1
    max_lag = last // 2 if max_lag is None else max_lag
    if not 0 <= max_lag <= last:
        raise UserError(f"{max_lag} tokens back: sequences of {last + 1} leave {last} at most")
    ends = (
        torch.linspace(max_lag, last, min(NUM_LOSS_POSITIONS, last - max_lag + 1)).long().tolist()
    )
    states, losses = _run_forward(model, inputs, targets)
    sums = torch.zeros(len(states), max_lag + 1, dtype=torch.float64)
    for t in ends:
        before = [steps[t - max_lag : t + 1] for steps in states.values()]
        flat = [state for steps in before for state in steps]
        found = torch.autograd.grad(losses[:, t].sum(), flat, retain_graph=True)
        norms = torch.stack([g.double().norm(dim=-1).mean().cpu() for g in found])
        sums += norms.view(len(states), max_lag + 1).flip(1)  # from the nearest to the farthest
    return [
        GradientNorms(name, of, (row / len(ends)).tolist())
        for of, row in zip(states, sums, strict=True)
    ]


def _run_forward(
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
    if not isinstance(model, RecurrentLM):
        return {"the input of block 1": embedded}, losses
    layers = range(len(find_recurrent_layers(model)))
    paths = {f"h of layer {k + 1}": f"recurrent.layers.{k}.0.hidden" for k in layers}
    return {of: trace.steps(path) for of, path in paths.items()}, losses


def compute_spectral_radii(model: LanguageModel, name: str = "") -> list[SpectralRadius]:
    """The spectral radius of W_hh in each recurrent layer; where it has gates, of each one's part.

    What h is multiplied by, k times over, decays or grows as the k-th power of the radius; a tanh
    or a gate can only make that smaller.
    """
    if not isinstance(model, RecurrentLM):
        return []
    radii = []
    for k, way in enumerate(find_recurrent_layers(model), start=1):
        gates, (_, w_hh, *_) = _GATES[way.cell], way.layer.all_weights[0]
        for gate, part in zip(gates, w_hh.chunk(len(gates)), strict=True):
            value = torch.linalg.eigvals(part.detach().double().cpu()).abs().max()
            radii.append(SpectralRadius(name, k, gate, float(value)))
    return radii
