"""Images: PNG files are read back, resizing keeps the mean, smoothing the maximum; ANSI colors."""

from io import BytesIO

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays
from PIL import Image

from workings.render.images import (
    MIN_SMOOTH_SIDE,
    ansi_colors,
    encode_png_alpha,
    encode_png_rgb,
    fitted_size,
    resize,
    shrink_to_fit,
    smooth_upsample,
)

GRIDS = arrays.arrays(
    np.float64,
    st.tuples(st.integers(1, 14), st.integers(1, 14)),
    elements=st.floats(0, 1, allow_subnormal=False),
)


@given(arrays.arrays(np.uint8, st.tuples(st.integers(1, 9), st.integers(1, 9), st.just(3))))
def test_png_has_the_pixels(pixels):
    assert (np.asarray(Image.open(BytesIO(encode_png_rgb(pixels)))) == pixels).all()


def test_png_has_the_opacities():
    png = encode_png_alpha([[0.0, 0.5], [1.0, 0.25]], "#bf5100")
    image = Image.open(BytesIO(png)).convert("RGBA")
    assert image.size == (2, 2)
    assert image.getpixel((1, 0)) == (0xBF, 0x51, 0x00, 128)
    assert [image.getpixel(xy)[3] for xy in ((0, 0), (0, 1), (1, 1))] == [0, 255, 64]


@settings(max_examples=30)
@given(st.integers(1, 40), st.integers(1, 40), st.integers(1, 40), st.integers(1, 40))
def test_resizing_keeps_the_mean(height, width, new_height, new_width):
    image = np.random.default_rng(height).integers(0, 256, (height, width, 3), dtype=np.uint8)
    resized = resize(image, new_height, new_width)
    assert resized.shape == (new_height, new_width, 3)
    assert resized.mean((0, 1)) == pytest.approx(image.mean((0, 1)))
    assert (resize(image, height, width) == image).all()
    doubled = resize(image, 2 * height, 2 * width)
    assert (doubled[::2, 1::2] == image).all()


def test_only_large_images_are_shrunk():
    large, small = np.zeros((600, 800, 3), np.uint8), np.zeros((30, 40, 3), np.uint8)
    assert shrink_to_fit(large, 400).shape == (300, 400, 3)
    assert shrink_to_fit(small, 400) is small
    assert fitted_size(np.zeros((1, 900, 3), np.uint8), 20) == (1, 20)


@given(GRIDS)
def test_smoothing_keeps_the_maximum_and_its_position(grid):
    smooth = smooth_upsample(grid)
    factor = smooth.shape[0] // grid.shape[0]
    assert max(smooth.shape) >= MIN_SMOOTH_SIDE
    assert smooth.max() == pytest.approx(grid.max())
    assert smooth.min() >= grid.min() - 1e-12
    centers = smooth[factor // 2 :: factor, factor // 2 :: factor]
    assert centers == pytest.approx(grid)
    row, column = (index // factor for index in np.unravel_index(smooth.argmax(), smooth.shape))
    assert grid[row, column] == pytest.approx(grid.max())


def test_nearest_of_256_colors() -> None:
    pixels = np.array([[[0, 0, 0], [255, 255, 255], [128, 128, 128], [0, 135, 175], [250, 3, 0]]])
    codes = ansi_colors(pixels.astype(np.uint8), true_color=False)
    assert codes == [["5;16", "5;231", "5;244", "5;31", "5;196"]]
