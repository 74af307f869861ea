"""Pictures that are a little other each time, and captions that stay true of them.

A mirrored picture has left and right changed round in its captions: "to his left", "the left arm",
"left of". Where "left" may mean that somebody went, or "right" that something is just behind him,
where somebody has read something in the picture, and where sides are told in another language than
English, the picture is not mirrored at all.
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from jaxtyping import Bool, Float, Int, UInt8

SHIFT = 0.06
"""How far a picture is moved at most, as a share of its width; a scene's border is as wide."""
BRIGHTNESS = 0.1
"""How much brighter or darker it gets at most, as a share; below 1."""

_SIDE = re.compile(r"\b(left|right)(-?(?:hand(?:ed)?|most|wards?|side))?\b", re.IGNORECASE)
_OTHER = {
    case(one): case(other)
    for one, other in (("left", "right"), ("right", "left"))
    for case in (str.lower, str.upper, str.title)
}
_LAST_WORD = re.compile(r"(\w+)[ \t]$")
_NEXT_WORD = re.compile(r"[ \t](\w+)")
_BEFORE = re.compile(r"the|his|her|its|their|my|your|far|upper|lower|top|bottom|rear")
_BEFORE_AN_END = re.compile(r"to|on")  # and not "to right his kayak"
_REST = re.compile(r"is|are|was|were|been|what|all|nothing|little")  # "what is left of a house"
_UP = re.compile(r"(?:[ -]side)?[ -]up\b")
_AFTER = re.compile(
    r"of|sides?|hand|arm|leg|foot|eye|ear|shoulder|elbow|knee|paw|wing|fist|wrist|turn"
    r"|corner"
)
_NOT_AFTER = re.compile(
    r"way|time|moment|place|over|behind|now|to|size|kind|sort|amount|thing|person|choice|answer"
)
_READ = re.compile(
    r"\b(?:reads?|says?|saying|words?|letter\w*|text|written|writing|signs?|number\w*|logos?"
    r"|(?:anti|counter)?-?clockwise)\b",
    re.IGNORECASE,
)


_ELSEWHERE = re.compile(  # sides in other languages, which are not changed round
    r"\b(?:links|rechts|linke[nmrs]?|rechte[nmrs]?|gauches?|droite?s?|(?:izquierd|derech|sinistr"
    r"|destr|esquerd|direit)[oaei]s?)\b|лев|прав|[左右]",
    re.IGNORECASE,
)


def mirrored_captions(captions: Sequence[str]) -> tuple[str, ...] | None:
    """Say of a mirrored picture what was said of it; None where that is not sure to be true.

    >>> mirrored_captions(["A small red circle left of a large blue square"])
    ('A small red circle right of a large blue square',)
    >>> mirrored_captions(["A dog", "A man right behind a dog"]) is None
    True
    """
    mirrored = []
    for caption in captions:
        sides = list(_SIDE.finditer(caption))
        doubtful = _READ.search(caption) or _ELSEWHERE.search(caption)
        if doubtful or not all(_is_direction(side, caption) for side in sides):
            return None
        mirrored.append(_SIDE.sub(lambda side: _OTHER[side[1]] + (side[2] or ""), caption))
    return tuple(mirrored)


def _is_direction(side: re.Match[str], caption: str) -> bool:
    """Tell the side of something from what is merely spelt so, by the words around it."""
    if side[1] not in _OTHER or caption[side.end() : side.end() + 1] in ("-", "'", "’"):
        return False
    if _UP.match(caption, side.end()):
        return False
    if side[2]:
        return True
    before = _LAST_WORD.search(caption[: side.start()])
    after = _NEXT_WORD.match(caption, side.end())
    follows, led = (found[1].lower() if found else "" for found in (after, before))
    if _AFTER.fullmatch(follows):
        return not (follows == "of" and _REST.fullmatch(led))
    if _BEFORE_AN_END.fullmatch(led):
        return not follows
    return bool(_BEFORE.fullmatch(led)) and not _NOT_AFTER.fullmatch(follows)


@dataclass(frozen=True)
class Changes:
    """What is done to each picture of a batch."""

    mirrored: Bool[np.ndarray, "batch"]
    down: Int[np.ndarray, "batch"]
    right: Int[np.ndarray, "batch"]
    brightness: Float[np.ndarray, "batch"]


def draw_changes(
    pictures: Sequence[int],
    may_mirror: Sequence[bool],
    size: int,
    *,
    seed: int,
    epoch: int,
    shift: float = SHIFT,
    brightness: float = BRIGHTNESS,
) -> Changes:
    """Draw what to do to pictures of a size; it is a matter of seed, epoch and picture alone."""
    dice = np.random.default_rng([seed, epoch]).random((max(pictures, default=0) + 1, 4))
    coin, down, right, light = dice[np.asarray(pictures, dtype=int)].T
    reach = round(shift * size)
    return Changes(
        (coin < 0.5) & np.asarray(may_mirror, dtype=bool),
        np.floor(down * (2 * reach + 1)).astype(int) - reach,
        np.floor(right * (2 * reach + 1)).astype(int) - reach,
        1 + brightness * (2 * light - 1),
    )


def changed(
    pixels: UInt8[np.ndarray, "batch size size 3"], changes: Changes
) -> UInt8[np.ndarray, "batch size size 3"]:
    """Mirror pictures, move them (the edge is repeated), and make them brighter or darker."""
    size = pixels.shape[1]
    places = np.arange(size)
    gains = np.rint(changes.brightness * 128).astype(np.uint16)  # whole numbers are faster
    result = np.empty(pixels.shape, dtype=np.uint8)
    for k, picture in enumerate(pixels):
        rows = np.clip(places - changes.down[k], 0, size - 1)
        columns = np.clip(places - changes.right[k], 0, size - 1)
        columns = size - 1 - columns if changes.mirrored[k] else columns
        moved = picture.take(rows, axis=0).take(columns, axis=1)
        lit = np.multiply(moved, gains[k], dtype=np.uint16)  # numpy 1 would stay with 8 bits
        np.minimum((lit + 64) >> 7, 255, out=result[k], casting="unsafe")
    return result
