"""Write the page's math font: STIX Two Math with what the page's formulas use.

pip install fonttools brotli
python tools/subset_math_font.py stix-two-math-latin-400-normal.woff2

The font is in the npm package @fontsource/stix-two-math, under the SIL Open Font License.
"""

import sys
from pathlib import Path
from typing import Any

from fontTools.subset import Options, Subsetter, save_font
from fontTools.ttLib import TTFont

STATIC = Path(__file__).resolve().parents[1] / "src" / "workings" / "web" / "static"
ASCII = "".join(chr(code) for code in range(0x20, 0x7F) if chr(code) not in '"#$&;?@\\^`~')
ITALIC = "".join(chr(code) for code in range(0x1D434, 0x1D468) if code != 0x1D455) + "ℎ"
GREEK = "αβγδεηθλμπρστφΣΔ"
ITALIC_GREEK = "".join(chr(0x1D6FC + ord(letter) - ord("α")) for letter in GREEK if letter >= "α")
SYMBOLS = "−→←⊤·…∞√×≈–÷±≤≥≠∑∂∈⊙⊕′ℝ∇∘⌊⌋"
LICENSE = "This Font Software is licensed under the SIL Open Font License, Version 1.1."
STRETCHED = {"radical", "parenleft", "parenright"}
MAX_SIZES = 3  # of a stretched character


def main() -> None:
    """Write the font."""
    font: Any = TTFont(sys.argv[1])
    variants = font["MATH"].table.MathVariants
    keep_sizes(variants, "VertGlyphCoverage", "VertGlyphConstruction")
    variants.HorizGlyphCoverage = None
    variants.HorizGlyphConstruction = []
    font["name"].setName(LICENSE, 13, 3, 1, 0x409)
    font["name"].setName("https://openfontlicense.org", 14, 3, 1, 0x409)
    options = Options()
    options.flavor = "woff2"
    options.hinting = False
    options.layout_features = []
    options.name_IDs = [0, 1, 2, 5, 13, 14]  # the last two are the license
    subsetter = Subsetter(options)
    subsetter.populate(text=ASCII + ITALIC + GREEK + ITALIC_GREEK + SYMBOLS)
    subsetter.subset(font)
    save_font(font, str(STATIC / "math.woff2"), options)


def keep_sizes(variants: Any, coverage: str, constructions: str) -> None:
    """Keep the larger forms of the characters that the page stretches."""
    glyphs = getattr(variants, coverage).glyphs
    kept = [
        (glyph, construction)
        for glyph, construction in zip(glyphs, getattr(variants, constructions), strict=True)
        if glyph in STRETCHED
    ]
    for _, construction in kept:
        construction.MathGlyphVariantRecord = construction.MathGlyphVariantRecord[:MAX_SIZES]
    getattr(variants, coverage).glyphs = [glyph for glyph, _ in kept]
    setattr(variants, constructions, [construction for _, construction in kept])


if __name__ == "__main__":
    main()
