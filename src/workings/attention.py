"""Attention: `attend`, and two short forms of it for generation.

No other module compares queries with keys. Without a trace, `attend` calls torch's fused kernel,
whose memory is linear in the length. If a trace taps the scores or weights, the kernel does not
support the case, or torch.export records the graph, it computes the formula step by step; with
dropout on a CPU, a few sequences at a time. The results agree to rounding, which is tested.
"""

import math
from collections.abc import Sequence
from itertools import zip_longest
from typing import Literal, Protocol, TypeAlias, get_args, runtime_checkable

import torch
import torch.nn.functional as F
from jaxtyping import Bool, Float
from torch import Tensor

from workings.errors import UserError, did_you_mean
from workings.trace import is_tapped, tap

Mask: TypeAlias = Bool[Tensor, "..."] | Float[Tensor, "..."]
Normalizer: TypeAlias = Literal["softmax", "sigmoid", "sum"]
NORMALIZERS: tuple[str, ...] = get_args(Normalizer)
CHUNK_WEIGHTS = 2**18  # attention weights that fit into the cache of one core


@runtime_checkable
class Similarity(Protocol):
    """A function or module that scores how well each key matches each query."""

    def __call__(
        self, query: Float[Tensor, "*q queries d_q"], key: Float[Tensor, "*k keys d_k"], /
    ) -> Float[Tensor, "... queries keys"]:
        """Return a score for every pair of query and key."""
        ...


def dot(
    query: Float[Tensor, "*q queries d"], key: Float[Tensor, "*k keys d"]
) -> Float[Tensor, "... queries keys"]:
    """Return inner products: `Q Kᵀ`."""
    return query @ key.transpose(-2, -1)


def scaled_dot(
    query: Float[Tensor, "*q queries d"], key: Float[Tensor, "*k keys d"]
) -> Float[Tensor, "... queries keys"]:
    """Return inner products over √d, whose variance does not grow with the width: `Q Kᵀ / √d`."""
    return dot(query, key) / math.sqrt(query.shape[-1])


def attend(
    query: Float[Tensor, "*q queries d_q"],
    key: Float[Tensor, "*k keys d_k"],
    value: Float[Tensor, "*k keys d_v"],
    *,
    mask: Mask | None = None,
    causal: bool = False,
    scale: float | None = None,
    softcap: float | None = None,
    normalizer: Normalizer = "softmax",
    dropout: float = 0.0,
    similarity: Similarity | None = None,
) -> Float[Tensor, "... queries d_v"]:
    """Return the attention output `softmax(scale · Q Kᵀ + mask) V`.

    The third dimension from the end, if there is one, is the heads. Key and value may have fewer
    heads than the query (grouped-query attention): each serves a group of adjacent query heads.

    - `mask`: boolean (True: attend) or additive (−∞: do not attend), broadcast to
      `[…, queries, keys]`.
    - `causal`: the last query attends to all keys, the one before it to all but the last, and so
      on: new queries may attend to a longer, cached sequence of keys.
    - `scale`: the factor that *multiplies* the scores, as in torch; by default 1/√d for the inner
      product and 1 for another `similarity`. (The `scale` of a worked problem *divides* them.)
    - `softcap`: bounds the scores to ±softcap by `softcap · tanh(scores / softcap)`.
    - `normalizer`: "softmax", "sigmoid" (of each score alone) or "sum" (divide by the row's sum).
    - `dropout`: the probability of dropping a weight. It always applies: pass 0 in evaluation.

    A query that may not attend to any key gets zeros. `causal` alone needs no memory for a mask,
    unless there are fewer queries than keys; with a `mask` it needs `[queries, keys]`.

    Taps: scores, scaled, capped (with a softcap), masked, weights, mixed.

    >>> x = torch.tensor([[1.0, 0.0], [0.0, 1.0]])
    >>> attend(x, x, x)  # the parameter-free softmax(X Xᵀ / √d) X
    tensor([[0.6698, 0.3302],
            [0.3302, 0.6698]])
    """
    _check(query, key, value, mask, normalizer, dot_product=similarity is None)
    if scale is None:
        scale = 1 / math.sqrt(query.shape[-1]) if similarity is None else 1.0
    is_standard = (
        similarity is None
        and softcap is None
        and normalizer == "softmax"
        and not is_tapped("scores", "scaled", "masked", "weights")
        and not torch.compiler.is_exporting()  # the shapes decide which arguments the kernel needs
    )
    if is_standard and (dropout == 0.0 or query.is_cuda):
        mixed = _fused(query, key, value, mask, causal, scale, dropout)
    elif is_standard:  # with dropout on a CPU, the kernel is slower than the formula
        mixed = _chunked(query, key, value, mask, causal, scale, dropout)
    else:
        key, value = _repeat_kv(query, key, value)
        scores = tap("scores", (similarity or dot)(query, key))
        scaled = tap("scaled", scores * scale)
        if softcap is not None:
            scaled = tap("capped", softcap * torch.tanh(scaled / softcap))
        masked = tap("masked", _apply_mask(scaled, mask, causal))
        # A similarity or an intervention of a trace may have put −∞ into the scores as well.
        may_be_masked = (
            masked is not scaled or similarity is not None or is_tapped("scores", "scaled")
        )
        weights = tap("weights", _normalize(masked, normalizer, may_be_masked))
        mixed = (F.dropout(weights, dropout) if dropout else weights) @ value
    return tap("mixed", mixed)


