"""Draw the matrices of problems from a seeded generator, with numbers that suit work by hand."""

from collections.abc import Callable, Sequence
from random import Random
from typing import Any, TypeAlias

import numpy as np

from workings.errors import UserError
from workings.problems.intervals import Bools, Floats
from workings.problems.kinds.layers import Variance
from workings.problems.notation import Real
from workings.problems.ops import Normalization
from workings.problems.problem import Problem
from workings.problems.sheets.plan import ATTENTION_KINDS, TITLES, SheetPlan

Givens: TypeAlias = dict[str, Floats]

INPUT_VALUES = (-1, 0, 0, 1, 1, 2, 2, 3)  # repeated values are drawn more often
SMALL_INPUT_VALUES = (-1, 0, 0, 0, 1, 1, 2)  # for long sums
WEIGHT_VALUES = (-1, 1, 1, 2)  # of the nonzero weights
GATE_WEIGHT_VALUES = (
    *(-0.8, -0.6, -0.5, -0.3, -0.2, 0.1, 0.2),
    *(0.3, 0.4, 0.5, 0.6, 0.7, 0.9, 1.0),
)
TANH_WEIGHT_VALUES = (-1.0, -0.5, 0.5, 0.5, 1.0)  # small, so that tanh does not saturate


class SamplingError(Exception):
    """No acceptable matrix was drawn in many tries."""


def draw_until(
    draw: Callable[[], Floats], accept: Callable[[Floats], bool], max_tries: int = 200
) -> Floats:
    """Draw until a matrix is accepted."""
    for _ in range(max_tries):
        matrix = draw()
        if accept(matrix):
            return matrix
    raise SamplingError


def hill_climb(
    rng: Random,
    start: Floats,
    penalty: Callable[[Floats], float],
    values: Sequence[Real] = (*WEIGHT_VALUES, 0, 0),
    steps: int = 300,
) -> Floats:
    """Change random cells, keeping changes that do not increase the penalty, until it is 0.

    With many tokens, drawing entire matrices until one is accepted takes too long.
    """
    best, best_penalty = start, penalty(start)
    for _ in range(steps):
        if best_penalty == 0:
            return best
        candidate = best.copy()
        candidate[rng.randrange(len(best)), rng.randrange(len(best[0]))] = rng.choice(values)
        candidate_penalty = penalty(candidate)
        if candidate_penalty <= best_penalty:
            best, best_penalty = candidate, candidate_penalty
    raise SamplingError


def draw_inputs(
    rng: Random, rows: int, columns: int, values: Sequence[Real] = INPUT_VALUES
) -> Floats:
    """Draw distinct input vectors: none is zero or constant, and no column is zero."""

    def accept(x: Floats) -> bool:
        is_varied = (x != x[:, :1]).any(1).all() and x.any(0).all()
        return _has_distinct_rows(x) and bool(is_varied)

    return draw_until(lambda: _draw_matrix(rng, rows, columns, values), accept)


def draw_weight(
    rng: Random,
    rows: int,
    columns: int,
    values: Sequence[Real] = WEIGHT_VALUES,
    density: float = 0.0,
) -> Floats:
    """Draw a sparse weight without zero rows or columns that is not symmetric.

    `density`: the share of nonzero cells; by default about two per column, so that products stay
    small for wide inputs.
    """
    density = density or min(0.75, 2 / rows)

    def draw() -> Floats:
        w = np.array(
            [
                [rng.choice(values) if rng.random() < density else 0 for _ in range(columns)]
                for _ in range(rows)
            ],
            dtype=np.float64,
        )
        for i in np.flatnonzero(~w.any(1)):
            w[i, rng.randrange(columns)] = rng.choice(values)
        for j in np.flatnonzero(~w.any(0)):
            w[rng.randrange(rows), j] = rng.choice(values)
        return w

    return draw_until(draw, is_useful_weight)


def is_useful_weight(w: Floats) -> bool:
    """Return True if a weight has no zero row or column and is not symmetric."""
    is_symmetric = w.shape[0] == w.shape[1] and bool((w == w.T).all())
    return bool(w.any(0).all() and w.any(1).all()) and not is_symmetric


