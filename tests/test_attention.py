"""The fused and the explicit path of `attend` agree, and fully masked rows are zeros."""

import math

import pytest
import torch
from torch import Tensor
from torch.profiler import ProfilerActivity, profile

from workings.attention import attend, causal_mask
from workings.trace import Trace

FUSED_KERNEL = "aten::_scaled_dot_product_flash_attention_for_cpu"
TOLERANCE = {torch.float32: 1e-5, torch.float64: 1e-12}

# The name of a case: the shapes of query and key, and the width of the values.
SHAPES = {
    "2-D": ((5, 8), (5, 8), 8),
    "3-D": ((2, 5, 8), (2, 5, 8), 8),
    "4-D": ((3, 2, 5, 8), (3, 2, 5, 8), 8),
    "5-D": ((2, 3, 2, 5, 8), (2, 3, 2, 5, 8), 8),
    "fewer queries than keys": ((3, 2, 3, 8), (3, 2, 7, 8), 8),
    "more queries than keys": ((3, 2, 7, 8), (3, 2, 4, 8), 8),
    "one query": ((3, 2, 1, 8), (3, 2, 7, 8), 8),
    "grouped heads": ((3, 4, 5, 8), (3, 2, 5, 8), 8),
    "one key head": ((3, 4, 5, 8), (3, 1, 5, 8), 8),
    "keys without heads": ((3, 4, 5, 8), (5, 8), 8),
    "queries without heads": ((5, 8), (3, 1, 5, 8), 8),
    "narrow values": ((3, 2, 5, 8), (3, 2, 5, 8), 3),
    "wide values": ((3, 2, 5, 8), (3, 2, 5, 8), 13),
    "wide values of grouped heads": ((4, 5, 8), (2, 6, 8), 11),
    "one key sequence for the batch": ((3, 2, 5, 8), (1, 2, 5, 8), 8),
    "one query sequence for the batch": ((1, 2, 5, 8), (3, 2, 5, 8), 8),
    "one key sequence for two batch dimensions": ((2, 3, 2, 5, 8), (3, 2, 5, 8), 8),
}
MASKS = ("none", "boolean", "additive", "boolean in full", "additive in full", "padding", "heads")


def draw(*shape: int, seed: int = 0, dtype: torch.dtype = torch.float64) -> Tensor:
    """Return normal random numbers that differ by shape and seed."""
    generator = torch.Generator().manual_seed(seed + sum(shape))
    return torch.randn(*shape, generator=generator, dtype=dtype)


def inputs(name: str, dtype: torch.dtype = torch.float64) -> tuple[Tensor, Tensor, Tensor]:
    query, key, d_v = SHAPES[name]
    tensors = (draw(*query, seed=1), draw(*key, seed=2), draw(*key[:-1], d_v, seed=3))
    query, key, value = (t.to(dtype).requires_grad_() for t in tensors)
    return query, key, value


def make_mask(kind: str, scores_shape: tuple[int, ...]) -> Tensor | None:
    """Return a mask that forbids about a third of the pairs, and all keys to the first query."""
    if kind == "none":
        return None
    *lead, queries, keys = scores_shape
    if kind == "padding":  # one dimension: the same for every query
        return torch.arange(keys) < max(1, keys - 2)
    if kind == "heads":
        lead = lead[-1:]
    shape = (*lead, queries, keys) if "full" in kind or kind == "heads" else (queries, keys)
    allowed = draw(*shape, seed=4) > -0.4
    allowed[..., 0, :] = False
    if "additive" in kind:
        return draw(*shape, seed=5).masked_fill(~allowed, -math.inf)
    return allowed


def explicit(*tensors: Tensor, **options: object) -> Tensor:
    with Trace(only="weights") as trace:
        mixed = attend(*tensors, **options)
    assert "weights" in trace
    return mixed


def output_and_gradients(
    run: object, tensors: tuple[Tensor, ...], **options: object
) -> list[Tensor]:
    """Return the output and the gradients of query, key and value."""
    mixed = run(*tensors, **options)
    return [mixed, *torch.autograd.grad(mixed, tensors, draw(*mixed.shape, seed=6).to(mixed))]


def agree(one: list[Tensor], other: list[Tensor], tolerance: float) -> bool:
    same_shapes = [t.shape for t in one] == [t.shape for t in other]
    return same_shapes and all(
        torch.allclose(a, b, rtol=tolerance, atol=tolerance)
        for a, b in zip(one, other, strict=True)
    )


@pytest.mark.parametrize("dtype", TOLERANCE, ids=str)
@pytest.mark.parametrize("causal", [False, True], ids=["bidirectional", "causal"])
@pytest.mark.parametrize("kind", MASKS)
@pytest.mark.parametrize("name", SHAPES)
def test_fused_and_explicit_agree_in_result_and_gradient(
    name: str, kind: str, causal: bool, dtype: torch.dtype
) -> None:
    tensors = inputs(name, dtype)
    mask = make_mask(kind, (*attend(*tensors).shape[:-1], tensors[1].shape[-2]))
    if mask is not None and mask.dtype != torch.bool:
        mask = mask.to(dtype)

    fused = output_and_gradients(attend, tensors, mask=mask, causal=causal)
    stepwise = output_and_gradients(explicit, tensors, mask=mask, causal=causal)

    assert agree(fused, stepwise, TOLERANCE[dtype])
    assert fused[0].dtype == dtype
    assert all(t.isfinite().all() for t in fused)


