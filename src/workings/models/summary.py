"""The layer table of a model: output shapes, parameters, mult-adds and memory."""

import inspect
import math
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import Tensor, nn

from workings.layers.attention import MultiHeadAttention
from workings.models.captioning import Captioner, ImageBatch
from workings.models.translation import SentenceBatch, Translator
from workings.modules import device_of, eval_mode

FLOAT_BYTES = 4
MEBIBYTE = 2**20


@dataclass(frozen=True)
class LayerSummary:
    """A row of the table: one layer. A shape starts with −1 for the batch."""

    name: str
    kind: str
    shape: tuple[int, ...]
    parameters: int
    mult_adds: int


@dataclass(frozen=True)
class ModelSummary:
    """The rows and their sums; memory in mebibytes, for a batch of one except the input's."""

    rows: list[LayerSummary]
    parameters: int
    trainable_parameters: int
    mult_adds: int
    input_mb: float
    activations_mb: float
    parameters_mb: float

    @property
    def total_mb(self) -> float:
        """Return the memory of input, activations and parameters together."""
        return self.input_mb + self.activations_mb + self.parameters_mb


def summarize(
    model: nn.Module, length: int, batch_size: int = 64, pixels: int = 64
) -> ModelSummary:
    """Run a model on one text of `length` tokens and return the table of its layers.

    A captioner also gets an image of height and width `pixels`. Parameters that several layers
    share count once, in the first of them. A mult-add is counted for each weight each time that it
    is used; an embedding counts as a product, as in the tool that the lecture notes use. The memory
    of the input is that of `batch_size` texts.
    """
    inputs, input_size = _make_inputs(model, length, pixels)
    with _LayerRecorder(model).recording() as recorder, eval_mode(model), torch.no_grad():
        model(*inputs)
    rows = recorder.list_rows()
    parameters = sum(p.numel() for p in model.parameters())
    activations = sum(math.prod(row.shape[1:]) for row in rows if row.shape)
    return ModelSummary(
        rows,
        parameters,
        sum(p.numel() for p in model.parameters() if p.requires_grad),
        sum(row.mult_adds for row in rows),
        input_size * batch_size * FLOAT_BYTES / MEBIBYTE,
        2 * activations * FLOAT_BYTES / MEBIBYTE,  # forward, and their gradients
        parameters * FLOAT_BYTES / MEBIBYTE,
    )


def _make_inputs(model: nn.Module, length: int, pixels: int) -> tuple[tuple[Any, ...], int]:
    """Return arguments for the model's forward pass, and the number of inputs of one example."""
    device = device_of(model)
    ids = torch.zeros(1, length, dtype=torch.long, device=device)
    lengths = torch.tensor([length], device=device)
    if isinstance(model, Translator):  # with a translation as long as the source
        return (SentenceBatch(ids, lengths), ids), length
    if isinstance(model, Captioner):
        image = torch.zeros(1, pixels, pixels, 3, dtype=torch.uint8, device=device)
        return (ImageBatch(image, torch.zeros_like(lengths)), ids), 3 * pixels * pixels
    if "lengths" in inspect.signature(model.forward).parameters:
        return (ids, lengths), length
    return (ids,), length


class _LayerRecorder:
    """Forward hooks that record a row for every module with parameters of its own."""

    def __init__(self, model: nn.Module) -> None:
        self.names = {module: name for name, module in model.named_modules()}
        self.rows: dict[str, LayerSummary] = {}
        self.counted: set[nn.Parameter] = set()  # parameters that a row has counted

    @contextmanager
    def recording(self) -> Iterator["_LayerRecorder"]:
        handles = []
        for module in self.names:
            if isinstance(module, MultiHeadAttention):
                handles.append(
                    module.register_forward_pre_hook(self._record_attention, with_kwargs=True)
                )
            if list(module.parameters(recurse=False)):
                handles.append(module.register_forward_hook(self._record_call))
        try:
            yield self
        finally:
            for handle in handles:
                handle.remove()

    def list_rows(self) -> list[LayerSummary]:
        """Return the rows in the order of the first calls; layers never called come last."""
        for module, name in self.names.items():
            own = list(module.parameters(recurse=False))
            if own and name not in self.rows and not self.counted.issuperset(own):
                self._add(name, type(module).__name__, (), 0, self._count(module))
        return list(self.rows.values())

    def _record_call(self, module: nn.Module, _inputs: object, output: Any) -> None:
        out: Tensor = output if isinstance(output, Tensor) else output[0]
        weights = sum(p.numel() for p in module.parameters(recurse=False) if p.dim() > 1)
        uses = 1
        if isinstance(module, nn.Conv1d | nn.Conv2d):
            uses = math.prod(out.shape[2:])  # windows
        elif isinstance(module, nn.RNNBase) or (isinstance(module, nn.Linear) and out.dim() > 2):
            uses = out.shape[1]  # positions
        own = sum(p.numel() for p in module.parameters(recurse=False))
        parameters, kind = self._count(module), type(module).__name__
        if parameters < own:
            kind += ", tied"
        shape = (-1, *out.shape[1:])
        self._add(self.names[module], kind, shape, weights * uses, parameters)

    def _record_attention(
        self, module: MultiHeadAttention, inputs: tuple[Tensor, ...], options: dict[str, Any]
    ) -> None:
        """Record the projections of cross-attention, which uses parts of `qkv` as functions."""
        context = inputs[1] if len(inputs) > 1 else options.get("context")
        if context is None:
            return
        name, qkv = self.names[module], module.qkv
        kv_width = qkv.out_features - module.d_model
        parameters = self._count(qkv)
        for part, positions, width in (
            ("query", inputs[0].shape[1], module.d_model),
            ("key_value", context.shape[1], kv_width),
        ):
            self._add(
                f"{name}.{part}",
                type(qkv).__name__,
                (-1, positions, width),
                positions * width * module.d_model,
                parameters * width // qkv.out_features,
            )

    def _count(self, module: nn.Module) -> int:
        """Return the number of a module's own parameters that no row has counted yet."""
        new = [p for p in module.parameters(recurse=False) if p not in self.counted]
        self.counted.update(new)
        return sum(p.numel() for p in new)

    def _add(
        self, name: str, kind: str, shape: tuple[int, ...], mult_adds: int, parameters: int
    ) -> None:
        """Add a row; if there is one of this name, add the mult-adds of another call to it."""
        if name in self.rows:
            row = self.rows[name]
            self.rows[name] = replace(row, shape=shape, mult_adds=row.mult_adds + mult_adds)
        else:
            self.rows[name] = LayerSummary(name, kind, shape, parameters, mult_adds)
