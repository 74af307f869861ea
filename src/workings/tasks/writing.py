"""What tasks have in common whose models write: the loss of texts, forcing, shares of a search."""

import math
from abc import abstractmethod
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import torch
from jaxtyping import Int
from torch import Tensor

from workings.crew import Crew
from workings.data.batching import Ids, pad
from workings.data.tokenizer import Tokenizer
from workings.decode.beam import Hypothesis, limit_of_each
from workings.decode.sample import Sampling, generate
from workings.models.writers import PAD, START, Condition, Writer
from workings.tasks.task import Losses, Task


@dataclass(frozen=True)
class Written:
    """A text, the tokens it is made of, the log of its probability, and its rank's score."""

    text: str
    tokens: tuple[int, ...]
    log_probability: float
    score: float


class Writing(Task):
    """Texts about something, and a model that learns to write them."""

    unit = "tokens"
    model: Writer[Any]

    def __init__(self, recipe: Any) -> None:
        self.recipe = recipe
        self.metric = f"validation_{recipe.train.metric}"
        self.higher_is_better = recipe.train.metric != "loss"
        self.data_told: dict[str, Any] = {}
        self._student = 0.0  # share of the inputs that are the model's own

    @abstractmethod
    def collate(
        self, part: str, batch: Sequence[int], device: torch.device
    ) -> tuple[Condition, Int[Tensor, "texts time"], Int[Tensor, "texts time"]]:
        """What is written about, the texts behind their start, and what follows each token."""

    @abstractmethod
    def measured_in(self, part: str) -> Sequence[Sequence[int]]:
        """The batches in which the loss on a part is measured."""

    def force(self, epoch: int) -> None:
        """Come to this epoch's share of inputs that are the model's own."""
        forcing = self.recipe.forcing
        self._student = forcing.student * min(max(epoch - forcing.from_epoch, 0) / forcing.over, 1)

    def loss(self, batch: Sequence[int], device: torch.device) -> Losses:
        """The mean cross-entropy of the next token of the texts."""
        about, target, following = self.collate("train", batch, device)
        smoothing = self.recipe.train.smoothing
        total = self.model(about, target, following, smoothing, self._student)
        return Losses(total / self.weight(batch))

    @torch.no_grad()
    def loss_on(self, part: str, crew: Crew) -> dict[str, float]:
        """The loss on a part, of which each process measures its share."""
        nats = tokens = 0.0
        for batch in self.measured_in(part):
            share = list(crew.share(batch))
            # A model that is spread over the crew needs everybody for every batch.
            about, target, following = self.collate(part, share or batch[:1], crew.device)
            loss = float(self.model(about, target, following))
            if share:
                nats, tokens = nats + loss, tokens + int((following != PAD).sum())
        summed = crew.total({"nats": nats, "tokens": tokens})
        mean = summed["nats"] / summed["tokens"]
        return {f"{part}_loss": mean, f"{part}_perplexity": math.exp(min(mean, 700.0))}

    def shared_out(
        self, count: int, crew: Crew, write: Callable[[list[int]], Iterable[str]]
    ) -> list[str]:
        """Write about so many things, of which each process does its share."""
        self.model.eval()
        mine = list(crew.share(range(count)))
        found = dict(zip(mine, write(mine), strict=True))
        everything = {k: text for some in crew.everyones(found) for k, text in some.items()}
        return [everything[k] for k in range(count)]


def framed(
    texts: Sequence[Ids], stop: int, device: torch.device
) -> tuple[Int[Tensor, "texts time"], Int[Tensor, "texts time"]]:
    """Texts behind their start token, and what follows each of their tokens, the stop at last."""
    target, _ = pad([[START, *ids] for ids in texts])
    following, _ = pad([[*ids, stop] for ids in texts])
    return target.to(device), following.to(device)


def stop_of(tokenizer: Tokenizer) -> int:
    """The id that ends a text."""
    assert tokenizer.stop is not None
    return tokenizer.stop


def drawn(
    model: Writer[Any],
    about: Condition,
    stop: int,
    sampling: Sampling,
    longest: int | Sequence[int],
) -> list[list[Hypothesis]]:
    """One text about each thing, token by token as likely as the model finds it."""
    tokens: list[list[int]] = [[] for _ in about.starts()]
    limits = limit_of_each(longest, len(tokens))
    logs, done = [0.0] * len(tokens), [False] * len(tokens)
    sampling = replace(sampling, never=(PAD, START))
    for chosen, scores in generate(model, about, max(limits), sampling):
        chances = torch.log_softmax(scores.float(), -1)
        for k, token in enumerate(chosen.tolist()):
            if done[k]:
                continue
            logs[k] += float(chances[k, token])
            if token != stop:
                tokens[k].append(token)
            done[k] = token == stop or len(tokens[k]) == limits[k]
        if all(done):
            break
    return [[Hypothesis(tuple(t), log, log)] for t, log in zip(tokens, logs, strict=True)]
