"""What the tasks with conditional decoders share: loss, scheduled sampling and generation."""

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
from workings.decode import Hypothesis, Sampling, generate, length_limits
from workings.distributed import ProcessGroup
from workings.models.seq2seq import PAD, START, ConditionalDecoder, RecurrentDecoder, SourceBatch
from workings.recipes import CaptionRecipe, TranslationRecipe
from workings.tasks.base import BatchLoss, Task
from workings.trace import Trace

MAX_LOSS = 700.0  # nats: exp of more overflows


@dataclass(frozen=True)
class Generation:
    """A generated text: its tokens, its log probability, and the score it was ranked by."""

    text: str
    tokens: tuple[int, ...]
    log_probability: float
    score: float


class Seq2SeqTask(Task):
    """Target texts, each conditioned on a source, and a decoder that generates them."""

    batch_unit = "tokens"
    recipe: CaptionRecipe | TranslationRecipe
    model: ConditionalDecoder[Any]

    def __init__(self, recipe: CaptionRecipe | TranslationRecipe) -> None:
        self.recipe = recipe
        self.metric = f"validation_{recipe.train.metric}"
        self.higher_is_better = recipe.train.metric != "loss"
        self.data_info: dict[str, Any] = {}
        self._sampling_rate = 0.0  # of scheduled sampling, in the current epoch

    @abstractmethod
    def collate(
        self, split: str, batch: Sequence[int], device: torch.device
    ) -> tuple[SourceBatch, Int[Tensor, "texts time"], Int[Tensor, "texts time"]]:
        """Return the sources of a batch, the decoder's inputs and its targets."""

    @abstractmethod
    def list_eval_batches(self, split: str) -> Sequence[Sequence[int]]:
        """Return the batches of a split for evaluation, in a fixed order."""

    def update_sampling_rate(self, epoch: int) -> None:
        """Set the rate of scheduled sampling to that of an epoch."""
        self._sampling_rate = self.recipe.scheduled_sampling.rate_at(epoch)

    def loss(self, batch: Sequence[int], device: torch.device) -> BatchLoss:
        """Compute the mean cross-entropy per target token."""
        source, inputs, targets = self.collate("train", batch, device)
        smoothing = self.recipe.train.label_smoothing
        total = self.model(source, inputs, targets, smoothing, self._sampling_rate)
        return BatchLoss(total / self.weight(batch))

    @torch.no_grad()
    def evaluate_loss(self, split: str, process_group: ProcessGroup) -> dict[str, float]:
        """Compute loss and perplexity on a split; each process takes its share of every batch."""
        nats = tokens = 0.0
        for batch in self.list_eval_batches(split):
            share = list(process_group.shard_batch(batch))
            # A sharded model needs all processes in every forward pass, even without a share.
            source, inputs, targets = self.collate(split, share or batch[:1], process_group.device)
            loss = float(self.model(source, inputs, targets))
            if share:
                nats, tokens = nats + loss, tokens + int((targets != PAD).sum())
        total = process_group.all_reduce_sum({"nats": nats, "tokens": tokens})
        mean = total["nats"] / total["tokens"]
        return {f"{split}_loss": mean, f"{split}_perplexity": math.exp(min(mean, MAX_LOSS))}

    def split_over_ranks(
        self,
        count: int,
        process_group: ProcessGroup,
        generate: Callable[[list[int]], Iterable[str]],
    ) -> list[str]:
        """Generate the texts of `count` sources; each process does its share of them."""
        self.model.eval()
        share = list(process_group.shard_batch(range(count)))
        generated = dict(zip(share, generate(share), strict=True))
        texts = {
            k: t for rank in process_group.all_gather_object(generated) for k, t in rank.items()
        }
        return [texts[k] for k in range(count)]


def shift_right(
    texts: Sequence[IdSequence], stop: int, device: torch.device
) -> tuple[Int[Tensor, "texts time"], Int[Tensor, "texts time"]]:
    """Return the decoder's inputs (start token, then the text) and targets (text, then stop)."""
    inputs, _ = pad([[START, *ids] for ids in texts])
    targets, _ = pad([[*ids, stop] for ids in texts])
    return inputs.to(device), targets.to(device)


def get_stop_id(tokenizer: Tokenizer) -> int:
    """Return the id of the end-of-sequence token."""
    assert tokenizer.eos_id is not None
    return tokenizer.eos_id


def sample_texts(
    model: ConditionalDecoder[Any],
    source: SourceBatch,
    stop: int,
    sampling: Sampling,
    max_length: int | Sequence[int],
) -> list[list[Hypothesis]]:
    """Sample one text for each source from the model's distribution."""
    tokens: list[list[int]] = [[] for _ in source.start_tokens()]
    limits = length_limits(max_length, len(tokens))
    log_probabilities, done = [0.0] * len(tokens), [False] * len(tokens)
    sampling = replace(sampling, suppress_tokens=(PAD, START))
    for chosen, logits in generate(model, source, max(limits), sampling):
        log_probs = torch.log_softmax(logits.float(), -1)
        for k, token in enumerate(chosen.tolist()):
            if done[k]:
                continue
            log_probabilities[k] += float(log_probs[k, token])
            if token != stop:
                tokens[k].append(token)
            done[k] = token == stop or len(tokens[k]) == limits[k]
        if all(done):
            break
    return [
        [Hypothesis(tuple(ids), log_probability, log_probability)]
        for ids, log_probability in zip(tokens, log_probabilities, strict=True)
    ]


@torch.no_grad()
def collect_cross_attention(
    model: ConditionalDecoder[Any], source: SourceBatch, target: Int[Tensor, "batch time"]
) -> list[Float[Tensor, "batch heads time source"]]:
    """Return the cross-attention weights of each layer; none for models without attention.

    `target` begins with the start token: row k has the weights at which token k + 1 was predicted.
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
