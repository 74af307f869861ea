"""Random decoding problems and scores of texts in plain numpy, with mistakes to plant."""

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from functools import partial

import numpy as np

from examples.gradient_examples import plants, rows
from examples.numpy_problems import Env, Example, Matrix, Plant, Planter, Rng, draw, softmax

Counts = Counter[tuple[str, ...]]


def one(number: float) -> Matrix:
    return np.array([[float(number)]])


# -- softmax and sampling --------------------------------------------------------------------------


def make_softmax(rng: Rng) -> Example:
    """Return a softmax with a temperature, written out."""
    temperature = float(rng.choice([0.5, 0.8, 2.0]))
    settings = {"temperature": temperature, "exponentials": "plain"}
    example = Example("softmax", {"logits": draw(rng, 2, 4) * 1.5}, settings)
    steps = example.steps
    steps["scaled"] = lambda e: e["logits"] / temperature
    steps["exponentials"] = lambda e: np.exp(e["scaled"])
    steps["sums"] = lambda e: rows(e["exponentials"])
    steps["probabilities"] = lambda e: e["exponentials"] / e["sums"]
    steps["token"] = lambda e: e["probabilities"].argmax(1)[:, None] + 1.0
    example.integers.add("token")
    example.labels["token"] = 4
    return example


def plant_softmax(name: str, example: Example) -> Iterator[Plant]:
    temperature = example.settings["temperature"]
    wrong: dict[str, list[Plant]] = {
        "temperature-forgotten": [{"scaled": lambda e: e["logits"]}],
        "multiplied-by-temperature": [{"scaled": lambda e: e["logits"] * temperature}],
        "wrong-base": [{"exponentials": lambda e, b=b: b ** e["scaled"]} for b in (2.0, 10.0)],
        "maximum-subtracted": [
            {"exponentials": lambda e: np.exp(e["scaled"] - e["scaled"].max(1, keepdims=True))}
        ],
        "mean-for-sum": [{"sums": lambda e: e["exponentials"].mean(1, keepdims=True)}],
        "exponential-forgotten": [{"sums": lambda e: rows(e["scaled"])}],
        "own-term-left-out": [
            {"probabilities": lambda e: e["exponentials"] / (e["sums"] - e["exponentials"])}
        ],
        "divided-by-total": [{"probabilities": lambda e: e["exponentials"] / e["sums"].sum()}],
        "smallest-for-largest": [{"token": lambda e: e["probabilities"].argmin(1)[:, None] + 1.0}],
    }
    yield from wrong[name]


SOFTMAX_MISTAKES: dict[str, Planter] = {
    name: partial(plant_softmax, name)
    for name in (
        *("temperature-forgotten", "multiplied-by-temperature", "wrong-base"),
        *("maximum-subtracted", "mean-for-sum", "exponential-forgotten"),
        *("own-term-left-out", "divided-by-total", "smallest-for-largest"),
    )
}


def make_sampling(rng: Rng) -> Example:
    """Return top-k, then top-p, of five tokens' logits."""
    temperature, top_k, top_p = 2.0, int(rng.integers(3, 5)), float(rng.choice([0.6, 0.7, 0.8]))
    logits = rng.choice(np.arange(-15, 16, 2), 5, replace=False) / 5
    given = {"logits": logits[None]}
    settings = {"temperature": temperature, "top_k": top_k, "top_p": top_p}
    example = Example("sampling", given, settings)
    steps = example.steps
    steps["scaled"] = lambda e: e["logits"] / temperature
    steps["probabilities"] = lambda e: softmax(e["scaled"])
    steps["top_k.kept"] = lambda e: keep_largest(e["probabilities"], top_k)
    steps["top_k.total"] = lambda e: rows(e["top_k.kept"])
    steps["top_k.renormalized"] = lambda e: e["top_k.kept"] / e["top_k.total"]
    steps["top_p.sorted"] = lambda e: -np.sort(-e["top_k.renormalized"])
    steps["top_p.cumulative"] = lambda e: np.cumsum(e["top_p.sorted"], 1)
    steps["top_p.kept"] = lambda e: keep_nucleus(e, top_p)
    steps["top_p.total"] = lambda e: rows(e["top_p.kept"])
    steps["top_p.renormalized"] = lambda e: e["top_p.kept"] / e["top_p.total"]
    steps["chosen"] = lambda e: e["top_p.renormalized"].argmax(1)[:, None] + 1.0
    example.integers.add("chosen")
    example.labels["chosen"] = 5
    return example


