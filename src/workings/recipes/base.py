"""What all kinds of recipes share: sections such as training and search, and reading a recipe.

Nothing here needs torch, so that a mistake in a recipe is reported at once.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Literal, TypeAlias

from workings.builtin import find_recipe
from workings.config import (
    Field,
    Variant,
    build,
    check_choice,
    describe,
    key_types,
    load_table,
    override,
    to_table,
    toml_value,
)
from workings.errors import UserError, safe_repr

if TYPE_CHECKING:
    from workings.recipes import Recipe

CellKind: TypeAlias = Literal["rnn", "gru", "lstm"]
Padding: TypeAlias = Literal["masked", "unmasked", "left"]
Pooling: TypeAlias = Literal["last", "max", "mean"]
AttentionKind: TypeAlias = Literal["none", "fixed", "additive", "dot", "general"]
Activation: TypeAlias = Literal["relu", "gelu", "gelu-tanh", "silu"]
MAX_LENGTH_PENALTY = 10  # above about 2, length alone decides

# The smallest and largest value of each integer key, in whatever section it is: large enough for
# any model, small enough to catch typing errors.
_INT_RANGES = {
    "seed": (0, 2**53),
    "max_length": (1, 10**7),
    "max_n": (1, 10**7),
    "vocab_size": (1, 10**8),
    "padded_vocab_size": (1, 10**8),
    "min_count": (1, 10**9),
    "d_model": (1, 2**16),
    "hidden_size": (1, 2**16),
    "hidden_sizes": (1, 2**16),
    "d_ff": (1, 2**16),
    "channels": (1, 2**16),
    "layers": (1, 1000),
    "heads": (1, 2**12),
    "kv_heads": (1, 2**12),
    "length": (1, 10**6),
    "max_positions": (1, 10**6),
    "kernel": (1, 10**4),
    "stride": (1, 10**4),
    "epochs": (1, 10**9),
    "batch_size": (1, 10**7),
    "accumulate": (1, 10**6),
    "average_last": (1, 1000),
    "keep_checkpoints": (1, 10**6),
    "save_every": (1, 10**9),
    "patience": (1, 10**9),
    "context_length": (1, 10**6),
    "eval_every": (1, 10**9),
    "sample": (0, 10**5),
    "from_epoch": (0, 10**9),
    "ramp_epochs": (1, 10**9),
    "beams": (1, 1000),
    "chrono_init": (1, 10**6),
    "image_size": (1, 1024),
    "blocks": (1, 1000),
}
_FRACTION_KEYS = (
    "dropout",
    "attention_dropout",
    "activation_dropout",
    "min_lr_ratio",
    "warmup",
    "label_smoothing",
    "ema_decay",
    "momentum",
    "validation",
)


class BoundedConfig:
    """Base of all sections: checks that numbers are within the range of their key."""

    def __post_init__(self) -> None:
        for name, value in vars(self).items():
            if name in _INT_RANGES:
                _check_integers(name, value if isinstance(value, tuple) else (value,))
            elif name in _FRACTION_KEYS and value is not None and not 0 <= value < 1:
                raise UserError(f"{name} = {value}: expected 0 to below 1")


def _check_integers(name: str, values: tuple[int | None, ...]) -> None:
    low, high = _INT_RANGES[name]
    if not values:
        raise UserError(f"{name} = []: expected at least one number")
    for number in values:
        if number is not None and not low <= number <= high:
            raise UserError(
                f"{name} = {safe_repr(number)}: expected a whole number from {low} to {high:,}"
            )


@dataclass(frozen=True, kw_only=True)
class BaseRecipe(BoundedConfig):
    """The keys that every recipe begins with."""

    task: str
    """the kind of recipe: classify, language, translate or caption"""
    title: str = ""
    """its name in reports"""
    seed: int = 0
    """seed of all random numbers"""


@dataclass(frozen=True, kw_only=True)
class ModelConfig(BoundedConfig, Variant):
    """Base of the settings of all kinds of models.

    In a recipe, `model.kind` selects the class, and `model.size` the defaults in its `sizes`.
    """


@dataclass(frozen=True, kw_only=True)
class TokenizerConfig(BoundedConfig):
    """How text is split into tokens."""

    kind: Literal["words", "characters", "byte-pair"] = "words"
    """words (basic English), characters or byte-pair"""
    vocab_size: int = 20_000
    """largest number of tokens, special ones included"""
    min_count: int = 1
    """tokens that occur less often become unknown"""
    padded_vocab_size: int | None = None
    """pad a smaller vocabulary to this size with unused tokens; none: no padding"""


@dataclass(frozen=True, kw_only=True)
class TrainConfig(BoundedConfig):
    """Optimization, schedule, checkpoints and hardware."""

    epochs: int = 5
    """passes over the training data"""
    batch_size: int = 64
    """examples in a batch"""
    accumulate: int = 1
    """batches whose gradients are summed for one step"""
    optimizer: Literal["adamw", "muon", "adam", "sgd"] = "adamw"
    """adamw, adam, sgd, or muon: orthogonalized updates of matrices, adamw for all other weights"""
    learning_rate: float = 1e-3
    """peak learning rate"""
    weight_decay: float = 0.01
    """weight decay, of matrices only"""
    momentum: float = 0.9
    """momentum of sgd"""
    betas: tuple[float, ...] = (0.9, 0.999)
    """decay rates of adam, adamw and muon (whose momentum is the first)"""
    schedule: Literal["constant", "linear", "cosine", "inverse-sqrt"] = "constant"
    """learning rate schedule after the warmup"""
    min_lr_ratio: float = 0.0
    """final learning rate of linear and cosine, as a fraction of the peak"""
    warmup: float = 0.0
    """fraction of all steps over which the learning rate rises from 0"""
    clip_norm: float | None = 1.0
    """largest gradient norm: longer gradients are scaled down; none: no clipping"""
    label_smoothing: float = 0.0
    """probability mass spread over the other classes"""
    average: Literal["none", "ema", "last"] = "none"
    """average the weights that are evaluated and saved: exponentially, or over the last epochs"""
    ema_decay: float = 0.999
    """decay of the exponential moving average per step"""
    average_last: int = 3
    """number of epochs that `last` averages over"""
    patience: int | None = None
    """stop after this many epochs without an improvement on the validation data; none: never"""
    precision: Literal["float32", "bfloat16"] = "float32"
    """floating-point format of the forward pass"""
    device: str = "auto"
    """cpu, cuda or mps; auto: the fastest available"""
    compile: bool = False
    """compile the model with torch.compile"""
    keep_checkpoints: int = 2
    """number of checkpoints to keep besides the best"""
    save_every: int | None = None
    """steps between checkpoints; none: one after each epoch"""
    parallelism: Literal["ddp", "fsdp"] = "ddp"
    """with torchrun: ddp replicates the weights in each process, fsdp (FSDP2) shards them"""

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.learning_rate <= 0:
            raise UserError(f"learning_rate = {self.learning_rate}: it must be positive")
        if self.weight_decay < 0:
            raise UserError(f"weight_decay = {self.weight_decay}: it must not be negative")
        if self.clip_norm is not None and self.clip_norm <= 0:
            raise UserError(f"clip_norm = {self.clip_norm}: it must be positive, or none")
        if len(self.betas) != 2 or not all(0 <= b < 1 for b in self.betas):
            raise UserError(
                f"betas = {safe_repr(list(self.betas))}: expected two numbers from 0 to below 1"
            )


@dataclass(frozen=True, kw_only=True)
class DecoderConfig(ModelConfig):
    """What all conditional decoders (translators and captioners) have."""

    d_model: int = 128
    """width of the embeddings"""
    dropout: float = 0.1
    """dropout rate"""
    tie_embeddings: bool = True
    """use the target embedding as output projection"""
    output_bias: bool = False
    """add a bias to a tied output projection, as Marian does; an untied one always has a bias"""


@dataclass(frozen=True, kw_only=True)
class RecurrentDecoderConfig(DecoderConfig):
    """A recurrent decoder."""

    kind: ClassVar[str] = "recurrent"
    cell: CellKind = "gru"
    """rnn, gru or lstm"""
    hidden_size: int = 256
    """width of the hidden state"""
    layers: int = 1
    """number of layers"""
    attention: AttentionKind = "additive"
    """how the decoder sees the source: none; the same fixed vector at every step; or by attention
    with additive, dot or general scores"""


@dataclass(frozen=True, kw_only=True)
class TransformerConfig(ModelConfig):
    """The blocks of a Transformer: what language models, translators and captioners share."""

    kind: ClassVar[str] = "transformer"
    layers: int = 4
    """number of blocks"""
    heads: int = 4
    """attention heads per block"""
    d_ff: int | None = None
    """width of the feed-forward layers; none: four times d_model"""
    norm: Literal["pre", "post"] = "pre"
    """layer norm before or after each sublayer"""
    activation: Activation = "relu"
    """activation of the feed-forward layers; gelu-tanh: the approximation of gelu in GPT-2"""


@dataclass(frozen=True, kw_only=True)
class TransformerDecoderConfig(TransformerConfig, DecoderConfig):
    """A Transformer decoder."""

    attention_dropout: float = 0.0
    """dropout rate of the attention weights: slow on a CPU"""
    activation_dropout: float | None = None
    """dropout rate inside the feed-forward layers; none: the same as dropout"""


@dataclass(frozen=True, kw_only=True)
class SearchConfig(BoundedConfig):
    """Beam search for translations and captions."""

    beams: int = 5
    """beam size; 1: greedy decoding"""
    length_penalty: float = 1.0
    """exponent of the length normalization ((5 + length) / 6) of Wu et al. (2016); 0: none"""

    def __post_init__(self) -> None:
        super().__post_init__()
        if not -MAX_LENGTH_PENALTY <= self.length_penalty <= MAX_LENGTH_PENALTY:
            raise UserError(
                f"length_penalty = {self.length_penalty}: "
                f"expected a number from -{MAX_LENGTH_PENALTY} to {MAX_LENGTH_PENALTY}"
            )


@dataclass(frozen=True, kw_only=True)
class ScheduledSamplingConfig(BoundedConfig):
    """Scheduled sampling: a recurrent model is fed some of its own predictions in training."""

    rate: float = 0.0
    """final probability that an input is the model's own prediction"""
    from_epoch: int = 0
    """epochs of teacher forcing before it begins"""
    ramp_epochs: int = 1
    """epochs over which the rate rises linearly"""

    def __post_init__(self) -> None:
        super().__post_init__()
        if not 0 <= self.rate <= 1:
            raise UserError(f"rate = {self.rate}: expected 0 to 1")

    def rate_at(self, epoch: int) -> float:
        """Return the sampling rate of an epoch, counted from 0.

        >>> config = ScheduledSamplingConfig(rate=0.5, from_epoch=1, ramp_epochs=2)
        >>> [config.rate_at(epoch) for epoch in range(5)]
        [0.0, 0.0, 0.25, 0.5, 0.5]
        """
        return self.rate * min(max(epoch - self.from_epoch, 0) / self.ramp_epochs, 1)

    def check_model(self, kind: str) -> None:
        """Refuse scheduled sampling for models that are not recurrent."""
        if self.rate and kind != "recurrent":
            raise UserError(f"scheduled_sampling is for recurrent models, not a {kind}")


