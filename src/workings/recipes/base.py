"""What all kinds of recipes share: sections such as training and search, and reading a recipe.

Nothing here needs torch, so that a mistake in a recipe is reported at once.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Literal, TypeAlias

from workings.builtin import find_recipe
from workings.config import (
    BelowOne,
    Field,
    Range,
    Variant,
    build,
    check_bounds,
    check_choice,
    describe,
    key_types,
    load_table,
    override,
    to_table,
    toml_value,
)
from workings.errors import UserError, safe_repr
from workings.registry import (
    RECIPES,
    TOKENIZERS,
    check_plugins,
    find_plugins,
    import_installed_plugins,
)

if TYPE_CHECKING:
    from workings.recipes import Recipe

CellKind: TypeAlias = Literal["rnn", "gru", "lstm"]
Padding: TypeAlias = Literal["masked", "unmasked", "left"]
Pooling: TypeAlias = Literal["last", "max", "mean", "concat"]
AttentionKind: TypeAlias = Literal["none", "fixed", "additive", "dot", "general"]
Activation: TypeAlias = Literal["relu", "gelu", "gelu-tanh", "silu"]
MAX_LENGTH_PENALTY = 10  # above about 2, length alone decides

# Types of keys with their bounds: large enough for any model, small enough to catch typing errors.
Count: TypeAlias = Annotated[int, Range(1, 10**9)]
BatchSize: TypeAlias = Annotated[int, Range(1, 10**7)]
VocabSize: TypeAlias = Annotated[int, Range(1, 10**8)]
MaxLength: TypeAlias = Annotated[int, Range(1, 10**7)]
Length: TypeAlias = Annotated[int, Range(1, 10**6)]
Width: TypeAlias = Annotated[int, Range(1, 2**16)]
NumLayers: TypeAlias = Annotated[int, Range(1, 1000)]
NumHeads: TypeAlias = Annotated[int, Range(1, 2**12)]
Fraction: TypeAlias = Annotated[float, BelowOne()]


class BoundedConfig:
    """Base of all sections: checks that numbers are within the bounds of their field's type."""

    def __post_init__(self) -> None:
        check_bounds(self)


@dataclass(frozen=True, kw_only=True)
class BaseRecipe(BoundedConfig):
    """The keys that every recipe begins with."""

    task: str
    """the kind of recipe: classify, language, translate or caption"""
    title: str = ""
    """its name in reports"""
    seed: Annotated[int, Range(0, 2**53)] = 0
    """seed of all random numbers"""
    start_from: str = ""
    """fine-tuning: a run, or a folder in Hugging Face's format, whose weights the training starts
    from; its tokenizer and model replace those of the recipe"""
    plugins: tuple[str, ...] = ()
    """modules that register what the recipe uses; it opens if they are installed or --plugin names
    them"""


@dataclass(frozen=True, kw_only=True)
class ModelConfig(BoundedConfig, Variant):
    """Base of the settings of all kinds of models.

    In a recipe, `model.kind` selects the class, and `model.size` the defaults in its `sizes`.
    """


@dataclass(frozen=True, kw_only=True)
class TokenizerConfig(BoundedConfig):
    """How text is split into tokens."""

    kinds: ClassVar[tuple[str, ...]] = ("words", "characters", "byte-pair", "pretrained")
    kind: str = "words"
    """words (basic English), characters, byte-pair or one of a plug-in; pretrained: that of an
    imported model"""
    vocab_size: VocabSize = 20_000
    """largest number of tokens, special ones included"""
    min_count: Count = 1
    """tokens that occur less often become unknown"""
    padded_vocab_size: VocabSize | None = None
    """pad a smaller vocabulary to this size with unused tokens; none: no padding"""
    reuse: bool = True
    """with start_from: keep the tokenizer of that run; false: train a new one, and keep the
    embeddings of the tokens that both have"""

    def __post_init__(self) -> None:
        super().__post_init__()
        check_choice("kind", self.kind, (*self.kinds, *TOKENIZERS))


