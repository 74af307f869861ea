"""Models by name: language models, classifiers, translators and captioners.

Each can be built with keywords, `TransformerLM(vocab_size=100, d_model=128)`, or from the `[model]`
section of a recipe by the `build_…` function of its task. Names are imported on first use.
"""

from typing import TYPE_CHECKING

from workings.lazy import import_attribute

if TYPE_CHECKING:
    from workings.models.captioning import (
        Captioner,
        ImageBatch,
        RecurrentCaptioner,
        TransformerCaptioner,
        build_captioner,
    )
    from workings.models.classifier_base import TextClassifier
    from workings.models.classifiers import (
        BertClassifier,
        ConvolutionClassifier,
        EmbeddingClassifier,
        LanguageModelClassifier,
        NgramClassifier,
        PerceptronClassifier,
        RecurrentClassifier,
        TransformerClassifier,
        build_classifier,
    )
    from workings.models.language import (
        LanguageModel,
        RecurrentLM,
        TransformerLM,
        build_language_model,
    )
    from workings.models.regions import RegionClassifier
    from workings.models.seq2seq import ConditionalDecoder, RecurrentDecoder, TransformerDecoder
    from workings.models.summary import ModelSummary, summarize
    from workings.models.tfidf import TfidfClassifier
    from workings.models.translation import (
        RecurrentTranslator,
        SentenceBatch,
        TransformerTranslator,
        Translator,
        build_translator,
    )
    from workings.models.vision import VisionEncoder, build_vision_encoder

_LAZY_MODULES = {
    "BertClassifier": "classifiers",
    "Captioner": "captioning",
    "ConditionalDecoder": "seq2seq",
    "ConvolutionClassifier": "classifiers",
    "EmbeddingClassifier": "classifiers",
    "ImageBatch": "captioning",
    "LanguageModel": "language",
    "LanguageModelClassifier": "classifiers",
    "ModelSummary": "summary",
    "NgramClassifier": "classifiers",
    "PerceptronClassifier": "classifiers",
    "RegionClassifier": "regions",
    "RecurrentCaptioner": "captioning",
    "RecurrentClassifier": "classifiers",
    "RecurrentDecoder": "seq2seq",
    "RecurrentLM": "language",
    "RecurrentTranslator": "translation",
    "SentenceBatch": "translation",
    "TextClassifier": "classifier_base",
    "TfidfClassifier": "tfidf",
    "TransformerCaptioner": "captioning",
    "TransformerClassifier": "classifiers",
    "TransformerDecoder": "seq2seq",
    "TransformerLM": "language",
    "TransformerTranslator": "translation",
    "Translator": "translation",
    "VisionEncoder": "vision",
    "build_captioner": "captioning",
    "build_classifier": "classifiers",
    "build_language_model": "language",
    "build_translator": "translation",
    "build_vision_encoder": "vision",
    "summarize": "summary",
}

__all__ = [
    "BertClassifier",
    "Captioner",
    "ConditionalDecoder",
    "ConvolutionClassifier",
    "EmbeddingClassifier",
    "ImageBatch",
    "LanguageModel",
    "LanguageModelClassifier",
    "ModelSummary",
    "NgramClassifier",
    "PerceptronClassifier",
    "RecurrentCaptioner",
    "RecurrentClassifier",
    "RecurrentDecoder",
    "RecurrentLM",
    "RecurrentTranslator",
    "RegionClassifier",
    "SentenceBatch",
    "TextClassifier",
    "TfidfClassifier",
    "TransformerCaptioner",
    "TransformerClassifier",
    "TransformerDecoder",
    "TransformerLM",
    "TransformerTranslator",
    "Translator",
    "VisionEncoder",
    "build_captioner",
    "build_classifier",
    "build_language_model",
    "build_translator",
    "build_vision_encoder",
    "summarize",
]


def __getattr__(name: str) -> object:
    return import_attribute(__name__, _LAZY_MODULES, name)


def __dir__() -> list[str]:
    return sorted(__all__)
