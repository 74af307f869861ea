"""The two ways through `attend` are one function, and rows that may look at nothing are zeros."""

import math

import pytest
import torch
from torch import Tensor
from torch.profiler import ProfilerActivity, profile

from workings.attention import attend, causal_mask
from workings.trace import Trace

FUSED_KERNEL = "aten::_scaled_dot_product_flash_attention_for_cpu"
TOLERANCE = {torch.float32: 1e-5, torch.float64: 1e-12}

# What a case is called: the shapes of query and key, and the value's width.
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
    """Numbers of either sign, different for each shape and seed."""
    generator = torch.Generator().manual_seed(seed + sum(shape))
    return torch.randn(*shape, generator=generator, dtype=dtype)


def inputs(name: str, dtype: torch.dtype = torch.float64) -> tuple[Tensor, Tensor, Tensor]:
    query, key, d_v = SHAPES[name]
    drawn = (draw(*query, seed=1), draw(*key, seed=2), draw(*key[:-1], d_v, seed=3))
    query, key, value = (t.to(dtype).requires_grad_() for t in drawn)
    return query, key, value


def make_mask(kind: str, scores_shape: tuple[int, ...]) -> Tensor | None:
    """A mask that hides about a third, and everything from the first query."""
    if kind == "none":
        return None
    *lead, queries, keys = scores_shape
    if kind == "padding":  # the same keys are hidden from every query: one dimension
        return torch.arange(keys) < max(1, keys - 2)
    if kind == "heads":
        lead = lead[-1:]
    shape = (*lead, queries, keys) if "full" in kind or kind == "heads" else (queries, keys)
    may_look = draw(*shape, seed=4) > -0.4
    may_look[..., 0, :] = False
    if "additive" in kind:
        return draw(*shape, seed=5).masked_fill(~may_look, -math.inf)
    return may_look


def explicit(*tensors: Tensor, **options: object) -> Tensor:
    with Trace(only="weights") as trace:
        mixed = attend(*tensors, **options)
    assert "weights" in trace
    return mixed


def outcome(how: object, tensors: tuple[Tensor, ...], **options: object) -> list[Tensor]:
    """The result and the gradients of query, key and value."""
    mixed = how(*tensors, **options)
    return [mixed, *torch.autograd.grad(mixed, tensors, draw(*mixed.shape, seed=6).to(mixed))]


def agree(one: list[Tensor], other: list[Tensor], tolerance: float) -> bool:
    same_shapes = [t.shape for t in one] == [t.shape for t in other]
    return same_shapes and all(
        torch.allclose(a, b, rtol=tolerance, atol=tolerance)
        for a, b in zip(one, other, strict=True)
    )


@pytest.mark.parametrize("dtype", TOLERANCE, ids=str)
@pytest.mark.parametrize("causal", [False, True], ids=["looks anywhere", "causal"])
@pytest.mark.parametrize("kind", MASKS)
@pytest.mark.parametrize("name", SHAPES)
def test_fused_and_explicit_agree_in_result_and_gradient(
    name: str, kind: str, causal: bool, dtype: torch.dtype
) -> None:
    tensors = inputs(name, dtype)
    mask = make_mask(kind, (*attend(*tensors).shape[:-1], tensors[1].shape[-2]))
    if mask is not None and mask.dtype != torch.bool:
        mask = mask.to(dtype)

    fused = outcome(attend, tensors, mask=mask, causal=causal)
    written_out = outcome(explicit, tensors, mask=mask, causal=causal)

    assert agree(fused, written_out, TOLERANCE[dtype])
    assert fused[0].dtype == dtype
    assert all(t.isfinite().all() for t in fused)


