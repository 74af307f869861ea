"""Colors: a diverging scale (blue below zero, orange above), series colors and contrast.

The scale is interpolated in OKLab, so that its steps look equally far apart. Black text is readable
on every step of the light scale, white text on every step of the dark one.
"""

import math

THEMES = ("light", "dark", "print")
STEPS = 8  # of the scale, on each side of zero
_RISING = range(1, STEPS + 1)
_PRINT_SCALE_END = 0.62  # lightness; black text is readable on it
INK = {"light": "#1b1a18", "dark": "#f1efea"}
_BASE_COLORS = {  # the same as in the CSS of pages
    "light": {"ink": INK["light"], "soft": "#5d5a55", "line": "#d9d5cd", "paper": "#ffffff"},
    "dark": {"ink": INK["dark"], "soft": "#b3aea5", "line": "#3b3d43", "paper": "#17181b"},
    "print": {"ink": "#000000", "soft": "#3d3d3d", "line": "#b4b4b4", "paper": "#ffffff"},
}
# Blue, orange, green, purple, red, sky, ochre, pink: found by a search for the largest distances in
# normal and color-blind vision, the first ones furthest apart, with enough contrast for text.
_SERIES_COLORS = {
    "light": (
        "#0555b7", "#bf5100", "#008761", "#4f1370", "#992640", "#2a596c", "#5a4403", "#a84d97",
    ),
    "dark": (
        "#61acfd", "#e78535", "#96d1ac", "#9272b9", "#e05768", "#b4e7fd", "#f0e088", "#ca90ae",
    ),
    # Of different lightness, so that they differ in a gray copy, too; the first ones most.
    "print": (
        "#000000", "#c98519", "#1f4f9e", "#6f6f6f", "#5b1a3a", "#2f7f6e", "#3a3a3a", "#a868bc",
    ),
}  # fmt: skip
# Violet, teal, gold and red: distinct in color-blind vision, too, and not the blue and orange of
# signs.
ROLE_COLORS = {
    "light": {
        "query": "#6b2fa8",
        "key": "#00766c",
        "value": "#8f6200",
        "gradient": "#880022",
    },
    "dark": {
        "query": "#c4a3f5",
        "key": "#5fd0c1",
        "value": "#e3bb57",
        "gradient": "#ee5555",
    },
}
_ZERO_COLOR = {"light": (0.985, 0.0), "dark": (0.255, 0.0)}  # lightness, chroma
_RAMP_END = {"light": (0.56, 0.15), "dark": (0.8, 0.13)}
_SCALE_END = {"light": (0.745, 0.125), "dark": (0.48, 0.11)}
_HUES = {"p": 62.0, "n": 252.0}  # degrees


def color_step(value: float | None, full_scale: float) -> str:
    """Return the step of a value: `n8` full blue, `z` zero, `p8` full orange; "" without a color.

    >>> [color_step(value, 16.0) for value in (16.0, -4.0, 0.1, None)]
    ['p8', 'n2', 'z', '']
    """
    if value is None or not math.isfinite(value):
        return ""
    size = round(STEPS * min(abs(value) / full_scale, 1.0)) if full_scale else 0
    return f"{'p' if value > 0 else 'n'}{size}" if size else "z"


def color_scale(theme: str) -> dict[str, str]:
    """Return the colors of a theme by step, from full blue to full orange.

    In print they go from white to gray: blue and orange would be equal in a gray copy.
    """
    if theme == "print":
        names = [*(f"n{k}" for k in range(STEPS, 0, -1)), "z", *(f"p{k}" for k in _RISING)]
        darkest = _PRINT_SCALE_END
        return {
            name: _rgb(1 - (1 - darkest) * k / (len(names) - 1), 0, 0)
            for k, name in enumerate(names)
        }
    colors = {f"n{k}": _step_color(theme, "n", k) for k in range(STEPS, 0, -1)}
    colors["z"] = _step_color(theme, "p", 0)
    return colors | {f"p{k}": _step_color(theme, "p", k) for k in _RISING}


def color_ramp(theme: str, count: int = 65, *, signed: bool = False) -> list[str]:
    """Return colors from zero to full orange, or, signed, from full blue; for maps without text.

    The ends are stronger than those of the scale, because no number has to be readable on them.

    >>> color_ramp("light", 3)
    ['#fafafa', '#d8ab84', '#b05b00']
    """
    values = [k / (count - 1) for k in range(count)]
    if signed:
        values = [2 * value - 1 for value in values]
    return [_mix(theme, "n" if x < 0 else "p", abs(x), _RAMP_END[theme]) for x in values]


def text_color_on(color: str) -> str:
    """Return black or white, whichever has more contrast on a color.

    >>> text_color_on("#fafafa"), text_color_on("#b05b00")
    ('#000000', '#ffffff')
    """
    return max(("#000000", "#ffffff"), key=lambda ink: contrast_ratio(ink, color))


def theme_colors(name: str) -> dict[str, str]:
    """Return the colors of pictures in a theme, `light`, `dark` or `print`, by name.

    `ink`, `soft`, `line` and `paper`; `c1` to `c8` for series; the steps of the scale.

    >>> theme_colors("light")["paper"], theme_colors("dark")["c1"], theme_colors("light")["p8"]
    ('#ffffff', '#61acfd', '#e49953')
    """
    series = {f"c{k}": color for k, color in enumerate(_SERIES_COLORS[name], start=1)}
    return _BASE_COLORS[name] | series | color_scale(name)


def contrast_ratio(first: str, second: str) -> float:
    """Return the WCAG contrast ratio of two colors: 1 for equal ones, 21 for black on white."""
    low, high = sorted((_luminance(first), _luminance(second)))
    return (high + 0.05) / (low + 0.05)


def _step_color(theme: str, side: str, k: int) -> str:
    return _mix(theme, side, k / STEPS, _SCALE_END[theme])


def _mix(theme: str, side: str, fraction: float, end: tuple[float, float]) -> str:
    (lightness, chroma), (end_lightness, end_chroma) = _ZERO_COLOR[theme], end
    lightness += (end_lightness - lightness) * fraction
    chroma += (end_chroma - chroma) * fraction
    angle = math.radians(_HUES[side])
    return _rgb(lightness, chroma * math.cos(angle), chroma * math.sin(angle))


def _rgb(lightness: float, a: float, b: float) -> str:
    """Convert OKLab to sRGB (matrices by Ottosson)."""
    l = (lightness + 0.3963377774 * a + 0.2158037573 * b) ** 3
    m = (lightness - 0.1055613458 * a - 0.0638541728 * b) ** 3
    s = (lightness - 0.0894841775 * a - 1.2914855480 * b) ** 3
    linear = (
        4.0767416621 * l - 3.3077115913 * m + 0.2309699292 * s,
        -1.2684380046 * l + 2.6097574011 * m - 0.3413193965 * s,
        -0.0041960863 * l - 0.7034186147 * m + 1.7076147010 * s,
    )
    return "#" + "".join(f"{round(255 * _gamma_encode(min(max(c, 0.0), 1.0))):02x}" for c in linear)


def _gamma_encode(linear: float) -> float:
    return 12.92 * linear if linear <= 0.0031308 else 1.055 * linear ** (1 / 2.4) - 0.055


def _luminance(color: str) -> float:
    channels = [int(color[k : k + 2], 16) / 255 for k in (1, 3, 5)]
    linear = [c / 12.92 if c <= 0.04045 else ((c + 0.055) / 1.055) ** 2.4 for c in channels]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]
