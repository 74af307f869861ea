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

from workings.data.pictures import prepared
from workings.data.scene_drawing import draw
from workings.data.scenes import scenes
from workings.data.tokenizer import Tokenizer
from workings.errors import UserError
from workings.lens.glances import Photo, glances
from workings.lens.head_places import Given
from workings.lens.stacks import Stack, layers_of, stacks
from workings.tasks.caption import Captioning
from workings.tasks.classify import Classifying
from workings.tasks.language import Modelling
from workings.tasks.task import Task
from workings.tasks.translate import Translating
from workings.tasks.writing import Written
from workings.views.captioned import FINEST, Captioned, Look
from workings.views.maps import label
from workings.views.notation import typeset
from workings.views.pixels import png_levels, png_rgb
from workings.views.scaling import reduced
from workings.views.svg import png_uri
from workings.web import asked_looks as asked
from workings.web.told_looks import Pictured, Tile

MOST_READ = 2048  # tokens of a text


@dataclass(frozen=True, eq=False)
class Answer:
    """What came out: chances of names (classes, tokens), or a text that was written."""

    says: str
    tokens: Sequence[str] = ()
    names: Callable[[int], str] = str
    chances: Float[Tensor, " names"] | None = None
    written: Written | None = None
    note: str = ""
    photo: Photo | None = None
    pictured: Pictured | None = None
    notes: Sequence[str] = ()

    @property
    def text(self) -> str | None:
        """What was written, if anything."""
        return None if self.written is None else self.written.text

    def read(self, given: asked.Look) -> Given:
        """What the model was given: a text, or a picture."""
        return given.text if self.photo is None else self.photo


def attention_of(task: Task, given: asked.Look, found: Answer) -> tuple[list[Stack], list[str]]:
    """Where a model's heads looked; or why that cannot be shown."""
    if not found.tokens and found.photo is None:
        return [], []
    if not layers_of(task.model) and not isinstance(task, Translating):
        return [], []
    try:
        return stacks(task, found.read(given), found.written), []
    except UserError as error:
        return [], [str(error)]


def answer(task: Task, given: asked.Look) -> Answer:
    """Ask a run about an input."""
    for kind, ask in _KINDS.items():
        if isinstance(task, kind):
            return ask(task, given)
    raise AssertionError(type(task))


def _classified(task: Classifying, given: asked.Look) -> Answer:
    ids, spans, cut = task.located(given.text)
    if not ids:
        raise UserError("no token was read: write a text")
    return Answer(
        says="How likely each class is",
        tokens=[label(given.text[a:b]) for a, b in spans],
        names=lambda k: task.labels[k],
        chances=task.predict([given.text])[0],
        notes=[f"the last {cut:,} characters were not read"] if cut else [],
    )


@torch.no_grad()
def _went_on(task: Modelling, given: asked.Look) -> Answer:
    tokenizer, text = task.tokenizer, given.text
    spans = tokenizer.spans(text)
    if len(spans) > MOST_READ:
        raise UserError(f"{len(spans):,} tokens: the page takes {MOST_READ:,}")
    begin = tokenizer.encode(text) or [tokenizer.start]  # something has to be read first
    scores, _ = task.model.start(torch.tensor([begin], device=_device(task)))
    return Answer(
        says="How likely each token is to come next",
        tokens=[label(text[a:b]) for a, b in spans],
        names=lambda k: token_name(tokenizer, tokenizer.token(k)),
        chances=torch.softmax(scores[0].float(), -1).cpu(),
        notes=task.notes(text, 0),
    )


def _translated(task: Translating, given: asked.Look) -> Answer:
    read = task.words.read(given.text)
    if len(read) > MOST_READ // 4:
        raise UserError(f"{len(read):,} tokens: the page translates {MOST_READ // 4}")
    if not given.text.strip():
        raise UserError("nothing to translate: write a sentence")
    best = next(task.translate([given.text]))[0]
    each = best.log_probability / max(len(best.tokens), 1)
    return Answer(
        says="The translation that it finds best",
        tokens=[label(token) for token in task.words.source.tokens(given.text)],
        written=best,
        note=typeset_all(f"log-probability {best.log_probability:.3f}, {each:.3f} a token"),
    )


def _captioned(task: Captioning, given: asked.Look) -> Answer:
    pixels, name = _picture(task, given)
    best = next(task.caption([pixels]))[0]
    told = glances(task, pixels, best, name)
    each = best.log_probability / max(len(best.tokens), 1)
    return Answer(
        says="What it says of the picture",
        written=best,
        note=typeset_all(f"log-probability {best.log_probability:.3f}, {each:.3f} a token"),
        photo=pixels,
        pictured=pictured(told),
    )


_KINDS: dict[type, Callable[[Any, asked.Look], Answer]] = {
    Classifying: _classified,
    Modelling: _went_on,
    Translating: _translated,
    Captioning: _captioned,
}


def _picture(task: Captioning, given: asked.Look) -> tuple[Photo, str]:
    size = task.recipe.data.pixels
    if given.picture is None:
        scene = next(islice(scenes("test"), given.scene - 1, None))
        return draw(scene, size), f"scene {given.scene}: {scene.caption}"
    try:
        raw = b64decode(given.picture, validate=True)
    except (NotBase64, ValueError):
        raise UserError("picture: base64 of a PNG, JPEG, WebP, GIF or BMP file") from None
    return prepared(raw, size)[0], "your picture"


def pictured(told: Captioned) -> Pictured:
    """Lay a caption out: the picture once, and a shadow a word."""
    return Pictured(
        photo=png_uri(png_rgb(reduced(told.picture, FINEST))),
        name=told.name,
        tiles=[_tile(look) for look in told.looks()],
    )


def _tile(look: Look) -> Tile:
    return Tile(
        word=look.word,
        note=look.note,
        says=f"Looked at for “{look.word}”: {look.where}, at most {look.largest:.2f}",
        shadow=png_uri(png_levels(look.shadow(), "#000000")),
        frame=look.frame,
    )


def token_name(tokenizer: Tokenizer, token: str) -> str:
    """Write a token of a vocabulary as the text that it stands for, where it is one."""
    return label(tokenizer.spelling(token))


def typeset_all(line: str) -> str:
    """Write the numbers of a line as people do."""
    return " ".join(typeset(word) for word in line.split(" "))


def _device(task: Task) -> torch.device:
    return next(task.model.parameters()).device
