"""Choose tokenizer, model and schedule from statistics of the data and the minutes given.

The choices are tables of recipes, which a user can copy and change. The constants were measured
with two threads of a CPU.
"""

import math
from dataclasses import dataclass
from typing import Any

from workings.automatic.statistics import CorpusStatistics, LabeledStatistics, PairStatistics

Table = dict[str, Any]

MAX_NGRAM_WEIGHTS = 8_000_000  # n-grams times classes: a step updates all of them
MAX_TFIDF_CHARACTERS = 60_000_000  # of all texts: their ids are held in memory
TFIDF_SECONDS = 6e-6  # per character: counting n-grams, looking them up and training
MAX_NAIVE_BAYES_CLASSES = 20
MIN_ROWS_TO_COMPARE = 100  # with fewer, the validation accuracy would be noise
TRANSFORMER_FLOPS = 6  # per weight and token: forward and backward pass
TOKENS_PER_WEIGHT = 5  # of a language model that gets the most out of a short time
MAX_PASSES = 30  # over a text: a language model has overfitted after that
HELD_OUT_FRACTION = 0.1  # of a text, if there is time to measure it after every epoch
MEASURED_FRACTION = 0.01  # of the time: one measurement of the held-out text
MIN_HELD_OUT = 20_000  # characters
MAX_TRANSLATION = 300  # tokens
MAX_HELD_OUT_PAIRS = 1000  # for validation, and as many for the test
FINETUNING_RATE = 0.04  # times 1 / width: 5e-5 for a BERT of width 768
SMALL_WIDTH = 256  # of trained models; wider ones learn new data by heart sooner
LANGUAGE_MODELS = ((64, 2, 2), (128, 2, 4), (128, 4, 4), (192, 4, 6), (256, 6, 8), (384, 6, 6))
"""Width, layers and heads, from small to large."""


@dataclass(frozen=True)
class Choice:
    """The sections of a recipe, and the reason for them."""

    name: str
    table: Table
    reason: str


# -- classification --------------------------------------------------------------------------------


def choose_classifiers(statistics: LabeledStatistics, minutes: float) -> list[Choice]:
    """Return classifiers to compare on validation data, the likeliest first.

    N-grams are as good as neural networks that are trained from scratch on less than a million
    texts, and take seconds.
    """
    s = statistics
    is_small_enough = s.characters <= MAX_TFIDF_CHARACTERS
    is_fast_enough = s.characters * TFIDF_SECONDS <= 30 * minutes
    has_words = s.unspaced < 0.3
    choices = []
    if (is_small_enough and is_fast_enough) or not has_words:
        choices += [_choose_tfidf(s, epochs) for epochs in (4, 8)]
    if has_words and s.classes <= MAX_NAIVE_BAYES_CLASSES and s.rows >= MIN_ROWS_TO_COMPARE:
        choices.append(_choose_naive_bayes(s))
    if not choices:
        choices.append(_choose_mean_embedding(s))
    return choices if s.rows >= MIN_ROWS_TO_COMPARE else choices[-1:]


