"""Small captioning datasets, for tests of the modules that read them."""

import io
import json
import zipfile
from pathlib import Path

from PIL import Image

from workings.data.caption_files import CaptionedImage
from workings.data.captions import CaptionDataset

NAMES = [f"{k}.png" for k in range(10)]
CAPTIONED = [CaptionedImage(name, (f"an image , of {name}", f"{name} again")) for name in NAMES]


def make_png(number: int, mode: str = "RGB", size: tuple[int, int] = (12, 10)) -> bytes:
    """Return an image of one color, which depends on the number."""
    raw = io.BytesIO()
    shade = number * 20
    Image.new("RGB", size, (shade, 255 - shade, 7)).convert(mode).save(raw, "PNG")
    return raw.getvalue()


def write_images(folder: Path) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    for k, name in enumerate(NAMES):
        (folder / name).write_bytes(make_png(k))


def write_zip(path: Path, prefix: str = "") -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    with zipfile.ZipFile(path, "w") as archive:
        for k, name in enumerate(NAMES):
            archive.writestr(prefix + name, make_png(k))
    return path


def write_jsonl(path: Path, images: list[CaptionedImage] = CAPTIONED, splits: str = "") -> Path:
    """Write captions as JSON lines; each letter of `splits` is the split of an image."""
    path.parent.mkdir(parents=True, exist_ok=True)
    names = {"t": "train", "d": "dev", "e": "test", "u": "unused"}
    records = [{"image": image.name, "captions": image.captions} for image in images]
    for record, letter in zip(records, splits, strict=False):
        record["split"] = names[letter]
    path.write_text("\n".join(map(json.dumps, records)))
    return path


def write_coco(path: Path, images: list[CaptionedImage] = CAPTIONED) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    entries = [{"id": 100 + k, "file_name": image.name} for k, image in enumerate(images)]
    annotations = [
        {"image_id": 100 + k, "caption": c}
        for k, image in enumerate(images)
        for c in image.captions
    ]
    path.write_text(json.dumps({"info": {}, "images": entries, "annotations": annotations[::-1]}))
    return path


def check_dataset(dataset: CaptionDataset) -> None:
    """Check that every image has the color of its name, and is in one split."""
    names = [image.name for images in dataset.images.values() for image in images]
    assert len(set(names)) == len(names)
    for split, images in dataset.images.items():
        assert dataset.pixels[split].shape == (len(images), 8, 8, 3)
        for image, pixels in zip(images, dataset.pixels[split], strict=True):
            shade = int(image.name.rpartition("/")[2].removesuffix(".png")) * 20
            assert (pixels == (shade, 255 - shade, 7)).all()
