"""Run a model on an input: class or next-token probabilities, a translation, a caption."""

from base64 import b64decode
from binascii import Error as Base64Error
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor

from workings.data.images import preprocess_image
from workings.data.scenes import draw_scene, generate_scenes
from workings.data.tokenizers.base import Tokenizer
from workings.errors import UserError
from workings.interpret.attention import (
    ModelInput,
    StackWeights,
    collect_stacks,
    find_attention_layers,
)
from workings.interpret.attention_maps import ImageArray, caption_attention
from workings.interpret.results import CaptionAttention, WordAttention
from workings.plain_text import show_whitespace
from workings.problems.notation import typeset
from workings.render.caption_attention import MAX_IMAGE_SIDE, word_darkness
from workings.render.images import encode_png_alpha, encode_png_rgb, shrink_to_fit
from workings.render.svg_writer import png_data_uri
from workings.tasks.base import Task
from workings.tasks.captioning import Captioning
from workings.tasks.classification import Classification
from workings.tasks.language_modeling import LanguageModeling
from workings.tasks.seq2seq import Generation
from workings.tasks.translation import Translation
from workings.web import requests
from workings.web.responses import CaptionAttentionView, CaptionTile

MAX_INPUT_TOKENS = 2048
MAX_SOURCE_TOKENS = 512  # of a translation


@dataclass(frozen=True, eq=False)
class ModelOutput:
    """Probabilities of named outcomes (classes, tokens), or a generated text."""

    description: str
    tokens: Sequence[str] = ()
    name_of: Callable[[int], str] = str
    probabilities: Float[Tensor, " name_of"] | None = None
    generation: Generation | None = None
    note: str = ""
    image: ImageArray | None = None
    caption_attention: CaptionAttentionView | None = None
    notes: Sequence[str] = ()

    @property
    def text(self) -> str | None:
        """The generated text, if the model generates one."""
        return None if self.generation is None else self.generation.text

    def model_input(self, request: requests.InspectRequest) -> ModelInput:
        """Return the input of the model: a text or an image."""
        return request.text if self.image is None else self.image


def collect_request_stacks(
    task: Task, request: requests.InspectRequest, output: ModelOutput
) -> tuple[list[StackWeights], list[str]]:
    """Return the attention weights of all heads, and notes on why there are none."""
    if not output.tokens and output.image is None:
        return [], []
    if not find_attention_layers(task.model) and not isinstance(task, Translation):
        return [], []
    try:
        return collect_stacks(task, output.model_input(request), output.generation), []
    except UserError as error:
        return [], [str(error)]


def run_model(task: Task, request: requests.InspectRequest) -> ModelOutput:
    """Return the output of a task's model for an input."""
    for task_class, run in _RUN_BY_TASK.items():
        if isinstance(task, task_class):
            return run(task, request)
    raise AssertionError(type(task))


def _classify(task: Classification, request: requests.InspectRequest) -> ModelOutput:
    ids, spans, num_truncated = task.encode_with_spans(request.text)
    if not ids:
        raise UserError("the text has no tokens: enter a text")
    return ModelOutput(
        description="Probability of each class",
        tokens=[show_whitespace(request.text[a:b]) for a, b in spans],
        name_of=lambda k: task.labels[k],
        probabilities=task.predict([request.text])[0],
        notes=[f"the last {num_truncated:,} characters were cut off"] if num_truncated else [],
    )


@torch.no_grad()
def _predict_next_token(task: LanguageModeling, request: requests.InspectRequest) -> ModelOutput:
    tokenizer, text = task.tokenizer, request.text
    spans = tokenizer.find_spans(text)
    if len(spans) > MAX_INPUT_TOKENS:
        raise UserError(f"{len(spans):,} tokens: at most {MAX_INPUT_TOKENS:,} on the page")
    ids = tokenizer.encode(text) or [tokenizer.bos_id]  # the model needs at least one token
    logits, _ = task.model.start(torch.tensor([ids], device=task.device))
    return ModelOutput(
        description="Probability of the next token",
        tokens=[show_whitespace(text[a:b]) for a, b in spans],
        name_of=lambda k: token_name(tokenizer, tokenizer.id_to_token(k)),
        probabilities=torch.softmax(logits[0].float(), -1).cpu(),
        notes=task.list_prompt_notes(text, 0),
    )


def _translate(task: Translation, request: requests.InspectRequest) -> ModelOutput:
    ids = task.tokenizers.encode_source(request.text)
    if len(ids) > MAX_SOURCE_TOKENS:
        raise UserError(f"{len(ids):,} tokens: at most {MAX_SOURCE_TOKENS} on the page")
    if not request.text.strip():
        raise UserError("nothing to translate: enter a sentence")
    best = task.translate_one(request.text)
    return ModelOutput(
        description="Best translation",
        tokens=[show_whitespace(token) for token in task.tokenizers.source.tokenize(request.text)],
        generation=best,
        note=_score_note(best),
    )


def _caption(task: Captioning, request: requests.InspectRequest) -> ModelOutput:
    pixels, name = _read_image(task, request)
    best = next(task.caption([pixels]))[0]
    return ModelOutput(
        description="Best caption",
        generation=best,
        note=_score_note(best),
        image=pixels,
        caption_attention=build_caption_attention(caption_attention(task, pixels, best, name)),
    )


def _score_note(generation: Generation) -> str:
    per_token = generation.log_probability / max(len(generation.tokens), 1)
    total, mean = (typeset(f"{value:.3f}") for value in (generation.log_probability, per_token))
    return f"log-probability {total}, {mean} per token"


_RUN_BY_TASK: dict[type, Callable[[Any, requests.InspectRequest], ModelOutput]] = {
    Classification: _classify,
    LanguageModeling: _predict_next_token,
    Translation: _translate,
    Captioning: _caption,
}


def _read_image(task: Captioning, request: requests.InspectRequest) -> tuple[ImageArray, str]:
    """Return the pixels of the chosen scene or uploaded picture, and its name."""
    size = task.recipe.data.image_size
    if request.picture is None:
        scene = next(islice(generate_scenes("test"), request.scene - 1, None))
        return draw_scene(scene, size), f"scene {request.scene}: {scene.caption}"
    try:
        raw = b64decode(request.picture, validate=True)
    except (Base64Error, ValueError):
        raise UserError("picture: expected base64 of a PNG, JPEG, WebP, GIF or BMP file") from None
    return preprocess_image(raw, size)[0], "your picture"


def build_caption_attention(caption: CaptionAttention) -> CaptionAttentionView:
    """Return the picture once, and an overlay with the attention of each word."""
    return CaptionAttentionView(
        image=png_data_uri(encode_png_rgb(shrink_to_fit(caption.image, MAX_IMAGE_SIDE))),
        name=caption.name,
        tiles=[_build_tile(attention) for attention in caption.word_attention()],
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


def token_name(tokenizer: Tokenizer, token: str) -> str:
    """Return the text of a token, with whitespace made visible."""
    return show_whitespace(tokenizer.token_to_text(token))
