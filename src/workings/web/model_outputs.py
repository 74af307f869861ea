"""What a run makes of an input: a class, the next token, a translation, a caption."""

from base64 import b64decode
from binascii import Error as NotBase64
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

MAX_INPUT_TOKENS = 2048  # tokens of a text


@dataclass(frozen=True, eq=False)
class ModelOutput:
    """What came out: chances of names (classes, tokens), or a text that was written."""

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
        """What was written, if anything."""
        return None if self.generation is None else self.generation.text

    def model_input(self, request: requests.InspectRequest) -> ModelInput:
        """What the model was given: a text, or a picture."""
        return request.text if self.image is None else self.image


def collect_request_stacks(
    task: Task, request: requests.InspectRequest, output: ModelOutput
) -> tuple[list[StackWeights], list[str]]:
    """Where a model's heads looked; or why that cannot be shown."""
    if not output.tokens and output.image is None:
        return [], []
    if not find_attention_layers(task.model) and not isinstance(task, Translation):
        return [], []
    try:
        return collect_stacks(task, output.model_input(request), output.generation), []
    except UserError as error:
        return [], [str(error)]


def run_model(task: Task, request: requests.InspectRequest) -> ModelOutput:
    """Ask a run about an input."""
    for kind, ask in _RUN_BY_TASK.items():
        if isinstance(task, kind):
            return ask(task, request)
    raise AssertionError(type(task))


def _classify(task: Classification, request: requests.InspectRequest) -> ModelOutput:
    ids, spans, cut = task.encode_with_spans(request.text)
    if not ids:
        raise UserError("no token was read: write a text")
    return ModelOutput(
        description="How likely each class is",
        tokens=[show_whitespace(request.text[a:b]) for a, b in spans],
        name_of=lambda k: task.labels[k],
        probabilities=task.predict([request.text])[0],
        notes=[f"the last {cut:,} characters were not read"] if cut else [],
    )


@torch.no_grad()
def _predict_next_token(task: LanguageModeling, request: requests.InspectRequest) -> ModelOutput:
    tokenizer, text = task.tokenizer, request.text
    spans = tokenizer.find_spans(text)
    if len(spans) > MAX_INPUT_TOKENS:
        raise UserError(f"{len(spans):,} tokens: the page takes {MAX_INPUT_TOKENS:,}")
    begin = tokenizer.encode(text) or [tokenizer.bos_id]  # something has to be read first
    scores, _ = task.model.start(torch.tensor([begin], device=_device_of(task)))
    return ModelOutput(
        description="How likely each token is to come next",
        tokens=[show_whitespace(text[a:b]) for a, b in spans],
        name_of=lambda k: token_name(tokenizer, tokenizer.id_to_token(k)),
        probabilities=torch.softmax(scores[0].float(), -1).cpu(),
        notes=task.list_prompt_notes(text, 0),
    )


def _translate(task: Translation, request: requests.InspectRequest) -> ModelOutput:
    read = task.tokenizers.encode_source(request.text)
    if len(read) > MAX_INPUT_TOKENS // 4:
        raise UserError(f"{len(read):,} tokens: the page translates {MAX_INPUT_TOKENS // 4}")
    if not request.text.strip():
        raise UserError("nothing to translate: write a sentence")
    best = next(task.translate([request.text]))[0]
    each = best.log_probability / max(len(best.tokens), 1)
    return ModelOutput(
        description="The translation that it finds best",
        tokens=[show_whitespace(token) for token in task.tokenizers.source.tokenize(request.text)],
        generation=best,
        note=typeset_numbers(f"log-probability {best.log_probability:.3f}, {each:.3f} a token"),
    )


def _caption(task: Captioning, request: requests.InspectRequest) -> ModelOutput:
    pixels, name = _read_image(task, request)
    best = next(task.caption([pixels]))[0]
    told = caption_attention(task, pixels, best, name)
    each = best.log_probability / max(len(best.tokens), 1)
    return ModelOutput(
        description="What it says of the picture",
        generation=best,
        note=typeset_numbers(f"log-probability {best.log_probability:.3f}, {each:.3f} a token"),
        image=pixels,
        caption_attention=build_caption_attention(told),
    )


_RUN_BY_TASK: dict[type, Callable[[Any, requests.InspectRequest], ModelOutput]] = {
    Classification: _classify,
    LanguageModeling: _predict_next_token,
    Translation: _translate,
    Captioning: _caption,
}


def _read_image(task: Captioning, request: requests.InspectRequest) -> tuple[ImageArray, str]:
    size = task.recipe.data.image_size
    if request.picture is None:
        scene = next(islice(generate_scenes("test"), request.scene - 1, None))
        return draw_scene(scene, size), f"scene {request.scene}: {scene.caption}"
    try:
        raw = b64decode(request.picture, validate=True)
    except (NotBase64, ValueError):
        raise UserError("picture: base64 of a PNG, JPEG, WebP, GIF or BMP file") from None
    return preprocess_image(raw, size)[0], "your picture"


def build_caption_attention(caption: CaptionAttention) -> CaptionAttentionView:
    """Lay a caption out: the picture once, and a shadow a word."""
    return CaptionAttentionView(
        image=png_data_uri(encode_png_rgb(shrink_to_fit(caption.image, MAX_IMAGE_SIDE))),
        name=caption.name,
        tiles=[_build_tile(look) for look in caption.word_attention()],
    )


def _build_tile(look: WordAttention) -> CaptionTile:
    return CaptionTile(
        word=look.word,
        note=look.summary,
        description=f"Looked at for “{look.word}”: {look.location}, at most {look.max_weight:.2f}",
        overlay=png_data_uri(encode_png_alpha(word_darkness(look), "#000000")),
        frame=look.peak_box,
    )


def token_name(tokenizer: Tokenizer, token: str) -> str:
    """Write a token of a vocabulary as the text that it stands for, where it is one."""
    return show_whitespace(tokenizer.token_to_text(token))


def typeset_numbers(line: str) -> str:
    """Write the numbers of a line as people do."""
    return " ".join(typeset(word) for word in line.split(" "))


def _device_of(task: Task) -> torch.device:
    return next(task.model.parameters()).device
