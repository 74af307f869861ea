"""Layers in CTranslate2's own terms: what language models and translators have in common."""

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

from workings.decode.beam import (
    Hypothesis,
    beam_search,
    best_reachable_score,
    length_limits,
    penalty_divisor,
)
from workings.decode.sampling import Sampling, generate
from workings.errors import UserError
from workings.layers.positions import LearnedPositions, SinusoidalPositions, sinusoids
from workings.layers.transformer import DecoderBlock, EncoderBlock, LayerNorm, Residual
from workings.models.language import LanguageModel, TransformerLM
from workings.models.translation import START, SentenceBatch, TransformerTranslator, Translator
from workings.trace import is_tracing

MAX_SINUSOIDAL_POSITIONS = 4096
"""Positions that a converted model has where ours goes on without end."""
ACTIVATIONS = {"relu": "RELU", "gelu": "GELU", "gelu-tanh": "GELUTanh", "silu": "SWISH"}
_SMALL_MODEL_PARAMETERS = 2**22
"""Weights below which threads would wait for each other longer than they compute."""


def is_small(model: nn.Module) -> bool:
    """Whether a model is computed fastest by one thread."""
    return sum(weight.numel() for weight in model.parameters()) < _SMALL_MODEL_PARAMETERS


def choose_num_threads(model: nn.Module) -> int:
    """How many threads the engine may take: as many as torch has, and one for a small model."""
    return 1 if is_small(model) else torch.get_num_threads()


def set_encoder_block(layer: Any, block: EncoderBlock) -> None:
    """Give a layer the weights of a block that looks at its own sequence."""
    _set_residual_norm(layer.self_attention, block.attention_residual)
    set_linear(layer.self_attention.linear[0], block.attention.qkv)
    set_linear(layer.self_attention.linear[1], block.attention.output)
    _set_feed_forward(layer, block)


def set_decoder_block(layer: Any, block: DecoderBlock) -> None:
    """Give a layer the weights of a block that looks at a source, too."""
    _set_residual_norm(layer.self_attention, block.attention_residual)
    set_linear(layer.self_attention.linear[0], block.attention.qkv)
    set_linear(layer.self_attention.linear[1], block.attention.output)
    _set_residual_norm(layer.attention, block.cross_attention_residual)
    queries, memory, output = layer.attention.linear
    width, project = (
        block.cross_attention.d_model,
        block.cross_attention.qkv,
    )  # queries above keys and values
    queries.weight, queries.bias = (
        to_cpu_float(project.weight[:width]),
        to_cpu_float(project.bias[:width]),
    )
    memory.weight, memory.bias = (
        to_cpu_float(project.weight[width:]),
        to_cpu_float(project.bias[width:]),
    )
    set_linear(output, block.cross_attention.output)
    _set_feed_forward(layer, block)


def set_norm(layer: Any, norm: LayerNorm) -> None:
    """Give a layer norm its weights."""
    layer.gamma, layer.beta = to_cpu_float(norm.gamma), to_cpu_float(norm.beta)


def set_linear(layer: Any, linear: nn.Linear) -> None:
    """Give a linear layer its weights."""
    layer.weight = to_cpu_float(linear.weight)
    if linear.bias is not None:
        layer.bias = to_cpu_float(linear.bias)


def set_sinusoids(encodings: Any, positions: SinusoidalPositions) -> None:
    """Write our sinusoids out: theirs have all sines first, then all cosines."""
    encodings.encodings = sinusoids(MAX_SINUSOIDAL_POSITIONS, positions.width, base=positions.base)


def to_cpu_float(weight: Tensor) -> Tensor:
    """A tensor as it is saved."""
    return weight.detach().cpu().float()


def _set_feed_forward(layer: Any, block: EncoderBlock | DecoderBlock) -> None:
    _set_residual_norm(layer.ffn, block.feed_forward_residual)
    set_linear(layer.ffn.linear_0, block.feed_forward.inner)
    set_linear(layer.ffn.linear_1, block.feed_forward.outer)


def _set_residual_norm(layer: Any, residual: Residual) -> None:
    set_norm(layer.layer_norm, residual.norm)


if TYPE_CHECKING:
    from ctranslate2.specs import TransformerDecoderModelSpec

