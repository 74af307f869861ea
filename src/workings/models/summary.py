"""The layer table of a model: output shapes, parameters, mult-adds and memory."""

import inspect
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from workings.models.captioning import ImageBatch, RecurrentCaptioner, TransformerCaptioner
from workings.models.translation import SentenceBatch, Translator

FLOAT_BYTES = 4  # bytes
MEBIBYTE = 2**20


@dataclass(frozen=True)
class LayerSummary:
    """A layer as the table shows it; the batch is written −1."""

    name: str
    kind: str
    shape: tuple[int, ...]
    parameters: int
    mult_adds: int


@dataclass(frozen=True)
class ModelSummary:
    """The rows and their sums; memory in mebibytes, for a batch of one except the input."""

    rows: list[LayerSummary]
    parameters: int
    trainable_parameters: int
    mult_adds: int
    input_mb: float
    activations_mb: float
    parameters_mb: float

    @property
    def total_mb(self) -> float:
        """Everything together."""
        return self.input_mb + self.activations_mb + self.parameters_mb


def summarize(
    model: nn.Module, length: int, batch_size: int = 64, pixels: int = 64
) -> ModelSummary:
    """Send one text of `length` tokens through and note what every leaf layer does.

    A captioner gets a picture with it, so many `pixels` wide and high.

    A mult-add is counted for each weight each time it is used; an embedding's as if it were a
    product, as the notes' tool does. The input is that of a `batch` of texts, as theirs is.
    """
    noted: dict[str, LayerSummary] = {}
    handles = [
        module.register_forward_hook(_make_hook(noted, name))
        for name, module in model.named_modules()
        if not list(module.children()) and list(module.parameters(recurse=False))
    ]
    was_training, inputs = model.training, length
    try:
        with torch.no_grad():
            device = next(model.parameters()).device
            ids = torch.zeros(1, length, dtype=torch.long, device=device)
            lengths = torch.tensor([length], device=device)
            given: tuple[Any, ...] = (ids, lengths) if _takes_lengths(model) else (ids,)
            if isinstance(model, Translator):  # the translation is as long as the source
                given = (SentenceBatch(ids, lengths), ids)
            elif isinstance(model, RecurrentCaptioner | TransformerCaptioner):
                picture = torch.zeros(1, pixels, pixels, 3, dtype=torch.uint8, device=device)
                given = (ImageBatch(picture, torch.zeros_like(lengths)), ids)
                inputs = 3 * pixels * pixels
            model.eval()(*given)
    finally:
        model.train(was_training)
        for handle in handles:
            handle.remove()
    parameters = sum(p.numel() for p in model.parameters())
    rows = list(noted.values())
    numbers = sum(_num_elements(row.shape) for row in rows)
    return ModelSummary(
        rows,
        parameters,
        sum(p.numel() for p in model.parameters() if p.requires_grad),
        sum(row.mult_adds for row in rows),
        inputs * batch_size * FLOAT_BYTES / MEBIBYTE,
        2 * numbers * FLOAT_BYTES / MEBIBYTE,  # once forward, once for the gradients
        parameters * FLOAT_BYTES / MEBIBYTE,
    )


def _takes_lengths(model: nn.Module) -> bool:
    """Tell whether a model reads padded texts, and wants to know how long they are."""
    return "lengths" in inspect.signature(model.forward).parameters


def _make_hook(rows: dict[str, LayerSummary], name: str) -> Callable[..., None]:
    """Note what a layer does; if it is called again and again, all that it does, in one row."""

    def note(module: nn.Module, _inputs: object, output: Tensor | tuple[Tensor, ...]) -> None:
        out = output if isinstance(output, Tensor) else output[0]
        own = list(module.parameters(recurse=False))
        weights = sum(p.numel() for p in own if p.dim() > 1)
        uses = 1
        if isinstance(module, nn.Conv1d):
            uses = out.shape[-1]  # each window
        elif isinstance(module, nn.Conv2d):
            uses = out.shape[-1] * out.shape[-2]
        elif isinstance(module, nn.RNNBase) or (isinstance(module, nn.Linear) and out.dim() > 2):
            uses = out.shape[1]  # each position
        parameters = sum(p.numel() for p in own)
        shape = (-1, *out.shape[1:])
        before = rows[name].mult_adds if name in rows else 0
        rows[name] = LayerSummary(
            name, type(module).__name__, shape, parameters, before + weights * uses
        )

    return note


def _num_elements(shape: tuple[int, ...]) -> int:
    size = 1
    for n in shape[1:]:
        size *= n
    return size
