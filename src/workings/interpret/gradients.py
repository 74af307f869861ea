"""Gradient norms ‖∂loss_t/∂h_(t−k)‖ by lag k, and the spectral radii of recurrent matrices."""

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
from workings.modules import device_of, eval_mode
from workings.tasks.language_modeling import LanguageModeling
from workings.trace import Trace

MAX_LAG = 100  # tokens
NUM_LOSS_POSITIONS = 8  # positions per sequence whose loss is backpropagated
NUM_SEQUENCES = 16
NUM_CHARACTERS = 200_000  # of the passage from which the sequences are taken
_GATES = {
    "rnn": ("W_hh",),
    "gru": ("reset", "update", "candidate"),
    "lstm": ("input", "forget", "candidate", "output"),
}


def measure_gradients(
    tasks: Mapping[str, LanguageModeling], max_lag: int = MAX_LAG
) -> GradientReport:
    """Measure several models, by the name of their recipe or run, each on its own corpus."""
    if max_lag < 1:
        raise UserError(f"max_lag = {max_lag}: expected at least 1")
    norms: list[GradientNorms] = []
    radii: list[SpectralRadius] = []
    stems = {Path(name).stem for name in tasks}
    for name, task in tasks.items():
        name = Path(name).stem if len(stems) == len(tasks) else name
        model, limit = task.model, task.model.max_positions
        model_lag = max_lag if limit is None else max(min(max_lag, (limit - 1) // 2), 1)
        _, text = select_passage(task.recipe, task.recipe.data.set, NUM_CHARACTERS)
        ids = sample_windows(torch.tensor(task.tokenizer.encode(text)), model_lag)
        norms += compute_gradient_norms(model, ids.to(device_of(model)), name)
        radii += compute_spectral_radii(model, name)
    return GradientReport(norms, radii)


def sample_windows(
    ids: Int[Tensor, " text"], max_lag: int = MAX_LAG, count: int = NUM_SEQUENCES
) -> Int[Tensor, "sequences time"]:
    """Return evenly spaced windows of a text that are long enough for `max_lag`."""
    length = 2 * max_lag + 2  # half before the losses, half with losses, and the last target
    if len(ids) < length:
        raise UserError(
            f"the text has {len(ids):,} tokens: at least {length:,} are needed for a lag of "
            f"{max_lag}"
        )
    starts = sorted(set(torch.linspace(0, len(ids) - length, count).long().tolist()))
    return torch.stack([ids[start : start + length] for start in starts])


def compute_gradient_norms(
    model: LanguageModel,
    ids: Int[Tensor, "sequences time"],
    name: str = "",
    max_lag: int | None = None,
) -> list[GradientNorms]:
    """Return the mean gradient norm of the loss by lag, for each layer.

    The gradients of a recurrent model are with respect to each layer's hidden state; those of a
    Transformer with respect to the input of its first block. Each of several loss positions takes
    one backward pass.
    """
    inputs, targets = ids[:, :-1], ids[:, 1:]
    last = inputs.shape[1] - 1
    max_lag = last // 2 if max_lag is None else max_lag
    if not 0 <= max_lag <= last:
        raise UserError(f"max_lag = {max_lag}: sequences of {last + 1} tokens allow 0 to {last}")
    count = min(NUM_LOSS_POSITIONS, last - max_lag + 1)
    loss_positions = torch.linspace(max_lag, last, count).long().tolist()
    states, losses = _run_forward(model, inputs, targets)
    sums = torch.zeros(len(states), max_lag + 1, dtype=torch.float64)
    for t in loss_positions:
        inputs_of_loss = [s for steps in states.values() for s in steps[t - max_lag : t + 1]]
        gradients = torch.autograd.grad(losses[:, t].sum(), inputs_of_loss, retain_graph=True)
        norms = torch.stack([g.double().norm(dim=-1).mean().cpu() for g in gradients])
        sums += norms.view(len(states), max_lag + 1).flip(1)  # lag 0 first
    return [
        GradientNorms(name, with_respect_to, (row / len(loss_positions)).tolist())
        for with_respect_to, row in zip(states, sums, strict=True)
    ]


def _run_forward(
    model: LanguageModel, inputs: Tensor, targets: Tensor
) -> tuple[dict[str, Sequence[Tensor]], Float[Tensor, "sequences time"]]:
    """Return the states by description, as lists over time, and the loss at every position."""
    embedded: list[Tensor] = []

    def split_steps(x: Tensor) -> Tensor:
        """Make each token's vector a leaf, so that it gets its own gradient."""
        embedded.extend(t.detach().requires_grad_() for t in x.unbind(1))
        return torch.stack(embedded, 1)

    # cuDNN's recurrent layers have no backward pass in evaluation mode.
    with eval_mode(model), torch.enable_grad(), torch.backends.cudnn.flags(enabled=False):
        with Trace(model, only="*.0.hidden", replace={"embedded": split_steps}) as trace:
            logits, _ = model(inputs)
        losses = F.cross_entropy(logits.transpose(1, 2), targets, reduction="none")
    if not isinstance(model, RecurrentLM):
        return {"the input of block 1": embedded}, losses
    layers = range(len(find_recurrent_layers(model)))
    paths = {f"h of layer {k + 1}": f"recurrent.layers.{k}.0.hidden" for k in layers}
    return {description: trace.steps(path) for description, path in paths.items()}, losses


def compute_spectral_radii(model: LanguageModel, name: str = "") -> list[SpectralRadius]:
    """Return the spectral radius of W_hh in each recurrent layer, gate by gate.

    Multiplied k times by W_hh, h decays or grows like the k-th power of the radius; a tanh or a
    gate can only make it smaller.
    """
    if not isinstance(model, RecurrentLM):
        return []
    radii = []
    for k, layer in enumerate(find_recurrent_layers(model), start=1):
        gates, (_, w_hh, *_) = _GATES[layer.cell], layer.layer.all_weights[0]
        for gate, matrix in zip(gates, w_hh.chunk(len(gates)), strict=True):
            value = torch.linalg.eigvals(matrix.detach().double().cpu()).abs().max()
            radii.append(SpectralRadius(name, k, gate, float(value)))
    return radii