def attend_last(
    query: Float[Tensor, "batch heads 1 d"],
    key: Float[Tensor, "batch shared keys d"],
    value: Float[Tensor, "batch shared keys d"],
) -> Float[Tensor, "batch heads 1 d"]:
    """Attend from one query per sequence to all keys, for generating token by token.

    The same as `attend` without its options and taps, whose checks would take as long as the
    computation itself.

    >>> query, keys = torch.randn(2, 4, 1, 8), torch.randn(2, 4, 9, 8)
    >>> torch.allclose(attend_last(query, keys, keys), attend(query, keys, keys))
    True
    """
    grouped = query.size(1) != key.size(1)
    return F.scaled_dot_product_attention(query, key, value, enable_gqa=grouped)


def attend_all(
    query: Float[Tensor, "batch heads queries d"],
    key: Float[Tensor, "batch shared keys d"],
    value: Float[Tensor, "batch shared keys d"],
    mask: Float[Tensor, "batch 1 1 keys"] | None,
) -> Float[Tensor, "batch heads queries d"]:
    """Attend from all queries to all keys that the additive mask allows; no taps.

    >>> query, keys = torch.randn(2, 4, 3, 8), torch.randn(2, 4, 9, 8)
    >>> torch.allclose(attend_all(query, keys, keys, None), attend(query, keys, keys), atol=1e-6)
    True
    """
    grouped = query.size(1) != key.size(1)
    return F.scaled_dot_product_attention(query, key, value, attn_mask=mask, enable_gqa=grouped)


def causal_mask(queries: int, keys: int, device: torch.device | None = None) -> Bool[Tensor, "q k"]:
    """Return a boolean mask: the last query attends to all keys, the one before to all but one, ….

    >>> causal_mask(2, 3).int()
    tensor([[1, 1, 0],
            [1, 1, 1]], dtype=torch.int32)
    """
    return torch.ones(queries, keys, dtype=torch.bool, device=device).tril(keys - queries)


