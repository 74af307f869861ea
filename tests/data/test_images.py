"""Images of every format and mode: preprocessed alike, or rejected with an issue."""

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
from workings.errors import UserError, install_command

# Asymmetric, so that every rotation and reflection changes it.
RAMP = np.stack(
    np.broadcast_arrays(
        np.linspace(0, 255, 60)[:, None], np.linspace(255, 0, 90)[None, :], np.full((60, 90), 128)
    ),
    axis=-1,
).astype(np.uint8)
PHOTO = Image.fromarray(RAMP)
NOISE = Image.fromarray(np.random.default_rng(1).integers(0, 256, (60, 90, 3), dtype=np.uint8))


def encode(image: Image.Image, image_format: str, **options: object) -> bytes:
    raw = io.BytesIO()
    image.save(raw, image_format, **options)
    return raw.getvalue()


def is_close(a: np.ndarray, b: np.ndarray, tolerance: float = 4) -> bool:
    return np.abs(a.astype(int) - b.astype(int)).mean() < tolerance


def crop_and_resize(image: Image.Image, size: int = 20) -> np.ndarray:
    return np.asarray(ImageOps.fit(image.convert("RGB"), (size, size), Image.Resampling.BICUBIC))


@pytest.mark.parametrize("image_format", ["JPEG", "PNG", "GIF", "WEBP", "BMP"])
def test_every_format_is_cropped_to_the_center_square(image_format: str) -> None:
    pixels, issue = preprocess_image(encode(PHOTO, image_format), 20)
    assert pixels.shape == (20, 20, 3)
    assert pixels.dtype == np.uint8
    assert issue == ImageIssue(0)
    assert is_close(pixels, crop_and_resize(PHOTO))


@pytest.mark.parametrize("size", [1, 20, 60, 128])
def test_any_aspect_ratio_and_size(size: int) -> None:
    for shape in ((1, 1), (1, 500), (500, 1), (33, 64)):
        pixels, _ = preprocess_image(encode(Image.new("RGB", shape, (9, 99, 199)), "PNG"), size)
        assert np.array_equal(pixels, np.full((size, size, 3), (9, 99, 199)))


@pytest.mark.parametrize("orientation", range(1, 9))
@pytest.mark.parametrize("image_format", ["JPEG", "PNG"])
def test_exif_orientation_is_applied(orientation: int, image_format: str) -> None:
    exif = Image.Exif()
    exif[0x0112] = orientation
    raw = encode(PHOTO, image_format, exif=exif)
    upright = ImageOps.exif_transpose(Image.open(io.BytesIO(raw)))
    assert is_close(preprocess_image(raw, 20)[0], crop_and_resize(upright))


def test_large_jpeg_is_resized_without_aliasing() -> None:
    lines = np.zeros((1200, 1800, 3), dtype=np.uint8)
    lines[:, ::2] = 255
    pixels, _ = preprocess_image(encode(Image.fromarray(lines), "JPEG", quality=95), 32)
    assert np.abs(pixels.astype(int) - 127).max() < 12


@pytest.mark.parametrize(
    ("image", "expected"),
    [
        (PHOTO.convert("L"), ImageIssue.GRAYSCALE),
        (PHOTO.convert("1"), ImageIssue.GRAYSCALE),
        (PHOTO.convert("LA"), ImageIssue.GRAYSCALE),
        (PHOTO.convert("P"), ImageIssue(0)),
        (PHOTO.convert("RGBA"), ImageIssue(0)),  # opaque
    ],
)
def test_other_modes_become_rgb(image: Image.Image, expected: ImageIssue) -> None:
    pixels, issue = preprocess_image(encode(image, "PNG"), 20)
    assert issue == expected
    if image.mode != "1":
        assert is_close(pixels, crop_and_resize(image.convert("RGB")), tolerance=8)


def test_cmyk() -> None:
    pixels, issue = preprocess_image(encode(PHOTO.convert("CMYK"), "JPEG", quality=95), 20)
    assert issue == ImageIssue(0)
    assert is_close(pixels, crop_and_resize(PHOTO), tolerance=8)


def test_16_bit_grayscale_is_scaled() -> None:
    ramp = np.linspace(0, 65535, 64).astype(np.uint16).reshape(1, 64).repeat(64, 0)
    pixels, issue = preprocess_image(encode(Image.fromarray(ramp), "PNG"), 64)
    assert issue == ImageIssue.GRAYSCALE
    assert is_close(pixels[..., 0], (ramp >> 8).astype(np.uint8), tolerance=1)


@pytest.mark.parametrize("mode", ["RGBA", "LA", "P"])
def test_transparent_pixels_become_white(mode: str) -> None:
    image = Image.new("RGBA", (40, 40), (0, 0, 0, 0))
    image.paste((0, 0, 0, 255), (0, 0, 20, 40))
    if mode == "P":
        raw = encode(image.convert("P"), "GIF", transparency=image.convert("P").getpixel((39, 0)))
        image = Image.open(io.BytesIO(raw)).convert("RGBA")
        raw = encode(image.quantize(8), "PNG")
    else:
        raw = encode(image.convert(mode), "PNG")
    pixels, issue = preprocess_image(raw, 40)
    assert issue & ImageIssue.TRANSPARENT
    assert bool(issue & ImageIssue.GRAYSCALE) == (mode == "LA")
    assert (pixels[:, :19] == 0).all()
    assert (pixels[:, 21:] == 255).all()


