"""Optimizers, learning rate schedules, gradient clipping and weight averaging.

Muon (Jordan et al., 2024) updates matrices by the orthogonal matrix nearest to their momentum, and
all other weights by AdamW. Its update is scaled to the RMS of AdamW's, so that one learning rate
fits both (Liu et al., 2025). torch's Muon computes in bfloat16, which is slow on CPUs that emulate
it; here it is float32, and matrices of one shape are batched.
"""

import math
from collections import deque
from collections.abc import Iterable, Mapping
from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor, nn

from workings.distributed import full_tensor, shard_like
from workings.models.classifiers import NgramClassifier
from workings.models.tfidf import TfidfClassifier
from workings.recipes import TrainConfig
from workings.training.parameter_groups import EMBEDDINGS, rate_factors, split_by_rate

# The polynomial that moves all singular values of a matrix towards one.
NEWTON_SCHULZ_COEFFICIENTS = (3.4445, -4.7750, 2.0315)
NEWTON_SCHULZ_STEPS = 5
MIN_GRAM_ASPECT_RATIO = 2  # from this ratio of length to height on, Gram matrices are faster
ADAMW_UPDATE_RMS = 0.2  # the typical root mean square of an AdamW update


# -- Muon ------------------------------------------------------------------------------------------


def orthogonalize(
    matrices: Float[Tensor, "count rows columns"],
) -> Float[Tensor, "count rows columns"]:
    """Move the singular values of each matrix close to one (between about 0.7 and 1.2)."""
    is_tall = matrices.shape[1] > matrices.shape[2]
    x = matrices.mT if is_tall else matrices
    x = x / torch.linalg.matrix_norm(x, keepdim=True).clamp_min(1e-7)
    if x.shape[2] >= MIN_GRAM_ASPECT_RATIO * x.shape[1]:
        x = _newton_schulz_gram(x)
    else:
        x = _newton_schulz(x)
    return x.mT if is_tall else x


def _newton_schulz(x: Float[Tensor, "count rows columns"]) -> Float[Tensor, "count rows columns"]:
    a, b, c = NEWTON_SCHULZ_COEFFICIENTS
    for _ in range(NEWTON_SCHULZ_STEPS):
        gram = x @ x.mT
        x = torch.baddbmm(x, torch.baddbmm(gram, gram, gram, beta=b, alpha=c), x, beta=a)
    return x


def _newton_schulz_gram(
    x: Float[Tensor, "count rows columns"],
) -> Float[Tensor, "count rows columns"]:
    """Compute the same on the small Gram matrices, which commute, with one product at the end.

    For matrices four times as long as high it takes 0.55 of the time. It needs float32.
    """
    a, b, c = NEWTON_SCHULZ_COEFFICIENTS
    gram = x @ x.mT
    product: Tensor
    for k in range(NEWTON_SCHULZ_STEPS):
        factor = torch.baddbmm(gram, gram, gram, beta=b, alpha=c)
        factor.diagonal(dim1=1, dim2=2).add_(a)
        product = factor @ product if k else factor
        if k < NEWTON_SCHULZ_STEPS - 1:
            gram = factor @ gram @ factor
    return product @ x


class Muon(torch.optim.AdamW):
    """Muon for the parameter groups with `orthogonal`, AdamW for the others."""

    def step(self, closure: Any = None) -> Any:
        """Update the matrices; then, without their gradients, everything else by AdamW."""
        matrices = []
        for group in self.param_groups:
            if group.get("orthogonal"):
                weights = [p for p in group["params"] if p.grad is not None]
                self._orthogonal_step(
                    weights, group["lr"], group["weight_decay"], group["betas"][0]
                )
                matrices += [(p, p.grad) for p in weights]
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
        for group in _group_by_shape(weights):
            updates = torch.stack([full_tensor(self._nesterov_update(p, momentum)) for p in group])
            scale = ADAMW_UPDATE_RMS * math.sqrt(max(updates.shape[1:]))
            for p, update in zip(group, orthogonalize(updates), strict=True):
                p.mul_(1 - learning_rate * weight_decay).sub_(
                    shard_like(update, p), alpha=learning_rate * scale
                )

    def _nesterov_update(self, weight: Tensor, momentum: float) -> Tensor:
        """Update the momentum with the gradient, and return its Nesterov lookahead."""
        gradient = weight.grad
        assert gradient is not None
        state = self.state[weight]
        if not state:
            state["step"] = torch.tensor(0.0)  # AdamW expects it in every state
            state["momentum"] = torch.zeros_like(gradient)
        state["step"] += 1
        state["momentum"].lerp_(gradient, 1 - momentum)
        return gradient.lerp(state["momentum"], momentum)