def _fused(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    mask: Tensor | None,
    causal: bool,
    scale: float,
    dropout: float,
) -> Tensor:
    """Call torch's kernel with arguments for which it is fast and its memory linear."""
    queries, keys, d_v = query.shape[-2], key.shape[-2], value.shape[-1]
    is_causal = causal and mask is None and queries == keys  # the only case the kernel knows
    if causal and not is_causal and (mask is not None or queries > 1):
        allowed = causal_mask(queries, keys, query.device)
        mask = (
            allowed
            if mask is None
            else _apply_mask(_to_additive(mask, query), allowed, causal=False)
        )
    if mask is not None:
        mask = _to_additive(mask, query)
        mask = mask if mask.dim() > 1 else mask.reshape(1, -1)
    # The kernel needs keys and values of one width: zeros change neither products nor sums.
    width = max(query.shape[-1], d_v)
    query, key, value = (_pad_width(t, width) for t in (query, key, value))
    batch_shape: Sequence[int] = query.shape[:-2]
    if mask is not None or query.dim() != 4 or key.dim() != 4 or len(query) != len(key):
        batch_shape, query, key, value, mask = _to_4d(query, key, value, mask)
    mixed = F.scaled_dot_product_attention(
        query,
        key,
        value,
        attn_mask=mask,
        dropout_p=dropout,
        is_causal=is_causal,
        scale=scale,
        enable_gqa=query.shape[1] != key.shape[1],
    )
    if d_v < width:
        mixed = mixed[..., :d_v]
    return mixed if len(batch_shape) == 2 else mixed.reshape(*batch_shape, queries, d_v)


