"""Translation: training on sentence pairs, scoring with BLEU and chrF, and translating texts."""

import hashlib
import json
import math
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from functools import partial
from itertools import islice
from pathlib import Path
from types import MappingProxyType
from typing import Any, Self
from unicodedata import category

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from workings.data.batching import make_batches, make_pair_batches, pad
from workings.data.download import ProgressCallback
from workings.data.pair_encoding import encode_pairs, make_cache_key, train_pair_tokenizers
from workings.data.parallel import (
    PairSplits,
    SentencePair,
    list_parallel_datasets,
    load_pairs,
    load_test_pairs,
)
from workings.data.progress import split_progress
from workings.data.tokenizers.base import (
    EOS_TOKEN,
    Span,
    Tokenizer,
    TokenizerPair,
    get_stop_id,
    load_tokenizer_pair,
)
from workings.data.tokenizers.byte_pair import BPEDropout, BytePairTokenizer
from workings.data.tokenizers.words import WordTokenizer
from workings.decode import Hypothesis, Sampling, SearchFunction, beam_search
from workings.distributed import ProcessGroup
from workings.errors import UserError
from workings.metrics.bleu import score_tokenized_bleu, score_translations
from workings.models.summary import ModelSummary, summarize
from workings.models.translation import PAD, START, SentenceBatch, Translator, build_translator
from workings.modules import device_of
from workings.plain_text import show_whitespace
from workings.ragged import RaggedArray
from workings.recipes import SearchConfig, TranslationRecipe
from workings.tasks.attention import (
    AttentionPass,
    NoAttentionError,
    PassOptions,
    TargetText,
    collect_cross_attention,
    plan_decoder_pass,
    plan_encoder_pass,
    select_decoder_parts,
)
from workings.tasks.base import (
    SPLIT_NAMES,
    SUMMARY_LENGTH,
    Generation,
    ModelExporter,
    ModelInput,
    Response,
    Seq2SeqTask,
    check_test_data,
    check_text,
    sample_texts,
    shift_right,
    unknown_rate,
)

GREEDY_SEARCH = SearchConfig(beams=1, length_penalty=0.0)
NUM_SAMPLES = 2  # translations logged after each epoch
MAX_BATCH_TOKENS = 2**14  # source tokens times beams in a batch
MAX_SENTENCE_TOKENS = 256  # longer texts are split
SORT_BUFFER_SIZE = 2000  # sentences sorted by length at a time


