"""Beam search for a batch of sources."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import torch
from jaxtyping import Float, Int
from torch import Tensor

from workings.decode import AutoregressiveModel
from workings.errors import UserError

BLOCK_SIZE = 16  # tokens whose maximum is computed first when candidates are searched


@dataclass(frozen=True)
class Hypothesis:
    """A generated sequence without its stop token, its log probability and its ranking score."""

    tokens: tuple[int, ...]
    log_probability: float
    score: float


class SearchFunction(Protocol):
    """The signature of `beam_search` for one model, and of other engines' searches."""

    def __call__(
        self,
        source: Any,
        *,
        stop: int,
        max_length: Sequence[int],
        beams: int,
        length_penalty: float,
    ) -> list[list[Hypothesis]]: ...


def penalty_divisor(length: int, strength: float) -> float:
    """Return the length penalty of Wu et al. (2016): `((5 + length) / 6) ** strength`.

    The log probability is divided by it. `length` counts the stop token.
    """
    return float(((5 + length) / 6) ** strength)


def best_reachable_score(best: float, length: int, max_length: int, strength: float) -> float:
    """Return the highest score that an unfinished sequence of log probability `best` can reach.

    The log probability can only fall, but a longer sequence may be divided by a larger penalty.
    """
    return best / penalty_divisor(max_length if strength > 0 else length + 1, strength)


def length_limits(max_length: int | Sequence[int], num_sources: int) -> list[int]:
    """Return the maximum length for each source: one for all, or one each."""
    limits = [max_length] * num_sources if isinstance(max_length, int) else list(max_length)
    assert len(limits) == num_sources
    if min(limits, default=1) < 1:
        raise UserError(f"max_length = {min(limits)}: must be at least 1")
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
    """Return for each source the `num_best` hypotheses (default: `beams`), the best first.

    `max_length` may differ by source, so that the result does not depend on the rest of the batch.

    A hypothesis ends where the `stop` token is among the `beams` best continuations, or at
    `max_length` tokens. The search for a source ends when no unfinished hypothesis can reach the
    score of its finished ones: a smaller `num_best` needs fewer steps. One beam is greedy search.
    """
    if beams < 1:
        raise UserError(f"beams = {beams}: must be at least 1")
    num_best = min(num_best or beams, beams)
    num_candidates = 2 * beams if beams > 1 else 1  # enough if each beam's stop is among them
    logits, state = model.start(source)
    finished: list[list[Hypothesis]] = [[] for _ in logits]
    limits = length_limits(max_length, len(logits))
    limit_tensor = torch.tensor(limits, device=logits.device).unsqueeze(1)  # [active, 1]
    active = list(range(len(logits)))  # sources that are still searched
    totals = logits.new_zeros(len(logits), 1)  # log probabilities: [active, beams]
    prefixes = torch.zeros(len(logits), 1, 0, dtype=torch.long, device=logits.device)
    for length in range(1, max(limits, default=0) + 1):
        rows, tokens, values = find_candidates(logits, totals, num_candidates)
        ends = (limit_tensor == length).expand_as(tokens)
        if stop is not None:
            ends = ends | (tokens == stop)
        for a, j in (ends & values.isfinite())[:, :beams].nonzero().tolist():
            sequence, last = prefixes[a, rows[a, j]].tolist(), int(tokens[a, j])
            sequence += [] if last == stop else [last]
            log_probability = float(values[a, j])
            score = log_probability / penalty_divisor(length, length_penalty)
            hypothesis = Hypothesis(tuple(sequence), log_probability, score)
            _insert_ranked(finished[active[a]], hypothesis, num_best)
        totals, order = values.masked_fill(ends, -torch.inf).topk(min(beams, values.shape[1]))
        rows, tokens = rows.gather(1, order), tokens.gather(1, order)
        continued = []  # indices into `active`
        for a, likeliest in enumerate(totals[:, 0].tolist()):
            done, limit = finished[active[a]], limits[active[a]]
            reachable = best_reachable_score(likeliest, length, limit, length_penalty)
            if likeliest > -math.inf and (len(done) < num_best or done[-1].score < reachable):
                continued.append(a)
        if not continued:
            break
        kept = torch.tensor(continued, device=logits.device)
        num_prefixes = prefixes.shape[1]
        totals, rows, tokens = totals[kept], rows[kept], tokens[kept]
        limit_tensor = limit_tensor[kept]
        parents = prefixes[kept.unsqueeze(1), rows]  # [active, beams, length]
        prefixes = torch.cat((parents, tokens.unsqueeze(-1)), -1)
        active = [active[a] for a in continued]
        state_rows = (kept.unsqueeze(1) * num_prefixes + rows).flatten()
        logits, state = model.step(tokens.flatten(), state.select(state_rows))
    return finished


def find_candidates(
    logits: Float[Tensor, "rows vocabulary"], totals: Float[Tensor, "active beams"], count: int
) -> tuple[Int[Tensor, "active count"], Int[Tensor, "active count"], Float[Tensor, "active count"]]:
    """Return the `count` best continuations of each source: beam, token and log probability.

    Each is in one of the `count` blocks of tokens with the largest maximum: finding these blocks
    and searching only them takes a sixth of the time of a top-k over all tokens.
    """
    active, beams = totals.shape
    log_probabilities = torch.log_softmax(logits.float(), -1).view(active, beams, -1)
    vocabulary = log_probabilities.shape[-1]
    blocks = vocabulary // BLOCK_SIZE  # block b: tokens b, b + blocks, b + 2 blocks, …
    in_blocks = log_probabilities[..., : BLOCK_SIZE * blocks]
    maxima = in_blocks.view(active, beams, BLOCK_SIZE, blocks).amax(-2)
    # The remaining tokens are a block each: the last position of further blocks.
    maxima = torch.cat((maxima, log_probabilities[..., BLOCK_SIZE * blocks :]), -1)
    maxima = maxima + totals.unsqueeze(-1)
    blocks_per_beam = maxima.shape[-1]
    chosen = maxima.flatten(1).topk(min(count, beams * blocks_per_beam)).indices.unsqueeze(-1)
    rows, block = chosen // blocks_per_beam, chosen % blocks_per_beam  # [active, chosen, 1]
    position = torch.arange(BLOCK_SIZE, device=logits.device)
    tokens = (block + blocks * position).flatten(1)
    rows = rows.expand(-1, -1, BLOCK_SIZE).flatten(1)
    candidates = log_probabilities.flatten(1).gather(1, rows * vocabulary + tokens)
    candidates = candidates + totals.gather(1, rows)
    is_unused = (block >= blocks) & (position < BLOCK_SIZE - 1)  # blocks of a single token
    candidates.masked_fill_(is_unused.flatten(1), -torch.inf)
    values, order = candidates.topk(min(count, beams * vocabulary))
    return rows.gather(1, order), tokens.gather(1, order), values


def _insert_ranked(finished: list[Hypothesis], hypothesis: Hypothesis, count: int) -> None:
    """Insert a hypothesis into a list sorted by score, and keep the `count` best."""
    finished.append(hypothesis)
    finished.sort(key=lambda h: -h.score)
    del finished[count:]
