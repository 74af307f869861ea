"""Random augmentation of images, and captions that stay correct when an image is mirrored.

In the captions of a mirrored image left and right are swapped: "to his left", "the left arm", "left
of". An image is not mirrored where "left" may be the verb, where "right" may mean something else
("right behind him"), where its caption mentions text in it, and where sides are named in another
language than English.
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from jaxtyping import Bool, Float, Int, UInt8

MAX_SHIFT = 0.06
"""Largest shift relative to the image's width: the width of a scene's border."""
MAX_BRIGHTNESS_CHANGE = 0.1
"""Largest relative change of brightness; below 1."""

_SIDE = re.compile(r"\b(left|right)(-?(?:hand(?:ed)?|most|wards?|side))?\b", re.IGNORECASE)
_OPPOSITE_SIDE = {
    case(side): case(opposite)
    for side, opposite in (("left", "right"), ("right", "left"))
    for case in (str.lower, str.upper, str.title)
}
_LAST_WORD = re.compile(r"(\w+)[ \t]$")
_NEXT_WORD = re.compile(r"[ \t](\w+)")
_DETERMINERS = re.compile(r"the|his|her|its|their|my|your|far|upper|lower|top|bottom|rear")
_PREPOSITIONS = re.compile(r"to|on")  # but not in "to right his kayak"
# As in "what is left of a house".
_REMAINDER_WORDS = re.compile(r"is|are|was|were|been|what|all|nothing|little")
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
_FOREIGN_SIDES = re.compile(
    r"\b(?:links|rechts|linke[nmrs]?|rechte[nmrs]?|gauches?|droite?s?|(?:izquierd|derech|sinistr"
    r"|destr|esquerd|direit)[oaei]s?)\b|лев|прав|[左右]",
    re.IGNORECASE,
)


def mirror_captions(captions: Sequence[str]) -> tuple[str, ...] | None:
    """Return the captions of the mirrored image, or None if they might be wrong.

    >>> mirror_captions(["A small red circle left of a large blue square"])
    ('A small red circle right of a large blue square',)
    >>> mirror_captions(["A dog", "A man right behind a dog"]) is None
    True
    """
    mirrored = []
    for caption in captions:
        is_ambiguous = _VISIBLE_TEXT.search(caption) or _FOREIGN_SIDES.search(caption)
        sides = _SIDE.finditer(caption)
        if is_ambiguous or not all(_is_direction(side, caption) for side in sides):
            return None
        mirrored.append(_SIDE.sub(lambda side: _OPPOSITE_SIDE[side[1]] + (side[2] or ""), caption))
    return tuple(mirrored)


def _is_direction(side: re.Match[str], caption: str) -> bool:
    """Return True if the words around "left" or "right" show that it is a side."""
    if side[1] not in _OPPOSITE_SIDE or caption[side.end() : side.end() + 1] in ("-", "'", "’"):
        return False
    if _UPRIGHT.match(caption, side.end()):
        return False
    if side[2]:
        return True
    previous_match = _LAST_WORD.search(caption[: side.start()])
    next_match = _NEXT_WORD.match(caption, side.end())
    previous_word = previous_match[1].lower() if previous_match else ""
    next_word = next_match[1].lower() if next_match else ""
    if _SIDE_NOUNS.fullmatch(next_word):
        return not (next_word == "of" and _REMAINDER_WORDS.fullmatch(previous_word))
    if _PREPOSITIONS.fullmatch(previous_word):
        return not next_word
    return bool(_DETERMINERS.fullmatch(previous_word)) and not _NON_SIDE_NOUNS.fullmatch(next_word)


@dataclass(frozen=True)
class ImageAugmentation:
    """The transformation of each image of a batch."""

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
    """Sample transformations, which depend on the seed, the epoch and the image index only."""
    uniform = np.random.default_rng([seed, epoch]).random((max(image_indices, default=0) + 1, 4))
    flip, down, right, brightness = uniform[np.asarray(image_indices, dtype=int)].T
    max_offset = round(max_shift * size)
    return ImageAugmentation(
        (flip < 0.5) & np.asarray(can_flip, dtype=bool),
        np.floor(down * (2 * max_offset + 1)).astype(int) - max_offset,
        np.floor(right * (2 * max_offset + 1)).astype(int) - max_offset,
        1 + max_brightness_change * (2 * brightness - 1),
    )


def augment_images(
    pixels: UInt8[np.ndarray, "batch size size 3"], augmentation: ImageAugmentation
) -> UInt8[np.ndarray, "batch size size 3"]:
    """Mirror images, shift them (repeating the edge), and change their brightness."""
    size = pixels.shape[1]
    indices = np.arange(size)
    gains = np.rint(augmentation.brightness * 128).astype(np.uint16)  # integers are faster
    result = np.empty(pixels.shape, dtype=np.uint8)
    for k, image in enumerate(pixels):
        rows = np.clip(indices - augmentation.offset_y[k], 0, size - 1)
        columns = np.clip(indices - augmentation.offset_x[k], 0, size - 1)
        columns = size - 1 - columns if augmentation.flip[k] else columns
        shifted = image.take(rows, axis=0).take(columns, axis=1)
        scaled = np.multiply(shifted, gains[k], dtype=np.uint16)  # numpy 1 would use 8 bits
        np.minimum((scaled + 64) >> 7, 255, out=result[k], casting="unsafe")
    return result
