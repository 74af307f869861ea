"""Going on with a text, a token at a time, as people see it: pieces of text, not ids."""

import hashlib
import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import groupby
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor

from workings.data.cache import TokenIds, compute_text_checksum, encode_cached
from workings.data.corpora import read_corpus
from workings.data.download import ProgressCallback
from workings.data.tokenizers.base import EOS_TOKEN, UNK_TOKEN, Tokenizer
from workings.data.tokenizers.registry import load_tokenizer, train_tokenizer
from workings.decode.beam import beam_search
from workings.decode.sampling import GREEDY, Sampling, generate
from workings.distributed import ProcessGroup
from workings.errors import UserError
from workings.models.language import LanguageModel, RNNState, build_language_model
from workings.recipes import LanguageRecipe
from workings.tasks.base import BatchLoss, Task, build_from_file, oom_hint

# From a prompt's ids, how many tokens and how: each token, and the scores it was chosen by.
TokenGenerator: TypeAlias = Callable[[Tensor, int, Sampling], Iterator[tuple[Tensor, Tensor]]]


DECODE_CONTEXT = 4  # tokens behind which the next ones are decoded


@dataclass(frozen=True)
class GeneratedToken:
    """A token of a completion: the text it adds, itself, how likely it was, and what else was."""

    text: str
    token: str
    probability: float
    alternatives: tuple[tuple[str, float], ...]


def stream_completion(
    model: LanguageModel,
    tokenizer: Tokenizer,
    prompt: str,
    max_tokens: int,
    sampling: Sampling = GREEDY,
    stop_strings: Sequence[str] = (),
    num_alternatives: int = 0,
    generator: TokenGenerator | None = None,
) -> Iterator[GeneratedToken]:
    """Go on with a prompt, a token at a time, up to a stop string (which is left out).

    A piece of text that may be the beginning of a stop string is held back until it is not. The
    tokens may be found `by` another engine than torch.
    """
    generator = generator or partial(generate, model)
    if sampling.temperature > 0:  # the likeliest is never one that training never had
        sampling = replace(sampling, suppress_tokens=list_non_text_ids(tokenizer))
    begin = tokenizer.encode(prompt) or [tokenizer.bos_id]  # something has to be read first
    ids = torch.tensor([begin], device=next(model.parameters()).device)
    # Decoded behind some tokens whose text is settled: behind all, a book would take for ever.
    before, waiting = begin, list[int]()
    settled, text, given = "", "", 0
    for token, scores in generator(ids, max_tokens, sampling):
        waiting.append(int(token[0]))
        new = tokenizer.decode([*before, *waiting])[len(tokenizer.decode(before)) :]
        text = settled + new
        end = min((k for stop in stop_strings if (k := text.find(stop)) >= 0), default=-1)
        safe = len(text) - _count_held_back(text, stop_strings) if end < 0 else end
        chances = torch.softmax(scores[0].float(), -1)
        yield GeneratedToken(
            text[given:safe],
            tokenizer.id_to_token(waiting[-1]),
            float(chances[waiting[-1]]),
            _top_alternatives(chances, num_alternatives, tokenizer),
        )
        given = max(given, safe)
        if end >= 0:
            return
        if new and not new.endswith("\ufffd"):  # else it may be half a character
            # A word's own form may depend on some words before it: don, ' and t are don't.
            before, waiting, settled = [*before, *waiting][-DECODE_CONTEXT:], [], text
    if given < len(text):
        yield GeneratedToken(text[given:], "", 1.0, ())


def list_non_text_ids(tokenizer: Tokenizer) -> tuple[int, ...]:
    """The tokens that no text has: padding, start, unknown."""
    return tuple(k for k, name in enumerate(tokenizer.specials) if name != EOS_TOKEN)


def beam_completions(
    model: LanguageModel, tokenizer: Tokenizer, prompt: str, max_tokens: int, beams: int
) -> list[tuple[str, float]]:
    """The likeliest continuations that beam search finds, each with the log of its probability."""
    begin = tokenizer.encode(prompt) or [tokenizer.bos_id]
    ids = torch.tensor([begin], device=next(model.parameters()).device)
    begun = len(tokenizer.decode(begin))
    (found,) = beam_search(model, ids, stop=tokenizer.eos_id, max_length=max_tokens, beams=beams)
    return [(tokenizer.decode([*begin, *h.tokens])[begun:], h.log_probability) for h in found]


