"""The commands, recipes, requests and keys that the frozen numbers are collected with.

Only this file changes if something is renamed: frozen/*.json has numbers and structure, and names
are compared up to a one-to-one renaming.
"""

from typing import Any

# -- modules ------------------------------------------------------------------------
WEB_MODULE, WEB_FACTORY = "workings.web.app", "build_app"
REGISTRY_MODULE, REGISTRY = "workings.web.runs", "RunRegistry"

# -- inputs --------------------------------------------------------------------------------------
PROMPT, SENTENCE = "hello", "one red cat"

# -- the command line ----------------------------------------------------------------------------
SOLVE = ["solve", "{file}", "--format", "json"]
CHECK = ["check", "--json", "{file}"]
MAKE = ["make", "--kind", "{kind}", "--size", "{size}", "--count", "{count}", "--seed", "7"]
MAKE_INTO = ["--out", "{out}"]
MAKE_FAULTY = ["--mistakes"]
GRADE = ["grade", "{sheet}", "{answers}"]
TRAIN = ["train", "{recipe}", "--quiet", "--threads", "1", "--out", "{out}"]
EXPORT = ["export", "{run}", "--to", "{form}", "--out", "{out}"]
GPT2, CTRANSLATE2, MARIAN = "gpt2", "ctranslate2", "marian"
SUMMARY = ["summary", "{recipe}"]
PRINTING_COMMANDS = {  # verbs that print numbers about a run
    "evaluate classifier": ["evaluate", "{classify-transformer}"],
    "predict": ["predict", "{classify-transformer}", "fig iron plum"],
    "explain": ["explain", "{classify-transformer}", "fig iron plum"],
    "evaluate language model": ["evaluate", "{language-gpt}"],
    "complete": ["complete", "{language-gpt}", "hell", "--tokens", "5", "--show"],
    "head": ["head", "{language-gpt}", PROMPT, "--layer", "1", "--head", "2"],
    "translate": ["translate", "{translate-transformer}", SENTENCE, "--show"],
    "score": ["score", "{translate-transformer}"],
    "tokens": ["tokens", "We are learning AI"],
    "gradients": ["gradients", "{language-rnn}"],
}
WRITING_COMMANDS = {  # verbs that write JSON about a run
    "attention": ["attention", "{language-gpt}", PROMPT, "--format", "json", "--out", "{out}"],
}

# Size and number of the problems for each kind of sheet.
KINDS = {
    "self": ("3x4", 2),
    "masked": ("3x4", 2),
    "cross": ("2x4", 2),
    "multi-head": ("2x4", 1),
    "block": ("2x3", 1),
    "additive": ("3x3", 2),
    "positions": ("3x4", 2),
    "layer_norm": ("3x3", 2),
    "feed_forward": ("3x3", 2),
    "rnn": ("3x3", 2),
    "lstm": ("2x2", 1),
}
FAULTY_KINDS = ("self", "masked", "lstm")

# -- files ---------------------------------------------------------------------------------------
KEY_FOLDER = "key"
PROBLEM_FILES = "problem-*.toml"
LOG_FILE = "log.jsonl"

# -- keys that are not compared ------------------------------------------------------------------
PROSE_KEYS = {"says", "title", "file", "note", "notes", "version"}  # in JSON and in grades
TIME_KEYS = {"seconds", "evaluation_seconds", "milliseconds"}  # in logs and in responses

