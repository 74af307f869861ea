"""Which words decided? Three ways of asking a classifier, each a number for every token.

All but attention explain one number, the lead: how far the score of the predicted class is above
that of the runner-up on this text. docs/explain.md says what to make of the answers.
"""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

import numpy as np
import torch

from workings.data import pad
from workings.errors import UserError, near
from workings.lens.explanation import Explanation, Shares
from workings.models.classifiers import Classifier, ConvolutionClassifier
from workings.models.ngrams import NgramClassifier
from workings.tasks.classify import Classifying
from workings.trace import Trace
from workings.views.notation import typeset

AT_ONCE = 64  # copies of the text in a batch
UNITS = {"words": "word", "characters": "character"}  # what the tokens of these are called
MOST = 200  # copies; in a longer text, several tokens are left out together


def explain(task: Classifying, text: str, *, methods: Iterable[str] | None = None) -> Explanation:
    """Say what a model makes of a text, and how much each token had to do with it.

    `methods` are some of `METHODS`; None: all that the model has an answer to.
    """
    wanted = _known(methods)
    ids, spans, cut = task.located(text)
    was_training = task.model.training
    task.model.eval()
    try:
        with torch.no_grad():
            scores = task.score([ids])[0]
            best, second = scores.topk(2).indices.tolist()
            case = _Case(task, ids, best, second, float(scores[best] - scores[second]))
            asked = {name: METHODS[name](case) for name in wanted or METHODS}
    finally:
        task.model.train(was_training)
    if wanted and None in asked.values():
        kind = task.recipe.model.get("kind", "recurrent")
        raise UserError(f"attention: a model of kind {kind} has none: ask by occlusion or gradient")
    return Explanation(
        text=text,
        spans=spans,
        unknown=[k for k, number in enumerate(ids) if number == task.tokenizer.unknown],
        cut=cut,
        label=case.label,
        against=case.against,
        lead=case.lead,
        probabilities=dict(zip(task.labels, torch.softmax(scores, -1).tolist(), strict=True)),
        shares=[found for found in asked.values() if found],
        unit=UNITS.get(task.tokenizer.kind, "token"),
    )


@dataclass(frozen=True)
class _Case:
    """A text as the model read it, and the two classes that it had to choose between."""

    task: Classifying
    ids: list[int]
    best: int
    second: int
    lead: float

    @property
    def label(self) -> str:
        return self.task.labels[self.best]

    @property
    def against(self) -> str:
        return self.task.labels[self.second]

    @property
    def its_lead(self) -> str:
        return f"the lead of {self.label} over {self.against}"

    def leads(self, texts: Sequence[Sequence[int]]) -> list[float]:
        """How far the one is ahead of the other in each of these texts."""
        scores = self.task.score(texts)
        leads: list[float] = (scores[:, self.best] - scores[:, self.second]).tolist()
        return leads


