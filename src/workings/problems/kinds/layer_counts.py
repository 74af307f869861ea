"""The types of layer, with their parameters and multiply-adds as sums of products."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from workings.languages import gettext
from workings.problems.counts import Alternative, Count, Factor, Products


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


def count_products(products: Products, *alternatives: Alternative) -> Count:
    """Return the sum of products, with the sums that are counted by mistake."""
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
    return count_products(
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
    return count_products(
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
    return count_products(
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
    return count_products(
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
    return count_products(
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


RECURRENT_GATES = {"rnn": 1, "gru": 3, "lstm": 4}


def _list_recurrent_factors(layer: Layer) -> tuple[Factor, ...]:
    """Return the gates and directions of a layer, without those of which there is one."""
    gates = Factor("gates", value=RECURRENT_GATES[layer.type])
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
    return count_products(multiply(times), *mistakes)


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
    return count_products(multiply(times, *factors), *mistakes)


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
    return count_products(right, *mistakes)


def _count_attention_products(layer: Layer, places: Places) -> Count:
    d, n, heads = places.input_width, places.length, layer.factor("heads")
    four = Factor(value=4)
    return count_products(
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
    return count_products(right, *mistakes)


def _count_feed_forward_products(layer: Layer, places: Places) -> Count:
    d, n, hidden = places.input_width, places.length, layer.factor("hidden")
    two = Factor(value=2)
    return count_products(
        ((two, n, d, hidden),),
        ("second-layer-forgotten", ((n, d, hidden),), gettext("counted the first layer only")),
        ("positions-not-counted", ((two, d, hidden),), gettext("counted one position only")),
    )


def _count_norm(layer: Layer, places: Places) -> Count:  # noqa: ARG001
    d = places.input_width
    return count_products(
        ((Factor(value=2), d),),
        ("beta-forgotten", ((d,),), gettext("counted γ only")),
        (
            "positions-counted",
            ((Factor(value=2), places.length, d),),
            gettext("counted every position"),
        ),
    )


def _count_positions(layer: Layer, places: Places) -> Count:
    d, count = places.input_width, layer.factor("count")
    count = count if count.value else places.length
    return count_products(
        ((count, d),),
        ("width-not-counted", ((count,),), gettext("counted one number per position")),
        ("positions-not-counted", ((d,),), gettext("counted one position only")),
    )


def _repeat(layer: Layer, products: Products) -> Products:
    """Multiply each product by the number of equal blocks, if there are several."""
    times = layer.factor("times")
    return tuple((times, *p) for p in products) if times.value != 1 else products


def _count_block(layer: Layer, places: Places) -> Count:
    """Return the parameters of Transformer blocks: attention, feed-forward and two norms."""
    d, hidden, four, two = (
        places.input_width,
        layer.factor("hidden"),
        Factor(value=4),
        Factor(value=2),
    )
    attention: Products = ((four, d, d), (four, d)) if layer["bias"] else ((four, d, d),)
    weights: Products = ((two, d, hidden),)
    network = _with_bias(layer, weights, ((hidden,), (d,)))
    norms: Products = ((four, d),)
    mistakes: list[Alternative] = [
        (
            "output-projection-forgotten",
            _repeat(layer, ((Factor(value=3), d, d), *attention[1:], *network, *norms)),
            gettext("left out W_O"),
        ),
        (
            "second-layer-forgotten",
            _repeat(layer, (*attention, (d, hidden), *network[1:], *norms)),
            gettext("counted the first layer only"),
        ),
        (
            "term-left-out",
            _repeat(layer, (*attention, *network)),
            gettext("left out the norms"),
        ),
    ]
    if layer["bias"]:
        without = _repeat(layer, ((four, d, d), *weights, *norms))
        mistakes.append(("bias-forgotten", without, gettext("left out the biases")))
    right = (*attention, *network, *norms)
    if layer["times"] > 1:
        mistakes.append(("layers-forgotten", right, gettext("counted one layer only")))
    return count_products(_repeat(layer, right), *mistakes)


def _count_block_products(layer: Layer, places: Places) -> Count:
    d, n, hidden = places.input_width, places.length, layer.factor("hidden")
    four, two = Factor(value=4), Factor(value=2)
    right: Products = ((four, n, d, d), (two, n, d, hidden))
    mistakes: list[Alternative] = [
        (
            "positions-not-counted",
            _repeat(layer, ((four, d, d), (two, d, hidden))),
            gettext("counted one position only"),
        ),
        (
            "second-layer-forgotten",
            _repeat(layer, (right[0], (n, d, hidden))),
            gettext("counted the first layer only"),
        ),
        (
            "output-projection-forgotten",
            _repeat(layer, ((Factor(value=3), n, d, d), right[1])),
            gettext("left out W_O"),
        ),
    ]
    if layer["times"] > 1:
        mistakes.append(("layers-forgotten", right, gettext("counted one layer only")))
    return count_products(_repeat(layer, right), *mistakes)


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
    "activation": LayerType({}),
    "last": LayerType({"width": 0}),
    **dict.fromkeys(RECURRENT_GATES, _RECURRENT),
    "attention": LayerType({"heads": 1, **_BIAS}, _count_attention, _count_attention_products),
    "feed_forward": LayerType(
        {"hidden": None, **_BIAS}, _count_feed_forward, _count_feed_forward_products
    ),
    "transformer_block": LayerType(
        {"heads": 1, "hidden": None, "times": 1, **_BIAS}, _count_block, _count_block_products
    ),
    "positions": LayerType({"count": 0}, _count_positions),
    "layer_norm": LayerType({}, _count_norm),
    "batch_norm": LayerType({}, _count_norm),
}