def _chunked(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    mask: Tensor | None,
    causal: bool,
    scale: float,
    dropout: float,
) -> Tensor:
    """Compute the softmax formula for as many sequences at a time as fit into the CPU's cache."""
    queries, keys = query.shape[-2], key.shape[-2]
    if mask is not None:
        mask = _to_additive(mask, query)
    if causal:
        allowed = causal_mask(queries, keys, query.device)
        mask = (
            _to_additive(allowed, query)
            if mask is None
            else _apply_mask(mask, allowed, causal=False)
        )
    # Only rows that are masked completely need more than a softmax.
    has_empty_rows = mask is not None and bool((mask == -math.inf).all(-1).any())
    if mask is not None and mask.dim() < 2:
        mask = mask.reshape(1, -1)
    key, value = _repeat_kv(query, key, value)
    batch_shape, query, key, value, mask = _to_4d(query * scale, key, value, mask)
    chunk = max(1, CHUNK_WEIGHTS // max(1, query.shape[1] * queries * keys))
    chunks = [torch.split(t, chunk) for t in (query, key.transpose(-2, -1), value)]
    masks: Sequence[Tensor | None] = [mask] * len(chunks[0])
    if mask is not None and mask.dim() == 4:
        masks = torch.split(mask, chunk)
    mixed = []
    for q, k, v, m in zip(*chunks, masks, strict=True):
        scores = q @ k if m is None else (q @ k).add_(m)
        weights = _normalize(scores, "softmax", has_empty_rows)
        mixed.append(F.dropout(weights, dropout) @ v)
    return torch.cat(mixed).reshape(*batch_shape, queries, value.shape[-1])


def _repeat_kv(query: Tensor, key: Tensor, value: Tensor) -> tuple[Tensor, Tensor]:
    """Repeat the key and value heads that serve several query heads each."""
    heads, kv_heads = _num_heads(query), _num_heads(key)
    if kv_heads in (1, heads):
        return key, value
    return tuple(t.repeat_interleave(heads // kv_heads, dim=-3) for t in (key, value))  # type: ignore[return-value]


def _pad_width(t: Tensor, width: int) -> Tensor:
    """Pad vectors with zeros, and make each contiguous in memory, as the kernel needs."""
    if t.shape[-1] < width:
        return F.pad(t, (0, width - t.shape[-1]))
    return t if t.stride(-1) == 1 else t.contiguous()


def _to_4d(
    query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None
) -> tuple[list[int], Tensor, Tensor, Tensor, Tensor | None]:
    """Return the batch shape of the output, and all tensors as `[batch, heads, …]`."""
    batch_shape = _broadcast(
        query.shape[:-2],
        key.shape[:-3] + (1,) * (key.dim() > 2),  # a key head may serve several query heads
        () if mask is None else mask.shape[:-2],
    )
    batch, heads = batch_shape[:-1], batch_shape[-1] if batch_shape else 1

    def expand(t: Tensor, heads: int) -> Tensor:
        shape = heads, *t.shape[-2:]
        return t.expand(*batch, *shape).reshape(math.prod(batch), *shape)

    if mask is not None and mask.dim() > 2:
        mask = expand(mask, _num_heads(mask))
    return (
        batch_shape,
        expand(query, heads),
        expand(key, _num_heads(key)),
        expand(value, _num_heads(value)),
        mask,
    )


def _broadcast(*shapes: Sequence[int]) -> list[int]:
    """Return the common broadcast shape (torch.broadcast_shapes takes ten times as long)."""
    aligned = zip_longest(*map(reversed, shapes), fillvalue=1)
    return [max(sizes) if min(sizes) else 0 for sizes in aligned][::-1]


def _to_additive(mask: Tensor, like: Tensor) -> Tensor:
    """Convert a boolean mask to 0 and −∞: for a boolean one the kernel allocates a copy."""
    if mask.dtype != torch.bool:
        return mask.to(like.dtype)
    return torch.zeros_like(mask, dtype=like.dtype).masked_fill(~mask, -math.inf)


def _apply_mask(scores: Tensor, mask: Tensor | None, causal: bool) -> Tensor:
    """Set scores that the mask forbids to −∞; return the same tensor if there is no mask."""
    if mask is not None:
        scores = (
            torch.where(mask, scores, -math.inf)
            if mask.dtype == torch.bool
            else scores + mask.to(scores.dtype)
        )
    if causal:
        queries, keys = scores.shape[-2:]
        scores = torch.where(causal_mask(queries, keys, scores.device), scores, -math.inf)
    return scores


def _normalize(masked: Tensor, normalizer: str, may_be_masked: bool) -> Tensor:
    """Normalize each row of scores to weights; `may_be_masked`: some scores may be −∞."""
    if normalizer == "sigmoid":
        return torch.sigmoid(masked)
    if not may_be_masked:
        if normalizer == "softmax":
            return torch.softmax(masked, dim=-1)
        return masked / masked.sum(-1, keepdim=True)
    is_masked = masked == -math.inf
    is_empty = is_masked.all(-1, keepdim=True)  # no key is allowed: the weights are zeros, not NaN
    if normalizer == "softmax":
        return torch.softmax(masked.masked_fill(is_empty, 0), dim=-1).masked_fill(is_empty, 0)
    allowed = masked.masked_fill(is_masked, 0)
    return allowed / allowed.sum(-1, keepdim=True).masked_fill(is_empty, 1)


def _num_heads(t: Tensor) -> int:
    return t.shape[-3] if t.dim() > 2 else 1


def _check(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    mask: Tensor | None,
    normalizer: str,
    dot_product: bool,
) -> None:
    if normalizer not in NORMALIZERS:
        raise UserError(f"normalizer {normalizer!r}: {did_you_mean(normalizer, NORMALIZERS)}")
    if key.shape[:-1] != value.shape[:-1]:
        raise UserError(
            f"keys of shape {tuple(key.shape)} but values of shape {tuple(value.shape)}: "
            "all dimensions but the last must agree, one value for each key"
        )
    if dot_product and query.shape[-1] != key.shape[-1]:
        raise UserError(
            f"queries of width {query.shape[-1]} but keys of width {key.shape[-1]}: "
            "an inner product needs equal widths"
        )
    heads, kv_heads = _num_heads(query), _num_heads(key)
    if kv_heads == 0 or heads % kv_heads:
        raise UserError(
            f"{kv_heads} key heads cannot serve {heads} query heads: the number must divide {heads}"
        )
    if mask is not None:
        _check_mask(mask, query.shape[-2], key.shape[-2])


def _check_mask(mask: Tensor, queries: int, keys: int) -> None:
    if mask.dtype != torch.bool and not mask.is_floating_point():
        raise UserError(
            f"a mask of {mask.dtype}: expected booleans (True: attend) or floats that are added"
        )
    if any(n not in (1, fits) for n, fits in zip(mask.shape[::-1], (keys, queries), strict=False)):
        raise UserError(
            f"a mask of shape {tuple(mask.shape)} does not fit {queries} queries and {keys} keys"
        )
