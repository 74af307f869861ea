"""Whether a captioner looks at the shape that it names, which is known of scenes drawn here."""

import hashlib
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np
import torch
from jaxtyping import Float, Int, UInt8
from numpy.typing import NDArray
from torch import Tensor

from workings.data.augmentation import (
    ImageAugmentation,
    augment_images,
    mirror_captions,
    sample_augmentation,
)
from workings.data.batching import make_batches
from workings.data.captions import CaptionDataset, CaptionedImage, load_captions, load_test_captions
from workings.data.download import ProgressCallback
from workings.data.scenes import SCENE_SPLITS, Scene, compute_shape_masks, generate_scenes
from workings.data.tokenizers.base import Tokenizer
from workings.data.tokenizers.registry import load_tokenizer, train_tokenizer
from workings.decode.beam import beam_search
from workings.decode.sampling import Sampling
from workings.distributed import ProcessGroup
from workings.errors import UserError
from workings.metrics.captions import CaptionScores, score_captions
from workings.models.captioning import Captioner, ImageBatch, build_captioner
from workings.models.seq2seq import START
from workings.recipes import CaptionRecipe, CaptionSearchConfig
from workings.tasks.base import build_from_file
from workings.tasks.seq2seq import (
    Generation,
    Seq2SeqTask,
    collect_cross_attention,
    get_stop_id,
    sample_texts,
    shift_right,
)

Grid = Float[np.ndarray, "rows columns"]


def match_scenes(pictures: Sequence[CaptionedImage], seed: int) -> list[Scene]:
    """The scenes that pictures were drawn from; none, if they are not the first of a part."""
    part = pictures[0].name.partition("/")[0]
    if part not in SCENE_SPLITS:
        return []
    found = list(islice(generate_scenes(part, seed), len(pictures)))
    pairs = zip(found, pictures, strict=True)
    return found if all((s.caption,) == p.captions for s, p in pairs) else []


def check_shape_attention(
    model: Captioner,
    source: ImageBatch,
    captions: Sequence[Sequence[int]],
    expected_scenes: Sequence[Scene],
) -> Iterator[bool]:
    """Of each shape that was named rightly: whether its region was the one looked at.

    `written`: a token a word, of captions that are the scenes' own. The region that is looked at
    when a shape's noun is written is all places with at least half of the largest weight; it is
    the shape's if the shape lies in it, in part or as a whole.
    """
    longest = max(map(len, captions))
    target = torch.tensor(
        [[START, *ids, *[0] * (longest - len(ids))] for ids in captions],
        device=source.image_index.device,
    )
    layers = collect_cross_attention(model, source, target)
    if not layers:
        return
    weights: Tensor = torch.stack(layers).mean((0, 2)).float().cpu()  # [texts, tokens, places]
    size = source.pixels.shape[1]
    for scene, seen in zip(expected_scenes, weights, strict=True):
        for noun, mask in zip(scene.noun_indices, compute_shape_masks(scene, size), strict=True):
            side = round(seen.shape[-1] ** 0.5)  # pictures are square, and so are their grids
            yield _overlaps_shape(seen[noun].view(side, side).numpy(), mask)


def _overlaps_shape(weights: Grid, mask: NDArray[np.bool_]) -> bool:
    """Say whether a shape lies where the weights are at least half of the largest."""
    rows, columns = np.nonzero(mask)
    scale = len(weights) / len(mask)
    seen = weights[(rows * scale).astype(int), (columns * scale).astype(int)]
    return bool((seen >= weights.max() / 2).any())


SPLIT_NAMES = ("train", "validation", "test")
CAPTION_BATCH_SIZE = 64  # pictures that are described together
NUM_SAMPLES = 2  # captions that are logged after an epoch

Pixels = NDArray[np.uint8]


