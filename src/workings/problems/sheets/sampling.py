"""Drawing small numbers: matrices that a person can work with, from a generator with a seed."""

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

INPUT_VALUES = (-1, 0, 0, 1, 1, 2, 2, 3)  # inputs; repeated: drawn more often
SMALL_INPUT_VALUES = (-1, 0, 0, 0, 1, 1, 2)  # inputs, where many are added up
WEIGHT_VALUES = (-1, 1, 1, 2)  # weights, where they are not zero
GATE_WEIGHT_VALUES = (
    -0.8,
    -0.6,
    -0.5,
    -0.3,
    -0.2,
    0.1,
    0.2,
    0.3,
    0.4,
    0.5,
    0.6,
    0.7,
    0.9,
    1.0,
)  # of a gate
TANH_WEIGHT_VALUES = (
    -1.0,
    -0.5,
    0.5,
    0.5,
    1.0,
)  # weights in front of a tanh, which soon has enough


class SamplingError(Exception):
    """Nothing suitable was drawn in many tries: start again with other numbers."""


def draw_until(
    draw: Callable[[], Floats], accept: Callable[[Floats], bool], max_tries: int = 200
) -> Floats:
    """Draw until it suits."""
    for _ in range(max_tries):
        drawn = draw()
        if accept(drawn):
            return drawn
    raise SamplingError


def hill_climb(
    rng: Random,
    start: Floats,
    penalty: Callable[[Floats], float],
    values: Sequence[Real] = (*WEIGHT_VALUES, 0, 0),
    steps: int = 300,
) -> Floats:
    """Change one cell after the other for the better until there is no fault left.

    Waiting for whole matrices to suit by chance takes too long where they have to suit many tokens.
    """
    best, least = start, penalty(start)
    for _ in range(steps):
        if least == 0:
            return best
        changed = best.copy()
        changed[rng.randrange(len(best)), rng.randrange(len(best[0]))] = rng.choice(values)
        now = penalty(changed)
        if now <= least:
            best, least = changed, now
    raise SamplingError


def draw_inputs(
    rng: Random, rows: int, columns: int, values: Sequence[Real] = INPUT_VALUES
) -> Floats:
    """Draw input vectors: no two alike, none of them zero or constant, no column without use."""
    return draw_until(
        lambda: _draw_matrix(rng, rows, columns, values),
        lambda x: (
            _has_distinct_rows(x) and bool((x != x[:, :1]).any(1).all()) and bool(x.any(0).all())
        ),
    )


