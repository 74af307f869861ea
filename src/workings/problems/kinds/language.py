"""Problems at both ends of a language model: embeddings with positions, and the next token."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from workings.errors import UserError
from workings.languages import gettext
from workings.problems.intervals import IntervalMatrix
from workings.problems.kinds.base import Kind, Setting, Sizes, Step
from workings.problems.kinds.layers import Angles, PositionEncoding
from workings.problems.kinds.loss import Prediction
from workings.problems.kinds.softmax import EXPONENTIALS_OPTION, build_weight_steps
from workings.problems.labels import read_label
from workings.problems.notation import Notation
from workings.problems.ops import (
    Copy,
    Env,
    Linear,
    MistakeOption,
    Normalization,
    Op,
    Scaling,
    Sum,
    SumOfProducts,
    format_symbol,
)
from workings.problems.options import make_choice, make_flag, make_number, make_words

if TYPE_CHECKING:
    from workings.problems.problem import Problem

_SMALLEST_TEMPERATURE = 1e-6


# -- embedding -------------------------------------------------------------------------------------


@dataclass(frozen=True)
class EmbeddingLookup(Op):
    """The rows of a table that the ids name, counted from 1."""

    table: str
    ids: str
    # The remaining fields describe mistakes.
    shift: int = 0
    transposed: bool = False  # columns of the table, not rows

    def compute(self, env: Env) -> IntervalMatrix:
        table = env[self.table].T if self.transposed else env[self.table]
        rows = env[self.ids].mid[0].astype(int) - 1 + self.shift
        if rows.min() < 0 or rows.max() >= table.shape[0]:
            raise ValueError("an id is not in the table")  # only a mistake can lead to it
        return table.rearrange(lambda a: a[rows])

    def formula(self, n: Notation, column_vectors: bool) -> str:  # noqa: ARG002
        return n.apply("rows", format_symbol(n, self.table), format_symbol(n, self.ids))

    def sources(self) -> tuple[str, ...]:
        return (self.table, self.ids)

    def list_mistakes(self, problem: "Problem", step: Step) -> Iterator[MistakeOption]:  # noqa: ARG002
        for shift, start in ((1, "0"), (-1, "2")):
            shifted = replace(self, shift=shift)
            yield (
                "ids-off-by-one",
                shifted,
                gettext("counted the rows of {table} from {start}", table=self.table, start=start),
            )
        columns = replace(self, transposed=True)
        yield (
            "columns-for-rows",
            columns,
            gettext("took columns of {table}, not rows", table=self.table),
        )


@dataclass(frozen=True)
class EmbeddingScale(Scaling):
    """The embeddings times √d."""

    def list_mistakes(self, problem: "Problem", step: Step) -> Iterator[MistakeOption]:  # noqa: ARG002
        yield "embedding-not-scaled", Copy(self.x), gettext("did not multiply by √d")
        by_width = replace(self, divisor=float(self.radicand or 1), radicand=None)
        yield "scaled-by-d", by_width, gettext("multiplied by d, not by √d")
        divided = replace(self, multiplies=False)
        yield "divided-by-root", divided, gettext("divided by √d instead of multiplying")


@dataclass(frozen=True)
class PositionSum(Sum):
    """Embeddings plus positions."""

    def list_mistakes(self, problem: "Problem", step: Step) -> Iterator[MistakeOption]:  # noqa: ARG002
        yield "positions-forgotten", Copy(self.a), gettext("did not add the positions")
        product = SumOfProducts(((self.a, self.b),))
        yield (
            "positions-multiplied",
            product,
            gettext("multiplied by the positions instead of adding them"),
        )
        yield "embedding-forgotten", Copy(self.b), gettext("took the positions alone")


def _build_embedding_steps(sizes: Sizes, setting: Setting) -> list[Step]:
    count, width, options = sizes["n"], sizes["d"], setting.options
    steps = [Step("embedded", EmbeddingLookup("E", "ids"))]
    result = "embedded"
    if options["scale_embeddings"]:
        steps.append(Step("scaled", EmbeddingScale(result, width**0.5, width, multiplies=True)))
        result = "scaled"
    if options["positions"] == "sinusoids":
        if "P" in sizes:
            raise UserError('given has P, but positions = "sinusoids": give one of them')
        steps.append(Step("angles", Angles(count, width, options["base"], per_pair=False)))
        steps.append(Step("positions", PositionEncoding(width, per_pair=False)))
        steps.append(Step("output", PositionSum(result, "positions")))
    elif "P" in sizes:
        steps.append(Step("output", PositionSum(result, "P")))
    else:
        steps.append(Step("output", Copy(result), is_shown=False))
    return steps


def _check_ids(given: Mapping[str, IntervalMatrix]) -> None:
    if "ids" not in given or "E" not in given:
        return
    for number in given["ids"].mid[0]:
        if number != int(number) or not 1 <= number <= given["E"].shape[0]:
            raise UserError(
                f"given.ids: {number:g} is no row of E: expected a whole number"
                f" from 1 to {given['E'].shape[0]}"
            )


def _rewrite_words(given: dict[str, Any], table: Mapping[str, Any]) -> dict[str, Any]:
    """Return the givens with the words of a text as their numbers in the vocabulary."""
    words, ids = given.get("vocabulary", table.get("vocabulary")), given.get("ids")
    text = ids.split() if isinstance(ids, str) else ids
    if words is None or not isinstance(text, list) or not any(isinstance(w, str) for w in text):
        return given
    labels = _VOCABULARY.parse("vocabulary", words)
    numbers = [read_label(word, "given.ids", labels) for word in text]
    if any(number is None for number in numbers):
        raise UserError("given.ids: '?' is not a word")
    return {**given, "ids": [int(number.value) for number in numbers if number is not None]}


def _label_vocabulary(size: str, sizes: Sizes, setting: Setting) -> tuple[str, ...]:
    """Return the words of the embedding's rows."""
    words: tuple[str, ...] = setting.options["vocabulary"]
    return words if size == "v" and len(words) == sizes.sizes.get("v") else ()