def _group_by_shape(weights: Iterable[Tensor]) -> list[list[Tensor]]:
    groups: dict[torch.Size, list[Tensor]] = {}
    for weight in weights:
        groups.setdefault(weight.shape, []).append(weight)
    return list(groups.values())


# -- optimizer and schedule ------------------------------------------------------------------------


def build_optimizer(model: nn.Module, config: TrainConfig) -> torch.optim.Optimizer:
    """Build the optimizer; weight decay is for matrices only, not biases, norms or embeddings."""
    embeddings = {p for m in model.modules() if isinstance(m, EMBEDDINGS) for p in m.parameters()}
    trained = [p for p in model.parameters() if p.requires_grad]
    matrices = [p for p in trained if p.dim() > 1 and p not in embeddings]
    others = [p for p in trained if p.dim() <= 1 or p in embeddings]
    groups = [
        {"params": matrices, "weight_decay": config.weight_decay},
        {"params": others, "weight_decay": 0.0},
    ]
    first, second = config.betas
    if config.optimizer == "muon":
        # The rows of an output layer are independent of each other, like those of an embedding.
        head = getattr(model, "head", None)
        outputs = {head.weight} if isinstance(head, nn.Linear) else set()
        outputs |= {
            m.weights for m in model.modules() if isinstance(m, NgramClassifier | TfidfClassifier)
        }
        orthogonal = [p for p in matrices if p.dim() == 2 and p not in outputs]
        groups = [
            {"params": orthogonal, "weight_decay": config.weight_decay, "orthogonal": True},
            {"params": [p for p in matrices if p.dim() > 2 or p in outputs]},
            {"params": others, "weight_decay": 0.0},
        ]
    if config.layer_decay < 1:
        groups = split_by_rate(groups, rate_factors(model, config.layer_decay))
    if config.optimizer == "muon":
        return Muon(
            groups,
            lr=config.learning_rate,
            betas=(first, second),
            weight_decay=config.weight_decay,
            fused=True,
        )
    if config.optimizer == "sgd":
        return torch.optim.SGD(groups, lr=config.learning_rate, momentum=config.momentum)
    adam = torch.optim.AdamW if config.optimizer == "adamw" else torch.optim.Adam
    # Fused is several times faster on a large embedding, on the CPU as well.
    return adam(groups, lr=config.learning_rate, betas=(first, second), fused=True)


def state_names(optimizer: torch.optim.Optimizer) -> list[frozenset[str]]:
    """Return the names of the state tensors of each weight, in the order of the state dict."""
    adam = frozenset({"step", "exp_avg", "exp_avg_sq"})
    names = []
    for group in optimizer.param_groups:
        expected = adam
        if isinstance(optimizer, torch.optim.SGD):
            expected = frozenset({"momentum_buffer"})
        elif group.get("orthogonal"):
            expected = frozenset({"step", "momentum"})
        names += [expected] * len(group["params"])
    return names


def learning_rate_at(step: int, total_steps: int, config: TrainConfig) -> float:
    """Return the learning rate of a step, counted from 0, out of `total_steps`.

    >>> config = TrainConfig(learning_rate=1.0, schedule="linear", warmup=0.2)
    >>> [round(learning_rate_at(step, 10, config), 2) for step in (0, 1, 2, 6)]
    [0.5, 1.0, 1.0, 0.5]
    """
    warmup_steps = math.ceil(config.warmup * total_steps)
    if step < warmup_steps:
        return config.learning_rate * (step + 1) / warmup_steps
    done = min((step - warmup_steps) / max(total_steps - warmup_steps, 1), 1.0)
    if config.schedule == "linear":
        return config.learning_rate * (config.min_lr_ratio + (1 - config.min_lr_ratio) * (1 - done))
    if config.schedule == "cosine":
        remaining = 0.5 * (1 + math.cos(math.pi * done))
        return config.learning_rate * (config.min_lr_ratio + (1 - config.min_lr_ratio) * remaining)
    if config.schedule == "inverse-sqrt":
        return config.learning_rate * math.sqrt(max(warmup_steps, 1) / (step + 1))
    return config.learning_rate


