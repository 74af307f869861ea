"""Graphs as ONNX files.

torch.export records a graph (`interop.graph_base`) and torch.onnx translates it, operator by
operator. The file has the names of the graph's inputs, outputs and sizes, and nothing of the source
code.
"""

import logging
import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import torch

from workings.errors import UserError
from workings.interop.graph_base import Graph, TensorSpec, export_graph
from workings.io import write_bytes
from workings.layers.recurrence_op import recurrence

OPSET = 18
"""Version of ONNX's operators, which ONNX Runtime has since 1.14."""
MAX_FILE_BYTES = 2**31 - 2**20  # a larger one does not fit into a single file
_INT32 = 6  # ONNX's number of the type
# Gates in ONNX's order, by their index in torch's: input, output, forget, cell of an LSTM; update,
# reset, candidate of a GRU.
_GATE_ORDER = {"rnn": (0,), "gru": (1, 0, 2), "lstm": (0, 3, 1, 2)}


def write_graph(graph: Graph, path: Path) -> None:
    """Write a graph as an ONNX file, for every batch size and length."""
    size = sum(p.numel() * p.element_size() for p in graph.parameters())
    if size > MAX_FILE_BYTES:
        raise UserError(f"{size / 2**30:.1f} GB of weights: an ONNX file has at most 2 GB")
    import onnx
    import onnxscript  # noqa: F401 - torch.onnx would name it in an error of several lines

    with _quiet():
        program = torch.onnx.export(
            export_graph(graph),
            dynamo=True,
            input_names=[spec.name for spec in graph.inputs],
            output_names=[spec.name for spec in graph.outputs],
            opset_version=OPSET,
            custom_translation_table={recurrence._opoverload: _translate_recurrence},
            verbose=False,
        )
    assert program is not None
    model = program.model_proto
    _clean(model)
    for values, specs in ((model.graph.input, graph.inputs), (model.graph.output, graph.outputs)):
        _name_sizes(values, specs)
    onnx.checker.check_model(model, full_check=True)
    write_bytes(path, model.SerializeToString())


@contextmanager
def _quiet() -> Iterator[None]:
    """Silence torch's exporter, whose warnings and log are for its own developers."""
    logging.disable(logging.WARNING)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            yield
    finally:
        logging.disable(logging.NOTSET)


def _clean(model: Any) -> None:
    """Remove what torch records for debugging: source lines, paths, inner shapes."""
    del model.metadata_props[:], model.graph.metadata_props[:], model.graph.value_info[:]
    model.graph.doc_string = ""
    values = (*model.graph.input, *model.graph.output)
    for item in (*model.graph.node, *model.graph.initializer, *values):
        del item.metadata_props[:]
        item.doc_string = ""


def _name_sizes(values: Any, specs: Sequence[TensorSpec]) -> None:
    """Give the sizes of inputs or outputs the names that they have in the graph."""
    for value, spec in zip(values, specs, strict=True):
        assert value.name == spec.name
        for dim, size in zip(value.type.tensor_type.shape.dim, spec.shape, strict=True):
            if isinstance(size, str):
                dim.dim_param = size


def _translate_recurrence(
    cell: Any, x: Any, lengths: Any, state: Sequence[Any], weights: Sequence[Any]
) -> list[Any]:
    """Write a recurrent layer as ONNX's operator of the same name; its time comes first."""
    import onnxscript

    op: Any = onnxscript.opset18

    def expand(t: Any) -> Any:
        return op.Unsqueeze(t, [0])  # one direction, or one layer

    hidden_size = state[0].shape[-1]
    rows = [gate * hidden_size + k for gate in _GATE_ORDER[cell] for k in range(hidden_size)]
    w_x, w_h, b_x, b_h = (op.Gather(weight, rows, axis=0) for weight in weights)
    inputs = [
        op.Transpose(x, perm=[1, 0, 2]),
        expand(w_x),
        expand(w_h),
        expand(op.Concat(b_x, b_h, axis=0)),
        None if lengths is None else op.Cast(lengths, to=_INT32),
        *map(expand, state),
    ]
    if cell == "lstm":
        states, *final = op.LSTM(*inputs, hidden_size=hidden_size)
    elif cell == "gru":
        states, *final = op.GRU(*inputs, hidden_size=hidden_size, linear_before_reset=1)
    else:
        states, *final = op.RNN(*inputs, hidden_size=hidden_size)
    by_batch = op.Transpose(op.Squeeze(states, [1]), perm=[1, 0, 2])
    return [by_batch, *(op.Squeeze(t, [0]) for t in final)]
