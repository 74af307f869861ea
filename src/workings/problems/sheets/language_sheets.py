"""Sheets on RMSNorm, embeddings and the next token."""

from random import Random

import numpy as np

from workings.languages import gettext, gettext_noop
from workings.problems.problem import Problem
from workings.problems.sheets.sampling import (
    BIAS_VALUES,
    SamplingError,
    draw_inputs,
    draw_until,
    draw_vector,
    draw_weight,
    softmax_penalty,
)
from workings.problems.sheets.sheet_kind import Fields, Givens, SheetKind, SheetPlan

_MAX_TRIES = 400
_TEMPERATURES = (0.5, 2)
_NUM_WORDS = 4


def draw_rms_norm(rng: Random, plan: SheetPlan) -> Givens:
    """Draw X whose mean squares have few digits."""
    n, d = plan.tokens, plan.width

    def has_short_squares(x: np.ndarray) -> bool:
        squares = 4 * (x**2).mean(1)
        return bool((squares == np.round(squares)).all() and (squares >= 4).all())

    rows = [
        draw_until(lambda: draw_inputs(rng, 1, d, range(-8, 9)), has_short_squares, 4_000)
        for _ in range(n)
    ]
    x = np.concatenate(rows)
    if len({tuple(row) for row in x.tolist()}) < n:
        return draw_rms_norm(rng, plan)
    return {"X": x, "gamma": draw_vector(rng, d, (-1, 0.5, 1, 2, 2, 3))}


def draw_embedding(rng: Random, plan: SheetPlan) -> Givens:
    """Draw a table, learned positions and ids that differ from each other."""
    n, d = plan.tokens, plan.width
    count = max(_NUM_WORDS, n + 1)
    return {
        "ids": np.array([[float(k + 1) for k in rng.sample(range(count), n)]]),
        "E": draw_inputs(rng, count, d, range(-3, 5)),
        "P": draw_inputs(rng, n, d, (-0.5, -0.2, 0.1, 0.2, 0.3, 0.5, 1.0)),
    }


def draw_head(rng: Random, plan: SheetPlan) -> Fields:
    """Draw states and a table of embeddings whose softmax is instructive."""
    n, d, temperature = plan.tokens, plan.width, rng.choice(_TEMPERATURES)
    for _ in range(_MAX_TRIES):
        h = draw_inputs(rng, n, d, (-1, 0, 0, 1, 1, 2))
        table = draw_weight(rng, _NUM_WORDS, d, (-0.5, 0.5, 1.0), 0.6)
        b = draw_vector(rng, _NUM_WORDS, BIAS_VALUES)
        logits = (h @ table.T + b) / temperature
        if _is_instructive(logits):
            return {"H": h, "E": table, "b": b, "temperature": temperature}
    raise SamplingError


def draw_softmax(rng: Random, plan: SheetPlan) -> Fields:
    """Draw logits with clear extremes and a temperature."""
    temperature = rng.choice(_TEMPERATURES)
    for _ in range(_MAX_TRIES):
        logits = draw_inputs(rng, plan.tokens, plan.width, (-1, -0.5, 0, 0.5, 1, 1.5, 2))
        scaled = logits / temperature
        if _is_instructive(scaled):
            return {"logits": logits, "temperature": temperature}
    raise SamplingError


def _is_instructive(logits: np.ndarray) -> bool:
    """Return True if the largest and smallest of each row stand out and no softmax saturates."""
    top = np.sort(logits, axis=1)
    is_clear = (top[:, -1] - top[:, -2] > 0.2).all() and (top[:, 1] - top[:, 0] > 0.2).all()
    return bool(is_clear) and softmax_penalty(logits, np.full(logits.shape, True)) == 0


def _describe_rms_norm(plan: SheetPlan, problem: Problem) -> list[str]:  # noqa: ARG001
    return [
        gettext("Each token is a {vector}.", vector=plan.vector),
        gettext("The mean is over the width, {width}; ε = 0.", width=plan.width),
    ]


def _describe_embedding(plan: SheetPlan, problem: Problem) -> list[str]:  # noqa: ARG001
    return [
        gettext(
            "Each token is a {vector}; ids are {vectors} of E, counted from 1.",
            vector=plan.vector,
            vectors=plan.vectors,
        )
    ]


def _describe_head(plan: SheetPlan, problem: Problem) -> list[str]:
    return [
        gettext("Each token is a {vector}.", vector=plan.vector),
        gettext(
            "The temperature is {temperature:g}; a word of the vocabulary is a {vector} of "
            "E, counted from 1.",
            temperature=problem.setting.options["temperature"],
            vector=plan.vector,
        ),
    ]


def _describe_softmax(plan: SheetPlan, problem: Problem) -> list[str]:
    return [
        gettext(
            "Each {vector} of logits has a score for every token; tokens are counted from 1. The"
            " temperature is {temperature:g}.",
            vector=plan.vector,
            temperature=problem.setting.options["temperature"],
        ),
    ]


LANGUAGE_SHEETS = (
    SheetKind(
        name="rms_norm",
        title=gettext_noop("RMSNorm"),
        problem_kind="rms_norm",
        picture=gettext_noop("X → mean of X² → √ → X / √ → · γ"),
        draw=draw_rms_norm,
        describe=_describe_rms_norm,
        sentence="labels",
    ),
    SheetKind(
        name="embedding",
        title=gettext_noop("Embeddings with positions"),
        problem_kind="embedding",
        picture=gettext_noop("ids → rows of E → · √d → + P"),
        draw=draw_embedding,
        describe=_describe_embedding,
        make_settings=lambda _: {"scale_embeddings": True},
        takes_any_numbers=False,
        sentence="none",
    ),
    SheetKind(
        name="softmax",
        title=gettext_noop("Softmax with a temperature"),
        problem_kind="softmax",
        picture=gettext_noop("logits → / temperature → e^x → their sum → probabilities → token"),
        draw=draw_softmax,
        describe=_describe_softmax,
        make_settings=lambda _: {"exponentials": "plain"},
        takes_any_numbers=False,
        sizes=((2, 3), (3, 4), (4, 5)),
        min_size=(2, 3),
        max_size=(6, 6),
        size_names=("rows", "tokens"),
        size_text=gettext_noop("{tokens} rows of {width} logits"),
        sentence="none",
    ),
    SheetKind(
        name="lm_head",
        title=gettext_noop("The next token"),
        problem_kind="lm_head",
        picture=gettext_noop("H → H Eᵀ + b → / temperature → softmax → next token"),
        draw=draw_head,
        describe=_describe_head,
        sizes=((2, 3), (2, 4), (3, 4)),
        max_size=(4, 6),
        sentence="labels",
    ),
)
