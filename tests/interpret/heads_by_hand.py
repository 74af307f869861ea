"""A head in NumPy, from its layer's weights and what a hook of torch's own caught."""

import math

import numpy as np
import torch

STEPS = ("Q", "K", "V", "scores", "scaled", "masked", "weights", "mixed")


def shaken(model):
    """Biases are zero to begin with, and attention is almost even: neither would show."""
    torch.manual_seed(1)
    with torch.no_grad():
        for weight in model.parameters():
            weight.add_(0.2 * torch.randn_like(weight))
    return model


def inputs(task, path, read):
    """What goes into an attention layer, caught by a hook of torch's own: x, and the context."""
    caught = []
    layer = task.model.get_submodule(path)
    hook = layer.register_forward_pre_hook(lambda _, given: caught.append(given))
    with torch.no_grad():
        task.model.eval()
        read(task)
    hook.remove()
    return [t[0].double().numpy() for t in caught[0]]


def turned(q):
    """Rotate columns k and k + half of each row by its position."""
    half = q.shape[1] // 2
    angles = np.arange(len(q))[:, None] / 10_000 ** (np.arange(half) / half)
    a, b, cos, sin = q[:, :half], q[:, half:], np.cos(angles), np.sin(angles)
    return np.hstack([a * cos - b * sin, b * cos + a * sin])


def by_hand(layer, head, x, context=None, causal=False):
    """All steps of a head, in NumPy's doubles, from its layer's weights."""
    asked, d = x if context is None else context, layer.d_head
    weight = layer.qkv.weight.detach().double().numpy()
    bias = layer.qkv.bias.detach().double().numpy()
    group = (head - 1) // (layer.heads // layer.kv_heads)
    offsets = [0, layer.d_model, layer.d_model + layer.kv_heads * d]
    made = []
    for offset, number, source in zip(
        offsets, (head - 1, group, group), (x, asked, asked), strict=True
    ):
        rows = range(offset + number * d, offset + (number + 1) * d)
        made.append(np.array([[v @ weight[r] + bias[r] for r in rows] for v in source]))
    q, k, v = made
    if layer.rotary is not None:
        q, k = turned(q), turned(k)
    scores = q @ k.T
    scaled = scores / math.sqrt(d)
    masked = scaled.copy()
    if causal:
        masked[np.triu_indices(len(masked), 1)] = -math.inf
    powers = np.exp(masked)
    weights = powers / powers.sum(1, keepdims=True)
    return dict(zip(STEPS, (q, k, v, scores, scaled, masked, weights, weights @ v), strict=True))


def agrees(head, expected, atol=1e-9):
    solved = head.problem.solve()
    for step, matrix in expected.items():
        np.testing.assert_allclose(solved[step], matrix, rtol=0, atol=atol, err_msg=step)
    assert max(head.max_differences().values()) < 1e-5
    assert set(head.max_differences()) == {*STEPS, "fused"}
