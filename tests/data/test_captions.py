"""Pictures with captions, out of every kind of file, with what is wrong with them."""

import gzip
import json
import os
import zipfile
from pathlib import Path

import numpy as np
import pytest
from picture_sets import NAMES, SAID, check, json_lines, png, put_pictures, put_zip
from PIL import Image

from workings.data.caption_files import CaptionedImage, read_caption_splits
from workings.data.captions import (
    CaptionDataset,
    list_caption_datasets,
    load_captions,
    load_test_captions,
    read_image,
)
from workings.data.datasets import cache_folder
from workings.data.images import ImageStore
from workings.data.scenes import draw_scene, generate_scenes
from workings.errors import UserError


@pytest.fixture(autouse=True)
def own_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.delenv("WORKINGS_DATA", raising=False)


def coco(path: Path, said: list[CaptionedImage] = SAID) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    images = [{"id": 100 + k, "file_name": p.name} for k, p in enumerate(said)]
    notes = [{"image_id": 100 + k, "caption": c} for k, p in enumerate(said) for c in p.captions]
    path.write_text(json.dumps({"info": {}, "images": images, "annotations": notes[::-1]}))
    return path


def lines_of(form: str) -> str:
    return "".join(
        form.format(name=p.name, k=k, caption=caption)
        for p in SAID
        for k, caption in enumerate(p.captions)
    )


TABLES = {
    "Flickr8k.token.txt": lines_of("{name}#{k}\t{caption} \r\n"),
    "results_20130124.token": lines_of("{name}#{k}\t{caption}\n"),
    "results.csv": "image_name| comment_number| comment\n" + lines_of("{name}| {k}| {caption}\n"),
    "bare.csv": lines_of("{name}|{k}|{caption}\n").replace("|1|", "| 1  "),  # a bar is missing
    "captions.txt": "image,caption\n" + lines_of('{name},"{caption}"\n'),
    "unquoted.txt": "image,caption\n" + lines_of("{name},{caption}\n"),
    "tabs.tsv": "image\tcaption\n" + lines_of("{name}\t{caption}\n"),
    "quoted.csv": '"image","caption"\n' + lines_of('"{name}","{caption}"\n'),
    "turned.csv": "caption,filename\n" + lines_of('"{caption}",{name}\n'),
    "three.csv": "image_name,comment_number,comment\n" + lines_of("{name},{k},{caption}\n"),
}


@pytest.mark.parametrize("name", TABLES)
def test_tables_of_captions(tmp_path: Path, name: str) -> None:
    (tmp_path / name).write_text(TABLES[name])
    assert read_caption_splits(tmp_path / name) == {"train": SAID}
    packed = tmp_path / f"{name}.gz"
    packed.write_bytes(gzip.compress(b"\xef\xbb\xbf" + TABLES[name].encode()))
    assert read_caption_splits(packed) == {"train": SAID}


def test_json_lines_tell_parts(tmp_path: Path) -> None:
    path = json_lines(tmp_path / "a.jsonl", splits="ttttddeeu")
    parts = read_caption_splits(path)
    assert parts == {
        "train": SAID[:4],
        "validation": SAID[4:6],
        "test": SAID[6:8],
        "unused": SAID[8:],
    }
    assert read_caption_splits(json_lines(tmp_path / "b.jsonl")) == {"train": SAID}


def test_cocos_json_and_its_two_files(tmp_path: Path) -> None:
    whole = read_caption_splits(coco(tmp_path / "a.json"))
    assert {p.name: set(p.captions) for p in whole["train"]} == {
        p.name: set(p.captions) for p in SAID
    }
    train = coco(tmp_path / "annotations" / "captions_train2017.json", SAID[:6])
    coco(tmp_path / "annotations" / "captions_val2017.json", SAID[6:])
    put_zip(tmp_path / "pictures.zip", "train2017/")
    both = load_captions(tmp_path, image_size=8, test=0.2)
    assert {part: len(some) for part, some in both.images.items()} == {
        "train": 5,
        "validation": 4,
        "test": 1,
    }
    coco(tmp_path / "annotations" / "captions_val2017.json", SAID[5:])
    with pytest.raises(UserError, match=r"val2017\.json: 5\.png is in captions_train2017"):
        read_caption_splits(train)


