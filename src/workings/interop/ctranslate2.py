"""CTranslate2: conversion of models, and generation and beam search by its engine.

The engine is used where its result is the same as that of `decode`, only faster.
"""

import tempfile
from collections import deque
from collections.abc import Iterator, Sequence
from importlib.util import find_spec
from pathlib import Path
from threading import Event
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from jaxtyping import Float, Int
from torch import Tensor, nn

from workings.decode import (
    Hypothesis,
    Sampling,
    beam_search,
    best_reachable_score,
    generate,
    length_limits,
    penalty_divisor,
)
from workings.errors import UserError
from workings.layers.positions import LearnedPositions, SinusoidalPositions, sinusoids
from workings.layers.transformer import (
    DecoderBlock,
    EncoderBlock,
    LayerNorm,
    RMSNorm,
)
from workings.models.language import LanguageModel, TransformerLM
from workings.models.translation import START, SentenceBatch, TransformerTranslator, Translator
from workings.trace import is_tracing

if TYPE_CHECKING:
    from ctranslate2.specs import TransformerDecoderModelSpec, TransformerSpec

MAX_SINUSOIDAL_POSITIONS = 4096
"""Sinusoidal positions of a converted model; ours has no limit."""
ACTIVATIONS = {"relu": "RELU", "gelu": "GELU", "gelu-tanh": "GELUTanh", "silu": "SWISH"}

_SMALL_MODEL_PARAMETERS = 2**22
"""Models with fewer parameters are fastest with one thread."""
_PARAMETERS_PER_TOKEN = 2**19
"""Models with more parameters per token to generate are not converted: it would take longer.

The engine makes up for the conversion of GPT-2 small after some 200 tokens.
"""
_MAX_KEPT_LOGITS = 2**24
"""Logits that the engine keeps at a time: 64 MB."""
_CHUNK_TOKENS = 256
"""Tokens per call for a small model, where a callback for each would take a third more time."""
_POLL_SECONDS = 0.02
"""Pause between looks at the engine's output: a wake-up per token would take longer than it."""
_GREEDY_OPTIONS: dict[str, Any] = {
    "include_prompt_in_result": False,
    "end_token": [],
    "return_logits_vocab": True,
}
_NEGLIGIBLE_LENGTH_PENALTY = 1e-30
"""A length penalty that changes no score; with 0 the engine would stop early."""
_LENGTH_MARGIN, _LENGTH_STEP = 12, 8
"""A search is first run for this many tokens more than the source has, rounded up to a multiple."""


# -- conversion ------------------------------------------------------------------------------------


def convert_language_model(
    model: LanguageModel,
    token_names: Sequence[str],
    folder: Path,
    *,
    bos_id: int | None = None,
    eos_id: int | None = None,
    unk_id: int | None = None,
) -> None:
    """Write a model into a folder as CTranslate2 reads it, with a unique name for each token.

    `bos_id`, `eos_id` and `unk_id` are the ids of special tokens, if there are any.
    """
    spec = build_language_model_spec(model)
    spec.register_vocabulary(list(token_names))
    special_ids = {"bos_token": bos_id, "eos_token": eos_id, "unk_token": unk_id}
    for key, token_id in special_ids.items():
        if token_id is not None:
            setattr(spec.config, key, token_names[token_id])
    spec.validate()
    spec.optimize()  # a tied head is written once
    spec.save(str(folder))


