"""Pictures of every sort, made by Pillow: prepared alike, or refused by kind."""

import io
import os
import subprocess
import sys
import zlib
from pathlib import Path

import numpy as np
import pytest
from PIL import Image, ImageOps

from workings.data import images
from workings.data.images import ImageIssue, UnusableImageError, preprocess_image, read_image
from workings.errors import UserError

# A picture whose four quarters and halves all differ, so that any turn shows.
RAMP = np.stack(
    np.broadcast_arrays(
        np.linspace(0, 255, 60)[:, None], np.linspace(255, 0, 90)[None, :], np.full((60, 90), 128)
    ),
    axis=-1,
).astype(np.uint8)
PHOTO = Image.fromarray(RAMP)
NOISE = Image.fromarray(np.random.default_rng(1).integers(0, 256, (60, 90, 3), dtype=np.uint8))


def saved(image: Image.Image, form: str, **options: object) -> bytes:
    raw = io.BytesIO()
    image.save(raw, form, **options)
    return raw.getvalue()


def close(one: np.ndarray, other: np.ndarray, by: float = 4) -> bool:
    return np.abs(one.astype(int) - other.astype(int)).mean() < by


def square(image: Image.Image, size: int = 20) -> np.ndarray:
    return np.asarray(ImageOps.fit(image.convert("RGB"), (size, size), Image.Resampling.BICUBIC))


@pytest.mark.parametrize("form", ["JPEG", "PNG", "GIF", "WEBP", "BMP"])
def test_every_format_gives_the_square_in_the_middle(form: str) -> None:
    pixels, oddity = preprocess_image(saved(PHOTO, form), 20)
    assert pixels.shape == (20, 20, 3)
    assert pixels.dtype == np.uint8
    assert oddity == ImageIssue(0)
    assert close(pixels, square(PHOTO))


@pytest.mark.parametrize("size", [1, 20, 60, 128])
def test_any_shape_fills_any_square(size: int) -> None:
    for shape in ((1, 1), (1, 500), (500, 1), (33, 64)):
        pixels, _ = preprocess_image(saved(Image.new("RGB", shape, (9, 99, 199)), "PNG"), size)
        assert np.array_equal(pixels, np.full((size, size, 3), (9, 99, 199)))


@pytest.mark.parametrize("turn", range(1, 9))
@pytest.mark.parametrize("form", ["JPEG", "PNG"])
def test_the_way_a_camera_was_held(turn: int, form: str) -> None:
    exif = Image.Exif()
    exif[0x0112] = turn
    raw = saved(PHOTO, form, exif=exif)
    upright = ImageOps.exif_transpose(Image.open(io.BytesIO(raw)))
    assert close(preprocess_image(raw, 20)[0], square(upright))


def test_a_large_jpeg_is_made_small_without_patterns() -> None:
    lines = np.zeros((1200, 1800, 3), dtype=np.uint8)
    lines[:, ::2] = 255
    pixels, _ = preprocess_image(saved(Image.fromarray(lines), "JPEG", quality=95), 32)
    assert np.abs(pixels.astype(int) - 127).max() < 12


@pytest.mark.parametrize(
    ("image", "oddity"),
    [
        (PHOTO.convert("L"), ImageIssue.GRAYSCALE),
        (PHOTO.convert("1"), ImageIssue.GRAYSCALE),
        (PHOTO.convert("LA"), ImageIssue.GRAYSCALE),
        (PHOTO.convert("P"), ImageIssue(0)),
        (PHOTO.convert("RGBA"), ImageIssue(0)),  # with an alpha that hides nothing
    ],
)
def test_other_colours_become_red_green_and_blue(image: Image.Image, oddity: ImageIssue) -> None:
    pixels, found = preprocess_image(saved(image, "PNG"), 20)
    assert found == oddity
    if image.mode != "1":
        assert close(pixels, square(image.convert("RGB")), by=8)


def test_cmyk_as_printers_have_it() -> None:
    pixels, oddity = preprocess_image(saved(PHOTO.convert("CMYK"), "JPEG", quality=95), 20)
    assert oddity == ImageIssue(0)
    assert close(pixels, square(PHOTO), by=8)


def test_sixteen_bits_of_grey_are_not_all_white() -> None:
    ramp = np.linspace(0, 65535, 64).astype(np.uint16).reshape(1, 64).repeat(64, 0)
    pixels, oddity = preprocess_image(saved(Image.fromarray(ramp), "PNG"), 64)
    assert oddity == ImageIssue.GRAYSCALE
    assert close(pixels[..., 0], (ramp >> 8).astype(np.uint8), by=1)


@pytest.mark.parametrize("mode", ["RGBA", "LA", "P"])
def test_what_is_transparent_lies_on_white(mode: str) -> None:
    image = Image.new("RGBA", (40, 40), (0, 0, 0, 0))
    image.paste((0, 0, 0, 255), (0, 0, 20, 40))
    if mode == "P":
        raw = saved(image.convert("P"), "GIF", transparency=image.convert("P").getpixel((39, 0)))
        image = Image.open(io.BytesIO(raw)).convert("RGBA")
        raw = saved(image.quantize(8), "PNG")
    else:
        raw = saved(image.convert(mode), "PNG")
    pixels, oddity = preprocess_image(raw, 40)
    assert oddity & ImageIssue.TRANSPARENT
    assert bool(oddity & ImageIssue.GRAYSCALE) == (mode == "LA")
    assert (pixels[:, :19] == 0).all()
    assert (pixels[:, 21:] == 255).all()


