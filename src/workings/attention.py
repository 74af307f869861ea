"""One attention: `attend` is where queries meet keys; two short forms of it serve generation.

When nobody looks, torch's fused kernel does the work in memory linear in the length. When a trace
wants to see the scores or weights, or the case is one that the kernel does not know, the formula is
computed as it is written; with dropout on a CPU, a few sequences at a time. All agree to rounding,
and a test says so.
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
CHUNK_WEIGHTS = 2**18  # weights that a core's cache holds


@runtime_checkable
class Similarity(Protocol):
    """A measure of how alike a query and a key are: a function, or a module with weights."""

    def __call__(
        self, query: Float[Tensor, "*q queries d_q"], key: Float[Tensor, "*k keys d_k"], /
    ) -> Float[Tensor, "... queries keys"]:
        """Score every pair."""
        ...


def dot(
    query: Float[Tensor, "*q queries d"], key: Float[Tensor, "*k keys d"]
) -> Float[Tensor, "... queries keys"]:
    """Compare by the inner product: `Q Kᵀ`."""
    return query @ key.transpose(-2, -1)


def scaled_dot(
    query: Float[Tensor, "*q queries d"], key: Float[Tensor, "*k keys d"]
) -> Float[Tensor, "... queries keys"]:
    """Compare by the inner product over √d, so that its size does not grow with the width."""
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
    """Mix the values by how alike each query is to each key: `normalise(scale · Q Kᵀ + mask) V`.

    The dimension before the last two is the heads, where there are any; key and value may have
    fewer heads than the query, each then serving a group of neighbouring query heads.

    - `mask`: boolean (true: may look) or additive (−∞: may not), broadcast to `[…, queries, keys]`.
    - `causal`: the last query may look at every key, the one before it at all but the last, and so
      on, so that a block of new queries fits a longer, cached key sequence.
    - `scale` multiplies the scores: by default 1/√d for the inner product, 1 for any other
      `similarity`.
    - `softcap` bends the scores into ±softcap: `softcap · tanh(scores / softcap)`.
    - `normalizer`: "softmax", "sigmoid" (each weight on its own) or "sum" (divide by the sum).
    - `dropout` drops that share of the weights, here and now: a layer passes 0 when it evaluates.

    A query that may look at nothing gets zeros. A mask together with `causal`, or causal queries
    fewer than the keys, costs a mask of `[queries, keys]`; by itself `causal` costs nothing.

    Taps: scores, scaled, capped (where there is a softcap), masked, weights, mixed.

    >>> x = torch.tensor([[1.0, 0.0], [0.0, 1.0]])
    >>> attend(x, x, x)  # the parameter-free softmax(X Xᵀ / √d) X
    tensor([[0.6698, 0.3302],
            [0.3302, 0.6698]])
    """
    _check(query, key, value, mask, normalizer, dot_product=similarity is None)
    if scale is None:
        scale = 1 / math.sqrt(query.shape[-1]) if similarity is None else 1.0
    usual = (
        similarity is None
        and softcap is None
        and normalizer == "softmax"
        and not is_tapped("scores", "scaled", "masked", "weights")
    )
    if usual and (dropout == 0.0 or query.is_cuda):
        mixed = _fused(query, key, value, mask, causal, scale, dropout)
    elif usual:  # on the CPU the kernel is slower than the formula once it has to drop weights
        mixed = _chunked(query, key, value, mask, causal, scale, dropout)
    else:
        key, value = _repeat_kv(query, key, value)
        scores = tap("scores", (similarity or dot)(query, key))
        scaled = tap("scaled", scores * scale)
        if softcap is not None:
            scaled = tap("capped", softcap * torch.tanh(scaled / softcap))
        masked = tap("masked", _apply_mask(scaled, mask, causal))
        # A trace or a similarity may hide keys, too.
        hides = masked is not scaled or similarity is not None or is_tapped("scores", "scaled")
        weights = tap("weights", _normalize(masked, normalizer, hides))
        mixed = (F.dropout(weights, dropout) if dropout else weights) @ value
    return tap("mixed", mixed)


def attend_last(
    query: Float[Tensor, "batch heads 1 d"],
    key: Float[Tensor, "batch shared keys d"],
    value: Float[Tensor, "batch shared keys d"],
) -> Float[Tensor, "batch heads 1 d"]:
    """Let one query of each sequence look at every key: `attend`, where nothing is to be decided.

    For generating a token at a time, which takes hardly longer than deciding. No taps.

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
    """Let every query look at every key that the additive mask leaves: as `attend_last`, no taps.

    >>> query, keys = torch.randn(2, 4, 3, 8), torch.randn(2, 4, 9, 8)
    >>> torch.allclose(attend_all(query, keys, keys, None), attend(query, keys, keys), atol=1e-6)
    True
    """
    grouped = query.size(1) != key.size(1)
    return F.scaled_dot_product_attention(query, key, value, attn_mask=mask, enable_gqa=grouped)