_MAX_KEPT_LOGITS = 2**24
"""Scores that the engine keeps of a stretch of text, at most: 64 MB."""
_POLL_SECONDS = 0.02
"""Seconds between looks at what was found: to be woken for each token would take longer than it."""
_CHUNK_TOKENS = 256
"""Tokens that a small model writes before it tells of them: to tell of each takes a third more."""


def convert_language_model(
    model: LanguageModel,
    token_names: Sequence[str],
    folder: Path,
    *,
    bos_id: int | None = None,
    eos_id: int | None = None,
    unk_id: int | None = None,
) -> None:
    """Write a model into a folder as CTranslate2 reads it, with a name for each token, all unlike.

    `start`, `stop` and `unknown` are the ids of those tokens, where there are such.
    """
    spec = build_language_model_spec(model)
    spec.register_vocabulary(list(token_names))
    marks = {"bos_token": bos_id, "eos_token": eos_id, "unk_token": unk_id}
    for key, number in marks.items():
        if number is not None:
            setattr(spec.config, key, token_names[number])
    spec.validate()
    spec.optimize()  # a tied head is written once
    spec.save(str(folder))


def build_language_model_spec(model: LanguageModel) -> "TransformerDecoderModelSpec":
    """Describe a model, weights and all, in CTranslate2's own terms."""
    if not isinstance(model, TransformerLM):
        raise UserError("CTranslate2 runs Transformers: a recurrent model cannot be converted")
    from ctranslate2.specs import Activation, TransformerDecoderModelSpec

    block = model.blocks[0]
    assert isinstance(block, EncoderBlock)
    attention = block.attention
    own_keys = attention.kv_heads == attention.heads
    spec = TransformerDecoderModelSpec.from_config(
        len(model.blocks),
        attention.heads,
        pre_norm=block.attention_residual.norm_placement == "pre",
        activation=getattr(Activation, ACTIVATIONS[block.feed_forward.activation]),
        rotary_dim=None if attention.rotary is None else attention.d_head,
        rotary_interleave=False,
        rotary_base=10_000.0 if attention.rotary is None else attention.rotary.base,
        num_heads_kv=None if own_keys else attention.kv_heads,
    )
    spec.config.layer_norm_epsilon = block.attention_residual.norm.eps
    decoder = spec.decoder
    decoder.scale_embeddings = False
    decoder.embeddings.weight = to_cpu_float(model.embedding.weight)
    if isinstance(model.positions, LearnedPositions):
        decoder.position_encodings.encodings = to_cpu_float(model.positions.table)
    elif isinstance(model.positions, SinusoidalPositions):
        set_sinusoids(decoder.position_encodings, model.positions)
    if isinstance(model.norm, LayerNorm):
        set_norm(decoder.layer_norm, model.norm)
    set_linear(decoder.projection, model.head)
    for layer, ours in zip(decoder.layer, model.blocks, strict=True):
        assert isinstance(ours, EncoderBlock)
        set_encoder_block(layer, ours)
    return spec