# -- recipes -------------------------------------------------------------------------------------
_TRANSFORMER: dict[str, Any] = {
    "model.kind": "transformer",
    "model.d_model": 8,
    "model.d_ff": 8,
    "model.layers": 2,
    "model.heads": 2,
}
_RECURRENT: dict[str, Any] = {
    "model.kind": "recurrent",
    "model.d_model": 8,
    "model.hidden_size": 8,
}
_CLASSIFY: dict[str, Any] = {
    "task": "classify",
    "seed": 1,
    "data.set": "{fruit}",
    "train.epochs": 2,
    "train.batch_size": 8,
    "train.learning_rate": 0.01,
}
_LANGUAGE: dict[str, Any] = {
    "task": "language",
    "seed": 1,
    "data.set": "hello",
    "data.context_length": 10,
    "data.eval_every": 10,
    "data.sample": 0,
    "train.epochs": 2,
    "train.batch_size": 8,
    "train.learning_rate": 0.01,
}
_TRANSLATE: dict[str, Any] = {
    "task": "translate",
    "seed": 1,
    "data.set": "{pairs}",
    "data.source": "en",
    "data.target": "fr",
    "train.epochs": 2,
    "train.batch_size": 200,
    "train.learning_rate": 0.01,
    "search.beams": 2,
}
_CAPTION: dict[str, Any] = {
    "task": "caption",
    "seed": 1,
    "data.set": "{squares}",
    "data.image_size": 32,
    "data.validation": 0.2,
    "model.channels": [8, 8],
    "search.beams": 1,
    "search.max_length": 6,
    "train.epochs": 2,
    "train.batch_size": 8,
    "train.learning_rate": 0.01,
}
# {fruit}, {pairs}, {squares}: small datasets; other names of data.set are built in.
# The gradient of a key's bias is zero up to rounding, and Adam steps along its sign: runs whose
# weights are printed would have other numbers on another processor.
_PLAIN_SGD: dict[str, Any] = {"train.optimizer": "sgd", "train.learning_rate": 0.05}
RECIPES: dict[str, dict[str, Any]] = {
    "classify-emoji": _CLASSIFY
    | _RECURRENT
    | {
        "data.set": "emoji-languages",
        "data.max_length": 12,
        "tokenizer.kind": "characters",
        "tokenizer.vocab_size": 300,
        "model.cell": "gru",
        "model.bidirectional": True,
        "model.pooling": "max",
        "model.dropout": 0.1,
        "train.epochs": 1,
        "train.batch_size": 1024,
        "train.schedule": "cosine",
        "train.warmup": 0.05,
    },
    "classify-lstm": _CLASSIFY | _RECURRENT | {"model.cell": "lstm", "model.pooling": "last"},
    "classify-transformer": _CLASSIFY
    | _TRANSFORMER
    | {"train.average": "ema", "train.label_smoothing": 0.1, "train.schedule": "linear"},
    "classify-perceptron": _CLASSIFY
    | {
        "model.kind": "perceptron",
        "model.d_model": 8,
        "model.hidden_sizes": [8, 4],
        "model.length": 5,
        "train.optimizer": "sgd",
        "train.momentum": 0.8,
        "train.clip_norm": 0.5,
    },
    "classify-convolution": _CLASSIFY
    | {
        "model.kind": "convolution",
        "model.d_model": 8,
        "model.channels": [8],
        "model.kernel": 2,
        "model.stride": 1,
        "model.hidden_size": 8,
        "train.optimizer": "adam",
        "train.accumulate": 2,
    },
    "classify-ngrams": _CLASSIFY | {"model.kind": "ngrams", "model.max_n": 2, "model.min_count": 1},
    "language-rnn": _LANGUAGE
    | _RECURRENT
    | {"model.d_model": 4, "model.hidden_size": 3, "model.cell": "rnn", "data.stateful": True},
    "language-lstm": _LANGUAGE
    | _RECURRENT
    | {"scheduled_sampling.rate": 0.5, "model.tie_embeddings": True},
    "language-rotary": _LANGUAGE | _TRANSFORMER | {"train.optimizer": "muon"},
    "language-gpt": _LANGUAGE
    | _TRANSFORMER
    | {"model.positions": "learned", "model.max_positions": 16}
    | _PLAIN_SGD,
    "translate-emoji": _TRANSLATE
    | _TRANSFORMER
    | {
        "data.set": "emoji-names",
        "data.max_length": 4,
        "tokenizer.kind": "byte-pair",
        "tokenizer.vocab_size": 400,
        "train.optimizer": "muon",
        "train.betas": [0.95, 0.98],
        "train.label_smoothing": 0.1,
        "train.epochs": 1,
        "train.batch_size": 4096,
        "search.beams": 1,
    },
    "translate-transformer": _TRANSLATE
    | _TRANSFORMER
    | {
        "tokenizer.kind": "words",
        "model.norm": "post",
        "model.activation": "relu",
        "train.schedule": "inverse-sqrt",
        "train.warmup": 0.2,
        **_PLAIN_SGD,
    },
    "translate-attention": _TRANSLATE
    | _RECURRENT
    | {"tokenizer.kind": "words", "tokenizer.shared_vocab": False, "model.attention": "additive"},
    "caption-scenes": _CAPTION
    | _RECURRENT
    | {
        "data.set": "scenes",
        "data.image_size": 16,
        "model.channels": [4],
        "model.encoder": "vgg",
        "train.epochs": 1,
        "train.batch_size": 512,
    },
    "caption-attention": _CAPTION
    | _RECURRENT
    | {"model.encoder": "vgg", "model.cell": "lstm", "model.attention": "additive"},
    "caption-transformer": _CAPTION | _TRANSFORMER | {"model.encoder": "residual"},
}

