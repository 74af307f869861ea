"""Captioning: learning colors and sides, augmentation, and attention to shapes."""

from itertools import islice

import numpy as np
import pytest
import torch
import toys

from workings.data.captions import CaptionedImage
from workings.data.scenes import generate_scenes
from workings.distributed import ProcessGroup
from workings.errors import UserError
from workings.interpret.attention import caption_attention
from workings.models.captioning import ImageBatch
from workings.recipes import build_recipe
from workings.tasks import captioning
from workings.tasks.captioning import Captioning
from workings.training.runs import load, train_recipe

pytest.importorskip("PIL")


@pytest.fixture
def task(squares_run):
    return load(squares_run)


# -- learning --------------------------------------------------------------------------------------


def test_captioner_learns_colors_and_sides(squares_run):
    result = toys.result(squares_run)
    assert result["test_exact"] == 100.0
    assert result["test_bleu_4"] > 99
    assert result["test_pictures"] == 15


def test_scheduled_sampling_learns(squares, tmp_path):
    recipe = toys.squares_recipe(squares, "--scheduled_sampling.rate", "0.5")
    train_recipe(recipe, tmp_path / "run", mode="quiet")
    assert toys.result(tmp_path / "run")["test_exact"] > 66


@pytest.mark.parametrize("overrides", [("--model.kind", "transformer"), ("--model.encoder", "vgg")])
def test_all_kinds_train(squares, tmp_path, overrides):
    recipe = toys.squares_recipe(squares, *overrides, "--train.epochs", "1")
    task = train_recipe(recipe, tmp_path / "run", mode="quiet")
    assert np.isfinite(task.evaluate_on()["test_loss"])


def test_generated_scenes_can_be_trained_on():
    table = {
        "task": "caption",
        "data": {"set": "scenes", "image_size": 32},
        "model": {"size": "small"},
    }
    task = Captioning.from_recipe(build_recipe(table))
    assert len(task.pictures["train"]) == 8000
    assert task.pictures["test"][0].captions == (next(generate_scenes("test")).caption,)
    loss = task.loss(task.batches(0)[0][:4], torch.device("cpu")).mean
    assert 2 < float(loss.detach()) < 6


def test_invalid_recipes_are_refused(squares):
    with pytest.raises(UserError, match=r"data.image_size = 2: 2 stages need 4"):
        toys.squares_recipe(squares, "--data.image_size", "2")
    with pytest.raises(UserError, match="there are no weights for residual"):
        toys.squares_recipe(squares, "--model.pretrained", "true")
    with pytest.raises(UserError, match="scheduled_sampling is for recurrent models"):
        toys.squares_recipe(
            squares, "--model.kind", "transformer", "--scheduled_sampling.rate", "0.1"
        )
    with pytest.raises(UserError, match="2 images or more"):
        toys.squares_recipe(squares, "--model.attention", "none", "--train.batch_size", "1")
    toys.squares_recipe(squares, "--train.batch_size", "1")


