"""One attention: `attend` is the only place where queries meet keys.

When nobody looks, torch's fused kernel does the work in memory linear in the length. When a trace
wants to see the scores or weights, or the case is one that the kernel does not know, the formula is
computed as it is written. The two agree to rounding, and a test says so.
"""

import math
from typing import Literal, Protocol, TypeAlias, get_args

import torch
import torch.nn.functional as F
from jaxtyping import Bool, Float
from torch import Tensor

from workings.errors import UserError, near
from workings.trace import tap, wanted

Mask: TypeAlias = Bool[Tensor, "..."] | Float[Tensor, "..."]
Normalizer: TypeAlias = Literal["softmax", "sigmoid", "sum"]
NORMALIZERS: tuple[str, ...] = get_args(Normalizer)


class Similarity(Protocol):
    """How alike is each query to each key?"""

    def __call__(
        self, query: Float[Tensor, "*q queries d_q"], key: Float[Tensor, "*k keys d_k"], /
    ) -> Float[Tensor, "... queries keys"]: ...


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

    A query that may look at nothing gets zeros. Taps: scores, scaled, masked, weights, mixed.

    >>> x = torch.tensor([[1.0, 0.0], [0.0, 1.0]])
    >>> attend(x, x, x)  # the parameter-free softmax(X Xᵀ / √d) X
    tensor([[0.6698, 0.3302],
            [0.3302, 0.6698]])
    """
    _check(query, key, value, normalizer, dot_product=similarity is None)
    if scale is None:
        scale = 1 / math.sqrt(query.shape[-1]) if similarity is None else 1.0
    fused = (
        similarity is None
        and softcap is None
        and normalizer == "softmax"
        and key.shape[-2] > 0
        # On the CPU the kernel is slower than the formula once it has to drop weights.
        and (dropout == 0.0 or query.is_cuda)
        and not wanted("scores", "scaled", "masked", "weights")
    )
    if fused:
        mixed = _fused(query, key, value, mask, causal, scale, dropout)
    else:
        heads, shared = _heads(query), _heads(key)
        if shared not in (1, heads):
            key, value = (t.repeat_interleave(heads // shared, dim=-3) for t in (key, value))
        scores = tap("scores", (similarity or dot)(query, key))
        scaled = tap("scaled", scores * scale)
        if softcap is not None:
            scaled = softcap * torch.tanh(scaled / softcap)
        masked = tap("masked", _masked(scaled, mask, causal))
        weights = tap("weights", _normalise(masked, normalizer, hides=masked is not scaled))
        mixed = (F.dropout(weights, dropout) if dropout else weights) @ value
    return tap("mixed", mixed)


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
    """Attend through torch's kernel, fitting the case to what keeps it fast and its memory linear."""
    queries, keys, d_v = query.shape[-2], key.shape[-2], value.shape[-1]
    square = causal and mask is None and queries == keys
    if causal and not square and (mask is not None or queries > 1):
        allowed = causal_mask(queries, keys, query.device)
        mask = allowed if mask is None else _masked(_additive(mask, query), allowed, causal=False)
    if mask is not None:
        mask = _additive(mask, query)
    # The kernel wants keys and values of one width; zeros change neither inner products nor sums.
    width = max(query.shape[-1], d_v)
    query, key, value = (
        t if t.shape[-1] == width else F.pad(t, (0, width - t.shape[-1]))
        for t in (query, key, value)
    )
    # It wants four dimensions, too: [batch, heads, time, width].
    lead = torch.broadcast_shapes(query.shape[:-3], key.shape[:-3])
    flat_query, flat_key, flat_value = (_four(t, lead) for t in (query, key, value))
    if mask is not None and mask.dim() > 4:
        mask = _four(mask, lead)
    mixed = F.scaled_dot_product_attention(
        flat_query,
        flat_key,
        flat_value,
        attn_mask=mask,
        dropout_p=dropout,
        is_causal=square,
        scale=scale,
        enable_gqa=flat_query.shape[1] != flat_key.shape[1],
    )
    heads = query.shape[-3:-2]  # empty where there are none
    return mixed[..., :d_v].reshape(*lead, *heads, queries, d_v)


def _four(t: Tensor, lead: torch.Size) -> Tensor:
    if t.dim() == 4 and t.shape[:1] == lead:
        return t
    t = t if t.dim() > 2 else t.unsqueeze(0)
    return t.expand(*lead, *t.shape[-3:]).reshape(-1, *t.shape[-3:])


def _additive(mask: Tensor, like: Tensor) -> Tensor:
    """Write a boolean mask as 0 and −∞: the kernel copies a boolean one at a cost in memory."""
    if mask.dtype != torch.bool:
        return mask.to(like.dtype)
    return torch.zeros_like(mask, dtype=like.dtype).masked_fill(~mask, -math.inf)


def _masked(scores: Tensor, mask: Tensor | None, causal: bool) -> Tensor:
    """Put −∞ where a query may not look; the scores themselves where it may look everywhere."""
    if mask is not None:
        scores = (
            torch.where(mask, scores, -math.inf) if mask.dtype == torch.bool else scores + mask
        )
    if causal:
        queries, keys = scores.shape[-2:]
        scores = torch.where(causal_mask(queries, keys, scores.device), scores, -math.inf)
    return scores


def _normalise(masked: Tensor, normalizer: str, hides: bool) -> Tensor:
    """Turn each row of scores into weights; `hides`: some may be −∞, in some rows perhaps all."""
    if normalizer == "sigmoid":
        return torch.sigmoid(masked)
    if not hides:
        if normalizer == "softmax":
            return torch.softmax(masked, dim=-1)
        return masked / masked.sum(-1, keepdim=True)
    hidden = masked == -math.inf
    empty = hidden.all(-1, keepdim=True)
    if normalizer == "softmax":
        return torch.softmax(masked.masked_fill(empty, 0), dim=-1).masked_fill(empty, 0)
    shown = masked.masked_fill(hidden, 0)
    return shown / shown.sum(-1, keepdim=True).masked_fill(empty, 1)


def _heads(t: Tensor) -> int:
    return t.shape[-3] if t.dim() > 2 else 1


def _check(query: Tensor, key: Tensor, value: Tensor, normalizer: str, dot_product: bool) -> None:
    if normalizer not in NORMALIZERS:
        raise UserError(f"normalizer {normalizer!r}: {near(normalizer, NORMALIZERS)}")
    if key.shape[-2] != value.shape[-2]:
        raise UserError(f"{key.shape[-2]} keys but {value.shape[-2]} values: a value for each key")
    if dot_product and query.shape[-1] != key.shape[-1]:
        raise UserError(
            f"queries of width {query.shape[-1]} but keys of width {key.shape[-1]}: "
            "an inner product needs one width"
        )
    heads, shared = _heads(query), _heads(key)
    if shared == 0 or heads % shared:
        raise UserError(
            f"{heads} query heads cannot share {shared} key heads: the second must divide the first"
        )
