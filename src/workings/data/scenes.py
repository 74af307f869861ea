"""Scenes that the project draws itself: one or two coloured shapes, and what is to be said of them.

"a small red circle left of a large blue square": every scene has exactly one right caption, which
can be read off the picture by three rules.

- Of two shapes the smaller is named first. Of two of a size, the one whose colour comes first in
  the alphabet; no two shapes of a scene have the same colour.
- The relation is the axis along which the two are apart: they lie clear of each other on it, by a
  margin, and nearly level on the other.
- Small and large are far from each other: a large shape is about twice as wide.

The rules do not know left from right, so that a mirrored scene has the mirrored caption.

Which part a scene belongs to is a matter of the scene, not of a draw: of its caption and of where
its shapes lie, on a grid, mirrored or not. So no two parts share a caption together with the places
of its shapes, whatever their seeds, and even if those to learn from are mirrored. Some colours
never come with some shapes in train, validation and test: scenes with those are a part of their
own, `combinations`, that asks whether a model has learnt words or phrases.
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
"""How wide, and high, shapes are, as shares of the picture."""
RELATIONS = {"left of": (-1, 0), "right of": (1, 0), "above": (0, -1), "below": (0, 1)}
"""Where the first shape lies, seen from the second; y grows downwards."""
HELD_OUT_COMBINATIONS = frozenset(
    [
        ("orange", "circle"),
        ("purple", "cross"),
        ("green", "square"),
        ("blue", "star"),
        ("yellow", "triangle"),
    ]
)
"""Colours and shapes that come together in the part `combinations` alone."""

SINGLE_SHAPE_RATE = 0.2
"""How many scenes have one shape only."""
BORDER = 0.06
GAP = 0.08
MAX_SLANT = 0.3
"""How far from level two shapes may lie, as a share of how far apart they are."""
GRID = 8
"""Scenes whose shapes lie in the same places of a grid this wide are nearly the same."""
SCENE_SPLITS = ("train", "validation", "test", "combinations")

_MIRRORED_RELATIONS = {"left of": "right of", "right of": "left of"}
_COLOR_NAMES, _SIZE_NAMES, _RELATION_NAMES = tuple(COLORS), tuple(WIDTHS), tuple(RELATIONS)


@dataclass(frozen=True)
class SceneShape:
    """A shape, and where it is: its middle and its width, as shares of the picture."""

    kind: str
    color: str
    size: str
    x: float
    y: float
    width: float
    rgb: tuple[int, int, int]

    @property
    def description(self) -> str:
        """What it is called."""
        return f"{self.size} {self.color} {self.kind}"


@dataclass(frozen=True)
class Scene:
    """One shape, or two in the order in which they are named, on a background."""

    shapes: tuple[SceneShape, ...]
    relation: str
    background: tuple[tuple[int, int, int], tuple[int, int, int]]
    """Its colours at the top left and at the bottom right."""

    @property
    def caption(self) -> str:
        """All that is to be said of it."""
        return f" {self.relation} ".join(f"a {shape.description}" for shape in self.shapes)

    @property
    def noun_indices(self) -> tuple[int, ...]:
        """Which word of the caption is each shape's noun, counted from 0.

        >>> scene = next(generate_scenes("train"))
        >>> [scene.caption.split()[place] for place in scene.noun_indices]
        ['cross', 'cross']
        """
        words = self.caption.split()
        return (3,) if len(self.shapes) == 1 else (3, len(words) - 1)

    @property
    def split(self) -> str:
        """Which part of the set it belongs to, always."""
        if any((shape.color, shape.kind) in HELD_OUT_COMBINATIONS for shape in self.shapes):
            return "combinations"
        places = [(int(s.x * GRID), int(s.y * GRID)) for s in self.shapes]
        mirrored = [(GRID - 1 - x, y) for x, y in places]
        other = _MIRRORED_RELATIONS.get(self.relation, self.relation)
        layout = min(f"{self.relation} {places}", f"{other} {mirrored}")
        drawn = hash_to_unit_interval(
            f"{[shape.description for shape in self.shapes]} {layout}", SCENES
        )
        return "train" if drawn < 0.75 else "validation" if drawn < 0.85 else "test"


def generate_scenes(split: str, seed: int = 0) -> Iterator[Scene]:
    """Invent scenes of a part without end, the same for the same seed.

    >>> next(generate_scenes("test")).caption
    'a large yellow star'
    """
    if split not in SCENE_SPLITS:
        raise UserError(
            f"{SCENES}: no part {safe_repr(split)}: {did_you_mean(split, SCENE_SPLITS)}"
        )
    dice = Random(f"{SCENES} {split} {seed}")  # noqa: S311
    while True:
        scene = _sample_scene(dice)
        if scene.split == split:
            yield scene


def _sample_scene(rng: Random) -> Scene:
    colours = rng.sample(_COLOR_NAMES, 1 if rng.random() < SINGLE_SHAPE_RATE else 2)
    described = [(rng.choice(_SIZE_NAMES), colour, rng.choice(SHAPE_KINDS)) for colour in colours]
    described.sort(key=lambda words: (words[0] == "large", words[1]))
    widths = [rng.uniform(*WIDTHS[size]) for size, _, _ in described]
    relation = rng.choice(_RELATION_NAMES) if len(colours) == 2 else ""
    shapes = tuple(
        SceneShape(kind, colour, size, x, y, width, _jitter_color(COLORS[colour], 12, rng))
        for (size, colour, kind), width, (x, y) in zip(
            described, widths, _sample_positions(widths, relation, rng), strict=True
        )
    )
    light = round(rng.uniform(215, 245))
    paper = (light, light, light)
    return Scene(shapes, relation, (_jitter_color(paper, 8, rng), _jitter_color(paper, 8, rng)))


def _jitter_color(rgb: tuple[int, int, int], amount: int, rng: Random) -> tuple[int, int, int]:
    """Draw a colour like this one."""
    r, g, b = (min(255, max(0, round(value + rng.uniform(-amount, amount)))) for value in rgb)
    return r, g, b


def _sample_positions(widths: list[float], relation: str, rng: Random) -> list[tuple[float, float]]:
    """Put shapes into the picture so that the relation is plain, and else anywhere."""
    ends = [(BORDER + width / 2, 1 - BORDER - width / 2) for width in widths]
    if not relation:
        return [(rng.uniform(*ends[0]), rng.uniform(*ends[0]))]
    first, second = ends
    apart = sum(widths) / 2 + GAP
    along = rng.uniform(first[0], second[1] - apart)
    beyond = rng.uniform(along + apart, second[1])
    slant = MAX_SLANT * (beyond - along)
    second_level = rng.uniform(*second)
    first_level = rng.uniform(
        max(first[0], second_level - slant), min(first[1], second_level + slant)
    )
    across, down = RELATIONS[relation]
    if across + down > 0:  # the first lies beyond the second
        along, beyond = 1 - along, 1 - beyond
    both = [(along, first_level), (beyond, second_level)]
    return both if across else [(x, y) for y, x in both]


SUPERSAMPLING = 4
"""Points a pixel is looked at, across and down: edges are drawn in between colours."""
STAR_INRADIUS = math.cos(0.4 * math.pi)
"""How far from a star's middle its lines are, if its points are at 1."""

