"""A set that needs no download: which language is this? From the names of emoji.

The `emoji` package carries the name of every emoji in fourteen languages: some 25,000 short, real
strings. An emoji is wholly in train, in validation or in test, together with those that differ from
it in gender or direction only: a model cannot answer "männer mit hasenohren" by having learnt
"frauen mit hasenohren". Skin tones are left out: they would repeat every name five times. So is a
name that stands in several languages ("shorts" is English, German and Portuguese), since it has no
right answer. Names are lower-cased, because only English ones have capitals.
"""

import unicodedata
from collections import defaultdict
from types import ModuleType

from workings.data.readers import Example
from workings.data.splits import Splits, fraction
from workings.errors import UserError

LANGUAGES = {
    "ar": "Arabic",
    "de": "German",
    "en": "English",
    "es": "Spanish",
    "fa": "Persian",
    "fr": "French",
    "id": "Indonesian",
    "it": "Italian",
    "ja": "Japanese",
    "ko": "Korean",
    "pt": "Portuguese",
    "ru": "Russian",
    "tr": "Turkish",
    "zh": "Chinese",
}

SKIN_TONES = frozenset(map(chr, range(0x1F3FB, 0x1F400)))
_VARIANTS = str.maketrans(
    {
        "\N{ZERO WIDTH JOINER}": None,
        "\N{VARIATION SELECTOR-16}": None,
        "\N{FEMALE SIGN}": None,
        "\N{MALE SIGN}": None,
        "\N{BLACK RIGHTWARDS ARROW}": None,
        "\N{MAN}": "\N{ADULT}",
        "\N{WOMAN}": "\N{ADULT}",
    }
)
FULLY_QUALIFIED = 2  # the package's word for an emoji as one should write it


def emoji_languages() -> Splits:
    """Make the set: names of emoji, each with the language that it is in.

    >>> splits = emoji_languages()
    >>> len(splits.labels), Example("erstauntes gesicht", "German") in splits.train
    (14, True)
    """
    parts: tuple[list[Example], list[Example], list[Example]] = ([], [], [])
    for character, example in _names():
        drawn = fraction(family(character))
        parts[0 if drawn < 0.8 else 1 if drawn < 0.9 else 2].append(example)
    return Splits("emoji-languages", *(tuple(part) for part in parts))


def _names() -> list[tuple[str, Example]]:
    """Every emoji with its name in every language, one emoji after the other."""
    package = emoji_package("emoji-languages")
    package.config.load_language(list(LANGUAGES))
    found: list[tuple[str, str, str]] = []
    languages: defaultdict[str, set[str]] = defaultdict(set)
    for character, data in sorted(package.EMOJI_DATA.items()):
        if data["status"] > FULLY_QUALIFIED or SKIN_TONES & set(character):
            continue
        for code, language in LANGUAGES.items():
            if code in data and (name := in_words(data[code])):
                found.append((character, name, language))
                languages[name].add(language)
    unique = {(n, l): (c, n, l) for c, n, l in reversed(found) if len(languages[n]) == 1}
    return [(c, Example(n, l)) for c, n, l in reversed(unique.values())]


def in_words(name: str) -> str:
    """Write an emoji's name as people would.

    >>> in_words(":grinning_face_with_big_eyes:")
    'grinning face with big eyes'
    """
    bare = unicodedata.normalize("NFC", name.strip(":").replace("_", " ").lower())
    return " ".join(bare.split())


def family(character: str) -> str:
    """Name what an emoji has in common with its variants of gender and direction.

    >>> family("👨‍🚀") == family("👩‍🚀") == family("🧑‍🚀") != family("👩‍🏫")
    True
    """
    return character.translate(_VARIANTS)


def emoji_package(name: str) -> ModuleType:
    """Import the package that the set of this name is made from."""
    try:
        import emoji
    except ModuleNotFoundError:
        raise UserError(f'{name} needs emoji: pip install "workings[data]"') from None
    return emoji
