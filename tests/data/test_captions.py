"""Captioning datasets: images from folders and archives, cached pixels, unusable images."""

import os
import zipfile
from pathlib import Path

import numpy as np
import pytest
from caption_sets import (
    CAPTIONED,
    NAMES,
    check_dataset,
    make_png,
    write_coco,
    write_images,
    write_jsonl,
    write_zip,
)
from PIL import Image

from workings.data import images as images_module
from workings.data.cache import cache_folder
from workings.data.caption_files import CaptionedImage
from workings.data.captions import (
    CaptionDataset,
    list_caption_datasets,
    load_captions,
    load_test_captions,
    read_image,
)
from workings.data.images import ImageStore
from workings.data.scenes import draw_scene, generate_scenes
from workings.errors import UserError


@pytest.fixture(autouse=True)
def empty_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.delenv("WORKINGS_DATA", raising=False)


@pytest.mark.parametrize("where", ["beside", "below", "zip", "given folder", "given zip"])
def test_images_are_found(tmp_path: Path, where: str) -> None:
    captions, images = write_jsonl(tmp_path / "set" / "captions.jsonl"), None
    if where in ("beside", "below"):
        write_images(tmp_path / "set" / ("" if where == "beside" else "Images/deep"))
    elif where == "given folder":
        write_images(images := tmp_path / "elsewhere")
    else:
        name = "set/images.zip" if where == "zip" else "elsewhere.zip"
        archive = write_zip(tmp_path / name, "some/folder/")
        zipfile.ZipFile(tmp_path / "set" / "a.zip", "w").close()  # empty: ignored
        images = archive if where == "given zip" else None
    for data in (captions, captions.parent):
        dataset = load_captions(data, image_size=8, validation=0.2, test=0.3, images=images)
        check_dataset(dataset)
        sizes = {split: len(split_images) for split, split_images in dataset.images.items()}
        assert sizes == {"train": 5, "validation": 2, "test": 3}
        assert dataset.image_stats.describe() == "10 images; none left out"
    test = load_test_captions(captions, image_size=8, images=images)
    assert test.images == {"test": tuple(CAPTIONED)}
    check_dataset(test)


def test_seed_determines_splits_and_max_images_limits_train(tmp_path: Path) -> None:
    path = write_jsonl(tmp_path / "a.jsonl")
    write_images(tmp_path)
    one, again, other = (load_captions(path, image_size=8, test=0.4, seed=s) for s in (1, 1, 2))
    assert one.images == again.images
    assert one.sha256 == again.sha256 != other.sha256
    assert one.images["test"] != other.images["test"]
    few = load_captions(path, image_size=8, test=0.4, seed=1, max_images=2)
    assert few.images["test"] == one.images["test"]
    assert len(few.images["train"]) == 2
    assert set(few.images["train"]) < set(one.images["train"])
    path = write_jsonl(tmp_path / "b.jsonl", CAPTIONED[::-1])
    in_other_order = load_captions(path, image_size=8, test=0.4, seed=1)
    assert set(in_other_order.images["test"]) == set(one.images["test"])


def test_images_of_the_same_name_need_their_folders(tmp_path: Path) -> None:
    for folder, k in (("a", 1), ("b", 2)):
        (tmp_path / folder).mkdir()
        (tmp_path / folder / "x.png").write_bytes(make_png(k))
    store = ImageStore(tmp_path)
    assert store.read("b/x.png") == make_png(2)
    assert "x.png" not in store


def test_images_are_decoded_once(tmp_path: Path) -> None:
    path = write_jsonl(tmp_path / "a.jsonl")
    write_images(tmp_path)
    calls: list[tuple[int, int]] = []

    def load(size: int = 8) -> CaptionDataset:
        calls.clear()
        return load_captions(path, image_size=size, progress=lambda *p: calls.append(p))

    first = load()
    assert calls == [(k, 10) for k in range(1, 11)]
    assert load().sha256 == first.sha256
    assert not calls
    load(size=9)
    assert len(calls) == 10
    (file,) = (
        f
        for f in (cache_folder() / "images").glob("*.uint8")
        if f.stat().st_size > 8 * 8 * 8 * 3 and f.stat().st_size < 8 * 9 * 9 * 3
    )
    raw = file.read_bytes()
    for damaged in (raw[:-1], b"", raw[:50] + b"\0" + raw[51:], raw + raw):
        file.write_bytes(damaged)
        assert load().sha256 == first.sha256
        assert len(calls) == 8
        assert file.read_bytes() == raw
    (tmp_path / "0.png").write_bytes(make_png(0, "L"))
    assert load().image_stats.counts == {"grayscale": 1}