class Captioning(Seq2SeqTask):
    """Pictures and a captioner: what the loop trains, and what describes pictures afterwards."""

    files = ("tokenizer.json",)
    data_unit = "pictures"
    model: Captioner

    def __init__(self, recipe: CaptionRecipe, tokenizer: Tokenizer, model: Captioner) -> None:
        super().__init__(recipe)
        self.tokenizer, self.model = tokenizer, model
        self.pictures: dict[str, tuple[CaptionedImage, ...]] = dict.fromkeys(SPLIT_NAMES, ())
        self.pixels: dict[str, Pixels] = {}
        self._caption_ids: dict[
            str, list[list[list[int]]]
        ] = {}  # of each picture, the ids of each text
        self._mirrored_caption_ids: list[
            list[list[int]] | None
        ] = []  # the same of the mirrored picture
        self._epoch = 0

    @classmethod
    def from_recipe(
        cls, recipe: CaptionRecipe, progress: ProgressCallback | None = None
    ) -> "Captioning":
        """Read the pictures, make the vocabulary and a fresh model."""
        loaded = _load_caption_set(recipe, progress)
        wanted = recipe.tokenizer
        texts = [text for picture in loaded.images["train"] for text in picture.captions]
        tokenizer = train_tokenizer(
            wanted.kind, texts, wanted.vocab_size, wanted.min_count, with_eos=True
        )
        torch.manual_seed(recipe.seed)
        model = build_captioner(
            recipe.model, len(tokenizer), pixels=recipe.data.image_size, pretrained=True
        )
        task = cls(recipe, tokenizer, model)
        for part in SPLIT_NAMES:
            task._encode_split(part, loaded.images[part], loaded.pixels[part])
        if recipe.data.augment:
            mirrored = (mirror_captions(p.captions) for p in loaded.images["train"])
            task._mirrored_caption_ids = [
                None if said is None else task._encode_captions(said) for said in mirrored
            ]
        task.data_info = _describe_data(recipe, loaded)
        return task

    def _encode_split(
        self, split: str, pictures: tuple[CaptionedImage, ...], pixels: Pixels
    ) -> None:
        self.pictures[split], self.pixels[split] = pictures, pixels
        self._caption_ids[split] = [self._encode_captions(picture.captions) for picture in pictures]

    def _encode_captions(self, captions: Sequence[str]) -> list[list[int]]:
        return [list(self.tokenizer.encode(text)) for text in captions]

    # -- what the training loop asks ---------------------------------------------------------------

    def batches(self, epoch: int) -> list[list[int]]:
        """The training batches: so many pictures, with all that is said of each."""
        self.update_sampling_rate(epoch)
        self._epoch = epoch
        size, seed = self.recipe.train.batch_size, self.recipe.seed
        return make_batches(self._lengths("train"), size, seed=seed, epoch=epoch)

    def _lengths(self, split: str) -> list[int]:
        return [max(map(len, texts)) for texts in self._caption_ids[split]]

    def list_eval_batches(self, split: str) -> list[list[int]]:
        """The batches in which the loss on a part is measured."""
        return make_batches(
            self._lengths(split), self.recipe.train.batch_size, seed=0, shuffle=False
        )

    def weight(self, batch: Sequence[int]) -> int:
        """Over how many tokens the loss is a mean."""
        said, _ = self._select_captions("train", batch)
        return sum(len(ids) + 1 for texts in said for ids in texts)

    def describe(self, batch: Sequence[int]) -> str:
        """Say what a batch is."""
        texts = sum(len(self._caption_ids["train"][k]) for k in batch)
        return f"a batch of {len(batch):,} pictures with {texts:,} captions"

    def collate(
        self, split: str, batch: Sequence[int], device: torch.device
    ) -> tuple[ImageBatch, Int[Tensor, "texts time"], Int[Tensor, "texts time"]]:
        """Pictures, their captions behind a start token, and what follows each token of these."""
        said, changes = self._select_captions(split, batch)
        pixels = self.pixels[split][list(batch)]
        if changes is not None:
            pixels = augment_images(pixels, changes)
        of = torch.tensor([j for j, texts in enumerate(said) for _ in texts], device=device)
        about = ImageBatch(torch.from_numpy(np.ascontiguousarray(pixels)).to(device), of)
        texts = [ids for some in said for ids in some]
        return about, *shift_right(texts, get_stop_id(self.tokenizer), device)

    def _select_captions(
        self, split: str, batch: Sequence[int]
    ) -> tuple[list[list[list[int]]], ImageAugmentation | None]:
        """What is said of each picture, and what is done to them this time, if anything is."""
        said = [self._caption_ids[split][k] for k in batch]
        if split != "train" or not self._mirrored_caption_ids:
            return said, None
        may, size = (
            [self._mirrored_caption_ids[k] is not None for k in batch],
            self.recipe.data.image_size,
        )
        changes = sample_augmentation(batch, may, size, seed=self.recipe.seed, epoch=self._epoch)
        for j in changes.flip.nonzero()[0].tolist():
            said[j] = self._mirrored_caption_ids[batch[j]] or said[j]
        return said, changes

    def evaluate(self, process_group: ProcessGroup) -> dict[str, float]:
        """The loss on the validation pictures; and what else decides which epoch is best."""
        if not self.pictures["validation"]:
            return {}
        measured = self.evaluate_loss("validation", process_group)
        if self.recipe.train.metric != "loss":
            found = self._score_split(
                "validation",
                self._caption_split("validation", process_group, self._greedy_config()),
            )
            value = found.bleu[-1] if self.recipe.train.metric == "bleu" else found.exact_match
            measured[self.metric] = value
        return measured

    def _greedy_config(self) -> CaptionSearchConfig:
        """How captions are written between epochs: the likeliest token each time."""
        how: CaptionSearchConfig = replace(self.recipe.search, beams=1, length_penalty=0.0)
        return how

    def _caption_split(
        self, split: str, process_group: ProcessGroup, config: CaptionSearchConfig
    ) -> list[str]:
        """The best caption of every picture of a part."""
        pixels = self.pixels[split]
        return self.split_over_ranks(
            len(pixels),
            process_group,
            lambda mine: (c[0].text for c in self.caption((pixels[k] for k in mine), config)),
        )

    def _score_split(self, split: str, texts: list[str]) -> CaptionScores:
        return score_captions(texts, [list(p.captions) for p in self.pictures[split]])

    def test(self, process_group: ProcessGroup) -> dict[str, Any]:
        """Describe the test pictures, and score that."""
        if not self.pictures["test"]:
            return {}
        texts = self._caption_split("test", process_group, self.recipe.search)
        found = self._score_split("test", texts)
        measured: dict[str, Any] = self.evaluate_loss(
            "test", process_group
        ) | self._score_shape_attention(texts)
        measured |= {f"test_bleu_{n}": value for n, value in enumerate(found.bleu, start=1)}
        if found.cider is not None:
            measured["test_cider"] = found.cider
        return measured | {
            "test_rouge": found.rouge,
            "test_exact": found.exact_match,
            "test_pictures": len(self.pictures["test"]),
            "signature": found.signature,
        }

    def _score_shape_attention(self, texts: list[str]) -> dict[str, float]:
        """Of drawn scenes, in how many cases a shape was looked at when it was named, in per cent.

        Everybody in a crew asks for all: a model that is spread over it needs everybody.
        """
        if self.tokenizer.kind != "words":
            return {}
        of, seen = match_scenes(self.pictures["test"], self.recipe.seed), list[bool]()
        right = [k for k, scene in enumerate(of) if texts[k] == scene.caption]
        for start in range(0, len(right), CAPTION_BATCH_SIZE):
            some = right[start : start + CAPTION_BATCH_SIZE]
            about = collate_pictures([self.pixels["test"][k] for k in some], self.model)
            written = [self.tokenizer.encode(texts[k]) for k in some]
            seen += check_shape_attention(self.model, about, written, [of[k] for k in some])
        return {"test_attended_shapes": 100 * sum(seen) / len(seen)} if seen else {}

    def sample_outputs(self) -> dict[str, Any]:
        """How the first of the validation pictures are described by now."""
        some = self.pictures["validation"][:NUM_SAMPLES]
        found = self.caption(self.pixels["validation"][: len(some)], self._greedy_config())
        lines = [f"{p.captions[0]} → {c[0].text}" for p, c in zip(some, found, strict=True)]
        return {"sample": "\n".join(lines)} if lines else {}

    # -- describing --------------------------------------------------------------------------------

    def caption(
        self,
        pictures: Iterable[UInt8[np.ndarray, "size size 3"]],
        config: CaptionSearchConfig | None = None,
        sampling: Sampling | None = None,
    ) -> Iterator[list[Generation]]:
        """Describe pictures as they come: of each the best captions, best first; or one drawn."""
        config, waiting = config or self.recipe.search, iter(pictures)
        while some := list(islice(waiting, CAPTION_BATCH_SIZE)):
            for found in self._decode(collate_pictures(some, self.model), config, sampling):
                yield [
                    Generation(
                        self.tokenizer.decode(h.tokens), h.tokens, h.log_probability, h.score
                    )
                    for h in found
                ]

    @torch.no_grad()
    def _decode(
        self, source: ImageBatch, config: CaptionSearchConfig, sampling: Sampling | None
    ) -> list[Any]:
        stop = get_stop_id(self.tokenizer)
        if sampling is not None:
            return sample_texts(self.model, source, stop, sampling, config.max_length)
        return beam_search(
            self.model,
            source,
            stop=stop,
            max_length=config.max_length,
            beams=config.beams,
            length_penalty=config.length_penalty,
        )

    def evaluate_on(self, data: str | None = None, images: Path | None = None) -> dict[str, Any]:
        """Score the test part of a set, or all of a file; None: the recipe's test part.

        `images` is where the pictures of a file are, if not beside it.
        """
        loaded = self.load_test_set(data, images)
        self._encode_split("test", loaded.images["test"], loaded.pixels["test"])
        measured = self.test(ProcessGroup(next(self.model.parameters()).device))
        return {**measured, "filtered": loaded.image_stats.describe()}

    def load_test_set(self, data: str | None = None, images: Path | None = None) -> CaptionDataset:
        """What to test on: a set's test part, all of a file, or what the recipe held out."""
        wanted = self.recipe.data
        if data is not None:
            return load_test_captions(
                data, image_size=wanted.image_size, images=images, seed=self.recipe.seed
            )
        loaded, told = _load_caption_set(self.recipe), self.data_info.get("sha256")
        if told not in (None, loaded.sha256):
            raise UserError(
                f"{wanted.set} is not what this run was trained on: what it held out cannot "
                "be told any more; --data measures on all of a file"
            )
        if not loaded.images["test"]:
            raise UserError(f"{wanted.set}: it has no pictures to test on")
        return loaded

    # -- the run folder ----------------------------------------------------------------------------

    def fingerprint(self) -> dict[str, Any]:
        """What two processes must agree about: the pictures, and how texts became numbers."""
        digest = hashlib.sha256(repr(self._caption_ids["train"][:1000]).encode()).hexdigest()[:16]
        return {**self.data_info, "tokens": len(self.tokenizer), "ids": digest}

    def with_weights(self, weights: dict[str, Tensor]) -> "Captioning":
        """Another of this kind, on the same pictures, with a model of its own that has these."""
        model = build_captioner(
            self.recipe.model, len(self.tokenizer), pixels=self.recipe.data.image_size
        )
        model.load_state_dict(weights)
        other = Captioning(self.recipe, self.tokenizer, model.eval())
        other.data_info, other.pictures, other.pixels = self.data_info, self.pictures, self.pixels
        other._caption_ids, other._mirrored_caption_ids = (
            self._caption_ids,
            self._mirrored_caption_ids,
        )
        return other

    def save(self, folder: Path) -> None:
        """Write what is needed beside the weights."""
        self.tokenizer.save(folder / "tokenizer.json")

    def matches_folder(self, folder: Path) -> bool:
        """Tell whether a run's vocabulary is this."""
        return load_tokenizer(folder / "tokenizer.json") == self.tokenizer

    @classmethod
    def load(cls, folder: Path, recipe: CaptionRecipe, run_id: str | None = None) -> "Captioning":
        """Read a run's vocabulary and best weights, which may have to bear its mark."""
        tokenizer = load_tokenizer(folder / "tokenizer.json")
        model = build_from_file(
            lambda: build_captioner(recipe.model, len(tokenizer), pixels=recipe.data.image_size),
            folder / "model.safetensors",
            run_id,
        )
        return cls(recipe, tokenizer, model)


def collate_pictures(pictures: Sequence[Pixels], model: Captioner) -> ImageBatch:
    """Put pictures into a batch where the model is, each to be described once."""
    device = next(model.parameters()).device
    pixels = torch.from_numpy(np.stack(pictures)).to(device)
    return ImageBatch(pixels, torch.arange(len(pictures), device=device))


def _load_caption_set(
    recipe: CaptionRecipe, progress: ProgressCallback | None = None
) -> CaptionDataset:
    wanted = recipe.data
    return load_captions(
        wanted.set,
        image_size=wanted.image_size,
        validation=wanted.validation,
        images=Path(wanted.images) if wanted.images else None,
        seed=recipe.seed,
        progress=progress,
    )


def _describe_data(recipe: CaptionRecipe, loaded: CaptionDataset) -> dict[str, Any]:
    counts = {part: len(loaded.images[part]) for part in SPLIT_NAMES}
    told = {"filtered": loaded.image_stats.describe(), "sha256": loaded.sha256}
    return {"set": recipe.data.set, **counts, **told}
