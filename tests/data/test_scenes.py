"""Scenes: captions follow from the image, and no two splits share a scene."""

import math
from dataclasses import replace
from itertools import islice

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from workings.data.augmentation import mirror_captions
from workings.data.captions import render_scenes
from workings.data.scenes import (
    BORDER,
    COLORS,
    GAP,
    HELD_OUT_COMBINATIONS,
    SCENE_SPLITS,
    SHAPE_KINDS,
    Scene,
    compute_shape_masks,
    draw_scene,
    generate_scenes,
)
from workings.errors import UserError

SIZE = 64
SCENES = st.builds(
    lambda split, seed, skip: next(islice(generate_scenes(split, seed), skip, None)),
    st.sampled_from(SCENE_SPLITS),
    st.integers(0, 10**6),
    st.integers(0, 5),
)

# Areas of the shapes if their half-width is 1.
AREAS = {
    "circle": math.pi,
    "cross": 4 * 0.6 - 0.6**2,
    "square": 1.8**2,
    "star": 10 * math.sin(0.2 * math.pi) * math.sin(0.1 * math.pi) / math.sin(0.7 * math.pi) / 2,
    "triangle": 1.9**2 / 2,
}


def nearest_color(rgb: np.ndarray) -> str:
    return min(COLORS, key=lambda name: np.abs(np.array(COLORS[name]) - rgb).sum())


@given(SCENES, st.sampled_from([32, 64, 96]))
@settings(max_examples=40)
def test_shapes_have_their_area_position_and_color(scene: Scene, size: int) -> None:
    image, masks = draw_scene(scene, size), compute_shape_masks(scene, size)
    assert image.shape == (size, size, 3)
    assert len(masks) == len(scene.shapes)
    for shape, mask in zip(scene.shapes, masks, strict=True):
        area = AREAS[shape.kind] * (shape.width * size / 2) ** 2
        assert 0.5 * area < mask.sum() < 1.5 * area
        assert nearest_color(np.median(image[mask], axis=0)) == shape.color
        rows, columns = np.nonzero(mask)
        assert abs((columns.min() + columns.max() + 1) / 2 / size - shape.x) < 1.5 / size
        assert BORDER * size - 1.5 < min(rows.min(), columns.min())
        assert max(rows.max(), columns.max()) < (1 - BORDER) * size + 0.5
    elsewhere = ~np.any(masks, axis=0)
    assert image[elsewhere].mean() > 200  # background, apart from the edges of shapes


@given(SCENES)
@settings(max_examples=60)
def test_caption_follows_from_the_image(scene: Scene) -> None:
    """Apply the rules of the module's docstring to masks and colors."""
    image, masks = draw_scene(scene, SIZE), compute_shape_masks(scene, SIZE)
    shapes = []
    for shape, mask in zip(scene.shapes, masks, strict=True):
        rows, columns = np.nonzero(mask)
        extent = columns.max() - columns.min() + 1
        size = "large" if extent > 0.27 * SIZE else "small"
        color = nearest_color(np.median(image[mask], axis=0))
        shapes.append((size == "large", color, f"a {size} {color} {shape.kind}", rows, columns))
    shapes.sort(key=lambda shape: shape[:2])
    caption = shapes[0][2]
    if len(shapes) == 2:
        (*_, rows, columns), (*_, other_rows, other_columns) = shapes
        down, across = rows.mean() - other_rows.mean(), columns.mean() - other_columns.mean()
        assert max(abs(down), abs(across)) > 1.5 * min(abs(down), abs(across))
        if abs(across) > abs(down):
            caption += " left of " if across < 0 else " right of "
            first, second = sorted([columns, other_columns], key=np.mean)
        else:
            caption += " above " if down < 0 else " below "
            first, second = sorted([rows, other_rows], key=np.mean)
        assert second.min() - first.max() > GAP * SIZE - 1  # a gap between them
        caption += shapes[1][2]
    assert caption == scene.caption