def _occlusion(case: _Case) -> Shares:
    """Leave each token out, or a few together, and see how far the lead falls."""
    ids = case.ids
    window = max(-(-len(ids) // MOST), 1)
    # Where it matters which weights or which window a place falls to, the rest must stay in place.
    model = case.task.model
    stay = isinstance(model, ConvolutionClassifier) or model.fixed_length is not None
    leads: list[float] = []
    for first in range(0, len(ids), window * AT_ONCE):
        starts = range(first, min(first + window * AT_ONCE, len(ids)), window)
        if stay:
            leads += _leads_with_holes(case, [range(a, a + window) for a in starts])
        else:
            leads += case.leads([ids[:a] + ids[a + window :] for a in starts])
    values = []
    for k, lead in enumerate(leads):
        together = min(window, len(ids) - k * window)
        values += [(case.lead - lead) / together] * together
    token = "a token is" if window == 1 else f"{window} tokens in a row are"
    how = f"{token} {'blanked' if stay else 'left out'}"
    shared = "" if window == 1 else ", shared equally among them"
    return Shares(
        "occlusion", values, f"how much {case.its_lead} falls when {how}{shared}", window=window
    )


def _leads_with_holes(case: _Case, holes: Sequence[range]) -> list[float]:
    """The leads where padding stands in the place of some tokens."""
    model, blank = case.task.model, case.task.tokenizer.pad
    copies = [[blank if k in hole else i for k, i in enumerate(case.ids)] for hole in holes]
    if not (isinstance(model, Classifier) and model.excludes_padding):
        return case.leads(copies)
    # Such a model sees zeros where there is padding; the vector of its id was never trained.
    kept, _ = pad([[i != blank for i in copy] for copy in copies], length=model.fixed_length)
    with Trace(only=(), scale={"embedded": kept.unsqueeze(-1)}):
        return case.leads(copies)


def _gradient(case: _Case) -> Shares:
    """Multiply each token's vector by the slope of the lead."""
    model = case.task.model
    if isinstance(model, NgramClassifier):
        return _parts(case, model)
    values: list[float] = []
    if case.ids:
        leaf = {"embedded": lambda x: x.detach().requires_grad_()}
        # torch's recurrent layers on a GPU have no gradients while they evaluate, but by this way.
        with torch.enable_grad(), torch.backends.cudnn.flags(enabled=False):
            with Trace(model, only="embedded", replace=leaf) as trace:
                scores = case.task.score([case.ids])[0]
            embedded = trace["embedded"]
            (slope,) = torch.autograd.grad(scores[case.best] - scores[case.second], embedded)
        places = case.task.places(len(case.ids), embedded.shape[1])
        values = (slope * embedded)[0, places].sum(-1).tolist()
    what = f"what a token's vector adds to {case.its_lead}, as far as the slope tells"
    return Shares("gradient", values, what)


def _parts(case: _Case, model: NgramClassifier) -> Shares:
    """Share out what each n-gram adds, among its tokens wherever it stands: exact, no slope."""
    by_length = model.numbered(case.ids)
    often = np.bincount(np.concatenate(by_length), minlength=1)
    values = np.zeros(len(case.ids))
    for length, numbers in enumerate(by_length, start=1):
        rows = torch.from_numpy(numbers)
        says = (model.ratios[rows] * model.weights[rows]).double()
        adds = (says[:, case.best] - says[:, case.second]).numpy() / often[numbers] / length
        for k in range(length):
            values[k : k + len(adds)] += adds
    bias = typeset(f"{float(model.bias[case.best] - model.bias[case.second]):+.3f}")
    what = (
        f"what a token's n-grams add to {case.its_lead}, each shared equally among its tokens; "
        f"with the bias of {bias} they add up to all of it"
    )
    return Shares("gradient", values.tolist(), what)


def _attention(case: _Case) -> Shares | None:
    """See how much each token is looked at, by the tokens that the class is read off."""
    with Trace(case.task.model, only="*weights") as trace:
        case.task.score([case.ids])
    layers = []
    for weights in (step for path in trace for step in trace.steps(path)):
        heads = weights.shape[1]  # of [1, heads, queries, keys]
        looked = weights[0].mean(0)
        layers.append(looked[-1] if _reads_last(case) else looked.mean(0))
    if not layers:
        return None
    each = [layer[case.task.places(len(case.ids), len(layer))].double() for layer in layers]
    on_text = sum(float(layer.sum()) for layer in each) / len(each)
    shares = [(layer / layer.sum().clamp(min=1e-12)).tolist() for layer in each]
    mean = [sum(column) / len(shares) for column in zip(*shares, strict=True)]
    over = f"{heads} head{'s' * (heads > 1)}" + f" and {len(each)} layers" * (len(each) > 1)
    who = "by the last token" if _reads_last(case) else "by all tokens"
    what = f"how much a token is looked at {who}, averaged over {over}; adds up to 1"
    if case.ids and on_text < 0.999:
        what += f" ({1 - on_text:.0%} of it went to padding)"
    return Shares("attention", mean, what, signed=False, layers=shares if len(shares) > 1 else [])


def _reads_last(case: _Case) -> bool:
    return getattr(case.task.model, "pooling", "mean") in ("stop", "last")


METHODS: dict[str, Callable[[_Case], Shares | None]] = {
    "occlusion": _occlusion,
    "gradient": _gradient,
    "attention": _attention,
}


def _known(methods: Iterable[str] | None) -> list[str] | None:
    if methods is None:
        return None
    wanted = list(dict.fromkeys([methods] if isinstance(methods, str) else methods))
    for name in wanted:
        if name not in METHODS:
            raise UserError(f"method {name!r}: {near(name, METHODS)}")
    if not wanted:
        raise UserError(f"no method: expected some of {', '.join(METHODS)}")
    return wanted
