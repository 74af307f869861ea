"""Sheets on decoding: sampling, the probability of a sentence, beam search."""

from random import Random

import numpy as np

from workings.languages import gettext, gettext_noop
from workings.problems.intervals import Floats
from workings.problems.problem import Problem
from workings.problems.sheets.sampling import SamplingError, draw_until
from workings.problems.sheets.sheet_kind import Fields, SheetKind, SheetPlan

_WORDS = ("the", "cat", "dog", "sat", "ran", "here", "now", "and")
_MAX_VOCABULARY = len(_WORDS)
_SHARES = (2, 3, 4, 6, 8, 10, 12, 15, 18, 20, 25, 28, 30, 35, 40, 45, 50)  # in hundredths
_BEAMS = 2


def _draw_distribution(rng: Random, count: int) -> Floats:
    """Draw probabilities in hundredths, no two of them equal."""
    for _ in range(4000):
        shares = rng.sample(_SHARES, count - 1)
        last = 100 - sum(shares)
        if 1 < last <= 60 and last not in shares:
            shares.insert(rng.randrange(count), last)
            return np.array([shares]) / 100
    raise SamplingError


def _draw_markov_model(rng: Random, count: int) -> Fields:
    """Draw a Markov model that is not symmetric."""

    def draw() -> Floats:
        return np.concatenate([_draw_distribution(rng, count) for _ in range(count)])

    table = draw_until(draw, lambda p: bool((p.argmax(1) != p[0].argmax()).any()))
    return {
        "P": table,
        "start": _draw_distribution(rng, count),
        "tokens": list(_WORDS[:count]),
    }


def _draw_sampling(rng: Random, plan: SheetPlan) -> Fields:
    p = _draw_distribution(rng, plan.width)
    return {
        "p": p,
        "tokens": list(_WORDS[: plan.width]),
        "top_k": plan.tokens,
        "top_p": rng.choice((0.5, 0.6, 0.7, 0.8)),
    }


def _is_filtered(problem: Problem) -> bool:
    """Return True if top-p drops a token that top-k keeps, unless those are only two."""
    count = int((problem.exact_matrices["top_p.kept"].mid > 0).sum())
    top_k: int = problem.setting.options["top_k"]
    return count < top_k or top_k == 2


def _describe_sampling(plan: SheetPlan, problem: Problem) -> list[str]:
    options = problem.setting.options
    return [
        gettext(
            "First the {tokens} likeliest tokens are kept (top-k) and renormalized. Of "
            "these, the likeliest whose probabilities reach {top_p:g} are kept (top-p).",
            tokens=plan.tokens,
            top_p=options["top_p"],
        ),
        _describe_tokens(problem),
    ]


def _describe_tokens(problem: Problem) -> str:
    names = ", ".join(f"{k} = {name}" for k, name in enumerate(problem.tokens or (), 1))
    return gettext("A token is written as its word or its number: {names}.", names=names)


def _draw_sentence(rng: Random, plan: SheetPlan) -> Fields:
    fields = _draw_markov_model(rng, plan.width)
    words = [rng.choice(fields["tokens"]) for _ in range(plan.tokens)]
    return {**fields, "given": {"sentence": " ".join(words)}}


def _describe_sentence(plan: SheetPlan, problem: Problem) -> list[str]:
    return [
        gettext(
            "P has a {vector} for each previous token: the probabilities of the next "
            "one. start has those of the first token.",
            vector=plan.vector,
        ),
        gettext(
            "Logarithms are natural. The perplexity is e to the minus mean log probability "
            "of a word."
        ),
        gettext("Words: {sentence}.", sentence=" ".join(problem.setting.options["sentence"])),
    ]


def _draw_search(rng: Random, plan: SheetPlan) -> Fields:
    return {**_draw_markov_model(rng, plan.width), "given": {"length": plan.tokens}}


def _is_decided(problem: Problem) -> bool:
    """Return True if no two hypotheses that compete are nearly tied."""
    for step in problem.steps:
        if step.name == "scores":
            ranked = np.sort(problem.exact_matrices[step.key].mid.ravel())[::-1]
            if (ranked[:_BEAMS] - ranked[1 : _BEAMS + 1] < 0.004).any():
                return False
    return True


def _describe_search(plan: SheetPlan, problem: Problem) -> list[str]:
    return [
        gettext(
            "P has a {vector} for each previous token: the probabilities of the next "
            "one. start has those of the first token.",
            vector=plan.vector,
        ),
        gettext(
            "Beam search keeps {beams} hypotheses, the best first. The score of a "
            "hypothesis is the product of its probabilities (totals); scores has a row for "
            "each hypothesis kept before.",
            beams=_BEAMS,
        ),
        _describe_tokens(problem),
    ]


DECODING_SHEETS = (
    SheetKind(
        name="sampling",
        title=gettext_noop("Top-k and top-p sampling"),
        problem_kind="sampling",
        picture=gettext_noop("probabilities → top-k → renormalized → top-p → renormalized"),
        draw=_draw_sampling,
        describe=_describe_sampling,
        is_suitable=_is_filtered,
        sizes=((2, 4), (3, 5), (4, 6)),
        min_size=(2, 4),
        max_size=(5, 6),
        size_names=("k", "tokens"),
        size_text=gettext_noop("the best {tokens} of {width} tokens"),
        check_size=lambda k, n: "" if k < n else "top-k must drop a token: use a smaller k",
        sentence="none",
        takes_any_numbers=False,
    ),
    SheetKind(
        name="sentence",
        title=gettext_noop("The probability of a sentence"),
        problem_kind="sentence",
        picture=gettext_noop("P(word | word before) → logarithms → sum → perplexity"),
        draw=_draw_sentence,
        describe=_describe_sentence,
        sizes=((3, 3), (4, 4), (5, 5)),
        min_size=(2, 3),
        max_size=(6, 6),
        size_names=("words", "tokens"),
        size_text=gettext_noop("{tokens} words of {width} tokens"),
        sentence="none",
        takes_any_numbers=False,
    ),
    SheetKind(
        name="beam_search",
        title=gettext_noop("Beam search"),
        problem_kind="beam_search",
        picture=gettext_noop("hypotheses × tokens → scores → the best are kept → the best of all"),
        draw=_draw_search,
        describe=_describe_search,
        make_settings=lambda _: {"beams": _BEAMS, "scores": "probability"},
        is_suitable=_is_decided,
        sizes=((2, 3), (2, 4), (3, 4)),
        min_size=(2, 3),
        max_size=(3, 5),
        size_names=("length", "tokens"),
        size_text=gettext_noop("{tokens} of {width} tokens"),
        sentence="none",
        takes_any_numbers=False,
    ),
)