def keep_largest(p: Matrix, count: int) -> Matrix:
    return np.where(p >= -np.sort(-p)[:, [count - 1]], p, 0)


def keep_nucleus(e: Env, top_p: float, fewer: int = 0) -> Matrix:
    count = int((e["top_p.cumulative"] < top_p).sum()) + 1 - fewer
    p = e["top_k.renormalized"]
    return keep_largest(p, min(max(count, 1), p.shape[1]))


def plant_sampling(name: str, example: Example) -> Iterator[Plant]:
    t, k, p = (example.settings[key] for key in ("temperature", "top_k", "top_p"))
    wrong: dict[str, list[Plant]] = {
        "temperature-forgotten": [{"scaled": lambda e: e["logits"]}],
        "multiplied-by-temperature": [{"scaled": lambda e: e["logits"] * t}],
        "off-by-one": [{"top_k.kept": lambda e: keep_largest(e["probabilities"], k - 1)}],
        "smallest-kept": [{"top_k.kept": lambda e: -keep_largest(-e["probabilities"], k)}],
        "not-renormalized": [{"top_k.renormalized": lambda e: e["top_k.kept"]}],
        "divided-by-count": [{"top_k.renormalized": lambda e: e["top_k.kept"] / k}],
        "not-sorted": [{"top_p.sorted": lambda e: e["top_k.renormalized"]}],
        "stopped-before-threshold": [{"top_p.kept": partial(keep_nucleus, top_p=p, fewer=1)}],
        "smallest-chosen": [
            {"chosen": lambda e: np.where(e["top_p.renormalized"] > 0, e["top_p.renormalized"], 9)
             .argmin(1)[:, None] + 1.0}
        ],
    }  # fmt: skip
    yield from wrong[name]


SAMPLING_MISTAKES: dict[str, Planter] = {
    name: partial(plant_sampling, name)
    for name in (
        *("temperature-forgotten", "multiplied-by-temperature", "off-by-one", "smallest-kept"),
        *("not-renormalized", "divided-by-count", "not-sorted", "stopped-before-threshold"),
        "smallest-chosen",
    )
}


# -- a Markov model --------------------------------------------------------------------------------


def draw_distributions(rng: Rng, count: int, width: int) -> Matrix:
    """Draw rows of different probabilities with two decimals."""
    result = []
    while len(result) < count:
        cuts = np.sort(rng.choice(np.arange(5, 96, 3), width - 1, replace=False))
        row = np.diff([0, *cuts, 100])
        if len(set(row)) == width:
            result.append(row / 100)
    return np.array(result)


def draw_markov_model(rng: Rng, width: int = 3) -> dict[str, Matrix]:
    model = draw_distributions(rng, width + 1, width)
    return {"P": model[1:], "start": model[:1]}


def make_sentence(rng: Rng) -> Example:
    """Return the probability of a sentence of four words."""
    words = [int(word) for word in rng.integers(0, 3, 4)]
    settings = {"sentence": " ".join(str(word + 1) for word in words), "base": "e"}
    example = Example("sentence", draw_markov_model(rng), settings)
    example.constants["words"] = np.array(words)
    steps = example.steps
    steps["probabilities"] = read_words
    steps["logs"] = lambda e: np.log(e["probabilities"])
    steps["log_probability"] = lambda e: rows(e["logs"])
    steps["probability"] = lambda e: e["probabilities"].prod(1, keepdims=True)
    steps["perplexity"] = lambda e: np.exp(-e["log_probability"] / 4)
    return example


def read_words(e: Env, reverse: bool = False, own: bool = False) -> Matrix:
    words, table = e["words"], e["P"].T if reverse else e["P"]
    cells, row = [e["start"][0, words[0]]], int(e["start"].argmax()) if own else words[0]
    for word in words[1:]:
        cells.append(table[row, word])
        row = int(table[row].argmax()) if own else word
    return np.array([cells])


