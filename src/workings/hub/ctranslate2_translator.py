"""CTranslate2 for translators: our models in its format, and our beam search done by it.

Both searches keep the same beams; they differ in when they stop and in how lengths count. So the
engine is told neither: it follows its beams up to a length and tells all that it found on the way,
which is ranked here by our rule. What was still unfinished at that length says whether a longer
search could have found better; if so, it is done again, twice as far.
"""

import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from workings.decode.beam import Hypothesis, limit_of_each, penalty, reach
from workings.errors import UserError
from workings.hub.ctranslate2_layers import (
    ACTIVATIONS,
    plain,
    set_decoder_block,
    set_encoder_block,
    set_linear,
    set_norm,
    set_sinusoids,
    threads_for,
)
from workings.layers.blocks import DecoderBlock, EncoderBlock
from workings.layers.norms import LayerNorm
from workings.models.transformer_translator import TransformerTranslator
from workings.models.translators import START, Sentences, Translator

if TYPE_CHECKING:
    from ctranslate2.specs import TransformerSpec

_NOTHING = 1e-30
"""A length penalty that changes no score, but is none of 0: with that, the engine stops early."""
_MARGIN, _STEP = 12, 8
"""Tokens more than the source has, at which a search is looked at first, rounded up to eights."""


def convert_translator(
    model: Translator,
    names: tuple[Sequence[str], Sequence[str]],
    folder: Path,
    *,
    stop: int,
    unknown: int,
    adds_stop: bool = False,
) -> None:
    """Write a translator into a folder as CTranslate2 reads it.

    `names` has one for each token of the source and of the target, no two of a language alike;
    `stop` and `unknown` are ids in both. `adds_stop`: the engine ends sources itself.
    """
    spec = translator_specification(model)
    source, target = names
    for number in (stop, unknown):
        if source[number] != target[number]:
            raise UserError(f"{source[number]!r} is a mark in one language and a word in the other")
    spec.register_source_vocabulary(list(source))
    spec.register_target_vocabulary(list(target))
    spec.config.bos_token = spec.config.decoder_start_token = target[START]
    spec.config.eos_token, spec.config.unk_token = target[stop], target[unknown]
    spec.config.add_source_eos = adds_stop
    spec.validate()
    spec.optimize()  # what is shared is written once
    spec.save(str(folder))


def translator_specification(model: Translator) -> "TransformerSpec":
    """Describe a translator, weights and all, in CTranslate2's own terms."""
    if not isinstance(model, TransformerTranslator):
        raise UserError("CTranslate2 runs Transformers: a recurrent model cannot be converted")
    from ctranslate2.specs import Activation, TransformerSpec

    block = model.encoder[0]
    assert isinstance(block, EncoderBlock)
    spec = TransformerSpec.from_config(
        len(model.encoder),
        block.attention.heads,
        pre_norm=block.around_attention.place == "pre",
        activation=getattr(Activation, ACTIVATIONS[block.feed_forward.activation]),
    )
    spec.config.layer_norm_epsilon = block.around_attention.norm.eps
    spec.encoder.embeddings[0].weight = plain(model.source_embedding.weight)
    spec.decoder.embeddings.weight = plain(model.target_embedding.weight)
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
            convert_translator(model, (source, target), Path(folder), stop=stop, unknown=2)
            self._engine = ctranslate2.Translator(
                folder, device="cpu", compute_type="float32", intra_threads=threads_for(model)
            )

    def scores(self, source: Sentences, targets: Sequence[Sequence[int]]) -> list[list[float]]:
        """The log probability of every token of translations, and of the stop after them."""
        told = self._engine.score_batch(_names(source), [[str(k) for k in t] for t in targets])
        return [list(one.log_probs) for one in told]

    def search(
        self,
        source: Sentences,
        *,
        longest: int | Sequence[int],
        beams: int,
        length_penalty: float,
        best: int,
    ) -> list[list[Hypothesis]]:
        """Find the `best` of what `decode.beam.beam_search` finds."""
        names = _names(source)
        limits = limit_of_each(longest, len(names))
        # By likelihood alone it ends when nothing likelier can come, as ours: one search is enough.
        likeliest = beams == 1 or (best == 1 and length_penalty == 0)
        lengths = [
            limit if likeliest else _likely(len(tokens), limit)
            for tokens, limit in zip(names, limits, strict=True)
        ]
        found: dict[int, list[Hypothesis]] = {}
        while rest := [k for k in range(len(names)) if k not in found]:
            most = min(lengths[k] for k in rest)
            some = [k for k in rest if lengths[k] == most]
            sources = [names[k] for k in some]
            if likeliest:
                told = self._told(sources, beam_size=beams, max_decoding_length=most)
            else:
                told = self._followed(sources, beams, most)
            for k, one in zip(some, told, strict=True):
                ranked = _ranked(one, self.stop, most, limits[k], best, length_penalty)
                if ranked is None:
                    lengths[k] = min(2 * most, limits[k])
                else:
                    found[k] = ranked
        return [found[k] for k in range(len(names))]

    def _followed(self, sources: list[list[str]], beams: int, most: int) -> list[Any]:
        """Everything that ends within so many tokens, and the beams that do not."""
        return self._told(
            sources,
            beam_size=beams,
            patience=most,  # to stop only then
            num_hypotheses=beams * most,
            length_penalty=_NOTHING,
            max_decoding_length=most,
        )

    def _told(self, sources: list[list[str]], **how: float) -> list[Any]:
        found = self._engine.translate_batch(
            sources,
            min_decoding_length=0,  # a translation may be empty
            max_input_length=0,
            return_scores=True,
            return_end_token=True,
            **({"length_penalty": 0} | how),
        )
        return list(found)


def _likely(source: int, longest: int) -> int:
    """A length at which most searches can be seen to be over, in steps: few lengths, few calls."""
    return min(longest, (source + _MARGIN + _STEP - 1) // _STEP * _STEP)


def _ranked(
    told: Any, stop: int, most: int, longest: int, count: int, strength: float
) -> list[Hypothesis] | None:
    """The best by our rule of what was found; None: beyond `most` tokens there may be better."""
    mark, ended, last, unfinished = str(stop), [], [], []
    for tokens, log in zip(told.hypotheses, told.scores, strict=True):
        if len(tokens) == most:
            last.append(log)
        if tokens[-1] == mark or most == longest:
            ended.append((log / penalty(len(tokens), strength), log, tokens))
        else:
            unfinished.append(log)
    ended.sort(key=lambda one: -one[0])
    if most < longest:
        # The best continuations are told; where all of those end, the rest is no better than they.
        best = max(unfinished) if unfinished else min(last)
        if len(ended) < count or ended[count - 1][0] < reach(best, most, longest, strength):
            return None
    return [
        Hypothesis(tuple(int(t) for t in tokens if t != mark), log, score)
        for score, log, tokens in ended[:count]
    ]


def _names(source: Sentences) -> list[list[str]]:
    rows = zip(source.ids.tolist(), source.lengths.tolist(), strict=True)
    return [[str(k) for k in ids[:length]] for ids, length in rows]
