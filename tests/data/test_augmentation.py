"""Augmented images, and captions that stay correct."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from workings.data.augmentation import (
    ImageAugmentation,
    augment_images,
    mirror_captions,
    sample_augmentation,
)

VOCABULARY = (
    "a man to his the left right Left RIGHT left-hand rightmost hand arm side of on dog , . lEft "
    "behind way bright leftovers upright has"
)
WORDS = st.sampled_from(VOCABULARY.split())
PIXELS = np.random.default_rng(1).integers(0, 256, (4, 12, 12, 3), dtype=np.uint8)


def no_change(count: int, flip: bool = False) -> ImageAugmentation:
    zeros = np.zeros(count, dtype=int)
    return ImageAugmentation(np.full(count, flip), zeros, zeros, np.ones(count))


@pytest.mark.parametrize(
    ("caption", "expected"),
    [
        ("a red circle left of a blue square", "a red circle right of a blue square"),
        ("A man looks to his left .", "A man looks to his right ."),
        ("The RIGHT one, Left hand up", "The LEFT one, Right hand up"),
        ("left-handed on the rightmost lane", "right-handed on the leftmost lane"),
        ("a dog on the right and one on left", "a dog on the left and one on right"),
        ("a bright light, an upright man", "a bright light, an upright man"),
        ("from left to right", None),  # "from" does not show that it is a side
        ("he turns to right", "he turns to left"),
        ("he tries to right his kayak", None),
        ("what is left of a building", None),
        ("a chair, right side up", None),
        ("a chair right-side up", None),
        ("shoes of the right size", None),
        ("the light is on right now", None),
        ("a man right behind him", None),
        ("a boat has left a trail", None),
        ("do it the right way", None),
        ("the left-over food", None),
        ("to the lEft of it", None),
        ("a shirt that says ADHD", None),
        ("a man to the left of a sign", None),
        ("ein Hund links neben einer Katze", None),
        ("un chien à gauche d’un chat", None),
        ("le bras droit levé", None),
        ("собака смотрит налево", None),
        ("左边有一只狗", None),
        ("", ""),
    ],
)
def test_left_and_right_are_swapped_where_they_are_sides(caption, expected) -> None:
    assert mirror_captions([caption]) == (None if expected is None else (expected,))


def test_one_ambiguous_caption_prevents_mirroring() -> None:
    assert mirror_captions(["a dog", "a dog right behind a cat"]) is None
    assert mirror_captions(["a dog", "on the left"]) == ("a dog", "on the right")


@given(st.lists(st.lists(WORDS, max_size=8).map(" ".join), min_size=1, max_size=3))
@settings(max_examples=300)
def test_mirroring_captions_twice_restores_them(captions: list[str]) -> None:
    mirrored = mirror_captions(captions)
    if mirrored is not None:
        assert mirror_captions(mirrored) == tuple(captions)
        both = " ".join(captions).lower(), " ".join(mirrored).lower()
        assert both[0].count("left") + both[0].count("right") == sum(
            both[1].count(word) for word in ("left", "right")
        )


def test_mirroring_pixels_twice_restores_them() -> None:
    once = augment_images(PIXELS, no_change(4, flip=True))
    assert np.array_equal(once, PIXELS[:, :, ::-1])
    assert np.array_equal(augment_images(once, no_change(4, flip=True)), PIXELS)
    assert np.array_equal(augment_images(PIXELS, no_change(4)), PIXELS)


def test_shifting_repeats_the_edge() -> None:
    shift = ImageAugmentation(np.zeros(4, dtype=bool), np.full(4, 2), np.full(4, -3), np.ones(4))
    shifted = augment_images(PIXELS, shift)
    assert np.array_equal(shifted[:, 2:, :-3], PIXELS[:, :-2, 3:])
    assert np.array_equal(shifted[:, 0, :-3], PIXELS[:, 0, 3:])
    assert np.array_equal(shifted[:, :, -1], shifted[:, :, -4])


def test_brightness_stays_in_range() -> None:
    brighter = ImageAugmentation(
        np.zeros(4, dtype=bool), *[np.zeros(4, dtype=int)] * 2, np.full(4, 1.5)
    )
    bright, dark = (
        augment_images(PIXELS, brighter),
        augment_images(PIXELS, replace(brighter, brightness=np.full(4, 0.5))),
    )
    assert np.abs(bright.astype(int) - np.minimum(255, PIXELS * 1.5)).max() <= 0.5
    assert np.abs(dark.astype(int) - PIXELS * 0.5).max() <= 0.5


def test_augmentation_depends_on_seed_epoch_and_image_only() -> None:
    def sample(indices, seed=1, epoch=2, can_flip=True) -> np.ndarray:
        result = sample_augmentation(indices, [can_flip] * len(indices), 64, seed=seed, epoch=epoch)
        return np.stack([result.flip, result.offset_y, result.offset_x, result.brightness])

    values = sample(range(200))
    assert np.array_equal(sample([7, 3]), values[:, [7, 3]])  # whatever the batch
    assert not np.array_equal(sample(range(200), seed=2), values)
    assert not np.array_equal(sample(range(200), epoch=3), values)
    assert 60 < values[0].sum() < 140
    assert set(values[1]) == set(values[2]) == set(range(-4, 5))
    assert 0.9 <= values[3].min() < 0.91
    assert 1.09 < values[3].max() <= 1.1
    assert not sample(range(50), can_flip=False)[0].any()
    assert sample([]).shape == (4, 0)