def build_language_model_spec(model: LanguageModel) -> "TransformerDecoderModelSpec":
    """Return CTranslate2's specification of a model, with its weights."""
    if not isinstance(model, TransformerLM):
        raise UserError("CTranslate2 runs Transformers: a recurrent model cannot be converted")
    from ctranslate2.specs import Activation, TransformerDecoderModelSpec

    block = model.blocks[0]
    assert isinstance(block, EncoderBlock)
    attention = block.attention
    has_kv_heads = attention.kv_heads != attention.heads
    if not _is_convertible(block):
        raise UserError(
            'CTranslate2 has no parallel_residual with RMS norms: expected norm_kind = "layer"'
        )
    spec = TransformerDecoderModelSpec.from_config(
        len(model.blocks),
        attention.heads,
        pre_norm=block.attention_residual.norm_placement == "pre",
        activation=getattr(Activation, ACTIVATIONS[block.feed_forward.activation]),
        rms_norm=isinstance(block.attention_residual.norm, RMSNorm),
        ffn_glu=block.feed_forward.gate is not None,
        parallel_residual=block.is_parallel,
        rotary_dim=None if attention.rotary is None else attention.rotary.width,
        rotary_interleave=False,
        rotary_base=10_000.0 if attention.rotary is None else attention.rotary.base,
        num_heads_kv=attention.kv_heads if has_kv_heads else None,
    )
    spec.config.layer_norm_epsilon = block.attention_residual.norm.eps
    decoder = spec.decoder
    decoder.scale_embeddings = False
    decoder.embeddings.weight = to_cpu_float(model.embedding.weight)
    if isinstance(model.positions, LearnedPositions):
        decoder.position_encodings.encodings = to_cpu_float(model.positions.table)
    elif isinstance(model.positions, SinusoidalPositions):
        set_sinusoids(decoder.position_encodings, model.positions)
    if isinstance(model.norm, LayerNorm | RMSNorm):
        set_norm(decoder.layer_norm, model.norm)
    set_linear(decoder.projection, model.head)
    for layer, block in zip(decoder.layer, model.blocks, strict=True):
        assert isinstance(block, EncoderBlock)
        set_encoder_block(layer, block)
    return spec


def _is_convertible(block: nn.Module) -> bool:
    """Return True if CTranslate2 has the layers of a block: it has layer norms, if parallel."""
    assert isinstance(block, EncoderBlock)
    return not (block.is_parallel and isinstance(block.attention_residual.norm, RMSNorm))


def convert_translator(
    model: Translator,
    token_names: tuple[Sequence[str], Sequence[str]],
    folder: Path,
    *,
    eos_id: int,
    unk_id: int,
    add_source_eos: bool = False,
) -> None:
    """Write a translator into a folder as CTranslate2 reads it.

    `token_names` are unique names for the tokens of source and target. `eos_id` and `unk_id` are
    ids of both. With `add_source_eos`, the engine adds the end token to sources itself.
    """
    spec = build_translator_spec(model)
    source, target = token_names
    for token_id in (eos_id, unk_id):
        if source[token_id] != target[token_id]:
            raise UserError(
                f"token {token_id} is {source[token_id]!r} in the source's vocabulary and "
                f"{target[token_id]!r} in the target's: expected the same special token"
            )
    spec.register_source_vocabulary(list(source))
    spec.register_target_vocabulary(list(target))
    spec.config.bos_token = spec.config.decoder_start_token = target[START]
    spec.config.eos_token, spec.config.unk_token = target[eos_id], target[unk_id]
    spec.config.add_source_eos = add_source_eos
    spec.validate()
    spec.optimize()  # shared embeddings are written once
    spec.save(str(folder))


def build_translator_spec(model: Translator) -> "TransformerSpec":
    """Return CTranslate2's specification of a translator, with its weights."""
    if not isinstance(model, TransformerTranslator):
        raise UserError("CTranslate2 runs Transformers: a recurrent model cannot be converted")
    from ctranslate2.specs import Activation, TransformerSpec

    block = model.encoder[0]
    assert isinstance(block, EncoderBlock)
    spec = TransformerSpec.from_config(
        len(model.encoder),
        block.attention.heads,
        pre_norm=block.attention_residual.norm_placement == "pre",
        activation=getattr(Activation, ACTIVATIONS[block.feed_forward.activation]),
    )
    spec.config.layer_norm_epsilon = block.attention_residual.norm.eps
    spec.encoder.embeddings[0].weight = to_cpu_float(model.source_embedding.weight)
    spec.decoder.embeddings.weight = to_cpu_float(model.target_embedding.weight)
    for side, norm in ((spec.encoder, model.encoder_norm), (spec.decoder, model.decoder_norm)):
        set_sinusoids(side.position_encodings, model.positions)
        if isinstance(norm, LayerNorm):
            set_norm(side.layer_norm, norm)
    set_linear(spec.decoder.projection, model.head)
    for layer, encoder_block in zip(spec.encoder.layer, model.encoder, strict=True):
        assert isinstance(encoder_block, EncoderBlock)
        set_encoder_block(layer, encoder_block)
    for layer, decoder_block in zip(spec.decoder.layer, model.decoder, strict=True):
        assert isinstance(decoder_block, DecoderBlock)
        set_decoder_block(layer, decoder_block)
    return spec