_VOCABULARY = replace(make_words(is_required=False), is_given=False)
EMBEDDING = Kind(
    name="embedding",
    matrices={"ids": ("1", "n"), "E": ("v", "d"), "P": ("n", "d")},
    required=("ids", "E"),
    settings=(),
    options={
        "vocabulary": _VOCABULARY,
        "positions": make_choice("none", "sinusoids"),
        "scale_embeddings": make_flag(),
        "base": make_number(10_000.0, 1.0),
    },
    build=_build_embedding_steps,
    check_givens=_check_ids,
    label_size=_label_vocabulary,
    rewrite_givens=_rewrite_words,
)


# -- the next token --------------------------------------------------------------------------------


@dataclass(frozen=True)
class Tempering(Scaling):
    """Logits divided by the temperature."""

    def list_mistakes(self, problem: "Problem", step: Step) -> Iterator[MistakeOption]:  # noqa: ARG002
        yield "temperature-forgotten", Copy(self.x), gettext("did not divide by the temperature")
        multiplied = replace(self, multiplies=True)
        yield "multiplied-by-temperature", multiplied, gettext("multiplied by the temperature")


def _build_softmax_steps(sizes: Sizes, setting: Setting) -> list[Step]:
    """Return the steps from the logits to the next token."""
    temperature, words = setting.options["temperature"], setting.options["vocabulary"]
    if words and len(words) != sizes["v"]:
        raise UserError(f"vocabulary has {len(words)} words, but {sizes.reasons['v']}")
    is_tempered = temperature != 1.0
    scaling: Op = Tempering("logits", temperature) if is_tempered else Copy("logits")
    late = Normalization("logits", post_divisor=temperature)
    weights = Step(
        "probabilities",
        Normalization("scaled"),
        column_axis=words or "",
        mistakes=(
            (
                (
                    "temperature-after-softmax",
                    late,
                    gettext("divided the probabilities by the temperature"),
                ),
            )
            if is_tempered
            else ()
        ),
    )
    choice = Prediction("probabilities", first=1)
    smallest = replace(choice, takes_smallest=True)
    from_0 = replace(choice, first=0)
    return [
        Step("scaled", scaling, column_axis=words or "", is_shown=is_tempered),
        *build_weight_steps(sizes, setting, weights, "scaled").values(),
        Step(
            "token",
            choice,
            labels=words,
            mistakes=(
                ("smallest-for-largest", smallest, gettext("took the smallest probability")),
                ("ids-off-by-one", from_0, gettext("counted the tokens from 0")),
            ),
        ),
    ]


@dataclass(frozen=True)
class TiedProjection(Linear):
    """`H Eᵀ + b`: a score for each row of the embedding table."""

    def list_mistakes(self, problem: "Problem", step: Step) -> Iterator[MistakeOption]:  # noqa: ARG002
        ((x, table),) = self.pairs
        plain = replace(self, pairs=((x, table.removesuffix("ᵀ")),))
        yield "embedding-not-transposed", plain, gettext("computed h E, not h Eᵀ")


def _build_head_steps(sizes: Sizes, setting: Setting) -> list[Step]:
    words = setting.options["vocabulary"]
    logits = TiedProjection((("H", "Eᵀ"),), bias="b" if "b" in sizes else None)
    return [
        Step("logits", logits, column_axis=words or ""),
        *_build_softmax_steps(sizes, setting),
    ]


_SOFTMAX_OPTIONS = {
    "temperature": make_number(1.0, _SMALLEST_TEMPERATURE),
    "vocabulary": make_words(is_required=False),
    "exponentials": EXPONENTIALS_OPTION,
}
SOFTMAX = Kind(
    name="softmax",
    matrices={"logits": ("n", "v")},
    required=("logits",),
    settings=(),
    options=_SOFTMAX_OPTIONS,
    build=_build_softmax_steps,
)
LM_HEAD = Kind(
    name="lm_head",
    matrices={"H": ("n", "d"), "E": ("v", "d"), "b": ("1", "v")},
    required=("H", "E"),
    settings=(),
    options=_SOFTMAX_OPTIONS,
    build=_build_head_steps,
)
