"""Inputs and weights that do not depend on a random generator."""

import math
from collections.abc import Callable

import pytest
import torch
from torch import Tensor, nn


@pytest.fixture
def waves() -> Callable[..., Tensor]:
    """Return a function that gives sin(start), sin(start + 1), … in a shape."""

    def waves(*shape: int, start: int = 1) -> Tensor:
        angles = torch.arange(start, start + math.prod(shape), dtype=torch.float64)
        return angles.sin().reshape(shape).float()

    return waves


@pytest.fixture
def fill(waves: Callable[..., Tensor]) -> Callable[[nn.Module], nn.Module]:
    """Return a function that fills a module's parameters, in order, with one sequence of sines."""

    def fill(module: nn.Module) -> nn.Module:
        start = 1
        with torch.no_grad():
            for parameter in module.parameters():
                parameter.copy_(waves(*parameter.shape, start=start))
                start += parameter.numel()
        return module

    return fill