def test_flickrs_lists_of_names(tmp_path: Path) -> None:
    tokens = tmp_path / "Flickr8k.token.txt"
    tokens.write_text(TABLES[tokens.name])
    for part, names in {"train": NAMES[:5], "dev": NAMES[5:7], "test": NAMES[7:9]}.items():
        (tmp_path / f"Flickr_8k.{part}Images.txt").write_text("\n".join(names) + "\n")
    parts = read_caption_splits(tokens)
    assert parts["train"] == SAID[:5]
    assert parts["validation"] == SAID[5:7]
    assert parts["test"] == SAID[7:9]
    assert parts["unused"] == SAID[9:]


@pytest.mark.parametrize(
    ("name", "content", "told"),
    [
        ("a.txt", "", "empty: no captions"),
        ("a.txt", "just a text\n", "line 1: neither name#0<TAB>caption"),
        ("a.txt", "a.jpg#0\tone\nbroken\n", "line 2: not a picture and a caption"),
        ("a.txt", b"a.jpg#0\tcaf\xe9\n", "line 1: not UTF-8"),
        ("a.jsonl", "{}", "no column 'image'"),
        ("a.jsonl", '{"image": 1, "captions": []}', "'image' is not text"),
        ("a.jsonl", '{"image": "a", "captions": "one"}', "a list of texts"),
        ("a.jsonl", '{"image": "a", "captions": [7]}', "expected a text, got 7"),
        ("a.jsonl", '{"image": "a", "captions": ["\\ud800"]}', "half a character"),
        ("a.jsonl", '{"image": "a", "captions": ["x"], "split": 3}', "'split' is not text"),
        (
            "a.jsonl",
            '{"image": "a", "captions": ["x"], "split": "train"}\n'
            '{"image": "a", "captions": ["x"], "split": "test"}',
            "a: in two parts, 'train' and 'test'",
        ),
        ("a.json", "[]", "expected COCO's form"),
        ("a.json", "{", "not JSON"),
        ("a.json", "[" * 100_000, "not JSON"),
        ("a.json", '{"images": [], "annotations": []}', "empty: no captions"),
        ("a.json", '{"images": [{"id": []}], "annotations": []}', "image 1: no 'id'"),
        ("a.json", '{"images": [7], "annotations": []}', "image 1: no 'id'"),
        ("a.json", '{"images": [{"id": 1}], "annotations": []}', "image 1: expected a text"),
        ("a.json", '{"images": [], "annotations": [{"image_id": 5}]}', "no image 5 is listed"),
    ],
)
def test_what_is_wrong_with_a_file_of_captions(
    tmp_path: Path, name: str, content: str | bytes, told: str
) -> None:
    path = tmp_path / name
    path.write_bytes(content.encode() if isinstance(content, str) else content)
    with pytest.raises(UserError, match=told) as refused:
        read_caption_splits(path)
    assert len(str(refused.value).splitlines()) == 1


@pytest.mark.parametrize("where", ["beside", "below", "zip", "told folder", "told zip"])
def test_pictures_are_found(tmp_path: Path, where: str) -> None:
    captions, images = json_lines(tmp_path / "set" / "captions.jsonl"), None
    if where in ("beside", "below"):
        put_pictures(tmp_path / "set" / ("" if where == "beside" else "Images/deep"))
    elif where == "told folder":
        put_pictures(images := tmp_path / "elsewhere")
    else:
        place = "set/pictures.zip" if where == "zip" else "elsewhere.zip"
        put = put_zip(tmp_path / place, "some/folder/")
        zipfile.ZipFile(tmp_path / "set" / "a.zip", "w").close()  # which has none of them
        images = put if where == "told zip" else None
    for data in (captions, captions.parent):
        found = load_captions(data, image_size=8, validation=0.2, test=0.3, images=images)
        check(found)
        assert [len(found.images[part]) for part in ("train", "validation", "test")] == [5, 2, 3]
        assert found.image_stats.describe() == "10 pictures; none left out"
    all_of_it = load_test_captions(captions, image_size=8, images=images)
    assert all_of_it.images == {"test": tuple(SAID)}
    check(all_of_it)