def draw_vector(rng: Random, width: int, values: Sequence[Real]) -> Floats:
    """Draw a single row that is neither zero nor constant."""
    return draw_until(
        lambda: _draw_matrix(rng, 1, width, values),
        lambda v: bool(v.any()) and (width == 1 or bool((v != v[0, 0]).any())),
    )


def is_small(matrix: Floats, max_abs: float) -> bool:
    """Return True if a result has small numbers and distinct rows, none of them zero."""
    return bool((np.abs(matrix) <= max_abs).all()) and _has_distinct_rows(matrix)


def _has_distinct_rows(x: Floats) -> bool:
    return bool(x.any(1).all()) and len({tuple(row) for row in x.tolist()}) == len(x)


def _draw_matrix(rng: Random, rows: int, columns: int, values: Sequence[Real]) -> Floats:
    return np.array(
        [[rng.choice(values) for _ in range(columns)] for _ in range(rows)], dtype=np.float64
    )


MIN_WEIGHT = 0.03  # of each visible token; so no weight exceeds 0.97
_MIN_SPREAD = 0.05  # within the weights of a row, and between rows
_MAX_PROJECTION, _MAX_SCORE = 6.0, 25.0


def draw_attention(rng: Random, plan: SheetPlan) -> Givens:
    """Draw X (and the context), then weights that lead to reasonable scores."""
    n, d, width = plan.tokens, plan.width, plan.heads * plan.d_k
    values = INPUT_VALUES if n * d < 13 else SMALL_INPUT_VALUES
    given = {"X": draw_inputs(rng, n, d, values)}
    context = given["X"]
    if plan.context:
        context = given["context"] = draw_inputs(rng, plan.context, d, values)
    allowed = make_mask(plan)

    given["W_Q"], given["W_K"] = _draw_query_key_weights(rng, plan, given["X"], context, allowed)
    given["W_V"] = draw_until(
        lambda: draw_weight(rng, d, width), lambda w: is_small(context @ w, _MAX_PROJECTION)
    )
    if plan.heads > 1 or plan.kind == "block":
        given["W_O"] = draw_weight(rng, width, d)
    return given


def make_mask(plan: SheetPlan) -> Bools:
    """Return the mask `[queries, keys]`; True: may attend."""
    allowed = np.ones((plan.tokens, plan.context or plan.tokens), dtype=np.bool_)
    return np.tril(allowed) if plan.is_masked else allowed


def _draw_query_key_weights(
    rng: Random, plan: SheetPlan, query_input: Floats, key_input: Floats, allowed: Bools
) -> tuple[Floats, Floats]:
    """Draw W_Q and W_K together, head by head, so that their scores are reasonable."""
    heads = []
    for _ in range(plan.heads):

        def penalty(weights: Floats) -> float:
            w_q, w_k = np.split(weights, 2, axis=1)
            queries, keys = query_input @ w_q, key_input @ w_k
            scores = queries @ keys.T
            useless = sum(not is_useful_weight(w) for w in (w_q, w_k))
            large = sum(not is_small(x, _MAX_PROJECTION) for x in (queries, keys))
            excess = np.maximum(np.abs(scores) - _MAX_SCORE, 0).sum()
            return float(useless + large + excess + softmax_penalty(scores / plan.divisor, allowed))

        start = np.concatenate([draw_weight(rng, plan.width, plan.d_k) for _ in range(2)], axis=1)
        heads.append(np.split(hill_climb(rng, start, penalty), 2, axis=1))
    w_q, w_k = (np.concatenate(blocks, axis=1) for blocks in zip(*heads, strict=True))
    return w_q, w_k


