"""Muon: matrices move along the orthogonal matrix nearest to their momentum; the rest by AdamW.

Jordan et al. (2024); the length of a step is matched to AdamW's, so that one learning rate serves
both (Liu et al., 2025). torch's own Muon computes in bfloat16, which a CPU that lacks it emulates
at a fraction of its speed; here it is float32, and matrices of one shape go together.
"""

import math
from collections import deque
from collections.abc import Iterable, Mapping
from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor, nn

from workings.distributed import full_tensor, shard_like
from workings.layers.positions import LearnedPositions
from workings.models.classifiers import NgramClassifier
from workings.recipes import TrainConfig

# Of the polynomial that drives all singular values of a matrix towards one.
NEWTON_SCHULZ_COEFFICIENTS = (3.4445, -4.7750, 2.0315)
NEWTON_SCHULZ_STEPS = 5
MIN_GRAM_ASPECT_RATIO = (
    2  # times as long as high: there the products of its rows are cheaper to go by
)
ADAMW_UPDATE_RMS = 0.2  # the root mean square of an AdamW update, as found in practice


def orthogonalize(
    matrices: Float[Tensor, "count rows columns"],
) -> Float[Tensor, "count rows columns"]:
    """Bring the singular values of each matrix near to one (within about 0.7 and 1.2)."""
    tall = matrices.shape[1] > matrices.shape[2]
    x = matrices.mT if tall else matrices
    x = x / torch.linalg.matrix_norm(x, keepdim=True).clamp_min(1e-7)
    x = (
        _newton_schulz_gram(x)
        if x.shape[2] >= MIN_GRAM_ASPECT_RATIO * x.shape[1]
        else _newton_schulz(x)
    )
    return x.mT if tall else x


def _newton_schulz(x: Float[Tensor, "count rows columns"]) -> Float[Tensor, "count rows columns"]:
    """Multiply by the polynomial of what was made so far, again and again."""
    a, b, c = NEWTON_SCHULZ_COEFFICIENTS
    for _ in range(NEWTON_SCHULZ_STEPS):
        gram = x @ x.mT
        x = torch.baddbmm(x, torch.baddbmm(gram, gram, gram, beta=b, alpha=c), x, beta=a)
    return x


def _newton_schulz_gram(
    x: Float[Tensor, "count rows columns"],
) -> Float[Tensor, "count rows columns"]:
    """The same but for rounding: all rounds with small squares, which commute, then one product.

    It takes 0.55 of the time for matrices four times as long as high. It wants all of 32 bits.
    """
    a, b, c = NEWTON_SCHULZ_COEFFICIENTS
    gram = x @ x.mT
    factor: Tensor
    for k in range(NEWTON_SCHULZ_STEPS):
        turn = torch.baddbmm(gram, gram, gram, beta=b, alpha=c)
        turn.diagonal(dim1=1, dim2=2).add_(a)
        factor = turn @ factor if k else turn
        if k < NEWTON_SCHULZ_STEPS - 1:
            gram = turn @ gram @ turn
    return factor @ x


class Muon(torch.optim.AdamW):
    """AdamW, except for the groups that are marked `orthogonal`."""

    def step(self, closure: Any = None) -> Any:
        """Make a step: first the matrices, then, as if these had no gradient, all others."""
        matrices = []
        for group in self.param_groups:
            if group.get("orthogonal"):
                some = [p for p in group["params"] if p.grad is not None]
                self._orthogonal_step(some, group["lr"], group["weight_decay"], group["betas"][0])
                matrices += [(p, p.grad) for p in some]
        for p, _ in matrices:
            p.grad = None
        try:
            return super().step(closure)
        finally:
            for p, gradient in matrices:
                p.grad = gradient

    @torch.no_grad()
    def _orthogonal_step(
        self, weights: list[Tensor], learning_rate: float, weight_decay: float, momentum: float
    ) -> None:
        for alike in _group_by_shape(weights):
            moved = torch.stack([full_tensor(self._nesterov_update(p, momentum)) for p in alike])
            length = ADAMW_UPDATE_RMS * math.sqrt(max(moved.shape[1:]))
            for p, update in zip(alike, orthogonalize(moved), strict=True):
                p.mul_(1 - learning_rate * weight_decay).sub_(
                    shard_like(update, p), alpha=learning_rate * length
                )

    def _nesterov_update(self, weight: Tensor, momentum: float) -> Tensor:
        """Take the gradient into the momentum, and look one step ahead of it (Nesterov)."""
        gradient = weight.grad
        assert gradient is not None
        state = self.state[weight]
        if not state:
            state["step"] = torch.tensor(0.0)  # AdamW expects one of whatever has a state
            state["momentum"] = torch.zeros_like(gradient)
        state["step"] += 1
        state["momentum"].lerp_(gradient, 1 - momentum)
        return gradient.lerp(state["momentum"], momentum)