# -- reading, building and listing recipes ---------------------------------------------------------


def read_recipe(path: str | Path, overrides: Sequence[str] = ()) -> "Recipe":
    """Read a recipe from a TOML file, or a built-in one by its name.

    `overrides` are words such as `--train.epochs 3`.

    >>> read_recipe("helo", ["--train.epochs", "2"]).train.epochs
    2
    """
    return build_recipe(load_table(find_recipe(path)), overrides)


def build_recipe(table: Mapping[str, Any], overrides: Sequence[str] = ()) -> "Recipe":
    """Build a recipe from a table; its key `task` selects the kind (default: `classify`).

    >>> build_recipe({"task": "translate"}, ["--data.source", "1"]).data.source
    '1'
    """
    from workings.recipes import RECIPES  # whose modules import this one

    table = override(table, overrides, list_recipe_keys() if overrides else None)
    task = check_choice("task", table.get("task", "classify"), RECIPES)
    return build(RECIPES[task][0], table)


def list_recipe_keys() -> dict[str, Any]:
    """Return the types of all keys, of all tasks and kinds of models.

    >>> keys = list_recipe_keys()
    >>> "train.epochs" in keys, "model.kind" in keys, "model.heads" in keys, "epochs" in keys
    (True, True, True, False)
    """
    from workings.recipes import RECIPES  # whose modules import this one

    types: dict[str, Any] = {}
    for recipe, _ in RECIPES.values():
        types |= key_types(recipe)
    return types


