"""Problems on greedy and beam search, from a table of probabilities or a small Markov model.

At each time every hypothesis is extended by every token, and the best are kept. A hypothesis that
has ended stays among them with its score: it is extended by the stop token alone, at no cost.
"""

import math
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, ClassVar

import numpy as np
from numpy.typing import NDArray

from workings.errors import UserError
from workings.languages import gettext
from workings.problems.intervals import Bools, Floats, IntervalMatrix
from workings.problems.kinds.base import Kind, Setting, Sizes, Step
from workings.problems.kinds.decoding import (
    CONTEXTS,
    MODEL_MATRICES,
    Context,
    check_distributions,
    check_model,
    find_context,
    find_tokens,
    get_labels,
    label_contexts,
    read_contexts,
    rewrite_model,
)
from workings.problems.notation import Notation
from workings.problems.ops import Copy, Env, MistakeOption, Op, UnaryOp, format_symbol
from workings.problems.options import Option, make_choice, make_count, make_number
from workings.problems.selection import find_possible_best

if TYPE_CHECKING:
    from workings.problems.problem import Problem

MAX_BEAMS = 10
MAX_TIMES = 20
_LOGARITHMS = {"e": math.e, "2": 2.0, "10": 10.0}


@dataclass(frozen=True)
class Extension(Op):
    """The score of every hypothesis extended by every token: `[hypotheses, tokens]`.

    The score is a log probability or, with `in_logs` false, a probability. `time` is from 1; at
    time 1 there is one empty hypothesis. `stop` is the number of the stop token, from 0.
    """

    allows_minus_infinity: ClassVar[bool] = True
    time: int
    model: str  # P or table
    stop: int | None
    in_logs: bool
    contexts: tuple[Context, ...] = ()  # of the rows of the table; none: they are positions
    # The remaining fields describe mistakes.
    rule: str = "right"  # forgotten: only the new token; other: a sum for a product or the reverse
    base: str = "e"
    reversed_condition: bool = False

    @property
    def beams(self) -> str:
        """Key of the hypotheses before."""
        return f"beams.{self.time - 1}"

    @property
    def totals(self) -> str:
        """Key of their scores."""
        return f"totals.{self.time - 1}"

    def compute(self, env: Env) -> IntervalMatrix:
        if self.time == 1:
            return self._score(self._get_first(env))
        rows = self._select_rows(env)
        new, before = self._score(rows), env[self.totals]
        if self.rule == "forgotten":
            return new
        multiplies = self.in_logs == (self.rule == "other")
        scores = new * before if multiplies else _add(new, before)
        return self._keep_ended(env, scores)

    def _score(self, probabilities: IntervalMatrix) -> IntervalMatrix:
        if not self.in_logs:
            return probabilities
        factor = math.log(_LOGARITHMS[self.base])

        def take(values: Floats) -> Floats:
            logarithms: Floats = np.log(np.maximum(values, 0)) / factor
            return logarithms

        return probabilities.apply_monotonic(take)

    def _get_first(self, env: Env) -> IntervalMatrix:
        """Return the probabilities of the first token."""
        if self.model == "P":
            return env["start"]
        return env["table"].slice_row(self.contexts.index(()) if self.contexts else 0)

    def _select_rows(self, env: Env) -> IntervalMatrix:
        """Return the next token's probabilities after each hypothesis."""
        beams = env[self.beams]
        count = beams.shape[0]
        if self.contexts:
            table = env["table"]
            rows = [find_context(self.contexts, row) for row in self._spell(beams.mid, table)]
            mid = np.array(rows)
            is_certain = (beams.lo == beams.hi).all(1)
            lo, hi = np.where(is_certain, mid, 0), np.where(is_certain, mid, table.shape[0] - 1)
            return self._gather(beams, table, (mid, lo, hi))
        if self.model == "table":
            row = env["table"].slice_row(self.time - 1)
            return row.rearrange(lambda a: np.repeat(a, count, axis=0))
        table = env["P"].T if self.reversed_condition else env["P"]
        mid, lo, hi = (_to_tokens(end[:, -1], table.shape[0]) for end in _ends(beams))
        return self._gather(beams, table, (mid, lo, hi))

    def _spell(self, beams: Floats, table: IntervalMatrix) -> list[Context]:
        """Return the tokens of each hypothesis, from 0."""
        return [tuple(_to_tokens(row, table.shape[1]).tolist()) for row in beams]

    def _gather(
        self,
        beams: IntervalMatrix,
        table: IntervalMatrix,
        rows: tuple[NDArray[np.int_], NDArray[np.int_], NDArray[np.int_]],
    ) -> IntervalMatrix:
        """Return a row of the table for each hypothesis: the likeliest, the first, the last."""
        mid, lo, hi = rows
        spans = [slice(a, b + 1) for a, b in zip(lo, hi, strict=True)]
        tainted = beams.tainted.any(1, keepdims=True) | table.tainted[mid]
        return IntervalMatrix(
            table.mid[mid],
            np.stack([table.lo[span].min(0) for span in spans]),
            np.stack([table.hi[span].max(0) for span in spans]),
            tainted,
        )

    def _keep_ended(self, env: Env, scores: IntervalMatrix) -> IntervalMatrix:
        """Let a hypothesis that has ended be extended by the stop token alone, at no cost."""
        if self.stop is None:
            return scores
        before = env[self.totals]
        has_ended = np.rint(env[self.beams].mid[:, -1]) == self.stop + 1
        is_stop = np.arange(scores.shape[1]) == self.stop
        kept: Bools = has_ended[:, None] & is_stop[None, :]
        dropped: Bools = has_ended[:, None] & ~is_stop[None, :]
        fill = -np.inf if self.in_logs else 0.0

        def merge(own: Floats, total: Floats) -> Floats:
            return np.where(dropped, fill, np.where(kept, total, own))

        ends = (merge(a, b) for a, b in zip(_ends(scores), _ends(before), strict=True))
        mid, lo, hi = ends
        tainted = np.where(kept, before.tainted, scores.tainted & ~dropped)
        return IntervalMatrix(mid, lo, hi, tainted)

    def formula(self, n: Notation, column_vectors: bool) -> str:  # noqa: ARG002
        new = n.apply("P", n.word(gettext("token | hypothesis")))
        new = n.apply("ln", new) if self.in_logs else new
        if self.time == 1:
            return new
        before = format_symbol(n, self.totals)
        return n.total([before, new]) if self.in_logs else n.product(before, new)

    def cell(self, n: Notation, env: Env, i: int, j: int) -> str:
        if self.time == 1:
            new = n.number(float(self._get_first(env).mid[0, j]))
            return n.apply("ln", new) if self.in_logs else new
        before = n.factor(float(env[self.totals].mid[i, 0]))
        if self.stop is not None and np.rint(env[self.beams].mid[i, -1]) == self.stop + 1:
            return before if j == self.stop else n.number(-math.inf if self.in_logs else 0.0)
        new = n.number(float(self._select_rows(env).mid[i, j]))
        return n.total([before, n.apply("ln", new)]) if self.in_logs else n.product(before, new)

    def sources(self) -> tuple[str, ...]:
        if self.time == 1:
            return ("start",) if self.model == "P" else ("table",)
        return (self.model, self.beams, self.totals)

    def list_mistakes(self, problem: "Problem", step: Step) -> Iterator[MistakeOption]:  # noqa: ARG002
        if self.in_logs:
            for base in ("2", "10"):
                wrong = replace(self, base=base)
                yield (
                    "wrong-logarithm",
                    wrong,
                    gettext("took the logarithm to base {base}", base=base),
                )
        if self.time == 1:
            return
        forgotten = replace(self, rule="forgotten")
        yield "score-before-forgotten", forgotten, gettext("scored the new token alone")
        other = replace(self, rule="other")
        if self.in_logs:
            yield "logarithms-multiplied", other, gettext("multiplied the logarithms")
        else:
            yield "probabilities-added", other, gettext("added the probabilities")
        if self.model == "P":
            wrong = replace(self, reversed_condition=True)
            yield (
                "conditional-reversed",
                wrong,
                gettext("took P(before | token), not P(token | before)"),
            )
        if self.stop is not None:
            goes_on = replace(self, stop=None)
            yield "went-on-after-stop", goes_on, gettext("extended a hypothesis that had ended")


