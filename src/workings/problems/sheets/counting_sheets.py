"""Sheets on counting: layer tables, the cost of attention and recurrence, key/value caches."""

from random import Random

from workings.languages import gettext, gettext_noop
from workings.problems.problem import Problem
from workings.problems.sheets.sheet_kind import Fields, SheetKind, SheetPlan


def _draw_layers(rng: Random, plan: SheetPlan) -> Fields:
    kernel, stride, padding = rng.choice((2, 3, 4)), rng.choice((2, 3)), rng.choice((1, 2))
    layers = [
        f"embedding vocabulary={rng.randrange(11, 40)} width={plan.width}",
        f"conv1d out={rng.randrange(2, 7)} kernel={kernel} stride={stride} padding={padding}",
        rng.choice(("flatten", "global_pool")),
        f"linear out={rng.randrange(2, 5)}",
    ]
    if rng.random() < 0.4:
        cell = rng.choice(("rnn", "gru", "lstm"))
        layers[1:3] = [f"{cell} hidden={rng.randrange(2, 6)} directions=2", "last"]
    return {"given": {"length": plan.tokens, "layers": layers}}


def _describe_layers(plan: SheetPlan, problem: Problem) -> list[str]:  # noqa: ARG001
    return [
        gettext(
            "The input is a text of {tokens} tokens. Linear, convolutional and recurrent "
            "layers have biases; a recurrent layer has two, b_ih and b_hh, per gate and "
            "direction.",
            tokens=plan.tokens,
        ),
        gettext("Multiply-adds are the products with weights; those of an embedding are its size."),
        gettext("Activations are the outputs of layers that have parameters."),
    ]


def _draw_cost(rng: Random, plan: SheetPlan) -> Fields:
    return {
        "given": {
            "n": plan.tokens,
            "d": plan.width,
            "heads": 2,
            "kernel": rng.choice((3, 5, 7)),
            "batch": rng.randrange(30, 100),
            "bytes": 4,
        }
    }


def _describe_cost(plan: SheetPlan, problem: Problem) -> list[str]:  # noqa: ARG001
    return [
        gettext(
            "n tokens of width d. Scores, mixed, projections, attention, recurrence and "
            "convolution are multiply-adds of one layer; the recurrence multiplies both x "
            "and h by a d × d matrix."
        ),
        gettext(
            "Weights and states are numbers kept for the backward pass; a megabyte is 2²⁰ bytes."
        ),
    ]


def _draw_cache(rng: Random, plan: SheetPlan) -> Fields:
    return {
        "given": {
            "n": plan.tokens,
            "d": plan.width,
            "heads": 8,
            "kv_heads": 4,
            "layers": rng.choice((3, 5, 6, 7, 9, 10, 12)),
            "batch": rng.randrange(10, 40),
            "bytes": 2,
        }
    }


def _describe_cache(plan: SheetPlan, problem: Problem) -> list[str]:  # noqa: ARG001
    return [
        gettext(
            "A model with these layers keeps the keys and values of n tokens for each text "
            "of the batch. Its heads share kv_heads keys and values; all heads together "
            "have width d."
        ),
        gettext("A megabyte is 2²⁰ bytes."),
    ]


def _check_even_width(tokens: int, width: int) -> str:  # noqa: ARG001
    return "two heads need an even width" if width % 2 else ""


def _check_cache_width(tokens: int, width: int) -> str:  # noqa: ARG001
    return "eight heads need a width that is a multiple of 8" if width % 8 else ""


COUNTING_SHEETS = (
    SheetKind(
        name="layers",
        title=gettext_noop("Counting the parameters of a model"),
        problem_kind="layers",
        picture=gettext_noop("layers → output sizes → parameters → multiply-adds"),
        draw=_draw_layers,
        describe=_describe_layers,
        sizes=((8, 3), (12, 4), (20, 6)),
        min_size=(6, 2),
        max_size=(40, 16),
        size_names=("tokens", "width"),
        size_text=gettext_noop("{tokens} tokens of width {width}"),
        sentence="none",
        takes_any_numbers=False,
    ),
    SheetKind(
        name="cost",
        title=gettext_noop("The cost of attention and recurrence"),
        problem_kind="cost",
        picture=gettext_noop("n, d → n²d and nd² → ratio → memory"),
        draw=_draw_cost,
        describe=_describe_cost,
        sizes=((50, 16), (100, 32), (200, 64)),
        min_size=(20, 8),
        max_size=(500, 128),
        check_size=_check_even_width,
        sentence="none",
        takes_any_numbers=False,
    ),
    SheetKind(
        name="kv_cache",
        title=gettext_noop("The size of a key/value cache"),
        problem_kind="kv_cache",
        picture=gettext_noop("layers, heads, width → numbers per token → all tokens → megabytes"),
        draw=_draw_cache,
        describe=_describe_cache,
        sizes=((50, 32), (100, 64), (200, 64)),
        min_size=(20, 16),
        max_size=(500, 128),
        check_size=_check_cache_width,
        sentence="none",
        takes_any_numbers=False,
    ),
)