def test_progress_of_decoding_is_reported_once(squares, tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    calls = []
    for _ in range(2):
        recipe = toys.squares_recipe(squares)
        Captioning.from_recipe(recipe, lambda done, total: calls.append((done, total)))
        assert calls == [(k, 150) for k in range(1, 151)]


# -- augmentation ----------------------------------------------------------------------------------


def test_captions_of_mirrored_images_have_the_other_side(squares):
    task = Captioning.from_recipe(toys.squares_recipe(squares, "--data.augment", "true"))
    task.batches(0)
    source, inputs, _ = task.collate("train", list(range(40)), torch.device("cpu"))
    mirrored = 0
    for k, ids in zip(source.image_index.tolist(), inputs, strict=True):
        text = task.tokenizer.decode([t for t in ids.tolist() if t > 3])
        colored = source.pixels[k].float().std(-1) > 20
        column = colored.nonzero()[:, 1].float().mean()
        assert ("left" in text) == (column < 8), text
        mirrored += ("left" in text) != ("left" in task.pictures["train"][k].captions[0])
    assert 20 < mirrored < 60


def test_the_loss_is_averaged_over_the_tokens_of_the_augmented_captions(squares):
    overrides = ("--tokenizer.kind", "characters", "--data.augment", "true")
    task = Captioning.from_recipe(toys.squares_recipe(squares, *overrides))
    num_different = 0
    for batch in task.batches(1):
        _, _, targets = task.collate("train", batch, torch.device("cpu"))
        assert task.weight(batch) == int((targets != 0).sum())
        num_different += task.weight(batch) != sum(
            len(ids) + 1 for k in batch for ids in task._caption_ids["train"][k]
        )
    assert num_different  # "left" is shorter than "right"


# -- evaluation ------------------------------------------------------------------------------------


def test_a_caption_does_not_depend_on_its_batch(task, squares_run):
    pixels = task.load_test_set().pixels["test"]
    captions = [c[0] for c in task.caption(pixels)]
    assert captions == [c[0] for c in load(squares_run).caption(iter(pixels))]
    assert next(task.caption(pixels[3:4]))[0].text == captions[3].text


def test_captioner_is_evaluated_on_other_images(task, squares):
    metrics = task.evaluate_on(str(squares))
    assert metrics["test_pictures"] == 150
    assert metrics["test_exact"] > 95


def test_validation_captions_have_the_length_limit_of_the_search(squares, monkeypatch):
    overrides = ("--tokenizer.kind", "characters", "--search.max_length", "70")
    recipe = toys.squares_recipe(squares, *overrides, "--train.metric", "bleu")
    task, searches = Captioning.from_recipe(recipe), []

    def caption_split(_split, _process_group, config, _stride):
        searches.append((config.max_length, config.beams))
        return [picture.captions[0] for picture in task.pictures["validation"]]

    monkeypatch.setattr(task, "_caption_split", caption_split)
    assert task.evaluate(ProcessGroup(torch.device("cpu")))["validation_bleu"] > 99
    assert searches == [(70, 1)]


# -- attention -------------------------------------------------------------------------------------


def test_caption_attention_sums_to_one_for_each_word(task):
    pixels = task.load_test_set().pixels["test"]
    for image, found in zip(pixels[:5], task.caption(pixels[:5]), strict=True):
        attention = caption_attention(task, image, found[0], "it")
        assert " ".join(attention.words) == found[0].text
        assert attention.weights.shape == (len(attention.words), 4, 4)
        np.testing.assert_allclose(attention.weights.sum((1, 2)), 1, atol=1e-5)


def test_a_captioner_without_attention_has_no_weights(squares):
    task = Captioning.from_recipe(toys.squares_recipe(squares, "--model.attention", "none"))
    pixels = task.pixels["test"][0]
    found = next(task.caption([pixels]))[0]
    assert caption_attention(task, pixels, found, "it").weights is None
    with pytest.raises(UserError, match="this captioner has no attention"):
        caption_attention(task, pixels, found, "it", heads=[1])


@pytest.mark.parametrize("weight", [0.0, 0.4, 0.6])
def test_a_shape_is_attended_to_from_half_of_the_largest_weight_on(monkeypatch, weight):
    scenes = list(islice(generate_scenes("test", 0), 30))

    def cross_attention(_model, source, target):
        """Weight 1 on a corner without shape, and `weight` on the center of the first shape."""
        weights = torch.zeros(len(source.image_index), 1, target.shape[1], 64)
        for k, scene in enumerate(scenes):
            first = scene.shapes[0]
            weights[k, 0, :, 0] = 1.0
            cell = int(first.y * 8) * 8 + int(first.x * 8)
            weights[k, 0, scene.noun_indices[0], cell] = weight
        return [weights]

    monkeypatch.setattr(captioning, "collect_cross_attention", cross_attention)
    source = ImageBatch(torch.zeros(30, 64, 64, 3, dtype=torch.uint8), torch.arange(30))
    captions = [list(range(len(scene.caption.split()))) for scene in scenes]
    attended = list(captioning.check_shape_attention(None, source, captions, scenes))
    nouns = [noun for scene in scenes for noun in scene.noun_indices]
    first_nouns = [a for a, noun in zip(attended, nouns, strict=True) if noun == 3]
    assert sum(first_nouns) == (30 if weight >= 0.5 else 0)


def test_generated_scenes_are_recognized():
    images = [
        CaptionedImage(f"test/{k}", (scene.caption,))
        for k, scene in enumerate(islice(generate_scenes("test", 4), 9))
    ]
    assert len(captioning.match_scenes(images, 4)) == 9
    assert captioning.match_scenes(images, 5) == []
    assert captioning.match_scenes([CaptionedImage("a.jpg", ("a dog",))], 4) == []
