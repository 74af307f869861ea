"""The fonts of the system with which text is drawn as PNG and PDF.

DejaVu Sans comes first, in which text is measured. Characters that it lacks, such as Chinese ones,
are drawn in the first font that has them.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from functools import cache
from itertools import groupby

from fontTools.ttLib import TTFont
from PIL import ImageFont

_TEXT_FONTS = {
    False: ("DejaVuSans.ttf", "LiberationSans-Regular.ttf", "Arial.ttf", "Helvetica.ttc"),
    True: ("DejaVuSans-Bold.ttf", "LiberationSans-Bold.ttf", "Arial Bold.ttf", "arialbd.ttf"),
}
# For the scripts that text fonts lack: on Linux, Windows and macOS.
_FALLBACK_FONTS = (
    "NotoSansCJK-Regular.ttc",
    "NotoSansCJKsc-Regular.otf",
    "NotoSansSC-Regular.otf",
    "NotoSansSC-Regular.ttf",
    "SourceHanSansSC-Regular.otf",
    "wqy-microhei.ttc",
    "wqy-zenhei.ttc",
    "DroidSansFallbackFull.ttf",
    "msyh.ttc",
    "simsun.ttc",
    "msgothic.ttc",
    "malgun.ttf",
    "PingFang.ttc",
    "Hiragino Sans GB.ttc",
    "Arial Unicode.ttf",
    "NotoSansDevanagari-Regular.ttf",
    "Nirmala.ttf",
    "NotoSansThai-Regular.ttf",
    "NotoSansArabic-Regular.ttf",
    "NotoSansHebrew-Regular.ttf",
    "NotoSansSymbols2-Regular.ttf",
    "NotoEmoji-Regular.ttf",
    "seguisym.ttf",
    "Symbola.ttf",
    "Apple Symbols.ttf",
)


@dataclass(frozen=True, eq=False)
class FontFile:
    """A font of the system and the characters it has; of a collection, its first font."""

    path: str
    characters: frozenset[int]


@cache
def find_text_font(bold: bool) -> FontFile | None:
    """Return the font of text; None if the system has none of those known."""
    names = (*_TEXT_FONTS[bold], *_TEXT_FONTS[False])
    return next(filter(None, map(_find_font, names)), None)


def split_by_font(text: str, bold: bool) -> list[tuple[FontFile, str]]:
    """Split text into parts of one font each; characters without a font stay in the first one.

    >>> [part for _, part in split_by_font("scores ÷ √d_k", bold=False)]
    ['scores ÷ √d_k']
    """
    first = find_text_font(bold)
    if first is None:
        return []
    fonts = [(_font_of(character, first) or first, character) for character in text]
    return [
        (font, "".join(character for _, character in part))
        for font, part in groupby(fonts, key=lambda pair: pair[0])
    ]


def find_missing_characters(texts: Iterable[str]) -> str:
    """Return the characters that no font of the system has, in order."""
    first = find_text_font(bold=False)
    unique = dict.fromkeys(character for text in texts for character in text)
    return "".join(c for c in unique if not c.isspace() and _font_of(c, first) is None)


def _font_of(character: str, first: FontFile | None) -> FontFile | None:
    if first is not None and ord(character) in first.characters:
        return first
    return _find_fallback(character)


@cache
def _find_fallback(character: str) -> FontFile | None:
    fonts = filter(None, map(_find_font, _FALLBACK_FONTS))
    return next((font for font in fonts if ord(character) in font.characters), None)


@cache
def _find_font(name: str) -> FontFile | None:
    try:
        path = str(ImageFont.truetype(name, 10).path)
    except OSError:
        return None
    with TTFont(path, lazy=True, fontNumber=0) as font:
        return FontFile(path, frozenset(font.getBestCmap() or ()))