def _ends(matrix: IntervalMatrix) -> tuple[Floats, Floats, Floats]:
    return matrix.mid, matrix.lo, matrix.hi


def _add(a: IntervalMatrix, b: IntervalMatrix) -> IntervalMatrix:
    """Add matrices that may have −∞."""
    with np.errstate(invalid="ignore"):
        mid, lo, hi = (x + y for x, y in zip(_ends(a), _ends(b), strict=True))
    return IntervalMatrix(mid, lo, hi, a.tainted | b.tainted)


def _to_tokens(numbers: Floats, count: int) -> NDArray[np.int_]:
    """Return labels, from 1, as places from 0; a claim beyond the vocabulary is its last token."""
    tokens: NDArray[np.int_] = np.clip(np.rint(numbers), 1, count).astype(int) - 1
    return tokens


@dataclass(frozen=True)
class BeamTokens(UnaryOp):
    """The best extended hypotheses, the best first: the tokens of each, `[hypotheses, time]`.

    `rule` is for mistakes: smallest, per-parent (the best of each hypothesis), first-parent.
    """

    time: int
    count: int
    rule: str = "best"

    def compute(self, env: Env) -> IntervalMatrix:
        scores = env[self.x]
        if self.rule == "smallest":
            scores = -scores
        before = env[f"beams.{self.time - 1}"] if self.time > 1 else None
        parents, tokens = self._rank(scores)
        mid = self._spell(parents, tokens, before)
        lo, hi = mid.copy(), mid.copy()
        for k in range(self.count if self.rule == "best" else 0):
            spelled = self._spell(*_find_possible(scores, k), before)
            lo[k] = np.minimum(lo[k], spelled.min(0))
            hi[k] = np.maximum(hi[k], spelled.max(0))
        is_off = bool(scores.tainted.any() or (before is not None and before.tainted.any()))
        return IntervalMatrix(mid, lo, hi, np.full(mid.shape, is_off))

    def _rank(self, scores: IntervalMatrix) -> tuple[NDArray[np.int_], NDArray[np.int_]]:
        """Return the hypothesis and the token of each chosen extension."""
        values, width = scores.mid.copy(), scores.shape[1]
        if self.rule == "first-parent":
            values[1:] = -np.inf
        elif self.rule == "per-parent":
            values = np.where(np.arange(width) == values.argmax(1)[:, None], values, -np.inf)
        order = np.argsort(-values.ravel(), kind="stable")[: self.count]
        return order // width, order % width

    def _spell(
        self, parents: NDArray[np.int_], tokens: NDArray[np.int_], before: IntervalMatrix | None
    ) -> Floats:
        new: Floats = (tokens[:, None] + 1).astype(np.float64)
        return new if before is None else np.hstack([before.mid[parents], new])

    def formula(self, n: Notation, column_vectors: bool) -> str:  # noqa: ARG002
        return n.apply(f"best-{self.count}", format_symbol(n, self.x))

    def cell(self, n: Notation, env: Env, i: int, j: int) -> str:  # noqa: ARG002
        values = np.sort(env[self.x].mid.ravel())[::-1]
        return n.apply("token", n.word(gettext("rank {i}", i=i + 1)), n.number(float(values[i])))

    def sources(self) -> tuple[str, ...]:
        return (self.x,) if self.time == 1 else (self.x, f"beams.{self.time - 1}")

    def list_mistakes(self, problem: "Problem", step: Step) -> Iterator[MistakeOption]:  # noqa: ARG002
        smallest = replace(self, rule="smallest")
        yield "smallest-chosen", smallest, gettext("kept the hypotheses with the lowest scores")
        if self.time > 1 and self.count > 1:
            each = replace(self, rule="per-parent")
            yield (
                "best-of-each-hypothesis",
                each,
                gettext("kept the best extension of each hypothesis"),
            )
            first = replace(self, rule="first-parent")
            yield "only-best-extended", first, gettext("extended the best hypothesis only")