def softmax_penalty(scores: Floats, allowed: Bools) -> float:
    """Return how far the softmaxes are from being instructive; 0 is fine.

    Saturated and uniform rows are penalized, and so are more than a few queries with equal weights.
    """
    has_choice = allowed.sum(1) > 1
    visible = np.where(allowed, scores, -np.inf)[has_choice]
    top = visible.max(1, keepdims=True)
    log_weights = visible - top - np.log(np.exp(visible - top).sum(1, keepdims=True))
    smallest = np.where(allowed[has_choice], log_weights, np.inf).min(1)
    weights = np.exp(log_weights)
    saturated = np.maximum(np.log(MIN_WEIGHT) - smallest, 0).sum()
    uniform = (weights.max(1) - np.exp(smallest) < _MIN_SPREAD).sum()
    distances = np.abs(weights[:, None] - weights[None]).max(-1)  # [query, query]
    equal_pairs = ((distances < _MIN_SPREAD).sum() - len(distances)) // 2
    return float(saturated + uniform + max(equal_pairs - max(len(distances) - 2, 0), 0))


WAVELENGTH_RATIOS = (10, 100, 4, 5, 20, 2, 50, 25, 8, 40)  # of adjacent wavelengths
_MAX_PREACTIVATION = 2.2  # beyond it, tanh and sigmoid saturate
_BIAS_VALUES = (-1.0, -0.5, 0.0, 0.5, 1.0)