@dataclass(frozen=True, kw_only=True)
class TrainConfig(BoundedConfig):
    """Optimization, schedule, checkpoints and hardware."""

    epochs: Count = 5
    """passes over the training data"""
    minutes: float | None = None
    """limit on the time of training and validation: the schedule ends in time; none: no limit"""
    batch_size: BatchSize = 64
    """examples in a batch"""
    accumulate: Annotated[int, Range(1, 10**6)] = 1
    """batches whose gradients are summed for one step"""
    optimizer: Literal["adamw", "muon", "adam", "sgd"] = "adamw"
    """adamw, adam, sgd, or muon: orthogonalized updates of matrices, adamw for all other weights"""
    learning_rate: float = 1e-3
    """peak learning rate"""
    weight_decay: float = 0.01
    """weight decay, of matrices only"""
    momentum: Fraction = 0.9
    """momentum of sgd"""
    betas: tuple[float, ...] = (0.9, 0.999)
    """decay rates of adam, adamw and muon (whose momentum is the first)"""
    schedule: Literal["constant", "linear", "cosine", "inverse-sqrt"] = "constant"
    """learning rate schedule after the warmup"""
    min_lr_ratio: Fraction = 0.0
    """final learning rate of linear and cosine, as a fraction of the peak"""
    warmup: Fraction = 0.0
    """fraction of all steps over which the learning rate rises from 0"""
    freeze: tuple[str, ...] = ()
    """weights that are not trained: names of modules such as embedding, blocks.0 or body"""
    layer_decay: float = 1.0
    """layer-wise learning rates: each layer has that of the layer above it times this; 1: the same
    for all"""
    clip_norm: float | None = 1.0
    """largest gradient norm: longer gradients are scaled down; none: no clipping"""
    label_smoothing: Fraction = 0.0
    """probability mass spread over the other classes"""
    average: Literal["none", "ema", "last"] = "none"
    """average the weights that are evaluated and saved: exponentially, or over the last epochs"""
    ema_decay: Fraction = 0.999
    """decay of the exponential moving average per step"""
    average_last: Annotated[int, Range(1, 1000)] = 3
    """number of epochs that `last` averages over"""
    patience: Count | None = None
    """stop after this many epochs without an improvement of the metric; none: never"""
    metric: str = "loss"
    """validation metric by which the best epoch is chosen: loss, or one of a plug-in"""
    eval_tokens: Count | None = 1_000_000
    """tokens of the validation data, evenly spread, that are measured after each epoch; none: all
    of them. At the end of the training all held-out data are measured"""
    precision: Literal["float32", "bfloat16"] = "float32"
    """floating-point format of the forward pass"""
    device: str = "auto"
    """cpu, cuda or mps; auto: the fastest available"""
    compile: bool = False
    """compile the model with torch.compile"""
    keep_checkpoints: Annotated[int, Range(1, 10**6)] = 2
    """number of checkpoints to keep besides the best"""
    save_every: Count | None = None
    """steps between checkpoints; none: one every five minutes, and one after each epoch"""
    parallelism: Literal["ddp", "fsdp"] = "ddp"
    """with torchrun: ddp replicates the weights in each process, fsdp (FSDP2) shards them"""

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.learning_rate <= 0:
            raise UserError(f"learning_rate = {self.learning_rate}: it must be positive")
        if self.minutes is not None and self.minutes <= 0:
            raise UserError(f"minutes = {self.minutes}: it must be positive, or none")
        if self.weight_decay < 0:
            raise UserError(f"weight_decay = {self.weight_decay}: it must not be negative")
        if not 0 < self.layer_decay <= 1:
            raise UserError(f"layer_decay = {self.layer_decay}: expected above 0, to 1")
        if self.clip_norm is not None and self.clip_norm <= 0:
            raise UserError(f"clip_norm = {self.clip_norm}: it must be positive, or none")
        if len(self.betas) != 2 or not all(0 <= b < 1 for b in self.betas):
            raise UserError(
                f"betas = {safe_repr(list(self.betas))}: expected two numbers from 0 to below 1"
            )


@dataclass(frozen=True, kw_only=True)
class DecoderConfig(ModelConfig):
    """What all conditional decoders (translators and captioners) have."""

    d_model: Width = 128
    """width of the embeddings"""
    dropout: Fraction = 0.1
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
    hidden_size: Width = 256
    """width of the hidden state"""
    layers: NumLayers = 1
    """number of layers"""
    attention: AttentionKind = "additive"
    """how the decoder sees the source: none; the same fixed vector at every step; or by attention
    with additive, dot or general scores"""