Region = tuple[slice, slice]


def draw_scene(scene: Scene, size: int) -> UInt8[np.ndarray, "size size 3"]:
    """Draw a scene as a picture, so many pixels wide and high.

    >>> draw_scene(next(generate_scenes("train")), 64).shape
    (64, 64, 3)
    """
    start, end = (np.array(colour, dtype=np.float32) for colour in scene.background)
    middles = (np.arange(size, dtype=np.float32) + 0.5) / size
    slope = (middles[:, None] + middles) / 2
    canvas = start + slope[..., None] * (end - start)
    for shape in scene.shapes:
        patch, covered = _compute_coverage(shape, size)
        canvas[patch] += covered[..., None] * (
            np.array(shape.rgb, dtype=np.float32) - canvas[patch]
        )
    return np.rint(canvas).astype(np.uint8)


def compute_shape_masks(scene: Scene, size: int) -> list[Bool[np.ndarray, "size size"]]:
    """Tell of each shape, in the order in which they are named, which pixels it covers."""
    masks = []
    for shape in scene.shapes:
        mask = np.zeros((size, size), dtype=bool)
        patch, covered = _compute_coverage(shape, size)
        mask[patch] = covered > 0.5
        masks.append(mask)
    return masks


def _compute_coverage(
    shape: SceneShape, size: int
) -> tuple[Region, Float[np.ndarray, "rows columns"]]:
    """How much of each pixel a shape covers, in the part of the picture that it lies in."""
    half = shape.width / 2
    ends = [
        (math.floor((middle - half) * size), math.ceil((middle + half) * size))
        for middle in (shape.y, shape.x)
    ]
    v, u = (
        (np.arange(first * SUPERSAMPLING, last * SUPERSAMPLING, dtype=np.float32) + 0.5)
        / (size * SUPERSAMPLING)
        - middle
        for (first, last), middle in zip(ends, (shape.y, shape.x), strict=True)
    )
    inside = _is_inside(shape.kind, u[None, :] / half, v[:, None] / half)
    rows, columns = (last - first for first, last in ends)
    covered = inside.reshape(rows, SUPERSAMPLING, columns, SUPERSAMPLING).mean(
        axis=(1, 3), dtype=np.float32
    )
    return (slice(*ends[0]), slice(*ends[1])), covered


def _is_inside(
    kind: str, u: Float[np.ndarray, "1 columns"], v: Float[np.ndarray, "rows 1"]
) -> Bool[np.ndarray, "rows columns"]:
    """Say which points are in a shape; it reaches from -1 to 1, and v grows downwards."""
    near, far = np.minimum(abs(u), abs(v)), np.maximum(abs(u), abs(v))
    inside: Bool[np.ndarray, "rows columns"]
    if kind == "circle":
        inside = u**2 + v**2 <= 1
    elif kind == "square":
        inside = far <= 0.9
    elif kind == "cross":
        inside = (near <= 0.3) & (far <= 1)
    elif kind == "triangle":
        inside = (abs(u) <= (v + 1) / 2) & (v <= 0.9)
    else:  # a star's middle lies within five lines, and each of its points beyond one of them
        turns = [math.pi * (0.5 + 0.4 * k) for k in range(5)]
        beyond = [u * math.cos(a) - v * math.sin(a) > STAR_INRADIUS for a in turns]
        inside = np.sum(beyond, axis=0) <= 1
    return inside
