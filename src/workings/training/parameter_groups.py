"""Which weights are trained, and at which rate: freezing and layer-wise learning rates."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from torch import nn

from workings.errors import UserError, did_you_mean
from workings.layers.positions import LearnedPositions
from workings.models.vision import VisionEncoder

EMBEDDINGS = nn.Embedding | nn.EmbeddingBag | LearnedPositions
"""Modules whose weights are tables: no weight decay, and the lowest layer."""


# -- freezing --------------------------------------------------------------------------------------


def find_frozen(model: nn.Module, names: Iterable[str]) -> set[nn.Parameter]:
    """Return the weights of the named modules; raise UserError for an unknown name.

    >>> model = nn.Sequential(nn.Linear(2, 2), nn.Linear(2, 2))
    >>> len(find_frozen(model, ["0"]))
    2
    >>> find_frozen(model, ["0", "1"])
    Traceback (most recent call last):
    workings.errors.UserError: train.freeze = ['0', '1']: there is no weight left to train
    """
    names = list(names)
    weights = dict(model.named_parameters(remove_duplicate=False))
    known = {name for name, module in model.named_modules() if name and list(module.parameters())}
    frozen: set[nn.Parameter] = set()
    for name in names:
        if name not in known and name not in weights:
            choices = sorted(known, key=lambda path: (path.count("."), path))
            raise UserError(f"train.freeze: {name!r}: {did_you_mean(name, choices)}")
        frozen |= {w for key, w in weights.items() if key == name or key.startswith(f"{name}.")}
    if names and frozen >= set(weights.values()):
        raise UserError(f"train.freeze = {names}: there is no weight left to train")
    return frozen


def freeze(model: nn.Module, names: Iterable[str]) -> None:
    """Exclude the weights of the named modules from the training."""
    for weight in find_frozen(model, names):
        weight.requires_grad_(False)


def set_train_mode(model: nn.Module) -> None:
    """Switch to training mode; the running statistics of a frozen batch norm stay as they are."""
    model.train()
    for module in model.modules():
        weights = list(module.parameters(recurse=False))
        has_statistics = any(True for _ in module.buffers(recurse=False))
        if weights and has_statistics and not any(w.requires_grad for w in weights):
            module.eval()


# -- layer-wise learning rates ---------------------------------------------------------------------


def list_layers(model: nn.Module) -> list[nn.Module]:
    """Return the stacked layers of a model from bottom to top: an encoder's before a decoder's."""
    stacks = [
        (name, module)
        for name, module in model.named_modules()
        if isinstance(module, nn.ModuleList)
    ]
    outermost = [
        (name, stack)
        for name, stack in stacks
        if not any(name.startswith(f"{other}.") for other, _ in stacks)
    ]
    outermost.sort(key=lambda item: "decoder" in item[0].split("."))
    return [layer for _, stack in outermost for layer in stack]


def rate_factors(model: nn.Module, layer_decay: float) -> dict[nn.Parameter, float]:
    """Return the factor of the learning rate of each weight.

    It is 1 for the head and whatever else is outside of the stacked layers, `layer_decay` for the
    highest layer, its square for the one below, and so on down to embeddings and images.

    >>> model = nn.Module()
    >>> model.embedding, model.head = nn.Embedding(2, 3), nn.Linear(3, 1)
    >>> model.blocks = nn.ModuleList([nn.Linear(3, 3, bias=False), nn.Linear(3, 3, bias=False)])
    >>> list(rate_factors(model, 0.5).values())
    [0.125, 1.0, 1.0, 0.25, 0.5]
    """
    layers = list_layers(model)
    depths = dict.fromkeys(model.parameters(), 0)
    for depth, layer in enumerate(reversed(layers), start=1):
        depths |= dict.fromkeys(layer.parameters(), depth)
    for module in model.modules():
        if isinstance(module, EMBEDDINGS | VisionEncoder):
            depths |= dict.fromkeys(module.parameters(), len(layers) + 1)
    return {weight: layer_decay**depth for weight, depth in depths.items()}


def split_by_rate(
    groups: Sequence[Mapping[str, Any]], factors: Mapping[nn.Parameter, float]
) -> list[dict[str, Any]]:
    """Split an optimizer's parameter groups by the factor of their rate, `lr_factor`."""
    split = []
    for group in groups:
        for factor in sorted({factors[weight] for weight in group["params"]}):
            weights = [weight for weight in group["params"] if factors[weight] == factor]
            split.append({**group, "params": weights, "lr_factor": factor})
    return split
