"""Optimisers, the learning rate's course, and averaged weights."""

import math
from collections import deque
from collections.abc import Mapping

import torch
from torch import Tensor, nn

from workings.crew import parted, whole
from workings.layers.positions import LearnedPositions
from workings.models.ngrams import NgramClassifier
from workings.recipes import TrainConfig
from workings.train.muon import Muon


def optimiser(model: nn.Module, config: TrainConfig) -> torch.optim.Optimizer:
    """Make the optimiser; only matrices decay, not biases, norms or embeddings."""
    tables = nn.Embedding | nn.EmbeddingBag | LearnedPositions
    embeddings = {p for m in model.modules() if isinstance(m, tables) for p in m.parameters()}
    trained = [p for p in model.parameters() if p.requires_grad]
    matrices = [p for p in trained if p.dim() > 1 and p not in embeddings]
    others = [p for p in trained if p.dim() <= 1 or p in embeddings]
    groups = [
        {"params": matrices, "weight_decay": config.decay},
        {"params": others, "weight_decay": 0.0},
    ]
    first, second = config.betas
    if config.optimizer == "muon":
        # The scores of tokens and classes are rows that stand for themselves, like embeddings.
        head = getattr(model, "head", None)
        rows = {head.weight} if isinstance(head, nn.Linear) else set()
        rows |= {m.weights for m in model.modules() if isinstance(m, NgramClassifier)}
        turned = [p for p in matrices if p.dim() == 2 and p not in rows]
        groups = [
            {"params": turned, "weight_decay": config.decay, "orthogonal": True},
            {"params": [p for p in matrices if p.dim() > 2 or p in rows]},
            {"params": others, "weight_decay": 0.0},
        ]
        return Muon(
            groups, lr=config.rate, betas=(first, second), weight_decay=config.decay, fused=True
        )
    if config.optimizer == "sgd":
        return torch.optim.SGD(groups, lr=config.rate, momentum=config.momentum)
    kind = torch.optim.AdamW if config.optimizer == "adamw" else torch.optim.Adam
    # Fused is several times faster on a large embedding, on the CPU as well.
    return kind(groups, lr=config.rate, betas=(first, second), fused=True)


def rate_at(step: int, steps: int, config: TrainConfig) -> float:
    """The learning rate of one step out of `steps`, counted from 0.

    >>> config = TrainConfig(rate=1.0, schedule="linear", warmup=0.2)
    >>> [round(rate_at(step, 10, config), 2) for step in (0, 1, 2, 6)]
    [0.5, 1.0, 1.0, 0.5]
    """
    warm = math.ceil(config.warmup * steps)
    if step < warm:
        return config.rate * (step + 1) / warm
    done = min((step - warm) / max(steps - warm, 1), 1.0)
    if config.schedule == "linear":
        return config.rate * (config.floor + (1 - config.floor) * (1 - done))
    if config.schedule == "cosine":
        fallen = 0.5 * (1 + math.cos(math.pi * done))
        return config.rate * (config.floor + (1 - config.floor) * fallen)
    if config.schedule == "inverse-sqrt":
        return config.rate * math.sqrt(max(warm, 1) / (step + 1))
    return config.rate


class Average:
    """Averaged weights: an exponential mean over the steps, or the mean of the last epochs.

    What a batch norm has seen is averaged like them: it is what the weights of then made of it.
    """

    def __init__(self, model: nn.Module, config: TrainConfig) -> None:
        self.how, self.keep = config.average, config.ema
        kept = model.state_dict().keys()  # tables that are not kept may change their size
        buffers = model.named_buffers() if config.average != "none" else ()
        self._seen = [n for n, b in buffers if n in kept and b.is_floating_point()]
        self._names = [n for n, _ in model.named_parameters()] + self._seen
        self._mean = self._weights(model) if config.average == "ema" else None
        self._last: deque[dict[str, Tensor]] = deque(maxlen=config.last)

    @torch.no_grad()
    def after_step(self, model: nn.Module) -> None:
        """Take a step's weights in."""
        if self._mean is not None:
            ours = [self._mean[name] for name, _ in model.named_parameters()]
            torch._foreach_lerp_(ours, [p.detach() for p in model.parameters()], 1 - self.keep)
            for name in self._seen:  # never spread over a crew, as weights may be
                self._mean[name].lerp_(model.get_buffer(name), 1 - self.keep)

    def after_epoch(self, model: nn.Module) -> None:
        """Take an epoch's weights in."""
        if self.how == "last":
            self._last.append(self._weights(model))

    def weights(self) -> dict[str, Tensor] | None:
        """The averaged weights; None where nothing is averaged."""
        if self._mean is not None:
            return self._mean
        if not self._last:
            return None
        return {name: torch.stack([w[name] for w in self._last]).mean(0) for name in self._last[-1]}

    def state(self) -> dict[str, Tensor]:
        """Everything needed to go on, as flat tensors."""
        state = {f"mean.{name}": w for name, w in (self._mean or {}).items()}
        for k, weights in enumerate(self._last):
            state |= {f"last.{k}.{name}": w for name, w in weights.items()}
        return state

    def restore(self, state: dict[str, Tensor], model: nn.Module) -> None:
        """Go on from a state, each tensor where the model's weights are."""
        own = parameters_and_buffers(model)
        if self._mean is not None:
            self._mean = {n: parted(state[f"mean.{n}"], own[n]).clone() for n in self._names}
        self._last.clear()
        epochs = sorted({int(key.split(".")[1]) for key in state if key.startswith("last.")})
        for k in epochs:
            self._last.append({n: parted(state[f"last.{k}.{n}"], own[n]) for n in self._names})

    def _weights(self, model: nn.Module) -> dict[str, Tensor]:
        own = parameters_and_buffers(model)
        return {name: own[name].detach().clone() for name in self._names}


def parameters_and_buffers(model: nn.Module) -> dict[str, Tensor]:
    """All tensors of a model by name, by one name each."""
    return {**dict(model.named_parameters()), **dict(model.named_buffers())}


@torch.no_grad()
def put(model: nn.Module, weights: Mapping[str, Tensor]) -> None:
    """Give a model these tensors, by name."""
    named = parameters_and_buffers(model)
    for name, weight in weights.items():
        named[name].copy_(weight)


def averaged_in(state: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """The averaged weights that a state holds; none where nothing is averaged."""
    found: dict[str, list[Tensor]] = {}
    for key in sorted(state, key=lambda key: (len(key), key)):  # last.9 before last.10
        name = key.removeprefix("mean.") if key.startswith("mean.") else key.split(".", 2)[-1]
        found.setdefault(name, []).append(state[key])
    return {name: torch.stack(weights).mean(0) for name, weights in found.items()}


def clip(model: nn.Module, longest: float) -> float:
    """Shorten the gradients if, taken as one vector, they are too long; tell how long they were.

    Most steps' are not, and multiplying a large embedding's by 1 takes as long as adding them up.
    """
    weights = [p for p in model.parameters() if p.grad is not None]
    norm = nn.utils.get_total_norm([p.grad for p in weights if p.grad is not None])
    length = float(whole(norm))
    if longest < length + 1e-6 < math.inf:  # torch's own guard against a division by zero
        nn.utils.clip_grads_with_norm_(weights, longest, norm)
    return length
