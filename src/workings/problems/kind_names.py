"""Other names of the kinds of problem: `LSTM`, `masked self-attention`, `Adam`, `WER`."""

from typing import Any

from workings.errors import UserError, did_you_mean, safe_repr
from workings.problems.kinds import KINDS, Kind
from workings.problems.spellings import fold

_NAMES: dict[str, tuple[str, ...]] = {
    "attention": (
        *("self-attention", "self", "dot-product attention", "scaled dot-product", "sdpa"),
        *("scaled dot-product attention", "dot product", "cross-attention", "cross"),
        *("multi-head attention", "multi-head", "mha", "exponentials"),
        *("grouped", "grouped-query attention", "grouped query", "gqa", "multi-query attention"),
    ),
    "positions": (
        *("positional encoding", "positional encodings", "position encoding", "position"),
        *("positional", "sinusoids", "sinusoidal", "sinusoidal positions", "pe"),
    ),
    "layer_norm": ("layer normalization", "layer normalisation", "ln"),
    "rms_norm": ("rms", "rms normalization", "root mean square norm"),
    "batch_norm": ("batch normalization", "batch normalisation", "bn"),
    "rnn": ("elman", "elman rnn", "vanilla rnn", "simple rnn", "recurrent", "rnn cell"),
    "lstm": ("long short-term memory", "lstm cell"),
    "gru": ("gated recurrent unit", "gru cell"),
    "additive": ("additive attention", "bahdanau", "bahdanau attention"),
    "feed_forward": (
        "ffn",
        "mlp",
        "perceptron",
        "position-wise feed-forward",
        "feed-forward network",
    ),
    "block": ("encoder block", "transformer block", "encoder layer", "transformer layer"),
    "decoder_block": ("decoder layer", "transformer decoder block"),
    "encoder_decoder": ("seq2seq", "sequence to sequence"),
    "softmax": ("temperature", "softmax temperature", "softmax with temperature"),
    "lm_head": ("language model head", "output head", "unembedding"),
    "embedding": ("embeddings", "embedding lookup", "embed"),
    "cross_entropy": (
        "cross-entropy loss",
        "nll",
        "negative log-likelihood",
        "loss",
        "label smoothing",
    ),
    "softmax_jacobian": ("softmax gradient", "softmax backward"),
    "linear_gradient": ("linear backward", "linear layer gradient", "linear backprop"),
    "mlp_gradient": ("mlp backward", "feed-forward gradient"),
    "layer_norm_gradient": ("layer norm backward",),
    "attention_gradient": ("attention backward",),
    "rnn_gradient": ("bptt", "backpropagation through time", "rnn backward"),
    "rnn_jacobian": ("vanishing gradient", "exploding gradient"),
    "lstm_gradient": ("lstm backward",),
    "optimizer_step": ("optimizer", "optimiser", "optimiser step"),
    "beam_search": ("beam", "beam decoding", "greedy", "greedy search", "greedy decoding"),
    "sampling": (
        "top-k",
        "top-p",
        "nucleus",
        "nucleus sampling",
        "top-k sampling",
        "top-p sampling",
    ),
    "sentence": (
        *("sentence probability", "log probability", "perplexity", "language model"),
        *("teacher forcing",),
    ),
    "rouge_l": ("rouge",),
    "edit_distance": ("levenshtein", "levenshtein distance", "wer", "word error rate"),
    "conv1d": ("conv", "convolution", "1d convolution", "cnn"),
    "layers": ("layer table", "parameters", "parameter count", "counting parameters"),
    "cost": ("costs", "complexity"),
    "kv_cache": ("cache", "key-value cache"),
    "bidirectional_rnn": ("birnn", "bidirectional"),
    "bidirectional_lstm": ("bilstm",),
    "bidirectional_gru": ("bigru",),
}
# Names that also say a setting, unless the problem declares another.
_VARIANTS: dict[str, tuple[str, dict[str, Any]]] = {
    **dict.fromkeys(
        ("masked", "masked attention", "masked self-attention", "causal", "causal attention"),
        ("attention", {"mask": "causal"}),
    ),
    "causal self-attention": ("attention", {"mask": "causal"}),
    **{
        f"{name}{end}": ("optimizer_step", {"optimizer": name})
        for name in ("sgd", "momentum", "adam")
        for end in ("", " step")
    },
    "gradient descent": ("optimizer_step", {"optimizer": "sgd"}),
}


def _fold(name: str) -> str:
    return fold(name).casefold()


_BY_SPELLING: dict[str, tuple[str, dict[str, Any]]] = {
    **{_fold(other): (kind, {}) for kind, others in _NAMES.items() for other in others},
    **{_fold(kind): (kind, {}) for kind in KINDS},
    **{_fold(other): variant for other, variant in _VARIANTS.items()},
}


def find_kind(name: Any) -> tuple[Kind, dict[str, Any]] | None:
    """Return a kind by any of its names, and the settings that the name says; None if unknown.

    >>> kind, settings = find_kind("Masked self-attention")
    >>> kind.name, settings
    ('attention', {'mask': 'causal'})
    """
    if not isinstance(name, str) or (entry := _BY_SPELLING.get(_fold(name[:100]))) is None:
        return None
    return KINDS[entry[0]], entry[1]


def read_kind(name: Any) -> tuple[Kind, dict[str, Any]]:
    """Return a kind as `find_kind` does; reject an unknown name."""
    kind = find_kind(name)
    if kind is None:
        hint = did_you_mean(name if isinstance(name, str) else "", KINDS)
        raise UserError(f"kind = {safe_repr(name, 30)}: {hint}")
    return kind
