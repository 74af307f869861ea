"""A text on its way to vectors: standardized, tokenized, encoded as ids, embedded."""

from collections.abc import Sequence
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from workings.data.tokenizers.base import Tokenizer, load_tokenizer
from workings.data.tokenizers.words import WordTokenizer, standardize
from workings.errors import UserError
from workings.interpret.results import VectorizedText

SHOWN_DIMENSIONS = 4  # of an embedding


def vectorize_texts(
    texts: Sequence[str], width: int = SHOWN_DIMENSIONS, seed: int = 0
) -> list[VectorizedText]:
    """Vectorize texts with a word tokenizer trained on them and random embeddings.

    >>> learning, topic = vectorize_texts(["We are learning AI", "AI is a CS topic"])
    >>> learning.standardized, learning.ids
    ('we are learning ai', [10, 5, 8, 3])
    >>> topic.tokens[0], topic.vectors[0] == learning.vectors[-1]
    ('ai', True)
    """
    tokenizer = WordTokenizer.train(texts)
    table = np.random.default_rng(seed).standard_normal((len(tokenizer), width))
    return [_vectorize(text, tokenizer, table) for text in texts]


def vectorize_with_run(folder: str | Path, texts: Sequence[str]) -> list[VectorizedText]:
    """Vectorize texts with the tokenizer and the trained embeddings of a run."""
    from workings.storage import read_tensors

    weights = read_tensors(Path(folder) / "model.safetensors")
    if "embedding.weight" not in weights:
        raise UserError(
            f"{folder}: an n-gram model has no token embeddings: "
            f"workings explain {folder} TEXT shows its weights"
        )
    tokenizer = load_tokenizer(Path(folder) / "tokenizer.json")
    return [_vectorize(text, tokenizer, weights["embedding.weight"].numpy()) for text in texts]


def _vectorize(text: str, tokenizer: Tokenizer, table: NDArray[np.floating]) -> VectorizedText:
    ids = tokenizer.encode(text)
    return VectorizedText(
        text,
        standardize(text) if tokenizer.kind == "words" else text,
        [tokenizer.id_to_token(token) for token in ids],
        ids,
        [[float(x) for x in table[token][:SHOWN_DIMENSIONS]] for token in ids],
        table.shape[1],
    )