def test_the_seed_holds_out_and_most_is_the_most(tmp_path: Path) -> None:
    path = json_lines(tmp_path / "a.jsonl")
    put_pictures(tmp_path)
    one, again, other = (load_captions(path, image_size=8, test=0.4, seed=s) for s in (1, 1, 2))
    assert one.images == again.images
    assert one.sha256 == again.sha256 != other.sha256
    assert one.images["test"] != other.images["test"]
    few = load_captions(path, image_size=8, test=0.4, seed=1, max_images=2)
    assert few.images["test"] == one.images["test"]
    assert len(few.images["train"]) == 2
    assert set(few.images["train"]) < set(one.images["train"])
    reversed_ = json_lines(tmp_path / "b.jsonl", SAID[::-1])
    there = load_captions(reversed_, image_size=8, test=0.4, seed=1)
    assert set(there.images["test"]) == set(one.images["test"])


def test_two_pictures_of_a_name_are_told_apart_by_their_folders(tmp_path: Path) -> None:
    for folder, k in (("a", 1), ("b", 2)):
        (tmp_path / folder).mkdir()
        (tmp_path / folder / "x.png").write_bytes(png(k))
    files = ImageStore(tmp_path)
    assert files.read("b/x.png") == png(2)
    assert "x.png" not in files


def test_pictures_are_decoded_once(tmp_path: Path) -> None:
    path = json_lines(tmp_path / "a.jsonl")
    put_pictures(tmp_path)
    calls: list[tuple[int, int]] = []

    def load(size: int = 8) -> CaptionDataset:
        calls.clear()
        return load_captions(path, image_size=size, progress=lambda *done: calls.append(done))

    first = load()
    assert calls == [(k, 10) for k in range(1, 11)]
    assert isinstance(first.pixels["train"].base, np.memmap)
    assert load().sha256 == first.sha256
    assert not calls
    load(size=9)
    assert len(calls) == 10
    (file,) = (
        f
        for f in (cache_folder() / "pictures").glob("*.uint8")
        if f.stat().st_size > 8 * 8 * 8 * 3 and f.stat().st_size < 8 * 9 * 9 * 3
    )
    whole = file.read_bytes()
    for damage in (whole[:-1], b"", whole[:50] + b"\0" + whole[51:], whole + whole):
        file.write_bytes(damage)
        assert load().sha256 == first.sha256
        assert len(calls) == 8
        assert file.read_bytes() == whole
    (tmp_path / "0.png").write_bytes(png(0, "L"))  # which is noticed
    assert load().image_stats.counts == {"grey": 1}


def test_scenes_are_drawn_and_captioned_alike() -> None:
    found = load_captions("scenes", image_size=16, max_images=12, seed=3)
    assert repr(found) == "CaptionSet('scenes': 12 train, 500 validation, 1,000 test)"
    for k, scene in zip(range(12), generate_scenes("train", 3), strict=False):
        assert found.images["train"][k].captions == (scene.caption,)
        assert np.array_equal(found.pixels["train"][k], draw_scene(scene, 16))
    test = load_test_captions("scenes", image_size=16, seed=3)
    assert test.images == {"test": found.images["test"]}
    assert np.array_equal(test.pixels["test"], found.pixels["test"])
    new = load_test_captions("scenes/combinations", image_size=16)
    assert list(new.images) == ["test"]
    assert new.pixels["test"].shape == (500, 16, 16, 3)
    with pytest.raises(UserError, match="no part 'combination': did you mean 'combinations'"):
        load_test_captions("scenes/combination")


