"""Positional encodings of a model, and the effect of permuting its tokens."""

import random
from typing import Literal, TypeAlias

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from workings.errors import UserError
from workings.interpret.attention import collect_pass, to_numpy
from workings.interpret.results import (
    AttentionStacks,
    LayerDifference,
    PermutationResult,
    PositionVectors,
)
from workings.layers.positions import LearnedPositions, RotaryPositions, SinusoidalPositions
from workings.tasks.attention import AttentionPass, PassOptions
from workings.tasks.base import Task
from workings.tasks.classification import Classification

MAX_POSITIONS = 64  # of `extract_position_vectors`
TokenOrder: TypeAlias = Literal["reversed", "swapped", "shuffled"]


@torch.no_grad()
def extract_position_vectors(model: nn.Module) -> PositionVectors | None:
    """Return the encoding of a model's first positions; None if it has none."""
    for module in model.modules():
        if isinstance(module, LearnedPositions):
            vectors = to_numpy(module.rows(0, min(MAX_POSITIONS, len(module.table))))
            return PositionVectors("learned: one vector per position", vectors, vectors @ vectors.T)
        if isinstance(module, SinusoidalPositions):
            vectors = to_numpy(module.rows(0, MAX_POSITIONS))
            description = (
                "sinusoidal: sines and cosines, of falling frequency from pair to pair of columns"
            )
            return PositionVectors(description, vectors, vectors @ vectors.T)
        if isinstance(module, RotaryPositions):
            return _extract_rotary_vectors(module)
    return None


def _extract_rotary_vectors(rotary: RotaryPositions) -> PositionVectors:
    half = rotary.width // 2
    cosines, sines = rotary.cosines[:MAX_POSITIONS, :half], rotary.sines[:MAX_POSITIONS, half:]
    vectors = to_numpy(torch.cat((cosines, sines), 1))
    description = (
        "rotary: each pair of columns of queries and keys is rotated by an angle that grows with "
        "the position. Shown are the cosines, then the sines of these angles, and the mean cosine "
        "of the angle between two positions"
    )
    return PositionVectors(description, vectors, vectors @ vectors.T / np.float32(half))


def measure_permutation(
    task: Task, text: str, order: TokenOrder, *, seed: int = 0, use_positions: bool = True
) -> PermutationResult:
    """Run a Transformer on a text and on its permuted token embeddings, and compare the results.

    Of a translator, only the encoder runs. Without `use_positions`, encodings that are added to the
    embeddings are removed from both runs.
    """
    if task.image_size:
        raise UserError(f"a {task.noun} reads an image: it has no tokens to permute")
    plan = task.plan_attention(text, None, PassOptions(("encoder",) if task.is_seq2seq else ()))
    encoding = _detect_position_encoding(plan.model)
    if encoding == "rotary" and not use_positions:
        raise UserError("rotary positions rotate queries and keys: they cannot be removed")
    (spec,) = plan.specs
    permutation = build_permutation(len(spec.query_tokens), order, seed)
    if permutation == sorted(permutation):
        raise UserError("the permutation moves no token: use more tokens or another seed")
    before = _collect_permuted(plan, None, use_positions)
    after = _collect_permuted(plan, permutation, use_positions)
    residuals = [f"{path.removesuffix('.attention')}.residual" for path in spec.layer_paths]
    probabilities = None
    if isinstance(task, Classification):
        probabilities = (
            _compute_probabilities(before, task),
            _compute_probabilities(after, task),
        )
    return PermutationResult(
        tokens=spec.query_tokens,
        order=permutation,
        layers=[
            _compare_layer(f"layer {k}", before.taps[path][permutation], after.taps[path])
            for k, path in enumerate(residuals, start=1)
        ],
        expected_weights=[
            weights[:, permutation][:, :, permutation] for weights in before.stacks[0].weights
        ],
        permuted_weights=after.stacks[0].weights,
        class_probabilities=probabilities,
        is_causal=spec.is_causal,
        position_encoding=encoding,
    )


def build_permutation(count: int, order: TokenOrder, seed: int = 0) -> list[int]:
    """Return the index of the token at each position of the permuted text.

    >>> build_permutation(4, "reversed"), build_permutation(4, "swapped")
    ([3, 2, 1, 0], [1, 0, 2, 3])
    """
    indices = list(range(count))
    if order == "reversed":
        return indices[::-1]
    if order == "swapped":
        return [*indices[:2][::-1], *indices[2:]]
    random.Random(seed).shuffle(indices)  # noqa: S311 - an order, no secret
    return indices


def _detect_position_encoding(model: nn.Module) -> str:
    """Return the name of a model's positional encoding, or "none"."""
    kinds = {
        RotaryPositions: "rotary",
        SinusoidalPositions: "sinusoidal",
        LearnedPositions: "learned",
    }
    return next((kinds[type(m)] for m in model.modules() if type(m) in kinds), "none")


def _collect_permuted(
    plan: AttentionPass, permutation: list[int] | None, use_positions: bool
) -> AttentionStacks:
    """Run the model on the token embeddings in the given order."""

    def permute(embedded: Tensor) -> Tensor:
        return embedded[:, torch.tensor(permutation, device=embedded.device)]

    encodings = [
        f"{name}.positions"
        for name, module in plan.model.named_modules()
        if isinstance(module, SinusoidalPositions | LearnedPositions)
    ]
    return collect_pass(
        plan,
        ["*.residual"],
        replace={} if permutation is None else {"embedded": permute},
        scale={} if use_positions else dict.fromkeys(encodings, 0.0),
    )


def _compare_layer(
    name: str, expected: NDArray[np.float32], actual: NDArray[np.float32]
) -> LayerDifference:
    differences = np.abs(actual - expected).max(-1)
    return LayerDifference(name, differences, float(np.abs(expected).max()))


def _compute_probabilities(stacks: AttentionStacks, task: Classification) -> dict[str, float]:
    assert stacks.logits is not None
    probabilities = task.scheme.probabilities(torch.from_numpy(stacks.logits))
    return dict(zip(task.labels, probabilities.tolist(), strict=True))
