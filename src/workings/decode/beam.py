"""Beam search: the best of several sequences followed at once, for a batch of sources."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch
from jaxtyping import Float, Int
from torch import Tensor

from workings.decode import AutoregressiveModel
from workings.errors import UserError

BLOCK_SIZE = 16  # tokens of which the largest is found at once


@dataclass(frozen=True)
class Hypothesis:
    """A sequence (without its stop token), the log of its probability, and what it is ranked by."""

    tokens: tuple[int, ...]
    log_probability: float
    score: float


def penalty_divisor(length: int, strength: float) -> float:
    """What a log probability is divided by; `length` counts the stop token.

    The form of Wu et al. (2016): ((5 + length) / 6) to the power of `strength`; 0: nothing.
    """
    return float(((5 + length) / 6) ** strength)


def best_reachable_score(best: float, length: int, max_length: int, strength: float) -> float:
    """The most that an unfinished sequence can come to, if it goes on with certainty.

    Its log probability `best` only falls, but a larger penalty brings the quotient up again.
    """
    return best / penalty_divisor(max_length if strength > 0 else length + 1, strength)


def length_limits(max_length: int | Sequence[int], num_sources: int) -> list[int]:
    """How many tokens there may be about each source: the same, or each its own."""
    limits = [max_length] * num_sources if isinstance(max_length, int) else list(max_length)
    assert len(limits) == num_sources
    if min(limits, default=1) < 1:
        raise UserError(f"max_length = {min(limits)}: it must be at least 1")
    return limits


@torch.no_grad()
def beam_search(
    model: AutoregressiveModel,
    source: Any,
    *,
    stop: int | None,
    max_length: int | Sequence[int],
    beams: int = 5,
    length_penalty: float = 0.0,
    num_best: int | None = None,
) -> list[list[Hypothesis]]:
    """Find for each source the `best` sequences of at most `longest` tokens, best first.

    As many as there are beams, if that is not said: to be sure of fewer takes fewer steps. Each
    source may have a `longest` of its own, so that it does not matter what it is searched with.

    A sequence ends where its stop is among the `beams` best continuations: one that is not was
    never a candidate. A source is done when no unfinished sequence can still come to rank among
    its finished ones. What has not stopped at `longest` tokens counts as it is. A single beam takes
    the likeliest token each time, and ends where that is the stop.
    """
    if beams < 1:
        raise UserError(f"beams = {beams}: there must be at least 1")
    count = min(num_best or beams, beams)
    looked_at = 2 * beams if beams > 1 else 1  # enough, if every beam has its stop among them
    scores, state = model.start(source)
    finished: list[list[Hypothesis]] = [[] for _ in scores]
    limits = length_limits(max_length, len(scores))
    ending = torch.tensor(limits, device=scores.device).unsqueeze(1)  # [active, 1]
    active = list(range(len(scores)))  # sources that are not done
    totals = scores.new_zeros(len(scores), 1)  # log probabilities: [active, beams]
    written = torch.zeros(len(scores), 1, 0, dtype=torch.long, device=scores.device)
    for length in range(1, max(limits, default=0) + 1):
        rows, tokens, values = find_candidates(scores, totals, looked_at)
        ends = (ending == length).expand_as(tokens)
        if stop is not None:
            ends = ends | (tokens == stop)
        for a, j in (ends & values.isfinite())[:, :beams].nonzero().tolist():
            text, last, value = written[a, rows[a, j]].tolist(), int(tokens[a, j]), values[a, j]
            text += [] if last == stop else [last]
            ranked = float(value) / penalty_divisor(length, length_penalty)
            _insert_ranked(
                finished[active[a]], Hypothesis(tuple(text), float(value), ranked), count
            )
        totals, order = values.masked_fill(ends, -torch.inf).topk(min(beams, values.shape[1]))
        rows, tokens = rows.gather(1, order), tokens.gather(1, order)
        open_ones = []
        for a, likeliest in enumerate(totals[:, 0].tolist()):
            found, limit = finished[active[a]], limits[active[a]]
            most = best_reachable_score(likeliest, length, limit, length_penalty)
            if likeliest > -math.inf and (len(found) < count or found[-1].score < most):
                open_ones.append(a)
        if not open_ones:
            break
        kept = torch.tensor(open_ones, device=scores.device)
        beams_before = written.shape[1]
        totals, rows, tokens, ending = totals[kept], rows[kept], tokens[kept], ending[kept]
        before = written[kept.unsqueeze(1), rows]  # [active, beams, length]
        written = torch.cat((before, tokens.unsqueeze(-1)), -1)
        active = [active[a] for a in open_ones]
        chosen = (kept.unsqueeze(1) * beams_before + rows).flatten()
        scores, state = model.step(tokens.flatten(), state.select(chosen))
    return finished


def find_candidates(
    scores: Float[Tensor, "rows vocabulary"], totals: Float[Tensor, "active beams"], count: int
) -> tuple[Int[Tensor, "active count"], Int[Tensor, "active count"], Float[Tensor, "active count"]]:
    """The best continuations of each source: of which beam, by which token, how likely.

    Every one of them is in one of the `count` blocks of tokens that have the largest of all; to
    find those and look into them takes a sixth of the time of sorting all tokens.
    """
    active, beams = totals.shape
    found = torch.log_softmax(scores.float(), -1).view(active, beams, -1)
    vocabulary = found.shape[-1]
    blocks = vocabulary // BLOCK_SIZE  # block b: tokens b, b + blocks, b + 2 blocks, …
    largest = found[..., : BLOCK_SIZE * blocks].view(active, beams, BLOCK_SIZE, blocks).amax(-2)
    # The few tokens that are left over are a block each: the last place of blocks that go on.
    largest = torch.cat((largest, found[..., BLOCK_SIZE * blocks :]), -1) + totals.unsqueeze(-1)
    each = largest.shape[-1]
    chosen = largest.flatten(1).topk(min(count, beams * each)).indices.unsqueeze(-1)
    rows, block = chosen // each, chosen % each  # [active, blocks chosen, 1]
    place = torch.arange(BLOCK_SIZE, device=scores.device)
    tokens = (block + blocks * place).flatten(1)
    rows = rows.expand(-1, -1, BLOCK_SIZE).flatten(1)
    grown = found.flatten(1).gather(1, rows * vocabulary + tokens) + totals.gather(1, rows)
    alone = (block >= blocks) & (place < BLOCK_SIZE - 1)
    grown.masked_fill_(alone.flatten(1), -torch.inf)
    values, order = grown.topk(min(count, beams * vocabulary))
    return rows.gather(1, order), tokens.gather(1, order), values


def _insert_ranked(finished: list[Hypothesis], hypothesis: Hypothesis, count: int) -> None:
    finished.append(hypothesis)
    finished.sort(key=lambda h: -h.score)
    del finished[count:]