def _top_alternatives(
    probabilities: Tensor, count: int, tokenizer: Tokenizer
) -> tuple[tuple[str, float], ...]:
    best = probabilities.topk(min(count, len(probabilities)))
    pairs = zip(best.indices.tolist(), best.values.tolist(), strict=True)
    return tuple((tokenizer.id_to_token(k), p) for k, p in pairs)


def _count_held_back(text: str, stop_strings: Sequence[str]) -> int:
    """How many characters at the end may be the beginning of a stop string, or half a character."""
    most = 1 if text.endswith("\ufffd") else 0
    for stop in stop_strings:
        for length in range(min(len(stop) - 1, len(text)), most, -1):
            if text.endswith(stop[:length]):
                most = length
                break
    return most


EVAL_BATCH_SIZE = 64  # windows in a batch of measuring, if their scores are not too many
MAX_LOGITS = 2**26  # 256 MiB
EMPTY_IDS: TokenIds = np.zeros(0, np.uint16)


class LanguageModeling(Task):
    """A text and a model of it: what the training loop works on, and what completes afterwards."""

    files = ("tokenizer.json",)
    metric = "validation_loss"
    higher_is_better = False
    batch_unit = data_unit = "tokens"
    model: LanguageModel

    def __init__(self, recipe: LanguageRecipe, tokenizer: Tokenizer, model: LanguageModel) -> None:
        self.recipe, self.tokenizer, self.model = recipe, tokenizer, model
        self.data_info: dict[str, Any] = {}
        self._train_ids = self._validation_ids = EMPTY_IDS
        self._sampling_rate = 0.0  # share of the inputs that are the model's own
        self._stream_state: RNNState | None = None  # where each stream of a carried training is

    @classmethod
    def from_recipe(
        cls, recipe: LanguageRecipe, progress: ProgressCallback | None = None
    ) -> "LanguageModeling":
        """Read the text, make the tokenizer and a fresh model."""
        del progress  # a text is there already, and read in no time
        wanted, name = recipe.tokenizer, recipe.data.set
        checksum, characters = compute_text_checksum(read_corpus(name))
        if characters < 2:
            told = "it is empty" if not characters else "a single character"
            raise UserError(f"{name}: {told}: there is nothing to predict")
        learned_from = _slice_text(read_corpus(name), 0, count_train_characters(recipe, characters))
        tokenizer = train_tokenizer(wanted.kind, learned_from, wanted.vocab_size, wanted.min_count)
        torch.manual_seed(recipe.seed)
        task = cls(recipe, tokenizer, build_language_model(recipe.model, len(tokenizer)))
        task._train_ids, task._validation_ids = task._split_ids(checksum, characters)
        counts = {"train": len(task._train_ids), "validation": len(task._validation_ids)}
        task.data_info = {"set": name, "characters": characters, **counts, "sha256": checksum}
        return task

    def _split_ids(self, checksum: str, characters: int) -> tuple[TokenIds, TokenIds]:
        """The recipe's text as ids: what is learned from, and what is held out.

        They are cut where the vocabulary's part ends, and encoded apart.
        """
        name, cut = self.recipe.data.set, count_train_characters(self.recipe, characters)
        learned, held_out = (
            encode_cached(
                _slice_text(read_corpus(name), a, b), self.tokenizer, f"{checksum} {a} {b}"
            )
            for a, b in ((0, cut), (cut, characters))
        )
        if min(len(learned), len(held_out)) < 2:
            count = len(learned) + len(held_out)
            raise UserError(f"{name}: {count:,} tokens: too few to learn from and to hold out")
        return learned, held_out

    # -- what the training loop asks ---------------------------------------------------------------

    def batches(self, epoch: int) -> list[list[int]]:
        """Windows by where they begin: drawn at random, or, carried, in the text's order."""
        data, size, forcing = (
            self.recipe.data,
            self.recipe.train.batch_size,
            self.recipe.scheduled_sampling,
        )
        self._sampling_rate = forcing.rate * min(
            max(epoch - forcing.from_epoch, 0) / forcing.ramp_epochs, 1
        )
        if data.stateful:
            return self._stream_batches(epoch, size)
        draw = np.random.default_rng([self.recipe.seed, epoch])
        latest = len(self._train_ids) - 1 - self._context_length
        return draw.integers(0, latest, size=(data.eval_every, size), endpoint=True).tolist()  # type: ignore[no-any-return]

    def _stream_batches(self, epoch: int, size: int) -> list[list[int]]:
        """Cut the text into as many streams as a batch has rows, and follow them side by side."""
        length, steps = self._stream_length, self.recipe.data.eval_every
        if length < self._context_length:
            raise UserError(
                f"{self.recipe.data.set}: {len(self._train_ids):,} tokens are too few for {size} "
                f"streams of windows of {self._context_length}: a smaller train.batch_size or data.context_length"
            )
        places = [(epoch * steps + k) % (length // self._context_length) for k in range(steps)]
        return [
            [row * length + place * self._context_length for row in range(size)] for place in places
        ]

    @property
    def _stream_length(self) -> int:
        return (len(self._train_ids) - 1) // self.recipe.train.batch_size

    @property
    def _context_length(self) -> int:
        return min(self.recipe.data.context_length, len(self._train_ids) - 1)

    def weight(self, batch: Sequence[int]) -> int:
        """Over how many tokens the loss is a mean."""
        return len(batch) * self._context_length

    def describe(self, batch: Sequence[int]) -> str:
        """Say what a batch is."""
        return f"a batch of {len(batch):,} windows of {self._context_length:,} tokens"

    def loss(self, batch: Sequence[int], device: torch.device) -> BatchLoss:
        """The mean cross-entropy of the next token."""
        inputs, targets = _gather_windows(self._train_ids, batch, self._context_length, device)
        if self._sampling_rate:
            scores = self._scheduled_sampling_logits(inputs)
        elif self.recipe.data.stateful:
            scores = self._stateful_logits(batch, inputs)
        else:
            scores, _ = self.model(inputs)
        smoothing = self.recipe.train.label_smoothing
        return BatchLoss(
            F.cross_entropy(scores.flatten(0, 1), targets.flatten(), label_smoothing=smoothing)
        )

    def _stateful_logits(self, batch: Sequence[int], inputs: Tensor) -> Tensor:
        """Go on with the state that each stream ended with; where it begins anew, so does that."""
        if batch[0] % self._stream_length == 0:
            self._stream_state = None
        scores: Tensor
        scores, ended = self.model(inputs, self._stream_state)
        self._stream_state = ended.detach()
        return scores

    def _scheduled_sampling_logits(self, inputs: Tensor) -> Tensor:
        """Feed the model its own predictions, at the share that the schedule has come to."""
        scores: list[Tensor] = []
        state, token = None, inputs[:, 0]
        for t in range(inputs.shape[1]):
            if t:
                own = torch.multinomial(torch.softmax(scores[-1].detach(), -1), 1).squeeze(1)
                student = torch.rand(len(inputs), device=inputs.device) < self._sampling_rate
                token = torch.where(student, own, inputs[:, t])
            found, state = self.model(token.unsqueeze(1), state)
            scores.append(found[:, 0])
        return torch.stack(scores, 1)

    def evaluate(self, process_group: ProcessGroup) -> dict[str, float]:
        """Nats, bits a character and perplexity of the held-out text, window after window."""
        window = self.recipe.data.context_length
        return _prefix_metrics(
            "validation", self._evaluate_ids(self._validation_ids, process_group, window)
        )

    def test(self, process_group: ProcessGroup) -> dict[str, float]:
        """The same with windows that overlap by half, so that every token has a past to see."""
        stride = max(self.recipe.data.context_length // 2, 1)
        return _prefix_metrics(
            "sliding", self._evaluate_ids(self._validation_ids, process_group, stride)
        )

    def evaluate_on(self, data: str | None = None) -> dict[str, float]:
        """Measure on a text, all of it; without one, on the text that the recipe holds out."""
        checksum, characters = compute_text_checksum(read_corpus(data or self.recipe.data.set))
        if data is None and self.data_info.get("sha256", checksum) != checksum:
            raise UserError(
                f"{self.recipe.data.set} is not the text that this run began with: what it held "
                "out cannot be told any more; --data measures on all of a text"
            )
        if data is None:  # by which the weights were chosen
            part, (_, ids) = "validation", self._split_ids(checksum, characters)
        else:
            part, ids = "test", encode_cached(read_corpus(data), self.tokenizer, checksum)
        if len(ids) < 2:
            raise UserError(f"{data}: a single token: there is nothing to predict")
        crew, window = ProcessGroup(self._device), self.recipe.data.context_length
        return _prefix_metrics(part, self._evaluate_ids(ids, crew, window)) | _prefix_metrics(
            "sliding", self._evaluate_ids(ids, crew, max(window // 2, 1))
        )

    @torch.no_grad()
    def _evaluate_ids(
        self, ids: TokenIds, process_group: ProcessGroup, stride: int
    ) -> dict[str, float]:
        """Mean nats over every token but the first, and what they mean for characters."""
        window, last = self.recipe.data.context_length, len(ids) - 1
        places = [
            (max(0, begin + stride - window), min(begin + stride, last), begin)
            for begin in range(0, last, stride)
        ]
        nats = 0.0
        for (length, counted), some in groupby(places, lambda p: (p[1] - p[0], p[1] - p[2])):
            begins = [begin for begin, _, _ in some]
            at_once = max(1, min(EVAL_BATCH_SIZE, MAX_LOGITS // (length * len(self.tokenizer))))
            for k in range(0, len(begins), at_once):
                share = process_group.shard_batch(begins[k : k + at_once])
                # A model that is spread over the crew needs everybody for every batch.
                inputs, targets = _gather_windows(
                    ids, share or begins[:1], length, process_group.device
                )
                told = f"in measuring on {len(inputs):,} windows of {length:,} tokens"
                with oom_hint(told, "a smaller data.context_length or model needs less"):
                    scores, _ = self.model(inputs)
                    late = scores[:, -counted:].flatten(0, 1).float()
                    loss = F.cross_entropy(late, targets[:, -counted:].flatten(), reduction="sum")
                nats += float(loss) if share else 0.0
        mean = process_group.all_reduce_sum({"nats": nats})["nats"] / last
        characters = _count_characters(ids[1:], self.tokenizer) / last
        return {
            "loss": mean,
            "bits_per_character": mean / math.log(2) / max(characters, 1e-9),
            "perplexity": math.exp(min(mean, 700.0)),
        }

    def sample_outputs(self) -> dict[str, Any]:
        """A few words of the model's own."""
        if not self.recipe.data.sample:
            return {}
        begin = self.tokenizer.decode(self._validation_ids[:20].tolist())
        how = Sampling(temperature=0.8, seed=self.recipe.seed)
        return {"sample": self.complete(begin, self.recipe.data.sample, how)}

    def state_dict(self) -> dict[str, Tensor]:
        """The state that each stream has come to, layer by layer."""
        layers = [] if self._stream_state is None else self._stream_state.layers
        return {f"{k}.{i}": t.cpu() for k, (way,) in enumerate(layers) for i, t in enumerate(way)}

    @torch.no_grad()
    def load_state_dict(self, state: Mapping[str, Tensor]) -> None:
        """Go on with the streams' states."""
        self._stream_state = None
        if not state:
            return
        _, like = self.model(torch.zeros(1, 1, dtype=torch.long, device=self._device))
        layers = [
            [tuple(state[f"{k}.{i}"].to(t) for i, t in enumerate(way))]
            for k, (way,) in enumerate(like.layers)
        ]
        found = {t.shape[1:] for ((*way,),) in layers for t in way}
        if found != {t.shape[1:] for ((*way,),) in like.layers for t in way}:
            raise ValueError("the states of the streams are another model's")
        self._stream_state = RNNState(layers)

    # -- completing --------------------------------------------------------------------------------

    def complete(
        self,
        prompt: str,
        max_tokens: int = 200,
        sampling: Sampling = GREEDY,
        stop_strings: Sequence[str] = (),
    ) -> str:
        """Go on with a prompt; return both."""
        return prompt + "".join(
            told.text for told in self.stream(prompt, max_tokens, sampling, stop_strings)
        )

    def stream(
        self,
        prompt: str,
        max_tokens: int = 200,
        sampling: Sampling = GREEDY,
        stop_strings: Sequence[str] = (),
        num_alternatives: int = 0,
        generator: TokenGenerator | None = None,
    ) -> Iterator[GeneratedToken]:
        """Go on with a prompt, a token at a time, up to a stop string (which is left out)."""
        return stream_completion(
            self.model,
            self.tokenizer,
            prompt,
            max_tokens,
            sampling,
            stop_strings,
            num_alternatives,
            generator,
        )

    def list_prompt_notes(self, prompt: str, max_tokens: int) -> list[str]:
        """What the user should know of a prompt before it is completed."""
        notes = []
        known, window = self.tokenizer, self.recipe.data.context_length
        if not known.encode(prompt) and known.bos_id != known.eos_id:  # which parts texts
            notes.append("nothing to go on from: it reads a token that training never had, first")
        strange = sorted({t for t in known.tokenize(prompt) if known.encode(t) == [known.unk_id]})
        if strange:
            notes.append(f"never seen in training, read as unknown: {' '.join(strange)}")
        total, longest = len(known.encode(prompt)) + max_tokens, self.model.max_positions
        if longest is not None and total > longest:
            notes.append(
                f"{total:,} tokens, of which the model sees {longest:,}: whenever its window is "
                "full, it reads the later half of it again and goes on from there"
            )
        elif not self.model.is_recurrent and total > window:
            notes.append(
                f"{total:,} tokens; it was trained on windows of {window:,}, and goes on beyond"
            )
        return notes

    # -- the run folder --------------------------------------------------------------------------

    @property
    def _device(self) -> torch.device:
        return next(self.model.parameters()).device

    def fingerprint(self) -> dict[str, Any]:
        """What two processes must agree about: the text, and how it became numbers."""
        digest = hashlib.sha256(self._train_ids[:10_000].tobytes())
        return {**self.data_info, "tokens": len(self.tokenizer), "ids": digest.hexdigest()[:16]}

    def with_weights(self, weights: dict[str, Tensor]) -> "LanguageModeling":
        """Another of this kind, on the same text, with a model of its own that has the weights."""
        model = build_language_model(self.recipe.model, len(self.tokenizer))
        model.load_state_dict(weights)
        other = LanguageModeling(self.recipe, self.tokenizer, model.eval())
        other.data_info = self.data_info
        other._train_ids, other._validation_ids = self._train_ids, self._validation_ids
        return other

    def save(self, folder: Path) -> None:
        """Write what is needed beside the weights."""
        self.tokenizer.save(folder / "tokenizer.json")

    def matches_folder(self, folder: Path) -> bool:
        """Tell whether a run's tokenizer is this one."""
        return load_tokenizer(folder / "tokenizer.json") == self.tokenizer

    @classmethod
    def load(
        cls, folder: Path, recipe: LanguageRecipe, run_id: str | None = None
    ) -> "LanguageModeling":
        """Read a run's tokenizer and best weights, which may have to bear its mark."""
        tokenizer = load_tokenizer(folder / "tokenizer.json")
        model = build_from_file(
            lambda: build_language_model(recipe.model, len(tokenizer)),
            folder / "model.safetensors",
            run_id,
        )
        return cls(recipe, tokenizer, model)


def count_train_characters(recipe: LanguageRecipe, characters: int) -> int:
    """How many characters of a text are learned from; the rest is held out."""
    return int(characters * (1 - recipe.data.validation))


def _slice_text(chunks: Iterable[str], begin: int, end: int) -> Iterator[str]:
    """The characters from one place to another of a text that comes in pieces."""
    place = 0
    for text in chunks:
        if some := text[max(begin - place, 0) : end - place]:
            yield some
        place += len(text)
        if place >= end:
            return


def _gather_windows(
    ids: TokenIds, starts: Sequence[int], length: int, device: torch.device
) -> tuple[Tensor, Tensor]:
    """Windows of a text, and the same a token later: `[windows, length]` each."""
    places = np.asarray(starts)[:, None] + np.arange(length + 1)
    rows = torch.from_numpy(ids[places].astype(np.int64)).to(device)
    return rows[:, :-1], rows[:, 1:]


def _count_characters(ids: TokenIds, tokenizer: Tokenizer, chunk_size: int = 2**20) -> int:
    """How many characters tokens stand for; what is unknown is one, however it is spelt."""
    some = (ids[k : k + chunk_size].tolist() for k in range(0, len(ids), chunk_size))
    spelt = sum(len(tokenizer.decode(part)) for part in some)
    return spelt - (len(UNK_TOKEN) - 1) * int(np.count_nonzero(ids == tokenizer.unk_id))


def _prefix_metrics(prefix: str, metrics: dict[str, float]) -> dict[str, float]:
    return {f"{prefix}_{name}": value for name, value in metrics.items()}
