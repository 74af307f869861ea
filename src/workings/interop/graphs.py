"""Models as graphs: each kind of model with named tensors as inputs and outputs.

The encoder of a translator or captioner outputs inputs of the decoder, under the names that they
have there.
"""

from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor, nn

from workings.errors import UserError
from workings.interop.graph_base import (
    BATCH,
    ENCODER_MASK,
    IDS,
    LENGTH,
    MASK,
    PAST,
    SOURCE,
    Graph,
    StateSpec,
    TensorSpec,
)
from workings.interop.ngram_graphs import NgramGraph, TfidfGraph
from workings.layers.attention import ConcatenatedCache, MultiHeadAttention
from workings.layers.recurrent import HiddenState, RecurrentStack
from workings.models.captioning import ImageBatch
from workings.models.classifier_base import TextClassifier
from workings.models.classifiers import (
    EmbeddingClassifier,
    LanguageModelClassifier,
    NgramClassifier,
)
from workings.models.language import LanguageModel, RecurrentLM, RNNState, TransformerLM
from workings.models.regions import RegionClassifier
from workings.models.seq2seq import (
    ConditionalDecoder,
    RecurrentDecoder,
    RNNDecoderState,
    TransformerDecoder,
)
from workings.models.tfidf import TfidfClassifier
from workings.models.translation import SentenceBatch

_MODELS_WITH_GRAPHS = (
    NgramClassifier,
    TfidfClassifier,
    EmbeddingClassifier,
    LanguageModelClassifier,
    RegionClassifier,
    TransformerLM,
    RecurrentLM,
    TransformerDecoder,
    RecurrentDecoder,
)


def check_graph(constructor: Callable[..., Any]) -> None:
    """Raise UserError if there is no graph of what a constructor returns."""
    if not (isinstance(constructor, type) and issubclass(constructor, _MODELS_WITH_GRAPHS)):
        raise UserError(
            f"a {constructor.__name__} cannot be exported to onnx: it is a model of a plug-in, "
            "whose inputs and state are not known"
        )


# -- classifiers -----------------------------------------------------------------------------------


def build_classifier_graph(model: TextClassifier) -> Graph:
    """Return the graph of a classifier, from token ids to the logits of the classes."""
    check_graph(type(model))
    if isinstance(model, NgramClassifier):
        return NgramGraph(model)
    if isinstance(model, TfidfClassifier):
        return TfidfGraph(model)
    assert isinstance(model, EmbeddingClassifier | LanguageModelClassifier | RegionClassifier)
    return ClassifierGraph(model)


class ClassifierGraph(Graph):
    """A neural classifier; there is a mask if the model ignores padding."""

    def __init__(
        self, model: EmbeddingClassifier | LanguageModelClassifier | RegionClassifier
    ) -> None:
        shape = (BATCH, model.fixed_length or LENGTH)
        inputs = [TensorSpec(spec.name, shape, spec.dtype) for spec in (IDS, MASK)]
        super().__init__(
            inputs if model.excludes_padding else inputs[:1],
            [TensorSpec("logits", (BATCH, model.head.out_features))],
        )
        self.model = model

    def forward(self, *tensors: Tensor) -> tuple[Tensor, ...]:
        ids, mask = tensors[0], tensors[-1]
        return (self.model(ids, mask.sum(1)),)


# -- language models -------------------------------------------------------------------------------


def build_language_model_graphs(model: LanguageModel) -> tuple[Graph, Graph]:
    """Return the graph of a language model without and with a state.

    The first reads whole texts, the second reads tokens after those in its state.
    """
    check_graph(type(model))
    if isinstance(model, TransformerLM):
        return LanguageModelGraph(model), TransformerLMGraph(model)
    assert isinstance(model, RecurrentLM)
    return LanguageModelGraph(model), RecurrentLMGraph(model)


class LanguageModelGraph(Graph):
    """A language model that reads whole texts."""

    def __init__(self, model: LanguageModel) -> None:
        super().__init__([IDS], [TensorSpec("logits", (BATCH, LENGTH, model.head.out_features))])
        self.model = model

    def forward(self, *tensors: Tensor) -> tuple[Tensor, ...]:
        (ids,) = tensors
        return (self.model(ids)[0],)


class TransformerLMGraph(Graph):
    """A decoder-only Transformer, with the keys and values of earlier tokens as its state."""

    def __init__(self, model: TransformerLM) -> None:
        super().__init__(
            [IDS],
            [TensorSpec("logits", (BATCH, LENGTH, model.head.out_features))],
            _key_value_states(_list_attentions(model.blocks), ""),
        )
        self.model = model

    def forward(self, *tensors: Tensor) -> tuple[Tensor, ...]:
        ids, *past = tensors
        caches = _build_caches(past)
        features = self.model.run_blocks(ids, list(caches))
        return (self.model.head(features), *_read_caches(caches))


