"""CTranslate2, an engine for Transformers on CPUs: our models in its format, and run by it."""

import tempfile
from collections import deque
from collections.abc import Iterator, Sequence
from pathlib import Path
from threading import Event
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from jaxtyping import Float, Int
from torch import Tensor

from workings.errors import UserError
from workings.hub.ctranslate2_layers import (
    ACTIVATIONS,
    is_small,
    plain,
    set_encoder_block,
    set_linear,
    set_norm,
    set_sinusoids,
    threads_for,
)
from workings.layers.blocks import EncoderBlock
from workings.layers.norms import LayerNorm
from workings.layers.positions import LearnedPositions, SinusoidalPositions
from workings.models.language import LanguageModel, TransformerLanguageModel

if TYPE_CHECKING:
    from ctranslate2.specs import TransformerDecoderModelSpec

_KEPT = 2**24
"""Scores that the engine keeps of a stretch of text, at most: 64 MB."""
_GLANCE = 0.02
"""Seconds between looks at what was found: to be woken for each token would take longer than it."""
_BURST = 256
"""Tokens that a small model writes before it tells of them: to tell of each takes a third more."""


def convert(
    model: LanguageModel,
    names: Sequence[str],
    folder: Path,
    *,
    start: int | None = None,
    stop: int | None = None,
    unknown: int | None = None,
) -> None:
    """Write a model into a folder as CTranslate2 reads it, with a name for each token, all unlike.

    `start`, `stop` and `unknown` are the ids of those tokens, where there are such.
    """
    spec = specification(model)
    spec.register_vocabulary(list(names))
    marks = {"bos_token": start, "eos_token": stop, "unk_token": unknown}
    for key, number in marks.items():
        if number is not None:
            setattr(spec.config, key, names[number])
    spec.validate()
    spec.optimize()  # a tied head is written once
    spec.save(str(folder))


def specification(model: LanguageModel) -> "TransformerDecoderModelSpec":
    """Describe a model, weights and all, in CTranslate2's own terms."""
    if not isinstance(model, TransformerLanguageModel):
        raise UserError("CTranslate2 runs Transformers: a recurrent model cannot be converted")
    from ctranslate2.specs import Activation, TransformerDecoderModelSpec

    block = model.blocks[0]
    assert isinstance(block, EncoderBlock)
    attention = block.attention
    own_keys = attention.shared_heads == attention.heads
    spec = TransformerDecoderModelSpec.from_config(
        len(model.blocks),
        attention.heads,
        pre_norm=block.around_attention.place == "pre",
        activation=getattr(Activation, ACTIVATIONS[block.feed_forward.activation]),
        rotary_dim=None if attention.rotary is None else attention.head_width,
        rotary_interleave=False,
        rotary_base=10_000.0 if attention.rotary is None else attention.rotary.base,
        num_heads_kv=None if own_keys else attention.shared_heads,
    )
    spec.config.layer_norm_epsilon = block.around_attention.norm.eps
    decoder = spec.decoder
    decoder.scale_embeddings = False
    decoder.embeddings.weight = plain(model.embedding.weight)
    if isinstance(model.positions, LearnedPositions):
        decoder.position_encodings.encodings = plain(model.positions.table)
    elif isinstance(model.positions, SinusoidalPositions):
        set_sinusoids(decoder.position_encodings, model.positions)
    if isinstance(model.norm, LayerNorm):
        set_norm(decoder.layer_norm, model.norm)
    set_linear(decoder.projection, model.head)
    for layer, ours in zip(decoder.layer, model.blocks, strict=True):
        assert isinstance(ours, EncoderBlock)
        set_encoder_block(layer, ours)
    return spec


class Engine:
    """A model in CTranslate2's hands: what it scores, and how it goes on with a prompt, greedily.

    The engine draws tokens in its own way and cannot be told which to take, so that only the
    likeliest ones are left to it: those are the same as ours.
    """

    def __init__(self, model: LanguageModel) -> None:
        import ctranslate2

        self.longest = model.longest
        self.vocabulary = model.embedding.num_embeddings
        self.small = is_small(model)
        with tempfile.TemporaryDirectory() as folder:  # it is read at once, and as a whole
            convert(model, [str(k) for k in range(self.vocabulary)], Path(folder))
            self._engine = ctranslate2.Generator(
                folder,
                device="cpu",
                compute_type="float32",
                intra_threads=threads_for(model),
            )

    def scores(self, ids: Int[Tensor, "batch time"]) -> Float[Tensor, "batch time vocabulary"]:
        """Score the next token at every place."""
        found = self._engine.forward_batch(ids.tolist(), return_log_probs=False)
        return torch.from_numpy(np.array(found))

    def generate(
        self, prompt: Int[Tensor, "1 time"], tokens: int
    ) -> Iterator[tuple[Int[Tensor, "1"], Float[Tensor, "1 vocabulary"]]]:
        """Go on with a prompt as `decode.sample.generate` does, always with the likeliest token."""
        window = self._seen(prompt[0].tolist())
        while tokens:
            room = max(1, _KEPT // self.vocabulary)
            if self.small:
                room = min(room, _BURST)
            if self.longest is not None:  # the last token is not read again
                room = min(room, self.longest - len(window) + 1)
            count = min(tokens, room)
            for token, scores in (self._burst if self.small else self._stretch)(window, count):
                window.append(token)
                yield torch.tensor([token]), scores
            tokens -= count
            window = self._seen(window)

    def _seen(self, ids: list[int]) -> list[int]:
        """What the model goes on from: where no positions are left, the later half of them."""
        if self.longest is None or len(ids) <= self.longest:
            return ids
        return ids[-max(self.longest // 2, 1) :]

    def _burst(self, prompt: Sequence[int], count: int) -> Iterator[tuple[int, Tensor]]:
        """Tokens and their scores, when all of them are found."""
        (found,) = self._engine.generate_batch([_names(prompt)], max_length=count, **_GREEDILY)
        yield from zip(found.sequences_ids[0], map(_row, found.logits[0]), strict=True)

    def _stretch(self, prompt: Sequence[int], count: int) -> Iterator[tuple[int, Tensor]]:
        """Tokens and their scores, as the engine finds them in a thread of its own."""
        found: deque[tuple[int, Any]] = deque()
        enough, ended = Event(), Event()

        def tell(step: Any) -> bool:
            found.append((step.token_id, step.logits))
            if step.is_last:
                ended.set()
            return enough.is_set()

        (running,) = self._engine.generate_batch(
            [_names(prompt)], max_length=count, asynchronous=True, callback=tell, **_GREEDILY
        )
        try:
            while count:
                ended.wait(_GLANCE)
                failed = running.done() and not found
                while found:
                    token, logits = found.popleft()
                    yield token, _row(logits)
                    count -= 1
                if failed:
                    running.result()  # raises what went wrong
                    raise RuntimeError("CTranslate2 stopped before it was told to")
        finally:  # also when the consumer has enough
            enough.set()
            running.result()


_GREEDILY: dict[str, Any] = {
    "include_prompt_in_result": False,
    "end_token": [],
    "return_logits_vocab": True,
}


def _names(ids: Sequence[int]) -> list[str]:
    return [str(k) for k in ids]


def _row(logits: Any) -> Float[Tensor, "1 vocabulary"]:
    return torch.from_numpy(np.asarray(logits)).view(1, -1)