def test_the_bytes_tell_what_a_file_is() -> None:
    png, jpeg = saved(PHOTO, "PNG"), saved(PHOTO, "JPEG")
    assert preprocess_image(png, 8, "a.jpg")[1] == ImageIssue.MISNAMED
    assert preprocess_image(jpeg, 8, "a.PNG")[1] == ImageIssue.MISNAMED
    for name in ("a.JPG", "a.jpeg", "a", "", "a.dat"):
        assert preprocess_image(jpeg, 8, name)[1] == ImageIssue(0)


@pytest.mark.parametrize(
    ("raw", "oddity"),
    [
        (b"", ImageIssue.UNREADABLE),
        (b"not a picture", ImageIssue.UNREADABLE),
        (b"<svg xmlns='http://www.w3.org/2000/svg'/>", ImageIssue.UNREADABLE),
        (
            b"%!PS-Adobe-3.0 EPSF-3.0\n%%BoundingBox: 0 0 9 9\n",
            ImageIssue.UNREADABLE,
        ),  # runs programs
        (saved(PHOTO, "TIFF"), ImageIssue.UNREADABLE),
        (saved(NOISE, "JPEG")[:-400], ImageIssue.TRUNCATED),
        (saved(NOISE, "JPEG")[:30], ImageIssue.TRUNCATED),
        (saved(NOISE, "PNG")[:-200], ImageIssue.TRUNCATED),
        (saved(NOISE, "GIF")[:-500], ImageIssue.TRUNCATED),
        (saved(NOISE, "BMP")[:-500], ImageIssue.TRUNCATED),
        (saved(NOISE, "WEBP")[:-90], ImageIssue.UNREADABLE),
    ],
    ids=[*"abcdefghijk"],
)
def test_what_cannot_be_read_is_refused_by_kind(raw: bytes, oddity: ImageIssue) -> None:
    with pytest.raises(UnusableImageError) as refused:
        preprocess_image(raw, 20)
    assert refused.value.issue == oddity
    assert len(str(refused.value).splitlines()) == 1


def bomb(width: int, height: int) -> bytes:
    """A PNG whose head promises so many pixels, with none of them in it."""

    def chunk(kind: bytes, data: bytes) -> bytes:
        return len(data).to_bytes(4) + kind + data + zlib.crc32(kind + data).to_bytes(4)

    head = width.to_bytes(4) + height.to_bytes(4) + bytes([8, 2, 0, 0, 0])
    return b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", head) + chunk(b"IDAT", b"") + chunk(b"IEND", b"")


@pytest.mark.parametrize("shape", [(8001, 8000), (10_000, 10_000), (60_000, 60_000)])
def test_what_is_enormous_is_not_decoded(shape: tuple[int, int]) -> None:
    with pytest.raises(
        UnusableImageError, match="enormous: more than 64,000,000 pixels"
    ) as refused:
        preprocess_image(bomb(*shape), 20)
    assert refused.value.issue == ImageIssue.TOO_LARGE


def test_a_file_of_too_many_bytes_is_not_decoded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(images, "MAX_IMAGE_BYTES", 100)
    with pytest.raises(UnusableImageError, match="enormous: more than 100 bytes"):
        preprocess_image(saved(PHOTO, "PNG"), 20)


def test_damaged_metadata_does_not_spoil_a_picture() -> None:
    raw = saved(PHOTO, "JPEG", exif=b"Exif\0\0" + b"\xff" * 40)
    assert close(preprocess_image(raw, 20)[0], square(PHOTO))


def test_one_photo_by_its_path(tmp_path: Path) -> None:
    photo = tmp_path / "photo.jpg"
    photo.write_bytes(saved(PHOTO, "JPEG"))
    assert np.array_equal(read_image(photo, 20), preprocess_image(photo.read_bytes(), 20)[0])
    link = tmp_path / "link.jpg"
    link.symlink_to(photo)
    assert np.array_equal(read_image(link, 20), read_image(photo, 20))
    photo.write_bytes(b"text")
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    wrong = {
        photo: r"photo\.jpg: not a picture: expected JPEG, PNG, GIF, WEBP, BMP",
        tmp_path / "none.jpg": "No such file",
        tmp_path: "Is a directory",
        pipe: "a pipe or a device",
    }
    for path, told in wrong.items():
        with pytest.raises(UserError, match=told) as refused:
            read_image(path, 20)
        assert len(str(refused.value).splitlines()) == 1
    for size in (0, -1, 5000):
        with pytest.raises(UserError, match="from 1 to 1,024 pixels"):
            read_image(photo, size)


def test_without_pillow_a_line_says_what_to_install(tmp_path: Path) -> None:
    (tmp_path / "a.png").write_bytes(b"")
    code = """
import sys
sys.modules["PIL"] = None
from pathlib import Path
from workings.data.images import read_image
try:
    read_image(Path(sys.argv[1]), 8)
except ValueError as error:
    print(error)
"""
    command = [sys.executable, "-c", code, str(tmp_path / "a.png")]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.stdout == 'pictures need PIL: pip install "workings[pictures]"\n', done.stderr


def test_a_damaged_png_is_told() -> None:
    raw = bytearray(saved(NOISE, "PNG"))
    raw[len(raw) // 2] ^= 0xFF
    with pytest.raises(UnusableImageError) as caught:
        preprocess_image(bytes(raw), 16, "a.png")
    assert caught.value.issue in (ImageIssue.UNREADABLE, ImageIssue.TRUNCATED)
