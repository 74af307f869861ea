"""Problems on the layers of a model: output sizes, parameters, multiply-adds and memory.

A layer is written like `conv1d out=128 kernel=7 stride=3`. Multiply-adds are the products with
weights, and an embedding counts once, as in the layer table of `workings summary`.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from workings.errors import UserError, did_you_mean, safe_repr
from workings.languages import gettext
from workings.problems.counts import MEBIBYTE, Alternative, Count, Factor, Products, WindowCount
from workings.problems.kinds.base import Kind, Setting, Sizes, Step
from workings.problems.kinds.convolution import count_windows
from workings.problems.ops import Copy, Op
from workings.problems.options import Option, make_count

MAX_LAYERS = 50
_MAX_VALUE = 10**7  # of a number of a layer
_BYTES = Factor(value=4)


@dataclass(frozen=True)
class Layer:
    """A layer: its type and its numbers by name."""

    type: str
    numbers: Mapping[str, int]
    text: str

    def __str__(self) -> str:
        return self.text

    def __getitem__(self, name: str) -> int:
        return self.numbers[name]

    def factor(self, name: str) -> Factor:
        """Return a number of the layer as a factor with its name."""
        return Factor(name, value=self.numbers[name])


@dataclass(frozen=True)
class LayerType:
    """The numbers that a type of layer has (None: required), and what it counts.

    The functions get the layer and the places of its input and output sizes.
    """

    numbers: Mapping[str, int | None]
    parameters: Callable[["Layer", "Places"], Count] | None = None
    mult_adds: Callable[["Layer", "Places"], Count] | None = None


@dataclass(frozen=True)
class Places:
    """The sizes before and after a layer, as factors."""

    number: int

    @property
    def length(self) -> Factor:
        """Positions of the output."""
        return Factor(key=f"length.{self.number}")

    @property
    def input_length(self) -> Factor:
        """Positions of the input."""
        return Factor(key=f"length.{self.number - 1}")

    @property
    def input_width(self) -> Factor:
        """Width of the input."""
        return Factor(key=f"width.{self.number - 1}")

    @property
    def output_width(self) -> Factor:
        """Width of the output."""
        return Factor(key=f"width.{self.number}")


def _count(products: Products, *alternatives: Alternative) -> Count:
    return Count(products, alternatives=alternatives)


def _with_bias(layer: Layer, weights: Products, bias: Products) -> Products:
    return weights + bias if layer["bias"] else weights


def _list_bias_mistakes(
    layer: Layer, weights: Products, per_input: Products
) -> tuple[Alternative, ...]:
    if not layer["bias"]:
        return ()
    return (
        ("bias-forgotten", weights, gettext("left out the biases")),
        (
            "bias-for-each-input",
            weights + per_input,
            gettext("counted a bias per input, not per output"),
        ),
    )


def _count_embedding(layer: Layer, places: Places) -> Count:
    words, width = layer.factor("vocabulary"), layer.factor("width")
    return _count(
        ((words, width),),
        (
            "bias-added",
            ((words, width), (width,)),
            gettext("added biases, which an embedding lacks"),
        ),
        (
            "length-for-vocabulary",
            ((places.length, width),),
            gettext("counted positions, not words"),
        ),
    )


def _count_linear(layer: Layer, places: Places) -> Count:
    inputs, outputs = places.input_width, layer.factor("out")
    weights: Products = ((inputs, outputs),)
    return _count(
        _with_bias(layer, weights, ((outputs,),)),
        *_list_bias_mistakes(layer, weights, ((inputs,),)),
        (
            "positions-counted",
            ((places.length, inputs, outputs),),
            gettext("multiplied by the positions"),
        ),
    )


def _count_linear_products(layer: Layer, places: Places) -> Count:
    inputs, outputs = places.input_width, layer.factor("out")
    return _count(
        ((places.length, inputs, outputs),),
        ("positions-not-counted", ((inputs, outputs),), gettext("counted one position only")),
        (
            "bias-counted",
            ((places.length, inputs, outputs), (places.length, outputs)),
            gettext("counted the biases, which are only added"),
        ),
    )


def _count_conv1d(layer: Layer, places: Places) -> Count:
    inputs, outputs, kernel = places.input_width, layer.factor("out"), layer.factor("kernel")
    bias: Products = ((outputs,),) if layer["bias"] else ()
    weights: Products = ((outputs, inputs, kernel),)
    return _count(
        weights + bias,
        *_list_bias_mistakes(layer, weights, ((inputs,),)),
        ("kernel-not-counted", ((outputs, inputs), *bias), gettext("left out the kernel")),
        (
            "channels-not-counted",
            ((outputs, kernel), *bias),
            gettext("left out the input channels"),
        ),
        (
            "positions-counted",
            ((places.length, *weights[0]),),
            gettext("multiplied by the positions"),
        ),
    )


def _count_conv1d_products(layer: Layer, places: Places) -> Count:
    inputs, outputs, kernel = places.input_width, layer.factor("out"), layer.factor("kernel")
    return _count(
        ((places.length, outputs, inputs, kernel),),
        ("kernel-not-counted", ((places.length, outputs, inputs),), gettext("left out the kernel")),
        (
            "channels-not-counted",
            ((places.length, outputs, kernel),),
            gettext("left out the channels"),
        ),
        ("positions-not-counted", ((outputs, inputs, kernel),), gettext("counted one window only")),
        (
            "input-length-used",
            ((places.input_length, outputs, inputs, kernel),),
            gettext("counted a window per input position"),
        ),
    )


_GATES = {"rnn": 1, "gru": 3, "lstm": 4}


def _list_recurrent_factors(layer: Layer) -> tuple[Factor, ...]:
    """Return the gates and directions of a layer, without those of which there is one."""
    gates = Factor("gates", value=_GATES[layer.type])
    return tuple(f for f in (layer.factor("directions"), gates) if f.value > 1)


def _count_recurrent(layer: Layer, places: Places) -> Count:
    inputs, hidden, two = places.input_width, layer.factor("hidden"), Factor(value=2)

    def multiply(times: tuple[Factor, ...], biases: tuple[Factor, ...] = (two,)) -> Products:
        bias: Products = ((*times, *biases, hidden),) if layer["bias"] else ()
        return ((*times, inputs, hidden), (*times, hidden, hidden), *bias)

    times = _list_recurrent_factors(layer)
    mistakes: list[Alternative] = [
        (
            "recurrence-forgotten",
            ((*times, inputs, hidden), *multiply(times)[2:]),
            gettext("left out the weights of the previous state"),
        )
    ]
    if layer["bias"]:
        mistakes += [
            ("bias-forgotten", multiply(times)[:2], gettext("left out the biases")),
            (
                "bias-counted-once",
                multiply(times, ()),
                gettext("counted one bias, not b_ih and b_hh"),
            ),
        ]
    for factor in times:
        others = tuple(f for f in times if f != factor)
        mistakes.append(
            (
                f"{factor.name}-not-counted",
                multiply(others),
                gettext("left out {name}", name=factor.name),
            )
        )
    return _count(multiply(times), *mistakes)


def _count_recurrent_products(layer: Layer, places: Places) -> Count:
    inputs, hidden, times = places.input_width, layer.factor("hidden"), places.length
    factors = _list_recurrent_factors(layer)

    def multiply(*others: Factor) -> Products:
        return ((*others, inputs, hidden), (*others, hidden, hidden))

    mistakes: list[Alternative] = [
        ("positions-not-counted", multiply(*factors), gettext("counted one time step only")),
        ("recurrence-forgotten", multiply(times, *factors)[:1], gettext("left out h W_hh")),
    ]
    for factor in factors:
        others = [f for f in factors if f != factor]
        wrong = multiply(times, *others)
        mistakes.append(
            (f"{factor.name}-not-counted", wrong, gettext("left out {name}", name=factor.name))
        )
    return _count(multiply(times, *factors), *mistakes)


def _count_attention(layer: Layer, places: Places) -> Count:
    d, heads = places.input_width, layer.factor("heads")

    def multiply(matrices: int, *others: Factor) -> Products:
        count = Factor(value=matrices)
        bias: Products = ((*others, count, d),) if layer["bias"] else ()
        return ((*others, count, d, d), *bias)

    right = multiply(4)
    mistakes: list[Alternative] = [
        (
            "heads-counted-twice",
            multiply(4, heads),
            gettext("multiplied by the heads, which share d"),
        ),
        ("output-projection-forgotten", multiply(3), gettext("left out W_O")),
        (
            "length-squared",
            ((places.length, places.length, d),),
            gettext("counted scores, not weights"),
        ),
    ]
    if layer["bias"]:
        mistakes.append(("bias-forgotten", right[:1], gettext("left out the biases")))
    return _count(right, *mistakes)


def _count_attention_products(layer: Layer, places: Places) -> Count:
    d, n, heads = places.input_width, places.length, layer.factor("heads")
    four = Factor(value=4)
    return _count(
        ((four, n, d, d),),
        ("heads-counted-twice", ((heads, four, n, d, d),), gettext("multiplied by the heads")),
        ("output-projection-forgotten", ((Factor(value=3), n, d, d),), gettext("left out W_O")),
        ("positions-not-counted", ((four, d, d),), gettext("counted one position only")),
    )


def _count_feed_forward(layer: Layer, places: Places) -> Count:
    d, hidden = places.input_width, layer.factor("hidden")
    weights: Products = ((d, hidden), (hidden, d))
    right = _with_bias(layer, weights, ((hidden,), (d,)))
    mistakes: list[Alternative] = [
        (
            "second-layer-forgotten",
            ((d, hidden), *right[2:3]),
            gettext("counted the first layer only"),
        )
    ]
    if layer["bias"]:
        mistakes += [
            ("bias-forgotten", weights, gettext("left out the biases")),
            (
                "bias-exchanged",
                (*weights, (d,)),
                gettext("left out the biases of the hidden layer"),
            ),
        ]
    return _count(right, *mistakes)


def _count_feed_forward_products(layer: Layer, places: Places) -> Count:
    d, n, hidden = places.input_width, places.length, layer.factor("hidden")
    two = Factor(value=2)
    return _count(
        ((two, n, d, hidden),),
        ("second-layer-forgotten", ((n, d, hidden),), gettext("counted the first layer only")),
        ("positions-not-counted", ((two, d, hidden),), gettext("counted one position only")),
    )


def _count_norm(layer: Layer, places: Places) -> Count:  # noqa: ARG001
    d = places.input_width
    return _count(
        ((Factor(value=2), d),),
        ("beta-forgotten", ((d,),), gettext("counted γ only")),
        (
            "positions-counted",
            ((Factor(value=2), places.length, d),),
            gettext("counted every position"),
        ),
    )


_BIAS: Mapping[str, int | None] = {"bias": 1}
_RECURRENT = LayerType(
    {"hidden": None, "directions": 1, **_BIAS}, _count_recurrent, _count_recurrent_products
)
_POOL = LayerType({"kernel": None, "stride": 0, "padding": 0})
LAYER_TYPES: dict[str, LayerType] = {
    "embedding": LayerType({"vocabulary": None, "width": None}, _count_embedding, _count_embedding),
    "linear": LayerType({"out": None, **_BIAS}, _count_linear, _count_linear_products),
    "conv1d": LayerType(
        {"out": None, "kernel": None, "stride": 1, "padding": 0, **_BIAS},
        _count_conv1d,
        _count_conv1d_products,
    ),
    "pool": _POOL,
    "global_pool": LayerType({}),
    "flatten": LayerType({}),
    "last": LayerType({"width": 0}),
    **dict.fromkeys(_GATES, _RECURRENT),
    "attention": LayerType({"heads": 1, **_BIAS}, _count_attention, _count_attention_products),
    "feed_forward": LayerType(
        {"hidden": None, **_BIAS}, _count_feed_forward, _count_feed_forward_products
    ),
    "layer_norm": LayerType({}, _count_norm),
    "batch_norm": LayerType({}, _count_norm),
}
_MAY_BE_ZERO = ("padding", "bias", "stride", "width")


def _parse_layers(where: str, value: Any) -> tuple[Layer, ...]:
    if not isinstance(value, list | tuple) or not all(isinstance(text, str) for text in value):
        raise UserError(f'{where} must be a list of texts: ["linear out=2"]')
    if not 1 <= len(value) <= MAX_LAYERS:
        raise UserError(f"{where} has {len(value)} layers: it must have from 1 to {MAX_LAYERS}")
    return tuple(_parse_layer(f"{where}, layer {k}", text) for k, text in enumerate(value, 1))


def _parse_layer(where: str, text: str) -> Layer:
    name, *fields = text.split() or [""]
    if name not in LAYER_TYPES:
        hint = did_you_mean(name, LAYER_TYPES)
        raise UserError(f"{where}: {safe_repr(name, 30)} is no layer: {hint}")
    known = LAYER_TYPES[name].numbers
    numbers: dict[str, int] = {}
    for item in fields:
        key, _, digits = item.partition("=")
        if key not in known:
            expected = did_you_mean(key, known) if known else f"{name} has no numbers"
            raise UserError(f"{where}: {safe_repr(key, 30)}: no such number: {expected}")
        numbers[key] = _parse_layer_number(f"{where}: {key}", digits, key in _MAY_BE_ZERO)
    for key, default in known.items():
        if default is None and key not in numbers:
            raise UserError(f"{where}: {key} is missing: write {name} {key}=…")
        numbers.setdefault(key, default or 0)
    if name == "pool":
        numbers["stride"] = numbers["stride"] or numbers["kernel"]
    if numbers.get("bias", 0) > 1 or numbers.get("stride") == 0 or numbers.get("directions", 1) > 2:
        raise UserError(f"{where}: bias is 0 or 1, stride at least 1, directions 1 or 2")
    return Layer(name, numbers, " ".join(text.split()))


def _parse_layer_number(where: str, digits: str, may_be_zero: bool) -> int:
    least = 0 if may_be_zero else 1
    is_whole = digits.isascii() and digits.isdecimal() and len(digits) <= len(str(_MAX_VALUE))
    if not is_whole or not least <= int(digits) <= _MAX_VALUE:
        raise UserError(
            f"{where} = {safe_repr(digits, 30)}: it must be a whole number"
            f" from {least} to {_MAX_VALUE:,}"
        )
    return int(digits)


@dataclass
class _Table:
    """Builds the steps of the table, and follows the sizes to reject layers that do not fit."""

    length: int
    width: int
    steps: list[Step] = field(default_factory=list)
    outputs: list[Places] = field(default_factory=list)  # of the layers with parameters

    def __post_init__(self) -> None:
        for name, value in (("length", self.length), ("width", self.width)):
            number = Count(((Factor(name, value=value),),))
            self.steps.append(
                Step(name, number, part_index=0, row_axis="", is_shown=False, is_claimable=False)
            )

    def add(self, number: int, layer: Layer) -> None:
        """Add the steps of a layer."""
        places, length = Places(number), self.length
        if layer.type != "embedding" and not self.width:
            raise UserError("given.width is missing: the first layer is not an embedding")
        try:
            self._add_step("length", number, self._follow_length(layer, places))
            self._add_step("width", number, self._follow_width(layer, places, length))
        except UserError as error:
            raise UserError(f"given.layers, layer {number}: {error}") from None
        kind = LAYER_TYPES[layer.type]
        for name, count in (("parameters", kind.parameters), ("mult_adds", kind.mult_adds)):
            if count is not None:
                self._add_step(name, number, count(layer, places))
        if kind.parameters is not None:
            self.outputs.append(places)

    def _add_step(self, name: str, number: int, op: Op) -> None:
        is_shown = not isinstance(op, Copy)
        self.steps.append(Step(name, op, part_index=number, row_axis="", is_shown=is_shown))

    def _follow_length(self, layer: Layer, places: Places) -> Op:
        """Return the operation of the number of positions after a layer."""
        key = places.input_length.key
        assert key is not None
        if layer.type in ("conv1d", "pool"):
            kernel, stride, padding = (layer[name] for name in ("kernel", "stride", "padding"))
            before, self.length = self.length, count_windows(self.length, kernel, stride, padding)
            if self.length == 0:
                raise UserError(f"a kernel of {kernel} is longer than {before} positions")
            return WindowCount(key, kernel, stride, padding)
        if layer.type in ("global_pool", "flatten", "last"):
            self.length = 1
            return Count(((Factor(value=1),),))
        return Copy(key)

    def _follow_width(self, layer: Layer, places: Places, length: int) -> Op:
        """Return the operation of the width after a layer; `length`: positions before it."""
        key, before = places.input_width.key, self.width
        assert key is not None
        if layer.type == "attention" and before % layer["heads"]:
            raise UserError(f"heads = {layer['heads']} does not divide {before}")
        if layer.type == "flatten":
            self.width = length * before
            forgotten = (
                "length-not-counted",
                ((places.input_width,),),
                gettext("left out the positions"),
            )
            return _count(((places.input_length, places.input_width),), forgotten)
        if layer.type in _GATES:
            self.width = layer["directions"] * layer["hidden"]
            hidden = layer.factor("hidden")
            if layer["directions"] == 1:
                return _count(((hidden,),))
            one = ("directions-not-counted", ((hidden,),), gettext("counted one direction only"))
            return _count(((layer.factor("directions"), hidden),), one)
        for name in ("out", "width"):
            if layer.numbers.get(name):
                self.width = layer[name]
                if layer.type == "last" and self.width > before:
                    raise UserError(f"width = {self.width}, but the input has {before}")
                return _count(((layer.factor(name),),))
        return Copy(key)


def _build_table_steps(sizes: Sizes, setting: Setting) -> list[Step]:  # noqa: ARG001
    options = setting.options
    table = _Table(options["length"], options["width"] or 0)
    for number, layer in enumerate(options["layers"], 1):
        table.add(number, layer)
    return [*table.steps, *(_build_totals(table, options["batch"]) if table.outputs else [])]


def _build_totals(table: _Table, batch: int | None) -> list[Step]:
    """Return the sums over the layers and, for a batch, the memory they need."""

    def list_terms(name: str) -> Products:
        return tuple((Factor(key=step.key),) for step in table.steps if step.name == name)

    outputs = tuple((places.length, places.output_width) for places in table.outputs)
    counts = {
        "parameters": _count(list_terms("parameters")),
        "mult_adds": _count(list_terms("mult_adds") or ((Factor(value=0),),)),
        "activations": _count(outputs),
    }
    counts |= {} if batch is None else _count_memory(batch)
    return [Step(name, count, row_axis="") for name, count in counts.items()]


def _count_memory(batch: int) -> dict[str, Count]:
    """Return the mebibytes of the input of a batch, of activations and of parameters."""
    two, parts = Factor(value=2), ("input_mb", "activations_mb", "parameters_mb")
    total, activations = Factor(key="parameters"), Factor(key="activations")
    inputs = (Factor("batch", value=batch), Factor(key="length.0"), _BYTES)
    bytes_forgotten = gettext("did not multiply by the 4 bytes of a number")
    return {
        "input_mb": Count(
            (inputs,),
            MEBIBYTE,
            (
                ("bytes-forgotten", (inputs[:2],), bytes_forgotten),
                ("batch-forgotten", (inputs[1:],), gettext("counted one text only")),
            ),
        ),
        "activations_mb": Count(
            ((two, activations, _BYTES),),
            MEBIBYTE,
            (
                (
                    "gradients-forgotten",
                    ((activations, _BYTES),),
                    gettext("left out the gradients"),
                ),
                ("bytes-forgotten", ((two, activations),), bytes_forgotten),
            ),
        ),
        "parameters_mb": Count(
            ((total, _BYTES),),
            MEBIBYTE,
            (("bytes-forgotten", ((total,),), bytes_forgotten),),
        ),
        "total_mb": _count(tuple((Factor(key=name),) for name in parts)),
    }


LAYERS = Kind(
    name="layers",
    matrices={},
    required=(),
    settings=(),
    build=_build_table_steps,
    part_name="layer",
    options={
        "length": replace(make_count(1, maximum=_MAX_VALUE), is_required=True, is_given=True),
        "width": replace(make_count(None, maximum=_MAX_VALUE), is_given=True),
        "layers": Option((), _parse_layers, is_required=True, is_given=True),
        "batch": replace(make_count(None, maximum=_MAX_VALUE), is_given=True),
    },
)
