"""Run a model on an input: its probabilities, translation or caption, and its attention.

A model runs once, under a trace, for both the output and the attention weights; a translator or
captioner first searches for its output.
"""

from base64 import b64decode
from binascii import Error as Base64Error
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import islice

import torch

from workings.data.images import preprocess_image
from workings.data.scenes import draw_scene, generate_scenes
from workings.errors import UserError
from workings.interpret.attention import alignment_stack, build_caption_attention, collect
from workings.interpret.results import AttentionStack, AttentionStacks, CaptionAttention
from workings.plain_text import show_whitespace
from workings.problems.notation import typeset
from workings.render.caption_attention import (
    MAX_IMAGE_SIDE,
    WordAttention,
    word_attention,
    word_darkness,
)
from workings.render.images import encode_png_alpha, encode_png_rgb, shrink_to_fit
from workings.render.svg_writer import png_data_uri
from workings.tasks.attention import NoAttentionError
from workings.tasks.base import Generation, ImageArray, ModelInput, Response, Task
from workings.web import requests
from workings.web.responses import CaptionAttentionView, CaptionTile

MAX_INPUT_TOKENS = 2048
MAX_SOURCE_TOKENS = 512  # of a translation


@dataclass(frozen=True, eq=False)
class ModelOutput:
    """The response of a model to an input, and the attention."""

    response: Response
    image: ImageArray | None = None
    caption_attention: CaptionAttentionView | None = None
    notes: Sequence[str] = ()
    stacks: Sequence[AttentionStack] = ()
    token_probabilities: Sequence[tuple[str, float]] = ()
    """of a generated text: each token with its probability"""

    @property
    def text(self) -> str | None:
        """The generated text, if the model generates one."""
        generation = self.response.generation
        return None if generation is None else generation.text

    @property
    def score_note(self) -> str:
        """The log-probability of the generated text; empty without one."""
        generation = self.response.generation
        if generation is None:
            return ""
        per_token = generation.log_probability / max(len(generation.tokens), 1)
        total, mean = (typeset(f"{x:.3f}") for x in (generation.log_probability, per_token))
        return f"log-probability {total}, {mean} per token"

    def get_stack(self, part: str) -> AttentionStack:
        """Return the attention weights of a part."""
        return AttentionStacks(self.stacks)[part]

    def model_input(self, request: requests.InspectRequest) -> ModelInput:
        """Return the input of the model: a text or an image."""
        return request.text if self.image is None else self.image


def run_model(task: Task, request: requests.InspectRequest) -> ModelOutput:
    """Return the output of a task's model for an input."""
    if task.image_size:
        return _run_on_image(task, *_read_image(task.image_size, request))
    check_length(task, request.text)
    if task.is_seq2seq:
        response = task.respond(request.text)
        attention, notes = _collect_attention(task, request.text, response.generation)
        alignment = [alignment_stack(attention["cross"])] if attention.stacks else []
        stacks = [*alignment, *_select_multi_head(attention)]
    else:
        attention, notes = _collect_attention(task, request.text)
        logits = None if attention.logits is None else torch.from_numpy(attention.logits)
        response, stacks = task.respond(request.text, logits), [*attention]
    return ModelOutput(
        response,
        notes=[*response.notes, *notes],
        stacks=stacks,
        token_probabilities=score_target(attention),
    )


def score_target(attention: AttentionStacks) -> list[tuple[str, float]]:
    """Return each token of a translation or caption with its probability."""
    pieces = [show_whitespace(piece) for piece in attention.target_pieces]
    return [*zip(pieces, attention.target_probabilities, strict=False)]


def _run_on_image(task: Task, image: ImageArray, name: str) -> ModelOutput:
    response = task.respond(image)
    attention, notes = _collect_attention(task, image, response.generation)
    caption_view = None
    if response.generation is not None:
        cross = attention["cross"] if attention.stacks else None
        caption = build_caption_attention(task, image, response.generation, name, cross)
        caption_view = build_caption_view(caption)
    return ModelOutput(
        response,
        image=image,
        caption_attention=caption_view,
        notes=[*response.notes, *notes],
        stacks=_select_multi_head(attention),
        token_probabilities=score_target(attention),
    )


def check_length(task: Task, text: str) -> None:
    """Raise UserError if a text has too many tokens for the page; a classifier truncates it."""
    count = len(task.encode_with_spans(text)[0])
    limit = MAX_SOURCE_TOKENS if task.is_seq2seq else MAX_INPUT_TOKENS
    if count > limit and not task.labels:
        raise UserError(f"{count:,} tokens: at most {limit:,} on the page")


def _collect_attention(
    task: Task, model_input: ModelInput, generation: Generation | None = None
) -> tuple[AttentionStacks, list[str]]:
    """Return the attention of a model's only pass, and a note on why there is none."""
    try:
        return collect(task, model_input, generation), []
    except NoAttentionError as error:
        # That a text is generated without any alignment to its source is worth a note.
        return AttentionStacks([]), [str(error)] if task.is_seq2seq else []
    except UserError as error:
        return AttentionStacks([]), [str(error)]


def _select_multi_head(attention: AttentionStacks) -> list[AttentionStack]:
    """Return the stacks with heads; the attention of a recurrent decoder has none."""
    return [stack for stack in attention if stack.is_multi_head]


def _read_image(size: int, request: requests.InspectRequest) -> tuple[ImageArray, str]:
    """Return the pixels of the chosen scene or uploaded picture, and its name."""
    if request.picture is None:
        scene = next(islice(generate_scenes("test"), request.scene - 1, None))
        return draw_scene(scene, size), f"scene {request.scene}: {scene.caption}"
    try:
        raw = b64decode(request.picture, validate=True)
    except (Base64Error, ValueError):
        raise UserError("picture: expected base64 of a PNG, JPEG, WebP, GIF or BMP file") from None
    return preprocess_image(raw, size)[0], "your picture"


def build_caption_view(caption: CaptionAttention) -> CaptionAttentionView:
    """Return the picture once, and an overlay with the attention of each word."""
    return CaptionAttentionView(
        image=png_data_uri(encode_png_rgb(shrink_to_fit(caption.image, MAX_IMAGE_SIDE))),
        name=caption.name,
        tiles=[_build_tile(attention) for attention in word_attention(caption)],
    )


def _build_tile(attention: WordAttention) -> CaptionTile:
    word, weight = attention.word, attention.max_weight
    return CaptionTile(
        word=word,
        note=attention.summary,
        description=f"Attention for “{word}”: {attention.location}, at most {weight:.2f}",
        overlay=png_data_uri(encode_png_alpha(word_darkness(attention), "#000000")),
        frame=attention.peak_box,
    )
