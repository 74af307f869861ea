"""Going on with a text, a token at a time, as people see it: pieces of text, not ids."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import TypeAlias

import torch
from torch import Tensor

from workings.data.tokenizer import STOP, Tokenizer
from workings.decode.beam import beam_search
from workings.decode.sample import GREEDY, Sampling, generate
from workings.models.language import LanguageModel

# From a prompt's ids, how many tokens and how: each token, and the scores it was chosen by.
Generator: TypeAlias = Callable[[Tensor, int, Sampling], Iterator[tuple[Tensor, Tensor]]]


BEFORE = 4  # tokens behind which the next ones are decoded


@dataclass(frozen=True)
class Told:
    """A token of a completion: the text it adds, itself, how likely it was, and what else was."""

    text: str
    token: str
    probability: float
    top: tuple[tuple[str, float], ...]


def stream(
    model: LanguageModel,
    tokenizer: Tokenizer,
    prompt: str,
    tokens: int,
    how: Sampling = GREEDY,
    stops: Sequence[str] = (),
    top: int = 0,
    by: Generator | None = None,
) -> Iterator[Told]:
    """Go on with a prompt, a token at a time, up to a stop string (which is left out).

    A piece of text that may be the beginning of a stop string is held back until it is not. The
    tokens may be found `by` another engine than torch.
    """
    by = by or partial(generate, model)
    if how.temperature > 0:  # the likeliest is never one that training never had
        how = replace(how, never=absent(tokenizer))
    begin = tokenizer.encode(prompt) or [tokenizer.start]  # something has to be read first
    ids = torch.tensor([begin], device=next(model.parameters()).device)
    # Decoded behind some tokens whose text is settled: behind all, a book would take for ever.
    before, waiting = begin, list[int]()
    settled, text, given = "", "", 0
    for token, scores in by(ids, tokens, how):
        waiting.append(int(token[0]))
        new = tokenizer.decode([*before, *waiting])[len(tokenizer.decode(before)) :]
        text = settled + new
        end = min((k for stop in stops if (k := text.find(stop)) >= 0), default=-1)
        safe = len(text) - _held_back(text, stops) if end < 0 else end
        chances = torch.softmax(scores[0].float(), -1)
        yield Told(
            text[given:safe],
            tokenizer.token(waiting[-1]),
            float(chances[waiting[-1]]),
            _likeliest(chances, top, tokenizer),
        )
        given = max(given, safe)
        if end >= 0:
            return
        if new and not new.endswith("\ufffd"):  # else it may be half a character
            # A word's own form may depend on some words before it: don, ' and t are don't.
            before, waiting, settled = [*before, *waiting][-BEFORE:], [], text
    if given < len(text):
        yield Told(text[given:], "", 1.0, ())


def absent(tokenizer: Tokenizer) -> tuple[int, ...]:
    """The tokens that no text has: padding, start, unknown."""
    return tuple(k for k, name in enumerate(tokenizer.specials) if name != STOP)


def best(
    model: LanguageModel, tokenizer: Tokenizer, prompt: str, tokens: int, beams: int
) -> list[tuple[str, float]]:
    """The likeliest continuations that beam search finds, each with the log of its probability."""
    begin = tokenizer.encode(prompt) or [tokenizer.start]
    ids = torch.tensor([begin], device=next(model.parameters()).device)
    begun = len(tokenizer.decode(begin))
    (found,) = beam_search(model, ids, stop=tokenizer.stop, longest=tokens, beams=beams)
    return [(tokenizer.decode([*begin, *h.tokens])[begun:], h.log_probability) for h in found]


def _likeliest(chances: Tensor, count: int, tokenizer: Tokenizer) -> tuple[tuple[str, float], ...]:
    best = chances.topk(min(count, len(chances)))
    pairs = zip(best.indices.tolist(), best.values.tolist(), strict=True)
    return tuple((tokenizer.token(k), p) for k, p in pairs)


def _held_back(text: str, stops: Sequence[str]) -> int:
    """How many characters at the end may be the beginning of a stop string, or half a character."""
    most = 1 if text.endswith("\ufffd") else 0
    for stop in stops:
        for length in range(min(len(stop) - 1, len(text)), most, -1):
            if text.endswith(stop[:length]):
                most = length
                break
    return most
