"""Problems on the layers of a model: output sizes, parameters, multiply-adds and memory.

A layer is layer_name like `conv1d out=128 kernel=7 stride=3`. Multiply-adds are the products with
weights, and an embedding counts once, as in the layer table of `workings summary`.
"""

import re
from collections.abc import Collection
from dataclasses import dataclass, field, replace
from typing import Any

from workings.errors import UserError, did_you_mean, safe_repr
from workings.languages import gettext
from workings.problems.counts import MEBIBYTE, Count, Factor, Products, WindowCount
from workings.problems.kinds.base import Kind, Setting, Sizes, Step
from workings.problems.kinds.convolution import count_windows
from workings.problems.kinds.layer_counts import (
    LAYER_TYPES,
    RECURRENT_GATES,
    Layer,
    Places,
    count_products,
)
from workings.problems.ops import Copy, Op
from workings.problems.options import Option, make_count
from workings.problems.spellings import find_name

MAX_LAYERS = 50
_MAX_VALUE = 10**7  # of a number of a layer
_BYTES = Factor(value=4)


_MAY_BE_ZERO = ("padding", "bias", "stride", "width", "count")


_LAYER_NAMES = {
    **dict.fromkeys(("dense", "fc", "fully connected", "affine"), "linear"),
    **dict.fromkeys(("conv", "convolution"), "conv1d"),
    **dict.fromkeys(("max pool", "avg pool", "average pool", "max pooling", "maxpool1d"), "pool"),
    **dict.fromkeys(("global max pool", "global average pool", "global pooling"), "global_pool"),
    **dict.fromkeys(("self attention", "multi-head attention", "mha"), "attention"),
    **dict.fromkeys(("ffn", "mlp"), "feed_forward"),
    **dict.fromkeys(("encoder layer", "transformer layer"), "transformer_block"),
    **dict.fromkeys(("layer normalization",), "layer_norm"),
    **dict.fromkeys(("batch normalization", "batchnorm1d"), "batch_norm"),
    **dict.fromkeys(("relu", "tanh", "sigmoid", "gelu", "softmax", "dropout"), "activation"),
}
_NUMBER_NAMES = {
    "out": ("out_features", "units", "filters", "channels", "out_channels"),
    "kernel": ("kernel_size", "size", "k"),
    "hidden": ("hidden_size", "units", "d_ff"),
    "vocabulary": ("vocab", "vocab_size", "num_embeddings"),
    "width": ("dim", "d", "d_model", "embedding_dim"),
    "heads": ("num_heads", "n_heads", "h"),
}
_LAYER_WORDS = re.compile(r"[\s,()]+")


def _parse_layers(where: str, value: Any) -> tuple[Layer, ...]:
    if not isinstance(value, list | tuple) or not all(isinstance(text, str) for text in value):
        raise UserError(f'{where} must be a list of texts: ["linear out=2"]')
    if not 1 <= len(value) <= MAX_LAYERS:
        raise UserError(f"{where} has {len(value)} layers: it must have from 1 to {MAX_LAYERS}")
    return tuple(_parse_layer(f"{where}, layer {k}", text) for k, text in enumerate(value, 1))


def _parse_layer(where: str, text: str) -> Layer:
    words = _LAYER_WORDS.sub(" ", text).split()
    layer_name = " ".join(word for word in words if "=" not in word)
    fields = [word for word in words if "=" in word]
    name = find_name(layer_name, LAYER_TYPES, _LAYER_NAMES)
    if name is None:
        hint = did_you_mean(layer_name, LAYER_TYPES)
        raise UserError(f"{where}: {safe_repr(layer_name, 30)} is no layer: {hint}")
    known = LAYER_TYPES[name].numbers
    numbers: dict[str, int] = {}
    for item in fields:
        key, _, digits = item.partition("=")
        key = find_name(key, known, _list_number_names(known)) or key
        digits = {"true": "1", "false": "0"}.get(digits.casefold(), digits)
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


def _list_number_names(known: Collection[str]) -> dict[str, str]:
    return {other: usual for usual in known for other in _NUMBER_NAMES.get(usual, ())}


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
        if "heads" in layer.numbers and before % layer["heads"]:
            raise UserError(f"heads = {layer['heads']} does not divide {before}")
        if layer.type == "flatten":
            self.width = length * before
            forgotten = (
                "length-not-counted",
                ((places.input_width,),),
                gettext("left out the positions"),
            )
            return count_products(((places.input_length, places.input_width),), forgotten)
        if layer.type in RECURRENT_GATES:
            self.width = layer["directions"] * layer["hidden"]
            hidden = layer.factor("hidden")
            if layer["directions"] == 1:
                return count_products(((hidden,),))
            one = ("directions-not-counted", ((hidden,),), gettext("counted one direction only"))
            return count_products(((layer.factor("directions"), hidden),), one)
        for name in ("out", "width"):
            if layer.numbers.get(name):
                self.width = layer[name]
                if layer.type == "last" and self.width > before:
                    raise UserError(f"width = {self.width}, but the input has {before}")
                return count_products(((layer.factor(name),),))
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
        "parameters": count_products(list_terms("parameters")),
        "mult_adds": count_products(list_terms("mult_adds") or ((Factor(value=0),),)),
        "activations": count_products(outputs),
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
        "total_mb": count_products(tuple((Factor(key=name),) for name in parts)),
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