# -- the page ------------------------------------------------------------------------------------
# Paths and bodies; {table} stands for the table of a lecture as the page returns it.
LECTURE = "/api/lecture/{name}"
LECTURE_REQUESTS: dict[str, tuple[str, dict[str, Any]]] = {
    "work": ("/api/work", {"table": "{table}", "decimals": 4}),
    "check": ("/api/check", {"table": "{table}", "decimals": 3}),
}
_TABLE: dict[str, Any] = {
    "title": "Two words",
    "tokens": ["the", "cat"],
    "settings": {"heads": 2, "mask": "causal"},
    "given": {
        "X": [["1", "0.5"], ["0", "2"]],
        "W_Q": [[1, 0, 1, 2], [0, 1, 1, 0]],
        "W_K": [[1, 1, 0, 2], [1, 1, 2, 0]],
    },
    "claims": [{"key": "Q", "cells": [["1", "0.5", "?", "2"], ["?", "?", "?", "?"]]}],
}
_HEAD = {"part": "decoder", "layer": 1, "head": 1}
_GPT = {"run": "language-gpt", "text": PROMPT}
REQUESTS: dict[str, tuple[str, dict[str, Any] | None]] = {
    "work": ("/api/work", {"table": _TABLE}),
    "check": ("/api/check", {"table": _TABLE}),
    "cell": ("/api/cell", {"table": _TABLE, "key": "weights.2", "row": 1, "column": 0}),
    "hint 1": ("/api/hint", {"table": _TABLE, "key": "Q", "level": 1}),
    "hint 2": ("/api/hint", {"table": _TABLE, "key": "Q", "level": 2}),
    "hint 3": ("/api/hint", {"table": _TABLE, "key": "Q", "level": 3}),
    "make": ("/api/make", {"kind": "masked", "tokens": 3, "width": 3, "count": 2, "seed": 7}),
    "make lstm": ("/api/make", {"kind": "lstm", "tokens": 2, "width": 2, "count": 1, "seed": 7}),
    "read": ("/api/read", {"text": r"\begin{bmatrix} 1 & 2 \\ 3 & 4.50 \end{bmatrix}"}),
    "open": ("/api/open", {"text": "$X = [[1, 0], [0, 2]]$\n\n$scores = [[1, 0], [0, 5]]$"}),
    "inspect language": ("/api/inspect", _GPT),
    "inspect with ablated head": ("/api/inspect", {**_GPT, "ablated_heads": [_HEAD]}),
    "inspect classify": ("/api/inspect", {"run": "classify-transformer", "text": "fig iron plum"}),
    "inspect translate": ("/api/inspect", {"run": "translate-transformer", "text": SENTENCE}),
    "inspect caption": ("/api/inspect", {"run": "caption-attention", "scene": 3}),
    "inspect map": ("/api/inspect/map", {**_GPT, **_HEAD}),
    "inspect working": ("/api/inspect/working", {**_GPT, **_HEAD, "row": 3, "column": 1}),
    "inspect complete": ("/api/inspect/complete", {**_GPT, "max_new_tokens": 5}),
    "inspect explain": (
        "/api/inspect/explain",
        {"run": "classify-transformer", "text": "fig iron"},
    ),
    "inspect cells": ("/api/inspect/cells", {"run": "language-lstm", "text": PROMPT}),
    "inspect positions": ("/api/inspect/positions", {"run": "language-gpt"}),
    "compare": (
        "/api/compare",
        {"first": _GPT, "second": {**_GPT, "run": "language-rotary"}, **_HEAD},
    ),
    "lectures": ("/api/lectures", None),
    "runs": ("/api/runs", None),
}
# -- keys of responses ---------------------------------------------------------------------------
PACKED_KEYS = {"numbers"}  # base64, two bytes per number
KEYS_OF_TEXT_WITH_NUMBERS = {"note"}
