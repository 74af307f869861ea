"""Sentences in, translations out: searched for, spelt, and unknown words taken from the source."""

import hashlib
import json
import math
import re
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from itertools import islice
from pathlib import Path
from typing import Any, Protocol
from unicodedata import category

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from workings.data.batching import make_batches, make_pair_batches, pad
from workings.data.download import ProgressCallback
from workings.data.parallel import (
    PairSplits,
    SentencePair,
    list_parallel_datasets,
    load_pairs,
    load_test_pairs,
)
from workings.data.tokenizers.base import Tokenizer
from workings.data.tokenizers.bpe_dropout import BPEDropout
from workings.data.tokenizers.byte_pair import BytePairTokenizer
from workings.data.tokenizers.registry import load_tokenizer, train_tokenizer
from workings.data.tokenizers.words import WordTokenizer
from workings.decode.beam import Hypothesis, beam_search
from workings.decode.sampling import Sampling
from workings.distributed import ProcessGroup
from workings.errors import UserError
from workings.metrics.bleu import score_tokenized_bleu, score_translations
from workings.models.translation import PAD, START, SentenceBatch, Translator, build_translator
from workings.recipes import SearchConfig, TranslationRecipe
from workings.tasks.base import build_from_file
from workings.tasks.seq2seq import (
    Generation,
    Seq2SeqTask,
    collect_cross_attention,
    get_stop_id,
    sample_texts,
    shift_right,
)

MAX_BATCH_TOKENS = 2**14  # tokens of sources and beams in a batch
SORT_BUFFER_SIZE = 2000  # sentences that are sorted by length together
MAX_SENTENCE_TOKENS = 256  # tokens of a sentence: whoever writes more on a line writes no sentence
MAX_TOKEN_CHARACTERS = 32  # in a token, at most, when a text is cut
_SENTENCE_ENDS = re.compile(r"(?<=[.!?…])\s+|(?<=[。！？])\s*")


@dataclass(frozen=True)
class TokenizerPair:
    """How the sentences of two languages become tokens; `lower`: in small letters."""

    source: Tokenizer
    target: Tokenizer
    lower: bool = False

    def normalize_case(self, text: str) -> str:
        """A text as it is read: in small letters, if these are all there are."""
        return text.lower() if self.lower else text

    def encode_source(self, text: str) -> list[int]:
        """The ids of a source, with a stop: a sentence may be empty, but has an end."""
        return [*self.source.encode(self.normalize_case(text)), get_stop_id(self.source)]

    def encode_target(self, text: str) -> list[int]:
        """The ids of a translation, without start and stop."""
        return self.target.encode(self.normalize_case(text))


class SearchFunction(Protocol):
    """What finds the best translations: `decode.beam.beam_search`, or who stands in its place."""

    def __call__(
        self,
        source: SentenceBatch,
        *,
        stop: int,
        max_length: Sequence[int],
        beams: int,
        length_penalty: float,
    ) -> list[list[Hypothesis]]: ...


def translate(
    model: Translator,
    tokenizers: TokenizerPair,
    texts: Iterable[str],
    config: SearchConfig,
    sampling: Sampling | None = None,
    search_function: SearchFunction | None = None,
) -> Iterator[list[Generation]]:
    """Translate texts as they come, in their order: of each the best, best first; or one drawn.

    Nothing is translated by nothing. What is no sentence any more is translated in stretches.
    """
    search = search_function or partial(beam_search, model)
    waiting = iter(texts)
    while some := list(islice(waiting, SORT_BUFFER_SIZE)):
        parts = [split_long_text(tokenizers, text) for text in some]
        flat = [part for stretched in parts for part in stretched]
        found = iter(_translate_batches(model, tokenizers, flat, config, sampling, search))
        for stretched in parts:
            yield _join_parts(list(islice(found, len(stretched))))