def _find_possible(scores: IntervalMatrix, rank: int) -> tuple[NDArray[np.int_], NDArray[np.int_]]:
    """Return the extensions that may have this rank, from 0, if rounded scores are compared."""
    width = scores.shape[1]
    lo, hi = scores.lo.ravel(), scores.hi.ravel()
    # Only extensions that may reach the score of this rank are compared with each other.
    floor = np.sort(lo)[::-1][min(rank, lo.size - 1)]
    near = np.flatnonzero(hi >= floor - 1e-12)
    certainly = (lo[near][:, None] > hi[near][None, :] + 1e-12).sum(0)
    possibly = (hi[near][:, None] >= lo[near][None, :] - 1e-12).sum(0) - 1
    possible = near[(certainly <= rank) & (rank <= possibly)]
    return possible // width, possible % width


@dataclass(frozen=True)
class BeamTotals(UnaryOp):
    """The scores of the kept hypotheses: `[hypotheses, 1]`."""

    allows_minus_infinity: ClassVar[bool] = True
    time: int
    count: int

    def compute(self, env: Env) -> IntervalMatrix:
        scores = env[self.x]
        sorted_lo, sorted_hi = (np.sort(end.ravel())[::-1] for end in (scores.lo, scores.hi))
        lo, hi = sorted_lo[: self.count, None], sorted_hi[: self.count, None]
        beams = env[f"beams.{self.time}"]
        parents, tokens, is_found = self._locate(env)
        ranked = np.sort(scores.mid.ravel())[::-1][: self.count]
        mid = np.where(is_found, scores.mid[parents, tokens], ranked)[:, None]
        is_certain = ((beams.lo == beams.hi).all(1) & is_found)[:, None]
        lo = np.where(is_certain, scores.lo[parents, tokens][:, None], lo)
        hi = np.where(is_certain, scores.hi[parents, tokens][:, None], hi)
        off = beams.tainted.any(1) | scores.tainted[parents, tokens]
        return IntervalMatrix(mid, np.minimum(lo, mid), np.maximum(hi, mid), off[:, None])

    def _locate(self, env: Env) -> tuple[NDArray[np.int_], NDArray[np.int_], Bools]:
        """Return which cell of the scores each hypothesis comes from, and whether there is one."""
        scores, beams = env[self.x], np.rint(env[f"beams.{self.time}"].mid)
        tokens = _to_tokens(beams[:, -1], scores.shape[1])
        if self.time == 1:
            return np.zeros_like(tokens), tokens, np.ones(len(tokens), dtype=np.bool_)
        before = np.rint(env[f"beams.{self.time - 1}"].mid)
        is_parent = (beams[:, None, :-1] == before[None]).all(2)  # [hypothesis, parent]
        return is_parent.argmax(1), tokens, is_parent.any(1)

    def formula(self, n: Notation, column_vectors: bool) -> str:  # noqa: ARG002
        return n.apply("score", n.symbol(f"beams_{self.time}"))

    def sources(self) -> tuple[str, ...]:
        keys = (self.x, f"beams.{self.time}")
        return keys if self.time == 1 else (*keys, f"beams.{self.time - 1}")