def causal_mask(queries: int, keys: int, device: torch.device | None = None) -> Bool[Tensor, "q k"]:
    """Let the last query look at every key, the one before it at all but the last, and so on.

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
    """Attend through torch's kernel, in the form that keeps it fast and its memory linear."""
    queries, keys, d_v = query.shape[-2], key.shape[-2], value.shape[-1]
    square = causal and mask is None and queries == keys
    if causal and not square and (mask is not None or queries > 1):
        allowed = causal_mask(queries, keys, query.device)
        mask = (
            allowed
            if mask is None
            else _apply_mask(_to_additive(mask, query), allowed, causal=False)
        )
    if mask is not None:
        mask = _to_additive(mask, query)
        mask = mask if mask.dim() > 1 else mask.reshape(1, -1)
    # The kernel wants keys and values of one width; zeros change neither inner products nor sums.
    width = max(query.shape[-1], d_v)
    query, key, value = _widen(query, width), _widen(key, width), _widen(value, width)
    lead: Sequence[int] = query.shape[:-2]
    if mask is not None or query.dim() != 4 or key.dim() != 4 or len(query) != len(key):
        lead, query, key, value, mask = _to_4d(query, key, value, mask)
    mixed = F.scaled_dot_product_attention(
        query,
        key,
        value,
        attn_mask=mask,
        dropout_p=dropout,
        is_causal=square,
        scale=scale,
        enable_gqa=query.shape[1] != key.shape[1],
    )
    if d_v < width:
        mixed = mixed[..., :d_v]
    return mixed if len(lead) == 2 else mixed.reshape(*lead, queries, d_v)


