"""Readers of images and of captions."""

import io
import json
import shutil

import numpy as np
from PIL import Image

from readers import JSON, Reader, work_folder
from workings.data.caption_files import read_caption_splits
from workings.data.images import preprocess_image

CAPTIONS = ("a.jsonl", "a.json", "a.txt")
FORMATS = ("JPEG", "PNG", "GIF", "WEBP", "BMP")


def _captions(data: bytes) -> None:
    """Read captions; the first byte chooses the file name."""
    folder = work_folder() / "captions"
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir()
    path = folder / CAPTIONS[data[0] % len(CAPTIONS) if data else 0]
    path.write_bytes(data[1:])
    splits = read_caption_splits(path)
    assert any(splits.values())
    for images in splits.values():
        for image in images:
            assert not set("\r\n") & set("".join(image.captions))
            "".join([image.name, *image.captions]).encode("utf-8")


def _captions_seeds() -> list[bytes]:
    rows = [
        {"image": "a.jpg", "split": "train", "captions": ["A dog .", "a brown dog"]},
        {"image": "b.jpg", "split": "dev", "captions": ["naïve 🙂", ""]},
        {"image": "c.jpg", "split": "unused", "captions": []},
    ]
    coco = {
        "images": [{"id": 1, "file_name": "a.jpg"}, {"id": "b", "file_name": "b.jpg"}],
        "annotations": [{"image_id": 1, "caption": "A dog"}, {"image_id": "b", "caption": "Two"}],
    }
    tables = (
        "a.jpg#0\tA dog .\na.jpg#1\ta dog\r\nb.jpg#0\tTwo dogs\n",
        "image_name| comment_number| comment\na.jpg| 0| A dog\nb.jpg| 1 Two dogs\n",
        'image,caption\na.jpg,"A dog, brown"\nb.jpg,Two ""dogs""\n',
        "image,number,caption\na.jpg,0,A dog, brown\n",
    )
    lines = "\n".join(map(json.dumps, rows)).encode()
    return [b"\0" + lines, b"\1" + json.dumps(coco).encode(), *(b"\2" + t.encode() for t in tables)]


def _image(data: bytes) -> None:
    pixels, _ = preprocess_image(data, 8, "a.jpg")
    assert pixels.shape == (8, 8, 3)
    assert pixels.dtype == np.uint8


def _image_seeds() -> list[bytes]:
    ramp = np.arange(16 * 12 * 3, dtype=np.uint8).reshape(16, 12, 3)
    image, files = Image.fromarray(ramp), []
    exif = Image.Exif()
    exif[0x0112] = 6
    others = [("PNG", image.convert(mode)) for mode in ("L", "LA", "RGBA", "P", "1")]
    for form, variant in [*((form, image) for form in FORMATS), *others]:
        raw = io.BytesIO()
        variant.save(raw, form, **({"exif": exif} if form in ("JPEG", "PNG", "WEBP") else {}))
        files.append(raw.getvalue())
    return files


IMAGE_READERS = {
    "captions": Reader(
        _captions,
        _captions_seeds,
        (*JSON, '"image"', '"captions"', '"split"', '"images"', "#0\t", "| 0|", "image,caption\n"),
    ),
    "image": Reader(
        _image,
        _image_seeds,
        (
            "\xff\xd8",
            "\xff\xc0",
            "IHDR",
            "IDAT",
            "tRNS",
            "GIF89a",
            "RIFF",
            "WEBP",
            "Exif\0\0",
            "BM",
        ),
    ),
}