@pytest.mark.parametrize("chunk_weights", [1, 2**18], ids=["one by one", "together"])
@pytest.mark.parametrize("causal", [False, True], ids=["bidirectional", "causal"])
@pytest.mark.parametrize("kind", MASKS)
@pytest.mark.parametrize("name", SHAPES)
def test_chunked_attention_with_dropout_agrees_with_explicit(
    name: str, kind: str, causal: bool, chunk_weights: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("workings.attention.CHUNK_WEIGHTS", chunk_weights)
    tensors = inputs(name)
    mask = make_mask(kind, (*attend(*tensors).shape[:-1], tensors[1].shape[-2]))
    # The probability is so small that no weight is ever dropped.
    chunked = output_and_gradients(attend, tensors, mask=mask, causal=causal, dropout=1e-15)
    assert agree(chunked, output_and_gradients(explicit, tensors, mask=mask, causal=causal), 1e-12)


@pytest.mark.parametrize(
    "wrong",
    [
        {"scale": 0.36},  # right: 1/√8 = 0.3536
        {"causal": False},
        {"mask": ~make_mask("boolean", (5, 5))},
        {"mask": make_mask("boolean", (5, 5)).T},
        {"mask": None},
    ],
    ids=["scale", "not causal", "inverted mask", "transposed mask", "no mask"],
)
def test_the_comparison_detects_wrong_options(wrong: dict[str, object]) -> None:
    right = {"mask": make_mask("boolean", (5, 5)), "causal": True}
    tensors = inputs("4-D", torch.float32)
    fused = output_and_gradients(attend, tensors, **right)
    assert agree(fused, output_and_gradients(explicit, tensors, **right), 1e-5)
    assert not agree(fused, output_and_gradients(explicit, tensors, **(right | wrong)), 1e-5)


def test_a_mask_may_have_batch_dimensions_that_the_inputs_lack() -> None:
    query, key, value = inputs("2-D")
    mask = make_mask("boolean in full", (3, 2, 5, 5))
    batched = attend(query, key, value, mask=mask)
    assert batched.shape == (3, 2, 5, 8)
    for batch in range(3):
        for head in range(2):
            alone = attend(query, key, value, mask=mask[batch, head])
            torch.testing.assert_close(batched[batch, head], alone)
    torch.testing.assert_close(batched, explicit(query, key, value, mask=mask))


def test_vectors_that_are_not_contiguous_in_memory() -> None:
    columns = draw(2, 8, 5)
    x = columns.transpose(-2, -1)
    torch.testing.assert_close(attend(x, x, x), attend(*[x.contiguous()] * 3))
    torch.testing.assert_close(attend(x, x, x), explicit(x, x, x))
    assert FUSED_KERNEL in kernels((x, x, x), {})


@pytest.mark.parametrize("name", ["scores", "scaled", "masked", "weights", "mixed"])
def test_each_step_can_be_traced_alone(name: str) -> None:
    tensors = inputs("4-D")
    with Trace(only=name) as trace:
        attend(*tensors)
    assert list(trace) == [name]
    with Trace(scale={name: 0.0}):
        changed = attend(*tensors)
    assert not torch.allclose(changed, attend(*tensors))


def test_an_additive_mask_of_another_dtype() -> None:
    query, key, value = inputs("4-D", torch.float32)
    mask = draw(5, 5)
    assert mask.dtype == torch.float64
    for mixed in (attend(query, key, value, mask=mask), explicit(query, key, value, mask=mask)):
        torch.testing.assert_close(mixed, attend(query, key, value, mask=mask.float()))


def test_a_learned_mask_gets_its_gradient() -> None:
    tensors = (*inputs("4-D"), draw(2, 5, 5).requires_grad_())
    results = [
        output_and_gradients(lambda q, k, v, mask, run=run: run(q, k, v, mask=mask), tensors)
        for run in (attend, explicit)
    ]
    assert agree(*results, 1e-12)
    assert results[0][-1].abs().min() > 0


# -- fully masked rows ---------------------------------------------------------------


@pytest.mark.parametrize("run", [attend, explicit])
@pytest.mark.parametrize("additive", [False, True], ids=["boolean", "additive"])
@pytest.mark.parametrize("length", [6, 1100])
def test_masked_keys_change_neither_output_nor_gradients(
    run: object, additive: bool, length: int
) -> None:
    """With 1,100 keys, the mask covers whole blocks of the kernel, in some rows all of them."""
    first, num_blind = length * 2 // 3, length // 4
    index = torch.arange(length)
    mask = (index >= first).expand(length, length) & (index >= num_blind)[:, None]
    if additive:
        mask = torch.zeros(length, length).masked_fill(~mask, -math.inf)
    tensors = tuple(
        draw(2, length, 8, seed=seed, dtype=torch.float32).requires_grad_() for seed in range(3)
    )
    query, key, value = tensors

    mixed, *gradients = output_and_gradients(run, tensors, mask=mask)

    assert (mixed[:, :num_blind] == 0).all()
    unmasked = attend(query[:, num_blind:], key[:, first:], value[:, first:])
    torch.testing.assert_close(mixed[:, num_blind:], unmasked, rtol=1e-5, atol=1e-5)
    assert all(g.isfinite().all() for g in gradients)
    grad_query, grad_key, grad_value = gradients
    assert (grad_query[:, :num_blind] == 0).all()
    assert (grad_query[:, num_blind:] != 0).any()
    for masked in (grad_key[:, :first], grad_value[:, :first]):
        assert (masked == 0).all()


@pytest.mark.parametrize("run", [attend, explicit])
@pytest.mark.parametrize("normalizer", ["softmax", "sigmoid", "sum"])
@pytest.mark.parametrize(
    "options",
    [
        {"mask": torch.zeros(6, 4, dtype=torch.bool)},
        {"mask": torch.full((6, 4), -math.inf)},
        {"mask": torch.zeros(4, dtype=torch.bool), "causal": True},
    ],
    ids=["boolean", "additive", "causal"],
)
def test_queries_without_allowed_keys_get_zeros(
    run: object, normalizer: str, options: dict[str, object]
) -> None:
    tensors = tuple(draw(2, n, 8, seed=n).requires_grad_() for n in (6, 4, 4))
    for t in output_and_gradients(run, tensors, normalizer=normalizer, **options):
        assert (t == 0).all()


@pytest.mark.parametrize("run", [attend, explicit])
def test_causal_queries_before_the_first_key_get_zeros(run: object) -> None:
    tensors = inputs("more queries than keys")  # 7 and 4
    mixed, *gradients = output_and_gradients(run, tensors, causal=True)
    assert (mixed[..., :3, :] == 0).all()
    torch.testing.assert_close(mixed[..., 3, :], tensors[2][..., 0, :])
    assert all(g.isfinite().all() for g in gradients)


@pytest.mark.parametrize("run", [attend, explicit])
@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize(("queries", "keys"), [(5, 0), (0, 5), (0, 0)])
def test_empty_keys_and_empty_queries(run: object, causal: bool, queries: int, keys: int) -> None:
    tensors = tuple(draw(2, n, 8).requires_grad_() for n in (queries, keys, keys))
    mixed, *gradients = output_and_gradients(run, tensors, causal=causal)
    assert mixed.shape == (2, queries, 8)
    for t in (mixed, *gradients):
        assert (t == 0).all()


@pytest.mark.parametrize("run", [attend, explicit])
def test_an_empty_batch_with_shared_keys(run: object) -> None:
    assert run(draw(0, 2, 5, 8), draw(1, 2, 5, 8), draw(1, 2, 5, 8)).shape == (0, 2, 5, 8)


# -- causal --------------------------------------------------------------------------------------


@pytest.mark.parametrize(("queries", "keys"), [(4, 4), (2, 5), (5, 2), (1, 3)])
def test_causal_mask_is_aligned_to_the_last_query_and_key(queries: int, keys: int) -> None:
    mask = causal_mask(queries, keys)
    for i in range(queries):
        for j in range(keys):
            assert mask[i, j].item() == (queries - 1 - i <= keys - 1 - j)


@pytest.mark.parametrize("run", [attend, explicit])
def test_causal_equals_the_causal_mask(run: object) -> None:
    query, key, value = inputs("fewer queries than keys")
    mask = causal_mask(3, 7)
    torch.testing.assert_close(
        run(query, key, value, causal=True), run(query, key, value, mask=mask)
    )


# -- kernels --------------------------------------------------------------------------------------


def kernels(tensors: tuple[Tensor, ...], options: dict[str, object]) -> set[str]:
    with profile(activities=[ProfilerActivity.CPU]) as profiled:
        attend(*tensors, **options)
    return {event.key for event in profiled.key_averages()}


@pytest.mark.parametrize(
    ("name", "kind", "causal"),
    [(name, "none", False) for name in SHAPES]
    + [("4-D", kind, causal) for kind in MASKS for causal in (False, True)]
    + [("5-D", "heads", False), ("grouped heads", "boolean", True), ("wide values", "none", True)],
)
def test_the_fused_kernel_with_linear_memory_is_used(name: str, kind: str, causal: bool) -> None:
    tensors = inputs(name)
    mask = make_mask(kind, (*attend(*tensors).shape[:-1], tensors[1].shape[-2]))
    assert FUSED_KERNEL in kernels(tensors, {"mask": mask, "causal": causal})


@pytest.mark.parametrize("options", [{"softcap": 2.0}, {"normalizer": "sum"}, {"dropout": 0.5}])
def test_options_that_the_kernel_lacks_use_the_explicit_path(options: dict[str, object]) -> None:
    ops = kernels(inputs("4-D"), options)
    assert FUSED_KERNEL not in ops
    assert "aten::matmul" in ops
