"""Losses and gradients equal torch, its autograd and finite differences, in both conventions."""

from collections.abc import Callable, Iterator

import numpy as np
import pytest
import torch
from gradient_problems import DRAWS, GradientProblem
from rounded_claims import orient_fields

from workings import Problem

NUM_PROBLEMS = 8  # of each kind
# Central differences of order 8, with a step that is short enough not to cross a kink of the ReLU.
STENCIL = {1: 4 / 5, 2: -1 / 5, 3: 4 / 105, 4: -1 / 280}
STEP = 5e-4
WITHOUT_GRADIENTS = ("rnn_jacobian", "optimizer_step")


@pytest.fixture(autouse=True)
def _float64_default() -> Iterator[None]:
    torch.set_default_dtype(torch.float64)
    yield
    torch.set_default_dtype(torch.float32)


def draw_problems(kind: str) -> Iterator[tuple[GradientProblem, Callable[[str], np.ndarray]]]:
    """Yield problems of a kind in both conventions, with the solved steps, vectors as rows."""
    for seed in range(NUM_PROBLEMS):
        rng = np.random.default_rng([seed, *kind.encode()])
        example, columns = DRAWS[kind](rng), bool(seed % 2)
        solution = Problem(**orient_fields(example.fields, columns)).solve()
        keys = {step.key for step in solution.problem.steps}

        def get(key: str, solution=solution, keys=keys, columns=columns) -> np.ndarray | None:
            if key not in keys:
                return None
            return solution[key].T if columns else solution[key]

        yield example, get


@pytest.mark.parametrize("kind", DRAWS)
def test_steps_equal_torch_and_autograd(kind: str) -> None:
    num_gradients = 0
    for example, get in draw_problems(kind):
        leaves = example.leaves
        loss, tensors = example.compute_loss(leaves)
        for name, tensor in tensors.items():
            value = get(name)
            assert value is not None, name
            np.testing.assert_allclose(value, tensor.detach(), rtol=1e-12, atol=1e-12)
        tensors = {k: v for k, v in {**leaves, **tensors}.items() if v.requires_grad}
        gradients = torch.autograd.grad(loss, list(tensors.values()), allow_unused=True)
        for name, gradient in zip(tensors, gradients, strict=True):
            value = get(f"d{name}")
            if value is not None and gradient is not None:
                num_gradients += 1
                np.testing.assert_allclose(value, gradient, rtol=1e-12, atol=1e-12, err_msg=name)
    assert num_gradients >= NUM_PROBLEMS or kind in WITHOUT_GRADIENTS


@torch.no_grad()
def differentiate(example: GradientProblem, name: str) -> np.ndarray:
    """Return the gradient of the loss with respect to a given, by central differences."""
    leaves = {key: leaf.detach() for key, leaf in example.leaves.items()}
    gradient = np.zeros(tuple(leaves[name].shape))
    for cell in np.ndindex(*gradient.shape):
        for distance, weight in STENCIL.items():
            for sign in (1, -1):
                moved = leaves[name].clone()
                moved[cell] += sign * distance * STEP
                loss, _ = example.compute_loss({**leaves, name: moved})
                gradient[cell] += sign * weight * float(loss) / STEP
    return gradient


@pytest.mark.parametrize("kind", DRAWS)
def test_gradients_equal_finite_differences(kind: str) -> None:
    for example, get in list(draw_problems(kind))[:4]:
        for name in example.leaves:
            value = get(f"d{name}")
            if value is not None:
                expected = differentiate(example, name)
                np.testing.assert_allclose(value, expected, rtol=1e-10, atol=1e-10, err_msg=name)
