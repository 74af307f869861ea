"""How a text becomes numbers: standardise, tokenise, vectorise, embed."""

from collections.abc import Sequence
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from workings.data import Tokenizer, WordTokenizer, load_tokenizer, standardize
from workings.errors import UserError
from workings.interpret.results import VectorizedText

SHOWN_DIMENSIONS = 4  # numbers of a vector


def vectorize_texts(
    texts: Sequence[str], width: int = SHOWN_DIMENSIONS, seed: int = 0
) -> list[VectorizedText]:
    """Make a word tokenizer from the texts, and vectors as they are before training: at random.

    >>> learning, topic = vectorize_texts(["We are learning AI", "AI is a CS topic"])
    >>> learning.standardized, learning.ids
    ('we are learning ai', [10, 5, 8, 3])
    >>> topic.tokens[0], topic.vectors[0] == learning.vectors[-1]
    ('ai', True)
    """
    words = WordTokenizer.train(texts)
    table = np.random.default_rng(seed).standard_normal((len(words), width))
    return [_vectorize(text, words, table) for text in texts]


def vectorize_with_run(folder: str | Path, texts: Sequence[str]) -> list[VectorizedText]:
    """Take a run's tokenizer, and the vectors it has learned."""
    from workings.storage import read_tensors

    weights = read_tensors(Path(folder) / "model.safetensors")
    if "embedding.weight" not in weights:
        raise UserError(
            f"{folder}: a model of n-grams has no vectors of tokens: "
            f"workings explain {folder} TEXT shows what they say"
        )
    tokenizer = load_tokenizer(Path(folder) / "tokenizer.json")
    return [_vectorize(text, tokenizer, weights["embedding.weight"].numpy()) for text in texts]


def _vectorize(text: str, tokenizer: Tokenizer, table: NDArray[np.floating]) -> VectorizedText:
    ids = tokenizer.encode(text)
    return VectorizedText(
        text,
        standardize(text) if tokenizer.kind == "words" else text,
        [tokenizer.id_to_token(number) for number in ids],
        ids,
        [[float(x) for x in table[number][:SHOWN_DIMENSIONS]] for number in ids],
        table.shape[1],
    )