@dataclass(frozen=True)
class Setting:
    """A recipe key and its value in TOML; `default` is empty if the value is the default."""

    key: str
    value: str
    default: str
    help: str


def list_settings(recipe: "Recipe") -> list[Setting]:
    """List all settings of a recipe, including its model's defaults.

    >>> from workings.recipes import ClassificationRecipe
    >>> [s for s in list_settings(ClassificationRecipe()) if s.key == "train.batch_size"]
    [Setting(key='train.batch_size', value='64', default='', help='examples in a batch')]
    """
    model = recipe.model
    stated = {k: v for k, v in to_table(model).items() if k in ("kind", "size")}
    table = to_table(recipe) | {"model": stated | model.full_table()}
    described = [*describe(type(recipe)), *describe(type(model), "model.")]
    fields = {field.key: field for field in described}
    return [_build_setting(key, value, fields.get(key)) for key, value in flatten_table(table)]


def flatten_table(table: Mapping[str, Any], prefix: str = "") -> Iterator[tuple[str, Any]]:
    """Yield the values of a nested table with their dotted keys: `train.epochs`."""
    for key, value in table.items():
        if isinstance(value, dict):
            yield from flatten_table(value, f"{prefix}{key}.")
        else:
            yield f"{prefix}{key}", value


def _build_setting(key: str, value: Any, field: Field | None) -> Setting:
    text = _format_value(value)
    if field is None:
        return Setting(key, text, "", "")
    default = _format_value("none" if field.default is None else field.default)
    return Setting(key, text, "" if default == text else default, field.help)


def _format_value(value: Any) -> str:
    return value if isinstance(value, str) else toml_value(value)
