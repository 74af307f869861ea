"""Small sets of pictures with captions, for the tests of whatever reads them."""

import io
import json
import zipfile
from pathlib import Path

from PIL import Image

from workings.data.caption_files import CaptionedImage
from workings.data.captions import CaptionDataset

NAMES = [f"{k}.png" for k in range(10)]
SAID = [CaptionedImage(name, (f"a picture , of {name}", f"{name} again")) for name in NAMES]


def png(colour: int, mode: str = "RGB", size: tuple[int, int] = (12, 10)) -> bytes:
    raw = io.BytesIO()
    shade = colour * 20
    Image.new("RGB", size, (shade, 255 - shade, 7)).convert(mode).save(raw, "PNG")
    return raw.getvalue()


def put_pictures(folder: Path) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    for k, name in enumerate(NAMES):
        (folder / name).write_bytes(png(k))


def put_zip(path: Path, inside: str = "") -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    with zipfile.ZipFile(path, "w") as archive:
        for k, name in enumerate(NAMES):
            archive.writestr(inside + name, png(k))
    return path


def json_lines(path: Path, said: list[CaptionedImage] = SAID, splits: str = "") -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    words = {"t": "train", "d": "dev", "e": "test", "u": "unused"}
    rows = [{"image": p.name, "captions": p.captions} for p in said]
    for row, letter in zip(rows, splits, strict=False):
        row["split"] = words[letter]
    path.write_text("\n".join(map(json.dumps, rows)))
    return path


def check(found: CaptionDataset) -> None:
    """Every picture has the colour that its name says, and belongs to one part."""
    names = [picture.name for some in found.images.values() for picture in some]
    assert len(set(names)) == len(names)
    for part, some in found.images.items():
        assert found.pixels[part].shape == (len(some), 8, 8, 3)
        assert not found.pixels[part].flags.writeable
        for picture, pixels in zip(some, found.pixels[part], strict=True):
            shade = int(picture.name.rpartition("/")[2].removesuffix(".png")) * 20
            assert (pixels == (shade, 255 - shade, 7)).all()
