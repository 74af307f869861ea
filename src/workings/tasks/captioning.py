"""Image captioning: training on captioned images, scoring captions, and captioning images."""

import hashlib
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from itertools import islice
from pathlib import Path
from types import MappingProxyType
from typing import Any, Self

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
from workings.data.captions import (
    CaptionDataset,
    CaptionedImage,
    list_caption_datasets,
    load_captions,
    load_test_captions,
)
from workings.data.download import ProgressCallback
from workings.data.scenes import SCENE_SPLITS, Scene, compute_shape_masks, generate_scenes
from workings.data.tokenizers.base import Tokenizer, get_stop_id, load_tokenizer, train_tokenizer
from workings.decode import Hypothesis, Sampling, beam_search
from workings.distributed import ProcessGroup
from workings.errors import UserError
from workings.file_array import FileArray
from workings.metrics.captions import CaptionScores, score_captions
from workings.models.captioning import Captioner, ImageBatch, build_captioner
from workings.models.seq2seq import PAD, START
from workings.models.summary import ModelSummary, summarize
from workings.modules import device_of
from workings.recipes import CaptionRecipe, CaptionSearchConfig
from workings.tasks.attention import (
    AttentionPass,
    PassOptions,
    TargetText,
    collect_cross_attention,
    plan_decoder_pass,
    select_decoder_parts,
)
from workings.tasks.base import (
    SPLIT_NAMES,
    SUMMARY_LENGTH,
    CaptionSample,
    Generation,
    ImageArray,
    ModelExporter,
    ModelInput,
    Response,
    Seq2SeqTask,
    sample_texts,
    shift_right,
    unknown_rate,
)

CAPTION_BATCH_SIZE = 64  # images captioned at a time
NUM_SAMPLES = 2  # captions logged after each epoch
CAPTIONER_EXPORT_REFUSAL = (
    "a captioner can be exported to onnx only: its encoder is a convolutional network, and the "
    "captioners of other programs have a vision Transformer"
)

Pixels = NDArray[np.uint8]
Grid = Float[np.ndarray, "rows columns"]
CaptionIds = list[list[int]]  # the ids of each caption of an image