@pytest.mark.parametrize("at_once", [1, 2**18], ids=["one by one", "together"])
@pytest.mark.parametrize("causal", [False, True], ids=["looks anywhere", "causal"])
@pytest.mark.parametrize("kind", MASKS)
@pytest.mark.parametrize("name", SHAPES)
def test_attention_with_dropout_goes_by_parts_to_the_same_end(
    name: str, kind: str, causal: bool, at_once: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("workings.attention.CHUNK_WEIGHTS", at_once)
    tensors = inputs(name)
    mask = make_mask(kind, (*attend(*tensors).shape[:-1], tensors[1].shape[-2]))
    # So small a share that nothing is ever dropped.
    by_parts = outcome(attend, tensors, mask=mask, causal=causal, dropout=1e-15)
    assert agree(by_parts, outcome(explicit, tensors, mask=mask, causal=causal), 1e-12)


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
def test_the_comparison_notices_what_is_wrong(wrong: dict[str, object]) -> None:
    right = {"mask": make_mask("boolean", (5, 5)), "causal": True}
    tensors = inputs("4-D", torch.float32)
    fused = outcome(attend, tensors, **right)
    assert agree(fused, outcome(explicit, tensors, **right), 1e-5)
    assert not agree(fused, outcome(explicit, tensors, **(right | wrong)), 1e-5)


def test_a_mask_may_have_batch_or_heads_that_the_inputs_have_not() -> None:
    query, key, value = inputs("2-D")
    mask = make_mask("boolean in full", (3, 2, 5, 5))
    together = attend(query, key, value, mask=mask)
    assert together.shape == (3, 2, 5, 8)
    for batch in range(3):
        for head in range(2):
            alone = attend(query, key, value, mask=mask[batch, head])
            torch.testing.assert_close(together[batch, head], alone)
    torch.testing.assert_close(together, explicit(query, key, value, mask=mask))


def test_vectors_that_do_not_lie_side_by_side_in_memory() -> None:
    columns = draw(2, 8, 5)
    x = columns.transpose(-2, -1)
    torch.testing.assert_close(attend(x, x, x), attend(*[x.contiguous()] * 3))
    torch.testing.assert_close(attend(x, x, x), explicit(x, x, x))
    assert FUSED_KERNEL in kernels((x, x, x), {})


@pytest.mark.parametrize("name", ["scores", "scaled", "masked", "weights", "mixed"])
def test_each_step_can_be_asked_for_by_itself(name: str) -> None:
    tensors = inputs("4-D")
    with Trace(only=name) as trace:
        attend(*tensors)
    assert list(trace) == [name]
    with Trace(scale={name: 0.0}):
        changed = attend(*tensors)
    assert not torch.allclose(changed, attend(*tensors))


def test_an_additive_mask_of_another_precision() -> None:
    query, key, value = inputs("4-D", torch.float32)
    mask = draw(5, 5)
    assert mask.dtype == torch.float64
    for mixed in (attend(query, key, value, mask=mask), explicit(query, key, value, mask=mask)):
        torch.testing.assert_close(mixed, attend(query, key, value, mask=mask.float()))


def test_a_mask_that_is_learned_gets_its_gradient() -> None:
    tensors = (*inputs("4-D"), draw(2, 5, 5).requires_grad_())
    ways = [
        outcome(lambda q, k, v, mask, how=how: how(q, k, v, mask=mask), tensors)
        for how in (attend, explicit)
    ]
    assert agree(*ways, 1e-12)
    assert ways[0][-1].abs().min() > 0


# -- rows that may look at nothing ---------------------------------------------------------------


@pytest.mark.parametrize("how", [attend, explicit])
@pytest.mark.parametrize("additive", [False, True], ids=["boolean", "additive"])
@pytest.mark.parametrize("length", [6, 1100])
def test_what_is_masked_might_as_well_not_be_there(
    how: object, additive: bool, length: int
) -> None:
    """Of 1,100 keys whole blocks of the kernel are hidden, in some rows all of them."""
    first, blind = length * 2 // 3, length // 4
    index = torch.arange(length)
    mask = (index >= first).expand(length, length) & (index >= blind)[:, None]
    if additive:
        mask = torch.zeros(length, length).masked_fill(~mask, -math.inf)
    tensors = tuple(
        draw(2, length, 8, seed=seed, dtype=torch.float32).requires_grad_() for seed in range(3)
    )
    query, key, value = tensors

    mixed, *gradients = outcome(how, tensors, mask=mask)

    assert (mixed[:, :blind] == 0).all()
    seen = attend(query[:, blind:], key[:, first:], value[:, first:])
    torch.testing.assert_close(mixed[:, blind:], seen, rtol=1e-5, atol=1e-5)
    assert all(g.isfinite().all() for g in gradients)
    of_query, of_key, of_value = gradients
    assert (of_query[:, :blind] == 0).all()
    assert (of_query[:, blind:] != 0).any()
    for hidden in (of_key[:, :first], of_value[:, :first]):
        assert (hidden == 0).all()


@pytest.mark.parametrize("how", [attend, explicit])
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
def test_queries_that_may_look_at_nothing_get_zeros(
    how: object, normalizer: str, options: dict[str, object]
) -> None:
    tensors = tuple(draw(2, n, 8, seed=n).requires_grad_() for n in (6, 4, 4))
    for t in outcome(how, tensors, normalizer=normalizer, **options):
        assert (t == 0).all()


@pytest.mark.parametrize("how", [attend, explicit])
def test_the_first_of_more_causal_queries_than_keys_see_nothing(how: object) -> None:
    tensors = inputs("more queries than keys")  # 7 and 4
    mixed, *gradients = outcome(how, tensors, causal=True)
    assert (mixed[..., :3, :] == 0).all()
    torch.testing.assert_close(mixed[..., 3, :], tensors[2][..., 0, :])
    assert all(g.isfinite().all() for g in gradients)


@pytest.mark.parametrize("how", [attend, explicit])
@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize(("queries", "keys"), [(5, 0), (0, 5), (0, 0)])
def test_no_keys_and_no_queries(how: object, causal: bool, queries: int, keys: int) -> None:
    tensors = tuple(draw(2, n, 8).requires_grad_() for n in (queries, keys, keys))
    mixed, *gradients = outcome(how, tensors, causal=causal)
    assert mixed.shape == (2, queries, 8)
    for t in (mixed, *gradients):
        assert (t == 0).all()


@pytest.mark.parametrize("how", [attend, explicit])
def test_an_empty_batch_that_shares_its_keys(how: object) -> None:
    assert how(draw(0, 2, 5, 8), draw(1, 2, 5, 8), draw(1, 2, 5, 8)).shape == (0, 2, 5, 8)


# -- causal --------------------------------------------------------------------------------------


@pytest.mark.parametrize(("queries", "keys"), [(4, 4), (2, 5), (5, 2), (1, 3)])
def test_causal_mask_ends_in_the_corner(queries: int, keys: int) -> None:
    mask = causal_mask(queries, keys)
    for i in range(queries):
        for j in range(keys):
            assert mask[i, j].item() == (queries - 1 - i <= keys - 1 - j)


@pytest.mark.parametrize("how", [attend, explicit])
def test_causal_is_the_causal_mask(how: object) -> None:
    query, key, value = inputs("fewer queries than keys")
    mask = causal_mask(3, 7)
    torch.testing.assert_close(
        how(query, key, value, causal=True), how(query, key, value, mask=mask)
    )


# -- memory --------------------------------------------------------------------------------------


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
def test_memory_stays_linear_because_the_fused_kernel_does_the_work(
    name: str, kind: str, causal: bool
) -> None:
    tensors = inputs(name)
    mask = make_mask(kind, (*attend(*tensors).shape[:-1], tensors[1].shape[-2]))
    assert FUSED_KERNEL in kernels(tensors, {"mask": mask, "causal": causal})


@pytest.mark.parametrize("options", [{"softcap": 2.0}, {"normalizer": "sum"}, {"dropout": 0.5}])
def test_what_the_kernel_does_not_know_is_written_out(options: dict[str, object]) -> None:
    ops = kernels(inputs("4-D"), options)
    assert FUSED_KERNEL not in ops
    assert "aten::matmul" in ops