class GenerationEngine:
    """A model in CTranslate2's hands: what it scores, and how it goes on with a prompt, greedily.

    The engine draws tokens in its own way and cannot be told which to take, so that only the
    likeliest ones are left to it: those are the same as ours.
    """

    def __init__(self, model: LanguageModel) -> None:
        import ctranslate2

        self.max_positions = model.max_positions
        self.vocab_size = model.embedding.num_embeddings
        self.is_small = is_small(model)
        with tempfile.TemporaryDirectory() as folder:  # it is read at once, and as a whole
            convert_language_model(model, [str(k) for k in range(self.vocab_size)], Path(folder))
            self._engine = ctranslate2.Generator(
                folder,
                device="cpu",
                compute_type="float32",
                intra_threads=choose_num_threads(model),
            )

    def compute_logits(
        self, ids: Int[Tensor, "batch time"]
    ) -> Float[Tensor, "batch time vocabulary"]:
        """Score the next token at every place."""
        found = self._engine.forward_batch(ids.tolist(), return_log_probs=False)
        return torch.from_numpy(np.array(found))

    def generate(
        self, prompt: Int[Tensor, "1 time"], max_tokens: int
    ) -> Iterator[tuple[Int[Tensor, "1"], Float[Tensor, "1 vocabulary"]]]:
        """Go on with a prompt as `decode.sample.generate` does, always with the likeliest token."""
        window = self._truncate_context(prompt[0].tolist())
        while max_tokens:
            room = max(1, _MAX_KEPT_LOGITS // self.vocab_size)
            if self.is_small:
                room = min(room, _CHUNK_TOKENS)
            if self.max_positions is not None:  # the last token is not read again
                room = min(room, self.max_positions - len(window) + 1)
            count = min(max_tokens, room)
            for token, scores in (self._generate_chunk if self.is_small else self._generate_stream)(
                window, count
            ):
                window.append(token)
                yield torch.tensor([token]), scores
            max_tokens -= count
            window = self._truncate_context(window)

    def _truncate_context(self, ids: list[int]) -> list[int]:
        """What the model goes on from: where no positions are left, the later half of them."""
        if self.max_positions is None or len(ids) <= self.max_positions:
            return ids
        return ids[-max(self.max_positions // 2, 1) :]

    def _generate_chunk(self, prompt: Sequence[int], count: int) -> Iterator[tuple[int, Tensor]]:
        """Tokens and their scores, when all of them are found."""
        (found,) = self._engine.generate_batch(
            [_token_names(prompt)], max_length=count, **_GREEDY_OPTIONS
        )
        yield from zip(found.sequences_ids[0], map(_logits_row, found.logits[0]), strict=True)

    def _generate_stream(self, prompt: Sequence[int], count: int) -> Iterator[tuple[int, Tensor]]:
        """Tokens and their scores, as the engine finds them in a thread of its own."""
        found: deque[tuple[int, Any]] = deque()
        enough, ended = Event(), Event()

        def tell(step: Any) -> bool:
            found.append((step.token_id, step.logits))
            if step.is_last:
                ended.set()
            return enough.is_set()

        (running,) = self._engine.generate_batch(
            [_token_names(prompt)],
            max_length=count,
            asynchronous=True,
            callback=tell,
            **_GREEDY_OPTIONS,
        )
        try:
            while count:
                ended.wait(_POLL_SECONDS)
                failed = running.done() and not found
                while found:
                    token, logits = found.popleft()
                    yield token, _logits_row(logits)
                    count -= 1
                if failed:
                    running.result()  # raises what went wrong
                    raise RuntimeError("CTranslate2 stopped before it was told to")
        finally:  # also when the consumer has enough
            enough.set()
            running.result()


_GREEDY_OPTIONS: dict[str, Any] = {
    "include_prompt_in_result": False,
    "end_token": [],
    "return_logits_vocab": True,
}


def _token_names(ids: Sequence[int]) -> list[str]:
    return [str(k) for k in ids]


def _logits_row(logits: Any) -> Float[Tensor, "1 vocabulary"]:
    return torch.from_numpy(np.asarray(logits)).view(1, -1)


if TYPE_CHECKING:
    from ctranslate2.specs import TransformerSpec

_NEGLIGIBLE_LENGTH_PENALTY = 1e-30
"""A length penalty that changes no score, but is none of 0: with that, the engine stops early."""
_LENGTH_MARGIN, _LENGTH_STEP = 12, 8
"""Tokens more than the source has, at which a search is looked at first, rounded up to eights."""


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

    `names` has one for each token of the source and of the target, no two of a language alike;
    `stop` and `unknown` are ids in both. `adds_stop`: the engine ends sources itself.
    """
    spec = build_translator_spec(model)
    source, target = token_names
    for number in (eos_id, unk_id):
        if source[number] != target[number]:
            raise UserError(f"{source[number]!r} is a mark in one language and a word in the other")
    spec.register_source_vocabulary(list(source))
    spec.register_target_vocabulary(list(target))
    spec.config.bos_token = spec.config.decoder_start_token = target[START]
    spec.config.eos_token, spec.config.unk_token = target[eos_id], target[unk_id]
    spec.config.add_source_eos = add_source_eos
    spec.validate()
    spec.optimize()  # what is shared is written once
    spec.save(str(folder))


def build_translator_spec(model: Translator) -> "TransformerSpec":
    """Describe a translator, weights and all, in CTranslate2's own terms."""
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
    for layer, ours in zip(spec.encoder.layer, model.encoder, strict=True):
        assert isinstance(ours, EncoderBlock)
        set_encoder_block(layer, ours)
    for layer, ours in zip(spec.decoder.layer, model.decoder, strict=True):
        assert isinstance(ours, DecoderBlock)
        set_decoder_block(layer, ours)
    return spec


class TranslationEngine:
    """A translator in CTranslate2's hands: what it scores, and what it finds for sources."""

    def __init__(self, model: Translator, stop: int) -> None:
        import ctranslate2

        self.stop = stop
        sizes = model.source_embedding.num_embeddings, model.target_embedding.num_embeddings
        source, target = ([str(k) for k in range(size)] for size in sizes)
        with tempfile.TemporaryDirectory() as folder:  # it is read at once, and as a whole
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
        """The log probability of every token of translations, and of the stop after them."""
        told = self._engine.score_batch(
            _source_token_names(source), [[str(k) for k in t] for t in targets]
        )
        return [list(one.log_probs) for one in told]

    def search(
        self,
        source: SentenceBatch,
        *,
        max_length: int | Sequence[int],
        beams: int,
        length_penalty: float,
        num_best: int,
    ) -> list[list[Hypothesis]]:
        """Find the `best` of what `decode.beam.beam_search` finds."""
        names = _source_token_names(source)
        limits = length_limits(max_length, len(names))
        # By likelihood alone it ends when nothing likelier can come, as ours: one search is enough.
        likeliest = beams == 1 or (num_best == 1 and length_penalty == 0)
        lengths = [
            limit if likeliest else _initial_length(len(tokens), limit)
            for tokens, limit in zip(names, limits, strict=True)
        ]
        found: dict[int, list[Hypothesis]] = {}
        while rest := [k for k in range(len(names)) if k not in found]:
            most = min(lengths[k] for k in rest)
            some = [k for k in rest if lengths[k] == most]
            sources = [names[k] for k in some]
            if likeliest:
                told = self._translate_batch(sources, beam_size=beams, max_decoding_length=most)
            else:
                told = self._collect_hypotheses(sources, beams, most)
            for k, one in zip(some, told, strict=True):
                ranked = _rank_hypotheses(one, self.stop, most, limits[k], num_best, length_penalty)
                if ranked is None:
                    lengths[k] = min(2 * most, limits[k])
                else:
                    found[k] = ranked
        return [found[k] for k in range(len(names))]

    def _collect_hypotheses(
        self, sources: list[list[str]], beams: int, length_limit: int
    ) -> list[Any]:
        """Everything that ends within so many tokens, and the beams that do not."""
        return self._translate_batch(
            sources,
            beam_size=beams,
            patience=length_limit,  # to stop only then
            num_hypotheses=beams * length_limit,
            length_penalty=_NEGLIGIBLE_LENGTH_PENALTY,
            max_decoding_length=length_limit,
        )

    def _translate_batch(self, sources: list[list[str]], **options: float) -> list[Any]:
        found = self._engine.translate_batch(
            sources,
            min_decoding_length=0,  # a translation may be empty
            max_input_length=0,
            return_scores=True,
            return_end_token=True,
            **({"length_penalty": 0} | options),
        )
        return list(found)


def _initial_length(source_length: int, max_length: int) -> int:
    """A length at which most searches can be seen to be over, in steps: few lengths, few calls."""
    return min(
        max_length,
        (source_length + _LENGTH_MARGIN + _LENGTH_STEP - 1) // _LENGTH_STEP * _LENGTH_STEP,
    )


def _rank_hypotheses(
    result: Any, stop: int, length_limit: int, max_length: int, num_best: int, length_penalty: float
) -> list[Hypothesis] | None:
    """The best by our rule of what was found; None: beyond `most` tokens there may be better."""
    mark, ended, last, unfinished = str(stop), [], [], []
    for tokens, log in zip(result.hypotheses, result.scores, strict=True):
        if len(tokens) == length_limit:
            last.append(log)
        if tokens[-1] == mark or length_limit == max_length:
            ended.append((log / penalty_divisor(len(tokens), length_penalty), log, tokens))
        else:
            unfinished.append(log)
    ended.sort(key=lambda one: -one[0])
    if length_limit < max_length:
        # The best continuations are told; where all of those end, the rest is no better than they.
        best = max(unfinished) if unfinished else min(last)
        if len(ended) < num_best or ended[num_best - 1][0] < best_reachable_score(
            best, length_limit, max_length, length_penalty
        ):
            return None
    return [
        Hypothesis(tuple(int(t) for t in tokens if t != mark), log, score)
        for score, log, tokens in ended[:num_best]
    ]


def _source_token_names(source: SentenceBatch) -> list[list[str]]:
    rows = zip(source.ids.tolist(), source.lengths.tolist(), strict=True)
    return [[str(k) for k in ids[:length]] for ids, length in rows]


class AcceleratedGenerator:
    """Goes on with prompts: by CTranslate2 where that writes the same text, else by torch.

    It stands where `decode.sample.generate` does, without the model. The first prompt that the
    engine can take has the model converted, which for a small one takes milliseconds.
    """

    def __init__(self, model: LanguageModel) -> None:
        self.model = model
        self._engine: GenerationEngine | None = None

    def __call__(
        self, prompt: Int[Tensor, "batch time"], max_tokens: int, sampling: Sampling
    ) -> Iterator[tuple[Int[Tensor, " batch"], Float[Tensor, "batch vocabulary"]]]:
        """Give each token as soon as it is chosen, with the scores it had."""
        if not self.can_use_engine(prompt, max_tokens, sampling):
            return generate(self.model, prompt, max_tokens, sampling)
        if self._engine is None:
            self._engine = GenerationEngine(self.model)
        return self._engine.generate(prompt, max_tokens)

    def can_use_engine(
        self, prompt: Int[Tensor, "batch time"], max_tokens: int, sampling: Sampling
    ) -> bool:
        """Decide: it must be there, its text the same as ours, and nobody look inside."""
        model = self.model
        if not isinstance(model, TransformerLM) or not _can_accelerate(model):
            return False
        endless = not isinstance(model.positions, SinusoidalPositions)
        likeliest = sampling.temperature == 0 and sampling.repetition_penalty == 1.0
        return (
            likeliest
            and len(prompt) == 1
            and (endless or prompt.shape[1] + max_tokens <= MAX_SINUSOIDAL_POSITIONS)
        )


class AcceleratedBeamSearch:
    """Searches for translations: by CTranslate2 where that finds the same ones, else by torch.

    It stands where `decode.beam.beam_search` does, without the model, and gives the `best` of what
    that finds: to be sure of fewer takes less time.
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
        """Find for each source the best translations, best first."""
        how = {"max_length": max_length, "beams": beams, "length_penalty": length_penalty}
        if not self.can_use_engine(source, max(length_limits(max_length, len(source.ids))), beams):
            return beam_search(self.model, source, stop=stop, num_best=self.num_best, **how)  # type: ignore[arg-type]
        if self._engine is None or self._engine.stop != stop:
            self._engine = TranslationEngine(self.model, stop)
        return self._engine.search(source, num_best=min(self.num_best, beams), **how)  # type: ignore[arg-type]

    def can_use_engine(self, source: SentenceBatch, max_length: int, beams: int) -> bool:
        """Decide: it must be there, able to keep so many beams and positions, and nobody look."""
        model = self.model
        if not isinstance(model, TransformerTranslator) or not _can_accelerate(model):
            return False
        keeps = beams >= 1 and 2 * beams <= model.target_embedding.num_embeddings
        reads = int(source.lengths.min()) > 1  # it passes over a source that is just its stop
        return (
            keeps
            and reads
            and max_length >= 1
            and max(max_length, source.ids.shape[1]) <= MAX_SINUSOIDAL_POSITIONS
        )


def _can_accelerate(model: nn.Module) -> bool:
    """Whether a model may be left to the engine: it is there, and nobody looks inside."""
    on_cpu = not next(model.parameters()).is_cuda
    return find_spec("ctranslate2") is not None and on_cpu and not is_tracing()
