"""Which words decided? Three ways of asking a classifier, each a number for every token.

All but attention explain one number, the lead: how far the score of the predicted class is above
that of the runner-up on this text. docs/explain.md says what to make of the answers.
"""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

import numpy as np
import torch

from workings.data import pad
from workings.errors import UserError, did_you_mean
from workings.interpret.results import Attribution, TokenAttributions
from workings.models.classifiers import ConvolutionClassifier, EmbeddingClassifier, NgramClassifier
from workings.modules import eval_mode
from workings.problems.notation import typeset
from workings.tasks.classification import Classification
from workings.trace import Trace

BATCH_SIZE = 64  # copies of the text in a batch
TOKEN_UNITS = {"words": "word", "characters": "character"}  # what the tokens of these are called
MAX_COPIES = 200  # copies; in a longer text, several tokens are left out together


def explain(
    task: Classification, text: str, *, methods: Iterable[str] | None = None
) -> Attribution:
    """Say what a model makes of a text, and how much each token had to do with it.

    `methods` are some of `METHODS`; None: all that the model has an answer to.
    """
    wanted = _check_methods(methods)
    ids, spans, cut = task.encode_with_spans(text)
    with eval_mode(task.model), torch.no_grad():
        scores = task.compute_logits([ids])[0]
        best, second = scores.topk(2).indices.tolist()
        case = _Prediction(task, ids, best, second, float(scores[best] - scores[second]))
        asked = {name: METHODS[name](case) for name in wanted or METHODS}
    if wanted and None in asked.values():
        kind = task.recipe.model.kind
        raise UserError(f"attention: a model of kind {kind} has none: ask by occlusion or gradient")
    return Attribution(
        input_text=text,
        spans=spans,
        unknown_tokens=[k for k, number in enumerate(ids) if number == task.tokenizer.unk_id],
        truncated_characters=cut,
        label=case.label,
        runner_up=case.runner_up,
        margin=case.margin,
        probabilities=dict(zip(task.labels, torch.softmax(scores, -1).tolist(), strict=True)),
        token_attributions=[found for found in asked.values() if found],
        unit=TOKEN_UNITS.get(task.tokenizer.kind, "token"),
    )


@dataclass(frozen=True)
class _Prediction:
    """A text as the model read it, and the two classes that it had to choose between."""

    task: Classification
    ids: list[int]
    best: int
    second: int
    margin: float

    @property
    def label(self) -> str:
        return self.task.labels[self.best]

    @property
    def runner_up(self) -> str:
        return self.task.labels[self.second]

    @property
    def margin_phrase(self) -> str:
        return f"the lead of {self.label} over {self.runner_up}"

    def compute_margins(self, texts: Sequence[Sequence[int]]) -> list[float]:
        """How far the one is ahead of the other in each of these texts."""
        scores = self.task.compute_logits(texts)
        leads: list[float] = (scores[:, self.best] - scores[:, self.second]).tolist()
        return leads


