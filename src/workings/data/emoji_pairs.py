"""Pairs that need no download: the names of emoji in one language, and in another.

An emoji is wholly in train, in validation or in test, together with those that differ from it in
gender, direction or skin tone only. Names with a skin tone are in train alone: five more copies of
a person would count it six times in a score. Flags are left out: a country's name is known or it is
not, and English does not say "flag".
"""

import re
from collections.abc import Hashable

from workings.data.builtin import (
    FULLY_QUALIFIED,
    LANGUAGES,
    SKIN_TONES,
    emoji_package,
    family,
    in_words,
)
from workings.data.pair_files import Pair
from workings.data.pair_splits import hold_out_pairs, pair_keys, part_size
from workings.errors import UserError, near, shown

NAME = "emoji-names"

_FLAG = re.compile("[\U0001f1e6-\U0001f1ff\U000e0020-\U000e007f]")
_TONES = str.maketrans(dict.fromkeys(SKIN_TONES))
_TONE_NAMES = re.compile(r" (?:medium-light|medium-dark|light|medium|dark) skin tone")

Keys = tuple[Hashable, ...]


def emoji_names(
    source: str = "en",
    target: str = "fr",
    *,
    validation: float = 0.05,
    test: float = 0.05,
    seed: int = 0,
) -> dict[str, list[Pair]]:
    """Make the set: names of emoji in two languages, in parts.

    >>> parts = emoji_names("en", "fr")
    >>> Pair("grinning face", "visage rieur") in sum(parts.values(), [])
    True
    """
    plain, toned = _named(source, target)
    counts = (part_size(share, len(plain)) for share in (test, validation))
    train, tested, valid = hold_out_pairs([*plain], *counts, seed=seed, keys=[*plain.values()])
    held = {key for pair in (*tested, *valid) for key in plain[pair]}
    train += [pair for pair, keys in toned.items() if held.isdisjoint(keys)]
    return {"train": train, "validation": valid, "test": tested}


def _named(source: str, target: str) -> tuple[dict[Pair, Keys], dict[Pair, Keys]]:
    """Every pair of names, without a skin tone and with one, with what it shares with others."""
    for language in (source, target):
        if language not in LANGUAGES:
            told = f"no language {shown(language)}: {near(language, LANGUAGES)}"
            raise UserError(f"{NAME}: {told}")
    package = emoji_package(NAME)
    package.config.load_language(["en", source, target])
    found: tuple[dict[Pair, Keys], dict[Pair, Keys]] = ({}, {})
    for character, data in sorted(package.EMOJI_DATA.items()):
        if data["status"] > FULLY_QUALIFIED or _FLAG.search(character):
            continue
        pair = Pair(in_words(data.get(source, "")), in_words(data.get(target, "")))
        if pair.source and pair.target:
            bare = family(character.translate(_TONES))
            # Couples of two tones are spelt otherwise than those of none: their names tell.
            name = _TONE_NAMES.sub("", in_words(data["en"]))
            some = found[bool(SKIN_TONES & set(character))]
            some[pair] = (*some.get(pair, ()), *pair_keys(pair), ("family", bare), ("name", name))
    return found