def _chunked(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    mask: Tensor | None,
    causal: bool,
    scale: float,
    dropout: float,
) -> Tensor:
    """Write out the softmax formula, so many sequences at a time that their weights stay cached."""
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
    # Only a row that is hidden altogether needs more than a softmax.
    hides = mask is not None and bool((mask == -math.inf).all(-1).any())
    if mask is not None and mask.dim() < 2:
        mask = mask.reshape(1, -1)
    key, value = _repeat_kv(query, key, value)
    lead, query, key, value, mask = _to_4d(query * scale, key, value, mask)
    size = max(1, CHUNK_WEIGHTS // max(1, query.shape[1] * queries * keys))
    parts = [torch.split(t, size) for t in (query, key.transpose(-2, -1), value)]
    masks: Sequence[Tensor | None] = [mask] * len(parts[0])
    if mask is not None and mask.dim() == 4:
        masks = torch.split(mask, size)
    mixed = []
    for q, k, v, m in zip(*parts, masks, strict=True):
        scores = q @ k if m is None else (q @ k).add_(m)
        weights = _normalize(scores, "softmax", hides)
        mixed.append(F.dropout(weights, dropout) @ v)
    return torch.cat(mixed).reshape(*lead, queries, value.shape[-1])


def _repeat_kv(query: Tensor, key: Tensor, value: Tensor) -> tuple[Tensor, Tensor]:
    """Repeat keys and values that serve groups of query heads."""
    heads, shared = _num_heads(query), _num_heads(key)
    if shared in (1, heads):
        return key, value
    return tuple(t.repeat_interleave(heads // shared, dim=-3) for t in (key, value))  # type: ignore[return-value]


def _widen(t: Tensor, width: int) -> Tensor:
    """Fill up with zeros; and the kernel wants the numbers of a vector side by side."""
    if t.shape[-1] < width:
        return F.pad(t, (0, width - t.shape[-1]))
    return t if t.stride(-1) == 1 else t.contiguous()


def _to_4d(
    query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None
) -> tuple[list[int], Tensor, Tensor, Tensor, Tensor | None]:
    """Bring all into the kernel's `[batch, heads, …]`; say what the result has in its place."""
    lead = _broadcast(
        query.shape[:-2],
        key.shape[:-3] + (1,) * (key.dim() > 2),  # each key head serves several, perhaps
        () if mask is None else mask.shape[:-2],
    )
    batch, heads = lead[:-1], lead[-1] if lead else 1

    def four(t: Tensor, heads: int) -> Tensor:
        shape = heads, *t.shape[-2:]
        return t.expand(*batch, *shape).reshape(math.prod(batch), *shape)

    if mask is not None and mask.dim() > 2:
        mask = four(mask, _num_heads(mask))
    return (
        lead,
        four(query, heads),
        four(key, _num_heads(key)),
        four(value, _num_heads(value)),
        mask,
    )


def _broadcast(*shapes: Sequence[int]) -> list[int]:
    """Find the shape that all of these fit (torch.broadcast_shapes takes ten times as long)."""
    aligned = zip_longest(*map(reversed, shapes), fillvalue=1)
    return [max(sizes) if min(sizes) else 0 for sizes in aligned][::-1]


def _to_additive(mask: Tensor, like: Tensor) -> Tensor:
    """Write a boolean mask as 0 and −∞: the kernel copies a boolean one at a cost in memory."""
    if mask.dtype != torch.bool:
        return mask.to(like.dtype)
    return torch.zeros_like(mask, dtype=like.dtype).masked_fill(~mask, -math.inf)


def _apply_mask(scores: Tensor, mask: Tensor | None, causal: bool) -> Tensor:
    """Put −∞ where a query may not look; the scores themselves where it may look everywhere."""
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
    """Turn each row of scores into weights; `hides`: some may be −∞, in some rows perhaps all."""
    if normalizer == "sigmoid":
        return torch.sigmoid(masked)
    if not may_be_masked:
        if normalizer == "softmax":
            return torch.softmax(masked, dim=-1)
        return masked / masked.sum(-1, keepdim=True)
    hidden = masked == -math.inf
    empty = hidden.all(-1, keepdim=True)
    if normalizer == "softmax":
        return torch.softmax(masked.masked_fill(empty, 0), dim=-1).masked_fill(empty, 0)
    shown = masked.masked_fill(hidden, 0)
    return shown / shown.sum(-1, keepdim=True).masked_fill(empty, 1)


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
            "all but the width must agree, a value for each key"
        )
    if dot_product and query.shape[-1] != key.shape[-1]:
        raise UserError(
            f"queries of width {query.shape[-1]} but keys of width {key.shape[-1]}: "
            "an inner product needs one width"
        )
    heads, shared = _num_heads(query), _num_heads(key)
    if shared == 0 or heads % shared:
        raise UserError(
            f"{heads} query heads cannot share {shared} key heads: the second must divide the first"
        )
    if mask is not None:
        _check_mask(mask, query.shape[-2], key.shape[-2])


def _check_mask(mask: Tensor, queries: int, keys: int) -> None:
    if mask.dtype != torch.bool and not mask.is_floating_point():
        raise UserError(
            f"a mask of {mask.dtype}: expected booleans (true: may look) or floats to be added"
        )
    if any(n not in (1, fits) for n, fits in zip(mask.shape[::-1], (keys, queries), strict=False)):
        raise UserError(
            f"a mask of shape {tuple(mask.shape)} does not fit {queries} queries and {keys} keys"
        )
