"""What tasks have in common whose models write: the loss of texts, forcing, shares of a search."""

import math
from abc import abstractmethod
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import torch
from jaxtyping import Float, Int
from torch import Tensor

from workings.data.batching import IdSequence, pad
from workings.data.tokenizers.base import Tokenizer
from workings.decode.beam import Hypothesis, length_limits
from workings.decode.sampling import Sampling, generate
from workings.distributed import ProcessGroup
from workings.models.seq2seq import PAD, START, ConditionalDecoder, RecurrentDecoder, SourceBatch
from workings.tasks.base import BatchLoss, Task
from workings.trace import Trace


@dataclass(frozen=True)
class Generation:
    """A text, the tokens it is made of, the log of its probability, and its rank's score."""

    text: str
    tokens: tuple[int, ...]
    log_probability: float
    score: float


class Seq2SeqTask(Task):
    """Texts about something, and a model that learns to write them."""

    batch_unit = "tokens"
    model: ConditionalDecoder[Any]

    def __init__(self, recipe: Any) -> None:
        self.recipe = recipe
        self.metric = f"validation_{recipe.train.metric}"
        self.higher_is_better = recipe.train.metric != "loss"
        self.data_info: dict[str, Any] = {}
        self._sampling_rate = 0.0  # share of the inputs that are the model's own

    @abstractmethod
    def collate(
        self, split: str, batch: Sequence[int], device: torch.device
    ) -> tuple[SourceBatch, Int[Tensor, "texts time"], Int[Tensor, "texts time"]]:
        """What is written about, the texts behind their start, and what follows each token."""

    @abstractmethod
    def list_eval_batches(self, split: str) -> Sequence[Sequence[int]]:
        """The batches in which the loss on a part is measured."""

    def update_sampling_rate(self, epoch: int) -> None:
        """Come to this epoch's share of inputs that are the model's own."""
        forcing = self.recipe.scheduled_sampling
        self._sampling_rate = forcing.rate * min(
            max(epoch - forcing.from_epoch, 0) / forcing.ramp_epochs, 1
        )

    def loss(self, batch: Sequence[int], device: torch.device) -> BatchLoss:
        """The mean cross-entropy of the next token of the texts."""
        about, target, following = self.collate("train", batch, device)
        smoothing = self.recipe.train.label_smoothing
        total = self.model(about, target, following, smoothing, self._sampling_rate)
        return BatchLoss(total / self.weight(batch))

    @torch.no_grad()
    def evaluate_loss(self, split: str, process_group: ProcessGroup) -> dict[str, float]:
        """The loss on a part, of which each process measures its share."""
        nats = tokens = 0.0
        for batch in self.list_eval_batches(split):
            share = list(process_group.shard_batch(batch))
            # A model that is spread over the crew needs everybody for every batch.
            about, target, following = self.collate(split, share or batch[:1], process_group.device)
            loss = float(self.model(about, target, following))
            if share:
                nats, tokens = nats + loss, tokens + int((following != PAD).sum())
        summed = process_group.all_reduce_sum({"nats": nats, "tokens": tokens})
        mean = summed["nats"] / summed["tokens"]
        return {f"{split}_loss": mean, f"{split}_perplexity": math.exp(min(mean, 700.0))}

    def split_over_ranks(
        self,
        count: int,
        process_group: ProcessGroup,
        generate: Callable[[list[int]], Iterable[str]],
    ) -> list[str]:
        """Write about so many things, of which each process does its share."""
        self.model.eval()
        mine = list(process_group.shard_batch(range(count)))
        found = dict(zip(mine, generate(mine), strict=True))
        everything = {
            k: text for some in process_group.all_gather_object(found) for k, text in some.items()
        }
        return [everything[k] for k in range(count)]


def shift_right(
    texts: Sequence[IdSequence], stop: int, device: torch.device
) -> tuple[Int[Tensor, "texts time"], Int[Tensor, "texts time"]]:
    """Texts behind their start token, and what follows each of their tokens, the stop at last."""
    target, _ = pad([[START, *ids] for ids in texts])
    following, _ = pad([[*ids, stop] for ids in texts])
    return target.to(device), following.to(device)


def get_stop_id(tokenizer: Tokenizer) -> int:
    """The id that ends a text."""
    assert tokenizer.eos_id is not None
    return tokenizer.eos_id


def sample_texts(
    model: ConditionalDecoder[Any],
    source: SourceBatch,
    stop: int,
    sampling: Sampling,
    max_length: int | Sequence[int],
) -> list[list[Hypothesis]]:
    """One text about each thing, token by token as likely as the model finds it."""
    tokens: list[list[int]] = [[] for _ in source.start_tokens()]
    limits = length_limits(max_length, len(tokens))
    logs, done = [0.0] * len(tokens), [False] * len(tokens)
    sampling = replace(sampling, suppress_tokens=(PAD, START))
    for chosen, scores in generate(model, source, max(limits), sampling):
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


@torch.no_grad()
def collect_cross_attention(
    model: ConditionalDecoder[Any], source: SourceBatch, target: Int[Tensor, "batch time"]
) -> list[Float[Tensor, "batch heads time places"]]:
    """Of each layer, how much each place of a text looks at each of what it is written about.

    `target` begins with the start token: its row k is what was seen when token k + 1 was chosen.
    Where nothing is looked at there are no layers.
    """
    if isinstance(model, RecurrentDecoder):
        if model.attention is None:
            return []
        with Trace(model, only="attention.weights") as trace:
            model(source, target)
        return [torch.stack(trace.steps("attention.weights"), 2)]
    with Trace(model, only="decoder.*.cross_attention.weights") as trace:
        model(source, target)
    return [trace[path] for path in trace]
