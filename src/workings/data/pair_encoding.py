"""Tokenizers of sentence pairs, and the pairs as token ids; those of many pairs are cached."""

import json
from collections.abc import Iterable, Sequence
from itertools import chain

from workings.config import to_table
from workings.data.cache import (
    MAX_VOCABULARY_CHARACTERS,
    MIN_CACHED_CHARACTERS,
    encode_short_texts,
    train_cached_tokenizer,
)
from workings.data.download import ProgressCallback
from workings.data.progress import report_items, split_progress
from workings.data.sentence_pairs import PairSplits, SentencePair
from workings.data.tokenizers.base import Tokenizer, TokenizerPair, get_stop_id, train_tokenizer
from workings.ragged import RaggedArray
from workings.recipes import TranslationTokenizerConfig


def make_cache_key(splits: PairSplits, checksum: str) -> str:
    """Return the key of pairs in the cache; empty if they are too few to be cached."""
    parts = (splits.train, splits.validation, splits.test)
    is_large = sum(map(_count_characters, parts)) > MIN_CACHED_CHARACTERS
    return checksum if is_large else ""


def _count_characters(pairs: Sequence[SentencePair]) -> int:
    return sum(len(pair.source) + len(pair.target) for pair in pairs)


def train_pair_tokenizers(
    config: TranslationTokenizerConfig,
    pairs: Sequence[SentencePair],
    *,
    lower: bool = False,
    key: str = "",
    progress: ProgressCallback | None = None,
) -> TokenizerPair:
    """Train tokenizers with an end token on sources and targets, or a shared one on both.

    With a key they are cached. Of very many pairs, evenly spread ones are read.
    """
    step = 1 if config.kind == "characters" else _count_characters(pairs)
    sample = pairs[:: max(-(-step // MAX_VOCABULARY_CHARACTERS), 1)]
    sides = [[pair.source for pair in sample], [pair.target for pair in sample]]

    def train(name: str, texts: Sequence[str], report: ProgressCallback | None) -> Tokenizer:
        def train_new() -> Tokenizer:
            reported: Iterable[str] = report_items(texts, len(texts), report)
            if lower:
                reported = (text.lower() for text in reported)
            return train_tokenizer(
                config.kind,
                reported,
                config.vocab_size,
                config.min_count,
                with_eos=True,
                pad_to=config.padded_vocab_size,
            )

        if not key:
            return train_new()
        return train_cached_tokenizer(train_new, f"{key} {name} {json.dumps(to_table(config))}")

    if config.shared_vocab:
        tokenizer = train("both", list(chain(*sides)), progress)
        return TokenizerPair(tokenizer, tokenizer, lower)
    stages = split_progress(progress, 2)
    source, target = map(train, ("source", "target"), sides, stages)
    return TokenizerPair(source, target, lower)


def encode_pairs(
    tokenizers: TokenizerPair,
    pairs: Sequence[SentencePair],
    *,
    key: str = "",
    progress: ProgressCallback | None = None,
) -> tuple[RaggedArray, RaggedArray]:
    """Return the ids of the sources with their stop token, and of the targets without one.

    With a key, they are in a file of the user's cache.
    """
    sources = (tokenizers.normalize_case(pair.source) for pair in pairs)
    targets = (tokenizers.normalize_case(pair.target) for pair in pairs)
    stop = get_stop_id(tokenizers.source)
    first, second = split_progress(progress, 2)
    return (
        encode_short_texts(
            report_items(sources, len(pairs), first),
            tokenizers.source,
            lambda rows: rows.surround(tokenizers.source.prefix_ids, (stop,)),
            key and f"{key} source {tokenizers.lower}",
        ),
        encode_short_texts(
            report_items(targets, len(pairs), second),
            tokenizers.target,
            lambda rows: rows.surround(tokenizers.target.prefix_ids, ()),
            key and f"{key} target {tokenizers.lower}",
        ),
    )
