"""What a recipe may say: every section and key, with its help. Knows no torch."""

from typing import TypeAlias

from workings.recipes.classify import (
    MODELS,
    SIZES,
    ClassifierConfig,
    ClassifyRecipe,
    ConvolutionConfig,
    DataConfig,
    NgramConfig,
    PerceptronConfig,
    RecurrentConfig,
    TransformerConfig,
    model_config,
)
from workings.recipes.common import (
    Bounded,
    CellKind,
    Padding,
    Pooling,
    TokenizerConfig,
    TrainConfig,
    chosen,
    sized,
)
from workings.recipes.keys import every_key
from workings.recipes.language import (
    LANGUAGE_KINDS,
    LANGUAGE_SIZES,
    ForcingConfig,
    LanguageConfig,
    LanguageRecipe,
    RecurrentLanguageConfig,
    TextConfig,
    TextTokenizerConfig,
    TransformerLanguageConfig,
    language_config,
)

Recipe: TypeAlias = ClassifyRecipe | LanguageRecipe

__all__ = [
    "LANGUAGE_KINDS",
    "LANGUAGE_SIZES",
    "MODELS",
    "SIZES",
    "Bounded",
    "CellKind",
    "ClassifierConfig",
    "ClassifyRecipe",
    "ConvolutionConfig",
    "DataConfig",
    "ForcingConfig",
    "LanguageConfig",
    "LanguageRecipe",
    "NgramConfig",
    "Padding",
    "PerceptronConfig",
    "Pooling",
    "Recipe",
    "RecurrentConfig",
    "RecurrentLanguageConfig",
    "TextConfig",
    "TextTokenizerConfig",
    "TokenizerConfig",
    "TrainConfig",
    "TransformerConfig",
    "TransformerLanguageConfig",
    "chosen",
    "every_key",
    "language_config",
    "model_config",
    "sized",
]