def _attribute_by_occlusion(prediction: _Prediction) -> TokenAttributions:
    """Leave each token out, or a few together, and see how far the lead falls."""
    ids = prediction.ids
    window = max(-(-len(ids) // MAX_COPIES), 1)
    # Where it matters which weights or which window a place falls to, the rest must stay in place.
    model = prediction.task.model
    stay = isinstance(model, ConvolutionClassifier) or model.fixed_length is not None
    leads: list[float] = []
    for first in range(0, len(ids), window * BATCH_SIZE):
        starts = range(first, min(first + window * BATCH_SIZE, len(ids)), window)
        if stay:
            leads += _compute_blanked_margins(prediction, [range(a, a + window) for a in starts])
        else:
            leads += prediction.compute_margins([ids[:a] + ids[a + window :] for a in starts])
    values = []
    for k, lead in enumerate(leads):
        together = min(window, len(ids) - k * window)
        values += [(prediction.margin - lead) / together] * together
    token = "a token is" if window == 1 else f"{window} tokens in a row are"
    how = f"{token} {'blanked' if stay else 'left out'}"
    shared = "" if window == 1 else ", shared equally among them"
    return TokenAttributions(
        "occlusion",
        values,
        f"how much {prediction.margin_phrase} falls when {how}{shared}",
        window=window,
    )


def _compute_blanked_margins(
    prediction: _Prediction, blanked_ranges: Sequence[range]
) -> list[float]:
    """The leads where padding stands in the place of some tokens."""
    model, blank = prediction.task.model, prediction.task.tokenizer.pad_id
    copies = [
        [blank if k in hole else i for k, i in enumerate(prediction.ids)] for hole in blanked_ranges
    ]
    if not (isinstance(model, EmbeddingClassifier) and model.excludes_padding):
        return prediction.compute_margins(copies)
    # Such a model sees zeros where there is padding; the vector of its id was never trained.
    kept, _ = pad([[i != blank for i in copy] for copy in copies], length=model.fixed_length)
    with Trace(only=(), scale={"embedded": kept.unsqueeze(-1)}):
        return prediction.compute_margins(copies)


def _attribute_by_gradient(prediction: _Prediction) -> TokenAttributions:
    """Multiply each token's vector by the slope of the lead."""
    model = prediction.task.model
    if isinstance(model, NgramClassifier):
        return _attribute_to_ngrams(prediction, model)
    values: list[float] = []
    if prediction.ids:
        leaf = {"embedded": lambda x: x.detach().requires_grad_()}
        # torch's recurrent layers on a GPU have no gradients while they evaluate, but by this way.
        with torch.enable_grad(), torch.backends.cudnn.flags(enabled=False):
            with Trace(model, only="embedded", replace=leaf) as trace:
                scores = prediction.task.compute_logits([prediction.ids])[0]
            embedded = trace["embedded"]
            (slope,) = torch.autograd.grad(
                scores[prediction.best] - scores[prediction.second], embedded
            )
        places = prediction.task.token_slice(len(prediction.ids), embedded.shape[1])
        values = (slope * embedded)[0, places].sum(-1).tolist()
    what = f"what a token's vector adds to {prediction.margin_phrase}, as far as the slope tells"
    return TokenAttributions("gradient", values, what)


def _attribute_to_ngrams(prediction: _Prediction, model: NgramClassifier) -> TokenAttributions:
    """Share out what each n-gram adds, among its tokens wherever it stands: exact, no slope."""
    by_length = model.index_ngrams(prediction.ids)
    often = np.bincount(np.concatenate(by_length), minlength=1)
    values = np.zeros(len(prediction.ids))
    for length, numbers in enumerate(by_length, start=1):
        rows = torch.from_numpy(numbers)
        says = (model.ratios[rows] * model.weights[rows]).double()
        adds = (
            (says[:, prediction.best] - says[:, prediction.second]).numpy()
            / often[numbers]
            / length
        )
        for k in range(length):
            values[k : k + len(adds)] += adds
    bias = typeset(f"{float(model.bias[prediction.best] - model.bias[prediction.second]):+.3f}")
    what = (
        f"what a token's n-grams add to {prediction.margin_phrase}, "
        "each shared equally among its tokens; "
        f"with the bias of {bias} they add up to all of it"
    )
    return TokenAttributions("gradient", values.tolist(), what)


def _attribute_by_attention(prediction: _Prediction) -> TokenAttributions | None:
    """See how much each token is looked at, by the tokens that the class is read off."""
    with Trace(prediction.task.model, only="*weights") as trace:
        prediction.task.compute_logits([prediction.ids])
    layers = []
    for weights in (step for path in trace for step in trace.steps(path)):
        heads = weights.shape[1]  # of [1, heads, queries, keys]
        looked = weights[0].mean(0)
        layers.append(looked[-1] if _pools_last_token(prediction) else looked.mean(0))
    if not layers:
        return None
    each = [
        layer[prediction.task.token_slice(len(prediction.ids), len(layer))].double()
        for layer in layers
    ]
    on_text = sum(float(layer.sum()) for layer in each) / len(each)
    shares = [(layer / layer.sum().clamp(min=1e-12)).tolist() for layer in each]
    mean = [sum(column) / len(shares) for column in zip(*shares, strict=True)]
    over = f"{heads} head{'s' * (heads > 1)}" + f" and {len(each)} layers" * (len(each) > 1)
    who = "by the last token" if _pools_last_token(prediction) else "by all tokens"
    what = f"how much a token is looked at {who}, averaged over {over}; adds up to 1"
    if prediction.ids and on_text < 0.999:
        what += f" ({1 - on_text:.0%} of it went to padding)"
    return TokenAttributions(
        "attention", mean, what, is_signed=False, layers=shares if len(shares) > 1 else []
    )


def _pools_last_token(prediction: _Prediction) -> bool:
    return getattr(prediction.task.model, "pooling", "mean") == "last"


METHODS: dict[str, Callable[[_Prediction], TokenAttributions | None]] = {
    "occlusion": _attribute_by_occlusion,
    "gradient": _attribute_by_gradient,
    "attention": _attribute_by_attention,
}


def _check_methods(methods: Iterable[str] | None) -> list[str] | None:
    if methods is None:
        return None
    wanted = list(dict.fromkeys([methods] if isinstance(methods, str) else methods))
    for name in wanted:
        if name not in METHODS:
            raise UserError(f"method {name!r}: {did_you_mean(name, METHODS)}")
    if not wanted:
        raise UserError(f"no method: expected some of {', '.join(METHODS)}")
    return wanted