class Captioning(Seq2SeqTask):
    """Captioned images and a captioner."""

    files = ("tokenizer.json",)
    data_unit = "pictures"
    selectable_metrics = MappingProxyType({"loss": False, "bleu": True, "exact": True})
    noun = "captioner"
    verb = "caption"
    recipe: CaptionRecipe
    model: Captioner

    def __init__(self, recipe: CaptionRecipe, tokenizer: Tokenizer, model: Captioner) -> None:
        super().__init__(recipe)
        self.tokenizer, self.model = tokenizer, model
        self.pictures: dict[str, tuple[CaptionedImage, ...]] = dict.fromkeys(SPLIT_NAMES, ())
        self.pixels: dict[str, FileArray] = {}
        self._caption_ids: dict[str, list[CaptionIds]] = {}
        self._mirrored_caption_ids: list[CaptionIds | None] = []  # None: must not be mirrored
        self._epoch = 0

    @classmethod
    def from_recipe(
        cls,
        recipe: CaptionRecipe,
        progress: ProgressCallback | None = None,
        *,
        tokenizer: Tokenizer | None = None,
    ) -> Self:
        """Read images and captions, train the tokenizer and build a new model."""
        dataset = _load_caption_set(recipe, progress)
        config = recipe.tokenizer
        texts = [text for picture in dataset.images["train"] for text in picture.captions]
        tokenizer = tokenizer or train_tokenizer(
            config.kind, texts, config.vocab_size, config.min_count, with_eos=True
        )
        torch.manual_seed(recipe.seed)
        model = build_captioner(
            recipe.model,
            len(tokenizer),
            pixels=recipe.data.image_size,
            pretrained=not recipe.start_from,
        )
        task = cls(recipe, tokenizer, model)
        for split in SPLIT_NAMES:
            task._encode_split(split, dataset.images[split], dataset.pixels[split])
        if recipe.data.augment:
            mirrored = (mirror_captions(p.captions) for p in dataset.images["train"])
            task._mirrored_caption_ids = [
                None if captions is None else task._encode_captions(captions)
                for captions in mirrored
            ]
        task.data_info = _describe_data(recipe, dataset)
        return task

    @classmethod
    def build_model(cls, recipe: CaptionRecipe, tokenizer: Tokenizer) -> Captioner:
        return build_captioner(recipe.model, len(tokenizer), pixels=recipe.data.image_size)

    @classmethod
    def list_datasets(cls) -> tuple[str, ...]:
        return list_caption_datasets()

    @property
    def target_tokenizer(self) -> Tokenizer:
        return self.tokenizer

    @property
    def image_size(self) -> int:  # type: ignore[override]
        """The height and width of the images."""
        return self.recipe.data.image_size

    @property
    def initial_weights(self) -> str:
        """How the training began: from scratch, or from a pretrained vision encoder or run."""
        model = self.recipe.model
        if model.pretrained and not self.recipe.start_from:
            return f"from the weights of {model.encoder}"
        return super().initial_weights

    def measure_unknown_rate(self) -> float:
        captions = (ids for texts in self._caption_ids["train"] for ids in texts)
        return unknown_rate((ids, self.tokenizer) for ids in captions)

    def _encode_split(
        self, split: str, pictures: tuple[CaptionedImage, ...], pixels: FileArray
    ) -> None:
        self.pictures[split], self.pixels[split] = pictures, pixels
        self._caption_ids[split] = [self._encode_captions(picture.captions) for picture in pictures]

    def _encode_captions(self, captions: Sequence[str]) -> CaptionIds:
        return [list(self.tokenizer.encode(text)) for text in captions]

    # -- training ----------------------------------------------------------------------------------

    def batches(self, epoch: int) -> list[list[int]]:
        """Return batches of images; each image comes with all of its captions."""
        self.update_sampling_rate(epoch)
        self._epoch = epoch
        size, seed = self.recipe.train.batch_size, self.recipe.seed
        return make_batches(self._lengths("train"), size, seed=seed, epoch=epoch)

    def _lengths(self, split: str) -> list[int]:
        return [max(map(len, captions)) for captions in self._caption_ids[split]]

    def weight(self, batch: Sequence[int]) -> int:
        captions, _ = self._select_captions("train", batch)
        return sum(len(ids) + 1 for image_captions in captions for ids in image_captions)

    def describe(self, batch: Sequence[int]) -> str:
        count = sum(len(self._caption_ids["train"][k]) for k in batch)
        return f"a batch of {len(batch):,} pictures with {count:,} captions"

    def collate(
        self, split: str, batch: Sequence[int], device: torch.device
    ) -> tuple[ImageBatch, Int[Tensor, "texts time"], Int[Tensor, "texts time"]]:
        captions, augmentation = self._select_captions(split, batch)
        pixels = self.pixels[split][list(batch)]
        if augmentation is not None:
            pixels = augment_images(pixels, augmentation)
        image_index = [k for k, texts in enumerate(captions) for _ in texts]
        source = ImageBatch(
            torch.from_numpy(np.ascontiguousarray(pixels)).to(device),
            torch.tensor(image_index, device=device),
        )
        texts = [ids for image_captions in captions for ids in image_captions]
        return source, *shift_right(texts, get_stop_id(self.tokenizer), device)

    def _select_captions(
        self, split: str, batch: Sequence[int]
    ) -> tuple[list[CaptionIds], ImageAugmentation | None]:
        """Return the captions of each image, and how the images are augmented in this epoch."""
        captions = [self._caption_ids[split][k] for k in batch]
        if split != "train" or not self._mirrored_caption_ids:
            return captions, None
        augmentation = sample_augmentation(
            batch,
            [self._mirrored_caption_ids[k] is not None for k in batch],
            self.recipe.data.image_size,
            seed=self.recipe.seed,
            epoch=self._epoch,
        )
        for k in augmentation.flip.nonzero()[0].tolist():
            captions[k] = self._mirrored_caption_ids[batch[k]] or captions[k]
        return captions, augmentation

    # -- evaluation --------------------------------------------------------------------------------

    def list_eval_batches(self, split: str) -> list[list[int]]:
        size = self.recipe.train.batch_size
        return make_batches(self._lengths(split), size, seed=0, shuffle=False)

    def count_validation_tokens(self) -> int:
        return sum(self._lengths("validation"))

    def evaluate(self, process_group: ProcessGroup) -> dict[str, float]:
        """Compute the loss on the validation images, and the metric that chooses the best epoch."""
        if not self.pictures["validation"]:
            return {}
        metrics = self.evaluate_loss("validation", process_group)
        if self.recipe.train.metric in ("bleu", "exact"):
            stride = self.eval_stride
            texts = self._caption_split("validation", process_group, self._greedy_config(), stride)
            scores = self._score_split("validation", texts, stride)
            value = scores.bleu[-1] if self.recipe.train.metric == "bleu" else scores.exact_match
            metrics[f"validation_{self.recipe.train.metric}"] = value
        return metrics

    def _greedy_config(self) -> CaptionSearchConfig:
        return replace(self.recipe.search, beams=1, length_penalty=0.0)

    def _caption_split(
        self, split: str, process_group: ProcessGroup, config: CaptionSearchConfig, stride: int = 1
    ) -> list[str]:
        """Return the best caption of every `stride`-th image of a split."""
        pixels, indices = self.pixels[split], range(0, len(self.pixels[split]), stride)
        return self.split_over_ranks(
            len(indices),
            process_group,
            lambda share: (
                c[0].text for c in self.caption((pixels[indices[k]] for k in share), config)
            ),
        )

    def _score_split(self, split: str, texts: list[str], stride: int = 1) -> CaptionScores:
        return score_captions(texts, [list(p.captions) for p in self.pictures[split][::stride]])

    def test(self, process_group: ProcessGroup) -> dict[str, Any]:
        """Caption the test images; compute loss, BLEU, CIDEr-D, ROUGE-L and exact matches."""
        if not self.pictures["test"]:
            return {}
        texts = self._caption_split("test", process_group, self.recipe.search)
        scores = self._score_split("test", texts)
        metrics: dict[str, Any] = self.evaluate_loss("test", process_group)
        metrics |= self._score_shape_attention(texts)
        metrics |= {f"test_bleu_{n}": value for n, value in enumerate(scores.bleu, start=1)}
        if scores.cider is not None:
            metrics["test_cider"] = scores.cider
        return metrics | {
            "test_rouge": scores.rouge,
            "test_exact": scores.exact_match,
            "test_pictures": len(self.pictures["test"]),
            "signature": scores.signature,
        }

    def _score_shape_attention(self, texts: list[str]) -> dict[str, float]:
        """Compute how often a shape is attended to when it is named, in percent.

        Only for correct captions of generated scenes, whose shapes are known. All processes compute
        all of it: a sharded model needs all of them in every forward pass.
        """
        if self.tokenizer.kind != "words":
            return {}
        scenes, attended = match_scenes(self.pictures["test"], self.recipe.seed), list[bool]()
        correct = [k for k, scene in enumerate(scenes) if texts[k] == scene.caption]
        for start in range(0, len(correct), CAPTION_BATCH_SIZE):
            batch = correct[start : start + CAPTION_BATCH_SIZE]
            source = collate_pictures([self.pixels["test"][k] for k in batch], self.model)
            captions = [self.tokenizer.encode(texts[k]) for k in batch]
            batch_scenes = [scenes[k] for k in batch]
            attended += check_shape_attention(self.model, source, captions, batch_scenes)
        return {"test_attended_shapes": 100 * sum(attended) / len(attended)} if attended else {}

    def sample_outputs(self) -> dict[str, Any]:
        """Return captions of the first validation images."""
        pictures = self.pictures["validation"][:NUM_SAMPLES]
        captions = self.caption(self.pixels["validation"][: len(pictures)], self._greedy_config())
        lines = [f"{p.captions[0]} → {c[0].text}" for p, c in zip(pictures, captions, strict=True)]
        return {"sample": "\n".join(lines)} if lines else {}

    def evaluate_on(self, data: str | None = None, images: Path | None = None) -> dict[str, Any]:
        """Compute the metrics on a dataset's test split, a file, or the recipe's test split.

        `images` is the folder of a file's images, if they are not beside it.
        """
        dataset = self.load_test_set(data, images)
        self._encode_split("test", dataset.images["test"], dataset.pixels["test"])
        return {**self.test(self.local_group), "filtered": dataset.image_stats.describe()}

    def evaluate_on_images(self, data: str, images: Path) -> dict[str, Any]:
        return self.evaluate_on(data, images)

    def load_test_set(self, data: str | None = None, images: Path | None = None) -> CaptionDataset:
        """Read the test split of a dataset, all of a file, or the recipe's test split."""
        config = self.recipe.data
        if data is not None:
            return load_test_captions(
                data, image_size=config.image_size, images=images, seed=self.recipe.seed
            )
        dataset = _load_caption_set(self.recipe)
        self.check_trained_on(dataset.sha256)
        if not dataset.images["test"]:
            raise UserError(f"{config.set}: it has no test pictures")
        return dataset

    # -- captioning --------------------------------------------------------------------------------

    def caption(
        self,
        pictures: Iterable[UInt8[np.ndarray, "size size 3"]],
        config: CaptionSearchConfig | None = None,
        sampling: Sampling | None = None,
    ) -> Iterator[list[Generation]]:
        """Yield the captions of each image, best first; with `sampling`, a sampled one."""
        config, remaining = config or self.recipe.search, iter(pictures)
        while batch := list(islice(remaining, CAPTION_BATCH_SIZE)):
            for ranked in self._decode(collate_pictures(batch, self.model), config, sampling):
                yield [
                    Generation(
                        self.tokenizer.decode(h.tokens), h.tokens, h.log_probability, h.score
                    )
                    for h in ranked
                ]

    @torch.no_grad()
    def _decode(
        self, source: ImageBatch, config: CaptionSearchConfig, sampling: Sampling | None
    ) -> list[list[Hypothesis]]:
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

    def respond(self, model_input: ModelInput, logits: Tensor | None = None) -> Response:
        del logits  # the best caption is found by a search
        image = _check_image(model_input)
        return Response("Best caption", generation=next(self.caption([image]))[0])

    def caption_held_out(self, count: int) -> list[CaptionSample]:
        split = "test" if self.pictures["test"] else "validation"
        pictures, pixels = self.pictures[split][:count], self.pixels[split][:count]
        return [
            CaptionSample(split, picture.name, image, picture.captions, ranked[0])
            for picture, image, ranked in zip(pictures, pixels, self.caption(pixels), strict=True)
        ]

    # -- looking inside ----------------------------------------------------------------------------

    def plan_attention(
        self, model_input: ModelInput, target: Generation | str | None, options: PassOptions
    ) -> AttentionPass:
        image, model = _check_image(model_input), self.model
        parts = select_decoder_parts(model, self.noun, ("cross", "decoder"), options)
        if target is None:
            target = next(self.caption([image]))[0]
        output = TargetText.build(self.tokenizer, target)
        source = collate_pictures([image], model)
        return plan_decoder_pass(model, source, parts, None, output, options)

    @classmethod
    def summarize_recipe(
        cls, recipe: CaptionRecipe, vocab_size: int, num_classes: int
    ) -> ModelSummary:
        del num_classes
        image_size = recipe.data.image_size
        model = build_captioner(recipe.model, vocab_size, pixels=image_size)
        return summarize(model, SUMMARY_LENGTH, recipe.train.batch_size, image_size)

    def export(self, exporter: ModelExporter) -> list[str]:
        return exporter.export_captioner(self.model, self.tokenizer, self.image_size)

    # -- the run folder ----------------------------------------------------------------------------

    @property
    def preprocessing(self) -> tuple[Tokenizer]:
        return (self.tokenizer,)

    @classmethod
    def load_preprocessing(cls, folder: Path, recipe: CaptionRecipe) -> tuple[Tokenizer]:
        del recipe
        return (load_tokenizer(folder / "tokenizer.json"),)

    def save(self, folder: Path) -> None:
        """Write the tokenizer."""
        self.tokenizer.save(folder / "tokenizer.json")

    def fingerprint(self) -> dict[str, Any]:
        digest = hashlib.sha256(repr(self._caption_ids["train"][:1000]).encode()).hexdigest()[:16]
        return {**self.data_info, "tokens": len(self.tokenizer), "ids": digest}