@dataclass(frozen=True)
class Penalized(UnaryOp):
    """Log probabilities divided by the length penalty: `((5 + L) / 6)^α` or `L^α`.

    L counts the tokens of a hypothesis with its stop token.
    """

    allows_minus_infinity: ClassVar[bool] = True
    beams: str
    alpha: float
    form: str  # gnmt, power
    stop: int | None
    # The remaining fields describe mistakes.
    multiplies: bool = False
    extra: int = 0  # tokens counted too many

    def compute(self, env: Env) -> IntervalMatrix:
        divisor = IntervalMatrix.exact(self._get_divisors(env)[:, None])
        tainted = env[self.beams].tainted.any(1, keepdims=True)
        totals = env[self.x]
        result = totals * divisor if self.multiplies else totals / divisor
        return replace(result, tainted=result.tainted | tainted)

    def _count_tokens(self, env: Env) -> NDArray[np.int_]:
        tokens = np.rint(env[self.beams].mid)
        width = tokens.shape[1]
        if self.stop is None:
            return np.full(len(tokens), width + self.extra)
        is_stop = tokens == self.stop + 1
        lengths = np.where(is_stop.any(1), is_stop.argmax(1) + 1, width)
        counts: NDArray[np.int_] = lengths + self.extra
        return counts

    def _get_divisors(self, env: Env) -> Floats:
        lengths = np.maximum(self._count_tokens(env), 1)
        base = (5 + lengths) / 6 if self.form == "gnmt" else lengths
        divisors: Floats = np.asarray(base, dtype=np.float64) ** self.alpha
        return divisors

    def compute_rounded(self, env: Env, unit: float) -> IntervalMatrix:
        exact = self.compute(env)
        # The divisor, which is at least about 1, may be rounded.
        slack = np.where(np.isfinite(exact.mid), np.abs(exact.mid) * unit, 0.0)
        return replace(exact, lo=exact.lo - slack, hi=exact.hi + slack)

    def formula(self, n: Notation, column_vectors: bool) -> str:  # noqa: ARG002
        return n.fraction(format_symbol(n, self.x), self._format_divisor(n, n.symbol("L")))

    def cell(self, n: Notation, env: Env, i: int, j: int) -> str:
        length = n.number(int(self._count_tokens(env)[i]))
        top = n.factor(float(env[self.x].mid[i, j]))
        return n.fraction(top, self._format_divisor(n, length))

    def _format_divisor(self, n: Notation, length: str) -> str:
        if self.form == "power":
            return n.power(length, n.number(self.alpha))
        base = n.fraction(n.total([n.number(5), length]), n.number(6))
        return n.power(n.row("(", base, ")"), n.number(self.alpha))

    def sources(self) -> tuple[str, ...]:
        return (self.x, self.beams)

    def list_mistakes(self, problem: "Problem", step: Step) -> Iterator[MistakeOption]:  # noqa: ARG002
        yield "penalty-forgotten", Copy(self.x), gettext("did not divide by the length penalty")
        yield (
            "penalty-multiplied",
            replace(self, multiplies=True),
            gettext("multiplied by the penalty"),
        )
        yield "off-by-one", replace(self, extra=-1), gettext("counted one token too few")
        yield "off-by-one", replace(self, extra=1), gettext("counted one token too many")
        other = "power" if self.form == "gnmt" else "gnmt"
        yield (
            "wrong-penalty",
            replace(self, form=other),
            gettext("used another form of the length penalty"),
        )
        if self.alpha != 1:
            yield "exponent-forgotten", replace(self, alpha=1.0), gettext("left out the exponent α")


