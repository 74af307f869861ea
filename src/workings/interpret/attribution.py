"""Attribution of a classifier's prediction to the tokens of its input.

Occlusion and gradient explain the margin: the logit of the predicted class minus that of the
runner-up. Where a text may have several labels, it is the logit of the most probable one: its
log-odds against not having the label. docs/explain.md describes how to read the numbers.
"""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

import numpy as np
import torch
from jaxtyping import Float
from numpy.typing import NDArray
from torch import Tensor

from workings.data.batching import pad
from workings.errors import UserError, did_you_mean
from workings.interpret.attention import collect
from workings.interpret.results import Attribution, TokenAttributions
from workings.layers.attention import MultiHeadAttention
from workings.models.classifiers import ConvolutionClassifier, EmbeddingClassifier, NgramClassifier
from workings.models.tfidf import TfidfClassifier
from workings.modules import eval_mode
from workings.problems.notation import typeset
from workings.tasks.attention import find_attention_layers
from workings.tasks.base import Task
from workings.tasks.classification import Classification
from workings.tasks.labels import MultiLabel
from workings.trace import Trace

BATCH_SIZE = 64  # occluded copies of the text
TOKEN_UNITS = {"words": "word", "characters": "character"}  # by the kind of the tokenizer
MAX_COPIES = 200  # of a text; in longer texts several adjacent tokens are occluded together


def explain(task: Task, text: str, *, methods: Iterable[str] | None = None) -> Attribution:
    """Return the prediction of a classifier for a text, attributed to its tokens.

    `methods` are some of `METHODS`; None: all that the model supports.
    """
    if not isinstance(task, Classification):
        raise UserError("only the prediction of a classifier can be attributed to tokens")
    selected = _check_methods(methods)
    ids, spans, num_truncated = task.encode_with_spans(text)
    with eval_mode(task.model), torch.no_grad():
        logits = task.compute_logits([ids])[0]
        best, second = logits.topk(2).indices.tolist()
        rival = None if isinstance(task.scheme, MultiLabel) else second
        margin = float(_compute_margin(logits, best, rival))
        prediction = _Prediction(task, text, ids, best, rival, margin)
        results = {name: METHODS[name](prediction) for name in selected or METHODS}
    for name, result in results.items() if selected else ():
        if result is None:
            others = " or ".join(other for other in ("occlusion", "gradient") if other != name)
            raise UserError(
                f"{name}: a model of kind {task.recipe.model.kind} has none; use {others}"
            )
    return Attribution(
        input_text=text,
        spans=spans,
        unknown_tokens=[k for k, token in enumerate(ids) if token == task.tokenizer.unk_id],
        truncated_characters=num_truncated,
        label=prediction.label,
        runner_up=prediction.runner_up,
        margin=prediction.margin,
        probabilities=dict(
            zip(task.labels, task.scheme.probabilities(logits).tolist(), strict=True)
        ),
        token_attributions=[result for result in results.values() if result],
        unit=TOKEN_UNITS.get(task.tokenizer.kind, "token"),
    )


@dataclass(frozen=True)
class _Prediction:
    """A text as the model reads it, its most probable class, and the one to compare it with."""

    task: Classification
    text: str
    ids: list[int]
    best: int
    rival: int | None
    """the second most probable class; None: not having the label `best`"""
    margin: float

    @property
    def label(self) -> str:
        return self.task.labels[self.best]

    @property
    def runner_up(self) -> str:
        return f"not {self.label}" if self.rival is None else self.task.labels[self.rival]

    @property
    def margin_phrase(self) -> str:
        return f"the margin of {self.label} over {self.runner_up}"

    def compute_margins(self, texts: Sequence[Sequence[int]]) -> list[float]:
        """Return the margin of the same two classes for each of several texts."""
        margins: list[float] = self.margin_of(self.task.compute_logits(texts)).tolist()
        return margins

    def margin_of(self, logits: Float[Tensor, "*texts classes"]) -> Float[Tensor, "*texts"]:
        """Return the log-odds of the class against its rival."""
        return _compute_margin(logits, self.best, self.rival)


def _compute_margin(
    logits: Float[Tensor, "*texts classes"], best: int, rival: int | None
) -> Float[Tensor, "*texts"]:
    margin = logits[..., best]
    return margin if rival is None else margin - logits[..., rival]