def _check_image(model_input: ModelInput) -> ImageArray:
    if isinstance(model_input, str):
        raise UserError("a captioner needs an image: the page shows its heads (workings serve)")
    return model_input


def collate_pictures(pictures: Sequence[Pixels], model: Captioner) -> ImageBatch:
    """Return a batch of images on the model's device, with one caption each."""
    device = device_of(model)
    pixels = torch.from_numpy(np.stack(pictures)).to(device)
    return ImageBatch(pixels, torch.arange(len(pictures), device=device))


def _load_caption_set(
    recipe: CaptionRecipe, progress: ProgressCallback | None = None
) -> CaptionDataset:
    config = recipe.data
    return load_captions(
        config.set,
        image_size=config.image_size,
        validation=config.validation,
        images=Path(config.images) if config.images else None,
        seed=recipe.seed,
        progress=progress,
    )


def _describe_data(recipe: CaptionRecipe, dataset: CaptionDataset) -> dict[str, Any]:
    return {
        "set": recipe.data.set,
        **{split: len(dataset.images[split]) for split in SPLIT_NAMES},
        "filtered": dataset.image_stats.describe(),
        "sha256": dataset.sha256,
    }


def match_scenes(pictures: Sequence[CaptionedImage], seed: int) -> list[Scene]:
    """Return the generated scenes that images show; none, if they were not generated here."""
    split = pictures[0].name.partition("/")[0]
    if split not in SCENE_SPLITS:
        return []
    scenes = list(islice(generate_scenes(split, seed), len(pictures)))
    pairs = zip(scenes, pictures, strict=True)
    return scenes if all((s.caption,) == p.captions for s, p in pairs) else []