SENTENCE_MISTAKES: dict[str, Planter] = {
    "conditional-reversed": plants({"probabilities": partial(read_words, reverse=True)}),
    "own-prediction-fed": plants({"probabilities": partial(read_words, own=True)}),
    "wrong-logarithm": plants(
        {"logs": lambda e: np.log2(e["probabilities"])},
        {"logs": lambda e: np.log10(e["probabilities"])},
    ),
    "logarithm-sign-lost": plants({"logs": lambda e: -np.log(e["probabilities"])}),
    "mean-for-sum": plants({"log_probability": lambda e: rows(e["logs"]) / 4}),
    "first-word-left-out": plants(
        {"log_probability": lambda e: rows(e["logs"][:, 1:])},
        {"probability": lambda e: e["probabilities"][:, 1:].prod(1, keepdims=True)},
    ),
    "sum-for-product": plants({"probability": lambda e: rows(e["probabilities"])}),
    "not-averaged": plants({"perplexity": lambda e: np.exp(-e["log_probability"])}),
    "exponent-sign-lost": plants({"perplexity": lambda e: np.exp(e["log_probability"] / 4)}),
}


def make_beam_search(rng: Rng) -> Example:
    """Return a search with two beams over three times, with a length penalty."""
    alpha, length, beams = float(rng.choice([0.5, 0.6, 0.7])), 3, 2
    settings = {"beams": beams, "length": length, "stop": 3, "scores": "log"}
    settings |= {"length_penalty": alpha, "penalty": "gnmt"}
    example = Example("beam_search", draw_markov_model(rng), settings)
    steps = example.steps
    for t in range(1, length + 1):
        steps[f"scores.{t}"] = partial(extend, t=t)
        steps[f"beams.{t}"] = partial(choose, t=t)
        steps[f"totals.{t}"] = lambda e, t=t: -np.sort(-e[f"scores.{t}"].ravel())[:2, None]
        example.integers.add(f"beams.{t}")
        example.labels[f"beams.{t}"] = 3
    steps["penalized"] = partial(penalize, alpha=alpha)
    steps["best"] = lambda e: e["beams.3"][[int(e["penalized"].argmax())]]
    example.integers.add("best")
    example.labels["best"] = 3
    return example


def extend(
    e: Env,
    t: int,
    log: Callable[[Matrix], Matrix] = np.log,
    forgotten: bool = False,
    stops: bool = True,
    reverse: bool = False,
) -> Matrix:
    if t == 1:
        return log(e["start"])
    stops = stops and not forgotten
    last = e[f"beams.{t - 1}"][:, -1].astype(int) - 1
    new = log((e["P"].T if reverse else e["P"])[last])
    before = e[f"totals.{t - 1}"]
    scores = new if forgotten else before + new
    ended = (last == 2)[:, None]
    kept = np.array([[-np.inf, -np.inf, 0]]) + before
    return np.where(ended, kept, scores) if stops else scores


