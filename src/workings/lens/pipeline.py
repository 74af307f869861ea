"""How a text becomes numbers: standardise, tokenise, vectorise, embed."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from workings.data import Tokenizer, Words, load_tokenizer, standardise
from workings.errors import UserError

SHOWN = 4  # numbers of a vector


@dataclass(frozen=True)
class Stages:
    """What becomes of one text."""

    text: str
    standardised: str
    tokens: list[str]
    """as the model reads them: what is not in the vocabulary is the unknown token"""
    ids: list[int]
    vectors: list[list[float]]
    """the first few numbers of each token's"""
    width: int
    """how many there are"""


def from_texts(texts: Sequence[str], width: int = SHOWN, seed: int = 0) -> list[Stages]:
    """Make a word tokenizer from the texts, and vectors as they are before training: at random.

    >>> learning, topic = from_texts(["We are learning AI", "AI is a CS topic"])
    >>> learning.standardised, learning.ids
    ('we are learning ai', [10, 5, 8, 3])
    >>> topic.tokens[0], topic.vectors[0] == learning.vectors[-1]
    ('ai', True)
    """
    words = Words.train(texts)
    table = np.random.default_rng(seed).standard_normal((len(words), width))
    return [_stages(text, words, table) for text in texts]


def from_run(folder: str | Path, texts: Sequence[str]) -> list[Stages]:
    """Take a run's tokenizer, and the vectors it has learned."""
    from workings.storage import read_tensors

    weights = read_tensors(Path(folder) / "model.safetensors")
    if "embedding.weight" not in weights:
        raise UserError(
            f"{folder}: a model of n-grams has no vectors of tokens: "
            f"workings explain {folder} TEXT shows what they say"
        )
    tokenizer = load_tokenizer(Path(folder) / "tokenizer.json")
    return [_stages(text, tokenizer, weights["embedding.weight"].numpy()) for text in texts]


def _stages(text: str, tokenizer: Tokenizer, table: NDArray[np.floating]) -> Stages:
    ids = tokenizer.encode(text)
    return Stages(
        text,
        standardise(text) if tokenizer.kind == "words" else text,
        [tokenizer.token(number) for number in ids],
        ids,
        [[float(x) for x in table[number][:SHOWN]] for number in ids],
        table.shape[1],
    )