@dataclass(frozen=True, kw_only=True)
class TransformerConfig(ModelConfig):
    """The blocks of a Transformer: what language models, translators and captioners share."""

    kind: ClassVar[str] = "transformer"
    layers: NumLayers = 4
    """number of blocks"""
    heads: NumHeads = 4
    """attention heads per block"""
    d_ff: Width | None = None
    """width of the feed-forward layers; none: four times d_model"""
    norm: Literal["pre", "post"] = "pre"
    """layer norm before or after each sublayer"""
    activation: Activation = "relu"
    """activation of the feed-forward layers; gelu-tanh: the approximation of gelu in GPT-2"""


@dataclass(frozen=True, kw_only=True)
class TransformerDecoderConfig(TransformerConfig, DecoderConfig):
    """A Transformer decoder."""

    attention_dropout: Fraction = 0.0
    """dropout rate of the attention weights: slow on a CPU"""
    activation_dropout: Fraction | None = None
    """dropout rate inside the feed-forward layers; none: the same as dropout"""


@dataclass(frozen=True, kw_only=True)
class SearchConfig(BoundedConfig):
    """Beam search for translations and captions."""

    beams: Annotated[int, Range(1, 1000)] = 5
    """beam size; 1: greedy decoding"""
    length_penalty: float = 1.0
    """exponent of the length normalization ((5 + length) / 6) of Wu et al. (2016); 0: none"""
    max_length: MaxLength | None = None
    """longest translation, in tokens; none: ten more than twice those of the source"""

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
    from_epoch: Annotated[int, Range(0, 10**9)] = 0
    """epochs of teacher forcing before it begins"""
    ramp_epochs: Count = 1
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


def read_recipe(
    path: str | Path, overrides: Sequence[str] = (), *, start_from: str | Path | None = None
) -> "Recipe":
    """Read a recipe from a TOML file, or a built-in one by its name.

    `overrides` are words such as `--train.epochs 3`. With `start_from`, a run whose weights the
    training starts from, the recipe's own `[model]` is left out.

    >>> read_recipe("helo", ["--train.epochs", "2"]).train.epochs
    2
    """
    table = load_table(find_recipe(path))
    if start_from is not None:
        table = {**table, "start_from": str(start_from)}
        table.pop("model", None)
    return build_recipe(table, overrides)


def build_recipe(table: Mapping[str, Any], overrides: Sequence[str] = ()) -> "Recipe":
    """Build a recipe from a table; its key `task` selects the kind (default: `classify`).

    >>> build_recipe({"task": "translate"}, ["--data.source", "1"]).data.source
    '1'
    """
    import_installed_plugins()
    check_plugins(table.get("plugins"))
    table = override(table, overrides, list_recipe_keys() if overrides else None)
    task = check_choice("task", table.get("task", "classify"), RECIPES)
    recipe: Recipe = build(RECIPES[task][0], table)
    return recipe


def state_plugins(recipe: "Recipe") -> "Recipe":
    """Return a recipe whose `plugins` include the modules that registered what it uses."""
    tokenizer = getattr(recipe, "tokenizer", None)
    names = (
        ("task", recipe.task),
        (f"{recipe.task} model", recipe.model.kind),
        ("tokenizer", getattr(tokenizer, "kind", "")),
        ("metric", recipe.train.metric),
    )
    plugins = dict.fromkeys((*recipe.plugins, *find_plugins(names)))
    return replace(recipe, plugins=tuple(plugins))


def change_section(recipe: "Recipe", section: str, **changes: Any) -> "Recipe":
    """Return a recipe with other values in one of its sections."""
    table = to_table(recipe)
    return build(type(recipe), {**table, section: {**table[section], **changes}})


def list_recipe_keys() -> dict[str, Any]:
    """Return the types of all keys, of all tasks and kinds of models.

    >>> keys = list_recipe_keys()
    >>> "train.epochs" in keys, "model.kind" in keys, "model.heads" in keys, "epochs" in keys
    (True, True, True, False)
    """
    import_installed_plugins()
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