def choose(e: Env, t: int, rule: str = "best") -> Matrix:
    scores = e[f"scores.{t}"].copy()
    if rule == "smallest":
        scores = -scores
    if rule == "first":
        scores[1:] = -np.inf
    if rule == "each":
        scores = np.where(scores == scores.max(1, keepdims=True), scores, -np.inf)
    order = np.argsort(-scores.ravel(), kind="stable")[:2]
    new = (order % 3 + 1.0)[:, None]
    return new if t == 1 else np.hstack([e[f"beams.{t - 1}"][order // 3], new])


def penalize(e: Env, alpha: float, form: str = "gnmt", extra: int = 0, sign: int = 1) -> Matrix:
    ended = e["beams.3"] == 3
    lengths = np.where(ended.any(1), ended.argmax(1) + 1, 3)[:, None] + extra
    base = (5 + lengths) / 6 if form == "gnmt" else lengths
    return e["totals.3"] / base ** (sign * alpha)


def plant_search(name: str, example: Example) -> Iterator[Plant]:
    alpha = example.settings["length_penalty"]
    for t in (1, 2, 3):
        wrong: dict[str, Plant] = {
            "wrong-logarithm": {f"scores.{t}": partial(extend, t=t, log=np.log10)},
            "smallest-chosen": {f"beams.{t}": partial(choose, t=t, rule="smallest")},
        }
        if t > 1:
            wrong |= {
                "score-before-forgotten": {f"scores.{t}": partial(extend, t=t, forgotten=True)},
                "conditional-reversed": {f"scores.{t}": partial(extend, t=t, reverse=True)},
                "went-on-after-stop": {f"scores.{t}": partial(extend, t=t, stops=False)},
                "best-of-each-hypothesis": {f"beams.{t}": partial(choose, t=t, rule="each")},
                "only-best-extended": {f"beams.{t}": partial(choose, t=t, rule="first")},
            }
        if name in wrong:
            yield wrong[name]
    penalties: dict[str, Plant] = {
        "penalty-forgotten": {"penalized": lambda e: e["totals.3"]},
        "penalty-multiplied": {"penalized": partial(penalize, alpha=alpha, sign=-1)},
        "wrong-penalty": {"penalized": partial(penalize, alpha=alpha, form="power")},
        "exponent-forgotten": {"penalized": partial(penalize, alpha=1.0)},
    }
    if name in penalties:
        yield penalties[name]


BEAM_SEARCH_MISTAKES: dict[str, Planter] = {
    name: partial(plant_search, name)
    for name in (
        *("wrong-logarithm", "smallest-chosen", "score-before-forgotten", "conditional-reversed"),
        *("went-on-after-stop", "best-of-each-hypothesis", "only-best-extended"),
        *("penalty-forgotten", "penalty-multiplied", "wrong-penalty", "exponent-forgotten"),
    )
}


# -- scores of texts -------------------------------------------------------------------------------

WORDS = ("a", "b", "c", "d")


def draw_text(rng: Rng, low: int, high: int) -> list[str]:
    return [str(word) for word in rng.choice(WORDS, int(rng.integers(low, high)))]


def count_ngrams(text: Sequence[str], n: int) -> Counts:
    return Counter(tuple(text[k : k + n]) for k in range(len(text) - n + 1))


def make_bleu(rng: Rng) -> Example:
    """Return BLEU of bigrams with one or two references."""
    candidate = draw_text(rng, 5, 9)
    references = [draw_text(rng, 5, 11) for _ in range(int(rng.integers(1, 3)))]
    clipped = [clip_counts(candidate, references, n) for n in (1, 2)]
    if not sum(clipped[1]):
        return make_bleu(rng)
    given = {"candidate": " ".join(candidate), "references": [" ".join(r) for r in references]}
    example = Example("bleu", given, {"max_order": 2, "smoothing": "none"})  # type: ignore[arg-type]
    c = len(candidate)
    r = min((len(ref) for ref in references), key=lambda k: (abs(k - c), k))
    example.constants["lengths_of_both"] = np.array([c, r])
    example.texts = (candidate, references)
    steps = example.steps
    for n in (1, 2):
        steps[f"clipped.{n}"] = lambda _, n=n: np.array([clipped[n - 1]], dtype=float).T
    steps["matches"] = lambda e: np.array([[e["clipped.1"].sum(), e["clipped.2"].sum()]])
    steps["totals"] = lambda _: np.array([[float(c), c - 1.0]])
    steps["precisions"] = lambda e: e["matches"] / e["totals"]
    steps["mean"] = lambda e: np.sqrt(e["precisions"].prod(1, keepdims=True))
    steps["lengths"] = lambda _: np.array([[float(c), float(r)]])
    steps["brevity_penalty"] = lambda _: one(min(1.0, np.exp(1 - r / c)))
    steps["bleu"] = lambda e: e["brevity_penalty"] * e["mean"]
    example.integers |= {"clipped.1", "clipped.2", "matches", "totals", "lengths"}
    return example


def clip_counts(
    candidate: Sequence[str], references: Sequence[Sequence[str]], n: int, rule: str = "max"
) -> list[int]:
    tables = [count_ngrams(reference, n) for reference in references]
    own = count_ngrams(candidate, n)
    limits = {
        "max": lambda ngram: max(table[ngram] for table in tables),
        "sum": lambda ngram: sum(table[ngram] for table in tables),
        "first": lambda ngram: tables[0][ngram],
        "none": lambda ngram: 99 * any(table[ngram] for table in tables),
    }
    return [min(count, limits[rule](ngram)) for ngram, count in own.items()]


def plant_bleu(name: str, example: Example) -> Iterator[Plant]:
    c, r = (int(k) for k in example.constants["lengths_of_both"])
    candidate, references = example.texts
    rules = {"not-clipped": "none", "clipped-by-sum": "sum", "clipped-by-first-reference": "first"}
    if name in rules:
        for n in (1, 2):
            wrong = np.array([clip_counts(candidate, references, n, rules[name])], dtype=float).T
            yield {f"clipped.{n}": lambda _, wrong=wrong: wrong}
        return
    if name == "brevity-ratio-inverted" and c <= r:
        return  # as if there were no penalty
    others: dict[str, Plant] = {
        "length-for-totals": {"totals": lambda _: np.array([[c, c]])},
        "off-by-one": {"totals": lambda _: np.array([[c - 1, c - 2]])},
        "arithmetic-for-geometric-mean": {
            "mean": lambda e: e["precisions"].mean(1, keepdims=True)
        },
        "root-forgotten": {"mean": lambda e: e["precisions"].prod(1, keepdims=True)},
        "lengths-swapped": {"lengths": lambda _: np.array([[r, c]])},
        "brevity-penalty-forgotten": {
            "brevity_penalty": lambda _: one(1), "bleu": lambda e: e["mean"],
        },
        "brevity-ratio-inverted": {"brevity_penalty": lambda _: one(min(1, np.exp(1 - c / r)))},
        "brevity-without-exponential": {"brevity_penalty": lambda _: one(min(1, c / r))},
        "long-text-rewarded": {"brevity_penalty": lambda _: one(np.exp(1 - r / c))},
    }  # fmt: skip
    yield others[name]


BLEU_MISTAKES: dict[str, Planter] = {
    name: partial(plant_bleu, name)
    for name in (
        *("not-clipped", "clipped-by-sum", "clipped-by-first-reference", "length-for-totals"),
        *("off-by-one", "arithmetic-for-geometric-mean", "root-forgotten", "lengths-swapped"),
        *("brevity-penalty-forgotten", "brevity-ratio-inverted"),
        *("brevity-without-exponential", "long-text-rewarded"),
    )
}


Cell = Callable[[float, float, float, bool], float]  # of above, left, diagonal, equal


def fill_table(first: Sequence[str], second: Sequence[str], border: float, cell: Cell) -> Matrix:
    table = np.zeros((len(first) + 1, len(second) + 1))
    table[:, 0], table[0] = (
        border * np.arange(len(first) + 1),
        border * np.arange(len(second) + 1),
    )
    for i, word in enumerate(first, 1):
        for j, other in enumerate(second, 1):
            ends = table[i - 1, j], table[i, j - 1], table[i - 1, j - 1]
            table[i, j] = cell(*ends, word == other)
    return table


def make_rouge_l(rng: Rng) -> Example:
    """Return ROUGE-L with β = 1.2."""
    candidate, reference = draw_text(rng, 4, 8), draw_text(rng, 4, 8)
    beta = 1.2
    table = fill_table(reference, candidate, 0, common)
    if len(candidate) == len(reference) or table[-1, -1] == 0:
        return make_rouge_l(rng)
    given = {"candidate": " ".join(candidate), "reference": " ".join(reference)}
    example = Example("rouge_l", given, {"beta": beta})  # type: ignore[arg-type]
    example.texts = (candidate, reference)
    steps = example.steps
    steps["table"] = lambda _: table
    steps["lcs"] = lambda e: e["table"][-1:, -1:]
    steps["precision"] = lambda e: e["lcs"] / len(candidate)
    steps["recall"] = lambda e: e["lcs"] / len(reference)
    steps["f"] = lambda e: f_measure(e, beta**2)
    example.integers |= {"table", "lcs"}
    return example


def common(above: float, left: float, diagonal: float, is_equal: bool) -> float:
    return max(above, left, diagonal + is_equal)


def f_measure(e: Env, square: float) -> Matrix:
    p, r = e["precision"], e["recall"]
    return (1 + square) * p * r / (r + square * p)


def plant_rouge(name: str, example: Example) -> Iterator[Plant]:
    candidate, reference = example.texts
    wrong: dict[str, Plant] = {
        "precision-and-recall-swapped": {
            "precision": lambda e: e["lcs"] / len(reference),
            "recall": lambda e: e["lcs"] / len(candidate),
        },
        "arithmetic-for-harmonic-mean": {"f": lambda e: (e["precision"] + e["recall"]) / 2},
        "beta-forgotten": {"f": lambda e: f_measure(e, 1)},
        "beta-not-squared": {"f": lambda e: f_measure(e, 1.2)},
        "precision-for-f": {"f": lambda e: e["precision"]},
        "recall-for-f": {"f": lambda e: e["recall"]},
        "order-ignored": {"lcs": lambda _: one((Counter(candidate) & Counter(reference)).total())},
        "left-neighbor-forgotten": {
            "table": lambda _: fill_table(
                reference, candidate, 0, lambda above, _, along, same: along + 1 if same else above
            )
        },
    }
    yield wrong[name]


ROUGE_L_MISTAKES: dict[str, Planter] = {
    name: partial(plant_rouge, name)
    for name in (
        *("precision-and-recall-swapped", "arithmetic-for-harmonic-mean", "beta-forgotten"),
        *("beta-not-squared", "precision-for-f", "recall-for-f", "order-ignored"),
        "left-neighbor-forgotten",
    )
}


def make_edit_distance(rng: Rng) -> Example:
    """Return the edit distance of two texts and the error rate."""
    reference, hypothesis = draw_text(rng, 3, 7), draw_text(rng, 3, 7)
    if len(reference) == len(hypothesis):
        return make_edit_distance(rng)
    given = {"reference": " ".join(reference), "hypothesis": " ".join(hypothesis)}
    example = Example("edit_distance", given, {"substitution": 1})  # type: ignore[arg-type]
    example.texts = (reference, hypothesis)
    example.steps["table"] = lambda _: fill_table(reference, hypothesis, 1, edits)
    example.steps["distance"] = lambda e: e["table"][-1:, -1:]
    example.steps["wer"] = lambda e: e["distance"] / len(reference)
    example.integers |= {"table", "distance"}
    return example


def edits(
    above: float, left: float, diagonal: float, is_equal: bool, cost: float = 1, match: float = 0
) -> float:
    return min(above + 1, left + 1, diagonal + (match if is_equal else cost))


def plant_distance(name: str, example: Example) -> Iterator[Plant]:
    reference, hypothesis = example.texts
    m, k = len(reference), len(hypothesis)

    def fill(cell: Cell, border: float = 1) -> Plant:
        return {"table": lambda _: fill_table(reference, hypothesis, border, cell)}

    wrong: dict[str, Plant] = {
        "substitution-costs-two": fill(partial(edits, cost=2)),
        "match-costs-one": fill(partial(edits, match=1)),
        "border-of-zeros": fill(edits, border=0),
        "divided-by-hypothesis": {"wer": lambda e: e["distance"] / k},
        "divided-by-longer-text": {"wer": lambda e: e["distance"] / max(m, k)},
        "divided-by-both": {"wer": lambda e: e["distance"] / (m + k)},
        "not-divided": {"wer": lambda e: e["distance"]},
        "only-diagonal": {
            "distance": lambda _: one(
                sum(a != b for a, b in zip(reference, hypothesis, strict=False)) + abs(m - k)
            )
        },
    }
    yield wrong[name]


EDIT_DISTANCE_MISTAKES: dict[str, Planter] = {
    name: partial(plant_distance, name)
    for name in (
        *("substitution-costs-two", "match-costs-one", "border-of-zeros", "divided-by-hypothesis"),
        *("divided-by-longer-text", "divided-by-both", "not-divided", "only-diagonal"),
    )
}