def test_scenes_dataset() -> None:
    dataset = load_captions("scenes", image_size=16, max_images=12, seed=3)
    assert repr(dataset) == "CaptionDataset('scenes': 12 train, 500 validation, 1,000 test)"
    for k, scene in zip(range(12), generate_scenes("train", 3), strict=False):
        assert dataset.images["train"][k].captions == (scene.caption,)
        assert np.array_equal(dataset.pixels["train"][k], draw_scene(scene, 16))
    test = load_test_captions("scenes", image_size=16, seed=3)
    assert test.images == {"test": dataset.images["test"]}
    assert np.array_equal(test.pixels["test"], dataset.pixels["test"])
    new = load_test_captions("scenes/combinations", image_size=16)
    assert list(new.images) == ["test"]
    assert new.pixels["test"].shape == (500, 16, 16, 3)
    with pytest.raises(UserError, match="no split 'combination': did you mean 'combinations'"):
        load_test_captions("scenes/combination")


def test_invalid_arguments_are_rejected(tmp_path: Path) -> None:
    assert list_caption_datasets() == ("flickr8k", "scenes")
    for options, message in (
        ({"image_size": 0}, "expected 1 to 1,024 pixels"),
        ({"validation": 0.5, "test": 0.5}, "nothing is left"),
        ({"max_images": 0}, "expected at least 1"),
    ):
        with pytest.raises(UserError, match=message):
            load_captions("scenes", **options)
    with pytest.raises(UserError, match="no named dataset: did you mean 'scenes'"):
        load_captions("scense")
    with pytest.raises(UserError, match="no captions there: expected"):
        load_captions(tmp_path)
    with pytest.raises(UserError, match=r"(?s)not on this machine.*put .*WORKINGS_DATA"):
        load_captions("flickr8k")