def set_encoder_block(layer: Any, block: EncoderBlock) -> None:
    """Copy the weights of a block without cross-attention to CTranslate2's layer."""
    if block.is_parallel:
        norms = layer.input_layer_norm, layer.post_attention_layer_norm
    else:
        norms = layer.self_attention.layer_norm, layer.ffn.layer_norm
    set_norm(norms[0], block.attention_residual.norm)
    set_norm(norms[1], block.feed_forward_residual.norm)
    _set_self_attention(layer, block)
    _set_feed_forward(layer, block)


def set_decoder_block(layer: Any, block: DecoderBlock) -> None:
    """Copy the weights of a block with cross-attention to CTranslate2's layer."""
    set_norm(layer.self_attention.layer_norm, block.attention_residual.norm)
    set_norm(layer.attention.layer_norm, block.cross_attention_residual.norm)
    set_norm(layer.ffn.layer_norm, block.feed_forward_residual.norm)
    _set_self_attention(layer, block)
    queries, memory, output = layer.attention.linear
    # Our matrix has the queries' rows first, then those of keys and values.
    width, qkv = block.cross_attention.d_model, block.cross_attention.qkv
    queries.weight, queries.bias = to_cpu_float(qkv.weight[:width]), to_cpu_float(qkv.bias[:width])
    memory.weight, memory.bias = to_cpu_float(qkv.weight[width:]), to_cpu_float(qkv.bias[width:])
    set_linear(output, block.cross_attention.output)
    _set_feed_forward(layer, block)


def _set_self_attention(layer: Any, block: EncoderBlock | DecoderBlock) -> None:
    set_linear(layer.self_attention.linear[0], block.attention.qkv)
    set_linear(layer.self_attention.linear[1], block.attention.output)


def _set_feed_forward(layer: Any, block: EncoderBlock | DecoderBlock) -> None:
    inner, gate = block.feed_forward.inner, block.feed_forward.gate
    set_linear(layer.ffn.linear_0, inner if gate is None else gate)
    if gate is not None:
        set_linear(layer.ffn.linear_0_noact, inner)
    set_linear(layer.ffn.linear_1, block.feed_forward.outer)


def set_norm(layer: Any, norm: LayerNorm | RMSNorm) -> None:
    """Copy the weights of a norm."""
    layer.gamma = to_cpu_float(norm.gamma)
    if isinstance(norm, LayerNorm):
        layer.beta = to_cpu_float(norm.beta)


def set_linear(layer: Any, linear: nn.Linear) -> None:
    """Copy the weights of a linear layer."""
    layer.weight = to_cpu_float(linear.weight)
    if linear.bias is not None:
        layer.bias = to_cpu_float(linear.bias)


def set_sinusoids(encodings: Any, positions: SinusoidalPositions) -> None:
    """Write our sinusoids as a table: CTranslate2's have all sines before all cosines."""
    count = MAX_SINUSOIDAL_POSITIONS + positions.first
    table = sinusoids(count, positions.width, base=positions.base)
    encodings.encodings = table[positions.first :]


def to_cpu_float(weight: Tensor) -> Tensor:
    """Return a tensor in single precision on the CPU."""
    return weight.detach().cpu().float()


# -- engines ---------------------------------------------------------------------------------------


def is_small(model: nn.Module) -> bool:
    """Return True if a model is fastest with one thread."""
    return _count_parameters(model) < _SMALL_MODEL_PARAMETERS


def choose_num_threads(model: nn.Module) -> int:
    """Return the number of threads for the engine: torch's, or one for a small model."""
    return 1 if is_small(model) else torch.get_num_threads()