@given(SCENES)
@settings(max_examples=20)
def test_noun_indices_are_the_words_for_the_shapes(scene: Scene) -> None:
    words = scene.caption.split()
    assert [words[k] for k in scene.noun_indices] == [shape.kind for shape in scene.shapes]
    assert mirror_captions([scene.caption]) is not None


@pytest.mark.parametrize("kind", SHAPE_KINDS)
def test_shapes_cover_different_fractions_of_their_box(kind: str) -> None:
    expected = {"circle": 0.785, "cross": 0.51, "square": 0.81, "star": 0.28, "triangle": 0.45}
    scene, k = next(
        (scene, k)
        for scene in generate_scenes("train", 3)
        for k, shape in enumerate(scene.shapes)
        if shape.kind == kind
    )
    box = (scene.shapes[k].width * 256) ** 2
    assert compute_shape_masks(scene, 256)[k].sum() / box == pytest.approx(expected[kind], abs=0.02)


def test_seed_determines_the_scenes() -> None:
    one, again, other = (list(islice(generate_scenes("train", seed), 30)) for seed in (1, 1, 2))
    assert one == again
    assert not {scene.shapes for scene in one} & {scene.shapes for scene in other}
    assert np.array_equal(draw_scene(one[0], 32), draw_scene(again[0], 32))
    assert len({scene.caption for scene in one}) > 20


def test_splits_share_no_scene_for_any_seed() -> None:
    scenes = {
        split: list(islice(generate_scenes(split, seed=len(split)), 300)) for split in SCENE_SPLITS
    }
    for split, split_scenes in scenes.items():
        assert {scene.split for scene in split_scenes} == {split}
    keys = {
        split: {
            (s.caption, *((int(shape.x * 8), int(shape.y * 8)) for shape in s.shapes))
            for s in split_scenes
        }
        for split, split_scenes in scenes.items()
    }
    assert sum(map(len, keys.values())) == len(set().union(*keys.values()))


@given(SCENES)
@settings(max_examples=30)
def test_mirrored_scene_has_same_split_and_mirrored_caption(scene: Scene) -> None:
    shapes = tuple(replace(shape, x=1 - shape.x) for shape in scene.shapes)
    relation = {"left of": "right of", "right of": "left of"}.get(scene.relation, scene.relation)
    mirrored = replace(scene, shapes=shapes, relation=relation)
    assert mirrored.split == scene.split
    assert mirror_captions([scene.caption]) == (mirrored.caption,)
    for mask, mirrored_mask in zip(
        compute_shape_masks(scene, SIZE), compute_shape_masks(mirrored, SIZE), strict=True
    ):
        assert (mask[:, ::-1] ^ mirrored_mask).mean() < 0.005


def test_unknown_split_is_rejected() -> None:
    with pytest.raises(UserError, match="no split 'tset': did you mean 'test'"):
        next(generate_scenes("tset"))


def test_held_out_combinations_are_not_in_train_but_their_words_are() -> None:
    train = list(islice(generate_scenes("train"), 400))
    combinations = {(shape.color, shape.kind) for scene in train for shape in scene.shapes}
    assert not combinations & HELD_OUT_COMBINATIONS
    assert {color for color, _ in combinations} == set(COLORS)
    assert {kind for _, kind in combinations} == set(SHAPE_KINDS)
    for scene in islice(generate_scenes("combinations"), 50):
        assert {(shape.color, shape.kind) for shape in scene.shapes} & HELD_OUT_COMBINATIONS


def test_cached_pixels_belong_to_their_scenes(monkeypatch, tmp_path):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    first, second = (list(islice(generate_scenes("train", seed), 3)) for seed in (1, 2))
    pixels = [render_scenes(s, 16, lambda: None).pixels for s in (first, second, first)]
    assert np.array_equal(pixels[0], pixels[2])
    for images, scenes in zip(pixels, (first, second), strict=False):
        for image, scene in zip(images, scenes, strict=True):
            assert (image == draw_scene(scene, 16)).all()
