"""Caption files in every format, and what is wrong with them."""

import gzip
from pathlib import Path

import pytest
from caption_sets import CAPTIONED, NAMES, write_coco, write_jsonl

from workings.data.caption_files import CaptionedImage, read_caption_splits
from workings.errors import UserError


def lines(template: str) -> str:
    return "".join(
        template.format(name=image.name, k=k, caption=caption)
        for image in CAPTIONED
        for k, caption in enumerate(image.captions)
    )


TABLES = {
    "Flickr8k.token.txt": lines("{name}#{k}\t{caption} \r\n"),
    "results_20130124.token": lines("{name}#{k}\t{caption}\n"),
    "results.csv": "image_name| comment_number| comment\n" + lines("{name}| {k}| {caption}\n"),
    "bare.csv": lines("{name}|{k}|{caption}\n").replace("|1|", "| 1  "),  # without the second bar
    "captions.txt": "image,caption\n" + lines('{name},"{caption}"\n'),
    "unquoted.txt": "image,caption\n" + lines("{name},{caption}\n"),
    "tabs.tsv": "image\tcaption\n" + lines("{name}\t{caption}\n"),
    "quoted.csv": '"image","caption"\n' + lines('"{name}","{caption}"\n'),
    "swapped.csv": "caption,filename\n" + lines('"{caption}",{name}\n'),
    "three.csv": "image_name,comment_number,comment\n" + lines("{name},{k},{caption}\n"),
}


@pytest.mark.parametrize("name", TABLES)
def test_tables(tmp_path: Path, name: str) -> None:
    (tmp_path / name).write_text(TABLES[name])
    assert read_caption_splits(tmp_path / name) == {"train": CAPTIONED}
    gzipped = tmp_path / f"{name}.gz"
    gzipped.write_bytes(gzip.compress(b"\xef\xbb\xbf" + TABLES[name].encode()))
    assert read_caption_splits(gzipped) == {"train": CAPTIONED}


def test_json_lines_with_and_without_splits(tmp_path: Path) -> None:
    path = write_jsonl(tmp_path / "a.jsonl", splits="ttttddeeu")
    assert read_caption_splits(path) == {
        "train": CAPTIONED[:4],
        "validation": CAPTIONED[4:6],
        "test": CAPTIONED[6:8],
        "unused": CAPTIONED[8:],
    }
    assert read_caption_splits(write_jsonl(tmp_path / "b.jsonl")) == {"train": CAPTIONED}


def test_coco_files(tmp_path: Path) -> None:
    splits = read_caption_splits(write_coco(tmp_path / "a.json"))
    assert {i.name: set(i.captions) for i in splits["train"]} == {
        i.name: set(i.captions) for i in CAPTIONED
    }
    train = write_coco(tmp_path / "annotations" / "captions_train2017.json", CAPTIONED[:6])
    write_coco(tmp_path / "annotations" / "captions_val2017.json", CAPTIONED[6:])
    splits = read_caption_splits(train)
    assert {split: len(images) for split, images in splits.items()} == {"train": 6, "validation": 4}
    write_coco(tmp_path / "annotations" / "captions_val2017.json", CAPTIONED[5:])
    with pytest.raises(UserError, match=r"val2017\.json: 5\.png is in captions_train2017"):
        read_caption_splits(train)


def test_lists_of_names_of_flickr8k(tmp_path: Path) -> None:
    tokens = tmp_path / "Flickr8k.token.txt"
    tokens.write_text(TABLES[tokens.name])
    for split, names in {"train": NAMES[:5], "dev": NAMES[5:7], "test": NAMES[7:9]}.items():
        (tmp_path / f"Flickr_8k.{split}Images.txt").write_text("\n".join(names) + "\n")
    assert read_caption_splits(tokens) == {
        "train": CAPTIONED[:5],
        "validation": CAPTIONED[5:7],
        "test": CAPTIONED[7:9],
        "unused": CAPTIONED[9:],
    }


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("a.txt", "", "empty: no captions"),
        ("a.txt", "just a text\n", "line 1: expected name#0<TAB>caption"),
        ("a.txt", "a.jpg#0\tone\nbroken\n", "line 2: expected an image and a caption"),
        ("a.txt", b"a.jpg#0\tcaf\xe9\n", "line 1: not UTF-8"),
        ("a.jsonl", "{}", "no column 'image'"),
        ("a.jsonl", '{"image": 1, "captions": []}', "'image' is not text"),
        ("a.jsonl", '{"image": "a", "captions": "one"}', "a list of texts"),
        ("a.jsonl", '{"image": "a", "captions": [7]}', "expected a text, got 7"),
        ("a.jsonl", '{"image": "a", "captions": ["\\ud800"]}', "unpaired surrogate"),
        ("a.jsonl", '{"image": "a", "captions": ["x"], "split": 3}', "'split' is not text"),
        (
            "a.jsonl",
            '{"image": "a", "captions": ["x"], "split": "train"}\n'
            '{"image": "a", "captions": ["x"], "split": "test"}',
            "a is in two splits, 'train' and 'test'",
        ),
        ("a.json", "[]", r"expected a JSON object, got \[\]"),
        ("a.json", "{}", "no list 'images': expected COCO's format"),
        ("a.json", "{", "not JSON"),
        ("a.json", "[" * 100_000, "not JSON"),
        ("a.json", '{"images": [], "annotations": []}', "empty: no captions"),
        ("a.json", '{"images": [{"id": []}], "annotations": []}', "image 1: expected 'id'"),
        ("a.json", '{"images": [7], "annotations": []}', "image 1: expected 'id'"),
        ("a.json", '{"images": [{"id": 1}], "annotations": []}', "image 1: expected a text"),
        (
            "a.json",
            '{"images": [], "annotations": [{"image_id": 5}]}',
            "image 5 is not in the list of images",
        ),
    ],
)
def test_invalid_files_are_rejected(
    tmp_path: Path, name: str, content: str | bytes, message: str
) -> None:
    path = tmp_path / name
    path.write_bytes(content.encode() if isinstance(content, str) else content)
    with pytest.raises(UserError, match=message) as error:
        read_caption_splits(path)
    assert len(str(error.value).splitlines()) == 1


def test_table_with_splits(tmp_path: Path) -> None:
    table = tmp_path / "captions.csv"
    table.write_text('image,caption,split\na.jpg,"a dog, running",train\nb.jpg,a cat,dev\n')
    assert read_caption_splits(table) == {
        "train": [CaptionedImage("a.jpg", ("a dog, running",))],
        "validation": [CaptionedImage("b.jpg", ("a cat",))],
    }
    table.write_text("image,caption,split\na.jpg,a dog, running,train\n")
    with pytest.raises(UserError, match="line 2: expected an image and a caption"):
        read_caption_splits(table)