def test_names_and_numbers_are_checked(tmp_path: Path) -> None:
    assert list_caption_datasets() == ("flickr8k", "scenes")
    for wrong, told in (
        ({"image_size": 0}, "from 1 to 1,024"),
        ({"validation": 0.5, "test": 0.5}, "nothing is left"),
        ({"max_images": 0}, "at least one"),
    ):
        with pytest.raises(UserError, match=told):
            load_captions("scenes", **wrong)
    with pytest.raises(UserError, match="no named set: did you mean 'scenes'"):
        load_captions("scense")
    with pytest.raises(UserError, match="no captions in it: expected"):
        load_captions(tmp_path)
    with pytest.raises(UserError, match=r"(?s)not on this machine.*put .*WORKINGS_DATA"):
        load_captions("flickr8k")


def test_flickr8k_itself(data: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    if not (data / "flickr8k").is_dir():
        pytest.skip("no flickr8k")
    monkeypatch.setenv("WORKINGS_DATA", str(data))
    test = load_test_captions("flickr8k", image_size=32)
    assert len(test.images["test"]) == 1000
    assert {len(picture.captions) for picture in test.images["test"]} == {5}
    first = test.images["test"][0]
    with zipfile.ZipFile(data / "flickr8k" / "images128.zip") as archive:
        (tmp_path / first.name).write_bytes(archive.read(first.name))
    assert np.array_equal(read_image(tmp_path / first.name, 32), test.pixels["test"][0])


def test_two_folders_alike_but_for_their_pixels_are_told_apart(tmp_path: Path) -> None:
    seen = []
    for colour in ("red", "blue"):
        folder = tmp_path / colour
        folder.mkdir()
        for name in NAMES:  # of one size, and of one time, as archives unpack them
            Image.new("RGB", (12, 10), colour).save(folder / name, "BMP")
            os.utime(folder / name, (10**9, 10**9))
        loaded = load_captions(json_lines(folder / "captions.jsonl"), image_size=8)
        seen.append(loaded.pixels["train"][0, 0, 0].tolist())
    assert seen == [[255, 0, 0], [0, 0, 255]]


def test_a_table_may_tell_parts(tmp_path: Path) -> None:
    table = tmp_path / "captions.csv"
    table.write_text('image,caption,split\na.jpg,"a dog, running",train\nb.jpg,a cat,dev\n')
    parts = read_caption_splits(table)
    assert parts["train"] == [CaptionedImage("a.jpg", ("a dog, running",))]
    assert parts["validation"] == [CaptionedImage("b.jpg", ("a cat",))]
    table.write_text("image,caption,split\na.jpg,a dog, running,train\n")
    with pytest.raises(UserError, match="line 2: not a picture and a caption"):
        read_caption_splits(table)


def test_pictures_may_lie_in_several_archives(tmp_path: Path) -> None:
    """As COCO's do: an archive for training, another for validation."""
    for name, some in (("train2017.zip", NAMES[:6]), ("val2017.zip", NAMES[6:])):
        with zipfile.ZipFile(tmp_path / name, "w") as archive:
            for picture in some:
                archive.writestr(f"{name[:-4]}/{picture}", png(NAMES.index(picture)))
    coco(tmp_path / "annotations" / "captions_train2017.json", SAID[:6])
    coco(tmp_path / "annotations" / "captions_val2017.json", SAID[6:])
    for images in (None, tmp_path):
        loaded = load_captions(tmp_path, image_size=8, images=images)
        assert loaded.image_stats.counts == {}
        assert len(loaded.images["validation"]) == 4


def test_without_a_test_part_all_of_a_file_is_tested_on(tmp_path: Path) -> None:
    put_pictures(tmp_path)
    file = json_lines(tmp_path / "captions.jsonl", splits="tttttddddu")
    found = load_test_captions(file, image_size=16)
    assert [p.name for p in found.images["test"]] == NAMES[:9]
    only = json_lines(tmp_path / "held.jsonl", SAID[:3], splits="ddd")
    assert len(load_test_captions(only, image_size=16).images["test"]) == 3
