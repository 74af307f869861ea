"""Pictures that are changed a little, and captions that stay true."""

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

SAID = (
    "a man to his the left right Left RIGHT left-hand rightmost hand arm side of on dog , . lEft "
    "behind way bright leftovers upright has"
)
WORDS = st.sampled_from(SAID.split())
PIXELS = np.random.default_rng(1).integers(0, 256, (4, 12, 12, 3), dtype=np.uint8)


def still(count: int, mirrored: bool = False) -> ImageAugmentation:
    zeros = np.zeros(count, dtype=int)
    return ImageAugmentation(np.full(count, mirrored), zeros, zeros, np.ones(count))


@pytest.mark.parametrize(
    ("caption", "expected"),
    [
        ("a red circle left of a blue square", "a red circle right of a blue square"),
        ("A man looks to his left .", "A man looks to his right ."),
        ("The RIGHT one, Left hand up", "The LEFT one, Right hand up"),
        ("left-handed on the rightmost lane", "right-handed on the leftmost lane"),
        ("a dog on the right and one on left", "a dog on the left and one on right"),
        ("a bright light, an upright man", "a bright light, an upright man"),
        ("from left to right", None),  # a word before it that says nothing
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
def test_left_and_right_are_changed_round_or_the_picture_stays(caption, expected) -> None:
    assert mirror_captions([caption]) == (None if expected is None else (expected,))


def test_one_doubtful_caption_keeps_the_picture_as_it_is() -> None:
    assert mirror_captions(["a dog", "a dog right behind a cat"]) is None
    assert mirror_captions(["a dog", "on the left"]) == ("a dog", "on the right")


@given(st.lists(st.lists(WORDS, max_size=8).map(" ".join), min_size=1, max_size=3))
@settings(max_examples=300)
def test_mirroring_twice_is_as_before(captions: list[str]) -> None:
    mirrored = mirror_captions(captions)
    if mirrored is not None:
        assert mirror_captions(mirrored) == tuple(captions)
        both = " ".join(captions).lower(), " ".join(mirrored).lower()
        assert both[0].count("left") + both[0].count("right") == sum(
            both[1].count(word) for word in ("left", "right")
        )


def test_pixels_mirrored_twice_are_as_before() -> None:
    once = augment_images(PIXELS, still(4, mirrored=True))
    assert np.array_equal(once, PIXELS[:, :, ::-1])
    assert np.array_equal(augment_images(once, still(4, mirrored=True)), PIXELS)
    assert np.array_equal(augment_images(PIXELS, still(4)), PIXELS)


def test_a_picture_is_moved_and_its_edge_repeated() -> None:
    moves = ImageAugmentation(np.zeros(4, dtype=bool), np.full(4, 2), np.full(4, -3), np.ones(4))
    moved = augment_images(PIXELS, moves)
    assert np.array_equal(moved[:, 2:, :-3], PIXELS[:, :-2, 3:])
    assert np.array_equal(moved[:, 0, :-3], PIXELS[:, 0, 3:])
    assert np.array_equal(moved[:, :, -1], moved[:, :, -4])


def test_brightness_stays_in_range() -> None:
    lit = ImageAugmentation(np.zeros(4, dtype=bool), *[np.zeros(4, dtype=int)] * 2, np.full(4, 1.5))
    bright, dark = (
        augment_images(PIXELS, lit),
        augment_images(PIXELS, replace(lit, brightness=np.full(4, 0.5))),
    )
    assert np.abs(bright.astype(int) - np.minimum(255, PIXELS * 1.5)).max() <= 0.5
    assert np.abs(dark.astype(int) - PIXELS * 0.5).max() <= 0.5


def test_changes_are_a_matter_of_seed_epoch_and_picture() -> None:
    def drawn(pictures, seed=1, epoch=2, may=True) -> np.ndarray:
        made = sample_augmentation(pictures, [may] * len(pictures), 64, seed=seed, epoch=epoch)
        return np.stack([made.flip, made.offset_y, made.offset_x, made.brightness])

    some = drawn(range(200))
    assert np.array_equal(drawn([7, 3]), some[:, [7, 3]])  # in whatever batch
    assert not np.array_equal(drawn(range(200), seed=2), some)
    assert not np.array_equal(drawn(range(200), epoch=3), some)
    assert 60 < some[0].sum() < 140
    assert set(some[1]) == set(some[2]) == set(range(-4, 5))
    assert 0.9 <= some[3].min() < 0.91
    assert 1.09 < some[3].max() <= 1.1
    assert not drawn(range(50), may=False)[0].any()
    assert drawn([]).shape == (4, 0)