def test_format_is_detected_by_content() -> None:
    png, jpeg = encode(PHOTO, "PNG"), encode(PHOTO, "JPEG")
    assert preprocess_image(png, 8, "a.jpg")[1] == ImageIssue.MISNAMED
    assert preprocess_image(jpeg, 8, "a.PNG")[1] == ImageIssue.MISNAMED
    for name in ("a.JPG", "a.jpeg", "a", "", "a.dat"):
        assert preprocess_image(jpeg, 8, name)[1] == ImageIssue(0)


@pytest.mark.parametrize(
    ("raw", "issue"),
    [
        (b"", ImageIssue.UNREADABLE),
        (b"not an image", ImageIssue.UNREADABLE),
        (b"<svg xmlns='http://www.w3.org/2000/svg'/>", ImageIssue.UNREADABLE),
        # Pillow would run a program to read this format.
        (b"%!PS-Adobe-3.0 EPSF-3.0\n%%BoundingBox: 0 0 9 9\n", ImageIssue.UNREADABLE),
        (encode(PHOTO, "TIFF"), ImageIssue.UNREADABLE),
        (encode(NOISE, "JPEG")[:-400], ImageIssue.TRUNCATED),
        (encode(NOISE, "JPEG")[:30], ImageIssue.TRUNCATED),
        (encode(NOISE, "PNG")[:-200], ImageIssue.TRUNCATED),
        (encode(NOISE, "GIF")[:-500], ImageIssue.TRUNCATED),
        (encode(NOISE, "BMP")[:-500], ImageIssue.TRUNCATED),
        (encode(NOISE, "WEBP")[:-90], ImageIssue.UNREADABLE),
    ],
    ids=[*"abcdefghijk"],
)
def test_unreadable_images_are_rejected_with_an_issue(raw: bytes, issue: ImageIssue) -> None:
    with pytest.raises(UnusableImageError) as error:
        preprocess_image(raw, 20)
    assert error.value.issue == issue
    assert len(str(error.value).splitlines()) == 1


def make_bomb(width: int, height: int) -> bytes:
    """Return a PNG whose header states a size, without pixels."""

    def chunk(kind: bytes, data: bytes) -> bytes:
        return len(data).to_bytes(4) + kind + data + zlib.crc32(kind + data).to_bytes(4)

    head = width.to_bytes(4) + height.to_bytes(4) + bytes([8, 2, 0, 0, 0])
    return b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", head) + chunk(b"IDAT", b"") + chunk(b"IEND", b"")


@pytest.mark.parametrize("shape", [(8001, 8000), (10_000, 10_000), (60_000, 60_000)])
def test_too_many_pixels_are_not_decoded(shape: tuple[int, int]) -> None:
    with pytest.raises(UnusableImageError, match="too large: more than 64,000,000 pixels") as error:
        preprocess_image(make_bomb(*shape), 20)
    assert error.value.issue == ImageIssue.TOO_LARGE


def test_too_many_bytes_are_not_decoded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(images, "MAX_IMAGE_BYTES", 100)
    with pytest.raises(UnusableImageError, match="too large: more than 100 bytes"):
        preprocess_image(encode(PHOTO, "PNG"), 20)


def test_damaged_metadata_is_ignored() -> None:
    raw = encode(PHOTO, "JPEG", exif=b"Exif\0\0" + b"\xff" * 40)
    assert is_close(preprocess_image(raw, 20)[0], crop_and_resize(PHOTO))


def test_read_image(tmp_path: Path) -> None:
    photo = tmp_path / "photo.jpg"
    photo.write_bytes(encode(PHOTO, "JPEG"))
    assert np.array_equal(read_image(photo, 20), preprocess_image(photo.read_bytes(), 20)[0])
    link = tmp_path / "link.jpg"
    link.symlink_to(photo)
    assert np.array_equal(read_image(link, 20), read_image(photo, 20))
    photo.write_bytes(b"text")
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    messages = {
        photo: r"photo\.jpg: not an image: expected JPEG, PNG, GIF, WEBP, BMP",
        tmp_path / "none.jpg": "No such file",
        tmp_path: "Is a directory",
        pipe: "a pipe or a device",
    }
    for path, message in messages.items():
        with pytest.raises(UserError, match=message) as error:
            read_image(path, 20)
        assert len(str(error.value).splitlines()) == 1
    for size in (0, -1, 5000):
        with pytest.raises(UserError, match="expected 1 to 1,024 pixels"):
            read_image(photo, size)


def test_missing_pillow_has_install_hint(tmp_path: Path) -> None:
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
    assert done.stdout == f"images need PIL: {install_command('pictures')}\n", done.stderr


def test_damaged_png_is_rejected() -> None:
    raw = bytearray(encode(NOISE, "PNG"))
    raw[len(raw) // 2] ^= 0xFF
    with pytest.raises(UnusableImageError) as error:
        preprocess_image(bytes(raw), 16, "a.png")
    assert error.value.issue in (ImageIssue.UNREADABLE, ImageIssue.TRUNCATED)
