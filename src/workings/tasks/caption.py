"""Captioning: from pictures, what is said of them and a recipe to a model that describes one."""

import hashlib
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np
import torch
from jaxtyping import Int, UInt8
from numpy.typing import NDArray
from torch import Tensor

from workings.crew import Crew
from workings.data.augment import Changes, changed, draw_changes, mirrored_captions
from workings.data.batching import batches
from workings.data.captions import CaptionSet, Picture, load_caption_test, load_captions
from workings.data.download import Progress
from workings.data.tokenizer import Tokenizer
from workings.data.tokenizers import load_tokenizer, train_tokenizer
from workings.decode.beam import beam_search
from workings.decode.sample import Sampling
from workings.errors import UserError
from workings.models.captioners import Captioner, Pictures, build_captioner
from workings.recipes import CaptionRecipe, CaptionSearchConfig
from workings.scores.captions import CaptionScores, score_captions
from workings.tasks.scene_looks import on_shapes, scenes_of
from workings.tasks.weights import with_weights
from workings.tasks.writing import Writing, Written, drawn, framed, stop_of

PARTS = ("train", "validation", "test")
AT_ONCE = 64  # pictures that are described together
SHOWN = 2  # captions that are logged after an epoch

Pixels = NDArray[np.uint8]


class Captioning(Writing):
    """Pictures and a captioner: what the loop trains, and what describes pictures afterwards."""

    files = ("tokenizer.json",)
    made_of = "pictures"
    model: Captioner

    def __init__(self, recipe: CaptionRecipe, tokenizer: Tokenizer, model: Captioner) -> None:
        super().__init__(recipe)
        self.tokenizer, self.model = tokenizer, model
        self.pictures: dict[str, tuple[Picture, ...]] = dict.fromkeys(PARTS, ())
        self.pixels: dict[str, Pixels] = {}
        self._said: dict[str, list[list[list[int]]]] = {}  # of each picture, the ids of each text
        self._mirrored: list[list[list[int]] | None] = []  # the same of the mirrored picture
        self._epoch = 0

    @classmethod
    def from_recipe(cls, recipe: CaptionRecipe, progress: Progress | None = None) -> "Captioning":
        """Read the pictures, make the vocabulary and a fresh model."""
        loaded = _loaded(recipe, progress)
        wanted = recipe.tokenizer
        texts = [text for picture in loaded.pictures["train"] for text in picture.captions]
        tokenizer = train_tokenizer(wanted.kind, texts, wanted.size, wanted.min_count, stop=True)
        torch.manual_seed(recipe.seed)
        model = build_captioner(
            recipe.model, len(tokenizer), pixels=recipe.data.pixels, pretrained=True
        )
        task = cls(recipe, tokenizer, model)
        for part in PARTS:
            task._take(part, loaded.pictures[part], loaded.pixels[part])
        if recipe.data.augment:
            mirrored = (mirrored_captions(p.captions) for p in loaded.pictures["train"])
            task._mirrored = [None if said is None else task._encoded(said) for said in mirrored]
        task.data_told = _told(recipe, loaded)
        return task

    def _take(self, part: str, pictures: tuple[Picture, ...], pixels: Pixels) -> None:
        self.pictures[part], self.pixels[part] = pictures, pixels
        self._said[part] = [self._encoded(picture.captions) for picture in pictures]

    def _encoded(self, captions: Sequence[str]) -> list[list[int]]:
        return [list(self.tokenizer.encode(text)) for text in captions]

    # -- what the training loop asks ---------------------------------------------------------------

    def batches(self, epoch: int) -> list[list[int]]:
        """The training batches: so many pictures, with all that is said of each."""
        self.force(epoch)
        self._epoch = epoch
        size, seed = self.recipe.train.batch, self.recipe.seed
        return batches(self._lengths("train"), size, seed=seed, epoch=epoch)

    def _lengths(self, part: str) -> list[int]:
        return [max(map(len, texts)) for texts in self._said[part]]

    def measured_in(self, part: str) -> list[list[int]]:
        """The batches in which the loss on a part is measured."""
        return batches(self._lengths(part), self.recipe.train.batch, seed=0, shuffle=False)

    def weight(self, batch: Sequence[int]) -> int:
        """Over how many tokens the loss is a mean."""
        said, _ = self._told_of("train", batch)
        return sum(len(ids) + 1 for texts in said for ids in texts)

    def describe(self, batch: Sequence[int]) -> str:
        """Say what a batch is."""
        texts = sum(len(self._said["train"][k]) for k in batch)
        return f"a batch of {len(batch):,} pictures with {texts:,} captions"

    def collate(
        self, part: str, batch: Sequence[int], device: torch.device
    ) -> tuple[Pictures, Int[Tensor, "texts time"], Int[Tensor, "texts time"]]:
        """Pictures, their captions behind a start token, and what follows each token of these."""
        said, changes = self._told_of(part, batch)
        pixels = self.pixels[part][list(batch)]
        if changes is not None:
            pixels = changed(pixels, changes)
        of = torch.tensor([j for j, texts in enumerate(said) for _ in texts], device=device)
        about = Pictures(torch.from_numpy(np.ascontiguousarray(pixels)).to(device), of)
        texts = [ids for some in said for ids in some]
        return about, *framed(texts, stop_of(self.tokenizer), device)

    def _told_of(
        self, part: str, batch: Sequence[int]
    ) -> tuple[list[list[list[int]]], Changes | None]:
        """What is said of each picture, and what is done to them this time, if anything is."""
        said = [self._said[part][k] for k in batch]
        if part != "train" or not self._mirrored:
            return said, None
        may, size = [self._mirrored[k] is not None for k in batch], self.recipe.data.pixels
        changes = draw_changes(batch, may, size, seed=self.recipe.seed, epoch=self._epoch)
        for j in changes.mirrored.nonzero()[0].tolist():
            said[j] = self._mirrored[batch[j]] or said[j]
        return said, changes

    def evaluate(self, crew: Crew) -> dict[str, float]:
        """The loss on the validation pictures; and what else decides which epoch is best."""
        if not self.pictures["validation"]:
            return {}
        measured = self.loss_on("validation", crew)
        if self.recipe.train.metric != "loss":
            found = self._scored("validation", self._written("validation", crew, self._greedily()))
            value = found.bleu[-1] if self.recipe.train.metric == "bleu" else found.exact
            measured[self.metric] = value
        return measured

    def _greedily(self) -> CaptionSearchConfig:
        """How captions are written between epochs: the likeliest token each time."""
        how: CaptionSearchConfig = replace(self.recipe.search, beams=1, length_penalty=0.0)
        return how

    def _written(self, part: str, crew: Crew, how: CaptionSearchConfig) -> list[str]:
        """The best caption of every picture of a part."""
        pixels = self.pixels[part]
        return self.shared_out(
            len(pixels),
            crew,
            lambda mine: (c[0].text for c in self.caption((pixels[k] for k in mine), how)),
        )

    def _scored(self, part: str, texts: list[str]) -> CaptionScores:
        return score_captions(texts, [list(p.captions) for p in self.pictures[part]])

    def test(self, crew: Crew) -> dict[str, Any]:
        """Describe the test pictures, and score that."""
        if not self.pictures["test"]:
            return {}
        texts = self._written("test", crew, self.recipe.search)
        found = self._scored("test", texts)
        measured: dict[str, Any] = self.loss_on("test", crew) | self._looks(texts)
        measured |= {f"test_bleu_{n}": value for n, value in enumerate(found.bleu, start=1)}
        if found.cider is not None:
            measured["test_cider"] = found.cider
        return measured | {
            "test_rouge": found.rouge,
            "test_exact": found.exact,
            "test_pictures": len(self.pictures["test"]),
            "signature": found.signature,
        }

    def _looks(self, texts: list[str]) -> dict[str, float]:
        """Of drawn scenes, in how many cases a shape was looked at when it was named, in per cent.

        Everybody in a crew asks for all: a model that is spread over it needs everybody.
        """
        if self.tokenizer.kind != "words":
            return {}
        of, seen = scenes_of(self.pictures["test"], self.recipe.seed), list[bool]()
        right = [k for k, scene in enumerate(of) if texts[k] == scene.caption]
        for start in range(0, len(right), AT_ONCE):
            some = right[start : start + AT_ONCE]
            about = pictured([self.pixels["test"][k] for k in some], self.model)
            written = [self.tokenizer.encode(texts[k]) for k in some]
            seen += on_shapes(self.model, about, written, [of[k] for k in some])
        return {"test_looked_at": 100 * sum(seen) / len(seen)} if seen else {}

    def remark(self) -> dict[str, Any]:
        """How the first of the validation pictures are described by now."""
        some = self.pictures["validation"][:SHOWN]
        found = self.caption(self.pixels["validation"][: len(some)], self._greedily())
        lines = [f"{p.captions[0]} → {c[0].text}" for p, c in zip(some, found, strict=True)]
        return {"sample": "\n".join(lines)} if lines else {}

    # -- describing --------------------------------------------------------------------------------

    def caption(
        self,
        pictures: Iterable[UInt8[np.ndarray, "size size 3"]],
        how: CaptionSearchConfig | None = None,
        sampling: Sampling | None = None,
    ) -> Iterator[list[Written]]:
        """Describe pictures as they come: of each the best captions, best first; or one drawn."""
        how, waiting = how or self.recipe.search, iter(pictures)
        while some := list(islice(waiting, AT_ONCE)):
            for found in self._found(pictured(some, self.model), how, sampling):
                yield [
                    Written(self.tokenizer.decode(h.tokens), h.tokens, h.log_probability, h.score)
                    for h in found
                ]

    @torch.no_grad()
    def _found(
        self, about: Pictures, how: CaptionSearchConfig, sampling: Sampling | None
    ) -> list[Any]:
        stop = stop_of(self.tokenizer)
        if sampling is not None:
            return drawn(self.model, about, stop, sampling, how.longest)
        return beam_search(
            self.model,
            about,
            stop=stop,
            longest=how.longest,
            beams=how.beams,
            length_penalty=how.length_penalty,
        )

    def evaluate_on(self, data: str | None = None, images: Path | None = None) -> dict[str, Any]:
        """Score the test part of a set, or all of a file; None: the recipe's test part.

        `images` is where the pictures of a file are, if not beside it.
        """
        loaded = self.test_set(data, images)
        self._take("test", loaded.pictures["test"], loaded.pixels["test"])
        measured = self.test(Crew(next(self.model.parameters()).device))
        return {**measured, "read": loaded.skipped.told()}

    def test_set(self, data: str | None = None, images: Path | None = None) -> CaptionSet:
        """What to test on: a set's test part, all of a file, or what the recipe held out."""
        wanted = self.recipe.data
        if data is not None:
            return load_caption_test(data, size=wanted.pixels, images=images, seed=self.recipe.seed)
        loaded, told = _loaded(self.recipe), self.data_told.get("sha256")
        if told not in (None, loaded.sha256):
            raise UserError(
                f"{wanted.set} is not what this run was trained on: what it held out cannot "
                "be told any more; --data measures on all of a file"
            )
        if not loaded.pictures["test"]:
            raise UserError(f"{wanted.set}: it has no pictures to test on")
        return loaded

    # -- the run folder ----------------------------------------------------------------------------

    def fingerprint(self) -> dict[str, Any]:
        """What two processes must agree about: the pictures, and how texts became numbers."""
        digest = hashlib.sha256(repr(self._said["train"][:1000]).encode()).hexdigest()[:16]
        return {**self.data_told, "tokens": len(self.tokenizer), "ids": digest}

    def twin(self, weights: dict[str, Tensor]) -> "Captioning":
        """Another of this kind, on the same pictures, with a model of its own that has these."""
        model = build_captioner(
            self.recipe.model, len(self.tokenizer), pixels=self.recipe.data.pixels
        )
        model.load_state_dict(weights)
        other = Captioning(self.recipe, self.tokenizer, model.eval())
        other.data_told, other.pictures, other.pixels = self.data_told, self.pictures, self.pixels
        other._said, other._mirrored = self._said, self._mirrored
        return other

    def save(self, folder: Path) -> None:
        """Write what is needed beside the weights."""
        self.tokenizer.save(folder / "tokenizer.json")

    def agrees(self, folder: Path) -> bool:
        """Tell whether a run's vocabulary is this."""
        return load_tokenizer(folder / "tokenizer.json") == self.tokenizer

    @classmethod
    def load(cls, folder: Path, recipe: CaptionRecipe, belongs: str | None = None) -> "Captioning":
        """Read a run's vocabulary and best weights, which may have to bear its mark."""
        tokenizer = load_tokenizer(folder / "tokenizer.json")
        model = with_weights(
            lambda: build_captioner(recipe.model, len(tokenizer), pixels=recipe.data.pixels),
            folder / "model.safetensors",
            belongs,
        )
        return cls(recipe, tokenizer, model)


def pictured(pictures: Sequence[Pixels], model: Captioner) -> Pictures:
    """Put pictures into a batch where the model is, each to be described once."""
    device = next(model.parameters()).device
    pixels = torch.from_numpy(np.stack(pictures)).to(device)
    return Pictures(pixels, torch.arange(len(pictures), device=device))


def _loaded(recipe: CaptionRecipe, progress: Progress | None = None) -> CaptionSet:
    wanted = recipe.data
    return load_captions(
        wanted.set,
        size=wanted.pixels,
        validation=wanted.validation,
        images=Path(wanted.images) if wanted.images else None,
        seed=recipe.seed,
        progress=progress,
    )


def _told(recipe: CaptionRecipe, loaded: CaptionSet) -> dict[str, Any]:
    counts = {part: len(loaded.pictures[part]) for part in PARTS}
    told = {"pictures": loaded.skipped.told(), "sha256": loaded.sha256}
    return {"set": recipe.data.set, **counts, **told}