def choose_base(plan: SheetPlan, seed: int, number: int) -> int:
    """Choose the base of a positions problem so that the angles have few digits."""
    ratios = list(WAVELENGTH_RATIOS)
    Random(f"positions {seed}").shuffle(ratios)  # noqa: S311
    if number > len(ratios):
        raise UserError(
            f"--count: there are only {len(ratios)} different positions problems of one size"
        )
    return int(ratios[number - 1] ** (plan.width // 2))


def draw_layer_norm(rng: Random, plan: SheetPlan) -> Givens:
    """Draw X whose means, variances and, if possible, standard deviations have few digits."""
    n, d = plan.tokens, plan.width
    rows: list[Floats] = []
    while len(rows) < n:
        row = draw_until(
            lambda: draw_inputs(rng, 1, d, range(-2, 8)), lambda x: _has_short_moments(x[0]), 4000
        )
        if not any((row == other).all() for other in rows):
            rows.append(row)
    return {
        "X": np.concatenate(rows),
        "gamma": draw_vector(rng, d, (-1, 0.5, 1, 2, 2, 3)),
        "beta": draw_vector(rng, d, (-1, 0, 1, 2)),
    }


def _has_short_moments(row: Floats) -> bool:
    """Return True if mean, variance and (except for width 3) its root have few digits."""
    variance = row.var()
    if not _is_multiple(row.mean(), 0.5) or not _is_multiple(variance, 0.25) or variance < 1:
        return False
    return len(row) == 3 or _is_multiple(np.sqrt(variance), 0.5)


def _is_multiple(value: float, step: float) -> bool:
    return abs(value / step - round(value / step)) < 1e-9


def draw_feed_forward(rng: Random, plan: SheetPlan, x: Floats | None = None) -> Givens:
    """Draw a layer whose ReLU cuts some but not all cells of every row."""
    n, d, hidden = plan.tokens, plan.width, plan.hidden_size
    x = draw_inputs(rng, n, d) if x is None else x
    for _ in range(200):
        w_1, b_1 = draw_weight(rng, d, hidden), draw_vector(rng, hidden, (-2, -1, 0, 1))
        preactivation = x @ w_1 + b_1
        is_mixed = (preactivation < 0).any(1) & (preactivation > 0).any(1)
        if is_small(preactivation, 8.0) and is_mixed.all() and (preactivation > 0).any(0).all():
            w_2, b_2 = draw_weight(rng, hidden, d), draw_vector(rng, d, (-1, 0, 1, 2))
            return {"X": x, "W_1": w_1, "b_1": b_1, "W_2": w_2, "b_2": b_2}
    raise SamplingError


def draw_additive(rng: Random, plan: SheetPlan) -> Givens:
    """Draw a query, hidden states and the weights of additive attention."""
    d, hidden = plan.width, plan.hidden_size
    states = draw_inputs(rng, plan.tokens, d, SMALL_INPUT_VALUES)
    query = draw_vector(rng, d, SMALL_INPUT_VALUES)
    for _ in range(200):
        w_s, w_h = (draw_weight(rng, d, hidden, TANH_WEIGHT_VALUES) for _ in range(2))
        if is_small(query @ w_s + states @ w_h, _MAX_PREACTIVATION):
            v = draw_vector(rng, hidden, (-2, -1, 1, 2, 3))
            return {"s": query, "H": states, "W_s": w_s, "W_h": w_h, "v": v}
    raise SamplingError


def draw_rnn(rng: Random, plan: SheetPlan) -> Givens:
    """Draw a network with an initial state of zero whose tanh never saturates."""
    d, hidden = plan.width, plan.hidden_size
    x = draw_inputs(rng, plan.tokens, d, SMALL_INPUT_VALUES)
    for _ in range(200):
        w_x, w_h = (
            draw_weight(rng, d, hidden, TANH_WEIGHT_VALUES),
            draw_weight(rng, hidden, hidden, TANH_WEIGHT_VALUES, 0.8),
        )
        b = draw_vector(rng, hidden, _BIAS_VALUES)
        h, is_unsaturated = np.zeros((1, hidden)), True
        for row in x:
            total = row @ w_x + h @ w_h + b
            is_unsaturated = is_unsaturated and _is_unsaturated(total)
            h = np.tanh(total)
        if is_unsaturated:
            return {"X": x, "W_xh": w_x, "W_hh": w_h, "b": b}
    raise SamplingError


def draw_lstm(rng: Random, plan: SheetPlan) -> Givens:
    """Draw an LSTM whose gates, side by side in the weights, never saturate.

    The eight weights are multiples of 0.1: with multiples of 0.5, several would have equal products
    with an input.
    """
    d, hidden = plan.width, plan.hidden_size
    x = draw_inputs(rng, plan.tokens, d, SMALL_INPUT_VALUES)

    def gate() -> Floats:
        return draw_until(
            lambda: draw_weight(rng, d, hidden, GATE_WEIGHT_VALUES),
            lambda w: bool((np.abs(x @ w) <= _MAX_PREACTIVATION - 0.7).all()),
            400,
        )

    for _ in range(200):
        w_x = np.concatenate([gate() for _ in range(4)], axis=1)
        w_h = np.concatenate(
            [draw_weight(rng, hidden, hidden, GATE_WEIGHT_VALUES, 0.8) for _ in range(4)], axis=1
        )
        b = draw_vector(rng, 4 * hidden, _BIAS_VALUES)
        h = c = np.zeros((1, hidden))
        is_unsaturated = True
        for row in x:
            total = row @ w_x + h @ w_h + b
            is_unsaturated = is_unsaturated and _is_unsaturated(total)
            i, f, g, o = np.split(total, 4, axis=1)
            c = _sigmoid(f) * c + _sigmoid(i) * np.tanh(g)
            h = _sigmoid(o) * np.tanh(c)
        if is_unsaturated:
            return {"X": x, "W_x": w_x, "W_h": w_h, "b": b}
    raise SamplingError


def _is_unsaturated(total: Floats) -> bool:
    return bool((np.abs(total) <= _MAX_PREACTIVATION).all() and total.any())


def _sigmoid(x: Floats) -> Floats:
    return 1 / (1 + np.exp(-x))


# Sentences and their translations, which are the context in cross-attention.
_SENTENCES = {
    2: (
        ("birds sing", "oiseaux chantent"),
        ("time flies", "temps file"),
        ("she reads", "elle lit"),
        ("water boils", "eau bout"),
        ("we agree", "nous acceptons"),
    ),
    3: (
        ("the cat sleeps", "le chat dort"),
        ("a child laughs", "un enfant rit"),
        ("we drink tea", "nous buvons thé"),
        ("my sister writes", "ma soeur écrit"),
        ("the train stops", "le train arrête"),
    ),
    4: (
        ("the dog sees me", "le chien me voit"),
        ("rain falls at night", "pluie tombe la nuit"),
        ("you read good books", "tu lis bons livres"),
        ("the old bridge holds", "le vieux pont tient"),
        ("she opens a window", "elle ouvre une fenêtre"),
    ),
    5: (
        ("the black cat sleeps here", "le chat noir dort ici"),
        ("we eat bread every morning", "nous mangeons pain chaque matin"),
        ("my friend plays the piano", "mon ami joue du piano"),
        ("a small boat crosses over", "un petit bateau traverse là"),
    ),
    6: (
        ("the teacher writes on the board", "le professeur écrit au tableau noir"),
        ("they walk home in the rain", "ils rentrent à pied sous pluie"),
        ("a red bird sits up there", "un oiseau rouge perche là haut"),
    ),
}


def choose_sentence(
    seed: int, number: int, tokens: int, context: int = 0
) -> tuple[list[str], list[str]]:
    """Return the words of a sentence and of its context: its translation, if the lengths agree.

    Every sentence is used before one is repeated.
    """
    sentence, translation = _pick_sentence(seed, number, tokens)
    if context and context != tokens:
        translation = _pick_sentence(seed, number, context)[1]
    return sentence.split(), translation.split() if context else []


def _pick_sentence(seed: int, number: int, tokens: int) -> tuple[str, str]:
    order = list(_SENTENCES[tokens])
    Random(f"words {seed}").shuffle(order)  # noqa: S311
    return order[number % len(order)]


_MIN_VARIANCE = 0.2

_SAMPLERS: dict[str, Callable[[Random, SheetPlan], Givens]] = {
    **dict.fromkeys(ATTENTION_KINDS, draw_attention),
    "layer_norm": draw_layer_norm,
    "feed_forward": draw_feed_forward,
    "additive": draw_additive,
    "rnn": draw_rnn,
    "lstm": draw_lstm,
    "block": lambda rng, plan: {**draw_feed_forward(rng, plan), **draw_attention(rng, plan)},
}


def draw_problem_table(plan: SheetPlan, rng: Random, seed: int, number: int) -> dict[str, Any]:
    """Draw a problem and return the table of its file."""
    title = TITLES[plan.kind]
    table: dict[str, Any] = {"title": f"Problem {number}: {title[0].lower()}{title[1:]}"}
    table["kind"] = "attention" if plan.kind in ATTENTION_KINDS else plan.kind
    # Every convention is declared: one that is left open is no mistake.
    table["vectors"] = "columns" if plan.column_vectors else "rows"
    table |= _make_settings(plan)
    if plan.kind == "positions":
        table["tokens"] = [str(position) for position in range(plan.tokens)]
        given = {"count": plan.tokens, "width": plan.width, "base": choose_base(plan, seed, number)}
        return {**table, "given": given}
    table["tokens"], context = choose_sentence(seed, number, plan.tokens, plan.context)
    if context:
        table["context_tokens"] = context
    givens = _SAMPLERS[plan.kind](rng, plan)
    table["given"] = {name: _to_plain_numbers(m, plan.column_vectors) for name, m in givens.items()}
    return table


def _make_settings(plan: SheetPlan) -> dict[str, Any]:
    settings: dict[str, Any] = {}
    if plan.has_attention:
        settings = {"heads": plan.heads} if plan.heads > 1 else {}
        settings["scale"] = "sqrt(d_k)" if plan.is_scaled else "none"
        settings["mask"] = "causal" if plan.is_masked else "none"
        settings["normalizer"] = "softmax"
    if plan.kind == "feed_forward":
        settings["activation"] = "relu"
    return settings


def _to_plain_numbers(matrix: Floats, column_vectors: bool) -> list[list[int | float]]:
    """Convert a matrix to lists in the file's convention; integral floats become ints."""
    oriented = matrix.T if column_vectors else matrix
    return [[int(v) if v == int(v) else v for v in row] for row in oriented.tolist()]


def is_well_conditioned(problem: Problem) -> bool:
    """Return True if no softmax is saturated or uniform and no variance is close to zero."""
    exact = problem.exact_matrices
    for step in problem.steps:
        if isinstance(step.op, Normalization):
            scores = exact[step.op.x].mid
            if softmax_penalty(scores, np.isfinite(scores)) > 0:
                return False
        elif isinstance(step.op, Variance) and exact[step.key].mid.min() < _MIN_VARIANCE:
            return False
    return True
