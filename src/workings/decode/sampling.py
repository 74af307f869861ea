"""One token after the other: the likeliest, or one drawn from those that are likely enough."""

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
    """How the next token is chosen from its scores. All filters are applied, in this order."""

    temperature: float = 1.0
    """scores are divided by it: below 1 surer, above 1 wilder; 0: always the likeliest"""
    repetition_penalty: float = 1.0
    """tokens that were there already count so many times less (their scores by this factor)"""
    top_k: int = 0
    """only the so many likeliest; 0: all"""
    top_p: float = 1.0
    """only the likeliest that together have this probability"""
    min_p: float = 0.0
    """only those at least so many times as likely as the likeliest"""
    seed: int = 0
    """the same seed draws the same tokens"""
    suppress_tokens: tuple[int, ...] = ()
    """tokens that are not drawn: those that no text has"""

    def __post_init__(self) -> None:
        if not 0 <= self.temperature < math.inf:
            raise UserError(f"temperature = {self.temperature}: 0 (the likeliest) or above")
        if self.top_k < 0:
            raise UserError(f"top_k = {self.top_k}: 0 (all) or above")
        if not 0 <= self.seed < 2**63:
            raise UserError(f"seed = {self.seed}: a whole number from 0 to below 2**63")
        if not 0 < self.top_p <= 1:
            raise UserError(f"top_p = {self.top_p}: above 0, at most 1")
        if not 0 <= self.min_p <= 1:
            raise UserError(f"min_p = {self.min_p}: from 0 to 1")
        if not 0 < self.repetition_penalty < math.inf:
            raise UserError(
                f"repetition_penalty = {self.repetition_penalty}: above 0 (1: no matter)"
            )


GREEDY = Sampling(temperature=0.0)
MIN_TEMPERATURE = 1e-30  # single precision knows no much smaller number but 0


def filter_probabilities(
    scores: Float[Tensor, "batch vocabulary"],
    sampling: Sampling,
    previous: Int[Tensor, "batch time"] | None = None,
) -> Float[Tensor, "batch vocabulary"]:
    """Turn scores into the probabilities that are drawn from; what is filtered out has none.

    >>> filter_probabilities(torch.tensor([[2.0, 1.0, 0.0]]), Sampling(top_k=2))
    tensor([[0.7311, 0.2689, 0.0000]])
    """
    scores = scores.float()
    if sampling.suppress_tokens:
        scores = scores.index_fill(
            1, torch.tensor(sampling.suppress_tokens, device=scores.device), -torch.inf
        )
    if previous is not None and sampling.repetition_penalty != 1.0:
        there = torch.zeros_like(scores, dtype=torch.bool).scatter_(1, previous, True)
        weaker = torch.where(
            scores > 0, scores / sampling.repetition_penalty, scores * sampling.repetition_penalty
        )
        scores = torch.where(there, weaker, scores)
    if sampling.temperature == 0:
        return torch.nn.functional.one_hot(scores.argmax(-1), scores.shape[-1]).float()
    # The largest becomes 0, so that none grows beyond what is a number, however cold it is.
    scores = (scores - scores.amax(-1, keepdim=True)) / max(sampling.temperature, MIN_TEMPERATURE)
    if 0 < sampling.top_k < scores.shape[-1]:
        least = scores.topk(sampling.top_k, dim=-1).values[:, -1:]
        scores = scores.masked_fill(scores < least, -torch.inf)
    chances = torch.softmax(scores, -1)
    if sampling.top_p < 1:
        ranked, order = chances.sort(-1, descending=True)
        beyond = (
            ranked.cumsum(-1) - ranked >= sampling.top_p
        )  # what stands before is enough already
        chances = chances.masked_fill(torch.zeros_like(beyond).scatter(1, order, beyond), 0.0)
    if sampling.min_p > 0:
        chances = chances.masked_fill(
            chances < sampling.min_p * chances.amax(-1, keepdim=True), 0.0
        )
    return chances / chances.sum(-1, keepdim=True)


@torch.inference_mode()
def generate(
    model: AutoregressiveModel, source: Any, max_tokens: int, sampling: Sampling = GREEDY
) -> Iterator[tuple[Int[Tensor, " batch"], Float[Tensor, "batch vocabulary"]]]:
    """Go on from a condition; give each token as soon as it is chosen, with the scores it had.

    The consumer stops when it has enough; `tokens` is the most.
    """
    draw = torch.Generator().manual_seed(sampling.seed)
    scores, state = model.start(source)
    chosen: list[Tensor] = []
    for k in range(max_tokens):
        before = torch.stack(chosen, 1) if chosen and sampling.repetition_penalty != 1.0 else None
        token = _sample_token(scores, sampling, before, draw)
        yield token, scores
        if k + 1 < max_tokens:
            chosen.append(token)
            scores, state = model.step(token, state)


def _sample_token(
    scores: Tensor, sampling: Sampling, previous: Tensor | None, generator: torch.Generator
) -> Int[Tensor, " batch"]:
    if sampling.temperature == 0 and previous is None and not sampling.suppress_tokens:
        return scores.argmax(-1)
    chances = filter_probabilities(scores, sampling, previous).cpu()
    return torch.multinomial(chances, 1, generator=generator).squeeze(1).to(scores.device)
