"""How well activations track a property: the area under the ROC curve, or a correlation.

Both are one inner product: of ranks with yes and no, of values with numbers. So all cells, and all
the shifted copies of a property that chance is measured by, are one product of matrices.
"""

from typing import TypeAlias

import numpy as np
from jaxtyping import Bool, Float

AT_ONCE = 64  # cells whose ranks are found together

Property: TypeAlias = Bool[np.ndarray, " places"] | Float[np.ndarray, " places"]


def strengths(
    activations: Float[np.ndarray, "places cells"], values: Property
) -> Float[np.ndarray, " cells"]:
    """Say how well each cell tracks a property: from −1 (against it) over 0 to 1.

    For yes and no it is 2 · AUC − 1, ties counting half; for numbers, Pearson's correlation.

    >>> cells = np.array([[0.1, 5.0], [0.7, 1.0], [0.9, 1.0]])
    >>> strengths(cells, np.array([False, True, True]))
    array([ 1., -1.])
    """
    compared = comparable(activations, ranks=values.dtype == bool)
    found: Float[np.ndarray, " cells"] = compared.T @ weighted(values)
    return found


def comparable(
    activations: Float[np.ndarray, "places cells"], *, ranks: bool
) -> Float[np.ndarray, "places cells"]:
    """Bring cells to one scale: their ranks, or their values, about 0 and of length 1."""
    if ranks:
        return centred_ranks(activations)
    centred = activations - activations.mean(0)
    lengths = np.sqrt(np.square(centred).sum(0))
    unit: Float[np.ndarray, "places cells"] = centred / np.where(lengths > 0, lengths, 1)
    return unit


def weighted(values: Property) -> Float[np.ndarray, " places"]:
    """What the comparable activations are to be multiplied by; zeros, where all values are one."""
    if values.dtype == bool:
        share = values.mean()
        return values * (2 / (len(values) * share * (1 - share)) if 0 < share < 1 else 0.0)
    centred = values - values.mean()
    length = np.sqrt(np.square(centred).sum())
    unit: Float[np.ndarray, " places"] = centred / (length or 1)
    return unit


def centred_ranks(
    activations: Float[np.ndarray, "places cells"],
) -> Float[np.ndarray, "places cells"]:
    """Rank each cell's activations, from −½ to ½; those that are equal share their mean rank.

    >>> centred_ranks(np.array([[3.0], [1.0], [3.0], [8.0]])).T
    array([[ 0.   , -0.375,  0.   ,  0.375]])
    """
    places, cells = activations.shape
    ranks = np.empty_like(activations)
    for first in range(0, cells, AT_ONCE):
        # A cell a row: numbers that are compared lie side by side.
        block = np.ascontiguousarray(activations[:, first : first + AT_ONCE].T)
        order = np.argsort(block, axis=1)
        shared = _means_of_equals(np.take_along_axis(block, order, 1))
        np.put_along_axis(block, order, (shared - (places - 1) / 2) / places, 1)
        ranks[:, first : first + AT_ONCE] = block.T
    return ranks


def _means_of_equals(
    rising: Float[np.ndarray, "cells places"],
) -> Float[np.ndarray, "cells places"]:
    """The mean place of each run of equal numbers, at all of its places."""
    count = rising.shape[1]
    places = np.arange(count)
    new = np.ones(rising.shape, bool)
    new[:, 1:] = rising[:, 1:] != rising[:, :-1]
    last = np.ones(rising.shape, bool)
    last[:, :-1] = new[:, 1:]
    begins = np.maximum.accumulate(np.where(new, places, 0), axis=1)
    ends = np.minimum.accumulate(np.where(last, places, count)[:, ::-1], axis=1)[:, ::-1]
    means: Float[np.ndarray, "cells places"] = (begins + ends) / 2
    return means


def chances_best(
    compared: Float[np.ndarray, "sample cells"],
    values: Property,
    places: np.ndarray,
    shifts: np.ndarray,
) -> Float[np.ndarray, " shifts"]:
    """The best strength among all cells for each of the shifts of a property round its text.

    A property that is shifted keeps everything but its tie to the text, above all how long it stays
    the same. `compared` are comparable activations at some `places` of the text.
    """
    moved = np.empty((len(places), len(shifts)), compared.dtype)
    for k, shift in enumerate(shifts):
        moved[:, k] = weighted(np.roll(values, shift)[places])
    best: Float[np.ndarray, " shifts"] = np.abs(compared.T @ moved).max(0)
    return best
