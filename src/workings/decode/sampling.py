"""Greedy decoding and sampling: temperature, repetition penalty, top-k, top-p and min-p."""

import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import torch
from jaxtyping import Float, Int
from torch import Tensor

from workings.decode import AutoregressiveModel
from workings.errors import UserError


@dataclass(frozen=True, kw_only=True)
class Sampling:
    """How the next token is chosen from its logits. All filters apply, in this order."""

    temperature: float = 1.0
    """divides the logits: below 1 more predictable, above 1 more random; 0: the likeliest token"""
    repetition_penalty: float = 1.0
    """divides positive logits of tokens already generated, and multiplies negative ones"""
    top_k: int = 0
    """keep the k likeliest tokens; 0: all"""
    top_p: float = 1.0
    """keep the likeliest tokens whose probabilities add up to p"""
    min_p: float = 0.0
    """keep tokens with at least this fraction of the likeliest token's probability"""
    seed: int = 0
    """seed of the random generator: the same seed gives the same tokens"""
    suppress_tokens: tuple[int, ...] = ()
    """ids of tokens that are never generated, such as special tokens"""

    def __post_init__(self) -> None:
        if not 0 <= self.temperature < math.inf:
            raise UserError(f"temperature = {self.temperature}: must be 0 (greedy) or more")
        if self.top_k < 0:
            raise UserError(f"top_k = {self.top_k}: must be 0 (all tokens) or more")
        if not 0 <= self.seed < 2**63:
            raise UserError(f"seed = {self.seed}: must be a whole number from 0 to below 2**63")
        if not 0 < self.top_p <= 1:
            raise UserError(f"top_p = {self.top_p}: must be above 0 and at most 1")
        if not 0 <= self.min_p <= 1:
            raise UserError(f"min_p = {self.min_p}: must be from 0 to 1")
        if not 0 < self.repetition_penalty < math.inf:
            raise UserError(
                f"repetition_penalty = {self.repetition_penalty}: must be above 0 (1: no penalty)"
            )


GREEDY = Sampling(temperature=0.0)
MIN_TEMPERATURE = 1e-30  # smaller numbers are 0 in single precision


def filter_probabilities(
    logits: Float[Tensor, "batch vocabulary"],
    sampling: Sampling,
    previous: Int[Tensor, "batch time"] | None = None,
) -> Float[Tensor, "batch vocabulary"]:
    """Return the probabilities to sample from; tokens that are filtered out have probability 0.

    `previous` are the tokens already generated, for the repetition penalty.

    >>> filter_probabilities(torch.tensor([[2.0, 1.0, 0.0]]), Sampling(top_k=2))
    tensor([[0.7311, 0.2689, 0.0000]])
    """
    logits = logits.float()
    if sampling.suppress_tokens:
        suppressed = torch.tensor(sampling.suppress_tokens, device=logits.device)
        logits = logits.index_fill(1, suppressed, -torch.inf)
    if previous is not None and sampling.repetition_penalty != 1.0:
        is_repeated = torch.zeros_like(logits, dtype=torch.bool).scatter_(1, previous, True)
        penalty = sampling.repetition_penalty
        penalized = torch.where(logits > 0, logits / penalty, logits * penalty)
        logits = torch.where(is_repeated, penalized, logits)
    if sampling.temperature == 0:
        return torch.nn.functional.one_hot(logits.argmax(-1), logits.shape[-1]).float()
    # Subtract the maximum, so that a low temperature does not overflow.
    logits = (logits - logits.amax(-1, keepdim=True)) / max(sampling.temperature, MIN_TEMPERATURE)
    if 0 < sampling.top_k < logits.shape[-1]:
        kth_largest = logits.topk(sampling.top_k, dim=-1).values[:, -1:]
        logits = logits.masked_fill(logits < kth_largest, -torch.inf)
    probabilities = torch.softmax(logits, -1)
    if sampling.top_p < 1:
        ranked, order = probabilities.sort(-1, descending=True)
        is_beyond = ranked.cumsum(-1) - ranked >= sampling.top_p  # the tokens before reach top_p
        is_dropped = torch.zeros_like(is_beyond).scatter(1, order, is_beyond)
        probabilities = probabilities.masked_fill(is_dropped, 0.0)
    if sampling.min_p > 0:
        threshold = sampling.min_p * probabilities.amax(-1, keepdim=True)
        probabilities = probabilities.masked_fill(probabilities < threshold, 0.0)
    return probabilities / probabilities.sum(-1, keepdim=True)


@torch.inference_mode()
def generate(
    model: AutoregressiveModel, source: Any, max_tokens: int, sampling: Sampling = GREEDY
) -> Iterator[tuple[Int[Tensor, " batch"], Float[Tensor, "batch vocabulary"]]]:
    """Yield up to `max_tokens` tokens after a source, each with the logits it was chosen from.

    The caller stops the iteration where the text ends.
    """
    generator = torch.Generator().manual_seed(sampling.seed)
    logits, state = model.start(source)
    tokens: list[Tensor] = []
    for k in range(max_tokens):
        previous = torch.stack(tokens, 1) if tokens and sampling.repetition_penalty != 1.0 else None
        token = _sample_token(logits, sampling, previous, generator)
        yield token, logits
        if k + 1 < max_tokens:
            tokens.append(token)
            logits, state = model.step(token, state)


def _sample_token(
    logits: Tensor, sampling: Sampling, previous: Tensor | None, generator: torch.Generator
) -> Int[Tensor, " batch"]:
    if sampling.temperature == 0 and previous is None and not sampling.suppress_tokens:
        return logits.argmax(-1)
    probabilities = filter_probabilities(logits, sampling, previous).cpu()
    return torch.multinomial(probabilities, 1, generator=generator).squeeze(1).to(logits.device)