class GenerationEngine:
    """A language model in CTranslate2: logits, and greedy generation.

    The engine samples with its own random numbers, so only greedy generation, which is the same as
    ours, is left to it.
    """

    def __init__(self, model: LanguageModel) -> None:
        import ctranslate2

        self.max_positions = model.max_positions
        self.vocab_size = model.embedding.num_embeddings
        self.is_small = is_small(model)
        with tempfile.TemporaryDirectory() as folder:  # the engine reads it completely at once
            convert_language_model(model, _to_names(range(self.vocab_size)), Path(folder))
            self._engine = ctranslate2.Generator(
                folder,
                device="cpu",
                compute_type="float32",
                intra_threads=choose_num_threads(model),
            )

    def compute_logits(
        self, ids: Int[Tensor, "batch time"]
    ) -> Float[Tensor, "batch time vocabulary"]:
        """Return the logits of the next token at every position."""
        logits = self._engine.forward_batch(ids.tolist(), return_log_probs=False)
        return torch.from_numpy(np.array(logits))

    def generate(
        self, prompt: Int[Tensor, "1 time"], max_tokens: int
    ) -> Iterator[tuple[Int[Tensor, "1"], Float[Tensor, "1 vocabulary"]]]:
        """Continue a prompt as `decode.generate` does with temperature 0."""
        context = self._truncate_context(prompt[0].tolist())
        generate_tokens = self._generate_chunk if self.is_small else self._generate_stream
        while max_tokens:
            count = min(max_tokens, max(1, _MAX_KEPT_LOGITS // self.vocab_size))
            if self.is_small:
                count = min(count, _CHUNK_TOKENS)
            if self.max_positions is not None:  # the last token needs no position
                count = min(count, self.max_positions - len(context) + 1)
            for token, logits in generate_tokens(context, count):
                context.append(token)
                yield torch.tensor([token]), logits
            max_tokens -= count
            context = self._truncate_context(context)

    def _truncate_context(self, ids: list[int]) -> list[int]:
        """Return the ids, or the last ones for half of the positions if there are too many."""
        if self.max_positions is None or len(ids) <= self.max_positions:
            return ids
        return ids[-max(self.max_positions // 2, 1) :]

    def _generate_chunk(self, prompt: Sequence[int], count: int) -> Iterator[tuple[int, Tensor]]:
        """Yield tokens and logits after all of them are generated."""
        (result,) = self._engine.generate_batch(
            [_to_names(prompt)], max_length=count, **_GREEDY_OPTIONS
        )
        yield from zip(result.sequences_ids[0], map(_logits_row, result.logits[0]), strict=True)

    def _generate_stream(self, prompt: Sequence[int], count: int) -> Iterator[tuple[int, Tensor]]:
        """Yield tokens and logits while the engine generates them in its own thread."""
        steps: deque[tuple[int, Any]] = deque()
        is_cancelled, is_finished = Event(), Event()

        def on_step(step: Any) -> bool:
            steps.append((step.token_id, step.logits))
            if step.is_last:
                is_finished.set()
            return is_cancelled.is_set()

        (result,) = self._engine.generate_batch(
            [_to_names(prompt)],
            max_length=count,
            asynchronous=True,
            callback=on_step,
            **_GREEDY_OPTIONS,
        )
        try:
            while count:
                is_finished.wait(_POLL_SECONDS)
                has_failed = result.done() and not steps
                while steps:
                    token, logits = steps.popleft()
                    yield token, _logits_row(logits)
                    count -= 1
                if has_failed:
                    result.result()  # raises the engine's error
                    raise RuntimeError("CTranslate2 generated fewer tokens than requested")
        finally:  # also if the consumer stops early
            is_cancelled.set()
            result.result()


def _to_names(ids: Sequence[int]) -> list[str]:
    """Return the names of tokens in the engines, which are their ids."""
    return [str(token_id) for token_id in ids]


def _logits_row(logits: Any) -> Float[Tensor, "1 vocabulary"]:
    return torch.from_numpy(np.asarray(logits)).view(1, -1)


class TranslationEngine:
    """A translator in CTranslate2: scores of translations, and beam search."""

    def __init__(self, model: Translator, stop: int) -> None:
        import ctranslate2

        self.stop = stop
        source = _to_names(range(model.source_embedding.num_embeddings))
        target = _to_names(range(model.target_embedding.num_embeddings))
        with tempfile.TemporaryDirectory() as folder:  # the engine reads it completely at once
            convert_translator(model, (source, target), Path(folder), eos_id=stop, unk_id=2)
            self._engine = ctranslate2.Translator(
                folder,
                device="cpu",
                compute_type="float32",
                intra_threads=choose_num_threads(model),
            )

    def score_targets(
        self, source: SentenceBatch, targets: Sequence[Sequence[int]]
    ) -> list[list[float]]:
        """Return the log probability of every token of translations, and of the end after them."""
        results = self._engine.score_batch(_source_names(source), [_to_names(t) for t in targets])
        return [list(result.log_probs) for result in results]

    def search(
        self,
        source: SentenceBatch,
        *,
        max_length: int | Sequence[int],
        beams: int,
        length_penalty: float,
        num_best: int,
    ) -> list[list[Hypothesis]]:
        """Return the `num_best` best hypotheses that `decode.beam_search` finds."""
        names = _source_names(source)
        limits = length_limits(max_length, len(names))
        # Without a length penalty the engine stops as ours does, and one search is enough.
        stops_alike = beams == 1 or (num_best == 1 and length_penalty == 0)
        lengths = [
            limit if stops_alike else _initial_length(len(tokens), limit)
            for tokens, limit in zip(names, limits, strict=True)
        ]
        hypotheses: dict[int, list[Hypothesis]] = {}
        while remaining := [k for k in range(len(names)) if k not in hypotheses]:
            length = min(lengths[k] for k in remaining)
            batch = [k for k in remaining if lengths[k] == length]
            sources = [names[k] for k in batch]
            if stops_alike:
                results = self._translate_batch(
                    sources, beam_size=beams, max_decoding_length=length
                )
            else:
                results = self._collect_hypotheses(sources, beams, length)
            for k, result in zip(batch, results, strict=True):
                ranked = _rank_hypotheses(
                    result, self.stop, length, limits[k], num_best, length_penalty
                )
                if ranked is None:
                    lengths[k] = min(2 * length, limits[k])
                else:
                    hypotheses[k] = ranked
        return [hypotheses[k] for k in range(len(names))]

    def _collect_hypotheses(
        self, sources: list[list[str]], beams: int, length_limit: int
    ) -> list[Any]:
        """Return all hypotheses that end within `length_limit` tokens, and the unfinished beams."""
        return self._translate_batch(
            sources,
            beam_size=beams,
            patience=length_limit,  # the engine stops only at the limit
            num_hypotheses=beams * length_limit,
            length_penalty=_NEGLIGIBLE_LENGTH_PENALTY,
            max_decoding_length=length_limit,
        )

    def _translate_batch(self, sources: list[list[str]], **options: float) -> list[Any]:
        results = self._engine.translate_batch(
            sources,
            min_decoding_length=0,  # a translation may be empty
            max_input_length=0,
            return_scores=True,
            return_end_token=True,
            **({"length_penalty": 0} | options),
        )
        return list(results)


def _initial_length(source_length: int, max_length: int) -> int:
    """Return a length at which most searches are over; rounded, so that batches are larger."""
    length = source_length + _LENGTH_MARGIN
    return min(max_length, (length + _LENGTH_STEP - 1) // _LENGTH_STEP * _LENGTH_STEP)


def _rank_hypotheses(
    result: Any, stop: int, length_limit: int, max_length: int, num_best: int, length_penalty: float
) -> list[Hypothesis] | None:
    """Return the best hypotheses with our length penalty.

    Returns None if a hypothesis of more than `length_limit` tokens may be better.
    """
    end, finished, unfinished, at_limit = str(stop), [], [], []
    for tokens, log_prob in zip(result.hypotheses, result.scores, strict=True):
        if len(tokens) == length_limit:
            at_limit.append(log_prob)
        if tokens[-1] == end or length_limit == max_length:
            score = log_prob / penalty_divisor(len(tokens), length_penalty)
            finished.append((score, log_prob, tokens))
        else:
            unfinished.append(log_prob)
    finished.sort(key=lambda hypothesis: -hypothesis[0])
    if length_limit < max_length:
        # The engine returns the best beams: if all of them end, others are not better than these.
        best = max(unfinished) if unfinished else min(at_limit)
        reachable = best_reachable_score(best, length_limit, max_length, length_penalty)
        if len(finished) < num_best or finished[num_best - 1][0] < reachable:
            return None
    return [
        Hypothesis(tuple(int(t) for t in tokens if t != end), log_prob, score)
        for score, log_prob, tokens in finished[:num_best]
    ]


def _source_names(source: SentenceBatch) -> list[list[str]]:
    rows = zip(source.ids.tolist(), source.lengths.tolist(), strict=True)
    return [_to_names(ids[:length]) for ids, length in rows]


# -- engines in place of torch ---------------------------------------------------------------------


class AcceleratedGenerator:
    """Generation by CTranslate2 where that gives the same text, and else by torch.

    It is called like `decode.generate`, without the model. The model is converted for the
    first prompt that the engine can continue, which takes milliseconds for a small one.
    """

    def __init__(self, model: LanguageModel) -> None:
        self.model = model
        self._engine: GenerationEngine | None = None

    def __call__(
        self, prompt: Int[Tensor, "batch time"], max_tokens: int, sampling: Sampling
    ) -> Iterator[tuple[Int[Tensor, " batch"], Float[Tensor, "batch vocabulary"]]]:
        """Yield each token as soon as it is generated, with the logits it was chosen from."""
        if not self.can_use_engine(prompt, max_tokens, sampling):
            return generate(self.model, prompt, max_tokens, sampling)
        if self._engine is None:
            self._engine = GenerationEngine(self.model)
        return self._engine.generate(prompt, max_tokens)

    def can_use_engine(
        self, prompt: Int[Tensor, "batch time"], max_tokens: int, sampling: Sampling
    ) -> bool:
        """Return True if the engine gives the same text sooner, and no trace is open."""
        model = self.model
        if not isinstance(model, TransformerLM) or not _can_accelerate(model):
            return False
        if not _is_convertible(model.blocks[0]):
            return False
        if self._engine is None and not _is_worth_converting(model, max_tokens):
            return False
        is_greedy = sampling.temperature == 0 and sampling.repetition_penalty == 1.0
        has_positions = (
            not isinstance(model.positions, SinusoidalPositions)
            or prompt.shape[1] + max_tokens <= MAX_SINUSOIDAL_POSITIONS
        )
        return is_greedy and len(prompt) == 1 and has_positions


class AcceleratedBeamSearch:
    """Beam search by CTranslate2 where that finds the same translations, and else by torch.

    It is called like `decode.beam_search`, without the model, and returns the `num_best` best
    hypotheses: fewer take less time.
    """

    def __init__(self, model: Translator, num_best: int = 1) -> None:
        self.model, self.num_best = model, num_best
        self._engine: TranslationEngine | None = None

    def __call__(
        self,
        source: SentenceBatch,
        *,
        stop: int,
        max_length: int | Sequence[int],
        beams: int,
        length_penalty: float,
    ) -> list[list[Hypothesis]]:
        """Return the best translations of each source, best first."""
        options = {"max_length": max_length, "beams": beams, "length_penalty": length_penalty}
        if not self.can_use_engine(source, max(length_limits(max_length, len(source.ids))), beams):
            return beam_search(self.model, source, stop=stop, num_best=self.num_best, **options)  # type: ignore[arg-type]
        if self._engine is None or self._engine.stop != stop:
            self._engine = TranslationEngine(self.model, stop)
        return self._engine.search(source, num_best=min(self.num_best, beams), **options)  # type: ignore[arg-type]

    def can_use_engine(self, source: SentenceBatch, max_length: int, beams: int) -> bool:
        """Return True if the engine is installed, has enough positions, and no trace is open."""
        model = self.model
        if not isinstance(model, TransformerTranslator) or not _can_accelerate(model):
            return False
        if model.forced_first_id is not None:
            return False
        has_beams = beams >= 1 and 2 * beams <= model.target_embedding.num_embeddings
        has_sources = int(source.lengths.min()) > 1  # the engine skips a source of only its end
        has_positions = max(max_length, source.ids.shape[1]) <= MAX_SINUSOIDAL_POSITIONS
        return has_beams and has_sources and max_length >= 1 and has_positions


def _can_accelerate(model: nn.Module) -> bool:
    """Return True if CTranslate2 is installed, the model is on the CPU, and no trace is open."""
    on_cpu = not next(model.parameters()).is_cuda
    return find_spec("ctranslate2") is not None and on_cpu and not is_tracing()


def _is_worth_converting(model: nn.Module, max_tokens: int) -> bool:
    return _count_parameters(model) <= _PARAMETERS_PER_TOKEN * max_tokens


def _count_parameters(model: nn.Module) -> int:
    return sum(parameter.numel() for parameter in model.parameters())