def _attribute_by_occlusion(prediction: _Prediction) -> TokenAttributions:
    """Remove each token, or a window of tokens, and measure how far the margin falls."""
    ids, model = prediction.ids, prediction.task.model
    window = max(-(-len(ids) // MAX_COPIES), 1)
    # If weights belong to positions, the other tokens must stay at theirs.
    keep_positions = isinstance(model, ConvolutionClassifier) or model.fixed_length is not None
    margins: list[float] = []
    for first in range(0, len(ids), window * BATCH_SIZE):
        starts = range(first, min(first + window * BATCH_SIZE, len(ids)), window)
        if keep_positions:
            margins += _compute_blanked_margins(prediction, [range(a, a + window) for a in starts])
        else:
            margins += prediction.compute_margins([ids[:a] + ids[a + window :] for a in starts])
    values = []
    for k, margin in enumerate(margins):
        size = min(window, len(ids) - k * window)
        values += [(prediction.margin - margin) / size] * size
    occluded = "a token is" if window == 1 else f"{window} adjacent tokens are"
    action = "blanked" if keep_positions else "removed"
    shared = "" if window == 1 else ", shared equally among them"
    return TokenAttributions(
        "occlusion",
        values,
        f"how much {prediction.margin_phrase} falls if {occluded} {action}{shared}",
        window=window,
    )


def _compute_blanked_margins(
    prediction: _Prediction, blanked_ranges: Sequence[range]
) -> list[float]:
    """Return the margins of copies in which some tokens are replaced by padding."""
    model, blank = prediction.task.model, prediction.task.tokenizer.pad_id
    copies = [
        [blank if k in blanked else token for k, token in enumerate(prediction.ids)]
        for blanked in blanked_ranges
    ]
    if not (isinstance(model, EmbeddingClassifier) and model.excludes_padding):
        return prediction.compute_margins(copies)
    # Masked padding is zero to the model; the embedding of the padding id was never trained.
    kept, _ = pad(
        [[token != blank for token in copy] for copy in copies], length=model.fixed_length
    )
    with Trace(only=(), scale={"embedded": kept.unsqueeze(-1)}):
        return prediction.compute_margins(copies)


def _attribute_by_gradient(prediction: _Prediction) -> TokenAttributions | None:
    """Multiply each token's embedding by the gradient of the margin."""
    model = prediction.task.model
    if isinstance(model, NgramClassifier):
        return _attribute_to_ngrams(prediction, model)
    if isinstance(model, TfidfClassifier):
        return _attribute_to_tfidf(prediction, model)
    values: list[float] = []
    if prediction.ids:
        leaf = {"embedded": lambda x: x.detach().requires_grad_()}
        # cuDNN's recurrent layers have no backward pass in evaluation mode.
        with torch.enable_grad(), torch.backends.cudnn.flags(enabled=False):
            with Trace(model, only="embedded", replace=leaf) as trace:
                logits = prediction.task.compute_logits([prediction.ids])[0]
            if "embedded" not in trace:  # a model of a plug-in, without this tap
                return None
            embedded = trace["embedded"]
            (gradient,) = torch.autograd.grad(prediction.margin_of(logits), embedded)
        tokens = prediction.task.token_slice(len(prediction.ids), embedded.shape[1])
        values = (gradient * embedded)[0, tokens].sum(-1).tolist()
    description = (
        f"gradient × input: the first-order share of a token in {prediction.margin_phrase}"
    )
    return TokenAttributions("gradient", values, description)


def _attribute_to_ngrams(prediction: _Prediction, model: NgramClassifier) -> TokenAttributions:
    """Share the contribution of each n-gram equally among its tokens and occurrences: exact."""
    by_length = model.index_ngrams(prediction.ids)
    counts = np.bincount(np.concatenate(by_length), minlength=1)
    values = np.zeros(len(prediction.ids))
    for length, indices in enumerate(by_length, start=1):
        rows = torch.from_numpy(indices)
        logits = (model.ratios[rows] * model.weights[rows]).double()
        margins = prediction.margin_of(logits).numpy()
        shares = margins / counts[indices] / length
        for k in range(length):
            values[k : k + len(shares)] += shares
    return _describe_shares(prediction, values, model.bias)


def _attribute_to_tfidf(prediction: _Prediction, model: TfidfClassifier) -> TokenAttributions:
    """Share the contribution of each n-gram equally among its characters and occurrences: exact."""
    values = np.zeros(len(prediction.ids))
    features = torch.from_numpy(model.featurize(prediction.ids)).long()
    weights = model.evidence[features].double()
    margins = torch.zeros(len(model.weights), dtype=torch.float64)
    tfidf = model.compute_tfidf(features[None])[0]
    margins[features] = tfidf * prediction.margin_of(weights)
    numbers, occurrences = model.locate_features(prediction.ids)
    shares = margins[torch.from_numpy(numbers)].numpy() / np.bincount(numbers, minlength=1)[numbers]
    # The spaces around the text are not part of it.
    starts = occurrences.starts.clip(min=0)
    ends = (occurrences.starts + occurrences.lengths).clip(max=len(values))
    for start, end, share in zip(starts, ends, shares, strict=True):
        values[start:end] += share / (end - start)
    return _describe_shares(prediction, values, model.bias)


def _describe_shares(
    prediction: _Prediction, values: NDArray[np.float64], bias: Tensor
) -> TokenAttributions:
    difference = typeset(f"{float(prediction.margin_of(bias)):+.3f}")
    description = (
        f"share of a token's n-grams in {prediction.margin_phrase}, each divided equally among its "
        f"tokens; with the bias of {difference} they sum to the margin"
    )
    return TokenAttributions("gradient", values.tolist(), description)


def _attribute_by_attention(prediction: _Prediction) -> TokenAttributions | None:
    """Return the attention that each token receives from the tokens that are pooled."""
    model = prediction.task.model
    layer_paths = find_attention_layers(model).get("encoder", [])
    if not layer_paths:
        return None
    first_layer = model.get_submodule(layer_paths[0])
    assert isinstance(first_layer, MultiHeadAttention)
    query = {"first": 0, "last": -1}.get(getattr(model, "pooling", "mean"))
    layers, on_tokens = _collect_received_attention(prediction, query)
    mean = [sum(column) / len(layers) for column in zip(*layers, strict=True)]
    averaged = f"{first_layer.heads} head{'s' * (first_layer.heads > 1)}"
    if len(layer_paths) > 1:
        averaged += f" and {len(layer_paths)} layers"
    queries = {0: "the first token", -1: "the last token", None: "all tokens"}[query]
    description = f"attention from {queries} to a token, averaged over {averaged}; sums to 1"
    if on_tokens < 0.999:
        tokenizer = prediction.task.tokenizer
        specials = [tokenizer.id_to_token(k) for k in tokenizer.prefix_ids + tokenizer.suffix_ids]
        rest = " and ".join(dict.fromkeys(specials)) or "padding"
        description += f" ({1 - on_tokens:.0%} of it went to {rest})"
    return TokenAttributions(
        "attention", mean, description, is_signed=False, layers=layers if len(layers) > 1 else []
    )


def _collect_received_attention(
    prediction: _Prediction, query: int | None
) -> tuple[list[list[float]], float]:
    """Return the attention that each token receives, by layer, and the share on tokens of the text.

    It comes from the token at the position `query`, or from all of them.
    """
    if not prediction.ids:
        return [], 1.0
    (stack,) = collect(prediction.task, prediction.text, max_tokens=None)
    layers = []
    for weights in stack.weights:
        by_query = weights.mean(0)  # over heads
        received = by_query.mean(0) if query is None else by_query[query]
        tokens = prediction.task.token_slice(len(prediction.ids), len(received))
        layers.append(received[tokens].astype(np.float64))
    on_tokens = sum(float(layer.sum()) for layer in layers) / len(layers)
    return [(layer / max(layer.sum(), 1e-12)).tolist() for layer in layers], on_tokens


METHODS: dict[str, Callable[[_Prediction], TokenAttributions | None]] = {
    "occlusion": _attribute_by_occlusion,
    "gradient": _attribute_by_gradient,
    "attention": _attribute_by_attention,
}


def _check_methods(methods: Iterable[str] | None) -> list[str] | None:
    if methods is None:
        return None
    names = list(dict.fromkeys([methods] if isinstance(methods, str) else methods))
    for name in names:
        if name not in METHODS:
            raise UserError(f"method {name!r}: {did_you_mean(name, METHODS)}")
    if not names:
        raise UserError(f"no method: expected some of {', '.join(METHODS)}")
    return names
