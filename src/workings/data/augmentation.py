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

MAX_SHIFT = 0.06
"""How far a picture is moved at most, as a share of its width; a scene's border is as wide."""
MAX_BRIGHTNESS_CHANGE = 0.1
"""How much brighter or darker it gets at most, as a share; below 1."""

_SIDE = re.compile(r"\b(left|right)(-?(?:hand(?:ed)?|most|wards?|side))?\b", re.IGNORECASE)
_OPPOSITE_SIDE = {
    case(one): case(other)
    for one, other in (("left", "right"), ("right", "left"))
    for case in (str.lower, str.upper, str.title)
}
_LAST_WORD = re.compile(r"(\w+)[ \t]$")
_NEXT_WORD = re.compile(r"[ \t](\w+)")
_DETERMINERS = re.compile(r"the|his|her|its|their|my|your|far|upper|lower|top|bottom|rear")
_PREPOSITIONS = re.compile(r"to|on")  # and not "to right his kayak"
_REMAINDER_WORDS = re.compile(
    r"is|are|was|were|been|what|all|nothing|little"
)  # "what is left of a house"
_UPRIGHT = re.compile(r"(?:[ -]side)?[ -]up\b")
_SIDE_NOUNS = re.compile(
    r"of|sides?|hand|arm|leg|foot|eye|ear|shoulder|elbow|knee|paw|wing|fist|wrist|turn"
    r"|corner"
)
_NON_SIDE_NOUNS = re.compile(
    r"way|time|moment|place|over|behind|now|to|size|kind|sort|amount|thing|person|choice|answer"
)
_VISIBLE_TEXT = re.compile(
    r"\b(?:reads?|says?|saying|words?|letter\w*|text|written|writing|signs?|number\w*|logos?"
    r"|(?:anti|counter)?-?clockwise)\b",
    re.IGNORECASE,
)


_FOREIGN_SIDES = re.compile(  # sides in other languages, which are not changed round
    r"\b(?:links|rechts|linke[nmrs]?|rechte[nmrs]?|gauches?|droite?s?|(?:izquierd|derech|sinistr"
    r"|destr|esquerd|direit)[oaei]s?)\b|лев|прав|[左右]",
    re.IGNORECASE,
)


def mirror_captions(captions: Sequence[str]) -> tuple[str, ...] | None:
    """Say of a mirrored picture what was said of it; None where that is not sure to be true.

    >>> mirror_captions(["A small red circle left of a large blue square"])
    ('A small red circle right of a large blue square',)
    >>> mirror_captions(["A dog", "A man right behind a dog"]) is None
    True
    """
    mirrored = []
    for caption in captions:
        sides = list(_SIDE.finditer(caption))
        doubtful = _VISIBLE_TEXT.search(caption) or _FOREIGN_SIDES.search(caption)
        if doubtful or not all(_is_direction(side, caption) for side in sides):
            return None
        mirrored.append(_SIDE.sub(lambda side: _OPPOSITE_SIDE[side[1]] + (side[2] or ""), caption))
    return tuple(mirrored)


def _is_direction(side: re.Match[str], caption: str) -> bool:
    """Tell the side of something from what is merely spelt so, by the words around it."""
    if side[1] not in _OPPOSITE_SIDE or caption[side.end() : side.end() + 1] in ("-", "'", "’"):
        return False
    if _UPRIGHT.match(caption, side.end()):
        return False
    if side[2]:
        return True
    before = _LAST_WORD.search(caption[: side.start()])
    after = _NEXT_WORD.match(caption, side.end())
    follows, led = (found[1].lower() if found else "" for found in (after, before))
    if _SIDE_NOUNS.fullmatch(follows):
        return not (follows == "of" and _REMAINDER_WORDS.fullmatch(led))
    if _PREPOSITIONS.fullmatch(led):
        return not follows
    return bool(_DETERMINERS.fullmatch(led)) and not _NON_SIDE_NOUNS.fullmatch(follows)


@dataclass(frozen=True)
class ImageAugmentation:
    """What is done to each picture of a batch."""

    flip: Bool[np.ndarray, "batch"]
    offset_y: Int[np.ndarray, "batch"]
    offset_x: Int[np.ndarray, "batch"]
    brightness: Float[np.ndarray, "batch"]


def sample_augmentation(
    image_indices: Sequence[int],
    can_flip: Sequence[bool],
    size: int,
    *,
    seed: int,
    epoch: int,
    max_shift: float = MAX_SHIFT,
    max_brightness_change: float = MAX_BRIGHTNESS_CHANGE,
) -> ImageAugmentation:
    """Draw what to do to pictures of a size; it is a matter of seed, epoch and picture alone."""
    dice = np.random.default_rng([seed, epoch]).random((max(image_indices, default=0) + 1, 4))
    coin, down, right, light = dice[np.asarray(image_indices, dtype=int)].T
    reach = round(max_shift * size)
    return ImageAugmentation(
        (coin < 0.5) & np.asarray(can_flip, dtype=bool),
        np.floor(down * (2 * reach + 1)).astype(int) - reach,
        np.floor(right * (2 * reach + 1)).astype(int) - reach,
        1 + max_brightness_change * (2 * light - 1),
    )


def augment_images(
    pixels: UInt8[np.ndarray, "batch size size 3"], augmentation: ImageAugmentation
) -> UInt8[np.ndarray, "batch size size 3"]:
    """Mirror pictures, move them (the edge is repeated), and make them brighter or darker."""
    size = pixels.shape[1]
    places = np.arange(size)
    gains = np.rint(augmentation.brightness * 128).astype(np.uint16)  # whole numbers are faster
    result = np.empty(pixels.shape, dtype=np.uint8)
    for k, picture in enumerate(pixels):
        rows = np.clip(places - augmentation.offset_y[k], 0, size - 1)
        columns = np.clip(places - augmentation.offset_x[k], 0, size - 1)
        columns = size - 1 - columns if augmentation.flip[k] else columns
        moved = picture.take(rows, axis=0).take(columns, axis=1)
        lit = np.multiply(moved, gains[k], dtype=np.uint16)  # numpy 1 would stay with 8 bits
        np.minimum((lit + 64) >> 7, 255, out=result[k], casting="unsafe")
    return result
