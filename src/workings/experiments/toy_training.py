"""Small models, trained for seconds on examples that are drawn as they are needed."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TypeAlias

import torch
import torch.nn.functional as F
from torch import Tensor, nn

# Draws so many examples: what goes in, and the classes that should come out.
ExampleSampler: TypeAlias = Callable[[torch.Generator, int], tuple[Tensor, Tensor]]


@contextmanager
def isolated_rng(seed: int) -> Iterator[None]:
    """Let fresh weights come from a seed, and leave the caller's random state alone."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        yield


def train_model(
    model: nn.Module,
    sampler: ExampleSampler,
    *,
    steps: int,
    batch_size: int = 64,
    learning_rate: float = 3e-3,
    seed: int = 1,
) -> list[float]:
    """Train on fresh examples at every step; give the loss at each."""
    generator = torch.Generator().manual_seed(seed)
    optimiser = torch.optim.AdamW(model.parameters(), lr=learning_rate, fused=True)
    losses = []
    model.train()
    for _ in range(steps):
        loss = _loss(model, *sampler(generator, batch_size))
        optimiser.zero_grad()
        torch.autograd.backward(loss)
        optimiser.step()
        losses.append(loss.item())
    return losses


def _loss(model: nn.Module, inputs: Tensor, targets: Tensor) -> Tensor:
    return F.cross_entropy(model(inputs).flatten(0, -2), targets.flatten())


@torch.no_grad()
def measure_accuracy(
    model: nn.Module, sampler: ExampleSampler, *, num_examples: int = 2000, seed: int = 10**6
) -> float:
    """The share of fresh answers that are right."""
    inputs, targets = sampler(torch.Generator().manual_seed(seed), num_examples)
    model.eval()
    right: Tensor = model(inputs).argmax(-1) == targets
    return right.float().mean().item()
