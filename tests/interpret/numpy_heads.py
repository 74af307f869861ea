"""One attention head in NumPy, computed from its layer's weights and inputs."""

import math

import numpy as np
import torch

STEPS = ("Q", "K", "V", "scores", "scaled", "masked", "weights", "mixed")


def capture_inputs(task, path, run):
    """Return the inputs of an attention layer, X and the context, caught by a hook of torch."""
    captured = []
    layer = task.model.get_submodule(path)
    hook = layer.register_forward_pre_hook(lambda _, inputs: captured.append(inputs))
    with torch.no_grad():
        task.model.eval()
        run(task)
    hook.remove()
    return [x[0].double().numpy() for x in captured[0]]


def rotate(q):
    """Rotate columns k and k + half of each row by its position."""
    half = q.shape[1] // 2
    angles = np.arange(len(q))[:, None] / 10_000 ** (np.arange(half) / half)
    a, b, cos, sin = q[:, :half], q[:, half:], np.cos(angles), np.sin(angles)
    return np.hstack([a * cos - b * sin, b * cos + a * sin])


def compute_head(layer, head, x, context=None, causal=False):
    """Return all steps of a head in float64."""
    source, d = x if context is None else context, layer.d_head
    weight = layer.qkv.weight.detach().double().numpy()
    bias = layer.qkv.bias.detach().double().numpy()
    group = (head - 1) // (layer.heads // layer.kv_heads)
    offsets = [0, layer.d_model, layer.d_model + layer.kv_heads * d]
    projected = []
    for offset, number, vectors in zip(
        offsets, (head - 1, group, group), (x, source, source), strict=True
    ):
        rows = range(offset + number * d, offset + (number + 1) * d)
        projected.append(np.array([[v @ weight[r] + bias[r] for r in rows] for v in vectors]))
    q, k, v = projected
    if layer.rotary is not None:
        q, k = rotate(q), rotate(k)
    scores = q @ k.T
    scaled = scores / math.sqrt(d)
    masked = scaled.copy()
    if causal:
        masked[np.triu_indices(len(masked), 1)] = -math.inf
    powers = np.exp(masked)
    weights = powers / powers.sum(1, keepdims=True)
    return dict(zip(STEPS, (q, k, v, scores, scaled, masked, weights, weights @ v), strict=True))


def assert_head_equals(head, expected, atol=1e-9):
    """Check that a HeadProblem has the expected steps, and the model nearly the same."""
    solution = head.problem.solve()
    for step, matrix in expected.items():
        np.testing.assert_allclose(solution[step], matrix, rtol=0, atol=atol, err_msg=step)
    assert max(head.max_differences().values()) < 1e-5
    assert set(head.max_differences()) == {*STEPS, "fused"}
