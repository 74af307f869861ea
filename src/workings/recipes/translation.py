"""What a recipe for a translator may say."""

from dataclasses import dataclass, field
from typing import Any, Literal

from workings.errors import UserError
from workings.recipes.base import (
    AttentionKind,
    BoundedConfig,
    DecoderConfig,
    RecurrentDecoderConfig,
    SearchConfig,
    TokenizerConfig,
    TrainConfig,
    TransformerDecoderConfig,
    build_model_config,
)
from workings.recipes.language_modeling import ScheduledSamplingConfig


@dataclass(frozen=True, kw_only=True)
class TranslationDataConfig(BoundedConfig):
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
    max_length: int = 100
    """words of a training sentence: pairs with a longer one are left out"""
    ratio: float = 3.0
    """how many times as long one side may be as the other, of three words at least: other pairs
    are left out"""


@dataclass(frozen=True, kw_only=True)
class TranslationTokenizerConfig(TokenizerConfig):
    """How sentences become tokens."""

    kind: Literal["words", "characters", "byte-pair", "imported"] = "byte-pair"  # type: ignore[assignment] # one more
    """byte-pair, words (small letters) or characters; imported: an imported model's own"""
    vocab_size: int = 4000
    """at most so many tokens, the specials among them; in each language, if they are not joint"""
    shared_vocab: bool = True
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
class TranslatorConfig(DecoderConfig):
    """What every translator has."""

    share_embeddings: bool = False
    """one embedding for both languages, whose vocabulary must be joint"""


@dataclass(frozen=True, kw_only=True)
class RecurrentTranslatorConfig(TranslatorConfig, RecurrentDecoderConfig):
    """RNN, GRU or LSTM: one reads, another writes (the notes' B7 and B8)."""

    bidirectional: bool = True
    """read the source backwards as well"""
    attention: AttentionKind = "additive"
    """what the decoder sees of the source: none but the encoder's last state to begin with; that
    state, fixed, at every step; or what attention finds there, by this similarity"""


@dataclass(frozen=True, kw_only=True)
class TransformerTranslatorConfig(TranslatorConfig, TransformerDecoderConfig):
    """Encoder and decoder (E4 to E6)."""

    layers: int = 4
    """blocks of the encoder, and of the decoder"""
    share_embeddings: bool = True
    """one embedding for both languages, whose vocabulary must be joint"""


@dataclass(frozen=True, kw_only=True)
class TranslationTrainConfig(TrainConfig):
    """How to train, in batches of tokens."""

    batch_size: int = 4096
    """tokens in a step, padding among them, on the longer side"""
    metric: Literal["loss", "bleu"] = "loss"
    """by which of these, on the validation pairs, the best epoch is chosen; bleu is searched for
    greedily"""


@dataclass(frozen=True, kw_only=True)
class TranslationRecipe(BoundedConfig):
    """A recipe for a translator."""

    task: Literal["translate"] = "translate"
    """what kind of recipe this is"""
    title: str = ""
    """what it is called in reports"""
    seed: int = 0
    """everything random is drawn from it"""
    data: TranslationDataConfig = field(default_factory=TranslationDataConfig)
    tokenizer: TranslationTokenizerConfig = field(default_factory=TranslationTokenizerConfig)
    model: dict[str, Any] = field(default_factory=lambda: {"kind": "transformer"})
    """kind, size (small, medium, large) and the settings of that kind of model"""
    scheduled_sampling: ScheduledSamplingConfig = field(default_factory=ScheduledSamplingConfig)
    search: SearchConfig = field(default_factory=SearchConfig)
    train: TranslationTrainConfig = field(default_factory=TranslationTrainConfig)

    def __post_init__(self) -> None:
        super().__post_init__()
        kind, model = parse_translator_config(self.model)
        object.__setattr__(self, "model", {"kind": kind, **self.model})
        if kind != "recurrent" and self.scheduled_sampling.rate:
            raise UserError(f"scheduled_sampling is for recurrent models, not a {kind}")
        # Imported tokenizers may be two ways to split into the pieces of one vocabulary.
        if (
            model.share_embeddings
            and not self.tokenizer.shared_vocab
            and self.tokenizer.kind != "imported"
        ):
            raise UserError(
                "model.share_embeddings = true: one embedding needs one vocabulary: tokenizer.shared_vocab = true, "
                "or model.share_embeddings = false"
            )


TRANSLATOR_KINDS: dict[str, type] = {
    "recurrent": RecurrentTranslatorConfig,
    "transformer": TransformerTranslatorConfig,
}

TRANSLATOR_SIZES: dict[str, dict[str, dict[str, Any]]] = {
    "recurrent": {
        "small": {"d_model": 128, "hidden_size": 256},
        "medium": {"d_model": 256, "hidden_size": 512},
        "large": {"d_model": 512, "hidden_size": 1024, "layers": 2},
    },
    "transformer": {
        "small": {"d_model": 128, "d_ff": 256, "layers": 4, "heads": 4},
        "medium": {"d_model": 256, "d_ff": 1024, "layers": 4, "heads": 8},
        "large": {"d_model": 512, "d_ff": 2048, "layers": 6, "heads": 8},
    },
}


def parse_translator_config(table: dict[str, Any]) -> tuple[str, Any]:
    """Read a `[model]` section: its kind, and the settings of that kind.

    >>> parse_translator_config({"kind": "recurrent", "hidden_size": 64})[1].hidden_size
    64
    """
    return build_model_config(table, "transformer", TRANSLATOR_KINDS, TRANSLATOR_SIZES)
