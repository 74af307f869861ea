"""Language modeling: training on a text, measuring perplexity, and completing prompts."""

import hashlib
import json
import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from itertools import groupby, islice
from pathlib import Path
from typing import Any, Self, TypeAlias

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor

from workings.config import to_table
from workings.data.cache import (
    MAX_VOCABULARY_CHARACTERS,
    MIN_CACHED_CHARACTERS,
    TokenIds,
    compute_text_checksum,
    encode_cached,
    train_cached_tokenizer,
)
from workings.data.corpora import (
    estimate_characters,
    list_corpora,
    read_corpus,
    sample_chunks,
)
from workings.data.download import ProgressCallback
from workings.data.readers import detect_format_by_name
from workings.data.tokenizers.base import (
    EOS_TOKEN,
    REPLACEMENT_CHARACTER,
    UNK_TOKEN,
    Span,
    Tokenizer,
    load_tokenizer,
    train_tokenizer,
)
from workings.decode import GREEDY, Sampling, beam_search, generate
from workings.distributed import ProcessGroup
from workings.errors import UserError
from workings.models.language import LanguageModel, RNNState, build_language_model
from workings.models.summary import ModelSummary, summarize
from workings.modules import device_of, eval_mode
from workings.plain_text import show_whitespace
from workings.recipes import LanguageRecipe
from workings.tasks.attention import (
    AttentionPass,
    PassOptions,
    StackSpec,
    check_no_target,
    require_layers,
)
from workings.tasks.base import (
    MAX_LOSS,
    BatchLoss,
    GeneratedToken,
    Generation,
    ModelExporter,
    ModelInput,
    Response,
    Task,
    check_test_data,
    check_text,
    oom_hint,
    unknown_rate,
)
from workings.tasks.baselines import score_ngram_model

EVAL_BATCH_SIZE = 64  # windows per batch of the evaluation, unless MAX_LOGITS allows fewer
MAX_LOGITS = 2**26  # 256 MiB in float32
PROMPT_LENGTH = 20  # tokens of a sampled prompt
DECODE_CONTEXT = 4  # tokens of context with which new tokens are decoded
COUNTED_CHUNK = 2**20  # tokens read at a time to count characters or unknown tokens
READINGS = 3  # of a text: for its checksum, for the vocabulary, and to encode it
MAX_BASELINE_TOKENS = 20_000_000
EMPTY_IDS: TokenIds = np.zeros(0, np.uint16)

# From the prompt's ids, the number of tokens and the sampling: each token, and its logits.
TokenGenerator: TypeAlias = Callable[[Tensor, int, Sampling], Iterator[tuple[Tensor, Tensor]]]


