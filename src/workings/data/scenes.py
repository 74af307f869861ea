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

from collections.abc import Iterator
from dataclasses import dataclass
from random import Random

from workings.data.splits import fraction
from workings.errors import UserError, near, shown

NAME = "scenes"
COLOURS = {
    "black": (30, 30, 30),
    "blue": (40, 90, 220),
    "green": (40, 160, 70),
    "orange": (250, 140, 20),
    "pink": (250, 135, 195),
    "purple": (125, 50, 165),
    "red": (215, 35, 40),
    "yellow": (250, 220, 40),
}
KINDS = ("circle", "cross", "square", "star", "triangle")
WIDTHS = {"small": (0.17, 0.21), "large": (0.34, 0.38)}
"""How wide, and high, shapes are, as shares of the picture."""
RELATIONS = {"left of": (-1, 0), "right of": (1, 0), "above": (0, -1), "below": (0, 1)}
"""Where the first shape lies, seen from the second; y grows downwards."""
UNSEEN = frozenset(
    [
        ("orange", "circle"),
        ("purple", "cross"),
        ("green", "square"),
        ("blue", "star"),
        ("yellow", "triangle"),
    ]
)
"""Colours and shapes that come together in the part `combinations` alone."""

ALONE = 0.2
"""How many scenes have one shape only."""
BORDER = 0.06
GAP = 0.08
SLANT = 0.3
"""How far from level two shapes may lie, as a share of how far apart they are."""
GRID = 8
"""Scenes whose shapes lie in the same places of a grid this wide are nearly the same."""
PARTS = ("train", "validation", "test", "combinations")

_MIRRORED = {"left of": "right of", "right of": "left of"}
_COLOURS, _SIZES, _RELATIONS = tuple(COLOURS), tuple(WIDTHS), tuple(RELATIONS)


@dataclass(frozen=True)
class Shape:
    """A shape, and where it is: its middle and its width, as shares of the picture."""

    kind: str
    colour: str
    size: str
    x: float
    y: float
    width: float
    rgb: tuple[int, int, int]

    @property
    def words(self) -> str:
        """What it is called."""
        return f"{self.size} {self.colour} {self.kind}"


@dataclass(frozen=True)
class Scene:
    """One shape, or two in the order in which they are named, on a background."""

    shapes: tuple[Shape, ...]
    relation: str
    background: tuple[tuple[int, int, int], tuple[int, int, int]]
    """Its colours at the top left and at the bottom right."""

    @property
    def caption(self) -> str:
        """All that is to be said of it."""
        return f" {self.relation} ".join(f"a {shape.words}" for shape in self.shapes)

    @property
    def nouns(self) -> tuple[int, ...]:
        """Which word of the caption is each shape's noun, counted from 0.

        >>> scene = next(scenes("train"))
        >>> [scene.caption.split()[place] for place in scene.nouns]
        ['cross', 'cross']
        """
        words = self.caption.split()
        return (3,) if len(self.shapes) == 1 else (3, len(words) - 1)

    @property
    def part(self) -> str:
        """Which part of the set it belongs to, always."""
        if any((shape.colour, shape.kind) in UNSEEN for shape in self.shapes):
            return "combinations"
        places = [(int(s.x * GRID), int(s.y * GRID)) for s in self.shapes]
        mirrored = [(GRID - 1 - x, y) for x, y in places]
        other = _MIRRORED.get(self.relation, self.relation)
        layout = min(f"{self.relation} {places}", f"{other} {mirrored}")
        drawn = fraction(f"{[shape.words for shape in self.shapes]} {layout}", NAME)
        return "train" if drawn < 0.75 else "validation" if drawn < 0.85 else "test"


def scenes(part: str, seed: int = 0) -> Iterator[Scene]:
    """Invent scenes of a part without end, the same for the same seed.

    >>> next(scenes("test")).caption
    'a large yellow star'
    """
    if part not in PARTS:
        raise UserError(f"{NAME}: no part {shown(part)}: {near(part, PARTS)}")
    dice = Random(f"{NAME} {part} {seed}")  # noqa: S311
    while True:
        scene = _scene(dice)
        if scene.part == part:
            yield scene


def _scene(dice: Random) -> Scene:
    colours = dice.sample(_COLOURS, 1 if dice.random() < ALONE else 2)
    described = [(dice.choice(_SIZES), colour, dice.choice(KINDS)) for colour in colours]
    described.sort(key=lambda words: (words[0] == "large", words[1]))
    widths = [dice.uniform(*WIDTHS[size]) for size, _, _ in described]
    relation = dice.choice(_RELATIONS) if len(colours) == 2 else ""
    shapes = tuple(
        Shape(kind, colour, size, x, y, width, _near(COLOURS[colour], 12, dice))
        for (size, colour, kind), width, (x, y) in zip(
            described, widths, _places(widths, relation, dice), strict=True
        )
    )
    light = round(dice.uniform(215, 245))
    paper = (light, light, light)
    return Scene(shapes, relation, (_near(paper, 8, dice), _near(paper, 8, dice)))


def _near(rgb: tuple[int, int, int], by: int, dice: Random) -> tuple[int, int, int]:
    """Draw a colour like this one."""
    r, g, b = (min(255, max(0, round(value + dice.uniform(-by, by)))) for value in rgb)
    return r, g, b


def _places(widths: list[float], relation: str, dice: Random) -> list[tuple[float, float]]:
    """Put shapes into the picture so that the relation is plain, and else anywhere."""
    ends = [(BORDER + width / 2, 1 - BORDER - width / 2) for width in widths]
    if not relation:
        return [(dice.uniform(*ends[0]), dice.uniform(*ends[0]))]
    first, second = ends
    apart = sum(widths) / 2 + GAP
    along = dice.uniform(first[0], second[1] - apart)
    beyond = dice.uniform(along + apart, second[1])
    slant = SLANT * (beyond - along)
    second_level = dice.uniform(*second)
    first_level = dice.uniform(
        max(first[0], second_level - slant), min(first[1], second_level + slant)
    )
    across, down = RELATIONS[relation]
    if across + down > 0:  # the first lies beyond the second
        along, beyond = 1 - along, 1 - beyond
    both = [(along, first_level), (beyond, second_level)]
    return both if across else [(x, y) for y, x in both]
