"""The gates and states of a recurrent layer at each token of a text."""

import numpy as np

from workings.errors import UserError
from workings.interpret.attention import to_numpy
from workings.interpret.model_pass import plan_pass
from workings.interpret.results import GateActivations, GateSignal
from workings.layers.recurrent import RecurrentLayer
from workings.tasks.base import Task

DEFAULT_UNITS = 12
# Tap, display name and whether the values may be negative, in the order of the computation.
_SIGNALS = {
    "lstm": (
        ("input", "i, input gate", False),
        ("forget", "f, forget gate", False),
        ("output", "o, output gate", False),
        ("candidate", "g, candidate", True),
        ("cell", "c, cell state", True),
        ("hidden", "h, hidden state", True),
    ),
    "gru": (
        ("reset", "r, reset gate", False),
        ("update", "z, update gate", False),
        ("candidate", "n, candidate", True),
        ("hidden", "h, hidden state", True),
    ),
    "rnn": (("hidden", "h, hidden state", True),),
}


def read_gates(
    task: Task, text: str, layer: int = 1, num_units: int = DEFAULT_UNITS
) -> GateActivations:
    """Run a model on a text and return the gates and states of a recurrent layer, from 1.

    Of a wide layer, the units whose state varies most over the text are kept, in their order.
    """
    if num_units < 1:
        raise UserError(f"{num_units} units: expected at least 1")
    model_pass = plan_pass(task, text)
    layers = {
        path: module
        for path, module in model_pass.model.named_modules()
        if isinstance(module, RecurrentLayer) and not module.reverse
    }
    if not 1 <= layer <= len(layers):
        raise UserError(f"recurrent layer {layer}: the model has {len(layers)}")
    path, module = list(layers.items())[layer - 1]
    trace = model_pass.record(path, taps=True).trace
    values = {
        name: np.concatenate([to_numpy(step)[:1] for step in trace.steps(f"{path}.{name}")])
        for name, _, _ in _SIGNALS[module.cell]
    }
    hidden = values["hidden"]
    tokens = model_pass.name_positions(len(hidden))
    if tokens is None:
        tokens = [str(k + 1) for k in range(len(hidden))]
    state = values.get("cell", hidden)
    units = sorted(np.argsort(-state.std(axis=0), kind="stable")[:num_units].tolist())
    signals = [
        GateSignal(name, is_signed, values[tap][:, units].T.tolist())
        for tap, name, is_signed in _SIGNALS[module.cell]
    ]
    kind = module.cell.upper()
    return GateActivations(f"{kind}, layer {layer}", hidden.shape[1], tokens, units, signals)
