"""Charts of horizontal bars with a name and a number each."""

from collections.abc import Sequence

from workings.plain_text import to_one_line
from workings.render.pictures import Picture, text_width, truncate_to_pixels

_MARGIN, _ROW, _BAR = 12.0, 22.0, 14.0
_TITLE_SIZE, _TEXT_SIZE = 14.0, 12.0
_MAX_NAME = 220.0
_MIN_BAR = 1.5  # so that a count of one can be seen beside a large one


def bar_chart(
    bars: Sequence[tuple[str, float]],
    *,
    title: str,
    labels: Sequence[str] | None = None,
    maximum: float | None = None,
    highlighted: Sequence[bool] = (),
    width: float = 640,
) -> Picture:
    """Draw a bar for each name and number; `labels` replace the numbers at the ends of the bars.

    >>> chart = bar_chart([("not-scaled", 12), ("sign-lost", 3)], title="Mistakes")
    >>> [shape.text for shape in chart.shapes if hasattr(shape, "text")]
    ['Mistakes', 'not-scaled', '12', 'sign-lost', '3']
    """

    def redraw(new_width: float) -> Picture:
        return bar_chart(
            bars, title=title, labels=labels, maximum=maximum, highlighted=highlighted,
            width=new_width,
        )  # fmt: skip

    names = [
        truncate_to_pixels(to_one_line(name), min(_MAX_NAME, 0.45 * width), _TEXT_SIZE)
        for name, _ in bars
    ]
    texts = [f"{value:g}" for _, value in bars] if labels is None else list(labels)
    top = _MARGIN + _TITLE_SIZE + 10
    picture = Picture(width, top + _ROW * len(bars) + _MARGIN, title, redraw)
    heading = truncate_to_pixels(title, width - 2 * _MARGIN, _TITLE_SIZE, bold=True)
    picture.add_text(_MARGIN, _MARGIN + _TITLE_SIZE - 3, heading, size=_TITLE_SIZE, bold=True)
    left = _MARGIN + max((text_width(name, _TEXT_SIZE) for name in names), default=0) + 8
    right = width - _MARGIN - max((text_width(t, _TEXT_SIZE) for t in texts), default=0) - 8
    largest = max((value for _, value in bars), default=0) if maximum is None else maximum
    for k, ((_, value), name, text) in enumerate(zip(bars, names, texts, strict=True)):
        y = top + _ROW * k
        length = max(0.0, right - left) * value / largest if largest > 0 else 0.0
        is_highlighted = k < len(highlighted) and highlighted[k]
        picture.add_text(left - 8, y + _BAR - 3, name, "ink", _TEXT_SIZE, "end")
        if value > 0:
            color = "c2" if is_highlighted else "c1"
            picture.add_rectangle(left, y, max(length, _MIN_BAR), _BAR, color)
        picture.add_text(left + length + 6, y + _BAR - 3, text, "soft", _TEXT_SIZE)
    bottom = top + _ROW * len(bars) - (_ROW - _BAR) / 2
    picture.add_line([(left, top - 4), (left, bottom)], "line")
    return picture