def check_shape_attention(
    model: Captioner,
    source: ImageBatch,
    captions: Sequence[Sequence[int]],
    expected_scenes: Sequence[Scene],
) -> Iterator[bool]:
    """Yield for each shape whether the model attends to it when it generates its noun.

    `captions` are the scenes' own, one token per word. A shape is attended to if a part of it lies
    where the weight is at least half of the largest one. Nothing is yielded without attention.
    """
    max_length = max(map(len, captions))
    target = torch.tensor(
        [[START, *ids, *[PAD] * (max_length - len(ids))] for ids in captions],
        device=source.image_index.device,
    )
    layers = collect_cross_attention(model, source, target)
    if not layers:
        return
    weights: Tensor = torch.stack(layers).mean((0, 2)).float().cpu()  # [texts, tokens, cells]
    size = source.pixels.shape[1]
    for scene, caption_weights in zip(expected_scenes, weights, strict=True):
        side = round(caption_weights.shape[-1] ** 0.5)  # images are square, and so are their grids
        for noun, mask in zip(scene.noun_indices, compute_shape_masks(scene, size), strict=True):
            yield _overlaps_shape(caption_weights[noun].view(side, side).numpy(), mask)


def _overlaps_shape(weights: Grid, mask: NDArray[np.bool_]) -> bool:
    """Return True if a part of the mask lies where weights are at least half of the largest."""
    rows, columns = np.nonzero(mask)
    scale = len(weights) / len(mask)
    inside = weights[(rows * scale).astype(int), (columns * scale).astype(int)]
    return bool((inside >= weights.max() / 2).any())
