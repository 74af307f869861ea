"""Text fits where it was measured to fit."""

import pytest
from PIL import ImageFont

from workings.render.pictures import text_width, truncate_to_pixels, wrap_to_pixels


@pytest.mark.parametrize("bold", [False, True])
@pytest.mark.parametrize("text", ["loss, nats per token", "−2.5·10⁻⁷", "LSTM & GRU @ 100\u00a0%"])
def test_text_is_never_wider_than_measured(text: str, bold: bool) -> None:
    try:
        font = ImageFont.truetype(f"DejaVuSans{'-Bold' * bold}.ttf", 100)
    except OSError:
        pytest.skip("no DejaVu Sans here")
    assert 1 <= text_width(text, 100, bold) / font.getlength(text) < 1.12


@pytest.mark.parametrize("room", [0, 5, 30, 77, 200, 1000])
def test_cut_text_fits(room: float) -> None:
    for text in ("a name that is rather long", "x" * 50, "中文词" * 9, "", "a b"):
        least = text_width("…", 10)
        assert text_width(truncate_to_pixels(text, room, 10), 10) <= max(room, least)
        lines = wrap_to_pixels(text, room, 10)
        assert len(lines) <= 2
        assert all(text_width(line, 10) <= max(room, least) for line in lines)
        if room == 1000:
            assert lines == [text]