class RecurrentLMGraph(Graph):
    """A recurrent language model, with the hidden states of its layers as its state."""

    def __init__(self, model: RecurrentLM) -> None:
        super().__init__(
            [IDS],
            [TensorSpec("logits", (BATCH, LENGTH, model.head.out_features))],
            _hidden_states(model.recurrent),
        )
        self.model = model

    def forward(self, *tensors: Tensor) -> tuple[Tensor, ...]:
        ids, *past = tensors
        state = RNNState(_nest_hidden_states(self.model.recurrent, past))
        logits, state = self.model(ids, state)
        return (logits, *_flatten_hidden_states(state.layers))


# -- translators and captioners --------------------------------------------------------------------


def build_encoder_decoder_graphs(
    model: ConditionalDecoder[Any], image_size: int | None = None
) -> tuple[Graph, Graph]:
    """Return the graphs of the encoder and of the decoder of a translator or captioner.

    The source is images of `image_size` pixels, or token ids if that is None.
    """
    check_graph(type(model))
    if isinstance(model, TransformerDecoder):
        return (
            TransformerEncoderGraph(model, image_size),
            TransformerDecoderGraph(model, is_padded=image_size is None),
        )
    assert isinstance(model, RecurrentDecoder)
    return (
        RecurrentEncoderGraph(model, image_size),
        RecurrentDecoderGraph(model, is_padded=image_size is None),
    )


class TransformerEncoderGraph(Graph):
    """An encoder, and the keys and values that the decoder's cross-attention has of the source."""

    def __init__(self, model: TransformerDecoder[Any], image_size: int | None) -> None:
        attentions = _list_attentions(model.decoder, "cross_attention")
        states = _key_value_states(attentions, ".encoder", SOURCE)
        super().__init__(_source_specs(image_size), [part.input for part in states])
        self.model, self.attentions = model, attentions

    def forward(self, *tensors: Tensor) -> tuple[Tensor, ...]:
        memory, _ = self.model.encode(_read_source(tensors))
        pairs = (attention.project_key_value(memory) for attention in self.attentions)
        return tuple(tensor for pair in pairs for tensor in pair)


class TransformerDecoderGraph(Graph):
    """A decoder with the keys and values of earlier tokens as its state, and those of a source."""

    def __init__(self, model: TransformerDecoder[Any], *, is_padded: bool) -> None:
        cross_attentions = _list_attentions(model.decoder, "cross_attention")
        source = [part.input for part in _key_value_states(cross_attentions, ".encoder", SOURCE)]
        super().__init__(
            [IDS, *([ENCODER_MASK] if is_padded else []), *source],
            [TensorSpec("logits", (BATCH, LENGTH, model.head.out_features))],
            _key_value_states(_list_attentions(model.decoder), ".decoder"),
        )
        self.model, self.is_padded, self.num_source_tensors = model, is_padded, len(source)

    def forward(self, *tensors: Tensor) -> tuple[Tensor, ...]:
        ids, *rest = tensors
        mask = rest.pop(0)[:, None, None].bool() if self.is_padded else None
        count = self.num_source_tensors
        source_caches, caches = _build_caches(rest[:count]), _build_caches(rest[count:])
        embedding = self.model.target_embedding
        x = self.model.embed_with_positions(embedding, ids, caches[0].length)
        blocks = zip(self.model.decoder, caches, source_caches, strict=True)
        for block, cache, source_cache in blocks:
            # The memory is not read: the cache has its keys and values.
            x = block(x, x, memory_mask=mask, cache=cache, memory_cache=source_cache)
        return (self.model.head(self.model.decoder_norm(x)), *_read_caches(caches))


class RecurrentEncoderGraph(Graph):
    """An encoder, the initial hidden states of the decoder, and what it sees of the source."""

    def __init__(self, model: RecurrentDecoder[Any], image_size: int | None) -> None:
        states = [part.input for part in _hidden_states(model.decoder)]
        super().__init__(_source_specs(image_size), [*_context_specs(model), *states])
        self.model = model

    def forward(self, *tensors: Tensor) -> tuple[Tensor, ...]:
        state = self.model.init_state(_read_source(tensors))
        parts = {
            "encoder_hidden_states": state.encoder_states,
            "encoder_keys": state.keys,
            "context": state.context,
        }
        context = [parts[spec.name] for spec in _context_specs(self.model)]
        return (*context, *_flatten_hidden_states(state.hidden_states))


