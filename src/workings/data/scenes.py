"""Generated scenes of one or two colored shapes, each with exactly one correct caption.

"a small red circle left of a large blue square" follows from the image by three rules.

- The smaller of two shapes is named first. Of two equal sizes, it is the one whose color comes
  first in the alphabet; no two shapes of a scene have the same color.
- The relation is the axis along which the shapes are separated: on it they have a gap between them,
  and on the other axis they are nearly level.
- Small and large differ clearly: a large shape is about twice as wide.

The rules are symmetric in left and right, so a mirrored scene has the mirrored caption.

The split of a scene depends on the scene itself, not on a random draw: on its caption and on the
positions of its shapes on a grid, mirrored or not. So no two splits share a caption with the same
positions, whatever their seeds, even if training images are mirrored. Some colors never occur with
some shapes in train, validation and test: scenes with these combinations are a split of their own,
`combinations`, which tests whether a model has learned words or phrases.
"""

import math
from collections.abc import Iterator
from dataclasses import dataclass
from random import Random

import numpy as np
from jaxtyping import Bool, Float, UInt8

from workings.data.splits import hash_to_unit_interval
from workings.errors import UserError, did_you_mean, safe_repr

SCENES = "scenes"
COLORS = {
    "black": (30, 30, 30),
    "blue": (40, 90, 220),
    "green": (40, 160, 70),
    "orange": (250, 140, 20),
    "pink": (250, 135, 195),
    "purple": (125, 50, 165),
    "red": (215, 35, 40),
    "yellow": (250, 220, 40),
}
SHAPE_KINDS = ("circle", "cross", "square", "star", "triangle")
WIDTHS = {"small": (0.17, 0.21), "large": (0.34, 0.38)}
"""Range of widths and heights, relative to the image."""
RELATIONS = {"left of": (-1, 0), "right of": (1, 0), "above": (0, -1), "below": (0, 1)}
"""Direction from the second shape to the first; y points down."""
HELD_OUT_COMBINATIONS = frozenset(
    [
        ("orange", "circle"),
        ("purple", "cross"),
        ("green", "square"),
        ("blue", "star"),
        ("yellow", "triangle"),
    ]
)
"""Colors and shapes that occur together in the split `combinations` only."""

SINGLE_SHAPE_RATE = 0.2
"""Fraction of scenes with one shape."""
BORDER = 0.06
GAP = 0.08
MAX_SLANT = 0.3
"""Largest offset of two shapes across their axis, relative to their distance along it."""
GRID = 8
"""Scenes whose shapes are in the same cells of a grid of this width are nearly the same."""
SCENE_SPLITS = ("train", "validation", "test", "combinations")
SUPERSAMPLING = 4
"""Sample points per pixel and dimension, for smooth edges."""
STAR_INRADIUS = math.cos(0.4 * math.pi)
"""Distance of a star's edges from its center, if its points are at distance 1."""

Region = tuple[slice, slice]

_MIRRORED_RELATIONS = {"left of": "right of", "right of": "left of"}
_COLOR_NAMES, _SIZE_NAMES, _RELATION_NAMES = tuple(COLORS), tuple(WIDTHS), tuple(RELATIONS)


@dataclass(frozen=True)
class SceneShape:
    """A shape; its center and width are relative to the image."""

    kind: str
    color: str
    size: str
    x: float
    y: float
    width: float
    rgb: tuple[int, int, int]

    @property
    def description(self) -> str:
        """The noun phrase of the caption."""
        return f"{self.size} {self.color} {self.kind}"