@dataclass(frozen=True)
class BestSequence(UnaryOp):
    """The tokens of the hypothesis with the highest score: `[1, time]`."""

    beams: str
    smallest: bool = False  # by mistake

    def compute(self, env: Env) -> IntervalMatrix:
        scores = -env[self.x] if self.smallest else env[self.x]
        best, first, last = find_possible_best(*(end[:, 0] for end in _ends(scores)))
        beams = env[self.beams]
        span = slice(first, last + 1)
        lo, hi = beams.lo[span].min(0)[None], beams.hi[span].max(0)[None]
        is_off = bool(scores.tainted.any() or beams.tainted.any())
        mid = beams.mid[best][None]
        return IntervalMatrix(mid, lo, hi, np.full(mid.shape, is_off))

    def formula(self, n: Notation, column_vectors: bool) -> str:  # noqa: ARG002
        return n.apply("argmax", format_symbol(n, self.x))

    def sources(self) -> tuple[str, ...]:
        return (self.x, self.beams)

    def list_mistakes(self, problem: "Problem", step: Step) -> Iterator[MistakeOption]:  # noqa: ARG002
        yield "smallest-chosen", replace(self, smallest=True), gettext("took the lowest score")
        if self.x == "penalized":
            totals = replace(self, x=self.beams.replace("beams", "totals"))
            yield "penalty-forgotten", totals, gettext("compared the scores without the penalty")


