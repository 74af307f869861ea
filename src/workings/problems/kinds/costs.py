"""Problems on cost: multiply-adds and memory of attention and recurrence, key/value caches.

Every given is a single number. Multiply-adds are those of one layer and one sequence.
"""

from collections.abc import Mapping

from workings.errors import UserError
from workings.languages import gettext
from workings.problems.counts import MEBIBYTE, Alternative, Count, Factor, Product, Products, Ratio
from workings.problems.intervals import IntervalMatrix
from workings.problems.kinds.base import Kind, Setting, Sizes, Step

Numbers = Mapping[str, IntervalMatrix]
_MAX_NUMBER = 10**9


def _key(name: str) -> Factor:
    return Factor(key=name)


def _number(value: int) -> Factor:
    return Factor(value=value)


def _step(name: str, products: Products, *alternatives: Alternative, divisor: int = 1) -> Step:
    return Step(name, Count(products, divisor, alternatives), row_axis="")


def check_whole_numbers(given: Numbers) -> None:
    """Raise a UserError if a number is not whole and positive."""
    for name, matrix in given.items():
        value = float(matrix.mid[0, 0])
        if value != int(value) or not 1 <= value <= _MAX_NUMBER:
            raise UserError(
                f"given.{name} = {value:g}: it must be a whole number from 1 to {_MAX_NUMBER:,}"
            )


def _make_ones(sizes: Sizes, *names: str) -> dict[str, IntervalMatrix]:
    """Return a 1 for each number that is not given."""
    return {name: IntervalMatrix.exact(1.0) for name in names if name not in sizes}


def _build_cost_steps(sizes: Sizes, setting: Setting) -> list[Step]:  # noqa: ARG001
    n, d, heads, batch = (_key(name) for name in ("n", "d", "heads", "batch"))
    kernel, size = _key("kernel"), _key("bytes")
    pairs: Product = (n, n, d)
    score_mistakes: tuple[Alternative, ...] = (
        ("length-not-squared", ((n, d),), gettext("counted one key per query")),
        ("width-for-length", ((n, d, d),), gettext("squared d, not n")),
        (
            "heads-counted-twice",
            ((heads, n, n, d),),
            gettext("multiplied by the heads, which share d"),
        ),
    )
    four, two = _number(4), _number(2)
    steps = [
        _step("scores", (pairs,), *score_mistakes),
        _step("mixed", (pairs,), *score_mistakes),
        _step(
            "projections",
            ((four, n, d, d),),
            ("output-projection-forgotten", ((_number(3), n, d, d),), gettext("left out W_O")),
            ("width-not-squared", ((four, n, d),), gettext("did not square d")),
            ("positions-not-counted", ((four, d, d),), gettext("counted one token only")),
            ("heads-counted-twice", ((heads, four, n, d, d),), gettext("multiplied by the heads")),
        ),
        _step("attention", ((_key("scores"),), (_key("mixed"),), (_key("projections"),))),
        _step(
            "recurrence",
            ((two, n, d, d),),
            (
                "input-product-forgotten",
                ((n, d, d),),
                gettext("counted h W_hh only, without x W_xh"),
            ),
            ("length-squared", ((two, n, n, d),), gettext("squared n, not d")),
            ("positions-not-counted", ((two, d, d),), gettext("counted one time step only")),
        ),
    ]
    if "kernel" in sizes:
        steps.append(
            _step(
                "convolution",
                ((kernel, n, d, d),),
                ("kernel-not-counted", ((n, d, d),), gettext("left out the kernel")),
                ("width-not-squared", ((kernel, n, d),), gettext("did not square d")),
            )
        )
    weights: Product = (batch, heads, n, n)
    states: Product = (batch, n, d)
    return [
        *steps,
        Step("ratio", Ratio("attention", "recurrence"), row_axis=""),
        _step(
            "weights",
            (weights,),
            ("heads-forgotten", ((batch, n, n),), gettext("counted one head only")),
            ("batch-forgotten", ((heads, n, n),), gettext("counted one sequence only")),
            (
                "width-counted",
                ((batch, heads, n, n, d),),
                gettext("multiplied by d: a weight is one number"),
            ),
            ("length-not-squared", ((batch, heads, n),), gettext("counted one key per query")),
        ),
        _step(
            "states",
            (states,),
            ("batch-forgotten", ((n, d),), gettext("counted one sequence only")),
            ("width-not-counted", ((batch, n),), gettext("counted one number per state")),
            ("heads-counted-twice", ((batch, heads, n, d),), gettext("multiplied by the heads")),
        ),
        *(
            _step(
                f"{name}_mb",
                ((_key(name), size),),
                (
                    "bytes-forgotten",
                    ((_key(name),),),
                    gettext("did not multiply by the bytes of a number"),
                ),
                ("bits-for-bytes", ((_key(name), size, _number(8)),), gettext("counted bits")),
                divisor=MEBIBYTE,
            )
            for name in ("weights", "states")
        ),
    ]


