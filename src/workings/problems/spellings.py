"""Spellings of one name: `Wq`, `W^Q` and `W_{Q}` are W_Q, and `Layer norm` is layer_norm."""

import re
import unicodedata
from collections.abc import Collection, Mapping
from functools import lru_cache
from typing import Any

_LETTERS = "alpha beta gamma eps eta theta mu sigma tau pi delta d sqrt hat tilde"
_SIGNS = dict(zip("αβγεηθμστπδ∂√\u0302\u0303", _LETTERS.split(), strict=True))
_DROPPED = re.compile(r"[\s_^{}()\[\],;*'’-]+")
_MAX_NAME = 40  # characters
_GRADIENT = re.compile(r"d[LJ]/?d|grad(?=[A-Zh])|nabla|∇")

# Words for the choices of settings, beside other spellings of the choice itself.
_WORDS: dict[str, tuple[str, ...]] = {
    "rows": ("row", "row vectors"),
    "columns": ("column", "col", "cols", "column vectors"),
    "none": ("no", "off", "identity", "linear"),
    "causal": ("look-ahead", "future", "autoregressive", "triangular", "lower triangular", "tril"),
    "sigmoid": ("logistic", "sigma"),
    "silu": ("swish",),
    "post": ("post-norm", "post-LN"),
    "pre": ("pre-norm", "pre-LN"),
    "layer": ("layer norm",),
    "rms": ("RMSNorm",),
    "adjacent": ("interleaved",),
    "halves": ("half", "rotate half"),
    "shifted": ("stable", "maximum subtracted", "max subtracted"),
    "all": ("many-to-many", "every", "each"),
    "last": ("many-to-one", "final"),
    "mean": ("average", "avg", "mean pooling", "average pooling", "avg pooling", "average pool"),
    "sum": ("total",),
    "max": ("max pool", "max pooling"),
    "global mean": (
        "global average",
        "global avg",
        "global mean pooling",
        "global average pooling",
    ),
    "global max": ("global max pool", "global max pooling"),
    "training": ("train",),
    "evaluation": ("eval", "inference", "test", "testing"),
    "sgd": ("gd", "gradient descent", "stochastic gradient descent"),
    "momentum": ("sgd with momentum", "sgd momentum", "sgd + momentum"),
    "log": ("logs", "ln", "logarithm", "log probability", "log probabilities", "logprob"),
    "probability": ("probabilities", "prob", "probs"),
    "add-one": ("add 1", "+1", "laplace"),
    "words": ("word",),
    "letters": ("letter", "characters", "character", "chars", "char"),
    "sinusoids": ("sinusoidal", "sinusoid", "sin-cos"),
    "e": ("ln", "natural"),
    "2": ("log2",),
    "10": ("log10",),
}


@lru_cache(maxsize=4_096)
def fold(name: str) -> str:
    """Return a name without the signs in which spellings differ; capital letters stay.

    >>> fold("W_{Q}"), fold("W^Q"), fold("h₀"), fold("c̃")
    ('WQ', 'WQ', 'h0', 'ctilde')
    """
    text = unicodedata.normalize("NFKD", name)
    return _DROPPED.sub("", "".join(_SIGNS.get(char, char) for char in text))


def find_name(name: str, known: Collection[str], others: Mapping[str, str]) -> str | None:
    """Return the known name that a name stands for; `others` maps further names to known ones.

    Capital letters count only if two names differ in nothing else.

    >>> find_name("w_q", ["W_Q", "W_K"], {}), find_name("dL/dY", ["dY"], {})
    ('W_Q', 'dY')
    >>> find_name("lr", ["learning_rate"], {"lr": "learning_rate"})
    'learning_rate'
    """
    if name in known or others.get(name) in known:
        return name if name in known else others[name]
    if len(name) > _MAX_NAME:
        return None
    for read in (fold, _fold_gradient, lambda text: _fold_gradient(text).casefold()):
        wanted = read(name)
        for names in ({usual: usual for usual in known}, others):
            usuals = {usual for other, usual in names.items() if read(other) == wanted}
            if len(usuals & set(known)) == 1:
                return (usuals & set(known)).pop()
    return None


def _fold_gradient(name: str) -> str:
    """Fold a name; ∂L/∂W is dW."""
    return _GRADIENT.sub("d", fold(name))


def find_choice(value: Any, choices: Collection[str]) -> str | None:
    """Return the choice that a value of a setting stands for.

    >>> find_choice("ReLU", ["relu", "tanh"]), find_choice("average", ["mean", "sum"])
    ('relu', 'mean')
    """
    if isinstance(value, str) and value in choices:
        return value
    if value is False or value is None:
        return "none" if "none" in choices else None
    if isinstance(value, bool) or not isinstance(value, str | int):
        return None
    word = fold(str(value)[:_MAX_NAME]).casefold()
    for choice in choices:
        if word in (fold(other).casefold() for other in (choice, *_WORDS.get(choice, ()))):
            return choice
    return None