def clip_gradients(model: nn.Module, max_norm: float) -> float:
    """Scale the gradients down if their norm is above `max_norm`; return the norm before.

    Gradients that are short enough are left alone: scaling those of a large embedding by 1 takes as
    long as computing the norm.
    """
    weights = [p for p in model.parameters() if p.grad is not None]
    norm = nn.utils.get_total_norm([p.grad for p in weights if p.grad is not None])
    length = float(full_tensor(norm))
    if max_norm < length + 1e-6 < math.inf:  # torch's own guard against a division by zero
        nn.utils.clip_grads_with_norm_(weights, max_norm, norm)
    return length


# -- weight averaging ------------------------------------------------------------------------------


class WeightAverage:
    """Averaged weights: an exponential moving average over steps, or the mean of the last epochs.

    The running statistics of batch norms are averaged as well: they belong to the weights.
    """

    def __init__(self, model: nn.Module, config: TrainConfig) -> None:
        self.method, self.decay = config.average, config.ema_decay
        persistent = model.state_dict().keys()  # other buffers may change their size
        buffers = model.named_buffers() if config.average != "none" else ()
        self._buffer_names = [n for n, b in buffers if n in persistent and b.is_floating_point()]
        # Not those that are frozen: the mean of equal numbers may be rounded.
        self._trained = [n for n, p in model.named_parameters() if p.requires_grad]
        self._names = self._trained + self._buffer_names
        self._ema = self._copy_weights(model) if config.average == "ema" else None
        self._recent_epochs: deque[dict[str, Tensor]] = deque(maxlen=config.average_last)

    @torch.no_grad()
    def after_step(self, model: nn.Module) -> None:
        """Update the moving average with the weights after a step."""
        if self._ema is not None:
            averages = [self._ema[name] for name in self._trained]
            weights = [p.detach() for p in model.parameters() if p.requires_grad]
            torch._foreach_lerp_(averages, weights, 1 - self.decay)
            for name in self._buffer_names:  # separately: buffers are never sharded
                self._ema[name].lerp_(model.get_buffer(name), 1 - self.decay)

    def after_epoch(self, model: nn.Module) -> None:
        """Keep the weights after an epoch, if the last epochs are averaged."""
        if self.method == "last":
            self._recent_epochs.append(self._copy_weights(model))

    def weights(self) -> dict[str, Tensor] | None:
        """Return the averaged weights; None if nothing is averaged."""
        if self._ema is not None:
            return self._ema
        if not self._recent_epochs:
            return None
        return {
            name: torch.stack([w[name] for w in self._recent_epochs]).mean(0)
            for name in self._recent_epochs[-1]
        }

    def state_dict(self) -> dict[str, Tensor]:
        """Return the state as flat tensors: `ema.NAME`, or `last.K.NAME` of the K-th epoch kept."""
        state = {f"ema.{name}": w for name, w in (self._ema or {}).items()}
        for k, weights in enumerate(self._recent_epochs):
            state |= {f"last.{k}.{name}": w for name, w in weights.items()}
        return state

    def load_state_dict(self, state: dict[str, Tensor], model: nn.Module) -> None:
        """Restore the state, with each tensor sharded like the model's."""
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


def average_from_state(state: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """Return the averaged weights of a `WeightAverage.state_dict()`."""
    collected: dict[str, list[Tensor]] = {}
    for key in sorted(state, key=lambda key: (len(key), key)):  # last.9 before last.10
        collected.setdefault(averaged_name(key), []).append(state[key])
    return {name: torch.stack(weights).mean(0) for name, weights in collected.items()}


def averaged_name(key: str) -> str:
    """Return the name of the weight that a key of a `WeightAverage` state is about.

    >>> averaged_name("ema.head.bias"), averaged_name("last.0.head.bias")
    ('head.bias', 'head.bias')
    """
    return key.removeprefix("ema.") if key.startswith("ema.") else key.split(".", 2)[-1]


def parameters_and_buffers(model: nn.Module) -> dict[str, Tensor]:
    """Return all tensors of a model by name; shared ones by one name only."""
    return {**dict(model.named_parameters()), **dict(model.named_buffers())}


@torch.no_grad()
def copy_weights_into(model: nn.Module, weights: Mapping[str, Tensor]) -> None:
    """Copy tensors into a model, by name."""
    named = parameters_and_buffers(model)
    for name, weight in weights.items():
        named[name].copy_(weight)