class LanguageModeling(Task):
    """A text and a language model."""

    files = ("tokenizer.json",)
    metric = "validation_loss"
    baseline_metric = "sliding_bits_per_character"
    higher_is_better = False
    batch_unit = data_unit = "tokens"
    noun = "language model"
    verb = "complete"
    recipe: LanguageRecipe
    model: LanguageModel

    def __init__(self, recipe: LanguageRecipe, tokenizer: Tokenizer, model: LanguageModel) -> None:
        self.recipe, self.tokenizer, self.model = recipe, tokenizer, model
        self.data_info: dict[str, Any] = {}
        self._train_ids = self._validation_ids = EMPTY_IDS
        self._sampling_rate = 0.0  # of scheduled sampling, in the current epoch
        self._stream_state: RNNState | None = None  # hidden states between stateful batches

    @classmethod
    def from_recipe(
        cls,
        recipe: LanguageRecipe,
        progress: ProgressCallback | None = None,
        *,
        tokenizer: Tokenizer | None = None,
    ) -> Self:
        """Read the text, train the tokenizer and build a new model."""
        config, name = recipe.tokenizer, recipe.data.set
        expected = estimate_characters(name) if progress else 0

        def read(part: int) -> Iterator[str]:
            """Read the text, which is a part of the work."""
            done = 0
            for chunk in read_corpus(name, recipe.data.text):
                if progress and expected:
                    progress(part * expected + min(done, expected), READINGS * expected)
                done += len(chunk)
                yield chunk

        checksum, characters = compute_text_checksum(read(0))
        if characters < 2:
            size = "a single character" if characters else "it is empty"
            raise UserError(f"{name}: {size}: there is nothing to predict")
        train_characters = count_train_characters(recipe, characters)

        def train() -> Tokenizer:
            text = _slice_text(read(1), 0, train_characters)
            if config.kind != "characters":  # all of them are counted: it takes no time
                text = sample_chunks(text, train_characters, MAX_VOCABULARY_CHARACTERS)
            size, padded = config.vocab_size, config.padded_vocab_size
            return train_tokenizer(config.kind, text, size, config.min_count, pad_to=padded)

        if tokenizer is None and characters > MIN_CACHED_CHARACTERS:
            key = f"{checksum} {train_characters} {json.dumps(to_table(config))}"
            tokenizer = train_cached_tokenizer(train, key)
        tokenizer = tokenizer or train()
        torch.manual_seed(recipe.seed)
        task = cls(recipe, tokenizer, cls.build_model(recipe, tokenizer))
        task._train_ids, task._validation_ids = task._split_ids(
            checksum, characters, partial(read, 2)
        )
        counts = {"train": len(task._train_ids), "validation": len(task._validation_ids)}
        task.data_info = {"set": name, "characters": characters, **counts, "sha256": checksum}
        return task

    @classmethod
    def build_model(cls, recipe: LanguageRecipe, tokenizer: Tokenizer) -> LanguageModel:
        return build_language_model(recipe.model, len(tokenizer))

    @classmethod
    def list_datasets(cls) -> tuple[str, ...]:
        return list_corpora()

    def token_tables(self) -> dict[str, Tokenizer]:
        return dict.fromkeys(("embedding.weight", "head.weight", "head.bias"), self.tokenizer)

    def measure_unknown_rate(self) -> float:
        starts = range(0, len(self._train_ids), COUNTED_CHUNK)
        chunks = (self._train_ids[k : k + COUNTED_CHUNK] for k in starts)
        return unknown_rate((chunk, self.tokenizer) for chunk in chunks)

    def _split_ids(
        self, checksum: str, characters: int, read: Callable[[], Iterable[str]] | None = None
    ) -> tuple[TokenIds, TokenIds]:
        """Return the ids of the training and of the validation text, encoded separately."""
        name, cut = self.recipe.data.set, count_train_characters(self.recipe, characters)
        read = read or partial(read_corpus, name, self.recipe.data.text)
        train, validation = (
            encode_cached(
                _slice_text(read(), a, b),
                self.tokenizer,
                f"{checksum} {a} {b}",
            )
            for a, b in ((0, cut), (cut, characters))
        )
        if min(len(train), len(validation)) < 2:
            count = len(train) + len(validation)
            raise UserError(f"{name}: {count:,} tokens are too few for training and validation")
        return train, validation

    # -- training ----------------------------------------------------------------------------------

    def batches(self, epoch: int) -> list[list[int]]:
        """Return where the windows of each batch start: at random, or consecutively if stateful."""
        data, size = self.recipe.data, self.recipe.train.batch_size
        self._sampling_rate = self.recipe.scheduled_sampling.rate_at(epoch)
        if data.stateful:
            return self._stream_batches(epoch, size)
        rng = np.random.default_rng([self.recipe.seed, epoch])
        latest = len(self._train_ids) - 1 - self._context_length
        return rng.integers(0, latest, size=(data.eval_every, size), endpoint=True).tolist()  # type: ignore[no-any-return]

    def _stream_batches(self, epoch: int, size: int) -> list[list[int]]:
        """Cut the text into one stream per row of a batch, and go through them in parallel."""
        length, steps = self._stream_length, self.recipe.data.eval_every
        if length < self._context_length:
            raise UserError(
                f"{self.recipe.data.set}: {len(self._train_ids):,} tokens are too few for {size} "
                f"streams of windows of {self._context_length}: "
                "use a smaller train.batch_size or data.context_length"
            )
        windows = [(epoch * steps + k) % (length // self._context_length) for k in range(steps)]
        return [
            [row * length + window * self._context_length for row in range(size)]
            for window in windows
        ]

    @property
    def _stream_length(self) -> int:
        return (len(self._train_ids) - 1) // self.recipe.train.batch_size

    @property
    def _context_length(self) -> int:
        return min(self.recipe.data.context_length, len(self._train_ids) - 1)

    def weight(self, batch: Sequence[int]) -> int:
        return len(batch) * self._context_length

    def describe(self, batch: Sequence[int]) -> str:
        return f"a batch of {len(batch):,} windows of {self._context_length:,} tokens"

    def loss(self, batch: Sequence[int], device: torch.device) -> BatchLoss:
        """Compute the mean cross-entropy of the next token."""
        inputs, targets = _gather_windows(self._train_ids, batch, self._context_length, device)
        if self._sampling_rate:
            logits = self._scheduled_sampling_logits(inputs)
        elif self.recipe.data.stateful:
            logits = self._stateful_logits(batch, inputs)
        else:
            logits, _ = self.model(inputs)
        smoothing = self.recipe.train.label_smoothing
        return BatchLoss(
            F.cross_entropy(logits.flatten(0, 1), targets.flatten(), label_smoothing=smoothing)
        )

    def _stateful_logits(self, batch: Sequence[int], inputs: Tensor) -> Tensor:
        """Start from the last hidden states, or from zero at the beginning of the streams."""
        if batch[0] % self._stream_length == 0:
            self._stream_state = None
        logits: Tensor
        logits, state = self.model(inputs, self._stream_state)
        self._stream_state = state.detach()
        return logits

    def _scheduled_sampling_logits(self, inputs: Tensor) -> Tensor:
        """Replace each input by the model's own prediction with the current sampling rate."""
        logits: list[Tensor] = []
        state, token = None, inputs[:, 0]
        for t in range(inputs.shape[1]):
            if t:
                own = torch.multinomial(torch.softmax(logits[-1].detach(), -1), 1).squeeze(1)
                is_sampled = torch.rand(len(inputs), device=inputs.device) < self._sampling_rate
                token = torch.where(is_sampled, own, inputs[:, t])
            step_logits, state = self.model(token.unsqueeze(1), state)
            logits.append(step_logits[:, 0])
        return torch.stack(logits, 1)

    # -- evaluation --------------------------------------------------------------------------------

    def evaluate(self, process_group: ProcessGroup) -> dict[str, float]:
        """Compute loss, bits per character and perplexity on the validation text, in windows."""
        stride = self.recipe.data.context_length
        metrics = self._evaluate_ids(self._validation_ids, process_group, stride, self.eval_tokens)
        return _prefix_metrics("validation", metrics)

    def test(self, process_group: ProcessGroup) -> dict[str, float]:
        """Compute the same with windows that overlap by half, so that every token has context."""
        metrics = self._evaluate_ids(self._validation_ids, process_group, self._sliding_stride)
        return _prefix_metrics("sliding", metrics)

    def score_baselines(self) -> dict[str, float]:
        """Score single tokens and trigrams, in bits per character of the validation text."""
        train = np.asarray(self._train_ids[:MAX_BASELINE_TOKENS])
        validation = np.asarray(self._validation_ids[:MAX_BASELINE_TOKENS])
        characters = _count_characters(validation, self.tokenizer) / len(validation)
        return {
            name: score_ngram_model(train, validation, len(self.tokenizer), order) / characters
            for name, order in (("single tokens", 1), ("trigrams", 3))
        }

    @property
    def _sliding_stride(self) -> int:
        return max(self.recipe.data.context_length // 2, 1)

    def evaluate_on(self, data: str | None = None) -> dict[str, float]:
        """Compute the metrics on all of a text; None: on the recipe's validation text."""
        check_test_data(self.recipe, data)
        is_text = data is not None and detect_format_by_name(data) in (None, "text")
        column = "" if is_text else self.recipe.data.text
        text = read_corpus(data or self.recipe.data.set, column)
        checksum, characters = compute_text_checksum(text)
        if data is None:  # the best epoch was chosen by it
            self.check_trained_on(checksum)
            prefix, (_, ids) = "validation", self._split_ids(checksum, characters)
        else:
            prefix, ids = "test", encode_cached(read_corpus(data, column), self.tokenizer, checksum)
        if len(ids) < 2:
            raise UserError(f"{data}: a single token: there is nothing to predict")
        group, stride = self.local_group, self.recipe.data.context_length
        return _prefix_metrics(prefix, self._evaluate_ids(ids, group, stride)) | _prefix_metrics(
            "sliding", self._evaluate_ids(ids, group, self._sliding_stride)
        )

    @torch.no_grad()
    def _evaluate_ids(
        self,
        ids: TokenIds,
        process_group: ProcessGroup,
        stride: int,
        max_tokens: int | None = None,
    ) -> dict[str, float]:
        """Compute the metrics over all tokens but the first, in windows that start every `stride`.

        Each token is scored once, in the first window that contains it. With `max_tokens` only
        about as many are scored, in windows that are evenly spread.
        """
        context, last = self.recipe.data.context_length, len(ids) - 1
        step = 1 if max_tokens is None else max(math.ceil(last / max_tokens), 1)
        firsts = range(0, last, stride)[::step]  # the first scored token of each window
        windows = (
            (max(0, first + stride - context), min(first + stride, last), first) for first in firsts
        )
        nats, tokens, done = 0.0, 0, 0
        for (length, scored), group in groupby(windows, lambda w: (w[1] - w[0], w[1] - w[2])):
            size = max(1, min(EVAL_BATCH_SIZE, MAX_LOGITS // (length * len(self.tokenizer))))
            while starts := [start for start, _, _ in islice(group, size)]:
                self.on_progress(done, len(firsts))
                done, tokens = done + len(starts), tokens + len(starts) * scored
                share = process_group.shard_batch(starts)
                # A sharded model needs all processes in every forward pass, even without a share.
                inputs, targets = _gather_windows(
                    ids, share or starts[:1], length, process_group.device
                )
                activity = f"while evaluating {len(inputs):,} windows of {length:,} tokens"
                with oom_hint(activity, "a smaller data.context_length or model needs less"):
                    logits, _ = self.model(inputs)
                    scored_logits = logits[:, -scored:].flatten(0, 1).float()
                    scored_targets = targets[:, -scored:].flatten()
                    loss = F.cross_entropy(scored_logits, scored_targets, reduction="sum")
                nats += float(loss) if share else 0.0
        mean = process_group.all_reduce_sum({"nats": nats})["nats"] / tokens
        if step == 1:
            characters = _count_characters(ids, self.tokenizer, start=1) / tokens
        else:
            parts = (ids[first + 1 : min(first + stride, last) + 1] for first in firsts)
            characters = sum(_count_characters(part, self.tokenizer) for part in parts) / tokens
        return {
            "loss": mean,
            "bits_per_character": mean / math.log(2) / max(characters, 1e-9),
            "perplexity": math.exp(min(mean, MAX_LOSS)),
        }

    # -- generation --------------------------------------------------------------------------------

    def sample_inputs(self) -> list[str]:
        """Return two beginnings of the validation text."""
        starts = (0, len(self._validation_ids) // 2)
        ids = [self._validation_ids[k : k + PROMPT_LENGTH].tolist() for k in starts]
        return [text for text in map(self.tokenizer.decode, ids) if text.strip()]

    def sample_outputs(self) -> dict[str, Any]:
        """Return a sampled continuation of the beginning of the validation text."""
        if not self.recipe.data.sample:
            return {}
        prompt = self.tokenizer.decode(self._validation_ids[:PROMPT_LENGTH].tolist())
        sampling = Sampling(temperature=0.8, seed=self.recipe.seed)
        return {"sample": self.complete(prompt, self.recipe.data.sample, sampling)}

    def complete(
        self,
        prompt: str,
        max_tokens: int = 200,
        sampling: Sampling = GREEDY,
        stop_strings: Sequence[str] = (),
    ) -> str:
        """Return a prompt and its continuation."""
        tokens = self.stream(prompt, max_tokens, sampling, stop_strings)
        return prompt + "".join(token.text for token in tokens)

    def stream(
        self,
        prompt: str,
        max_tokens: int = 200,
        sampling: Sampling = GREEDY,
        stop_strings: Sequence[str] = (),
        num_alternatives: int = 0,
        generator: TokenGenerator | None = None,
    ) -> Iterator[GeneratedToken]:
        """Yield the tokens of a continuation, up to a stop string (which is left out)."""
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
        """List notes on a prompt: it has unknown tokens, or is longer than the context."""
        notes = []
        tokenizer, context = self.tokenizer, self.recipe.data.context_length
        ids = tokenizer.encode(prompt)
        if not ids and tokenizer.bos_id != tokenizer.eos_id:  # else texts are separated by it
            notes.append(
                "an empty prompt: generation starts from a token that was not in the training data"
            )
        tokens = set(tokenizer.tokenize(prompt))
        unknown = sorted(t for t in tokens if tokenizer.encode(t) == [tokenizer.unk_id])
        if unknown:
            notes.append(f"never seen in training, read as unknown: {' '.join(unknown)}")
        total, max_positions = len(ids) + max_tokens, self.model.max_positions
        if max_positions is not None and total > max_positions:
            notes.append(
                f"{total:,} tokens, but the model has {max_positions:,} positions: when they are "
                "used up, it reads the later half again and continues from there"
            )
        elif not self.model.is_recurrent and total > context:
            notes.append(
                f"{total:,} tokens: more than the {context:,} of the windows it was trained on"
            )
        return notes

    # -- looking inside ----------------------------------------------------------------------------

    def encode_with_spans(self, text: str) -> tuple[list[int], list[Span], int]:
        prefix_ids, tokenizer = self.tokenizer.prefix_ids, self.tokenizer
        spans = [(0, 0) for _ in prefix_ids] + tokenizer.find_spans(text)
        return [*prefix_ids, *tokenizer.encode(text)], spans, 0

    def respond(self, model_input: ModelInput, logits: Tensor | None = None) -> Response:
        text, tokenizer = check_text(model_input), self.tokenizer
        ids, spans, _ = self.encode_with_spans(text)
        if logits is None:
            logits = self._compute_next_logits(text)
        return Response(
            "Probability of the next token",
            tokens=[show_whitespace(name) for name in tokenizer.name_spans(text, ids, spans)],
            probabilities=torch.softmax(logits, -1),
            name_of=lambda k: show_whitespace(tokenizer.token_to_text(tokenizer.id_to_token(k))),
            notes=self.list_prompt_notes(text, 0),
        )

    @torch.no_grad()
    def _compute_next_logits(self, text: str) -> Tensor:
        ids = torch.tensor([_encode_prompt(self.tokenizer, text)], device=self.device)
        with eval_mode(self.model):
            logits, _ = self.model.start(ids)
        return logits[0].float().cpu()

    def plan_attention(
        self, model_input: ModelInput, target: Generation | str | None, options: PassOptions
    ) -> AttentionPass:
        text, model = check_text(model_input), self.model
        check_no_target(target)
        (part,) = options.select_parts("a language model", ("decoder",))
        layer_paths = require_layers(model, part)
        all_ids, spans, _ = self.encode_with_spans(text)
        count = options.limit_tokens(len(spans), model.max_positions)
        ids = torch.tensor([all_ids[:count]], device=self.device)
        tokens = self.tokenizer.name_spans(text, all_ids[:count], spans[:count])

        def forward() -> Tensor:
            features, _ = model.forward_features(ids, None)
            logits: Tensor = model.head(features[0, -1])
            return logits

        return AttentionPass(
            model,
            forward,
            [StackSpec(part, layer_paths, tokens, tokens, is_causal=True)],
            text,
            truncated_characters=len(text) - spans[count - 1][1],
        )

    def summarize_model(self) -> ModelSummary:
        return summarize(self.model, self.recipe.data.context_length)

    @classmethod
    def summarize_recipe(
        cls, recipe: LanguageRecipe, vocab_size: int, num_classes: int
    ) -> ModelSummary:
        del num_classes
        model = build_language_model(recipe.model, vocab_size)
        return summarize(model, recipe.data.context_length, recipe.train.batch_size)

    def export(self, exporter: ModelExporter) -> list[str]:
        return exporter.export_language_model(self.model, self.tokenizer)

    # -- the run folder ----------------------------------------------------------------------------

    def state_dict(self) -> dict[str, Tensor]:
        """Return the hidden states of stateful training, by layer."""
        layers = [] if self._stream_state is None else self._stream_state.layers
        return {
            f"{k}.{i}": t.cpu() for k, (hidden,) in enumerate(layers) for i, t in enumerate(hidden)
        }

    @torch.no_grad()
    def load_state_dict(self, state: Mapping[str, Tensor]) -> None:
        """Restore the hidden states of stateful training."""
        self._stream_state = None
        if not state:
            return
        _, like = self.model(torch.zeros(1, 1, dtype=torch.long, device=self.device))
        layers = [
            [tuple(state[f"{k}.{i}"].to(t) for i, t in enumerate(hidden))]
            for k, (hidden,) in enumerate(like.layers)
        ]
        shapes = {t.shape[1:] for ((*hidden,),) in layers for t in hidden}
        if shapes != {t.shape[1:] for ((*hidden,),) in like.layers for t in hidden}:
            raise ValueError("the hidden states have the shape of another model")
        self._stream_state = RNNState(layers)

    @property
    def preprocessing(self) -> tuple[Tokenizer]:
        return (self.tokenizer,)

    @classmethod
    def load_preprocessing(cls, folder: Path, recipe: LanguageRecipe) -> tuple[Tokenizer]:
        del recipe
        return (load_tokenizer(folder / "tokenizer.json"),)

    def save(self, folder: Path) -> None:
        """Write the tokenizer."""
        self.tokenizer.save(folder / "tokenizer.json")

    def fingerprint(self) -> dict[str, Any]:
        digest = hashlib.sha256(self._train_ids[:10_000].tobytes())
        return {**self.data_info, "tokens": len(self.tokenizer), "ids": digest.hexdigest()[:16]}

    def with_weights(self, weights: dict[str, Tensor]) -> Self:
        other = super().with_weights(weights)
        other._stream_state = None
        return other


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
    """Yield the tokens that continue a prompt, up to a stop string (which is left out).

    Text that may be the beginning of a stop string is held back. `generator` may generate the
    tokens by another engine than torch.
    """
    generator = generator or partial(generate, model)
    if sampling.temperature > 0:  # greedy decoding never picks a token that was not in training
        sampling = replace(sampling, suppress_tokens=list_non_text_ids(tokenizer))
    prompt_ids = _encode_prompt(tokenizer, prompt)
    ids = torch.tensor([prompt_ids], device=device_of(model))
    # New tokens are decoded after a few previous ones: after all of them, each token of a long
    # text would take longer than the one before.
    context, pending = prompt_ids, list[int]()
    finished, text, num_yielded = "", "", 0
    for token, logits in generator(ids, max_tokens, sampling):
        pending.append(int(token[0]))
        new = tokenizer.decode([*context, *pending])[len(tokenizer.decode(context)) :]
        text = finished + new
        end = min((k for stop in stop_strings if (k := text.find(stop)) >= 0), default=-1)
        safe = len(text) - _count_held_back(text, stop_strings) if end < 0 else end
        probabilities = torch.softmax(logits[0].float(), -1)
        yield GeneratedToken(
            text[num_yielded:safe],
            tokenizer.token_to_text(tokenizer.id_to_token(pending[-1])),
            float(probabilities[pending[-1]]),
            _top_alternatives(probabilities, num_alternatives, tokenizer),
        )
        num_yielded = max(num_yielded, safe)
        if end >= 0:
            return
        if new and not new.endswith(REPLACEMENT_CHARACTER):
            # The spelling of a word may depend on the words before it: don, ' and t are don't.
            context, pending, finished = [*context, *pending][-DECODE_CONTEXT:], [], text
    if num_yielded < len(text):
        yield GeneratedToken(text[num_yielded:], "", 1.0, ())


def _encode_prompt(tokenizer: Tokenizer, prompt: str) -> list[int]:
    # A model needs at least one token.
    return [*tokenizer.prefix_ids, *tokenizer.encode(prompt)] or [tokenizer.bos_id]


def list_non_text_ids(tokenizer: Tokenizer) -> tuple[int, ...]:
    """Return the ids of the special tokens that are in no text: padding, start, unknown."""
    return tuple(k for k, name in enumerate(tokenizer.specials) if name != EOS_TOKEN)


def beam_completions(
    model: LanguageModel, tokenizer: Tokenizer, prompt: str, max_tokens: int, beams: int
) -> list[tuple[str, float]]:
    """Return the continuations that beam search finds, with their log probabilities."""
    prompt_ids = _encode_prompt(tokenizer, prompt)
    ids = torch.tensor([prompt_ids], device=device_of(model))
    start = len(tokenizer.decode(prompt_ids))
    (hypotheses,) = beam_search(
        model, ids, stop=tokenizer.eos_id, max_length=max_tokens, beams=beams
    )
    return [
        (tokenizer.decode([*prompt_ids, *h.tokens])[start:], h.log_probability) for h in hypotheses
    ]


def _top_alternatives(
    probabilities: Tensor, count: int, tokenizer: Tokenizer
) -> tuple[tuple[str, float], ...]:
    best = probabilities.topk(min(count, len(probabilities)))
    pairs = zip(best.indices.tolist(), best.values.tolist(), strict=True)
    return tuple((tokenizer.token_to_text(tokenizer.id_to_token(k)), p) for k, p in pairs)


def _count_held_back(text: str, stop_strings: Sequence[str]) -> int:
    """Count the characters at the end that may begin a stop string, or are half a character."""
    longest = 1 if text.endswith(REPLACEMENT_CHARACTER) else 0
    for stop in stop_strings:
        for length in range(min(len(stop) - 1, len(text)), longest, -1):
            if text.endswith(stop[:length]):
                longest = length
                break
    return longest


def count_train_characters(recipe: LanguageRecipe, characters: int) -> int:
    """Return how many characters of a text are for training; the rest is for validation."""
    return int(characters * (1 - recipe.data.validation))


def _slice_text(chunks: Iterable[str], start: int, end: int) -> Iterator[str]:
    """Yield the characters from `start` to `end` of a text that comes in chunks."""
    position = 0
    for chunk in chunks:
        if part := chunk[max(start - position, 0) : end - position]:
            yield part
        position += len(chunk)
        if position >= end:
            return


def _gather_windows(
    ids: TokenIds, starts: Sequence[int], length: int, device: torch.device
) -> tuple[Tensor, Tensor]:
    """Return inputs and targets (one token later) of windows, `[windows, length]` each."""
    windows = np.stack([ids[start : start + length + 1] for start in starts])
    rows = torch.from_numpy(windows.astype(np.int64)).to(device)
    return rows[:, :-1], rows[:, 1:]


def _count_characters(ids: TokenIds, tokenizer: Tokenizer, start: int = 0) -> int:
    """Count the characters of a text given as ids, from `start`; an unknown token counts as one."""
    characters = 0
    for k in range(start, len(ids), COUNTED_CHUNK):
        chunk = ids[k : k + COUNTED_CHUNK]
        num_unknown = int(np.count_nonzero(chunk == tokenizer.unk_id))
        characters += len(tokenizer.decode(chunk.tolist())) - (len(UNK_TOKEN) - 1) * num_unknown
    return characters


def _prefix_metrics(prefix: str, metrics: dict[str, float]) -> dict[str, float]:
    return {f"{prefix}_{name}": value for name, value in metrics.items()}