def test_flickr8k(data: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    if not (data / "flickr8k").is_dir():
        pytest.skip("no flickr8k")
    monkeypatch.setenv("WORKINGS_DATA", str(data))
    test = load_test_captions("flickr8k", image_size=32)
    assert len(test.images["test"]) == 1000
    assert {len(image.captions) for image in test.images["test"]} == {5}
    first = test.images["test"][0]
    with zipfile.ZipFile(data / "flickr8k" / "images128.zip") as archive:
        (tmp_path / first.name).write_bytes(archive.read(first.name))
    assert np.array_equal(read_image(tmp_path / first.name, 32), test.pixels["test"][0])


def test_folders_with_the_same_names_and_times_are_cached_separately(tmp_path: Path) -> None:
    pixels = []
    for color in ("red", "blue"):
        folder = tmp_path / color
        folder.mkdir()
        for name in NAMES:  # of one size and time, as archives are unpacked
            Image.new("RGB", (12, 10), color).save(folder / name, "BMP")
            os.utime(folder / name, (10**9, 10**9))
        loaded = load_captions(write_jsonl(folder / "captions.jsonl"), image_size=8)
        pixels.append(loaded.pixels["train"][0][0, 0].tolist())
    assert pixels == [[255, 0, 0], [0, 0, 255]]


def test_images_in_several_archives(tmp_path: Path) -> None:
    """COCO has an archive for each split."""
    for name, members in (("train2017.zip", NAMES[:6]), ("val2017.zip", NAMES[6:])):
        with zipfile.ZipFile(tmp_path / name, "w") as archive:
            for member in members:
                archive.writestr(f"{name[:-4]}/{member}", make_png(NAMES.index(member)))
    write_coco(tmp_path / "annotations" / "captions_train2017.json", CAPTIONED[:6])
    write_coco(tmp_path / "annotations" / "captions_val2017.json", CAPTIONED[6:])
    for images in (None, tmp_path):
        loaded = load_captions(tmp_path, image_size=8, images=images)
        assert loaded.image_stats.counts == {}
        assert len(loaded.images["validation"]) == 4


def test_file_without_test_split_is_tested_on_entirely(tmp_path: Path) -> None:
    write_images(tmp_path)
    file = write_jsonl(tmp_path / "captions.jsonl", splits="tttttddddu")
    dataset = load_test_captions(file, image_size=16)
    assert [i.name for i in dataset.images["test"]] == NAMES[:9]
    only = write_jsonl(tmp_path / "held.jsonl", CAPTIONED[:3], splits="ddd")
    assert len(load_test_captions(only, image_size=16).images["test"]) == 3


def test_unusable_images_are_left_out_and_counted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(images_module, "MAX_PIXELS", 200)
    write_images(tmp_path)
    (tmp_path / "1.png").write_bytes(b"nothing")
    (tmp_path / "2.png").write_bytes(make_png(2)[:-30])
    (tmp_path / "3.png").unlink()
    (tmp_path / "4.png").write_bytes(make_png(4, size=(20, 20)))
    (tmp_path / "5.png").write_bytes(make_png(5, "L"))
    (tmp_path / "6.png").unlink()
    (tmp_path / "6.png").symlink_to(tmp_path / "7.png")
    captioned = [
        *CAPTIONED[:9],
        CaptionedImage("9.png", ()),
        CaptionedImage("../9.png", ("x",)),
        CaptionedImage("/9.png", ("x",)),
    ]
    path = write_jsonl(tmp_path / "a.jsonl", captioned, "t" * 12)
    for _ in range(2):  # the second time from the cache
        dataset = load_captions(path, image_size=8, validation=0, test=0)
        assert dataset.image_stats.counts == {
            "without captions": 1,
            "missing": 3,
            "unreadable": 2,
            "truncated": 1,
            "too large": 1,
            "grayscale": 1,
        }
        assert [i.name for i in dataset.images["train"]] == ["0.png", "5.png", "7.png", "8.png"]
        assert dataset.pixels["train"].shape == (4, 8, 8, 3)
        assert (dataset.pixels["train"][3] == (160, 95, 7)).all()
        assert "4 images; left out: 1 without captions (9.png), 3 missing (3.png, ../9.png, " in (
            dataset.image_stats.describe()
        )
        assert dataset.image_stats.describe().endswith("; converted: 1 grayscale (5.png)")


def test_damaged_archive_member_is_left_out(tmp_path: Path) -> None:
    archive = write_zip(tmp_path / "a.zip")
    raw = archive.read_bytes()
    k = raw.index(make_png(3)) + 40
    archive.write_bytes(raw[:k] + bytes([raw[k] ^ 1]) + raw[k + 1 :])
    dataset = load_captions(write_jsonl(tmp_path / "a.jsonl"), image_size=8)
    assert dataset.image_stats.counts == {"unreadable": 1}
    check_dataset(dataset)


def test_invalid_archives_are_rejected(tmp_path: Path) -> None:
    path = write_jsonl(tmp_path / "a.jsonl")
    evil = write_zip(tmp_path / "evil.zip", "../")
    with pytest.raises(UserError, match="leaves the folder"):
        load_captions(path, image_size=8, images=evil)
    evil.write_bytes(b"PK\x03\x04 and no more")
    with pytest.raises(UserError, match="a damaged archive"):
        load_captions(path, image_size=8, images=evil)
    with pytest.raises(UserError, match="not a zip archive"):
        load_captions(path, image_size=8, images=path)
    with pytest.raises(UserError, match="no such folder or zip archive"):
        load_captions(path, image_size=8, images=tmp_path / "none")
    evil.unlink()
    with pytest.raises(UserError, match="none of its images is in its folder"):
        load_captions(path, image_size=8)
    (tmp_path / "3.png").write_bytes(b"")
    with pytest.raises(UserError, match="no image is left to train on: 0 images; left out: "):
        load_captions(path, image_size=8)


def test_invalid_archive_beside_the_images_is_ignored(tmp_path: Path) -> None:
    write_images(tmp_path)
    (tmp_path / "junk.zip").write_bytes(b"no archive")
    file = write_jsonl(tmp_path / "captions.jsonl")
    assert sum(map(len, load_captions(file, image_size=16).images.values())) == 10
    for name in NAMES:
        (tmp_path / name).unlink()
    with pytest.raises(UserError, match=r"none of its images .* \(.*junk.zip: "):
        load_captions(file, image_size=16)


def test_disk_error_is_not_cached_as_an_issue_of_the_image(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write_images(tmp_path)
    file = write_jsonl(tmp_path / "captions.jsonl")
    read = images_module.read_bytes

    def faulty(path: Path, max_bytes: int) -> bytes:
        if path.name == "3.png":
            raise OSError(5, "Input/output error")
        return read(path, max_bytes)

    with monkeypatch.context() as patch:
        patch.setattr(images_module, "read_bytes", faulty)
        with pytest.raises(UserError, match=r"3\.png: Input/output error"):
            load_captions(file, image_size=16)
    assert load_captions(file, image_size=16).image_stats.names_by_issue == {}
