"""What a recipe for a translator may say."""

from dataclasses import dataclass, field
from typing import Any, Literal

from workings.errors import UserError
from workings.recipes.common import Bounded, TokenizerConfig, TrainConfig, sized
from workings.recipes.language import ForcingConfig
from workings.recipes.writers import (
    Context,
    RecurrentWriterConfig,
    SearchConfig,
    TransformerWriterConfig,
    WriterConfig,
)


@dataclass(frozen=True, kw_only=True)
class PairConfig(Bounded):
    """What pairs of sentences to learn from."""

    set: str = "emoji-names"
    """a named set; a file with two columns (TSV, CSV, JSONL); or what two files, one a language,
    or the folder of them, have in common: corpus/train"""
    source: str = "en"
    """the language to translate from: its code, its column, or the ending of its file"""
    target: str = "fr"
    """the language to translate into"""
    validation: float = 0.05
    """share of the pairs held out for choosing, where the set does not"""
    longest: int = 100
    """words of a training sentence: pairs with a longer one are left out"""
    ratio: float = 3.0
    """how many times as long one side may be as the other, of three words at least: other pairs
    are left out"""


@dataclass(frozen=True, kw_only=True)
class PairTokenizerConfig(TokenizerConfig):
    """How sentences become tokens."""

    kind: Literal["words", "characters", "byte-pair", "borrowed"] = "byte-pair"  # type: ignore[assignment] # one more
    """byte-pair, words (small letters) or characters; borrowed: an imported model's own"""
    size: int = 4000
    """at most so many tokens, the specials among them; in each language, if they are not joint"""
    joint: bool = True
    """one vocabulary for both languages"""
    lower: bool = False
    """small letters only"""
    dropout: float = 0.0
    """chance for a pair not to be merged, while training: words fall apart differently every
    epoch"""

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.dropout and self.kind != "byte-pair":
            told = f"only byte-pair merges anything; with {self.kind}, 0"
            raise UserError(f"dropout = {self.dropout}: {told}")


@dataclass(frozen=True, kw_only=True)
class TranslatorConfig(WriterConfig):
    """What every translator has."""

    shared: bool = False
    """one embedding for both languages, whose vocabulary must be joint"""


@dataclass(frozen=True, kw_only=True)
class RecurrentTranslatorConfig(TranslatorConfig, RecurrentWriterConfig):
    """RNN, GRU or LSTM: one reads, another writes (the notes' B7 and B8)."""

    bidirectional: bool = True
    """read the source backwards as well"""
    context: Context = "additive"
    """what the decoder sees of the source: none but the encoder's last state to begin with; that
    state, fixed, at every step; or what attention finds there, by this similarity"""


@dataclass(frozen=True, kw_only=True)
class TransformerTranslatorConfig(TranslatorConfig, TransformerWriterConfig):
    """Encoder and decoder (E4 to E6)."""

    layers: int = 4
    """blocks of the encoder, and of the decoder"""
    shared: bool = True
    """one embedding for both languages, whose vocabulary must be joint"""


@dataclass(frozen=True, kw_only=True)
class TranslateTrainConfig(TrainConfig):
    """How to train, in batches of tokens."""

    batch: int = 4096
    """tokens in a step, padding among them, on the longer side"""
    metric: Literal["loss", "bleu"] = "loss"
    """by which of these, on the validation pairs, the best epoch is chosen; bleu is searched for
    greedily"""


@dataclass(frozen=True, kw_only=True)
class TranslateRecipe(Bounded):
    """A recipe for a translator."""

    task: Literal["translate"] = "translate"
    """what kind of recipe this is"""
    title: str = ""
    """what it is called in reports"""
    seed: int = 0
    """everything random is drawn from it"""
    data: PairConfig = field(default_factory=PairConfig)
    tokenizer: PairTokenizerConfig = field(default_factory=PairTokenizerConfig)
    model: dict[str, Any] = field(default_factory=lambda: {"kind": "transformer"})
    """kind, size (small, medium, large) and the settings of that kind of model"""
    forcing: ForcingConfig = field(default_factory=ForcingConfig)
    search: SearchConfig = field(default_factory=SearchConfig)
    train: TranslateTrainConfig = field(default_factory=TranslateTrainConfig)

    def __post_init__(self) -> None:
        super().__post_init__()
        kind, model = translator_config(self.model)
        object.__setattr__(self, "model", {"kind": kind, **self.model})
        if kind != "recurrent" and self.forcing.student:
            raise UserError(f"forcing is for recurrent models, not a {kind}")
        # What is borrowed may be two ways to split into the pieces of one vocabulary.
        if model.shared and not self.tokenizer.joint and self.tokenizer.kind != "borrowed":
            raise UserError(
                "model.shared = true: one embedding needs one vocabulary: tokenizer.joint = true, "
                "or model.shared = false"
            )


TRANSLATOR_KINDS: dict[str, type] = {
    "recurrent": RecurrentTranslatorConfig,
    "transformer": TransformerTranslatorConfig,
}

TRANSLATOR_SIZES: dict[str, dict[str, dict[str, Any]]] = {
    "recurrent": {
        "small": {"embedding": 128, "hidden": 256},
        "medium": {"embedding": 256, "hidden": 512},
        "large": {"embedding": 512, "hidden": 1024, "layers": 2},
    },
    "transformer": {
        "small": {"embedding": 128, "hidden": 256, "layers": 4, "heads": 4},
        "medium": {"embedding": 256, "hidden": 1024, "layers": 4, "heads": 8},
        "large": {"embedding": 512, "hidden": 2048, "layers": 6, "heads": 8},
    },
}


def translator_config(table: dict[str, Any]) -> tuple[str, Any]:
    """Read a `[model]` section: its kind, and the settings of that kind.

    >>> translator_config({"kind": "recurrent", "hidden": 64})[1].hidden
    64
    """
    return sized(table, "transformer", TRANSLATOR_KINDS, TRANSLATOR_SIZES)