def _translate_batches(
    model: Translator,
    tokenizers: TokenizerPair,
    texts: Sequence[str],
    config: SearchConfig,
    sampling: Sampling | None,
    search: SearchFunction,
) -> list[list[Generation]]:
    """Translate texts together, those of like length in a batch."""
    found = {k: [Generation("", (), 0.0, 0.0)] for k, text in enumerate(texts) if not text.strip()}
    asked = [k for k in range(len(texts)) if k not in found]
    encoded = [tokenizers.encode_source(texts[k]) for k in asked]
    room = max(MAX_BATCH_TOKENS // config.beams, 1)
    for batch in make_batches(
        [len(ids) for ids in encoded], max_tokens=room, seed=0, shuffle=False
    ):
        source = collate_sources([encoded[k] for k in batch], model)
        longest = [2 * len(encoded[k]) + 10 for k in batch]
        if sampling is None:
            hypotheses = search(
                source,
                stop=get_stop_id(tokenizers.target),
                max_length=longest,
                beams=config.beams,
                length_penalty=config.length_penalty,
            )
        else:
            hypotheses = sample_texts(
                model, source, get_stop_id(tokenizers.target), sampling, longest
            )
        for k, some_of_it in zip((asked[b] for b in batch), hypotheses, strict=True):
            found[k] = [
                Generation(
                    detokenize(model, tokenizers, texts[k], h), h.tokens, h.log_probability, h.score
                )
                for h in some_of_it
            ]
    return [found[k] for k in range(len(texts))]


def split_long_text(tokenizers: TokenizerPair, text: str) -> list[str]:
    """Cut a text of more than LONGEST tokens into its sentences, and what is longer between words.

    Each begins with the language that is asked for, if one is.
    """
    language = tokenizers.source.extract_language_tag(text)
    rest, room = text[len(language) :], MAX_SENTENCE_TOKENS - bool(language)
    if _fit_prefix(tokenizers, rest, room) == len(rest):
        return [text]
    parts = []
    for sentence in map(str.strip, _SENTENCE_ENDS.split(rest)):
        while sentence:
            end = _fit_prefix(tokenizers, sentence, room)
            parts.append(language + sentence[:end])
            sentence = sentence[end:].lstrip()
    return parts or [text]


def _fit_prefix(tokenizers: TokenizerPair, text: str, max_tokens: int) -> int:
    """How many letters of a text have at most so many tokens, whole words where there are any."""
    if len(text.encode("utf-8", "replace")) <= max_tokens:  # a token is a byte at least
        return len(text)
    spans = tokenizers.source.find_spans(text[: MAX_SENTENCE_TOKENS * MAX_TOKEN_CHARACTERS])
    if len(spans) <= max_tokens and len(text) <= MAX_SENTENCE_TOKENS * MAX_TOKEN_CHARACTERS:
        return len(text)
    cut = (
        spans[max_tokens][0]
        if len(spans) > max_tokens
        else MAX_SENTENCE_TOKENS * MAX_TOKEN_CHARACTERS
    )
    return max((k for k in range(cut // 2, cut) if text[k].isspace()), default=cut)


def _join_parts(parts: list[list[Generation]]) -> list[Generation]:
    """Put the translations of stretches together: the best of each, the second best and so on."""
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
    """Put encoded sentences into a batch where the model is."""
    device = next(model.parameters()).device
    ids, lengths = pad([list(ids) for ids in encoded])
    return SentenceBatch(ids.to(device), lengths.to(device))


def detokenize(
    model: Translator, tokenizers: TokenizerPair, source: str, hypothesis: Hypothesis
) -> str:
    """Write a translation as text.

    A word that is unknown to the target's vocabulary is the word of the source that the model
    looked at most when it chose it, if it looks at all: a name, most of the time. Much is looked
    at commas and full stops, too, but none of them is an unknown word.
    """
    unknown = tokenizers.target.unk_id
    if not isinstance(tokenizers.target, WordTokenizer) or unknown not in hypothesis.tokens:
        return tokenizers.target.decode(hypothesis.tokens).strip()
    seen = _mean_cross_attention(model, tokenizers, source, hypothesis.tokens)
    copied = tokenizers.source.tokenize(source)
    places = [k for k, word in enumerate(copied) if not _is_punctuation(word)]
    if seen is None or not places:
        return tokenizers.target.decode(hypothesis.tokens)
    spelling = [
        copied[places[int(seen[k, places].argmax())]]
        if token == unknown
        else tokenizers.target.id_to_token(token)
        for k, token in enumerate(hypothesis.tokens)
        if token not in (PAD, START)
    ]
    return tokenizers.target.join(spelling)


def _is_punctuation(word: str) -> bool:
    """Say whether a word has nothing but punctuation marks.

    >>> [_is_punctuation(word) for word in (",", "...", "t-shirt", "☺")]
    [True, True, False, False]
    """
    return all(category(character).startswith("P") for character in word)


def _mean_cross_attention(
    model: Translator, tokenizers: TokenizerPair, source: str, tokens: Sequence[int]
) -> Tensor | None:
    """Mean weights over layers and heads, `[tokens, source]`, without the source's stop."""
    device = next(model.parameters()).device
    target = torch.tensor([[START, *tokens]], device=device)
    layers = collect_cross_attention(
        model, collate_sources([tokenizers.encode_source(source)], model), target
    )
    if not layers:
        return None
    return torch.stack(layers).mean((0, 2))[0, :-1, :-1]


SPLIT_NAMES = ("train", "validation", "test")
IMPORTED = "imported"  # where an imported model was trained
GREEDY_SEARCH = SearchConfig(beams=1, length_penalty=0.0)
NUM_SAMPLES = 2  # translations that are logged after an epoch


class Translation(Seq2SeqTask):
    """Pairs and a translator: what the training loop works on, and what translates afterwards."""

    data_unit = "pairs"
    model: Translator

    def __init__(
        self, recipe: TranslationRecipe, tokenizers: TokenizerPair, model: Translator
    ) -> None:
        super().__init__(recipe)
        self.tokenizers, self.model = tokenizers, model
        self.pairs: dict[str, tuple[SentencePair, ...]] = dict.fromkeys(SPLIT_NAMES, ())
        self._encoded: dict[str, list[tuple[NDArray[np.int32], NDArray[np.int32]]]] = {}
        self._bpe_dropout: tuple[BPEDropout, BPEDropout] | None = None  # where words fall apart
        self._bpe_epoch = -1  # the epoch whose pieces the training pairs are in

    @property
    def files(self) -> tuple[str, ...]:  # type: ignore[override]
        """What it writes beside the weights: one vocabulary, or two."""
        joint = self.recipe.tokenizer.shared_vocab
        return ("tokenizer.json",) if joint else ("source.json", "target.json")

    @classmethod
    def from_recipe(
        cls, recipe: TranslationRecipe, progress: ProgressCallback | None = None
    ) -> "Translation":
        """Read the pairs, make the vocabularies and a fresh model."""
        splits = _load_pairs(recipe, progress)
        words = _train_tokenizers(recipe, splits.train)
        torch.manual_seed(recipe.seed)
        sizes = len(words.source), len(words.target)
        task = cls(recipe, words, build_translator(recipe.model, *sizes))
        for part in SPLIT_NAMES:
            task._encode_split(part, getattr(splits, part))
        task.data_info = _describe_data(recipe, splits)
        return task

    def _encode_split(self, split: str, pairs: tuple[SentencePair, ...]) -> None:
        """Encode the pairs of a part."""
        self.pairs[split] = pairs
        self._encoded[split] = [
            (
                np.array(self.tokenizers.encode_source(pair.source), np.int32),
                np.array(self.tokenizers.encode_target(pair.target), np.int32),
            )
            for pair in pairs
        ]

    # -- what the training loop asks ---------------------------------------------------------------

    def batches(self, epoch: int) -> list[list[int]]:
        """The training batches: pairs of like lengths together, by their tokens."""
        self.update_sampling_rate(epoch)
        self._resample_bpe(epoch)
        return make_pair_batches(
            *self._lengths("train"),
            max_tokens=self.recipe.train.batch_size,
            seed=self.recipe.seed,
            epoch=epoch,
        )

    def _resample_bpe(self, epoch: int) -> None:
        """Put the training pairs into the pieces of this epoch, where these are left to chance."""
        share, words = self.recipe.tokenizer.dropout, self.tokenizers
        if not share or self._bpe_epoch == epoch:
            return
        if self._bpe_dropout is None:
            assert isinstance(words.source, BytePairTokenizer)
            assert isinstance(words.target, BytePairTokenizer)
            pairs, seed = self.pairs["train"], self.recipe.seed
            sources = [words.normalize_case(pair.source) for pair in pairs]
            targets = [words.normalize_case(pair.target) for pair in pairs]
            self._bpe_dropout = (
                BPEDropout(words.source, sources, share, f"source {seed}"),
                BPEDropout(words.target, targets, share, f"target {seed}"),
            )
        read, wrote = (side.sample_epoch(epoch) for side in self._bpe_dropout)
        stop = np.int32(get_stop_id(words.source))
        self._encoded["train"] = [(np.append(s, stop), t) for s, t in zip(read, wrote, strict=True)]
        self._bpe_epoch = epoch

    def _lengths(self, split: str) -> tuple[list[int], list[int]]:
        some = self._encoded[split]
        return [len(source) for source, _ in some], [len(target) + 1 for _, target in some]

    def weight(self, batch: Sequence[int]) -> int:
        """Over how many tokens of the target the loss is a mean."""
        return sum(len(self._encoded["train"][k][1]) + 1 for k in batch)

    def describe(self, batch: Sequence[int]) -> str:
        """Say what a batch is."""
        source, target = (
            max(len(self._encoded["train"][k][side]) for k in batch) for side in (0, 1)
        )
        return f"a batch of {len(batch):,} pairs, the longest of {source:,} and {target:,} tokens"

    def collate(
        self, split: str, batch: Sequence[int], device: torch.device
    ) -> tuple[SentenceBatch, Tensor, Tensor]:
        """Sources, targets behind their start token, and what follows each of these."""
        some = [self._encoded[split][k] for k in batch]
        ids, lengths = pad([source for source, _ in some])
        source = SentenceBatch(ids.to(device), lengths.to(device))
        return source, *shift_right(
            [t for _, t in some], get_stop_id(self.tokenizers.target), device
        )

    def list_eval_batches(self, split: str) -> list[list[int]]:
        """The batches in which the loss on a part is measured."""
        tokens = self.recipe.train.batch_size
        return make_pair_batches(*self._lengths(split), max_tokens=tokens, seed=0, shuffle=False)

    def evaluate(self, process_group: ProcessGroup) -> dict[str, float]:
        """The loss on the validation pairs; and BLEU, where it decides which epoch is best."""
        if not self.pairs["validation"]:
            return {}
        measured = self.evaluate_loss("validation", process_group)
        if self.recipe.train.metric == "bleu":
            found = self._translate_split("validation", process_group, GREEDY_SEARCH)
            scores = score_translations(
                found, self._references("validation"), lowercase=self.tokenizers.lower
            )
            measured["validation_bleu"] = scores.bleu.score
        return measured

    def _translate_split(
        self, split: str, process_group: ProcessGroup, config: SearchConfig
    ) -> list[str]:
        """The best translation of every source of a part."""
        pairs = self.pairs[split]
        return self.split_over_ranks(
            len(pairs),
            process_group,
            lambda mine: self.translate_best((pairs[k].source for k in mine), config),
        )

    def _references(self, split: str) -> list[str]:
        return [pair.target for pair in self.pairs[split]]

    def test(self, process_group: ProcessGroup) -> dict[str, Any]:
        """Translate the test part, and score it."""
        if not self.pairs["test"]:
            return {}
        found = self._translate_split("test", process_group, self.recipe.search)
        references, lower = self._references("test"), self.tokenizers.lower
        scores = score_translations(found, references, lowercase=lower)
        measured = {
            **self.evaluate_loss("test", process_group),
            "test_bleu": scores.bleu.score,
            "test_chrf": scores.chrf.score,
            "test_pairs": len(found),
            **self._count_test_in_train(),
            "signature": scores.bleu.signature,
            "chrf_signature": scores.chrf.signature,
        }
        with suppress(UserError):  # Moses does not know every language
            language = self.recipe.data.target
            tokenised = score_tokenized_bleu(found, references, language=language, lowercase=lower)
            measured["test_tokenized_bleu"] = tokenised.score
            measured["tokenized_signature"] = tokenised.signature
        return measured

    def _count_test_in_train(self) -> dict[str, int]:
        """How many of the test pairs were trained on, if any: somebody else may have split them."""
        known = set(self.pairs["train"])
        learned = sum(pair in known for pair in self.pairs["test"])
        return {"test_pairs_in_train": learned} if learned else {}

    def sample_outputs(self) -> dict[str, Any]:
        """How the first of the validation pairs are translated by now."""
        some = [pair.source for pair in self.pairs["validation"][:NUM_SAMPLES]]
        found = zip(some, self.translate_best(some, GREEDY_SEARCH), strict=True)
        return {"sample": "\n".join(f"{source} → {text}" for source, text in found)} if some else {}

    # -- translating -------------------------------------------------------------------------------

    def translate(
        self,
        texts: Iterable[str],
        config: SearchConfig | None = None,
        sampling: Sampling | None = None,
        search_function: SearchFunction | None = None,
    ) -> Iterator[list[Generation]]:
        """Translate texts as they come: of each the best translations, best first; or one drawn."""
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
        """The best translation of each text."""
        return (found.text for found in self._iter_best(texts, config))

    def translate_one(self, text: str) -> Generation:
        """The best translation of a text, with the tokens that it is made of."""
        return next(self._iter_best([text]))

    def _iter_best(
        self, texts: Iterable[str], config: SearchConfig | None = None
    ) -> Iterator[Generation]:
        by = partial(beam_search, self.model, num_best=1)
        nothing = Generation("", (), -math.inf, -math.inf)  # of scores that are no numbers
        return (
            found[0] if found else nothing
            for found in self.translate(texts, config, search_function=by)
        )

    def evaluate_on(self, data: str | None = None) -> dict[str, Any]:
        """Score the test part of a set, or all pairs of a file; None: the recipe's test part."""
        self._encode_split("test", self.load_test_pairs(data))
        with suppress(UserError):  # they may be gone: then nobody can tell what was learned
            self.pairs["train"] = self.load_train_pairs()
        return self.test(ProcessGroup(next(self.model.parameters()).device))

    def load_train_pairs(self) -> tuple[SentencePair, ...]:
        """The training pairs, read again where they were, if they are there."""
        return self._check_same_data(_load_pairs(self.recipe, fetch=False)).train

    def _check_same_data(self, splits: PairSplits) -> PairSplits:
        """See that pairs which were read again are what the run was trained on."""
        if self.data_info.get("sha256") not in (
            None,
            _describe_data(self.recipe, splits)["sha256"],
        ):
            raise UserError(
                f"{self.recipe.data.set} is not what this run was trained on: what it held out "
                "cannot be told any more; --data measures on all of a file"
            )
        return splits

    def load_test_pairs(self, data: str | None = None) -> tuple[SentencePair, ...]:
        """What to test on: a set's test part, all pairs of a file, or what the recipe held out."""
        wanted = self.recipe.data
        if data is None and wanted.set == IMPORTED:
            raise UserError("a model that was imported has nothing to be tested on: --data FILE")
        if data is None or (data == wanted.set and data in list_parallel_datasets()):
            pairs = self._check_same_data(_load_pairs(self.recipe)).test
        else:
            pairs = load_test_pairs(data, source=wanted.source, target=wanted.target)
        if not pairs:
            raise UserError(f"{data or wanted.set}: it has no pairs to test on")
        return pairs

    # -- the run folder ----------------------------------------------------------------------------

    def fingerprint(self) -> dict[str, Any]:
        """What two processes must agree about: the pairs, and how they became numbers."""
        digest = hashlib.sha256()
        for source, target in self._encoded["train"][:1000]:
            digest.update(source.tobytes() + target.tobytes())
        return {
            **self.data_info,
            "tokens": len(self.tokenizers.target),
            "ids": digest.hexdigest()[:16],
        }

    def with_weights(self, weights: dict[str, Tensor]) -> "Translation":
        """Another of this kind, on the same pairs, with a model of its own that has the weights."""
        sizes = len(self.tokenizers.source), len(self.tokenizers.target)
        model = build_translator(self.recipe.model, *sizes)
        model.load_state_dict(weights)
        other = Translation(self.recipe, self.tokenizers, model.eval())
        other.data_info, other.pairs, other._encoded = self.data_info, self.pairs, self._encoded
        return other

    def save(self, folder: Path) -> None:
        """Write what is needed beside the weights."""
        for name, tokenizer in zip(self.files, (self.tokenizers.source, self.tokenizers.target)):  # noqa: B905 - one, if joint
            tokenizer.save(folder / name)

    def matches_folder(self, folder: Path) -> bool:
        """Tell whether a run's vocabularies are these."""
        return _load_tokenizers(folder, self.recipe) == self.tokenizers

    @classmethod
    def load(
        cls, folder: Path, recipe: TranslationRecipe, run_id: str | None = None
    ) -> "Translation":
        """Read a run's vocabularies and best weights, which may have to bear its mark."""
        words = _load_tokenizers(folder, recipe)
        model = build_from_file(
            lambda: build_translator(recipe.model, len(words.source), len(words.target)),
            folder / "model.safetensors",
            run_id,
        )
        return cls(recipe, words, model)


def _load_pairs(
    recipe: TranslationRecipe, progress: ProgressCallback | None = None, *, fetch: bool = True
) -> PairSplits:
    wanted = recipe.data
    return load_pairs(
        wanted.set,
        source=wanted.source,
        target=wanted.target,
        validation=wanted.validation,
        max_length=wanted.max_length,
        ratio=wanted.ratio,
        seed=recipe.seed,
        allow_download=fetch,
        progress=progress,
    )


def _describe_data(recipe: TranslationRecipe, splits: PairSplits) -> dict[str, Any]:
    """What is learned from: how much of it, what was left out, and a checksum of all."""
    digest = hashlib.sha256()
    for part in SPLIT_NAMES:
        for pair in getattr(splits, part):
            digest.update(json.dumps([part, pair.source, pair.target]).encode())
    data, counts = recipe.data, {part: len(getattr(splits, part)) for part in SPLIT_NAMES}
    return {
        "set": data.set,
        "source": data.source,
        "target": data.target,
        **counts,
        "filtered": splits.filter_stats.describe(),
        "sha256": digest.hexdigest(),
    }


def _train_tokenizers(recipe: TranslationRecipe, pairs: Sequence[SentencePair]) -> TokenizerPair:
    wanted = recipe.tokenizer
    sides = ([p.source for p in pairs], [p.target for p in pairs])
    lower = _is_lower(recipe)
    if lower:
        sides = ([text.lower() for text in sides[0]], [text.lower() for text in sides[1]])

    def learned(texts: list[str]) -> Any:
        return train_tokenizer(
            wanted.kind, texts, wanted.vocab_size, wanted.min_count, with_eos=True
        )

    if wanted.shared_vocab:
        both = learned([*sides[0], *sides[1]])
        return TokenizerPair(both, both, lower)
    return TokenizerPair(learned(sides[0]), learned(sides[1]), lower)


def _load_tokenizers(folder: Path, recipe: TranslationRecipe) -> TokenizerPair:
    lower = _is_lower(recipe)
    if recipe.tokenizer.shared_vocab:
        both = load_tokenizer(folder / "tokenizer.json")
        return TokenizerPair(both, both, lower)
    source, target = (load_tokenizer(folder / f"{side}.json") for side in ("source", "target"))
    return TokenizerPair(source, target, lower)


def _is_lower(recipe: TranslationRecipe) -> bool:
    """Whether capitals are lost: a vocabulary of words has none."""
    return recipe.tokenizer.lower or recipe.tokenizer.kind == "words"