@dataclass(frozen=True)
class Scene:
    """One shape, or two in the order in which the caption names them, on a background."""

    shapes: tuple[SceneShape, ...]
    relation: str
    background: tuple[tuple[int, int, int], tuple[int, int, int]]
    """The colors of its gradient, at the top left and at the bottom right."""

    @property
    def caption(self) -> str:
        """The correct caption."""
        return f" {self.relation} ".join(f"a {shape.description}" for shape in self.shapes)

    @property
    def noun_indices(self) -> tuple[int, ...]:
        """The index of each shape's noun among the words of the caption.

        >>> scene = next(generate_scenes("train"))
        >>> [scene.caption.split()[k] for k in scene.noun_indices]
        ['cross', 'cross']
        """
        words = self.caption.split()
        return (3,) if len(self.shapes) == 1 else (3, len(words) - 1)

    @property
    def split(self) -> str:
        """The split of the scene."""
        if any((shape.color, shape.kind) in HELD_OUT_COMBINATIONS for shape in self.shapes):
            return "combinations"
        cells = [(int(s.x * GRID), int(s.y * GRID)) for s in self.shapes]
        mirrored_cells = [(GRID - 1 - x, y) for x, y in cells]
        mirrored_relation = _MIRRORED_RELATIONS.get(self.relation, self.relation)
        layout = min(f"{self.relation} {cells}", f"{mirrored_relation} {mirrored_cells}")
        descriptions = [shape.description for shape in self.shapes]
        fraction = hash_to_unit_interval(f"{descriptions} {layout}", SCENES)
        return "train" if fraction < 0.75 else "validation" if fraction < 0.85 else "test"


def generate_scenes(split: str, seed: int = 0) -> Iterator[Scene]:
    """Yield scenes of a split without end; the same seed gives the same scenes.

    >>> next(generate_scenes("test")).caption
    'a large yellow star'
    """
    if split not in SCENE_SPLITS:
        raise UserError(
            f"{SCENES}: no split {safe_repr(split)}: {did_you_mean(split, SCENE_SPLITS)}"
        )
    rng = Random(f"{SCENES} {split} {seed}")  # noqa: S311 - not for cryptography
    while True:
        scene = _sample_scene(rng)
        if scene.split == split:
            yield scene


def _sample_scene(rng: Random) -> Scene:
    colors = rng.sample(_COLOR_NAMES, 1 if rng.random() < SINGLE_SHAPE_RATE else 2)
    descriptions = [(rng.choice(_SIZE_NAMES), color, rng.choice(SHAPE_KINDS)) for color in colors]
    descriptions.sort(key=lambda words: (words[0] == "large", words[1]))
    widths = [rng.uniform(*WIDTHS[size]) for size, _, _ in descriptions]
    relation = rng.choice(_RELATION_NAMES) if len(colors) == 2 else ""
    shapes = tuple(
        SceneShape(kind, color, size, x, y, width, _jitter_color(COLORS[color], 12, rng))
        for (size, color, kind), width, (x, y) in zip(
            descriptions, widths, _sample_positions(widths, relation, rng), strict=True
        )
    )
    brightness = round(rng.uniform(215, 245))
    gray = (brightness, brightness, brightness)
    return Scene(shapes, relation, (_jitter_color(gray, 8, rng), _jitter_color(gray, 8, rng)))


def _jitter_color(rgb: tuple[int, int, int], amount: int, rng: Random) -> tuple[int, int, int]:
    """Return a random color near this one."""
    r, g, b = (min(255, max(0, round(value + rng.uniform(-amount, amount)))) for value in rgb)
    return r, g, b


def _sample_positions(widths: list[float], relation: str, rng: Random) -> list[tuple[float, float]]:
    """Return random centers of the shapes that satisfy the relation unambiguously."""
    ranges = [(BORDER + width / 2, 1 - BORDER - width / 2) for width in widths]
    if not relation:
        return [(rng.uniform(*ranges[0]), rng.uniform(*ranges[0]))]
    first_range, second_range = ranges
    min_distance = sum(widths) / 2 + GAP
    # Positions along the axis of the relation, and across it.
    first_along = rng.uniform(first_range[0], second_range[1] - min_distance)
    second_along = rng.uniform(first_along + min_distance, second_range[1])
    max_offset = MAX_SLANT * (second_along - first_along)
    second_across = rng.uniform(*second_range)
    first_across = rng.uniform(
        max(first_range[0], second_across - max_offset),
        min(first_range[1], second_across + max_offset),
    )
    x_direction, y_direction = RELATIONS[relation]
    if x_direction + y_direction > 0:  # the first shape is right of or below the second
        first_along, second_along = 1 - first_along, 1 - second_along
    positions = [(first_along, first_across), (second_along, second_across)]
    return positions if x_direction else [(x, y) for y, x in positions]