def _choose_tfidf(s: LabeledStatistics, epochs: int) -> Choice:
    is_long = s.mean_characters > 500
    table = {
        "data": {"max_length": _limit_length(s.longest_characters, 20_000)},
        "tokenizer": {"kind": "characters", "vocab_size": 20_000},
        "model": {
            "kind": "tf-idf",
            "max_words": 3 if is_long else 2,
            "max_characters": 5,
            "min_count": 1 if s.rows < 1000 else 2,
            "max_features": min(500_000, MAX_NGRAM_WEIGHTS // max(s.classes, 1)),
        },
        "train": {
            **_linear_training(s.rows),
            "epochs": epochs,
            "learning_rate": 3e-2 if s.rows < 500 else 1e-2,  # few rows are few steps
        },
    }
    words = "characters and words" if s.unspaced >= 0.3 else "words and characters"
    return Choice(f"TF-IDF n-grams, {epochs} epochs", table, f"n-grams of {words}")


def _choose_naive_bayes(s: LabeledStatistics) -> Choice:
    is_large = s.rows > 200_000
    table = {
        "data": {"max_length": _limit_length(s.longest_characters // 2, 5000)},
        "tokenizer": {"kind": "words", "vocab_size": 200_000},
        "model": {
            "kind": "ngrams",
            "max_n": 2 if is_large else 3,
            "min_count": 1 if s.rows < 300 else 10 if is_large else 2,
        },
        "train": {
            **_linear_training(s.rows),
            "epochs": 3 if is_large else 6,
            "learning_rate": 2e-3,
        },
    }
    return Choice("naive Bayes n-grams", table, "n-grams of words")


def _choose_mean_embedding(s: LabeledStatistics) -> Choice:
    table = {
        "data": {"max_length": _limit_length(s.longest_characters // 2, 500)},
        "tokenizer": {"kind": "words", "vocab_size": 50_000, "min_count": 3},
        "model": {"kind": "perceptron", "pooling": "mean", "d_model": 64, "hidden_sizes": [128]},
        "train": {
            "epochs": 3,
            "batch_size": 512,
            "learning_rate": 5e-3,
            "schedule": "linear",
        },
    }
    return Choice("mean of word embeddings", table, "many classes and texts")


def _linear_training(rows: int) -> Table:
    sizes = ((500, 8), (2000, 32), (50_000, 64), (300_000, 256))
    batch_size = next((size for limit, size in sizes if rows < limit), 1024)
    return {
        "batch_size": batch_size,
        "weight_decay": 0.0,
        "clip_norm": "none",
        "schedule": "linear",
    }


def _limit_length(longest: int, limit: int) -> int:
    return max(min(longest, limit), 16)


# -- language models -------------------------------------------------------------------------------


def choose_language_model(statistics: CorpusStatistics, minutes: float, flops: float) -> Choice:
    """Return a Transformer whose size fits the text and the time, at `flops` per second."""
    s = statistics
    total = 0.85 * 60 * minutes * flops
    affordable = math.sqrt(total / TRANSFORMER_FLOPS / TOKENS_PER_WEIGHT)
    limit = min(affordable, max(s.characters, 50_000))  # a larger model would overfit
    fitting = [m for m in LANGUAGE_MODELS if _count_weights(m, s.alphabet) <= limit]
    width, layers, heads = fitting[-1] if fitting else LANGUAGE_MODELS[0]
    weights = _count_weights((width, layers, heads), s.alphabet)
    context = 64 if width <= 128 else 128
    context = max(min(context, s.characters // 20), 2)
    batch_size = 24
    tokens = min(total / TRANSFORMER_FLOPS / weights, MAX_PASSES * s.characters)
    steps = max(round(tokens / (context * batch_size)), 20)
    epochs = max(min(10, steps // 50), 1)
    passes = steps * context * batch_size / max(s.characters, 1)
    held_out = max(MEASURED_FRACTION * total / (TRANSFORMER_FLOPS / 3 * weights), MIN_HELD_OUT)
    table = {
        "data": {
            "context_length": context,
            "eval_every": math.ceil(steps / epochs),
            "validation": float(f"{min(held_out / s.characters, HELD_OUT_FRACTION):.2g}"),
        },
        "tokenizer": {"kind": "characters", "vocab_size": 5000},
        "model": {
            "kind": "transformer",
            "d_model": width,
            "layers": layers,
            "heads": heads,
            "dropout": 0.2 if passes > 8 else 0.1 if passes > 3 else 0.0,
        },
        "train": {
            "epochs": epochs,
            "batch_size": batch_size,
            "optimizer": "muon",
            "learning_rate": 1e-2,
            "betas": [0.95, 0.99],
            "schedule": "cosine",
            "warmup": 0.1,
        },
    }
    reason = f"{weights / 1e6:.1f} million weights: what {minutes:.2g} minutes can train"
    return Choice(f"Transformer, {layers} layers of width {width}", table, reason)


def _count_weights(model: tuple[int, int, int], vocab_size: int) -> int:
    width, layers, _ = model
    return 12 * width * width * layers + width * vocab_size


# -- translation -----------------------------------------------------------------------------------


def choose_translator(statistics: PairStatistics, minutes: float, flops: float) -> Choice:
    """Return a Transformer whose number of epochs fits the time, at `flops` per second."""
    s = statistics
    is_large = s.pairs > 30_000 and minutes >= 10
    width, layers, feed_forward = (192, 3, 512) if is_large else (128, 2, 256)
    vocab_size = max(min(8000, s.pairs // 5), 300)
    # An encoder block has one attention, a decoder block has two, and the output is the target's.
    encoder = layers * width * (4 * width + 2 * feed_forward)
    weights = encoder + layers * width * (8 * width + 2 * feed_forward) + width * vocab_size
    tokens = s.pairs * s.mean_words * 1.5  # subwords of a side
    seconds_per_epoch = tokens * TRANSFORMER_FLOPS * weights / flops
    # The rest is for reading and the test. A training that is late shortens its schedule.
    epochs = max(min(int(0.75 * 60 * minutes / seconds_per_epoch), 40), 1)
    is_repeated = epochs >= 20 and s.pairs < 50_000  # often enough to be learned by heart
    held_out = float(f"{min(MAX_HELD_OUT_PAIRS / max(s.pairs, 1), 0.05):.2g}")
    table = {
        "data": {"validation": held_out, "test": held_out},
        "tokenizer": {
            "kind": "byte-pair",
            "vocab_size": vocab_size,
            "dropout": 0.05 if is_repeated else 0.0,
        },
        "model": {
            "kind": "transformer",
            "d_model": width,
            "d_ff": feed_forward,
            "layers": layers,
            "heads": 4,
            "dropout": 0.2 if is_repeated else 0.1,
        },
        # transformers has no length penalty like ours, and one limit for all sources: so its texts
        # are the same.
        "search": {
            "beams": 4 if s.pairs < 50_000 else 1,
            "length_penalty": 0.0,
            "max_length": round(min(max(2 * s.longest_words, 20), MAX_TRANSLATION)),
        },
        "train": {
            "epochs": epochs,
            # Few pairs are few steps: small batches learn more in the same time.
            "batch_size": 384 if s.pairs <= 5000 else 768 if s.pairs <= 50_000 else 2048,
            "optimizer": "muon",
            "learning_rate": 5e-3,
            "betas": [0.95, 0.98],
            "schedule": "cosine",
            "warmup": 0.1,
            "label_smoothing": 0.1,
        },
    }
    reason = f"{weights / 1e6:.1f} million weights, as {s.pairs:,} pairs are few for a larger one"
    return Choice(f"Transformer, {layers}+{layers} layers of width {width}", table, reason)


# -- captioning ------------------------------------------------------------------------------------


def choose_captioner(images: int, minutes: float) -> Choice:
    """Return an LSTM with attention over a grid of the image."""
    size = 64 if minutes < 20 else 96
    table = {
        "data": {"image_size": size, "augment": images < 20_000},
        "tokenizer": {"vocab_size": 10_000, "min_count": 2 if images > 1000 else 1},
        "model": {
            "kind": "recurrent",
            "encoder": "vgg",
            "channels": [16, 32, 64],
            "cell": "lstm",
            "d_model": 128,
            "hidden_size": 128 if images < 5000 else 256,
            "attention": "additive",
            "dropout": 0.2,
        },
        "train": {
            "epochs": max(min(round(3000 * minutes / max(images, 1)), 30), 1),
            "batch_size": 32 if images > 500 else 8,
            "optimizer": "muon",
            "learning_rate": 4e-3,
            "schedule": "cosine",
            "warmup": 0.05,
            "label_smoothing": 0.1,
        },
    }
    return Choice("LSTM with attention", table, f"{images:,} images are few for a larger one")


# -- fine-tuning -----------------------------------------------------------------------------------


@dataclass(frozen=True)
class TrainedSize:
    """The size of a trained model, on which its further training depends."""

    width: int
    weights: int
    """that each token passes: without the table of embeddings, where it is only looked up"""


def finetuning_rate(width: int) -> float:
    """Return a learning rate that keeps what a model has learned: the wider, the smaller.

    >>> finetuning_rate(768), finetuning_rate(64)
    (5.2e-05, 0.00063)
    """
    return float(f"{FINETUNING_RATE / width:.1e}")


def choose_finetuning(
    task: str, size: TrainedSize, examples: int, tokens: float, minutes: float, flops: float
) -> Choice:
    """Return a schedule that goes on with a trained model, for so many tokens per epoch."""
    seconds_per_epoch = tokens * TRANSFORMER_FLOPS * size.weights / flops
    most = 10 if size.width < SMALL_WIDTH else 4
    epochs = max(min(int(0.75 * 60 * minutes / max(seconds_per_epoch, 1e-9)), most), 1)
    batch_sizes = {"classify": 16 if examples < 5000 else 32, "translate": 1024}
    train = {
        "epochs": epochs,
        "batch_size": batch_sizes.get(task, 16),
        "learning_rate": finetuning_rate(size.width),
        "schedule": "linear",
        "warmup": 0.1,
    }
    return Choice("fine-tuned", {"train": train}, f"{size.weights / 1e6:.1f} million weights")
