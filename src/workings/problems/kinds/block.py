"""A Transformer block as one long worked problem."""

from workings.problems.kinds.attention import MATRICES, TIES
from workings.problems.kinds.attention import steps as attention_steps
from workings.problems.kinds.base import Kind, Setting, Sizes, Step
from workings.problems.kinds.layers import FEED_FORWARD_MATRICES, feed_forward_steps, norm_steps
from workings.problems.ops import Sum


def _norm(sizes: Sizes, setting: Setting, which: int, x: str) -> list[Step]:
    """Lay out one of the two norms, with its own γ and β or those given for both."""
    gamma, beta = (
        next((g for g in (f"{name}_{which}", name) if g in sizes), None)
        for name in ("gamma", "beta")
    )
    return norm_steps(setting, x, gamma, beta, prefix=f"norm_{which}.")


def _block(sizes: Sizes, setting: Setting) -> list[Step]:
    if setting.order == "pre":
        return [
            *_norm(sizes, setting, 1, "X"),
            *attention_steps(sizes, setting, "attention.", "norm_1.output"),
            Step("add_1", Sum("X", "attention.output")),
            *_norm(sizes, setting, 2, "add_1"),
            *feed_forward_steps(sizes, setting, "norm_2.output", "feed_forward."),
            Step("add_2", Sum("add_1", "feed_forward.output")),
        ]
    return [
        *attention_steps(sizes, setting, "attention.", "X"),
        Step("add_1", Sum("X", "attention.output")),
        *_norm(sizes, setting, 1, "add_1"),
        *feed_forward_steps(sizes, setting, "norm_1.output", "feed_forward."),
        Step("add_2", Sum("norm_1.output", "feed_forward.output")),
        *_norm(sizes, setting, 2, "add_2"),
    ]


BLOCK = Kind(
    name="block",
    # The residual paths tie the widths together: what attention and feed-forward put out is added
    # to what went in.
    matrices={
        **MATRICES,
        "W_O": ("v", "d"),
        "b_O": ("1", "d"),
        **FEED_FORWARD_MATRICES,
        "W_2": ("h", "d"),
        "b_2": ("1", "d"),
        **{f"{name}{end}": ("1", "d") for name in ("gamma", "beta") for end in ("", "_1", "_2")},
    },
    needs=("X", "W_1", "W_2"),
    ties=(*TIES, (("W_O",), "v", "d")),
    settings=("heads", "scale", "mask", "normalizer", "activation", "order", "eps"),
    build=_block,
    parts="head",
    prefixes=("attention", "norm_1", "feed_forward", "norm_2"),
)