def draw_weight(
    rng: Random,
    rows: int,
    columns: int,
    values: Sequence[Real] = WEIGHT_VALUES,
    density: float = 0.0,
) -> Floats:
    """Draw a weight with some zeros: no empty row or column, and not its own transpose.

    `filled`: the share of cells that are not zero; unless told, about two in each column, so that
    products stay small however wide the input is.
    """
    share = density or min(0.75, 2 / rows)

    def draw() -> Floats:
        w = np.array(
            [
                [rng.choice(values) if rng.random() < share else 0 for _ in range(columns)]
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
    """Say whether a weight has no empty row or column and is not its own transpose."""
    symmetric = w.shape[0] == w.shape[1] and bool((w == w.T).all())
    return bool(w.any(0).all() and w.any(1).all()) and not symmetric


def draw_vector(rng: Random, width: int, values: Sequence[Real]) -> Floats:
    """Draw a single row, not zero and not constant."""
    return draw_until(
        lambda: _draw_matrix(rng, 1, width, values),
        lambda v: bool(v.any()) and (width == 1 or bool((v != v[0, 0]).any())),
    )


def is_small(matrix: Floats, max_abs: float) -> bool:
    """Say whether a result is still easy to go on with: small, no row zero, no two rows alike."""
    return bool((np.abs(matrix) <= max_abs).all()) and _has_distinct_rows(matrix)


def _has_distinct_rows(x: Floats) -> bool:
    return bool(x.any(1).all()) and len({tuple(row) for row in x.tolist()}) == len(x)


def _draw_matrix(rng: Random, rows: int, columns: int, values: Sequence[Real]) -> Floats:
    return np.array(
        [[rng.choice(values) for _ in range(columns)] for _ in range(rows)], dtype=np.float64
    )


MIN_WEIGHT = 0.03  # of what may be looked at; so none has more than 0.97
_MIN_SPREAD = 0.05  # between the weights of a row, and between rows
_MAX_PROJECTION, _MAX_SCORE = 6.0, 25.0


def draw_attention(rng: Random, plan: SheetPlan) -> Givens:
    """Draw X (and the context) and the weights, each to suit what was drawn before it."""
    n, d, width = plan.tokens, plan.width, plan.heads * plan.d_k
    numbers = INPUT_VALUES if n * d < 13 else SMALL_INPUT_VALUES
    given = {"X": draw_inputs(rng, n, d, numbers)}
    asked = given["X"]
    if plan.context:
        asked = given["context"] = draw_inputs(rng, plan.context, d, numbers)
    allowed = make_mask(plan)

    given["W_Q"], given["W_K"] = _draw_query_key_weights(rng, plan, given["X"], asked, allowed)
    given["W_V"] = draw_until(
        lambda: draw_weight(rng, d, width), lambda w: is_small(asked @ w, _MAX_PROJECTION)
    )
    if plan.heads > 1 or plan.kind == "block":
        given["W_O"] = draw_weight(rng, width, d)
    return given


def make_mask(plan: SheetPlan) -> Bools:
    """Which token may look at which."""
    allowed = np.ones((plan.tokens, plan.context or plan.tokens), dtype=np.bool_)
    return np.tril(allowed) if plan.is_masked else allowed


def _draw_query_key_weights(
    rng: Random, plan: SheetPlan, query_input: Floats, key_input: Floats, allowed: Bools
) -> tuple[Floats, Floats]:
    """Draw W_Q and W_K together, to suit their scores; no head's depend on another's."""
    heads = []
    for _ in range(plan.heads):

        def fault(both: Floats) -> float:
            w_q, w_k = np.split(both, 2, axis=1)
            queries, keys = query_input @ w_q, key_input @ w_k
            scores = queries @ keys.T
            useless = (not is_useful_weight(w_q)) + (not is_useful_weight(w_k))
            large = (not is_small(queries, _MAX_PROJECTION)) + (not is_small(keys, _MAX_PROJECTION))
            too_large = np.maximum(np.abs(scores) - _MAX_SCORE, 0).sum()
            return float(
                useless + large + too_large + softmax_penalty(scores / plan.divisor, allowed)
            )

        drawn = [draw_weight(rng, plan.width, plan.d_k) for _ in range(2)]
        heads.append(np.split(hill_climb(rng, np.concatenate(drawn, axis=1), fault), 2, axis=1))
    w_q, w_k = (np.concatenate(blocks, axis=1) for blocks in zip(*heads, strict=True))
    return w_q, w_k


def softmax_penalty(scores: Floats, allowed: Bools) -> float:
    """Measure how far softmaxes are from being worth working out; 0 is as it should be.

    None may be decided beforehand or have nothing to decide, and most queries get different ones.
    """
    several = allowed.sum(1) > 1
    seen = np.where(allowed, scores, -np.inf)[several]
    top = seen.max(1, keepdims=True)
    log_weights = seen - top - np.log(np.exp(seen - top).sum(1, keepdims=True))
    weights, least = np.exp(log_weights), np.where(allowed[several], log_weights, np.inf).min(1)
    saturated = np.maximum(np.log(MIN_WEIGHT) - least, 0).sum()
    undecided = (weights.max(1) - np.exp(least) < _MIN_SPREAD).sum()
    gaps = np.abs(weights[:, None] - weights[None]).max(-1)  # between each two queries
    alike = ((gaps < _MIN_SPREAD).sum() - len(gaps)) // 2
    return float(saturated + undecided + max(alike - max(len(gaps) - 2, 0), 0))


WAVELENGTH_RATIOS = (10, 100, 4, 5, 20, 2, 50, 25, 8, 40)  # of neighbouring wavelengths
_MAX_PREACTIVATION = 2.2  # the largest argument of a tanh or sigmoid that is not nearly ±1
_BIAS_VALUES = (-1.0, -0.5, 0.0, 0.5, 1.0)


def choose_base(plan: SheetPlan, seed: int, number: int) -> int:
    """Choose the base of a problem about positions, so that the angles are short numbers."""
    ratios = list(WAVELENGTH_RATIOS)
    Random(f"positions {seed}").shuffle(ratios)  # noqa: S311
    if number > len(ratios):
        raise UserError(
            f"--count: positions of one size differ in their base only: at most {len(ratios)}"
        )
    return int(ratios[number - 1] ** (plan.width // 2))


def draw_layer_norm(rng: Random, plan: SheetPlan) -> Givens:
    """Draw X with short means and variances; their roots are short wherever that is possible."""
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
    """Say whether mean, variance and (but for width 3, where it never is) its root are short."""
    variance = row.var()
    if not _is_multiple(row.mean(), 0.5) or not _is_multiple(variance, 0.25) or variance < 1:
        return False
    return len(row) == 3 or _is_multiple(np.sqrt(variance), 0.5)


def _is_multiple(value: float, step: float) -> bool:
    return abs(value / step - round(value / step)) < 1e-9


def draw_feed_forward(rng: Random, plan: SheetPlan, x: Floats | None = None) -> Givens:
    """Draw a layer whose ReLU has something to cut, and something to leave, in every column."""
    n, d, hidden = plan.tokens, plan.width, plan.hidden
    x = draw_inputs(rng, n, d) if x is None else x
    for _ in range(200):
        w, b = draw_weight(rng, d, hidden), draw_vector(rng, hidden, (-2, -1, 0, 1))
        before = x @ w + b
        cut = (before < 0).any(1) & (before > 0).any(1)
        if is_small(before, 8.0) and cut.all() and (before > 0).any(0).all():
            back = draw_weight(rng, hidden, d)
            return {
                "X": x,
                "W_1": w,
                "b_1": b,
                "W_2": back,
                "b_2": draw_vector(rng, d, (-1, 0, 1, 2)),
            }
    raise SamplingError


def draw_additive(rng: Random, plan: SheetPlan) -> Givens:
    """Draw a query, states and the small network that compares them."""
    d, hidden = plan.width, plan.hidden
    states = draw_inputs(rng, plan.tokens, d, SMALL_INPUT_VALUES)
    query = draw_vector(rng, d, SMALL_INPUT_VALUES)
    for _ in range(200):
        w_s, w_h = (draw_weight(rng, d, hidden, TANH_WEIGHT_VALUES) for _ in range(2))
        before = query @ w_s + states @ w_h
        if is_small(before, _MAX_PREACTIVATION):
            v = draw_vector(rng, hidden, (-2, -1, 1, 2, 3))
            return {"s": query, "H": states, "W_s": w_s, "W_h": w_h, "v": v}
    raise SamplingError


def draw_rnn(rng: Random, plan: SheetPlan) -> Givens:
    """Draw a network that starts at zero and nowhere runs into the ends of its tanh."""
    d, hidden = plan.width, plan.hidden
    x = draw_inputs(rng, plan.tokens, d, SMALL_INPUT_VALUES)
    for _ in range(200):
        w_x, w_h = (
            draw_weight(rng, d, hidden, TANH_WEIGHT_VALUES),
            draw_weight(rng, hidden, hidden, TANH_WEIGHT_VALUES, 0.8),
        )
        b = draw_vector(rng, hidden, _BIAS_VALUES)
        h, calm = np.zeros((1, hidden)), True
        for row in x:
            total = row @ w_x + h @ w_h + b
            calm = calm and _is_unsaturated(total)
            h = np.tanh(total)
        if calm:
            return {"X": x, "W_xh": w_x, "W_hh": w_h, "b": b}
    raise SamplingError


def draw_lstm(rng: Random, plan: SheetPlan) -> Givens:
    """Draw four gates, side by side, none of them shut or open altogether.

    Eight small weights are easily alike, or alike when multiplied with an input: tenths tell them
    apart where halves would not.
    """
    d, hidden = plan.width, plan.hidden
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
        calm = True
        for row in x:
            total = row @ w_x + h @ w_h + b
            calm = calm and _is_unsaturated(total)
            i, f, g, o = np.split(total, 4, axis=1)
            c = _sigmoid(f) * c + _sigmoid(i) * np.tanh(g)
            h = _sigmoid(o) * np.tanh(c)
        if calm:
            return {"X": x, "W_x": w_x, "W_h": w_h, "b": b}
    raise SamplingError


def _is_unsaturated(total: Floats) -> bool:
    return bool((np.abs(total) <= _MAX_PREACTIVATION).all() and total.any())


def _sigmoid(x: Floats) -> Floats:
    return 1 / (1 + np.exp(-x))


# What asks, and what is asked in cross-attention: the same said in French.
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
    """Choose a sentence of so many words, and one to be asked: the same one where the sizes allow.

    Each has its turn before one comes again.
    """
    asks, asked = _pick_sentence(seed, number, tokens)
    if context and context != tokens:
        asked = _pick_sentence(seed, number, context)[1]
    return asks.split(), asked.split() if context else []


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
    """Draw a problem as its file has it."""
    table: dict[str, Any] = {"title": f"Problem {number}: {TITLES[plan.kind].lower()}"}
    table["kind"] = "attention" if plan.kind in ATTENTION_KINDS else plan.kind
    if plan.column_vectors:
        table["vectors"] = "columns"
    table |= _make_settings(plan)
    if plan.kind == "positions":
        table["tokens"] = [str(position) for position in range(plan.tokens)]
        given = {"count": plan.tokens, "width": plan.width, "base": choose_base(plan, seed, number)}
        return {**table, "given": given}
    asks, asked = choose_sentence(seed, number, plan.tokens, plan.context)
    table["tokens"] = asks
    if asked:
        table["context_tokens"] = asked
    drawn = _SAMPLERS[plan.kind](rng, plan)
    return {
        **table,
        "given": {name: _to_plain_numbers(m, plan.column_vectors) for name, m in drawn.items()},
    }


def _make_settings(plan: SheetPlan) -> dict[str, Any]:
    settings: dict[str, Any] = {}
    if plan.has_attention:
        settings = {"heads": plan.heads} if plan.heads > 1 else {}
        settings["scale"] = "sqrt(d_k)" if plan.is_scaled else "none"
        settings |= {"mask": "causal"} if plan.is_masked else {}
    if plan.kind == "feed_forward":
        settings["activation"] = "relu"
    return settings


def _to_plain_numbers(matrix: Floats, column_vectors: bool) -> list[list[int | float]]:
    """Turn a matrix to the file's convention, whole numbers without a point."""
    turned = matrix.T if column_vectors else matrix
    return [[int(v) if v == int(v) else v for v in row] for row in turned.tolist()]


def is_well_conditioned(problem: Problem) -> bool:
    """Say whether no softmax is decided beforehand and no norm divides by next to nothing."""
    for step in problem.steps:
        if isinstance(step.op, Normalization):
            scores = problem.exact_matrices[step.op.x].mid
            if softmax_penalty(scores, np.isfinite(scores)) > 0:
                return False
        elif (
            isinstance(step.op, Variance)
            and problem.exact_matrices[step.key].mid.min() < _MIN_VARIANCE
        ):
            return False
    return True
