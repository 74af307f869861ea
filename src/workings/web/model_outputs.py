"""Run a model on an input: its probabilities, translation or caption, and its attention.

A model runs once, under a trace, for both the output and the attention weights; a translator or
captioner first searches for its output.
"""

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
from workings.data.tokenizers.base import Span, Tokenizer
from workings.errors import UserError
from workings.interpret.attention import ImageArray, ModelInput, NoAttentionError, collect
from workings.interpret.attention_maps import alignment_stack, build_caption_attention
from workings.interpret.results import (
    AttentionStack,
    AttentionStacks,
    CaptionAttention,
    WordAttention,
)
from workings.modules import device_of, eval_mode
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
    """Probabilities of named outcomes (classes, tokens) or a generated text, and the attention."""

    description: str
    tokens: Sequence[str] = ()
    name_of: Callable[[int], str] = str
    probabilities: Float[Tensor, " name_of"] | None = None
    generation: Generation | None = None
    note: str = ""
    image: ImageArray | None = None
    caption_attention: CaptionAttentionView | None = None
    notes: Sequence[str] = ()
    stacks: Sequence[AttentionStack] = ()

    @property
    def text(self) -> str | None:
        """The generated text, if the model generates one."""
        return None if self.generation is None else self.generation.text

    def get_stack(self, part: str) -> AttentionStack:
        """Return the attention weights of a part."""
        return AttentionStacks(self.stacks)[part]

    def model_input(self, request: requests.InspectRequest) -> ModelInput:
        """Return the input of the model: a text or an image."""
        return request.text if self.image is None else self.image


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
    attention, notes = _collect_attention(task, request.text)
    probabilities = _softmax(attention)
    if probabilities is None:
        probabilities = task.predict([request.text])[0]
    return ModelOutput(
        description="Probability of each class",
        tokens=[show_whitespace(request.text[a:b]) for a, b in spans],
        name_of=lambda k: task.labels[k],
        probabilities=probabilities,
        notes=[
            *([f"the last {num_truncated:,} characters were truncated"] if num_truncated else []),
            *notes,
        ],
        stacks=attention.stacks,
    )


def _predict_next_token(task: LanguageModeling, request: requests.InspectRequest) -> ModelOutput:
    tokenizer, text = task.tokenizer, request.text
    spans = check_prompt(task, text)
    attention, notes = _collect_attention(task, text) if spans else (AttentionStacks([]), [])
    probabilities = _softmax(attention)
    if probabilities is None:
        probabilities = _compute_next_token_probabilities(task, text)
    return ModelOutput(
        description="Probability of the next token",
        tokens=[show_whitespace(text[a:b]) for a, b in spans],
        name_of=lambda k: token_name(tokenizer, tokenizer.id_to_token(k)),
        probabilities=probabilities,
        notes=[*task.list_prompt_notes(text, 0), *notes],
        stacks=attention.stacks,
    )


def check_prompt(task: LanguageModeling, text: str) -> list[Span]:
    """Return the spans of a prompt's tokens; raise UserError if there are too many."""
    spans = task.tokenizer.find_spans(text)
    if len(spans) > MAX_INPUT_TOKENS:
        raise UserError(f"{len(spans):,} tokens: at most {MAX_INPUT_TOKENS:,} on the page")
    return spans


@torch.no_grad()
def _compute_next_token_probabilities(task: LanguageModeling, text: str) -> Tensor:
    tokenizer, model = task.tokenizer, task.model
    ids = tokenizer.encode(text) or [tokenizer.bos_id]  # the model needs at least one token
    with eval_mode(model):
        logits, _ = model.start(torch.tensor([ids], device=device_of(model)))
    return torch.softmax(logits[0].float(), -1).cpu()


def _collect_attention(
    task: Task, model_input: ModelInput, generation: Generation | None = None
) -> tuple[AttentionStacks, list[str]]:
    """Return the attention of a model's only pass, and a note on why there is none."""
    try:
        return collect(task, model_input, generation), []
    except NoAttentionError as error:
        # That a translator has no alignment is worth a note.
        return AttentionStacks([]), [str(error)] if isinstance(task, Translation) else []
    except UserError as error:
        return AttentionStacks([]), [str(error)]


def _softmax(attention: AttentionStacks) -> Tensor | None:
    if attention.logits is None:
        return None
    return torch.softmax(torch.from_numpy(attention.logits), -1)


def _translate(task: Translation, request: requests.InspectRequest) -> ModelOutput:
    ids = task.tokenizers.encode_source(request.text)
    if len(ids) > MAX_SOURCE_TOKENS:
        raise UserError(f"{len(ids):,} tokens: at most {MAX_SOURCE_TOKENS} on the page")
    if not request.text.strip():
        raise UserError("nothing to translate: enter a sentence")
    best = task.translate_one(request.text)
    attention, notes = _collect_attention(task, request.text, best)
    alignment = [alignment_stack(attention["cross"])] if attention.stacks else []
    return ModelOutput(
        description="Best translation",
        tokens=[show_whitespace(token) for token in task.tokenizers.source.tokenize(request.text)],
        generation=best,
        note=_score_note(best),
        notes=notes,
        stacks=[*alignment, *_select_multi_head(attention)],
    )


def _caption(task: Captioning, request: requests.InspectRequest) -> ModelOutput:
    pixels, name = _read_image(task, request)
    best = next(task.caption([pixels]))[0]
    attention, notes = _collect_attention(task, pixels, best)
    cross = attention["cross"] if attention.stacks else None
    caption = build_caption_attention(task, pixels, best, name, cross)
    return ModelOutput(
        description="Best caption",
        generation=best,
        note=_score_note(best),
        image=pixels,
        caption_attention=build_caption_view(caption),
        notes=notes,
        stacks=_select_multi_head(attention),
    )


def _select_multi_head(attention: AttentionStacks) -> list[AttentionStack]:
    """Return the stacks with heads; the attention of a recurrent decoder has none."""
    return [stack for stack in attention if stack.is_multi_head]


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


def build_caption_view(caption: CaptionAttention) -> CaptionAttentionView:
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
