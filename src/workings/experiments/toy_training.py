"""Training of small models, for seconds, on examples that are sampled at every step."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TypeAlias

import torch
import torch.nn.functional as F
from torch import Tensor, nn

# Samples a batch of the given size: inputs and target classes.
ExampleSampler: TypeAlias = Callable[[torch.Generator, int], tuple[Tensor, Tensor]]


@contextmanager
def isolated_rng(seed: int) -> Iterator[None]:
    """Seed torch's global random state inside the block and restore it afterwards."""
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
    """Train with AdamW on a new batch at every step; return the loss of each step."""
    generator = torch.Generator().manual_seed(seed)
    optimizer = torch.optim.AdamW(model.parameters(), lr=learning_rate, fused=True)
    losses = []
    model.train()
    for _ in range(steps):
        inputs, targets = sampler(generator, batch_size)
        loss = F.cross_entropy(model(inputs).flatten(0, -2), targets.flatten())
        optimizer.zero_grad()
        torch.autograd.backward(loss)
        optimizer.step()
        losses.append(loss.item())
    return losses


@torch.no_grad()
def measure_accuracy(
    model: nn.Module, sampler: ExampleSampler, *, num_examples: int = 2000, seed: int = 10**6
) -> float:
    """Return the accuracy on newly sampled examples."""
    inputs, targets = sampler(torch.Generator().manual_seed(seed), num_examples)
    model.eval()
    correct: Tensor = model(inputs).argmax(-1) == targets
    return correct.float().mean().item()


def count_parameters(module: nn.Module) -> int:
    """Return the number of parameters of a module."""
    return sum(parameter.numel() for parameter in module.parameters())