class Translation(Seq2SeqTask):
    """Sentence pairs and a translator."""

    data_unit = "pairs"
    baseline_metric = "test_bleu"
    selectable_metrics = MappingProxyType({"loss": False, "bleu": True})
    noun = "translator"
    verb = "translate"
    recipe: TranslationRecipe
    model: Translator

    def __init__(
        self, recipe: TranslationRecipe, tokenizers: TokenizerPair, model: Translator
    ) -> None:
        super().__init__(recipe)
        self.tokenizers, self.model = tokenizers, model
        model.forced_first_id = next(iter(tokenizers.target.prefix_ids), None)
        self.pairs: dict[str, tuple[SentencePair, ...]] = dict.fromkeys(SPLIT_NAMES, ())
        self._encoded: dict[str, tuple[RaggedArray, RaggedArray]] = {}  # sources and targets
        self._test_pairs_in_train = 0
        self._bpe_dropout: tuple[BPEDropout, BPEDropout] | None = None
        self._bpe_epoch = -1  # the epoch that the training pairs were last tokenized for

    @property
    def files(self) -> tuple[str, ...]:  # type: ignore[override]
        """The files of the tokenizers: a shared one, or two."""
        shared = self.recipe.tokenizer.shared_vocab
        return ("tokenizer.json",) if shared else ("source.json", "target.json")

    @classmethod
    def from_recipe(
        cls,
        recipe: TranslationRecipe,
        progress: ProgressCallback | None = None,
        *,
        tokenizer: TokenizerPair | None = None,
    ) -> Self:
        """Read the pairs, train the tokenizers and build a new model."""
        stages = split_progress(progress, 3)  # reading, the vocabulary, encoding
        splits = _load_pairs(recipe, stages[0])
        data_info = _describe_data(recipe, splits)
        key = make_cache_key(splits, data_info["sha256"])
        tokenizers = tokenizer or train_pair_tokenizers(
            recipe.tokenizer,
            splits.train,
            lower=_is_lower(recipe),
            key=key,
            progress=stages[1],
        )
        torch.manual_seed(recipe.seed)
        task = cls(recipe, tokenizers, cls.build_model(recipe, tokenizers))
        task.data_info = data_info
        task._note_overlap(splits.train, splits.test)
        for split, report in zip(SPLIT_NAMES, split_progress(stages[2], 3), strict=True):
            task._encode_split(split, getattr(splits, split), key and f"{key} {split}", report)
        if not recipe.tokenizer.dropout:
            task.pairs["train"] = ()  # they are used once, and would take most of the memory
        return task

    @classmethod
    def build_model(cls, recipe: TranslationRecipe, tokenizers: TokenizerPair) -> Translator:
        return build_translator(recipe.model, len(tokenizers.source), len(tokenizers.target))

    @classmethod
    def list_datasets(cls) -> tuple[str, ...]:
        return list_parallel_datasets()

    @property
    def target_tokenizer(self) -> Tokenizer:
        return self.tokenizers.target

    def token_tables(self) -> dict[str, Tokenizer]:
        return {**super().token_tables(), "source_embedding.weight": self.tokenizers.source}

    def measure_unknown_rate(self) -> float:
        source, target = self.tokenizers.source, self.tokenizers.target
        pairs = zip(*self._encoded["train"], strict=True)
        return unknown_rate(side for a, b in pairs for side in ((a, source), (b, target)))

    def _encode_split(
        self,
        split: str,
        pairs: tuple[SentencePair, ...],
        key: str = "",
        progress: ProgressCallback | None = None,
    ) -> None:
        """Encode the pairs of a split; with a key, their ids are in a file of the user's cache."""
        self.pairs[split] = pairs
        self._encoded[split] = encode_pairs(self.tokenizers, pairs, key=key, progress=progress)

    # -- training ----------------------------------------------------------------------------------

    def batches(self, epoch: int) -> list[list[int]]:
        """Return batches of pairs of similar length, limited by their tokens."""
        self.update_sampling_rate(epoch)
        self._resample_bpe(epoch)
        return make_pair_batches(
            *self._lengths("train"),
            max_tokens=self.recipe.train.batch_size,
            seed=self.recipe.seed,
            epoch=epoch,
        )

    def _resample_bpe(self, epoch: int) -> None:
        """Tokenize the training pairs again for an epoch, if the recipe has BPE-dropout."""
        rate, tokenizers = self.recipe.tokenizer.dropout, self.tokenizers
        if not rate or self._bpe_epoch == epoch:
            return
        if self._bpe_dropout is None:
            assert isinstance(tokenizers.source, BytePairTokenizer)
            assert isinstance(tokenizers.target, BytePairTokenizer)
            pairs, seed = self.pairs["train"], self.recipe.seed
            sources = [tokenizers.normalize_case(pair.source) for pair in pairs]
            targets = [tokenizers.normalize_case(pair.target) for pair in pairs]
            self._bpe_dropout = (
                BPEDropout(tokenizers.source, sources, rate, f"source {seed}"),
                BPEDropout(tokenizers.target, targets, rate, f"target {seed}"),
            )
        sources_ids, targets_ids = (side.sample_epoch(epoch) for side in self._bpe_dropout)
        stop = get_stop_id(tokenizers.source)
        self._encoded["train"] = sources_ids.surround((), (stop,)), targets_ids
        self._bpe_epoch = epoch

    def _lengths(self, split: str) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Return the lengths of sources and targets, both with their stop token."""
        sources, targets = self._encoded[split]
        return sources.lengths, targets.lengths + 1

    def weight(self, batch: Sequence[int]) -> int:
        return int(self._encoded["train"][1].lengths[batch].sum()) + len(batch)

    def describe(self, batch: Sequence[int]) -> str:
        source, target = (int(rows.lengths[batch].max()) for rows in self._encoded["train"])
        return f"a batch of {len(batch):,} pairs, the longest of {source:,} and {target:,} tokens"

    def collate(
        self, split: str, batch: Sequence[int], device: torch.device
    ) -> tuple[SentenceBatch, Tensor, Tensor]:
        sources, targets = self._encoded[split]
        ids, lengths = pad([sources[k] for k in batch])
        source = SentenceBatch(ids.to(device), lengths.to(device))
        stop = get_stop_id(self.tokenizers.target)
        return source, *shift_right([targets[k] for k in batch], stop, device)

    # -- evaluation --------------------------------------------------------------------------------

    def list_eval_batches(self, split: str) -> list[list[int]]:
        tokens = self.recipe.train.batch_size
        return make_pair_batches(*self._lengths(split), max_tokens=tokens, seed=0, shuffle=False)

    def count_validation_tokens(self) -> int:
        return int(self._lengths("validation")[1].sum())

    def evaluate(self, process_group: ProcessGroup) -> dict[str, float]:
        """Compute the loss on the validation pairs, and BLEU if that chooses the best epoch."""
        if not self.pairs["validation"]:
            return {}
        metrics = self.evaluate_loss("validation", process_group)
        if self.recipe.train.metric == "bleu":
            stride = self.eval_stride
            translations = self._translate_split("validation", process_group, GREEDY_SEARCH, stride)
            references = self._references("validation")[::stride]
            scores = score_translations(translations, references, lowercase=self.tokenizers.lower)
            metrics["validation_bleu"] = scores.bleu.score
        return metrics

    def _translate_split(
        self, split: str, process_group: ProcessGroup, config: SearchConfig, stride: int = 1
    ) -> list[str]:
        pairs = self.pairs[split][::stride]
        return self.split_over_ranks(
            len(pairs),
            process_group,
            lambda share: self.translate_best((pairs[k].source for k in share), config),
        )

    def score_baselines(self) -> dict[str, float]:
        """Score copies of the source sentences, in BLEU."""
        if not self.pairs["test"]:
            return {}
        sources = [pair.source for pair in self.pairs["test"]]
        scores = score_translations(
            sources, self._references("test"), lowercase=self.tokenizers.lower
        )
        return {"copying the source": scores.bleu.score}

    def _references(self, split: str) -> list[str]:
        return [pair.target for pair in self.pairs[split]]

    def test(self, process_group: ProcessGroup) -> dict[str, Any]:
        """Translate the test pairs; compute loss, BLEU and chrF."""
        if not self.pairs["test"]:
            return {}
        translations = self._translate_split("test", process_group, self.recipe.search)
        references, lower = self._references("test"), self.tokenizers.lower
        scores = score_translations(translations, references, lowercase=lower)
        metrics = {
            **self.evaluate_loss("test", process_group),
            "test_bleu": scores.bleu.score,
            "test_chrf": scores.chrf.score,
            "test_pairs": len(translations),
            **({"test_pairs_in_train": overlap} if (overlap := self._test_pairs_in_train) else {}),
            "signature": scores.bleu.signature,
            "chrf_signature": scores.chrf.signature,
        }
        with suppress(UserError):  # the Moses tokenizer does not have all languages
            tokenized = score_tokenized_bleu(
                translations, references, language=self.recipe.data.target, lowercase=lower
            )
            metrics["test_tokenized_bleu"] = tokenized.score
            metrics["tokenized_signature"] = tokenized.signature
        return metrics

    def _note_overlap(self, train: Sequence[SentencePair], test: Sequence[SentencePair]) -> None:
        """Count the test pairs that are among the training pairs."""
        tested = set(test)
        common = {pair for pair in train if pair in tested}
        self._test_pairs_in_train = sum(pair in common for pair in test)

    def sample_inputs(self) -> list[str]:
        """Return the sources of the first validation pairs."""
        return [pair.source for pair in self.pairs["validation"][:NUM_SAMPLES]]

    def sample_outputs(self) -> dict[str, Any]:
        """Return translations of the first validation pairs."""
        sources = self.sample_inputs()
        if not sources:
            return {}
        pairs = zip(sources, self.translate_best(sources, GREEDY_SEARCH), strict=True)
        return {"sample": "\n".join(f"{source} → {text}" for source, text in pairs)}

    def evaluate_on(self, data: str | None = None) -> dict[str, Any]:
        """Compute the metrics on a dataset's test split, a file, or the recipe's test split."""
        self._encode_split("test", self.load_test_pairs(data))
        with suppress(UserError):  # without the training data, their overlap is not reported
            self._note_overlap(self.load_train_pairs(), self.pairs["test"])
        return self.test(self.local_group)

    def load_train_pairs(self) -> tuple[SentencePair, ...]:
        """Read the training pairs again; raise UserError if they are missing or have changed."""
        return self._check_same_data(_load_pairs(self.recipe, fetch=False)).train

    def _check_same_data(self, splits: PairSplits) -> PairSplits:
        self.check_trained_on(_describe_data(self.recipe, splits)["sha256"])
        return splits

    def load_test_pairs(self, data: str | None = None) -> tuple[SentencePair, ...]:
        """Read the test split of a dataset, all pairs of a file, or the recipe's test split."""
        config = self.recipe.data
        check_test_data(self.recipe, data)
        if data is None or (data == config.set and data in list_parallel_datasets()):
            pairs = self._check_same_data(_load_pairs(self.recipe)).test
        else:
            pairs = load_test_pairs(data, source=config.source, target=config.target)
        if not pairs:
            raise UserError(f"{data or config.set}: it has no test pairs")
        return pairs

    # -- translating -------------------------------------------------------------------------------

    def translate(
        self,
        texts: Iterable[str],
        config: SearchConfig | None = None,
        sampling: Sampling | None = None,
        search_function: SearchFunction | None = None,
    ) -> Iterator[list[Generation]]:
        """Yield the translations of each text, best first; with `sampling`, a sampled one."""
        return translate(
            self.model,
            self.tokenizers,
            texts,
            config or self.recipe.search,
            sampling,
            search_function,
        )

    def translate_best(
        self, texts: Iterable[str], config: SearchConfig | None = None
    ) -> Iterator[str]:
        """Yield the best translation of each text."""
        return (translation.text for translation in self._iter_best(texts, config))

    def translate_one(self, text: str) -> Generation:
        """Return the best translation of a text, with its tokens and score."""
        return next(self._iter_best([text]))

    def _iter_best(
        self, texts: Iterable[str], config: SearchConfig | None = None
    ) -> Iterator[Generation]:
        search = partial(beam_search, self.model, num_best=1)
        nothing = Generation("", (), -math.inf, -math.inf)  # if all logits are NaN
        return (
            best_translations[0] if best_translations else nothing
            for best_translations in self.translate(texts, config, search_function=search)
        )

    def respond(self, model_input: ModelInput, logits: Tensor | None = None) -> Response:
        del logits  # the best translation is found by a search
        text = check_text(model_input)
        if not text.strip():
            raise UserError("nothing to translate: enter a sentence")
        tokens = self.tokenizers.source.tokenize(text)
        return Response(
            "Best translation",
            tokens=[show_whitespace(token) for token in tokens],
            generation=self.translate_one(text),
        )

    # -- looking inside ----------------------------------------------------------------------------

    def encode_with_spans(self, text: str) -> tuple[list[int], list[Span], int]:
        text = self.tokenizers.normalize_case(text)
        return self.tokenizers.source.encode(text), self.tokenizers.source.find_spans(text), 0

    def plan_attention(
        self, model_input: ModelInput, target: Generation | str | None, options: PassOptions
    ) -> AttentionPass:
        text, model, tokenizers = check_text(model_input), self.model, self.tokenizers
        parts = select_decoder_parts(model, self.noun, ("cross", "decoder", "encoder"), options)
        pieces = tokenizers.source.split_pieces(tokenizers.normalize_case(text))
        pieces = tokenizers.source.add_prefix_pieces(pieces)
        PassOptions(max_tokens=options.max_text_tokens).limit_tokens(len(pieces))
        source_tokens = [*tokenizers.source.label_pieces(pieces), EOS_TOKEN]
        source = collate_sources([tokenizers.encode_source(text)], model)
        texts: Any = {"source_text": text, "source_pieces": pieces}
        if parts == ["encoder"]:
            return plan_encoder_pass(model, source, source_tokens, **texts)
        if not isinstance(target, str):
            self.check_single_sentence(text)
        if target is None:
            target = self.translate_one(text)
        elif isinstance(target, str):
            target = tokenizers.normalize_case(target)
        output = TargetText.build(tokenizers.target, target)
        return plan_decoder_pass(model, source, parts, source_tokens, output, options, **texts)

    def check_single_sentence(self, text: str) -> None:
        """Raise UserError for an empty text, or one that is translated in several parts."""
        if not text.strip():
            raise NoAttentionError("an empty text: it has no attention")
        if len(self.tokenizers.source.split_long_text(text, MAX_SENTENCE_TOKENS)) > 1:
            count, limit = len(self.tokenizers.encode_source(text)) - 1, MAX_SENTENCE_TOKENS
            raise UserError(f"{count:,} tokens: an alignment needs one sentence of at most {limit}")

    @classmethod
    def summarize_recipe(
        cls, recipe: TranslationRecipe, vocab_size: int, num_classes: int
    ) -> ModelSummary:
        del num_classes
        model = build_translator(recipe.model, vocab_size, vocab_size)
        return summarize(model, SUMMARY_LENGTH, recipe.train.batch_size // SUMMARY_LENGTH)

    def export(self, exporter: ModelExporter) -> list[str]:
        return exporter.export_translator(self.model, self.tokenizers)

    # -- the run folder ----------------------------------------------------------------------------

    @property
    def preprocessing(self) -> tuple[TokenizerPair]:
        return (self.tokenizers,)

    @classmethod
    def load_preprocessing(cls, folder: Path, recipe: TranslationRecipe) -> tuple[TokenizerPair]:
        shared = recipe.tokenizer.shared_vocab
        return (load_tokenizer_pair(folder, shared=shared, lower=_is_lower(recipe)),)

    def save(self, folder: Path) -> None:
        """Write the tokenizers."""
        for name, tokenizer in zip(self.files, (self.tokenizers.source, self.tokenizers.target)):  # noqa: B905 - a shared one is written once
            tokenizer.save(folder / name)

    def fingerprint(self) -> dict[str, Any]:
        digest = hashlib.sha256()
        for pair in islice(zip(*self._encoded["train"], strict=True), 1000):
            for ids in pair:
                digest.update(np.asarray(ids, np.int32).tobytes())
        return {
            **self.data_info,
            "tokens": len(self.tokenizers.target),
            "ids": digest.hexdigest()[:16],
        }


def _load_pairs(
    recipe: TranslationRecipe, progress: ProgressCallback | None = None, *, fetch: bool = True
) -> PairSplits:
    config = recipe.data
    return load_pairs(
        config.set,
        source=config.source,
        target=config.target,
        validation=config.validation,
        test=config.test,
        max_length=config.max_length,
        ratio=config.ratio,
        seed=recipe.seed,
        allow_download=fetch,
        progress=progress,
    )


def _describe_data(recipe: TranslationRecipe, splits: PairSplits) -> dict[str, Any]:
    """Return name, languages, sizes, filter statistics and checksum of the pairs."""
    digest = hashlib.sha256()
    for split in SPLIT_NAMES:
        for pair in getattr(splits, split):
            digest.update(json.dumps([split, pair.source, pair.target]).encode())
    data, counts = recipe.data, {split: len(getattr(splits, split)) for split in SPLIT_NAMES}
    return {
        "set": data.set,
        "source": data.source,
        "target": data.target,
        **counts,
        "filtered": splits.filter_stats.describe(),
        "sha256": digest.hexdigest(),
    }


def _is_lower(recipe: TranslationRecipe) -> bool:
    """Return True if text is lowercased, as word vocabularies always are."""
    return recipe.tokenizer.lower or recipe.tokenizer.kind == "words"


def translate(
    model: Translator,
    tokenizers: TokenizerPair,
    texts: Iterable[str],
    config: SearchConfig,
    sampling: Sampling | None = None,
    search_function: SearchFunction | None = None,
) -> Iterator[list[Generation]]:
    """Yield the translations of each text in order, best first; with `sampling`, a sampled one.

    The translation of an empty text is empty. Long texts are translated in parts.
    """
    search = search_function or partial(beam_search, model)
    remaining = iter(texts)
    while buffer := list(islice(remaining, SORT_BUFFER_SIZE)):
        parts = [tokenizers.source.split_long_text(t, MAX_SENTENCE_TOKENS) for t in buffer]
        flat = [part for text_parts in parts for part in text_parts]
        translated = iter(_translate_batches(model, tokenizers, flat, config, sampling, search))
        for text_parts in parts:
            yield _join_parts(list(islice(translated, len(text_parts))))


def _translate_batches(
    model: Translator,
    tokenizers: TokenizerPair,
    texts: Sequence[str],
    config: SearchConfig,
    sampling: Sampling | None,
    search: SearchFunction,
) -> list[list[Generation]]:
    """Translate texts in batches of similar length."""
    result = {k: [Generation("", (), 0.0, 0.0)] for k, text in enumerate(texts) if not text.strip()}
    indices = [k for k in range(len(texts)) if k not in result]
    encoded = [tokenizers.encode_source(texts[k]) for k in indices]
    lengths, max_tokens = [len(ids) for ids in encoded], max(MAX_BATCH_TOKENS // config.beams, 1)
    stop = get_stop_id(tokenizers.target)
    for batch in make_batches(lengths, max_tokens=max_tokens, seed=0, shuffle=False):
        source = collate_sources([encoded[k] for k in batch], model)
        max_length = [config.max_length or 2 * lengths[k] + 10 for k in batch]
        if sampling is None:
            hypotheses = search(
                source,
                stop=stop,
                max_length=max_length,
                beams=config.beams,
                length_penalty=config.length_penalty,
            )
        else:
            hypotheses = sample_texts(model, source, stop, sampling, max_length)
        for k, ranked in zip((indices[b] for b in batch), hypotheses, strict=True):
            result[k] = [
                Generation(
                    detokenize(model, tokenizers, texts[k], h), h.tokens, h.log_probability, h.score
                )
                for h in ranked
            ]
    return [result[k] for k in range(len(texts))]


def _join_parts(parts: list[list[Generation]]) -> list[Generation]:
    """Join the translations of a text's parts: the best of each, the second best, and so on."""
    if len(parts) == 1:
        return parts[0]
    return [
        Generation(
            " ".join(part.text for part in ranked),
            tuple(token for part in ranked for token in part.tokens),
            sum(part.log_probability for part in ranked),
            sum(part.score for part in ranked),
        )
        for ranked in zip(*parts, strict=False)
    ]


def collate_sources(encoded: Sequence[Sequence[int]], model: Translator) -> SentenceBatch:
    """Return a padded batch of encoded sentences on the model's device."""
    device = device_of(model)
    ids, lengths = pad([list(ids) for ids in encoded])
    return SentenceBatch(ids.to(device), lengths.to(device))


def detokenize(
    model: Translator, tokenizers: TokenizerPair, source: str, hypothesis: Hypothesis
) -> str:
    """Return the text of a hypothesis.

    An unknown word is replaced by the source word with the largest attention weight, most often a
    name. Punctuation gets large weights, too, but is never the unknown word.
    """
    unknown = tokenizers.target.unk_id
    if not isinstance(tokenizers.target, WordTokenizer) or unknown not in hypothesis.tokens:
        return tokenizers.target.decode(hypothesis.tokens).strip()
    weights = _mean_cross_attention(model, tokenizers, source, hypothesis.tokens)
    source_words = tokenizers.source.tokenize(source)
    candidates = [k for k, word in enumerate(source_words) if not _is_punctuation(word)]
    if weights is None or not candidates:
        return tokenizers.target.decode(hypothesis.tokens)
    words = [
        source_words[candidates[int(weights[k, candidates].argmax())]]
        if token == unknown
        else tokenizers.target.id_to_token(token)
        for k, token in enumerate(hypothesis.tokens)
        if token not in (PAD, START)
    ]
    return tokenizers.target.join(words)


def _is_punctuation(word: str) -> bool:
    """Return True if a word has punctuation characters only.

    >>> [_is_punctuation(word) for word in (",", "...", "t-shirt", "☺")]
    [True, True, False, False]
    """
    return all(category(character).startswith("P") for character in word)


def _mean_cross_attention(
    model: Translator, tokenizers: TokenizerPair, source: str, tokens: Sequence[int]
) -> Tensor | None:
    """Return the mean over layers and heads, `[tokens, source]`, without the stop token."""
    device = device_of(model)
    target = torch.tensor([[START, *tokens]], device=device)
    layers = collect_cross_attention(
        model, collate_sources([tokenizers.encode_source(source)], model), target
    )
    if not layers:
        return None
    return torch.stack(layers).mean((0, 2))[0, :-1, :-1]