def draw_scene(scene: Scene, size: int) -> UInt8[np.ndarray, "size size 3"]:
    """Return an image of a scene, `size` pixels wide and high.

    >>> draw_scene(next(generate_scenes("train")), 64).shape
    (64, 64, 3)
    """
    start, end = (np.array(color, dtype=np.float32) for color in scene.background)
    centers = (np.arange(size, dtype=np.float32) + 0.5) / size
    gradient = (centers[:, None] + centers) / 2
    canvas = start + gradient[..., None] * (end - start)
    for shape in scene.shapes:
        region, coverage = _compute_coverage(shape, size)
        canvas[region] += coverage[..., None] * (
            np.array(shape.rgb, dtype=np.float32) - canvas[region]
        )
    return np.rint(canvas).astype(np.uint8)


def compute_shape_masks(scene: Scene, size: int) -> list[Bool[np.ndarray, "size size"]]:
    """Return the pixels that each shape covers by more than half, in the order of the caption."""
    masks = []
    for shape in scene.shapes:
        mask = np.zeros((size, size), dtype=bool)
        region, coverage = _compute_coverage(shape, size)
        mask[region] = coverage > 0.5
        masks.append(mask)
    return masks


def _compute_coverage(
    shape: SceneShape, size: int
) -> tuple[Region, Float[np.ndarray, "rows columns"]]:
    """Return the bounding box of a shape, and the fraction of each pixel in it that is covered."""
    half = shape.width / 2
    bounds = [
        (math.floor((center - half) * size), math.ceil((center + half) * size))
        for center in (shape.y, shape.x)
    ]
    v, u = (
        (np.arange(start * SUPERSAMPLING, end * SUPERSAMPLING, dtype=np.float32) + 0.5)
        / (size * SUPERSAMPLING)
        - center
        for (start, end), center in zip(bounds, (shape.y, shape.x), strict=True)
    )
    inside = _is_inside(shape.kind, u[None, :] / half, v[:, None] / half)
    rows, columns = (end - start for start, end in bounds)
    coverage = inside.reshape(rows, SUPERSAMPLING, columns, SUPERSAMPLING).mean(
        axis=(1, 3), dtype=np.float32
    )
    return (slice(*bounds[0]), slice(*bounds[1])), coverage


def _is_inside(
    kind: str, u: Float[np.ndarray, "1 columns"], v: Float[np.ndarray, "rows 1"]
) -> Bool[np.ndarray, "rows columns"]:
    """Return which points are inside a shape that extends from -1 to 1; v points down."""
    smaller, larger = np.minimum(abs(u), abs(v)), np.maximum(abs(u), abs(v))
    inside: Bool[np.ndarray, "rows columns"]
    if kind == "circle":
        inside = u**2 + v**2 <= 1
    elif kind == "square":
        inside = larger <= 0.9
    elif kind == "cross":
        inside = (smaller <= 0.3) & (larger <= 1)
    elif kind == "triangle":
        inside = (abs(u) <= (v + 1) / 2) & (v <= 0.9)
    else:  # a pentagram: the center is inside all five lines, and each point outside one of them
        angles = [math.pi * (0.5 + 0.4 * k) for k in range(5)]
        is_outside = [u * math.cos(a) - v * math.sin(a) > STAR_INRADIUS for a in angles]
        inside = np.sum(is_outside, axis=0) <= 1
    return inside