def _build_search_steps(sizes: Sizes, setting: Setting) -> list[Step]:
    check_model(sizes)
    options, labels = setting.options, get_labels(setting, sizes["n"])
    model = "table" if "table" in sizes else "P"
    contexts = read_contexts(sizes, setting, labels)
    longest = max(map(len, contexts), default=0) + 1 if contexts else sizes.sizes.get("t")
    times = options["length"] or longest
    if times is None:
        raise UserError("given.length is missing: how many tokens the search goes on")
    if model == "table" and not contexts and times > sizes["t"]:
        raise UserError(f"length = {times}, but {sizes.reasons['t']}: one per token")
    in_logs, alpha = options["scores"] == "log", options["length_penalty"]
    if alpha and not in_logs:
        raise UserError('length_penalty divides log probabilities: give scores = "log"')
    stop = None
    if options["stop"]:
        (stop,) = find_tokens("stop", (options["stop"],), labels)
    steps, count = [], 1
    for time in range(1, times + 1):
        extension = Extension(time, model, stop, in_logs, contexts)
        count = min(options["beams"], count * sizes["n"])
        key = f"scores.{time}"
        steps += [
            _time_step("scores", time, extension, column_axis="tokens"),
            _time_step("beams", time, BeamTokens(key, time, count), labels=labels),
            _time_step("totals", time, BeamTotals(key, time, count)),
        ]
    last, totals = f"beams.{times}", f"totals.{times}"
    if alpha:
        penalized = Penalized(totals, last, alpha, options["penalty"], stop)
        steps.append(Step("penalized", penalized, row_axis=""))
        totals = "penalized"
    return [*steps, Step("best", BestSequence(totals, last), row_axis="", labels=labels)]


def _time_step(
    name: str, time: int, op: Op, *, column_axis: str = "", labels: tuple[str, ...] = ()
) -> Step:
    return Step(name, op, part_index=time, row_axis="", column_axis=column_axis, labels=labels)


def _parse_stop(where: str, value: object) -> str:
    if isinstance(value, bool) or not isinstance(value, str | int):
        raise UserError(f"{where} must be a token: its word or its number")
    return str(value)


BEAM_SEARCH = Kind(
    name="beam_search",
    matrices=MODEL_MATRICES,
    required=(),
    settings=(),
    build=_build_search_steps,
    part_name="t",
    options={
        "beams": replace(make_count(1, maximum=MAX_BEAMS), is_given=True),
        "length": replace(make_count(None, maximum=MAX_TIMES), is_given=True),
        "stop": Option("", _parse_stop, is_given=True),
        "scores": make_choice("log", "probability"),
        "length_penalty": replace(make_number(0.0, 0.0, 10.0), is_given=True),
        "penalty": make_choice("gnmt", "power"),
        "contexts": CONTEXTS,
    },
    label_size=label_contexts,
    rewrite_givens=rewrite_model,
    check_givens=lambda given: check_distributions(given, "P", "start", "table"),
)
