"""Datasets, readers, tokenizers, splits and batches.

Names are imported on first use, so that only batches need torch.
"""

from typing import TYPE_CHECKING

from workings.lazy import import_attribute

if TYPE_CHECKING:
    from workings.data.archives import unpack
    from workings.data.batching import make_batches, make_pair_batches, pad
    from workings.data.cache import cache_folder
    from workings.data.captions import (
        CaptionDataset,
        CaptionedImage,
        list_caption_datasets,
        load_captions,
        load_test_captions,
        read_image,
    )
    from workings.data.datasets import (
        list_datasets,
        load_dataset,
        load_emoji_languages,
        locate_dataset,
    )
    from workings.data.download import Mirror
    from workings.data.parallel import (
        FilterStats,
        PairSplits,
        SentencePair,
        list_parallel_datasets,
        load_pair_split,
        load_pairs,
    )
    from workings.data.readers import FILE_FORMATS, Example, Record, read_examples, read_records
    from workings.data.splits import Splits, TextOverlap, find_text_overlap, hold_out
    from workings.data.tokenizers.base import (
        TOKENIZERS,
        Tokenizer,
        load_tokenizer,
        train_tokenizer,
    )
    from workings.data.tokenizers.byte_pair import BytePairTokenizer
    from workings.data.tokenizers.characters import CharacterTokenizer
    from workings.data.tokenizers.words import WordTokenizer, basic_english, standardize

_LAZY_MODULES = {
    "FILE_FORMATS": "readers",
    "TOKENIZERS": "tokenizers.base",
    "BytePairTokenizer": "tokenizers.byte_pair",
    "CaptionDataset": "captions",
    "CaptionedImage": "captions",
    "CharacterTokenizer": "tokenizers.characters",
    "Example": "readers",
    "FilterStats": "parallel",
    "Mirror": "download",
    "PairSplits": "parallel",
    "Record": "readers",
    "SentencePair": "parallel",
    "Splits": "splits",
    "TextOverlap": "splits",
    "Tokenizer": "tokenizers.base",
    "WordTokenizer": "tokenizers.words",
    "basic_english": "tokenizers.words",
    "cache_folder": "cache",
    "find_text_overlap": "splits",
    "hold_out": "splits",
    "list_caption_datasets": "captions",
    "list_datasets": "datasets",
    "list_parallel_datasets": "parallel",
    "load_captions": "captions",
    "load_dataset": "datasets",
    "load_emoji_languages": "datasets",
    "load_pair_split": "parallel",
    "load_pairs": "parallel",
    "load_test_captions": "captions",
    "load_tokenizer": "tokenizers.base",
    "locate_dataset": "datasets",
    "make_batches": "batching",
    "make_pair_batches": "batching",
    "pad": "batching",
    "read_examples": "readers",
    "read_image": "captions",
    "read_records": "readers",
    "standardize": "tokenizers.words",
    "train_tokenizer": "tokenizers.base",
    "unpack": "archives",
}

__all__ = [
    "FILE_FORMATS",
    "TOKENIZERS",
    "BytePairTokenizer",
    "CaptionDataset",
    "CaptionedImage",
    "CharacterTokenizer",
    "Example",
    "FilterStats",
    "Mirror",
    "PairSplits",
    "Record",
    "SentencePair",
    "Splits",
    "TextOverlap",
    "Tokenizer",
    "WordTokenizer",
    "basic_english",
    "cache_folder",
    "find_text_overlap",
    "hold_out",
    "list_caption_datasets",
    "list_datasets",
    "list_parallel_datasets",
    "load_captions",
    "load_dataset",
    "load_emoji_languages",
    "load_pair_split",
    "load_pairs",
    "load_test_captions",
    "load_tokenizer",
    "locate_dataset",
    "make_batches",
    "make_pair_batches",
    "pad",
    "read_examples",
    "read_image",
    "read_records",
    "standardize",
    "train_tokenizer",
    "unpack",
]


def __getattr__(name: str) -> object:
    return import_attribute(__name__, _LAZY_MODULES, name)


def __dir__() -> list[str]:
    return sorted(__all__)