def _group_by_shape(weights: Iterable[Tensor]) -> list[list[Tensor]]:
    found: dict[torch.Size, list[Tensor]] = {}
    for weight in weights:
        found.setdefault(weight.shape, []).append(weight)
    return list(found.values())


def build_optimizer(model: nn.Module, config: TrainConfig) -> torch.optim.Optimizer:
    """Make the optimiser; only matrices decay, not biases, norms or embeddings."""
    tables = nn.Embedding | nn.EmbeddingBag | LearnedPositions
    embeddings = {p for m in model.modules() if isinstance(m, tables) for p in m.parameters()}
    trained = [p for p in model.parameters() if p.requires_grad]
    matrices = [p for p in trained if p.dim() > 1 and p not in embeddings]
    others = [p for p in trained if p.dim() <= 1 or p in embeddings]
    groups = [
        {"params": matrices, "weight_decay": config.weight_decay},
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
            {"params": turned, "weight_decay": config.weight_decay, "orthogonal": True},
            {"params": [p for p in matrices if p.dim() > 2 or p in rows]},
            {"params": others, "weight_decay": 0.0},
        ]
        return Muon(
            groups,
            lr=config.learning_rate,
            betas=(first, second),
            weight_decay=config.weight_decay,
            fused=True,
        )
    if config.optimizer == "sgd":
        return torch.optim.SGD(groups, lr=config.learning_rate, momentum=config.momentum)
    kind = torch.optim.AdamW if config.optimizer == "adamw" else torch.optim.Adam
    # Fused is several times faster on a large embedding, on the CPU as well.
    return kind(groups, lr=config.learning_rate, betas=(first, second), fused=True)


def learning_rate_at(step: int, total_steps: int, config: TrainConfig) -> float:
    """The learning rate of one step out of `steps`, counted from 0.

    >>> config = TrainConfig(learning_rate=1.0, schedule="linear", warmup=0.2)
    >>> [round(learning_rate_at(step, 10, config), 2) for step in (0, 1, 2, 6)]
    [0.5, 1.0, 1.0, 0.5]
    """
    warm = math.ceil(config.warmup * total_steps)
    if step < warm:
        return config.learning_rate * (step + 1) / warm
    done = min((step - warm) / max(total_steps - warm, 1), 1.0)
    if config.schedule == "linear":
        return config.learning_rate * (config.min_lr_ratio + (1 - config.min_lr_ratio) * (1 - done))
    if config.schedule == "cosine":
        fallen = 0.5 * (1 + math.cos(math.pi * done))
        return config.learning_rate * (config.min_lr_ratio + (1 - config.min_lr_ratio) * fallen)
    if config.schedule == "inverse-sqrt":
        return config.learning_rate * math.sqrt(max(warm, 1) / (step + 1))
    return config.learning_rate


