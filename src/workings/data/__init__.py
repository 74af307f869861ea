"""Data: readers, tokenizers, sets by name, pairs to translate, splits and batches.

Names load when first asked for: only batches need torch.
"""

from typing import TYPE_CHECKING

from workings.lazy import fetch

if TYPE_CHECKING:
    from workings.data.archives import unpack
    from workings.data.batching import batches, pad, pair_batches
    from workings.data.builtin import emoji_languages
    from workings.data.byte_pair import BytePair
    from workings.data.captions import (
        CaptionSet,
        Picture,
        caption_set_names,
        load_caption_test,
        load_captions,
        read_picture,
    )
    from workings.data.characters import Characters
    from workings.data.download import Mirror
    from workings.data.pairs import (
        Cleaned,
        Pair,
        PairSplits,
        load_pairs,
        load_part,
        pair_set_names,
    )
    from workings.data.readers import FORMATS, Example, Row, read, rows
    from workings.data.sets import cache_folder, load_set, locate, set_names
    from workings.data.splits import Shared, Splits, hold_out, shared_texts
    from workings.data.tokenizer import Tokenizer
    from workings.data.tokenizers import KINDS, load_tokenizer, train_tokenizer
    from workings.data.words import Words, basic_english, standardise

_HOME = {
    "BytePair": "byte_pair",
    "CaptionSet": "captions",
    "Characters": "characters",
    "Cleaned": "pairs",
    "Example": "readers",
    "FORMATS": "readers",
    "KINDS": "tokenizers",
    "Mirror": "download",
    "Pair": "pairs",
    "PairSplits": "pairs",
    "Picture": "captions",
    "Row": "readers",
    "Shared": "splits",
    "Splits": "splits",
    "Tokenizer": "tokenizer",
    "Words": "words",
    "basic_english": "words",
    "batches": "batching",
    "cache_folder": "sets",
    "caption_set_names": "captions",
    "emoji_languages": "builtin",
    "hold_out": "splits",
    "load_caption_test": "captions",
    "load_captions": "captions",
    "load_pairs": "pairs",
    "load_part": "pairs",
    "load_set": "sets",
    "load_tokenizer": "tokenizers",
    "locate": "sets",
    "pad": "batching",
    "pair_batches": "batching",
    "pair_set_names": "pairs",
    "read": "readers",
    "read_picture": "captions",
    "rows": "readers",
    "set_names": "sets",
    "shared_texts": "splits",
    "standardise": "words",
    "train_tokenizer": "tokenizers",
    "unpack": "archives",
}

__all__ = [
    "FORMATS",
    "KINDS",
    "BytePair",
    "CaptionSet",
    "Characters",
    "Cleaned",
    "Example",
    "Mirror",
    "Pair",
    "PairSplits",
    "Picture",
    "Row",
    "Shared",
    "Splits",
    "Tokenizer",
    "Words",
    "basic_english",
    "batches",
    "cache_folder",
    "caption_set_names",
    "emoji_languages",
    "hold_out",
    "load_caption_test",
    "load_captions",
    "load_pairs",
    "load_part",
    "load_set",
    "load_tokenizer",
    "locate",
    "pad",
    "pair_batches",
    "pair_set_names",
    "read",
    "read_picture",
    "rows",
    "set_names",
    "shared_texts",
    "standardise",
    "train_tokenizer",
    "unpack",
]


def __getattr__(name: str) -> object:
    return fetch(__name__, _HOME, name)


def __dir__() -> list[str]:
    return sorted(__all__)