def _check_cache_numbers(given: Numbers) -> None:
    check_whole_numbers(given)
    d, heads = (int(given[name].mid[0, 0]) for name in ("d", "heads"))
    kv_heads = int(given["kv_heads"].mid[0, 0]) if "kv_heads" in given else heads
    if d % heads:
        raise UserError(f"given.heads = {heads}: it must divide d = {d}")
    if heads % kv_heads:
        raise UserError(f"given.kv_heads = {kv_heads}: it must divide heads = {heads}")


def _build_cache_steps(sizes: Sizes, setting: Setting) -> list[Step]:  # noqa: ARG001
    n, layers, batch, size = (_key(name) for name in ("n", "layers", "batch", "bytes"))
    shared = "kv_heads" if "kv_heads" in sizes else "heads"
    heads, width, two = _key(shared), _key("head_width"), _number(2)
    grouped: tuple[Alternative, ...] = ()
    if shared == "kv_heads":
        every = ((two, layers, _key("heads"), width),)
        grouped = (
            ("query-heads-cached", every, gettext("counted every head, though keys are shared")),
        )
    per_token = _key("per_token")
    return [
        Step("head_width", Ratio("d", "heads"), row_axis=""),
        _step(
            "per_token",
            ((two, layers, heads, width),),
            ("keys-only", ((layers, heads, width),), gettext("counted keys or values, not both")),
            (
                "heads-counted-twice",
                ((two, layers, heads, _key("d")),),
                gettext("gave every head all of d"),
            ),
            ("layers-forgotten", ((two, heads, width),), gettext("counted one layer only")),
            ("heads-forgotten", ((two, layers, width),), gettext("counted one head only")),
            *grouped,
        ),
        _step(
            "numbers",
            ((per_token, n, batch),),
            ("batch-forgotten", ((per_token, n),), gettext("counted one sequence only")),
            ("positions-not-counted", ((per_token, batch),), gettext("counted one token only")),
            (
                "length-squared",
                ((per_token, n, n, batch),),
                gettext("squared n: the cache is linear in it"),
            ),
        ),
        _step(
            "megabytes",
            ((_key("numbers"), size),),
            (
                "bytes-forgotten",
                ((_key("numbers"),),),
                gettext("did not multiply by the bytes of a number"),
            ),
            ("bits-for-bytes", ((_key("numbers"), size, _number(8)),), gettext("counted bits")),
            divisor=MEBIBYTE,
        ),
    ]


def _list_numbers(*names: str) -> dict[str, tuple[str, str]]:
    return dict.fromkeys(names, ("1", "1"))


COST = Kind(
    name="cost",
    matrices=_list_numbers("n", "d", "heads", "kernel", "batch", "bytes"),
    required=("n", "d"),
    settings=(),
    build=_build_cost_steps,
    make_constants=lambda sizes: {
        **_make_ones(sizes, "heads", "batch"),
        **({} if "bytes" in sizes else {"bytes": IntervalMatrix.exact(4.0)}),
    },
    check_givens=check_whole_numbers,
)
CACHE = Kind(
    name="kv_cache",
    matrices=_list_numbers("n", "d", "heads", "kv_heads", "layers", "batch", "bytes"),
    required=("n", "d", "heads", "layers"),
    settings=(),
    build=_build_cache_steps,
    make_constants=lambda sizes: {
        **_make_ones(sizes, "batch"),
        **({} if "bytes" in sizes else {"bytes": IntervalMatrix.exact(2.0)}),
    },
    check_givens=_check_cache_numbers,
)