class WeightAverage:
    """Averaged weights: an exponential mean over the steps, or the mean of the last epochs.

    What a batch norm has seen is averaged like them: it is what the weights of then made of it.
    """

    def __init__(self, model: nn.Module, config: TrainConfig) -> None:
        self.method, self.decay = config.average, config.ema_decay
        kept = model.state_dict().keys()  # tables that are not kept may change their size
        buffers = model.named_buffers() if config.average != "none" else ()
        self._buffer_names = [n for n, b in buffers if n in kept and b.is_floating_point()]
        self._names = [n for n, _ in model.named_parameters()] + self._buffer_names
        self._ema = self._copy_weights(model) if config.average == "ema" else None
        self._recent_epochs: deque[dict[str, Tensor]] = deque(maxlen=config.average_last)

    @torch.no_grad()
    def after_step(self, model: nn.Module) -> None:
        """Take a step's weights in."""
        if self._ema is not None:
            ours = [self._ema[name] for name, _ in model.named_parameters()]
            torch._foreach_lerp_(ours, [p.detach() for p in model.parameters()], 1 - self.decay)
            for name in self._buffer_names:  # never spread over a crew, as weights may be
                self._ema[name].lerp_(model.get_buffer(name), 1 - self.decay)

    def after_epoch(self, model: nn.Module) -> None:
        """Take an epoch's weights in."""
        if self.method == "last":
            self._recent_epochs.append(self._copy_weights(model))

    def weights(self) -> dict[str, Tensor] | None:
        """The averaged weights; None where nothing is averaged."""
        if self._ema is not None:
            return self._ema
        if not self._recent_epochs:
            return None
        return {
            name: torch.stack([w[name] for w in self._recent_epochs]).mean(0)
            for name in self._recent_epochs[-1]
        }

    def state_dict(self) -> dict[str, Tensor]:
        """Everything needed to go on, as flat tensors."""
        state = {f"ema.{name}": w for name, w in (self._ema or {}).items()}
        for k, weights in enumerate(self._recent_epochs):
            state |= {f"last.{k}.{name}": w for name, w in weights.items()}
        return state

    def load_state_dict(self, state: dict[str, Tensor], model: nn.Module) -> None:
        """Go on from a state, each tensor where the model's weights are."""
        own = parameters_and_buffers(model)
        if self._ema is not None:
            self._ema = {n: shard_like(state[f"ema.{n}"], own[n]).clone() for n in self._names}
        self._recent_epochs.clear()
        epochs = sorted({int(key.split(".")[1]) for key in state if key.startswith("last.")})
        for k in epochs:
            self._recent_epochs.append(
                {n: shard_like(state[f"last.{k}.{n}"], own[n]) for n in self._names}
            )

    def _copy_weights(self, model: nn.Module) -> dict[str, Tensor]:
        own = parameters_and_buffers(model)
        return {name: own[name].detach().clone() for name in self._names}


def parameters_and_buffers(model: nn.Module) -> dict[str, Tensor]:
    """All tensors of a model by name, by one name each."""
    return {**dict(model.named_parameters()), **dict(model.named_buffers())}


@torch.no_grad()
def copy_weights_into(model: nn.Module, weights: Mapping[str, Tensor]) -> None:
    """Give a model these tensors, by name."""
    named = parameters_and_buffers(model)
    for name, weight in weights.items():
        named[name].copy_(weight)


def average_from_state(state: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """The averaged weights that a state holds; none where nothing is averaged."""
    found: dict[str, list[Tensor]] = {}
    for key in sorted(state, key=lambda key: (len(key), key)):  # last.9 before last.10
        name = key.removeprefix("ema.") if key.startswith("ema.") else key.split(".", 2)[-1]
        found.setdefault(name, []).append(state[key])
    return {name: torch.stack(weights).mean(0) for name, weights in found.items()}


def clip_gradients(model: nn.Module, max_norm: float) -> float:
    """Shorten the gradients if, taken as one vector, they are too long; tell how long they were.

    Most steps' are not, and multiplying a large embedding's by 1 takes as long as adding them up.
    """
    weights = [p for p in model.parameters() if p.grad is not None]
    norm = nn.utils.get_total_norm([p.grad for p in weights if p.grad is not None])
    length = float(full_tensor(norm))
    if max_norm < length + 1e-6 < math.inf:  # torch's own guard against a division by zero
        nn.utils.clip_grads_with_norm_(weights, max_norm, norm)
    return length