class RecurrentDecoderGraph(Graph):
    """One step of a recurrent decoder, with the hidden states of its layers as its state."""

    def __init__(self, model: RecurrentDecoder[Any], *, is_padded: bool) -> None:
        ids = TensorSpec(IDS.name, (BATCH, 1), IDS.dtype)
        masks = [ENCODER_MASK] if is_padded and model.attention is not None else []
        super().__init__(
            [ids, *masks, *_context_specs(model)],
            [TensorSpec("logits", (BATCH, 1, model.head.out_features))],
            _hidden_states(model.decoder),
        )
        self.model = model

    def forward(self, *tensors: Tensor) -> tuple[Tensor, ...]:
        given = dict(zip((spec.name for spec in self.inputs), tensors, strict=True))
        past = [given[part.input.name] for part in self.state]
        tokens, mask = given[IDS.name][:, 0], given.get(ENCODER_MASK.name)
        unused = past[0].unsqueeze(1)
        states = given.get("encoder_hidden_states", unused)
        state = RNNDecoderState(
            _nest_hidden_states(self.model.decoder, past),
            states,
            given.get("encoder_keys", states),
            None if mask is None else mask.bool(),
            given.get("context", unused[:, 0]),
        )
        logits, state = self.model.step(tokens, state)
        return (logits.unsqueeze(1), *_flatten_hidden_states(state.hidden_states))


def _context_specs(model: RecurrentDecoder[Any]) -> list[TensorSpec]:
    """Return what a recurrent decoder sees of the source at every step."""
    hidden_size = model.decoder.hidden_size
    shape = (BATCH, SOURCE, hidden_size)
    if model.attention_kind == "none":
        return []
    if model.attention_kind == "fixed":
        return [TensorSpec("context", (BATCH, hidden_size))]
    states = [TensorSpec("encoder_hidden_states", shape)]
    if model.attention_kind == "additive":
        states.append(TensorSpec("encoder_keys", shape))
    return states


def _source_specs(image_size: int | None) -> list[TensorSpec]:
    if image_size is None:
        shape = (BATCH, SOURCE)
        return [TensorSpec(spec.name, shape, spec.dtype) for spec in (IDS, MASK)]
    return [TensorSpec("pixel_values", (BATCH, image_size, image_size, 3), torch.uint8)]


def _read_source(tensors: Sequence[Tensor]) -> SentenceBatch | ImageBatch:
    """Return the source batch of an encoder's inputs: ids and mask, or pixels."""
    if len(tensors) == 2:
        ids, mask = tensors
        return SentenceBatch(ids, mask.sum(1))
    (pixels,) = tensors
    return ImageBatch(pixels, torch.arange(pixels.shape[0], device=pixels.device))


# -- states ----------------------------------------------------------------------------------------


def _key_value_states(
    attentions: Sequence[MultiHeadAttention], suffix: str, time: str = PAST
) -> list[StateSpec]:
    """Return the keys and values of each layer, under the names that Optimum gives them."""
    states = []
    for k, attention in enumerate(attentions):
        shape = (BATCH, attention.kv_heads, time, attention.d_head)
        for name in (f"{k}{suffix}.key", f"{k}{suffix}.value"):
            past = TensorSpec(f"past_key_values.{name}", shape)
            states.append(StateSpec(past, f"present.{name}"))
    return states


def _list_attentions(blocks: nn.ModuleList, name: str = "attention") -> list[MultiHeadAttention]:
    attentions = [getattr(block, name) for block in blocks]
    return [attention for attention in attentions if isinstance(attention, MultiHeadAttention)]


def _build_caches(tensors: Sequence[Tensor]) -> list[ConcatenatedCache]:
    """Return caches of keys and values, which alternate."""
    pairs = zip(tensors[::2], tensors[1::2], strict=True)
    return [ConcatenatedCache(key, value) for key, value in pairs]


def _read_caches(caches: Sequence[ConcatenatedCache]) -> list[Tensor]:
    return [tensor for cache in caches for tensor in cache.read()]


def _hidden_states(stack: RecurrentStack) -> list[StateSpec]:
    """Return the hidden state of each layer, and the cell state of an LSTM."""
    shape = (BATCH, stack.hidden_size)
    return [
        StateSpec(TensorSpec(f"past.{k}.{part}", shape), f"present.{k}.{part}")
        for k in range(len(stack.layers))
        for part in _state_parts(stack)
    ]


def _state_parts(stack: RecurrentStack) -> tuple[str, ...]:
    return ("hidden", "cell") if stack.cell == "lstm" else ("hidden",)


def _nest_hidden_states(
    stack: RecurrentStack, tensors: Sequence[Tensor]
) -> list[list[HiddenState]]:
    """Return the hidden state of each layer in its one direction."""
    count = len(_state_parts(stack))
    return [[tuple(tensors[k : k + count])] for k in range(0, len(tensors), count)]


def _flatten_hidden_states(layers: Sequence[Sequence[HiddenState]]) -> list[Tensor]:
    return [tensor for directions in layers for state in directions for tensor in state]
